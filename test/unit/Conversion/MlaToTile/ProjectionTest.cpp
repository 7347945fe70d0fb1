//===- ProjectionTest.cpp - products, norms and rotations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlac::test;

namespace {

using Floats = std::vector<float>;

TEST(Project, BiasAndPartsOfAWeight) {
  // Rows 1..2 of each of 3 heads of 4 rows; 7 columns; a bias on a second product.
  auto steps = Steps::compile(R"(
func.func @step(%x: tensor<?x7xf32> {mla.input = "x"}, %w: tensor<12x7xf32> {mla.weight = "w"},
                %v: tensor<5x6xf32> {mla.weight = "v"}, %b: tensor<5xf32> {mla.weight = "b"})
    -> (tensor<?x3x2xf32> {mla.output = "heads"}, tensor<?x5xf32> {mla.output = "y"}) {
  %e = tensor.expand_shape %w [[0, 1], [2]] output_shape [3, 4, 7] : tensor<12x7xf32> into tensor<3x4x7xf32>
  %s = tensor.extract_slice %e[0, 1, 0] [3, 2, 7] [1, 1, 1] : tensor<3x4x7xf32> to tensor<3x2x7xf32>
  %h = mla.project %x, %s : tensor<?x7xf32>, tensor<3x2x7xf32> -> tensor<?x3x2xf32>
  %y = mla.project %h, %v bias(%b : tensor<5xf32>) : tensor<?x3x2xf32>, tensor<5x6xf32> -> tensor<?x5xf32>
  return %h, %y : tensor<?x3x2xf32>, tensor<?x5xf32>
}
)");
  ASSERT_TRUE(steps);
  for (int64_t tokens : {1, 4, 5, 33}) { // both tile shapes, and a partial tile
    Floats x = randomVector<float>(tokens * 7, 1), w = randomVector<float>(84, 2),
           v = randomVector<float>(30, 3), b = randomVector<float>(5, 4);
    Floats heads(tokens * 6, 9), y(tokens * 5, 9);
    steps->run("step", {{"num_tokens", tokens}},
               {{"x", x}, {"w", w}, {"v", v}, {"b", b}, {"heads", heads}, {"y", y}});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int o = 0; o < 6; ++o) {
        double sum = 0;
        for (int i = 0; i < 7; ++i)
          sum += double(x[t * 7 + i]) * w[(o / 2 * 4 + 1 + o % 2) * 7 + i];
        ASSERT_NEAR(heads[t * 6 + o], sum, 1e-5);
      }
      for (int o = 0; o < 5; ++o) {
        double sum = b[o];
        for (int i = 0; i < 6; ++i)
          sum += double(heads[t * 6 + i]) * v[o * 6 + i];
        ASSERT_NEAR(y[t * 5 + o], sum, 1e-5);
      }
    }
  }
}

TEST(FoldedWeights, A06_A07_C06_EqualTheProducts) {
  auto steps = Steps::compile(R"(
func.func @prepare(%uq: tensor<2x3x6xf32> {mla.weight = "uq"}, %uk: tensor<2x3x5xf32> {mla.weight = "uk"},
                   %uv: tensor<2x4x5xf32> {mla.weight = "uv"}, %o: tensor<7x8xf32> {mla.weight = "o"})
    -> (tensor<2x5x6xf32> {mla.derived = "q"}, tensor<7x10xf32> {mla.derived = "vo"}) {
  %q = mla.fold_query %uq, %uk : tensor<2x3x6xf32>, tensor<2x3x5xf32> -> tensor<2x5x6xf32>
  %vo = mla.fold_output %uv, %o : tensor<2x4x5xf32>, tensor<7x8xf32> -> tensor<7x10xf32>
  return %q, %vo : tensor<2x5x6xf32>, tensor<7x10xf32>
}
)");
  ASSERT_TRUE(steps);
  Floats uq = randomVector<float>(36, 1), uk = randomVector<float>(30, 2),
         uv = randomVector<float>(40, 3), o = randomVector<float>(56, 4), q(60, 9), vo(70, 9);
  steps->run("prepare", {}, {{"uq", uq}, {"uk", uk}, {"uv", uv}, {"o", o}, {"q", q}, {"vo", vo}});
  for (int n = 0; n < 2; ++n)
    for (int l = 0; l < 5; ++l) {
      for (int i = 0; i < 6; ++i) {
        double sum = 0;
        for (int p = 0; p < 3; ++p)
          sum += double(uk[(n * 3 + p) * 5 + l]) * uq[(n * 3 + p) * 6 + i];
        EXPECT_NEAR(q[(n * 5 + l) * 6 + i], sum, 1e-6);
      }
      for (int h = 0; h < 7; ++h) {
        double sum = 0;
        for (int v = 0; v < 4; ++v)
          sum += double(o[h * 8 + n * 4 + v]) * uv[(n * 4 + v) * 5 + l];
        EXPECT_NEAR(vo[h * 10 + n * 5 + l], sum, 1e-6);
      }
    }
}

