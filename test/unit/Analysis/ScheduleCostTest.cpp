//===- ScheduleCostTest.cpp - what the planner must know ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The facts about rank 512 and rope 64 were measured before the model existed
// (docs/lab/decode.md): rings of three, two and two
// blocks, the left gate two panels early, 168 registers for each role, and the order
// of the variants that lost.
//
//===----------------------------------------------------------------------===//

#include "Relay/RelayModel.h"

#include "mla/Analysis/ScheduleCost.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlac;

namespace {

const TargetDescription kH200 = *findTargetDescription("h200");

AttentionProblem makeProblem(int64_t heads, int64_t rank = 512, int64_t rope = 64) {
  AttentionProblem problem;
  problem.rowsPerToken = heads;
  problem.kvLoraRank = rank;
  problem.ropeDim = rope;
  return problem;
}

ScheduleRequest makeRequest(std::initializer_list<const char *> options) {
  ScheduleRequest request;
  std::string error;
  for (const char *option : options)
    EXPECT_TRUE(request.set(option, error)) << error;
  return request;
}

std::string whyNotRelay(std::initializer_list<const char *> options,
                        AttentionProblem problem = makeProblem(128)) {
  return computeScheduleCost(problem, kH200, ScheduleKind::Relay, makeRequest(options)).whyNot;
}

double periodOf(GateEdge gate, int64_t early, IssuePoint issue = IssuePoint::AfterExponential) {
  RelayOrder order(computeScheduleCost(makeProblem(128), kH200, ScheduleKind::Relay).parameters);
  order.gate = gate;
  order.early = early;
  order.issue = issue;
  return solveRelay(makeProblem(128), kH200, order)->period;
}

//===----------------------------------------------------------------------===//
// Relay at DeepSeek's shape
//===----------------------------------------------------------------------===//

TEST(ScheduleCost, RelayOfDeepSeekHasTheMeasuredParameters) {
  ScheduleChoice choice = chooseSchedule(makeProblem(128), kH200);
  ASSERT_EQ(choice.error, "");
  EXPECT_EQ(choice.get().parameters.describe(),
            "relay left-stages=3 right-stages=2 rope-stages=2 gate=left early=2 issue=after-exp "
            "registers=168/168/168 lazy-threshold=8");
  // 28 panels of 8 KiB and the small things.
  EXPECT_EQ(choice.get().sharedBytes, 28 * 8192 + 2048);
}

TEST(ScheduleCost, RelayOfDeepSeekCountsCyclesOfOneBlock) {
  ScheduleCost cost = computeScheduleCost(makeProblem(128), kH200, ScheduleKind::Relay);
  EXPECT_DOUBLE_EQ(cost.tensorCycles, 1152 + 1024);
  // 272 KiB: queries 40, keys 72, values 64, weights 16 read, 8 + 72 written.
  EXPECT_DOUBLE_EQ(cost.sharedCycles, 272 * 1024 / 128.0);
  EXPECT_NEAR(cost.loadCycles, 73728 / 56.5, 1e-9);
  // Measured: 2,784 cycles per block.
  EXPECT_GT(cost.recurrenceCycles, 2176);
  EXPECT_LT(cost.recurrenceCycles, 2784);
}

/// Two row tiles read the same keys: half the bytes of device memory for each.
TEST(ScheduleCost, RowTilesShareDeviceMemory) {
  ScheduleCost one = computeScheduleCost(makeProblem(64), kH200, ScheduleKind::Relay);
  ScheduleCost two = computeScheduleCost(makeProblem(128), kH200, ScheduleKind::Relay);
  EXPECT_DOUBLE_EQ(one.memoryNanoseconds, 2 * two.memoryNanoseconds);
  EXPECT_EQ(one.getBound(kH200), "device memory");
  EXPECT_EQ(two.getBound(kH200), "the roles' recurrence");
}

TEST(ScheduleCost, GatesComeInTheirMeasuredOrder) {
  double best = periodOf(GateEdge::Left, 2);
  // 1.013 of the peer against 1.008 and 1.010, 0.98, 0.95, 0.85.
  EXPECT_LT(best, periodOf(GateEdge::Left, 1));
  EXPECT_LT(best, periodOf(GateEdge::Left, 3));
  EXPECT_LT(periodOf(GateEdge::Left, 1), periodOf(GateEdge::Left, 0));
  EXPECT_LT(periodOf(GateEdge::Left, 0), periodOf(GateEdge::None, 0));
  EXPECT_LE(periodOf(GateEdge::None, 0), 1.001 * periodOf(GateEdge::Right, 0));
}

TEST(ScheduleCost, TheNextScoresBeginInsideTheSoftmax) {
  double inside = periodOf(GateEdge::Left, 2);
  EXPECT_LT(inside, periodOf(GateEdge::Left, 2, IssuePoint::BeforeSoftmax));
  EXPECT_LT(inside, periodOf(GateEdge::Left, 2, IssuePoint::AfterStore));
}

/// The tiles that are scored first need the deeper ring.
TEST(ScheduleCost, TheThirdSlotBelongsToTheLeftRing) {
  auto periodWith = [](std::initializer_list<const char *> options) {
    return computeScheduleCost(makeProblem(128), kH200, ScheduleKind::Relay, makeRequest(options))
        .recurrenceCycles;
  };
  double left = periodWith({"left-stages=3", "right-stages=2"});
  EXPECT_LT(left, 0.85 * periodWith({"left-stages=2", "right-stages=3"}));
  EXPECT_LT(left, 0.85 * periodWith({"left-stages=2", "right-stages=2"}));
}

//===----------------------------------------------------------------------===//
// Other shapes
//===----------------------------------------------------------------------===//

TEST(ScheduleCost, SmallRanksGetDeeperRings) {
  ScheduleCost small = computeScheduleCost(makeProblem(128, 256, 32), kH200, ScheduleKind::Relay);
  ASSERT_EQ(small.whyNot, "");
  EXPECT_GE(*small.parameters.get(relay::kLeftStages), 4);
  EXPECT_GE(*small.parameters.get(relay::kRightStages), 4);
  EXPECT_GE(*small.parameters.get(relay::kRopeStages), 2);
  EXPECT_LE(small.sharedBytes, kH200.sharedBytes);
}

TEST(ScheduleCost, WithoutRopeThereIsNoRopeRing) {
  ScheduleCost cost = computeScheduleCost(makeProblem(128, 512, 0), kH200, ScheduleKind::Relay);
  ASSERT_EQ(cost.whyNot, "");
  EXPECT_FALSE(cost.parameters.get(relay::kRopeStages));
  EXPECT_DOUBLE_EQ(cost.tensorCycles, 1024 + 1024);
  EXPECT_EQ(whyNotRelay({"rope-stages=2"}, makeProblem(128, 512, 0)),
            "rope-stages: there are no rope keys");
}

TEST(ScheduleCost, EveryShapeOfTheGridHasASchedule) {
  for (auto [rank, rope] : {std::pair{512, 64}, {256, 32}, {512, 0}, {64, 64}, {32, 0}})
    for (int64_t heads : {1, 3, 8, 9, 12, 16, 20, 40, 63, 64, 96, 126, 128})
      for (int64_t queries : {1, 2, 3, 4})
        for (int64_t page : {1, 16, 64, 128}) {
          AttentionProblem problem = makeProblem(heads, rank, rope);
          problem.queryLen = queries;
          problem.pageSize = page;
          ScheduleChoice choice = chooseSchedule(problem, kH200);
          ASSERT_EQ(choice.error, "");
          EXPECT_TRUE(choice.get().isFeasible());
          EXPECT_LE(choice.get().sharedBytes, kH200.sharedBytes);
          EXPECT_GT(choice.get().getBlockNanoseconds(kH200), 0);
          EXPECT_GE(choice.get().itemCycles, 0);
        }
}

/// 16 heads read memory as fast as 64, so the schedule with the least work is taken.
TEST(ScheduleCost, FewRowsAreNotPadded) {
  ScheduleChoice choice = chooseSchedule(makeProblem(16), kH200);
  EXPECT_EQ(choice.get().parameters.kind, ScheduleKind::Stream);
  EXPECT_EQ(choice.get().getBound(kH200), "device memory");
  EXPECT_DOUBLE_EQ(choice.get().tensorCycles, (1152 + 1024) / 4.0);
  EXPECT_EQ(computeScheduleCost(makeProblem(16, 32), kH200, ScheduleKind::Stream).whyNot,
            "a latent of 32 columns is not of whole panels of 64");
  EXPECT_EQ(makeProblem(12).rowsPerTile(ScheduleKind::Stream), 16);
  EXPECT_EQ(chooseSchedule(makeProblem(48), kH200).get().parameters.kind, ScheduleKind::Relay);
}

TEST(ScheduleCost, UnboundedRowsDoNotGoOnTheNSide) {
  AttentionProblem problem = makeProblem(16);
  problem.areRowsBounded = false;
  EXPECT_EQ(computeScheduleCost(problem, kH200, ScheduleKind::Stream).whyNot,
            "how many rows a request has is not known when compiling");
  EXPECT_EQ(chooseSchedule(problem, kH200).get().parameters.kind, ScheduleKind::Relay);
}

/// TMA has boxes of 8 rows at least; smaller pages are copied by threads.
TEST(ScheduleCost, PagesOfEverySizeAreCopied) {
  AttentionProblem problem = makeProblem(128);
  for (auto [page, boxes] :
       {std::pair{1, 0}, {4, 0}, {8, 8}, {24, 0}, {64, 1}, {96, 0}, {128, 1}}) {
    problem.pageSize = page;
    EXPECT_EQ(problem.boxesPerPanel(), boxes);
    EXPECT_EQ(chooseSchedule(problem, kH200).get().parameters.kind, ScheduleKind::Relay);
  }
}

//===----------------------------------------------------------------------===//
// Forcing
//===----------------------------------------------------------------------===//

TEST(ScheduleCost, ForcedParametersAreKept) {
  ScheduleCost cost = computeScheduleCost(
      makeProblem(128), kH200, ScheduleKind::Relay,
      makeRequest({"right-stages=2", "left-stages=2", "gate=left", "early=1", "issue=after-exp",
                   "registers=160/168/168", "lazy-threshold=0"}));
  EXPECT_EQ(cost.whyNot, "");
  EXPECT_EQ(cost.parameters.describe(),
            "relay left-stages=2 right-stages=2 rope-stages=6 gate=left early=1 issue=after-exp "
            "registers=160/168/168 lazy-threshold=0");
}

TEST(ScheduleCost, ImpossibleValuesNameValueAndLimit) {
  EXPECT_EQ(whyNotRelay({"left-stages=4"}),
            "left-stages 4, right-stages 2 and rope-stages 2 take 264192 bytes of shared memory, "
            "a CTA has 232448");
  EXPECT_EQ(whyNotRelay({"left-stages=1"}), "left-stages: expected at least 2, got 1");
  EXPECT_EQ(whyNotRelay({"early=5"}), "early: 5 panels, the gate must wait for one of 5");
  EXPECT_EQ(whyNotRelay({"gate=none", "early=1"}),
            "early: 1 panels before a gate that is not there");
  EXPECT_EQ(whyNotRelay({"gate=both"}), "gate: relay has none and left, got both");
  EXPECT_EQ(whyNotRelay({"issue=after-store"}), "issue: relay has after-exp, got after-store");
  EXPECT_EQ(whyNotRelay({"registers=200/160/160"}),
            "registers: 520 per column of threads, three warpgroups have 504");
  EXPECT_EQ(whyNotRelay({"registers=184/152/152"}),
            "registers: 152 for values, which need 168 and start with 168");
  EXPECT_EQ(whyNotRelay({"registers=183/160/160"}),
            "registers: 183 is not a multiple of 8 from 24 to 240");
  EXPECT_EQ(whyNotRelay({"registers=160/160/168"}),
            "registers: 160 and 168 for the values' halves, which have the same");
  EXPECT_EQ(whyNotRelay({"registers=152/168/168"}), "registers: 152 for scores, which need 160");
  EXPECT_EQ(whyNotRelay({"stages=2"}), "it has no stages");
  EXPECT_EQ(
      computeScheduleCost(makeProblem(16), kH200, ScheduleKind::Stream, makeRequest({"stages=3"}))
          .whyNot,
      "stages: 3 take 262144 bytes of shared memory, a CTA has 232448");
  EXPECT_EQ(
      computeScheduleCost(makeProblem(16), kH200, ScheduleKind::Stream, makeRequest({"stages=1"}))
          .whyNot,
      "stages: 1, one is read while another is loaded");
  AttentionProblem f32 = makeProblem(128);
  f32.elementBytes = 4;
  EXPECT_EQ(whyNotRelay({}, f32), "wgmma needs elements of 2 bytes, got 4");
}

TEST(ScheduleCost, OfTwoBlocksThatDoNotFitStreamHasPanels_A02) {
  AttentionProblem wide = makeProblem(16);
  wide.kvLoraRank = 1024;
  auto cost = [&](std::initializer_list<const char *> parameters) {
    return computeScheduleCost(wide, kH200, ScheduleKind::Stream, makeRequest(parameters));
  };
  EXPECT_TRUE(cost({}).isFeasible());
  EXPECT_EQ(cost({}).parameters.describe(), "stream stages=1 lazy-threshold=8");
  EXPECT_LE(cost({}).sharedBytes, 232448);
  EXPECT_EQ(cost({"stages=2"}).whyNot,
            "stages: 2 take 317440 bytes of shared memory, a CTA has 232448");
  EXPECT_EQ(cost({"part-columns=128"}).whyNot,
            "parts of a ring of panels are panels: it has no part-columns");
  // Registers hold no more rows of so many columns.
  wide.rowsPerToken = 24;
  EXPECT_EQ(cost({}).whyNot, "an output of 192 registers per thread, it has 128");
}

TEST(ScheduleCost, TilesBesideEachOtherShareTheRowsOfAQuery_D05) {
  AttentionProblem heads = makeProblem(71);
  heads.kvLoraRank = heads.keyWidth = 64;
  heads.ropeDim = 0;
  ScheduleCost cost = computeScheduleCost(heads, kH200, ScheduleKind::Stream, {});
  EXPECT_TRUE(cost.isFeasible());
  heads.rowsPerToken = 136;
  EXPECT_EQ(computeScheduleCost(heads, kH200, ScheduleKind::Stream, {}).whyNot,
            "136 rows per request, its products hold 128");
}

TEST(ScheduleCost, AForcedScheduleThatCannotBeIsAnError) {
  ScheduleRequest request;
  request.kind = ScheduleKind::Stream;
  EXPECT_EQ(chooseSchedule(makeProblem(128), kH200, request).error,
            "stream: 128 rows per request, its products hold 32");
  request.kind = ScheduleKind::Simple;
  EXPECT_EQ(chooseSchedule(makeProblem(128), kH200, request).get().parameters.describe(), "simple");
  EXPECT_EQ(chooseSchedule(makeProblem(128), kH200, makeRequest({"stages=2"})).error,
            "simple: it has no stages; relay: it has no stages; stream: 128 rows per request, "
            "its products hold 32");
}

TEST(ScheduleCost, RequestsRejectWhatTheyCannotRead) {
  ScheduleRequest request;
  std::string error;
  EXPECT_FALSE(request.set("left-stages=none", error));
  EXPECT_EQ(error, "left-stages: expected an integer from 1 to 113, got 'none'");
  EXPECT_FALSE(request.set("key-stages=9223372036854775807", error));
  EXPECT_EQ(error, "key-stages: expected an integer from 1 to 113, got '9223372036854775807'");
  EXPECT_FALSE(request.set("part-columns=9223372036854775744", error));
  EXPECT_FALSE(request.set("gate=up", error));
  EXPECT_EQ(error, "gate: expected none, left, right or both, got 'up'");
  EXPECT_FALSE(request.set("lazy-threshold=16", error));
  EXPECT_EQ(error, "lazy-threshold: expected a number from 0 to 15, got '16'");
  EXPECT_FALSE(request.set("registers=184/160", error));
  EXPECT_EQ(error, "registers: expected three numbers as 168/168/168, got '184/160'");
  EXPECT_FALSE(request.set("depth=3", error));
  EXPECT_EQ(error, "no schedule option 'depth'; there are left-stages right-stages rope-stages "
                   "gate early issue registers steps-per-turn lazy-threshold stages part-columns "
                   "key-block key-stages scores-stages product-stages");
  EXPECT_FALSE(request.setKind("fast", error));
  EXPECT_EQ(error, "expected auto, simple, relay, stream, pingpong, scores or product, got 'fast'");
}

TEST(ScheduleCost, ListedParametersCanBeForced) {
  for (int64_t heads : {16, 128}) {
    ScheduleCost cost = chooseSchedule(makeProblem(heads), kH200).get();
    ScheduleRequest request;
    request.kind = cost.parameters.kind;
    std::string error;
    for (const std::string &item : cost.parameters.list())
      EXPECT_TRUE(request.set(item, error)) << error;
    EXPECT_EQ(chooseSchedule(makeProblem(heads), kH200, request).get().parameters.describe(),
              cost.parameters.describe());
  }
}

TEST(ScheduleCost, KernelsAreAskedForByName) {
  for (int64_t heads : {128, 16}) {
    ScheduleParameters chosen = chooseSchedule(makeProblem(heads), kH200).get().parameters;
    std::string error, text = formatKernelRequest("attention_2", chosen);
    std::optional<KernelRequest> named = parseKernelRequest(text, error);
    ASSERT_TRUE(named) << error;
    EXPECT_EQ(named->kernel, "attention_2");
    EXPECT_EQ(chooseSchedule(makeProblem(heads), kH200, named->request).get().parameters.describe(),
              chosen.describe());
  }
  std::string error;
  for (const char *text : {"", "attention", "attention:", ":relay", ":"}) {
    EXPECT_FALSE(parseKernelRequest(text, error)) << text;
    EXPECT_EQ(error, "expected kernel:kind:key=value:..., got '" + std::string(text) + "'");
  }
  EXPECT_FALSE(parseKernelRequest("attention:fast", error));
  EXPECT_EQ(error, "expected auto, simple, relay, stream, pingpong, scores or product, got 'fast'");
  EXPECT_FALSE(parseKernelRequest("attention:relay:early=x", error));
  EXPECT_EQ(error, "early: expected an integer from 0 to 113, got 'x'");
}

TEST(ScheduleCost, PointsToMeasureLeaveOutWhatCannotBe) {
  std::string error;
  for (const ScheduleCost &point : enumerateSchedules(
           makeProblem(16), kH200, {}, error, {{ScheduleKind::Relay, "it has no running sum"}}))
    EXPECT_NE(point.parameters.kind, ScheduleKind::Relay);
  AttentionProblem unbounded = makeProblem(16);
  unbounded.areRowsBounded = false;
  for (const ScheduleCost &point : enumerateSchedules(unbounded, kH200, {}, error))
    EXPECT_NE(point.parameters.kind, ScheduleKind::Stream);
}

TEST(ScheduleCost, PointsToMeasureAreDifferentAndBeginWithTheChoice) {
  for (auto [heads, rank] : {std::pair{128, 512}, {64, 256}, {16, 512}, {16, 64}, {128, 64}}) {
    std::string error;
    AttentionProblem problem = makeProblem(heads, rank);
    std::vector<ScheduleCost> points = enumerateSchedules(problem, kH200, {}, error);
    ASSERT_FALSE(points.empty()) << error;
    EXPECT_LE(points.size(), 60u);
    EXPECT_EQ(points[0].parameters.describe(),
              chooseSchedule(problem, kH200).get().parameters.describe());
    std::set<std::string> seen;
    for (const ScheduleCost &point : points) {
      EXPECT_TRUE(point.isFeasible()) << point.whyNot;
      EXPECT_TRUE(seen.insert(point.parameters.describe()).second);
    }
  }
}

TEST(ScheduleCost, ForcedParametersNarrowThePoints) {
  std::string error;
  ScheduleRequest request = makeRequest({"gate=left", "lazy-threshold=8"});
  for (const ScheduleCost &point : enumerateSchedules(makeProblem(128), kH200, request, error)) {
    EXPECT_EQ(point.parameters.get(relay::kGate), GateEdge::Left);
    EXPECT_EQ(point.parameters.get(kLazyThreshold), 8);
  }
  EXPECT_TRUE(
      enumerateSchedules(makeProblem(128), kH200, makeRequest({"left-stages=9"}), error).empty());
  EXPECT_NE(error.find("left-stages 9"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST(ScheduleCost, PiecesCostAFewBlocks) {
  ScheduleCost cost = computeScheduleCost(makeProblem(128), kH200, ScheduleKind::Relay);
  WorkCosts work = getWorkCosts(makeProblem(128), 128, kH200, cost);
  EXPECT_GT(work.item, 1);
  EXPECT_LT(work.item, 5); // what the peer's scheduler assumes
  EXPECT_GT(work.merge, 1);
  // 128 rows of 512 values of 2 bytes, 131 KB written and read at half of 4.6 TB/s each, against
  // 1.5 to 1.8 us.
  EXPECT_NEAR(work.partial, 0.07, 0.01);
  // What few heads cost is not lost: without it the planner would cut as if partials were free.
  ScheduleCost few = computeScheduleCost(makeProblem(8), kH200, ScheduleKind::Stream);
  EXPECT_GT(getWorkCosts(makeProblem(8), 8, kH200, few).partial, 0.001);
  EXPECT_EQ(chooseFixedBlocks(work), 16); // a fifth of them beside, 3.05 blocks
}

TEST(ScheduleCost, StepsTakeLongerWithMoreKeysAndRequests) {
  AttentionProblem problem = makeProblem(128);
  ScheduleCost cost = computeScheduleCost(problem, kH200, ScheduleKind::Relay);
  auto predict = [&](int64_t batch, int64_t keys) {
    return predictMicroseconds(problem, kH200, cost, batch, keys);
  };
  EXPECT_LT(predict(1, 4096), predict(1, 32768));
  EXPECT_LT(predict(64, 4096), predict(128, 4096));
  // Same keys in all: the longer requests have fewer pieces.
  EXPECT_LE(predict(32, 32768), predict(128, 8192));
}

TEST(ScheduleCost, TheReasonsAreWritten) {
  AttentionProblem problem = makeProblem(128);
  std::string text = describeChoice(problem, kH200, chooseSchedule(problem, kH200));
  EXPECT_NE(text.find("bound by the roles' recurrence"), std::string::npos);
  EXPECT_NE(text.find("not simple: 4.93 us"), std::string::npos);
  EXPECT_NE(text.find("not stream: 128 rows per request, its products hold 32"), std::string::npos);
}

} // namespace
