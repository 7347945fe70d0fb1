//===- GatherScheduleTest.cpp - chunks of whole requests --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Separate mode of sparse layers (sparse.md section 11): which requests are gathered
// together, and what kernels are told of it.
//
//===----------------------------------------------------------------------===//

#include "step/GatherSchedule.h"
#include "StepSequences.h"
#include "step/StepPlanner.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlac::runtime;
using Ints = std::vector<int32_t>;

TEST(GatherSchedule, B19_ExampleOfTheSpecification) {
  const GatheredRequest requests[] = {{10, 1}, {15, 2}, {20, 3}, {5, 4}};
  GatherSchedule schedule;
  ASSERT_TRUE(scheduleGathers(requests, 25, schedule).isOk());
  EXPECT_EQ(schedule.firsts, (Ints{0, 2, 4}));
  EXPECT_EQ(schedule.rows, 25);
  EXPECT_EQ(schedule.tokens, 7);
  Ints ends(2 * 5), starts(4);
  fillGatherTables(requests, schedule, ends.data(), starts.data());
  EXPECT_EQ(ends, (Ints{0, 10, 25, 25, 25, 0, 0, 0, 20, 25}));
  EXPECT_EQ(starts, (Ints{0, 10, 0, 20}));
}

TEST(GatherSchedule, B20_NoRequestIsLongerThanTheWorkspace) {
  const GatheredRequest fits[] = {{25, 1}}, one[] = {{3, 1}, {26, 1}};
  GatherSchedule schedule;
  ASSERT_TRUE(scheduleGathers(fits, 25, schedule).isOk());
  Status status = scheduleGathers(one, 25, schedule);
  EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(), "prefill 1 has 26 keys, which are gathered into a workspace of 25 "
                              "rows (workspace_tokens)");
}

TEST(GatherSchedule, NothingIsGatheredOfNobody) {
  GatherSchedule schedule;
  ASSERT_TRUE(scheduleGathers({}, 25, schedule).isOk());
  EXPECT_EQ(schedule.numChunks(), 0);
  EXPECT_EQ(schedule.rows, 0);
}

TEST(GatherSchedule, B19_EveryRequestIsInOneChunkThatHoldsIt) {
  std::mt19937 engine(1);
  for (int round = 0; round < 1000; ++round) {
    std::vector<GatheredRequest> requests(engine() % 20);
    int64_t workspace = 1 + engine() % 100;
    for (auto &[keys, tokens] : requests) {
      keys = static_cast<int64_t>(engine() % (workspace + 1));
      tokens = keys == 0 ? 0 : 1 + engine() % keys;
    }
    GatherSchedule schedule;
    ASSERT_TRUE(scheduleGathers(requests, workspace, schedule).isOk());
    auto count = static_cast<int64_t>(requests.size());
    Ints ends(static_cast<size_t>(schedule.numChunks() * (count + 1))), starts(requests.size());
    fillGatherTables(requests, schedule, ends.data(), starts.data());
    std::vector<int64_t> gathered(requests.size());
    for (int64_t chunk = 0; chunk < schedule.numChunks(); ++chunk) {
      const int32_t *sums = &ends[static_cast<size_t>(chunk * (count + 1))];
      EXPECT_EQ(sums[0], 0);
      EXPECT_LE(sums[count], workspace);
      for (int64_t i = 0; i < count; ++i)
        if (int64_t keys = sums[i + 1] - sums[i]; keys > 0) {
          EXPECT_EQ(sums[i], starts[static_cast<size_t>(i)]);
          gathered[static_cast<size_t>(i)] += keys;
        }
    }
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(gathered[i], requests[i].keys);
  }
}

namespace {
class GatherStepTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 64, kMaxSeqLen = 64, kWorkspace = 25;
  GatherStepTest()
      : cache(kPages, kPage, kMaxSeqLen), planner([] {
          StepLimits limits{/*maxRequests=*/8,
                            /*maxTokens=*/64,
                            kMaxSeqLen,
                            kWorkspace,
                            kPage,
                            kPages,
                            /*pageStrideElements=*/24,
                            /*ropeLength=*/kMaxSeqLen,
                            /*numSms=*/2};
          limits.hasParts = limits.hasGathers = true;
          return limits;
        }()) {}

