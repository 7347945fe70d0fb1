//===- BatchOrderTest.cpp - decodes in front of prefills --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mla.md section 10 through mla_batch_arrange.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace mlac::test;

namespace {
struct Arranged {
  std::vector<int64_t> order;
  mla_batch_split split = {};
};
} // namespace

static Arranged arrange(const std::vector<int32_t> &queryLens, int64_t threshold,
                        uint32_t flags = 0) {
  Arranged result;
  result.order.resize(queryLens.size());
  EXPECT_EQ(mla_batch_arrange(queryLens.data(), static_cast<int64_t>(queryLens.size()), threshold,
                              flags, result.order.data(), &result.split),
            MLA_OK)
      << mla_last_error();
  return result;
}

static mla_batch_split splitInPlace(const std::vector<int32_t> &queryLens, int64_t threshold,
                                    uint32_t flags = 0) {
  mla_batch_split split = {};
  EXPECT_EQ(mla_batch_arrange(queryLens.data(), static_cast<int64_t>(queryLens.size()), threshold,
                              flags, nullptr, &split),
            MLA_OK)
      << mla_last_error();
  return split;
}

static void expectSplit(const mla_batch_split &split, int64_t decodes, int64_t prefills,
                        int64_t decodeTokens, int64_t prefillTokens) {
  EXPECT_EQ(split.num_decodes, decodes);
  EXPECT_EQ(split.num_prefills, prefills);
  EXPECT_EQ(split.num_decode_tokens, decodeTokens);
  EXPECT_EQ(split.num_prefill_tokens, prefillTokens);
}

TEST(BatchOrder, A34_LastDecodesChangePlacesWithFirstPrefills) {
  // Decodes at 1, 2 and 4 belong into [0, 3): 4 <-> 0, and 2 stays.
  Arranged one = arrange({7, 1, 1, 5, 1}, 1);
  EXPECT_EQ(one.order, (std::vector<int64_t>{4, 1, 2, 3, 0}));
  EXPECT_EQ(one.split.num_swaps, 1);
  expectSplit(one.split, 3, 2, 3, 12);
  // The largest decode goes to the smallest prefill: 5 <-> 0, 4 <-> 1.
  Arranged two = arrange({9, 8, 1, 6, 1, 1}, 1);
  EXPECT_EQ(two.order, (std::vector<int64_t>{5, 4, 2, 3, 1, 0}));
  EXPECT_EQ(two.split.num_swaps, 2);
}

TEST(BatchOrder, A34_WhatIsInOrderStays) {
  for (const std::vector<int32_t> &lens : std::vector<std::vector<int32_t>>{
           {}, {1}, {5}, {1, 1, 1}, {4, 9}, {1, 1, 7, 2}, {0, 1, 2, 2}}) {
    Arranged result = arrange(lens, 1);
    std::vector<int64_t> same(lens.size());
    std::iota(same.begin(), same.end(), 0);
    EXPECT_EQ(result.order, same);
    EXPECT_EQ(result.split.num_swaps, 0);
  }
}

TEST(BatchOrder, A34_RandomBatchesTakeTheFewestSwaps) {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> lens(random() % 12);
    for (int32_t &length : lens)
      length = static_cast<int32_t>(random() % 4);
    auto threshold = static_cast<int64_t>(random() % 3);
    auto isDecode = [&](int32_t length) { return length <= threshold; };
    int64_t decodes = std::ranges::count_if(lens, isDecode);
    // A swap mends one decode at most, so fewer than the misplaced ones cannot do.
    int64_t misplaced = std::count_if(lens.begin() + decodes, lens.end(), isDecode);
    Arranged result = arrange(lens, threshold);
    EXPECT_EQ(result.split.num_swaps, misplaced);
    EXPECT_EQ(result.split.num_decodes, decodes);
    EXPECT_EQ(result.split.num_decodes + result.split.num_prefills,
              static_cast<int64_t>(lens.size()));
    int64_t moved = 0;
    for (size_t i = 0; i < lens.size(); ++i) {
      int64_t from = result.order[i];
      EXPECT_EQ(isDecode(lens[from]), static_cast<int64_t>(i) < decodes);
      EXPECT_EQ(result.order[from], static_cast<int64_t>(i)) << "not its own inverse";
      moved += from != static_cast<int64_t>(i);
    }
    EXPECT_EQ(moved, 2 * misplaced);
  }
}

TEST(BatchOrder, A35_ThresholdCountsSpeculativeTokens) {
  std::vector<int32_t> lens = {4, 1, 5, 3, 2};
  expectSplit(arrange(lens, 1).split, 1, 4, 1, 14); // the reference: exactly one token
  expectSplit(arrange(lens, 4).split, 4, 1, 10, 5); // three speculative tokens
  expectSplit(arrange(lens, 0).split, 0, 5, 0, 15);
  EXPECT_EQ(arrange(lens, 4).order, (std::vector<int64_t>{0, 1, 4, 3, 2}));
}

TEST(BatchOrder, B23_SplitWithoutMovingStopsAtTheFirstPrefill) {
  expectSplit(splitInPlace({1, 1, 6, 1}, 1), 2, 2, 2, 7);
  expectSplit(splitInPlace({3, 1, 1}, 1), 0, 3, 0, 5);
  expectSplit(splitInPlace({}, 1), 0, 0, 0, 0);
}

TEST(BatchOrder, B23_UniformDecodesHaveTheLengthOfTheFirst) {
  // The longest prefix with the first length; short ones behind it are prefills.
  expectSplit(splitInPlace({2, 2, 1, 2, 8}, 3, MLA_REQUIRE_UNIFORM), 2, 3, 4, 11);
  expectSplit(splitInPlace({2, 2, 1, 2, 8}, 3), 4, 1, 7, 8);
  // The first is no decode: nothing is.
  expectSplit(splitInPlace({4, 2, 2}, 3, MLA_REQUIRE_UNIFORM), 0, 3, 0, 8);
  // Empty requests pad a batch that is uniform otherwise, and no other.
  expectSplit(splitInPlace({2, 2, 0, 0}, 3, MLA_REQUIRE_UNIFORM), 4, 0, 4, 0);
  expectSplit(splitInPlace({2, 0, 2, 1}, 3, MLA_REQUIRE_UNIFORM), 1, 3, 2, 3);
}

TEST(BatchOrder, BadArgumentsAreRefused) {
  int32_t lens[] = {1, -2};
  int64_t order[2] = {7, 7};
  mla_batch_split split = {};
  expectStatus(mla_batch_arrange(lens, 2, 1, 0, order, &split), MLA_INVALID_ARGUMENT,
               "request 1: query length -2");
  EXPECT_EQ(order[0], 7);
  lens[1] = 2;
  expectStatus(mla_batch_arrange(lens, 2, -1, 0, order, &split), MLA_INVALID_ARGUMENT,
               "decode_threshold is -1");
  expectStatus(mla_batch_arrange(lens, -1, 1, 0, order, &split), MLA_INVALID_ARGUMENT,
               "num_requests is -1");
  expectStatus(mla_batch_arrange(lens, 2, 1, 2, order, &split), MLA_INVALID_ARGUMENT,
               "unknown flags 2");
  expectStatus(mla_batch_arrange(nullptr, 2, 1, 0, order, &split), MLA_INVALID_ARGUMENT,
               "query_lens is null");
  expectStatus(mla_batch_arrange(lens, 2, 1, 0, order, nullptr), MLA_INVALID_ARGUMENT,
               "split is null");
}
