//===- TopKTest.cpp - the largest scores of each row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mla.top_k on the CPU against a stable sort, entry by entry: B07 (any K up to 4096), B40
// (rows of fewer than K, and of none).
//
//===----------------------------------------------------------------------===//

#include "../../Select/Rows.h"
#include "PlanRunner.h"

#include "gtest/gtest.h"

using namespace mlac::test;

namespace {

constexpr int32_t kPoison = 0x5a5a5a5a;

std::unique_ptr<Steps> compileSteps(int64_t k) {
  return Steps::compile(substitute(R"(
func.func @given(%s: tensor<?x?xf32> {mla.input = "scores"}, %l: tensor<?xi32> {mla.input = "lengths"}, %batch: !mla.batch)
    -> (tensor<?x$Kxi32> {mla.output = "positions"}) {
  %0 = mla.top_k %s lengths(%l : tensor<?xi32>) over %batch k $K : tensor<?x?xf32>, !mla.batch -> tensor<?x$Kxi32>
  return %0 : tensor<?x$Kxi32>
}
func.func @step(%s: tensor<?x?xf32> {mla.input = "scores"}, %batch: !mla.batch)
    -> (tensor<?x$Kxi32> {mla.output = "positions"}) {
  %0 = mla.top_k %s over %batch k $K : tensor<?x?xf32>, !mla.batch -> tensor<?x$Kxi32>
  return %0 : tensor<?x$Kxi32>
}
)",
                                   {{"K", std::to_string(k)}}));
}

using Table = std::vector<std::vector<int32_t>>;

/// The rows of a result [rows, k].
Table splitRows(const std::vector<int32_t> &flat, int64_t k) {
  Table rows;
  for (size_t at = 0; at < flat.size(); at += k)
    rows.emplace_back(flat.begin() + at, flat.begin() + at + k);
  return rows;
}

/// All lengths of one kind of row, in one launch; twice.
void checkKind(Steps &steps, RowKind kind, int64_t k, int64_t columns) {
  std::vector<int64_t> lengths = interestingLengths(k, columns);
  auto rows = static_cast<int64_t>(lengths.size());
  std::vector<float> scores = makeScores(kind, rows * columns, k);
  std::vector<int32_t> given(lengths.begin(), lengths.end());
  Table results[2];
  for (Table &result : results) {
    std::vector<int32_t> positions(rows * k, kPoison);
    steps.run("given", {{"num_tokens", rows}, {"max_seq_len", columns}},
              {{"scores", scores}, {"lengths", given}, {"positions", positions}});
    result = splitRows(positions, k);
  }
  EXPECT_EQ(results[0], results[1]);
  for (int64_t row = 0; row < rows; ++row)
    ASSERT_EQ(results[0][row], sortedTopK(&scores[row * columns], lengths[row], k))
        << "kind " << static_cast<int>(kind) << ", k " << k << ", length " << lengths[row];
}

TEST(TopK, B07_B40_AgainstAStableSort) {
  for (int64_t k : {1, 7, 64, 512, 1000, 2048, 4096}) {
    auto steps = compileSteps(k);
    ASSERT_TRUE(steps);
    for (RowKind kind : kRowKinds)
      checkKind(*steps, kind, k, 2 * k + 1001);
  }
}

TEST(TopK, B07_LongRow) {
  auto steps = compileSteps(2048);
  ASSERT_TRUE(steps);
  checkKind(*steps, RowKind::Gaussian, 2048, 131072);
}

TEST(TopK, B07_LengthsOutsideOfTheRowAreItsEnds) {
  auto steps = compileSteps(2);
  ASSERT_TRUE(steps);
  std::vector<float> scores = {1, 5, 3, 1, 5, 3, 1, 5, 3};
  std::vector<int32_t> lengths = {-3, 1000, 3}, positions(6, kPoison);
  steps->run("given", {{"num_tokens", 3}, {"max_seq_len", 3}},
             {{"scores", scores}, {"lengths", lengths}, {"positions", positions}});
  EXPECT_EQ(positions, (std::vector<int32_t>{-1, -1, 1, 2, 1, 2}));
}

