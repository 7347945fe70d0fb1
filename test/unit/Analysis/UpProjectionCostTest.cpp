//===- UpProjectionCostTest.cpp - where keys and values are made ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/UpProjectionCost.h"
#include "mla/Analysis/FormReport.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace mlac;

namespace {
constexpr LayerDims kV3 = {7168, 128, 1536, 512, 128, 64, 128};
constexpr LayerDims kV3OneOfEight = {7168, 16, 1536, 512, 128, 64, 128};
constexpr LayerDims kMiniCpm3 = {2560, 40, 768, 256, 64, 32, 64};

FormProblem makeProblem(const LayerDims &dims, int64_t queryLen, int64_t contextLen) {
  FormProblem problem;
  problem.dims = dims;
  problem.queryLen = queryLen;
  problem.contextLen = contextLen;
  return problem;
}

UpProjectionCost compute(const LayerDims &dims, int64_t queryLen, int64_t contextLen) {
  auto cost =
      computeUpProjectionCost(makeProblem(dims, queryLen, contextLen), getMachineOf("sm_90a"));
  EXPECT_TRUE(cost);
  return cost.value_or(UpProjectionCost());
}

// 128 query rows and 128 keys.
TEST(UpProjectionCost, StepOfTheFusedForm) {
  StepCost step = compute(kV3, 128, 65536).fusedStep;
  // 128 x 128 x (192 + 128) products and 128 x 512 x 256 of the up-projection.
  EXPECT_DOUBLE_EQ(step.tensorCycles, 2560 + 2.0 * 128 * 512 * 256 / 4096);
  // The head's weights, 256 KiB, do not stay in 227: they come again for every block.
  EXPECT_DOUBLE_EQ(step.loadCycles, (128 * 512 * 2 + 128 * 64 * 2 + 512 * 256 * 2) / 56.5);
  // Those of rank 256 and 64 + 64 columns do.
  step = compute(kMiniCpm3, 128, 65536).fusedStep;
  EXPECT_DOUBLE_EQ(step.tensorCycles, 1280 + 2.0 * 128 * 256 * 128 / 4096);
  EXPECT_DOUBLE_EQ(step.loadCycles, (128 * 256 * 2 + 128 * 32 * 2) / 56.5);
}

TEST(UpProjectionCost, EveryTileOfQueriesMakesThemAgain) {
  UpProjectionCost one = compute(kV3, 128, 65536), two = compute(kV3, 129, 65536);
  EXPECT_NEAR(two.fused / one.fused, 2, 0.01);
  EXPECT_LT(two.planned / one.planned, 1.25);
  // FLOPs of the one product: 2 C Lkv N (P + V), 2.5 ms at the model's rate of 865 TFLOP/s.
  EXPECT_GT(one.planned, 2.0 * 65536 * 512 * 128 * 256 / 865e6);
}

TEST(UpProjectionCost, PromptsArePlanned) {
  for (const LayerDims &dims : {kV3, kV3OneOfEight, kMiniCpm3})
    for (int64_t context : {4096, 65536}) {
      UpProjectionCost cost = compute(dims, 4096, context);
      EXPECT_EQ(cost.getBest(), "planned");
      EXPECT_GT(cost.fused, 1.5 * cost.planned);
    }
}

TEST(UpProjectionCost, FewTokensAreAbsorbed) {
  for (const LayerDims &dims : {kV3, kV3OneOfEight, kMiniCpm3})
    for (int64_t queryLen : {1, 16, 64})
      EXPECT_EQ(compute(dims, queryLen, 65536).getBest(), "absorbed") << queryLen;
  EXPECT_EQ(compute(kV3, 128, 65536).getBest(), "absorbed");
}

// Where the weights stay in shared memory, expanded attention needs fewer FLOPs than
// absorbed, and all queries are one tile, what planned keys cost is their way to memory.
TEST(UpProjectionCost, OneTileOfASmallRankWouldBeFused) {
  UpProjectionCost cost = compute(kMiniCpm3, 128, 65536);
  EXPECT_EQ(cost.getBest(), "fused");
  EXPECT_LT(cost.fused, (1 - kUpProjectionModelError) * cost.planned);
  // Not with DeepSeek-V3's rank, by more than the model errs.
  for (const LayerDims &dims : {kV3, kV3OneOfEight})
    for (int64_t queryLen : {16, 64, 96, 128, 129, 256})
      for (int64_t context : {4096, 65536}) {
        cost = compute(dims, queryLen, context);
        EXPECT_GT(cost.fused,
                  (1 - kUpProjectionModelError) * std::min(cost.planned, cost.absorbed));
      }
}

TEST(UpProjectionCost, NothingToCompare) {
  EXPECT_FALSE(computeUpProjectionCost(makeProblem(kV3, 128, 0), getMachineOf("sm_90a")));
  EXPECT_FALSE(computeUpProjectionCost(makeProblem(kV3, 128, 4096), getMachineOf("cpu")));
  FormProblem f32 = makeProblem(kV3, 128, 4096);
  f32.elementBytes = 4;
  EXPECT_FALSE(computeUpProjectionCost(f32, getMachineOf("sm_90a")));
}

TEST(UpProjectionCost, C07_ReportSaysWhy) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printFormReport(os, getMachineOf("sm_90a"), {makeProblem(kV3, 128, 65536)});
  EXPECT_NE(text.find("up-projection: one product per chunk"), std::string::npos) << text;
  EXPECT_NE(text.find("(bound by tensor cores)"), std::string::npos) << text;
}
} // namespace
