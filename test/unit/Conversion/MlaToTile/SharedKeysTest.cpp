//===- SharedKeysTest.cpp - what DeepSeek-V4's layers are made of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention over the rows of two pools under one softmax, and rotation there and back, each against
// sums in double (v4.md sections 2 and 9). Rows that no valid entry names hold NaN; entries behind
// a length name such, or none.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kTolerance = 1e-5;

//===----------------------------------------------------------------------===//
// Two pools
//===----------------------------------------------------------------------===//

constexpr int64_t kHeads = 6, kWidth = 24, kTokens = 12, kPages = 4;
constexpr double kScale = 0.3;

/// One scope: its pool, and of each token a list of rows.
struct Scope {
  int64_t page, entries;
  std::vector<float> memory = {};
  std::vector<int32_t> lists = {}, lengths = {};

  int64_t countRows() const { return kPages * page; }

  /// Every third token has nothing; a fifth of the others' entries is invalid.
  void fill(std::mt19937 &random) {
    constexpr int32_t kHostile[] = {std::numeric_limits<int32_t>::min(), -1,
                                    std::numeric_limits<int32_t>::max()};
    memory.assign((countRows() + 1) * kWidth, kNan);
    for (int64_t t = 0; t < kTokens; ++t) {
      lengths.push_back(t % 3 == 1 ? 0 : static_cast<int32_t>(random() % (entries + 1)));
      for (int64_t k = 0; k < entries; ++k) {
        bool isInvalid = random() % 5 == 0 || k >= lengths[t];
        int32_t row = static_cast<int32_t>(random() % countRows());
        lists.push_back(isInvalid ? kHostile[random() % 3] : row);
        if (!isInvalid)
          fillRow(row, random);
      }
    }
  }
  void fillRow(int64_t row, std::mt19937 &random) {
    for (int64_t i = 0; i < kWidth; ++i)
      memory[row * kWidth + i] = static_cast<float>(random() % 2001) / 1000.0F - 1;
  }
};

std::string moduleOf(const Scope &near, const Scope &far, bool hasSink) {
  return substitute(R"(
!q = tensor<?x$Nx$Dxf32>
!lse = tensor<?x$Nxf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!near = !mla.cache<page_size = $NEAR, fields = [latent: $D], element = f32, rope_order = half>
!far = !mla.cache<page_size = $FAR, fields = [latent: $D], element = f32, rope_order = half, tokens_per_row = 4>
func.func @step(%q: !q {mla.input = "q"}, %sink: tensor<$Nxf32> {mla.input = "sink"},
                %rows: tensor<?x$WNxi32> {mla.input = "rows"}, %len: tensor<?xi32> {mla.input = "lengths"},
                %others: tensor<?x$WFxi32> {mla.input = "others"}, %count: tensor<?xi32> {mla.input = "counts"},
                %batch: !mla.batch, %near: !near, %far: !far {mla.pool = "far"})
    -> (!q {mla.output = "output"}, !lse {mla.output = "lse"}) {
  %o, %lse = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x$WNxi32>) lengths(%len : tensor<?xi32>)
      $SINK over %near, %batch : !near, !mla.batch
      beside(%others, %count, %far : tensor<?x$WFxi32>, tensor<?xi32>, !far) scale 0.3 -> !q lse !lse
  return %o, %lse : !q, !lse
})",
                    {{"SINK", hasSink ? "sink(%sink : tensor<$Nxf32>)" : ""},
                     {"NEAR", std::to_string(near.page)},
                     {"FAR", std::to_string(far.page)},
                     {"WN", std::to_string(near.entries)},
                     {"WF", std::to_string(far.entries)},
                     {"D", std::to_string(kWidth)},
                     {"N", std::to_string(kHeads)}});
}

struct Expected {
  std::vector<double> output = std::vector<double>(kWidth, 0);
  double lse = -kInf;
};

/// The keys of both scopes as one list.
Expected reference(std::initializer_list<const Scope *> scopes, int64_t token, const float *query,
                   float sink) {
  std::vector<std::pair<double, const float *>> keys;
  double largest = -kInf, sum = 0;
  for (const Scope *scope : scopes)
    for (int64_t k = 0; k < scope->lengths[token]; ++k) {
      int32_t index = scope->lists[token * scope->entries + k];
      if (index < 0 || index >= scope->countRows())
        continue;
      const float *row = &scope->memory[index * kWidth];
      double score = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        score += kScale * double(row[i]) * query[i];
      keys.push_back({score, row});
      largest = std::max(largest, score);
    }
  Expected result;
  if (keys.empty())
    return result;
  for (auto [score, row] : keys)
    sum += std::exp(score - largest);
  result.lse = largest + std::log(sum);
  for (auto [score, row] : keys)
    for (int64_t i = 0; i < kWidth; ++i)
      result.output[i] += std::exp(score - result.lse) / (1 + std::exp(sink - result.lse)) * row[i];
  return result;
}