/// Requests of 1, 3 and 0 new tokens behind 4, 0 and 9 cached ones, and two rows of padding.
TEST(TopK, B07_B40_LengthsOfTheBatch) {
  constexpr int64_t columns = 9, k = 3;
  auto steps = compileSteps(k);
  ASSERT_TRUE(steps);
  std::vector<int32_t> starts = {0, 1, 4, 4}, seqLens = {5, 3, 9}, requests = {0, 1, 1, 1, 0, 0};
  std::vector<float> scores = makeScores(RowKind::Falling, 6 * columns, 1);
  for (int64_t s = 0; s < columns; ++s) // the first row rises: its last positions win
    scores[s] = static_cast<float>(s);
  std::vector<int32_t> positions(6 * k, kPoison);
  steps->run("step", {{"num_tokens", 6}, {"num_requests", 3}, {"max_seq_len", columns}},
             {{"scores", scores},
              {"query_start_loc", starts},
              {"seq_lens", seqLens},
              {"req_id_per_token", requests},
              {"positions", positions}});
  EXPECT_EQ(splitRows(positions, k),
            (Table{{2, 3, 4}, {0, -1, -1}, {0, 1, -1}, {0, 1, 2}, {-1, -1, -1}, {-1, -1, -1}}));
}

/// Slices of four tokens, each over the same memory of scores, with a last one of two.
TEST(TopK, V4_48_SlicesOfTheTokens) {
  constexpr int64_t columns = 9, k = 3, tokens = 10;
  auto steps = Steps::compile(R"(
func.func @sliced(%s: tensor<4x?xf32> {mla.input = "scores"}, %l: tensor<?xi32> {mla.input = "lengths"}, %batch: !mla.batch)
    -> (tensor<?x3xi32> {mla.output = "positions"}) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %tokens = mla.batch_dim %batch "num_tokens" : !mla.batch
  %none = tensor.empty(%tokens) : tensor<?x3xi32>
  %slices = arith.ceildivsi %tokens, %four : index
  %all = scf.for %slice = %zero to %slices step %one iter_args(%before = %none) -> tensor<?x3xi32> {
    %first = arith.muli %slice, %four : index
    %next = mla.top_k %s lengths(%l : tensor<?xi32>) over %batch from %first onto(%before : tensor<?x3xi32>) k 3
      : tensor<4x?xf32>, !mla.batch -> tensor<?x3xi32>
    scf.yield %next : tensor<?x3xi32>
  }
  return %all : tensor<?x3xi32>
}
)");
  ASSERT_TRUE(steps);
  std::vector<float> scores = makeScores(RowKind::Gaussian, 4 * columns, 1);
  std::vector<int32_t> lengths = {9, 0, 2, 8, 5, 9, 1, 3, 4, 7}, positions(tokens * k, kPoison);
  steps->run("sliced", {{"num_tokens", tokens}, {"max_seq_len", columns}},
             {{"scores", scores}, {"lengths", lengths}, {"positions", positions}});
  Table rows = splitRows(positions, k);
  for (int64_t t = 0; t < tokens; ++t)
    EXPECT_EQ(rows[t], sortedTopK(&scores[t % 4 * columns], lengths[t], k)) << t;
}

/// A request of a padded step may have fewer tokens than rows say: no length is negative.
TEST(TopK, B40_EmptyRequestsHaveNoKeys) {
  auto steps = compileSteps(2);
  ASSERT_TRUE(steps);
  std::vector<int32_t> starts = {0, 2}, seqLens = {0}, requests = {0, 0}, positions(4, kPoison);
  std::vector<float> scores = {1, 2, 3, 4};
  steps->run("step", {{"num_tokens", 2}, {"num_requests", 1}, {"max_seq_len", 2}},
             {{"scores", scores},
              {"query_start_loc", starts},
              {"seq_lens", seqLens},
              {"req_id_per_token", requests},
              {"positions", positions}});
  EXPECT_EQ(positions, (std::vector<int32_t>{-1, -1, -1, -1}));
}

} // namespace
