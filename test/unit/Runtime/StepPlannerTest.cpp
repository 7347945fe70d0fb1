//===- StepPlannerTest.cpp - sizes and metadata of a step -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"
#include "StepSequences.h"
#include "engine/EngineOptions.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace mlac::runtime;

// mla.md section 9: W = 4096, page 64, contexts 0, 1000, 5000, 130.
static const std::vector<int32_t> kContexts = {0, 1000, 5000, 130};

TEST(Chunks, A28_GoldenExample) {
  ChunkSchedule schedule;
  ASSERT_TRUE(scheduleChunks(kContexts, 4096, 64, schedule).isOk());
  EXPECT_EQ(schedule.numContext, 3);
  EXPECT_EQ(schedule.capacity, 1344);
  EXPECT_EQ(schedule.numChunks, 4);
  EXPECT_EQ(schedule.chunkTokens, 2474);
  std::vector<int32_t> table(4 * 5);
  fillChunkTable(kContexts, schedule, table.data());
  EXPECT_EQ(table, (std::vector<int32_t>{0, 0, 1000, 2344, 2474, //
                                         0, 0, 0,    1344, 1344, //
                                         0, 0, 0,    1344, 1344, //
                                         0, 0, 0,    968,  968}));
}

/// What kernels derive from the table and the capacity: where a chunk starts in every
/// context, and its longest run of keys.
TEST(Chunks, A28_StartsMaximaAndTotals) {
  ChunkSchedule schedule;
  ASSERT_TRUE(scheduleChunks(kContexts, 4096, 64, schedule).isOk());
  std::vector<int32_t> table(4 * 5), totals;
  fillChunkTable(kContexts, schedule, table.data());
  std::vector<int64_t> starts, maxima;
  for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
    const int32_t *sums = &table[chunk * 5];
    starts.push_back(chunk * schedule.capacity);
    maxima.push_back(0);
    totals.push_back(sums[4]);
    for (size_t r = 0; r < 4; ++r) {
      int64_t length = sums[r + 1] - sums[r];
      maxima.back() = std::max(maxima.back(), length);
      EXPECT_LE(length > 0 ? starts.back() + length : 0, kContexts[r]);
    }
  }
  EXPECT_EQ(starts, (std::vector<int64_t>{0, 1344, 2688, 4032}));
  EXPECT_EQ(maxima, (std::vector<int64_t>{1344, 1344, 1344, 968}));
  EXPECT_EQ(totals, (std::vector<int32_t>{2474, 1344, 1344, 968}));
}

TEST(Chunks, A27_WorkspaceBelowAPagePerRequestIsRefused) {
  ChunkSchedule schedule;
  Status status = scheduleChunks(kContexts, 191, 64, schedule);
  EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("workspace_tokens = 191"), std::string::npos);
  EXPECT_TRUE(scheduleChunks(kContexts, 192, 64, schedule).isOk());
  EXPECT_EQ(schedule.capacity, 64);
}

TEST(Chunks, A29_TotalsStayBelowTheWorkspace) {
  for (int64_t workspace : {192, 1000, 4096, 65536}) {
    ChunkSchedule schedule;
    ASSERT_TRUE(scheduleChunks(kContexts, workspace, 64, schedule).isOk());
    std::vector<int32_t> table(schedule.numChunks * 5);
    fillChunkTable(kContexts, schedule, table.data());
    int64_t sum = 0;
    for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
      EXPECT_LE(table[chunk * 5 + 4], workspace);
      sum += table[chunk * 5 + 4];
    }
    EXPECT_EQ(sum, 6130);
  }
}

TEST(Chunks, NoContextHasNoChunks) {
  ChunkSchedule schedule;
  ASSERT_TRUE(scheduleChunks(std::vector<int32_t>{0, 0}, 4096, 64, schedule).isOk());
  EXPECT_EQ(schedule.numChunks, 0);
  EXPECT_EQ(schedule.chunkTokens, 0);
  EXPECT_EQ(schedule.capacity, 4096);
}