/// `sinks`: those of the heads; empty: none.
void check(int64_t nearPage, int64_t farPage, const std::vector<float> &sinks, unsigned seed) {
  std::mt19937 random(seed);
  Scope near{nearPage, 21}, far{farPage, 70};
  near.fill(random);
  far.fill(random);
  auto steps = Steps::compile(moduleOf(near, far, !sinks.empty()));
  ASSERT_TRUE(steps);
  auto query = randomVector<float>(kTokens * kHeads * kWidth, seed + 1);
  std::vector<float> given = sinks.empty() ? std::vector<float>(kHeads, kNan) : sinks;
  std::vector<float> output(query.size(), kNan), lse(kTokens * kHeads, kNan);
  steps->run("step",
             {{"num_tokens", kTokens},
              {"num_pages", kPages},
              {"page_stride", nearPage * kWidth},
              {"far/num_pages", kPages},
              {"far/page_stride", farPage * kWidth}},
             {{"q", query},
              {"sink", given},
              {"rows", near.lists},
              {"lengths", near.lengths},
              {"others", far.lists},
              {"counts", far.lengths},
              {"cache", near.memory},
              {"far", far.memory},
              {"output", output},
              {"lse", lse}});
  int64_t empty = 0;
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    float sink = sinks.empty() ? -kInf : sinks[row % kHeads];
    Expected expected = reference({&near, &far}, row / kHeads, &query[row * kWidth], sink);
    empty += std::isinf(expected.lse);
    if (std::isinf(expected.lse))
      ASSERT_EQ(lse[row], -kInf) << "row " << row;
    else
      ASSERT_NEAR(lse[row], expected.lse, kTolerance) << "row " << row;
    for (int64_t i = 0; i < kWidth; ++i)
      ASSERT_NEAR(output[row * kWidth + i], expected.output[i], kTolerance)
          << "row " << row << ", column " << i;
  }
  EXPECT_GE(empty, kTokens / 3 * kHeads); // of which neither scope has anything
}

TEST(SharedKeys, V4_27_V4_30_TwoPoolsAreOneList) {
  check(64, 64, {}, 1);
  check(64, 2, {}, 2);
  check(61, 69, {}, 3);
}

/// Of an empty set the output is 0, whatever the sink; no log-sum-exp knows of it.
TEST(SharedKeys, V4_28_V4_30_SinksOfEveryKind) {
  check(16, 8, {0.5F, -kInf, kInf, -3, 40, -40}, 4);
}

//===----------------------------------------------------------------------===//
// Rotation
//===----------------------------------------------------------------------===//

/// There, and there and back.
std::vector<std::vector<float>> rotate(const std::string &order, const std::vector<float> &rows,
                                       int64_t tokens, std::vector<float> table,
                                       std::vector<int64_t> positions) {
  auto steps = Steps::compile(substitute(R"(
!x = tensor<?x2x512xf32>
func.func @turn(%x: !x {mla.input = "x"}, %batch: !mla.batch) -> (!x {mla.output = "there"}, !x {mla.output = "back"}) {
  %table = mla.rope_table <order = $ORDER, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xf32>
  %0 = mla.rope %x, %table, %batch with <order = $ORDER, dim = 64, theta = 1.0e4, length = 4096> offset 448
      : !x, tensor<?x64xf32>, !mla.batch
  %1 = mla.rope %0, %table, %batch with <order = $ORDER, dim = 64, theta = 1.0e4, length = 4096> offset 448 inverse
      : !x, tensor<?x64xf32>, !mla.batch
  return %0, %1 : !x, !x
})",
                                         {{"ORDER", order}}));
  if (!steps)
    return {};
  std::vector<float> x = rows, there(rows.size(), kNan), back(rows.size(), kNan);
  steps->run("turn", {{"num_tokens", tokens}, {"rope_length", int64_t(table.size()) / 64}},
             {{"x", x},
              {"there", there},
              {"back", back},
              {"rope_table", table},
              {"positions", positions}});
  return {there, back};
}

/// cos and sin of 4096 positions.
std::vector<float> makeTable() {
  std::vector<float> table(4096 * 64);
  for (int64_t p = 0; p < 4096; ++p)
    for (int64_t i = 0; i < 32; ++i) {
      double angle = double(p) * std::pow(1e4, -double(i) / 32);
      table[p * 64 + i] = static_cast<float>(std::cos(angle));
      table[p * 64 + 32 + i] = static_cast<float>(std::sin(angle));
    }
  return table;
}

TEST(SharedKeys, V4_03_NeighboursTurnThereAndBack) {
  constexpr int64_t tokens = 5, rows = 2 * tokens;
  std::vector<int64_t> positions = {0, 1, 127, 2048, 4095};
  std::vector<float> x = randomVector<float>(rows * 512, 5), table = makeTable();
  auto turned = rotate("interleaved", x, tokens, table, positions);
  auto halves = rotate("half", x, tokens, table, positions);
  ASSERT_EQ(turned.size(), 2u);
  ASSERT_EQ(halves.size(), 2u);
  double farthest = 0;
  for (int64_t at = 0; at < rows * 512; ++at) {
    int64_t column = at % 512, position = positions[at / 512 / 2];
    double expected = x[at];
    if (column >= 448) {
      double angle = double(position) * std::pow(1e4, -double((column - 448) / 2) / 32);
      bool isSecond = column % 2 == 1;
      double other = isSecond ? x[at - 1] : -x[at + 1];
      expected = x[at] * std::cos(angle) + other * std::sin(angle);
    } else {
      ASSERT_EQ(turned[0][at], x[at]);
    }
    ASSERT_NEAR(turned[0][at], expected, 1e-6);
    ASSERT_NEAR(turned[1][at], x[at], 1e-6);
    farthest = std::max(farthest, std::abs(halves[0][at] - expected));
  }
  EXPECT_GT(farthest, 0.1); // other pairs are not mistaken for these
}

} // namespace
