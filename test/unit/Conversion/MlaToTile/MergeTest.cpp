//===- MergeTest.cpp - merging partials and converting LSEs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of mla.md section 8, with its golden numbers.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Partial {
  std::vector<float> output, lse;
};

/// One case per token: 1 head, 3 values per row, all equal.
constexpr int64_t kWidth = 3;

Partial partial(const std::vector<std::pair<float, float>> &rows) {
  Partial result;
  for (auto [output, lse] : rows) {
    result.output.insert(result.output.end(), kWidth, output);
    result.lse.push_back(lse);
  }
  return result;
}

const std::string kTypes = R"(
!o = tensor<?x1x3xf32>
!lse = tensor<?x1xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
)";

Partial mergePartials(Partial a, Partial b) {
  auto steps = Steps::compile(kTypes + R"(
func.func @merge(%a: !o {mla.input = "a"}, %la: !lse {mla.input = "la"},
                 %b: !o {mla.input = "b"}, %lb: !lse {mla.input = "lb"})
    -> (!o {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %m, %lm = mla.merge %a, %la with %b, %lb : !o, !lse with !o, !lse -> !o, !lse
  return %m, %lm : !o, !lse
}
)");
  Partial result{std::vector<float>(a.output.size(), 7), std::vector<float>(a.lse.size(), 7)};
  if (steps)
    steps->run("merge", {{"num_tokens", a.lse.size()}},
               {{"a", a.output},
                {"la", a.lse},
                {"b", b.output},
                {"lb", b.lse},
                {"output", result.output},
                {"lse", result.lse}});
  return result;
}

void expectRow(const Partial &result, size_t row, float output, float lse) {
  for (int64_t i = 0; i < kWidth; ++i) {
    float got = result.output[row * kWidth + i];
    EXPECT_TRUE(std::isnan(output) ? std::isnan(got) : std::abs(got - output) < 1e-6f)
        << "row " << row << ": expected " << output << ", got " << got;
  }
  float got = result.lse[row];
  bool isSame = got == lse || std::abs(got - lse) < 1e-6f || (std::isnan(got) && std::isnan(lse));
  EXPECT_TRUE(isSame) << "row " << row << ": expected lse " << lse << ", got " << got;
}

// With erratum 7 of mla.md section 15: two empty partials gave NaN without a guard.
TEST(Merge, A32_MergeEdgeCases) {
  Partial result = mergePartials(partial({{1, 0},
                                          {kNan, -kInf},
                                          {5, kInf},
                                          {1, kNan},
                                          {3, 2},
                                          {kNan, kInf},
                                          {2, 1e4f},
                                          {4, -200}}),
                                 partial({{3, std::log(3.0f)},
                                          {3, 2},
                                          {6, -kInf},
                                          {2, 0},
                                          {kNan, -kInf},
                                          {1, -3},
                                          {8, -1e4f},
                                          {2, -200}}));
  expectRow(result, 0, 2.5f, std::log(4.0f)); // the golden cases
  expectRow(result, 1, 3, 2);                 // an empty partial's output may be NaN
  expectRow(result, 2, 0, -kInf);             // both empty, +inf counts as empty
  expectRow(result, 3, kNan, kNan);           // a NaN LSE is not masked
  expectRow(result, 4, 3, 2);
  expectRow(result, 5, 1, -3);
  expectRow(result, 6, 2, 1e4f); // weights that vanish in f32
  expectRow(result, 7, 3, -200 + std::log(2.0f));
}

TEST(Merge, MoreRowsThanATile) {
  std::vector<std::pair<float, float>> a, b;
  for (int i = 0; i < 37; ++i) {
    a.push_back({float(i), 0.1f * i});
    b.push_back({float(-i), 1.0f});
  }
  Partial result = mergePartials(partial(a), partial(b));
  for (int i = 0; i < 37; ++i) {
    double wa = std::exp(0.1 * i), wb = std::exp(1.0);
    EXPECT_NEAR(result.output[i * kWidth], i * (wa - wb) / (wa + wb), 1e-5 * (i + 1));
    EXPECT_NEAR(result.lse[i], std::log(wa + wb), 2e-6 * (1 + std::abs(result.lse[i])));
  }
}

TEST(Merge, A33_LoopOverPartialsIsInPlace) {
  auto steps = Steps::compile(kTypes + R"(
func.func @loop(%x: !o {mla.input = "x"}, %x_lse: !lse {mla.input = "x_lse"}, %batch: !mla.batch)
    -> (!o {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = mla.batch_dim %batch "num_chunks" : <query_len = ?>
  %e, %e_lse = mla.empty_partial %batch : <query_len = ?> -> !o, !lse
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %e, %a_lse = %e_lse) -> (!o, !lse) {
    %m, %m_lse = mla.merge %a, %a_lse with %x, %x_lse : !o, !lse with !o, !lse -> !o, !lse
    scf.yield %m, %m_lse : !o, !lse
  }
  return %r#0, %r#1 : !o, !lse
}
)");
  ASSERT_TRUE(steps);
  Partial x = partial({{5, 1}, {6, -kInf}});
  for (int64_t chunks : {0, 1, 4}) {
    // The result's buffer is what the loop carries; nothing of it may be read.
    Partial result = partial({{kNan, kNan}, {kNan, kNan}});
    steps->run("loop", {{"num_tokens", 2}, {"num_chunks", chunks}},
               {{"x", x.output}, {"x_lse", x.lse}, {"output", result.output}, {"lse", result.lse}});
    if (chunks == 0) {
      EXPECT_EQ(result.lse[0], -kInf);
      continue;
    }
    expectRow(result, 0, 5, 1 + std::log(float(chunks)));
    expectRow(result, 1, 0, -kInf);
  }
}

TEST(Merge, SplitsInAnyState) {
  auto steps = Steps::compile(kTypes + R"(
!so = tensor<?x?x1x3xf32>
!slse = tensor<?x?x1xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @merge_splits(%p: !so {mla.input = "p"}, %pl: !slse {mla.input = "pl"})
    -> (!o {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %m, %lm = mla.merge_splits %p, %pl : !so, !slse -> !o, !lse
  return %m, %lm : !o, !lse
}
)");
  // The number of splits is that of the operand, an input here: every dynamic
  // dimension of an input is num_tokens, so 3 splits of 3 tokens.
  ASSERT_TRUE(steps);
  Partial splits = partial({{1, 0},
                            {kNan, -kInf},
                            {2, 1}, //
                            {3, std::log(3.0f)},
                            {kNan, kInf},
                            {2, 1}, //
                            {kNan, -kInf},
                            {kNan, -kInf},
                            {2, kNan}});
  Partial result = partial({{7, 7}, {7, 7}, {7, 7}});
  steps->run(
      "merge_splits", {{"num_tokens", 3}},
      {{"p", splits.output}, {"pl", splits.lse}, {"output", result.output}, {"lse", result.lse}});
  expectRow(result, 0, 2.5f, std::log(4.0f));
  expectRow(result, 1, 0, -kInf);
  expectRow(result, 2, kNan, kNan);
}

TEST(ConvertLse, BaseLayoutAndEmptyRows) {
  auto steps = Steps::compile(R"(
!from = tensor<?x2xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!to = tensor<2x?xf32, #mla.lse<base = two, layout = head_major, empty = pos_inf>>
func.func @convert(%x: !from {mla.input = "x"}) -> (!to {mla.output = "y"}, !from {mla.output = "z"}) {
  %y = mla.convert_lse %x : !from -> !to
  %z = mla.convert_lse %y : !to -> !from
  return %y, %z : !to, !from
}
)");
  ASSERT_TRUE(steps);
  std::vector<float> x = {1, 2, -kInf, 4, 5, kNan}, y(6, 7), z(6, 7);
  steps->run("convert", {{"num_tokens", 3}}, {{"x", x}, {"y", y}, {"z", z}});
  float log2e = std::log2(std::exp(1.0f));
  EXPECT_FLOAT_EQ(y[0], 1 * log2e);
  EXPECT_EQ(y[1], kInf);
  EXPECT_FLOAT_EQ(y[2], 5 * log2e);
  EXPECT_FLOAT_EQ(y[3], 2 * log2e);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_FLOAT_EQ(z[0], 1);
  EXPECT_EQ(z[2], -kInf);
  EXPECT_TRUE(std::isnan(z[5]));
}

} // namespace