  void SetUp() override {
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.create(device, planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
    function.gathersWhole = true;
  }
  Status measure(const std::vector<std::pair<int64_t, int32_t>> &requests, int64_t threshold,
                 const mla_step_shape *shape = nullptr) {
    std::vector<mla_sequence> ids;
    Ints lens;
    for (auto [context, query] : requests) {
      ids.push_back(mlac::test::createSequence(cache, context));
      lens.push_back(query);
    }
    mla_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(), lens.data(), 0};
    MLAC_RETURN_IF_ERROR(planner.measure(cache, batch));
    return planner.measureFor({function, threshold, shape});
  }
  Ints array(Metadata which) {
    MetadataArray where = planner.layout().arrays[static_cast<size_t>(which)];
    auto *data = reinterpret_cast<const int32_t *>(mirror.host() + where.offset);
    return {data, data + where.elements};
  }
  int64_t dim(Dim which) { return at(planner.dims(), which); }

  KVCache cache;
  StepPlanner planner;
  std::vector<TableRows> rows = planner.makeRows();
  DeviceMirror mirror;
  FunctionInfo function{};
};
} // namespace

TEST_F(GatherStepTest, B09_B19_B42_PrefillsBehindDecodes) {
  ASSERT_TRUE(measure({{40, 1}, {3, 1}, {8, 2}, {0, 15}, {13, 7}, {0, 5}}, 1).isOk());
  ASSERT_LE(planner.layout().bytes, planner.maxBytes());
  planner.fill(cache, mirror, rows);
  EXPECT_EQ(dim(Dim::NumGathers), 2);
  EXPECT_EQ(dim(Dim::GatherRows), 25);
  EXPECT_EQ(dim(Dim::GatherTokens), 17);
  EXPECT_EQ(array(Metadata::GatherCuSeqLens), (Ints{0, 10, 25, 25, 25, 0, 0, 0, 20, 25}));
  EXPECT_EQ(array(Metadata::GatherStarts), (Ints{0, 10, 0, 20}));
  // Rows of the whole batch: two decodes come first.
  EXPECT_EQ(array(Metadata::GatherQueryLoc), (Ints{2, 19, 31}));
  Ints owners = {-1, -1};
  for (auto [count, owner] : {std::pair(2, 0), {15, 1}, {7, 2}, {5, 3}})
    owners.insert(owners.end(), static_cast<size_t>(count), owner);
  EXPECT_EQ(array(Metadata::GatherReqIdPerToken), owners);
}

TEST_F(GatherStepTest, B18_WithoutPrefillsNothingIsGathered) {
  ASSERT_TRUE(measure({{40, 1}, {3, 1}}, 1).isOk());
  planner.fill(cache, mirror, rows);
  EXPECT_EQ(dim(Dim::NumGathers), 0);
  EXPECT_EQ(array(Metadata::GatherQueryLoc), Ints());
}

TEST_F(GatherStepTest, RequestsWithoutNewTokensAreNot) {
  ASSERT_TRUE(measure({{30, 0}, {9, 3}, {30, 0}}, 0).isOk()); // not split
  planner.fill(cache, mirror, rows);
  EXPECT_EQ(array(Metadata::GatherCuSeqLens), (Ints{0, 0, 12, 12}));
  EXPECT_EQ(array(Metadata::GatherQueryLoc), (Ints{0, 3}));
}

TEST_F(GatherStepTest, B18_ShapesWithPrefillsAreRefused) {
  mla_step_shape shape = {sizeof shape, 3, 18, 16, kMaxSeqLen, 2, 2};
  Status status = measure({{4, 1}}, 1, &shape);
  EXPECT_EQ(status.code(), MLA_UNSUPPORTED);
  EXPECT_NE(status.message().find("gathers prefills whole, of which the step may have 1"),
            std::string::npos)
      << status.message();
}