TEST(Chunks, A26_DefaultWorkspace) {
  EXPECT_EQ(defaultWorkspaceTokens(1024, 4, 64), 8192);
  EXPECT_EQ(defaultWorkspaceTokens(64, 16, 64), 4096);
  EXPECT_EQ(defaultWorkspaceTokens(163840, 8, 64), 65536);
  EXPECT_EQ(defaultWorkspaceTokens(163840, 2048, 64), 131072);
}

TEST(Chunks, D10_WorkspaceOfPromptsKeys) {
  EXPECT_EQ(defaultWorkspaceTokens(2048, 16, 64, 0, /*copiesKeys=*/true), 65536);
  EXPECT_EQ(defaultWorkspaceTokens(163840, 2048, 64, 0, /*copiesKeys=*/true), 131072);
  EXPECT_EQ(defaultWorkspaceTokens(2048, 16, 64, 32768, /*copiesKeys=*/true), 32768);
}

// A cap of the caller's is obeyed, and nothing raised: the engine refuses what is too small.
TEST(Chunks, A51_WorkspaceOfAnotherCap) {
  EXPECT_EQ(defaultWorkspaceTokens(163840, 8, 64, 131072), 131072);
  EXPECT_EQ(defaultWorkspaceTokens(1024, 4, 64, 131072), 8192);
  EXPECT_EQ(defaultWorkspaceTokens(163840, 4096, 64, 131072), 131072);
}

namespace {
class StepPlannerTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4;
  StepPlannerTest()
      : cache(/*numPages=*/16, kPage, /*maxSeqLen=*/32),
        planner({/*maxRequests=*/4, /*maxTokens=*/16, /*maxSeqLen=*/32,
                 /*workspaceTokens=*/64, kPage, /*numPages=*/16,
                 /*pageStrideElements=*/24, /*ropeLength=*/32,
                 /*numSms=*/2}) {}

  mla_sequence create(int64_t length) { return mlac::test::createSequence(cache, length); }
  Status measure(const std::vector<mla_sequence> &ids, const std::vector<int32_t> &lens) {
    mla_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(), lens.data(), 0};
    return planner.measure(cache, batch);
  }
  static FunctionInfo partitioned(const WorkParams &work) {
    FunctionInfo function{};
    function.work = work;
    return function;
  }
  template <typename T> std::vector<T> array(Metadata which) {
    MetadataArray where = planner.layout().arrays[static_cast<size_t>(which)];
    auto *data = reinterpret_cast<const T *>(mirror.host() + where.offset);
    return {data, data + where.elements};
  }
  /// block_table without its last columns, all of which must be unused.
  std::vector<int32_t> table(int64_t columns) {
    std::vector<int32_t> all = array<int32_t>(Metadata::BlockTable), result;
    int64_t stride = at(planner.dims(), Dim::MaxBlocksPerRequest);
    for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i)
      if (i % stride < columns)
        result.push_back(all[i]);
      else
        EXPECT_EQ(all[i], kUnusedPage) << i;
    return result;
  }
  void SetUp() override {
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    // A test partitions its attention without having told the planner so.
    ASSERT_TRUE(mirror.create(device, planner.maxBytes() + 4096, "metadata").isOk());
    rows[0].clear(mirror);
  }
  void fill() {
    ASSERT_LE(planner.layout().bytes, planner.maxBytes());
    planner.fill(cache, mirror, rows);
  }

  KVCache cache;
  StepPlanner planner;
  std::vector<TableRows> rows = planner.makeRows();
  DeviceMirror mirror;
};
} // namespace