TEST(RmsNorm, WiderThanATileWithMultiplier) {
  auto steps = Steps::compile(R"(
func.func @norm(%x: tensor<?x1000xbf16> {mla.input = "x"}, %g: tensor<1000xbf16> {mla.weight = "g"})
    -> (tensor<?x1000xbf16> {mla.output = "y"}) {
  %y = mla.rms_norm %x, %g eps 1.0e-2 {multiplier = 3.0 : f64} : tensor<?x1000xbf16>, tensor<1000xbf16> -> tensor<?x1000xbf16>
  return %y : tensor<?x1000xbf16>
}
)");
  ASSERT_TRUE(steps);
  auto x = randomVector<Bf16>(3000, 1), g = randomVector<Bf16>(1000, 2);
  std::vector<Bf16> y(3000);
  steps->run("norm", {{"num_tokens", 3}}, {{"x", x}, {"g", g}, {"y", y}});
  for (int t = 0; t < 3; ++t) {
    double squares = 0;
    for (int i = 0; i < 1000; ++i)
      squares += double(x[t * 1000 + i]) * x[t * 1000 + i];
    for (int i = 0; i < 1000; ++i) {
      double expected = 3 * x[t * 1000 + i] * g[i] / std::sqrt(squares / 1000 + 1e-2);
      // One rounding to bf16: half a unit in the last of 8 bits.
      ASSERT_NEAR(y[t * 1000 + i], expected, std::abs(expected) / 256 + 1e-30);
    }
  }
}

/// Rotates by the positions and back; `order` is interleaved or half.
void checkRope(const std::string &order, bool hasHeads) {
  auto steps = Steps::compile(substitute(R"(
!x = tensor<?x$headsx6xf32>
func.func @rope(%x: !x {mla.input = "x"}, %batch: !mla.batch)
    -> (!x {mla.output = "y"}, !x {mla.output = "z"}) {
  %table = mla.rope_table <order = $order, dim = 6, theta = 1.0e4, length = 16> : tensor<?x6xf32>
  %y = mla.rope %x, %table, %batch with <order = $order, dim = 6, theta = 1.0e4, length = 16> : !x, tensor<?x6xf32>, <query_len = ?>
  %z = mla.rope %y, %table, %batch with <order = $order, dim = 6, theta = 1.0e4, length = 16> inverse : !x, tensor<?x6xf32>, <query_len = ?>
  return %y, %z : !x, !x
}
)",
                                         {{"headsx", hasHeads ? "5x" : ""}, {"order", order}}));
  ASSERT_TRUE(steps);
  int64_t tokens = 3, heads = hasHeads ? 5 : 1, rows = tokens * heads;
  std::vector<int64_t> positions = {15, 0, 7};
  Floats x = randomVector<float>(rows * 6, 1), y(rows * 6, 9), z(rows * 6, 9), table(16 * 6);
  auto angle = [](int64_t position, int pair) { return position * std::pow(1e4, -pair / 3.0); };
  for (int64_t position = 0; position < 16; ++position)
    for (int pair = 0; pair < 3; ++pair) {
      table[position * 6 + pair] = std::cos(angle(position, pair));
      table[position * 6 + 3 + pair] = std::sin(angle(position, pair));
    }
  steps->run("rope", {{"num_tokens", tokens}, {"rope_length", 16}},
             {{"x", x}, {"y", y}, {"z", z}, {"rope_table", table}, {"positions", positions}});
  for (int64_t row = 0; row < rows; ++row)
    for (int pair = 0; pair < 3; ++pair) {
      bool isInterleaved = order == "interleaved";
      int64_t a = row * 6 + (isInterleaved ? 2 * pair : pair);
      int64_t b = row * 6 + (isInterleaved ? 2 * pair + 1 : pair + 3);
      double phi = angle(positions[row / heads], pair);
      EXPECT_NEAR(y[a], x[a] * std::cos(phi) - x[b] * std::sin(phi), 1e-6);
      EXPECT_NEAR(y[b], x[a] * std::sin(phi) + x[b] * std::cos(phi), 1e-6);
      EXPECT_NEAR(z[a], x[a], 1e-6);
      EXPECT_NEAR(z[b], x[b], 1e-6);
    }
}

TEST(Rope, A18_InterleavedTokens) { checkRope("interleaved", false); }
TEST(Rope, A18_InterleavedHeads) { checkRope("interleaved", true); }
TEST(Rope, A18_HalfTokens) { checkRope("half", false); }
TEST(Rope, A18_HalfHeads) { checkRope("half", true); }

} // namespace
