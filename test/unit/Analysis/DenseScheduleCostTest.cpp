//===- DenseScheduleCostTest.cpp - schedules of attention over dense keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PingPong/PingPongModel.h"
#include "Relay/RelayModel.h"

#include "mla/Analysis/ScheduleModel.h"

#include "gtest/gtest.h"

#include <array>
#include <set>

using namespace mlac;

namespace {

const TargetDescription kH200 = *findTargetDescription("h200");

DenseAttentionProblem makeProblem(int64_t nope, int64_t rope, int64_t value) {
  DenseAttentionProblem problem;
  problem.keyWidths.push_back(nope);
  if (rope)
    problem.keyWidths.push_back(rope);
  problem.valueWidth = value;
  return problem;
}

DenseScheduleCost plan(const DenseAttentionProblem &problem, const ScheduleRequest &request = {}) {
  return computeDenseScheduleCost(problem, kH200, ScheduleKind::PingPong, request);
}

ScheduleRequest makeRequest(std::initializer_list<const char *> options) {
  ScheduleRequest request;
  std::string error;
  for (const char *option : options)
    EXPECT_TRUE(request.set(option, error)) << error;
  return request;
}

TEST(DenseScheduleCost, DeepSeekIsBoundByTheTensorCores) {
  DenseScheduleCost cost = plan(makeProblem(128, 64, 128));
  ASSERT_TRUE(cost.isFeasible()) << cost.whyNot;
  EXPECT_EQ(cost.parameters.get(pingpong::kKeyBlock), 128);
  EXPECT_EQ(cost.parameters.get(pingpong::kKeyStages), 2);
  // 2 · (64 · 128 · 192 + 64 · 128 · 128) multiply-adds, 2048 a clock.
  EXPECT_EQ(cost.tensorCycles, 2560);
  EXPECT_EQ(cost.getBound(), "tensor cores");
  // Queries, two stages of keys and values, and what outputs go through; panels are whole.
  EXPECT_EQ(cost.sharedBytes, 128 * 384 + 2 * 128 * (384 + 256) + 128 * 128 + 1024);
}

TEST(DenseScheduleCost, StagesComeBeforeTilesOfOutputs) {
  DenseScheduleCost cost = plan(makeProblem(128, 0, 128));
  EXPECT_EQ(cost.parameters.get(pingpong::kKeyStages), 3);
  EXPECT_EQ(cost.sharedBytes, 128 * 256 + 3 * 128 * (256 + 256) + 1024);
}

TEST(DenseScheduleCost, RegistersFillTheFile) {
  ScheduleParameters chosen = plan(makeProblem(128, 64, 128)).parameters;
  int64_t sum = *chosen.get(pingpong::kProducerRegisters) +
                pingpong::kMathWarpgroups * *chosen.get(pingpong::kConsumerRegisters);
  EXPECT_EQ(sum, 504); // 168 each at the launch
}

TEST(DenseScheduleCost, WiderHeadsGetNarrowerBlocks) {
  EXPECT_EQ(plan(makeProblem(256, 0, 256)).parameters.get(pingpong::kKeyBlock), 48);
  EXPECT_EQ(plan(makeProblem(192, 64, 256)).parameters.get(pingpong::kKeyBlock), 48);
  EXPECT_EQ(plan(makeProblem(64, 32, 64)).parameters.get(pingpong::kKeyBlock), 128);
}

TEST(DenseScheduleCost, SmallHeadsGetMoreStages) {
  EXPECT_EQ(plan(makeProblem(128, 0, 128)).parameters.get(pingpong::kKeyStages), 3);
  EXPECT_EQ(plan(makeProblem(64, 32, 64)).parameters.get(pingpong::kKeyStages), 4);
}

TEST(DenseScheduleCost, RefusesWhatDoesNotFit) {
  EXPECT_EQ(plan(makeProblem(128, 64, 512)).whyNot, "values of 512 columns, a product has 256");
  EXPECT_EQ(plan(makeProblem(128, 64, 128), makeRequest({"key-stages=4"}))
                .parameters.get(pingpong::kKeyBlock),
            64);
  EXPECT_EQ(plan(makeProblem(128, 64, 128), makeRequest({"key-block=128", "key-stages=3"})).whyNot,
            "key-block 128 and key-stages 3 take 295936 bytes of shared memory, a CTA has 232448");
  DenseAttentionProblem f32 = makeProblem(128, 64, 128);
  f32.elementBytes = 4;
  EXPECT_EQ(plan(f32).whyNot, "wgmma needs elements of 2 bytes, got 4");
}

TEST(DenseScheduleCost, ChoosesPingPongUnlessSomethingStandsAgainstIt) {
  DenseAttentionProblem problem = makeProblem(128, 64, 128);
  EXPECT_EQ(chooseDenseSchedule(problem, kH200).get().parameters.kind, ScheduleKind::PingPong);
  DenseScheduleChoice choice =
      chooseDenseSchedule(problem, kH200, {}, {{ScheduleKind::PingPong, "no map"}});
  EXPECT_EQ(choice.get().parameters.kind, ScheduleKind::Simple);
  EXPECT_NE(describeChoice(problem, kH200, choice).find("not pingpong: no map"), std::string::npos);
  ScheduleRequest request;
  request.kind = ScheduleKind::PingPong;
  EXPECT_EQ(
      chooseDenseSchedule(problem, kH200, request, {{ScheduleKind::PingPong, "no map"}}).error,
      "pingpong: no map");
}

TEST(DenseScheduleCost, PointsToMeasureAreDifferentAndBeginWithTheChoice) {
  for (auto [nope, rope, value] : {std::array{128, 64, 128}, {192, 64, 256}, {64, 32, 64}}) {
    std::string error;
    DenseAttentionProblem problem = makeProblem(nope, rope, value);
    std::vector<DenseScheduleCost> points = enumerateDenseSchedules(problem, kH200, {}, error);
    ASSERT_GE(points.size(), 4u) << error; // the choice, other thresholds
    EXPECT_LE(points.size(), 12u);
    EXPECT_EQ(points[0].parameters.describe(),
              chooseDenseSchedule(problem, kH200).get().parameters.describe());
    std::set<std::string> seen;
    for (const DenseScheduleCost &point : points) {
      EXPECT_TRUE(point.isFeasible()) << point.whyNot;
      EXPECT_TRUE(seen.insert(point.parameters.describe()).second);
    }
  }
}

TEST(DenseScheduleCost, ForcedParametersNarrowThePoints) {
  std::string error;
  DenseAttentionProblem problem = makeProblem(128, 64, 128);
  for (const DenseScheduleCost &point :
       enumerateDenseSchedules(problem, kH200, makeRequest({"key-block=96"}), error))
    EXPECT_EQ(point.parameters.get(pingpong::kKeyBlock), 96);
  std::vector<DenseScheduleCost> simple = enumerateDenseSchedules(
      problem, kH200, {}, error, {{ScheduleKind::PingPong, "its tiles have 32 rows"}});
  ASSERT_EQ(simple.size(), 1u);
  EXPECT_EQ(simple[0].parameters.kind, ScheduleKind::Simple);
  EXPECT_TRUE(
      enumerateDenseSchedules(problem, kH200, makeRequest({"key-block=256"}), error).empty());
  EXPECT_NE(error.find("key-block 256"), std::string::npos) << error;
}

/// A block is whole pages or a part of one, wherever the first key lies.
TEST(DenseScheduleCost, BlocksAreBoxesOfPages) {
  DenseAttentionProblem problem = makeProblem(192, 0, 192);
  auto chooseKeys = [&] {
    return chooseDenseSchedule(problem, kH200, {}, {}).get().parameters.get(pingpong::kKeyBlock);
  };
  auto chooseRegisters = [&] {
    return chooseDenseSchedule(problem, kH200, {}, {})
        .get()
        .parameters.get(pingpong::kProducerRegisters);
  };
  ASSERT_EQ(chooseKeys(), 96); // what registers hold
  int64_t dense = *chooseRegisters();
  problem.pageSizes = {16};
  EXPECT_EQ(chooseKeys(), 80); // numbers of five pages take the consumers' registers
  EXPECT_GT(*chooseRegisters(), dense);
  problem.pageSizes = {64, 32};
  EXPECT_EQ(chooseKeys(), 64);
  EXPECT_EQ(chooseRegisters(), dense);
  problem.pageSizes = {256};
  EXPECT_EQ(chooseKeys(), 64);
  problem = makeProblem(128, 0, 128);
  problem.pageSizes = {128};
  EXPECT_EQ(chooseKeys(), 128);
  problem.firstMultiple = 64; // a window's first
  EXPECT_EQ(chooseKeys(), 64);
  DenseScheduleChoice refused =
      chooseDenseSchedule(problem, kH200, makeRequest({"key-block=128"}), {});
  EXPECT_EQ(refused.get().parameters.kind, ScheduleKind::Simple);
}

TEST(DenseScheduleCost, FilteredRequestsConcernOneFamily) {
  ScheduleRequest request = makeRequest({"left-stages=3", "key-block=64", "lazy-threshold=4"});
  request.kind = ScheduleKind::Relay;
  ScheduleRequest dense = request.filter(getDenseScheduleKinds());
  EXPECT_FALSE(dense.kind);
  EXPECT_FALSE(dense.get(relay::kLeftStages));
  EXPECT_EQ(dense.get(pingpong::kKeyBlock), 64);
  EXPECT_EQ(dense.get(kLazyThreshold), 4);
  ScheduleRequest paged = request.filter(getPagedScheduleKinds());
  EXPECT_EQ(paged.kind, ScheduleKind::Relay);
  EXPECT_EQ(paged.get(relay::kLeftStages), 3);
  EXPECT_FALSE(paged.get(pingpong::kKeyBlock));
}

} // namespace