TEST_F(StepPlannerTest, A39_MetadataOfARaggedBatch) {
  // Lengths at a page boundary, one before, one after; empty; no new tokens.
  mla_sequence a = create(4), b = create(3), c = create(0), d = create(5);
  ASSERT_TRUE(measure({a, b, c, d}, {1, 2, 6, 0}).isOk());
  ASSERT_TRUE(planner.hasPages(cache));
  fill();
  const int32_t x = kUnusedPage;
  EXPECT_EQ(array<int32_t>(Metadata::QueryStartLoc), (std::vector<int32_t>{0, 1, 3, 9, 9}));
  EXPECT_EQ(array<int32_t>(Metadata::SeqLens), (std::vector<int32_t>{5, 5, 6, 5}));
  EXPECT_EQ(array<int32_t>(Metadata::ContextLens), (std::vector<int32_t>{4, 3, 0, 5}));
  EXPECT_EQ(table(3), (std::vector<int32_t>{0, 4, x, 1, 5, x, 6, 7, x, 2, 3, x}));
  EXPECT_EQ(array<int64_t>(Metadata::Positions), (std::vector<int64_t>{4, 3, 4, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(array<int64_t>(Metadata::SlotMapping),
            (std::vector<int64_t>{16, 7, 20, 24, 25, 26, 27, 28, 29}));
  const DimValues &dims = planner.dims();
  EXPECT_EQ(at(dims, Dim::NumTokens), 9);
  EXPECT_EQ(at(dims, Dim::MaxQueryLen), 6);
  EXPECT_EQ(at(dims, Dim::MaxSeqLen), 6);
  EXPECT_EQ(at(dims, Dim::MaxContextLen), 5);
  EXPECT_EQ(at(dims, Dim::TotalContextLen), 12);
  EXPECT_EQ(at(dims, Dim::NumContextRequests), 3);
  // 32 tokens are 8 pages, an unused entry ends the row, rows begin at 16 bytes.
  EXPECT_EQ(at(dims, Dim::MaxBlocksPerRequest), 12);
  // 4 + 1, 2 * 3 + 3, 21, 0
  EXPECT_EQ(at(dims, Dim::AttendedPairs), 35);
}

// The partition is metadata of the step like all others: filled once, sent with the
// same copy, and the same for every layer.
TEST_F(StepPlannerTest, B28_PartitionIsMetadataOfTheStep) {
  WorkParams work = {/*keysPerBlock=*/4,
                     /*rowsPerToken=*/8,
                     /*rowsPerTile=*/8,      0.5, 0.5, 0, 0,
                     {{{INT32_MAX, 64, 2}}}, 1};
  mla_sequence a = create(30), b = create(0);
  ASSERT_TRUE(measure({a, b}, {1, 1}).isOk());
  EXPECT_TRUE(planner.layout().arrays[size_t(Metadata::WorkItems)].elements == 0);
  ASSERT_TRUE(planner.measureFor({partitioned(work)}).isOk());
  planner.fill(cache, mirror, rows);
  // 8 blocks and 1, two parts: 4.5 + 0.5 each.
  EXPECT_EQ(array<int32_t>(Metadata::WorkStarts), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(array<int32_t>(Metadata::WorkItems), (std::vector<int32_t>{0, 0, 5, 31, 0, 1, 0,  0, //
                                                                       0, 5, 3, 31, 0, 1, 1,  0, //
                                                                       1, 0, 1, 1,  1, 1, -1, 0}));
  EXPECT_EQ(array<int32_t>(Metadata::MergeItems), (std::vector<int32_t>{0, 1, 0, 2, 0, 1}));
  const DimValues &dims = planner.dims();
  EXPECT_EQ(at(dims, Dim::NumParts), 2);
  EXPECT_EQ(at(dims, Dim::NumPartials), 2);
  EXPECT_EQ(at(dims, Dim::PartialTokens), 2);
  EXPECT_EQ(at(dims, Dim::NumMerges), 1);
  // 8 rows in two blocks of columns by two programs.
  EXPECT_EQ(at(dims, Dim::NumMergePrograms), 2);
  EXPECT_EQ(array<int32_t>(Metadata::MergeStarts), (std::vector<int32_t>{0, 0, 0, 1, 0, 1, 0, 2}));
  // The other arrays have not moved away.
  EXPECT_EQ(array<int32_t>(Metadata::SeqLens), (std::vector<int32_t>{31, 1}));
  // A step of a function without a partition has none.
  planner.rollback(cache);
  ASSERT_TRUE(measure({a, b}, {1, 1}).isOk());
  EXPECT_EQ(at(planner.dims(), Dim::NumParts), 0);
}

TEST_F(StepPlannerTest, B26_MaximaHoldForEveryPartition) {
  WorkParams work = {4, 8, 8, 0.5, 0.5, 0};
  StepLimits limits{4, 16, 32, 64, kPage, 16, 24, 32, /*numSms=*/7, {work}};
  StepPlanner large(limits);
  mla_sequence a = create(30), b = create(9), c = create(0), d = create(17);
  for (std::vector<int32_t> queries : {std::vector<int32_t>{1, 1, 1, 1}, {2, 2, 2, 2}}) {
    std::vector<mla_sequence> ids = {a, b, c, d};
    mla_batch batch = {sizeof batch, 4, ids.data(), queries.data(), 0};
    ASSERT_TRUE(large.measure(cache, batch).isOk());
    ASSERT_TRUE(large.measureFor({partitioned(work)}).isOk());
    EXPECT_LE(large.layout().bytes, large.maxBytes());
    DimValues largest = largestDims(limits, 4, 0, true, work);
    EXPECT_LE(at(large.dims(), Dim::PartialTokens), at(largest, Dim::PartialTokens));
    EXPECT_LE(at(large.dims(), Dim::NumMerges), at(largest, Dim::NumMerges));
  }
}

TEST_F(StepPlannerTest, ReservedPagesStayHidden) {
  mla_sequence a = create(1);
  Sequence *sequence;
  ASSERT_TRUE(cache.find(a, sequence).isOk());
  ASSERT_TRUE(cache.reserve(*sequence, 32).isOk());
  ASSERT_TRUE(measure({a}, {1}).isOk());
  fill();
  EXPECT_EQ(table(2), (std::vector<int32_t>{0, kUnusedPage}));
}

TEST_F(StepPlannerTest, RollbackRestoresTheCache) {
  mla_sequence a = create(4), b = create(7);
  ASSERT_TRUE(measure({a, b}, {9, 2}).isOk());
  fill();
  EXPECT_EQ(cache.pool().numFree(), 16 - 4 - 3);
  planner.rollback(cache);
  EXPECT_EQ(cache.pool().numFree(), 16 - 1 - 2);
  EXPECT_TRUE(cache.pool().isConsistent());
  // The same pages are taken again.
  std::vector<int32_t> first = array<int32_t>(Metadata::BlockTable);
  ASSERT_TRUE(measure({a, b}, {9, 2}).isOk());
  fill();
  EXPECT_EQ(array<int32_t>(Metadata::BlockTable), first);
}

TEST_F(StepPlannerTest, BadBatchesAreRefused) {
  mla_sequence a = create(4), b = create(31), c = create(0), d = create(0);
  auto refuse = [&](const std::vector<mla_sequence> &ids, const std::vector<int32_t> &lens,
                    const char *text) {
    Status status = measure(ids, lens);
    EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  refuse({}, {}, "batch of 0 requests");
  refuse({a, a}, {1, 1}, "request 1: sequence");
  refuse({a}, {-1}, "query length -1");
  refuse({b}, {2}, "seq_len 31 + 2 is over max_seq_len = 32");
  refuse({a, c, d}, {8, 8, 1}, "batch of 17 tokens");
  refuse({a, b, c, d, 0}, {1, 1, 1, 1, 1}, "batch of 5 requests");
  EXPECT_TRUE(measure({b}, {1}).isOk());
}
