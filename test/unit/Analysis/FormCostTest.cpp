//===- FormCostTest.cpp - worked examples of the cost model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every number here is printed in mla.md section 12 and compared at the
// precision in which it is printed there.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/FormReport.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

using namespace mlac;

namespace {

constexpr LayerDims kDeepSeekV3 = {7168, 128, 1536, 512, 128, 64, 128};
constexpr LayerDims kMiniCpm3 = {2560, 40, 768, 256, 64, 32, 64};
constexpr LayerDims kGlm5 = {6144, 64, 2048, 512, 192, 64, 256};

FormProblem makeProblem(int64_t queryLen, int64_t seqLen, LayerDims dims = kDeepSeekV3) {
  FormProblem problem;
  problem.dims = dims;
  problem.queryLen = queryLen;
  problem.contextLen = seqLen - queryLen;
  return problem;
}

/// Half a unit in the last of `digits` significant digits of `printed`.
double printedPrecision(double printed, int digits) {
  return 0.5001 * std::pow(10, std::floor(std::log10(printed)) - digits + 1);
}

double flops(const FormProblem &problem, FormVariant variant, bool core) {
  FormCost cost = computeFormCost(problem, variant);
  return core ? cost.coreFlops() : cost.totalFlops();
}

double ratio(const FormProblem &problem, FormVariant variant, bool core) {
  return flops(problem, variant, core) / flops(problem, FormVariant::Expanded, core);
}

struct WorkedExample {
  int64_t queryLen, seqLen;
  double expandedCore, absorbedCore;
  double coreRatio, onlineRatio, offlineRatio;
  /// Significant digits in which the ratios are printed.
  int coreDigits, onlineDigits, offlineDigits;
};

class C07_WorkedExample : public testing::TestWithParam<WorkedExample> {};

TEST_P(C07_WorkedExample, FlopsAndRatios) {
  const WorkedExample &row = GetParam();
  FormProblem problem = makeProblem(row.queryLen, row.seqLen);
  EXPECT_NEAR(flops(problem, FormVariant::Expanded, true), row.expandedCore,
              printedPrecision(row.expandedCore, 3));
  EXPECT_NEAR(flops(problem, FormVariant::AbsorbedOnline, true), row.absorbedCore,
              printedPrecision(row.absorbedCore, 3));
  EXPECT_NEAR(ratio(problem, FormVariant::AbsorbedOnline, true), row.coreRatio,
              printedPrecision(row.coreRatio, row.coreDigits));
  EXPECT_NEAR(ratio(problem, FormVariant::AbsorbedOnline, false), row.onlineRatio,
              printedPrecision(row.onlineRatio, row.onlineDigits));
  EXPECT_NEAR(ratio(problem, FormVariant::AbsorbedOffline, false), row.offlineRatio,
              printedPrecision(row.offlineRatio, row.offlineDigits));
}

INSTANTIATE_TEST_SUITE_P(
    DeepSeekV3, C07_WorkedExample,
    testing::Values(
        WorkedExample{1, 640, 2.15e10, 2.12e8, 0.0098, 0.025, 0.063, 2, 2, 2},
        WorkedExample{1, 4096, 1.38e11, 1.17e9, 0.0085, 0.011, 0.017, 2, 2, 2},
        WorkedExample{4, 4096, 1.39e11, 4.70e9, 0.034, 0.043, 0.067, 2, 2, 2},
        WorkedExample{128, 4096, 1.80e11, 1.48e11, 0.82, 0.86, 1.33, 2, 2, 3},
        WorkedExample{171, 65536, 3.12e12, 3.12e12, 1.002, 1.002, 1.05, 4, 4, 3},
        WorkedExample{256, 65536, 3.57e12, 4.67e12, 1.31, 1.30, 1.36, 3, 3, 3},
        WorkedExample{4096, 4096, 8.25e11, 2.47e12, 3.00, 1.74, 3.26, 3, 3, 3}));

TEST(C07_FormReport, DecodeIsAboutOnePercentAndPrefillIsWorse) {
  FormProblem decode = makeProblem(1, 640);
  EXPECT_NEAR(ratio(decode, FormVariant::AbsorbedOnline, true), 0.01, 0.0005);
  FormProblem prefill = makeProblem(4096, 4096);
  EXPECT_GT(ratio(prefill, FormVariant::AbsorbedOnline, true), 2.9);
}

TEST(FormCost, ClosedFormCrossover) {
  EXPECT_NEAR(*computeCrossover(kDeepSeekV3), 170.7, 0.05);
  EXPECT_NEAR(*computeCrossover(kMiniCpm3), 85.3, 0.05);
  EXPECT_NEAR(*computeCrossover(kGlm5), 398.2, 0.05);
}

TEST(FormCost, ExactCrossoverPerContext) {
  const std::pair<int64_t, int64_t> expected[] = {
      {16, 60},    {64, 97},    {128, 117},   {256, 135},   {512, 149},
      {1024, 159}, {4096, 168}, {16384, 170}, {65536, 171}, {1 << 20, 171}};
  for (auto [contextLen, queryLen] : expected)
    EXPECT_EQ(findSmallestExpandedQueryLen(kDeepSeekV3, contextLen), queryLen)
        << "context " << contextLen;
}

TEST(FormCost, ExactCrossoverIsTheFirstWinner) {
  for (const LayerDims &dims : {kDeepSeekV3, kMiniCpm3, kGlm5})
    for (int64_t contextLen : {1, 5, 77, 1000, 50000}) {
      int64_t queryLen = *findSmallestExpandedQueryLen(dims, contextLen);
      auto expandedWins = [&](int64_t candidate) {
        FormProblem problem = makeProblem(candidate, contextLen + candidate, dims);
        return ratio(problem, FormVariant::AbsorbedOnline, true) >= 1;
      };
      EXPECT_TRUE(expandedWins(queryLen));
      if (queryLen > 1) {
        EXPECT_FALSE(expandedWins(queryLen - 1));
      }
    }
}

// Erratum 5 of mla.md section 15: which form is for which lengths had been turned round.
TEST(FormCost, Erratum5_ShortQueriesOverLongContextsAreAbsorbed) {
  EXPECT_LT(ratio(makeProblem(1, 4096), FormVariant::AbsorbedOnline, true), 0.01);
  EXPECT_GT(ratio(makeProblem(4096, 4096), FormVariant::AbsorbedOnline, true), 2.9);
}

TEST(FormCost, WithoutContextExpandedAlwaysWins) {
  EXPECT_EQ(findSmallestExpandedQueryLen(kDeepSeekV3, 0), 1);
  EXPECT_TRUE(isExpandedCheaper(kDeepSeekV3, 0, countAttendedPairs(1, 0)));
}

TEST(FormCost, NarrowLatentHasNoCrossover) {
  // 2 Lkv = P + V: the absorbed form attends as cheaply and up-projects less.
  LayerDims dims = {1024, 8, 0, 128, 128, 0, 128};
  EXPECT_EQ(computeCrossover(dims), std::nullopt);
  EXPECT_EQ(findSmallestExpandedQueryLen(dims, 64), std::nullopt);
  EXPECT_FALSE(isExpandedCheaper(dims, 64, countAttendedPairs(1000, 64)));
}

TEST(FormCost, DecodeIntensity) {
  FormProblem problem = makeProblem(1, 4096);
  EXPECT_NEAR(computeDecodeIntensity(problem), 241.8, 0.05);
  problem.cacheRowBytes = 656;
  EXPECT_NEAR(computeDecodeIntensity(problem), 424.6, 0.05);
  problem.dims.numHeads = 16;
  problem.queryLen = 2;
  EXPECT_NEAR(computeDecodeIntensity(problem), 424.6 * 32 / 128, 0.05);
}

TEST(FormCost, ExpandedBytes) {
  // b_c·C + b·Lkv·N(P+V) + b·Skv·N·κ + b·Sq·N(P+R+V).
  FormProblem problem = makeProblem(1, 4096);
  const double fixed = 1152.0 * 4095 + 2.0 * 512 * 128 * 256 + 2.0 * 128 * 320;
  EXPECT_DOUBLE_EQ(computeFormCost(problem, FormVariant::Expanded).coreBytes(),
                   fixed + 2.0 * 4096 * 128 * 512);
  problem.concatenatesKeys = true;
  EXPECT_DOUBLE_EQ(computeFormCost(problem, FormVariant::Expanded).coreBytes(),
                   fixed + 2.0 * 4096 * 128 * 896);
}

TEST(FormCost, AbsorbedBytes) {
  // b_c·Skv·⌈Sq·N/M⌉·(1−hit) + b·Lkv·N(P+V) + b·Sq·N(2Lkv+R).
  FormProblem problem = makeProblem(1, 4096);
  const double fixed = 2.0 * 512 * 128 * 256 + 2.0 * 128 * 1088;
  const double once = 1152.0 * 4096;
  EXPECT_DOUBLE_EQ(computeFormCost(problem, FormVariant::AbsorbedOnline).coreBytes(),
                   2 * once + fixed);
  problem.l2HitRate = estimateL2HitRate(problem);
  EXPECT_DOUBLE_EQ(computeFormCost(problem, FormVariant::AbsorbedOnline).coreBytes(),
                   once + fixed);
  problem.tileRows = 128;
  EXPECT_EQ(estimateL2HitRate(problem), 0);
  // Folding both sides leaves only the cache, queries and outputs in the core.
  EXPECT_DOUBLE_EQ(computeFormCost(problem, FormVariant::AbsorbedOffline).coreBytes(),
                   (1 - problem.l2HitRate) * once + 2.0 * 128 * 1088);
}

TEST(FormCost, OfflineProjectionFlopsPerToken) {
  // Section 7: 2·Lq·N·Lkv = 201 MFLOP offline, 2(Lq·N·P + N·P·Lkv) = 67 online.
  auto step = [](const FormCost &cost, llvm::StringRef name) {
    for (const CostStep &candidate : cost.steps)
      if (candidate.name == name)
        return candidate.flops;
    return 0.0;
  };
  FormProblem problem = makeProblem(1, 640);
  FormCost online = computeFormCost(problem, FormVariant::AbsorbedOnline);
  FormCost offline = computeFormCost(problem, FormVariant::AbsorbedOffline);
  const double ropeFlops = 2.0 * 1536 * 128 * 64;
  EXPECT_NEAR(step(offline, "q up") - ropeFlops, 201e6, 0.5e6);
  EXPECT_NEAR(step(online, "q up") - ropeFlops + step(online, "q·W_UK"), 67e6, 0.5e6);
}

TEST(FormCost, HalfVariantsLieBetween) {
  FormProblem problem = makeProblem(1, 4096);
  double online = flops(problem, FormVariant::AbsorbedOnline, false);
  double offline = flops(problem, FormVariant::AbsorbedOffline, false);
  double halfQuery = flops(problem, FormVariant::AbsorbedHalfQuery, false);
  double halfOutput = flops(problem, FormVariant::AbsorbedHalfOutput, false);
  EXPECT_DOUBLE_EQ(halfQuery + halfOutput, online + offline);
  EXPECT_LT(online, halfQuery);
  EXPECT_LT(halfQuery, offline);
}

TEST(FormCost, WithoutQueryLatentTheQueryComesFromTheHiddenState) {
  LayerDims v2Lite = {2048, 16, 0, 512, 128, 64, 128};
  FormCost cost = computeFormCost(makeProblem(1, 2, v2Lite), FormVariant::Expanded);
  EXPECT_EQ(cost.steps.front().name, "q up");
  EXPECT_DOUBLE_EQ(cost.steps.front().flops, 2.0 * 2048 * 16 * 192);
}

TEST(FormCost, BatchSharesWeightBytes) {
  FormProblem problem = makeProblem(1, 4096);
  FormCost one = computeFormCost(problem, FormVariant::AbsorbedOnline);
  problem.numRequests = 64;
  FormCost many = computeFormCost(problem, FormVariant::AbsorbedOnline);
  EXPECT_DOUBLE_EQ(many.totalFlops(), 64 * one.totalFlops());
  EXPECT_LT(many.totalBytes(), 64 * one.totalBytes());
}

TEST(FormCost, PredictedTimeIsAtLeastBothFloors) {
  TargetDescription h200 = *findTargetDescription("h200");
  FormProblem problem = makeProblem(1, 4096);
  problem.numRequests = 128;
  FormCost cost = computeFormCost(problem, FormVariant::AbsorbedOnline);
  double microseconds = cost.predictMicroseconds(h200);
  EXPECT_GE(microseconds, cost.totalFlops() / (h200.matmulTflops * 1e6));
  EXPECT_GE(microseconds, cost.totalBytes() / (h200.readGbps * 1e3));
}

TEST(FormCost, UnknownTargetIsNothing) {
  EXPECT_FALSE(findTargetDescription("h800"));
  EXPECT_TRUE(findTargetDescription("cpu"));
}

TEST(FormCost, ReportNamesFormsAndCrossover) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printFormReport(os, *findTargetDescription("h200"), {makeProblem(1, 640)});
  for (const char *part : {"crossover Sq* = Lkv(P+V)/(2Lkv-P-V) = 170.7 new tokens", "expanded",
                           "absorbed online", "absorbed offline", "0.0253",
                           "total FLOPs  FLOPs ratio", "predicted us  time ratio",
                           "ratios are to the expanded form",
                           "expanded wins from query_len 153 with this context"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

} // namespace
