//===- SharedPrefixCostTest.cpp -------------------------------------------===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/SharedPrefixCost.h"

#include <gtest/gtest.h>

using namespace mlac;

/// DeepSeek-V3, with the heads of one rank.
static SharedPrefixProblem makeProblem(int64_t heads) {
  SharedPrefixProblem problem;
  problem.dims = {7168, heads, 1536, 512, 128, 64, 128};
  return problem;
}

static bool pays(int64_t heads, int64_t requests, int64_t keys) {
  static const TargetDescription target = *findTargetDescription("h200");
  return computeSharedPrefixCost(makeProblem(heads), target)
             .computeSaving(heads, requests, requests, keys) > 0;
}

// Measured on an H200 (docs/lab/shared-prefix.md).
TEST(SharedPrefixCost, DecidesForTheFasterFormWhereItWasMeasured) {
  struct {
    int64_t heads, requests, keys;
    bool isFaster;
  } points[] = {{128, 32, 8192, false},  {128, 64, 8192, false},  {128, 128, 8192, false},
                {128, 160, 8192, false}, {128, 192, 8192, false}, {128, 256, 8192, true},
                {128, 384, 8192, true},  {128, 512, 8192, true},  {128, 256, 512, false},
                {128, 256, 2048, false}, {128, 512, 1024, true},  {128, 256, 32768, true},
                {16, 32, 8192, false},   {16, 64, 8192, false},   {16, 96, 8192, true},
                {16, 128, 8192, true},   {16, 256, 8192, true},   {16, 512, 8192, true},
                {16, 256, 512, false},   {16, 256, 2048, true},   {16, 512, 32768, true}};
  for (auto [heads, requests, keys, isFaster] : points)
    EXPECT_EQ(pays(heads, requests, keys), isFaster)
        << heads << " heads, " << requests << " requests, " << keys << " keys";
}

TEST(SharedPrefixCost, LongerPrefixesPayAtLeastAsWell) {
  const TargetDescription target = *findTargetDescription("h200");
  for (int64_t heads : {8, 16, 128}) {
    SharedPrefixCost cost = computeSharedPrefixCost(makeProblem(heads), target);
    std::optional<int64_t> before;
    for (int64_t keys : {256, 1024, 4096, 65536}) {
      std::optional<int64_t> least = findLeastSharers(cost, heads, keys, 4096);
      ASSERT_TRUE(least);
      EXPECT_GT(cost.computeSaving(heads, *least, *least, keys), 0);
      EXPECT_LE(cost.computeSaving(heads, *least - 1, *least - 1, keys), 0);
      if (before) {
        EXPECT_LE(*least, *before);
      }
      before = least;
    }
  }
}

// mla.md section 12: with FLOPs alone, sharing pays from 170.67 tokens on.
TEST(SharedPrefixCost, OnACpuFlopsDecide) {
  SharedPrefixCost cost = computeSharedPrefixCost(makeProblem(128), *findTargetDescription("cpu"));
  cost.merge = cost.fixed = 0;
  EXPECT_EQ(findLeastSharers(cost, 128, 65536, 4096), 171);
}

TEST(SharedPrefixCost, NothingPaysForNoKeysOrOneToken) {
  EXPECT_FALSE(pays(128, 512, 0));
  EXPECT_FALSE(pays(128, 1, 32768));
}
