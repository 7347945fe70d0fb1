//===- StepPartsTest.cpp - decodes and prefills of one step -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the planner makes of a batch that is split (mla.md sections 9 and 10), and
// the errors of an older implementation that the specification lists in mla.md
// section 15 (tests Erratum*; numbers 5 and 7 are about weights and about merging:
// FormCostTest and MergeTest).
//
//===----------------------------------------------------------------------===//

#include "StepSequences.h"
#include "engine/EngineOptions.h"
#include "step/StepPlanner.h"

#include <gtest/gtest.h>

using namespace mlac::runtime;

namespace {
class StepPartsTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 64, kMaxSeqLen = 64, kWorkspace = 16;
  StepPartsTest()
      : cache(kPages, kPage, kMaxSeqLen),
        planner({/*maxRequests=*/8, /*maxTokens=*/64, kMaxSeqLen, kWorkspace, kPage, kPages,
                 /*pageStrideElements=*/24, /*ropeLength=*/kMaxSeqLen, /*numSms=*/2, kWorks,
                 /*hasParts=*/true}) {}

  void SetUp() override {
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.create(device, planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
  }
  /// A batch of (context, query) requests, measured and filled for a threshold.
  void plan(const std::vector<std::pair<int64_t, int32_t>> &requests, int64_t threshold,
            bool hasOptionalChunks = false) {
    std::vector<mla_sequence> ids;
    std::vector<int32_t> lens;
    for (auto [context, query] : requests) {
      ids.push_back(mlac::test::createSequence(cache, context));
      lens.push_back(query);
    }
    mla_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(), lens.data(), 0};
    ASSERT_TRUE(planner.measure(cache, batch).isOk());
    FunctionInfo function{};
    function.usesChunks = true;
    function.hasOptionalChunks = hasOptionalChunks;
    function.work = kWorks[0];
    ASSERT_TRUE(planner.measureFor({function, threshold}).isOk());
    ASSERT_LE(planner.layout().bytes, planner.maxBytes());
    planner.fill(cache, mirror, rows);
  }
  template <typename T = int32_t> std::vector<T> array(Metadata which) {
    MetadataArray where = planner.layout().arrays[static_cast<size_t>(which)];
    auto *data = reinterpret_cast<const T *>(mirror.host() + where.offset);
    return {data, data + where.elements};
  }
  int64_t dim(Dim which) { return at(planner.dims(), which); }

  static inline const std::vector<WorkParams> kWorks = {mlac::test::kSmallWork};
  KVCache cache;
  StepPlanner planner;
  std::vector<TableRows> rows = planner.makeRows();
  DeviceMirror mirror;
};
} // namespace

TEST_F(StepPartsTest, ProgramsHaveAnItemAndItsRequestBesideTheCounters) {
  plan({{3, 1}}, 1);
  // PingPongKernel.h: two counters, then two numbers of each of the two programs.
  EXPECT_EQ(array(Metadata::ItemCounters), std::vector<int32_t>(2 + 2 * 2, 0));
}

TEST_F(StepPartsTest, B23_PartsHaveTheirOwnSizesAndTables) {
  // Two decodes, a prompt, a piece of a prompt, and a one-token tail behind them.
  plan({{40, 1}, {3, 1}, {0, 9}, {6, 5}, {7, 1}}, 1);
  EXPECT_EQ(dim(Dim::NumDecodes), 2);
  EXPECT_EQ(dim(Dim::NumPrefills), 3);
  EXPECT_EQ(dim(Dim::NumDecodeTokens), 2);
  EXPECT_EQ(dim(Dim::NumPrefillTokens), 15);
  EXPECT_EQ(dim(Dim::MaxDecodeQueryLen), 1);
  EXPECT_EQ(dim(Dim::MaxDecodeSeqLen), 41);
  EXPECT_EQ(dim(Dim::MaxPrefillQueryLen), 9);
  EXPECT_EQ(dim(Dim::PrefillContextLen), 6 + 7);
  EXPECT_EQ(dim(Dim::PrefillAttendedPairs), 45 + (5 * 6 + 15) + (7 + 1));
  EXPECT_EQ(dim(Dim::AttendedPairs), 41 + 4 + dim(Dim::PrefillAttendedPairs));
  EXPECT_EQ(array(Metadata::QueryStartLoc), (std::vector<int32_t>{0, 1, 2, 11, 16, 17}));
  EXPECT_EQ(array(Metadata::PrefillQueryStartLoc), (std::vector<int32_t>{2, 11, 16, 17}));
  std::vector<int32_t> all = array(Metadata::BlockTable);
  all.erase(all.begin(), all.begin() + 2 * dim(Dim::MaxBlocksPerRequest));
  EXPECT_EQ(array(Metadata::PrefillBlockTable), all);
}

TEST_F(StepPartsTest, B25_RequestOfEachToken) {
  plan({{1, 1}, {0, 0}, {0, 3}, {2, 2}}, 1);
  EXPECT_EQ(array(Metadata::ReqIdPerToken), (std::vector<int32_t>{0, 2, 2, 2, 3, 3}));
}

TEST_F(StepPartsTest, B24_DecodesAloneHaveNoOtherPart) {
  plan({{5, 1}, {9, 1}, {0, 0}}, 1);
  EXPECT_EQ(dim(Dim::NumPrefills), 0);
  EXPECT_EQ(dim(Dim::NumChunks), 0);
  EXPECT_EQ(array(Metadata::PrefillQueryStartLoc), (std::vector<int32_t>{0}));
  EXPECT_TRUE(array(Metadata::PrefillBlockTable).empty());
}

TEST_F(StepPartsTest, A35_SpeculativeRowsAreDecodesUpToTheThreshold) {
  plan({{5, 3}, {9, 1}, {8, 2}, {4, 4}}, 3);
  EXPECT_EQ(dim(Dim::NumDecodes), 3);
  EXPECT_EQ(dim(Dim::NumDecodeTokens), 6);
  EXPECT_EQ(dim(Dim::MaxDecodeQueryLen), 3);
}

// "has_context" was set where nobody read it, so that cached context was skipped.
TEST_F(StepPartsTest, Erratum1_A44_ContextMakesChunks) {
  plan({{40, 1}, {0, 9}}, 1);
  EXPECT_EQ(dim(Dim::NumChunks), 0);
  plan({{40, 1}, {1, 9}}, 1);
  EXPECT_EQ(dim(Dim::NumChunks), 1);
  EXPECT_EQ(dim(Dim::ChunkTokens), 1);
}

// Gathering read the tables from the batch's first request, though decodes stand there.
TEST_F(StepPartsTest, Erratum2_A45_ChunksAreThoseOfPrefills) {
  plan({{40, 1}, {3, 1}, {0, 9}, {6, 5}, {9, 2}}, 1);
  // W = 16 over two prefills with context: 8 tokens each, two chunks.
  EXPECT_EQ(dim(Dim::ChunkCapacity), 8);
  EXPECT_EQ(dim(Dim::ChunkRequestTokens), 8);
  EXPECT_EQ(array(Metadata::ChunkCuSeqLens), (std::vector<int32_t>{0, 0, 6, 14, //
                                                                   0, 0, 0, 1}));
  int64_t columns = dim(Dim::MaxBlocksPerRequest);
  EXPECT_EQ(array(Metadata::PrefillBlockTable)[columns], array(Metadata::BlockTable)[3 * columns]);
}

// W = 16 holds a page of 4 tokens for each of four requests.
TEST_F(StepPartsTest, B06_OptionalChunksAreThereWhereTheyFit) {
  std::vector<std::pair<int64_t, int32_t>> requests(4, {9, 2});
  plan(requests, 1, /*hasOptionalChunks=*/true);
  EXPECT_EQ(dim(Dim::ChunkCapacity), 4);
  EXPECT_EQ(dim(Dim::NumChunks), 3);
  EXPECT_EQ(dim(Dim::ChunkTokens), 16);
  requests.push_back({1, 2});
  plan(requests, 1, /*hasOptionalChunks=*/true);
  for (Dim size : {Dim::ChunkCapacity, Dim::NumChunks, Dim::ChunkTokens, Dim::ChunkRequestTokens})
    EXPECT_EQ(dim(size), 0) << dimName(size);
  EXPECT_TRUE(array(Metadata::ChunkCuSeqLens).empty());
  EXPECT_EQ(dim(Dim::PrefillContextLen), 37);
}

// The longest context of all requests, decodes included, made useless chunks.
TEST_F(StepPartsTest, Erratum3_DecodesMakeNoChunks) {
  plan({{60, 1}, {5, 3}}, 1);
  EXPECT_EQ(dim(Dim::NumChunks), 1);
  EXPECT_EQ(dim(Dim::ChunkTokens), 5);
  EXPECT_EQ(dim(Dim::ChunkRequestTokens), 5);
  EXPECT_EQ(dim(Dim::MaxContextLen), 60);
}

// Attention among new tokens was told the longest sequence as its longest key range.
TEST_F(StepPartsTest, Erratum4_NewTokensAreBoundedByTheLongestQuery) {
  plan({{60, 1}, {50, 3}, {0, 7}}, 1);
  EXPECT_EQ(dim(Dim::MaxPrefillQueryLen), 7);
  EXPECT_EQ(dim(Dim::MaxSeqLen), 61);
}

// Numbers for 65536 rows stood beside a cap of 131072: 72 MiB and 144 MiB of latents.
TEST_F(StepPartsTest, Erratum6_BytesOfTheWorkspace) {
  constexpr int64_t rowBytes = (512 + 64) * 2, mib = 1 << 20;
  EXPECT_EQ(defaultWorkspaceTokens(163840, 8, 64) * rowBytes, 72 * mib);
  EXPECT_EQ(defaultWorkspaceTokens(163840, 2048, 64) * rowBytes, 144 * mib);
}

TEST_F(StepPartsTest, WorkIsThatOfDecodes) {
  plan({{40, 1}, {0, 9}, {30, 4}}, 1);
  std::vector<int32_t> items = array(Metadata::WorkItems);
  constexpr size_t fields = sizeof(WorkItem) / sizeof(int32_t);
  ASSERT_GT(items.size(), 0u);
  for (size_t i = 0; i < items.size(); i += fields)
    EXPECT_EQ(items[i], 0) << "item " << i / fields << " is of a prefill";
}

TEST_F(StepPartsTest, WithoutDecodesThereIsNoWork) {
  plan({{0, 9}, {30, 4}}, 1);
  EXPECT_EQ(dim(Dim::NumParts), 0);
  EXPECT_TRUE(array(Metadata::WorkStarts).empty());
  EXPECT_TRUE(array(Metadata::WorkItems).empty());
}

TEST_F(StepPartsTest, A40_NoWorkspaceRefusesContextOnly) {
  ChunkSchedule schedule;
  std::vector<int32_t> none = {0, 0}, some = {0, 3};
  EXPECT_TRUE(scheduleChunks(none, 0, kPage, schedule).isOk());
  Status status = scheduleChunks(some, 0, kPage, schedule);
  EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("1 requests have cached context"), std::string::npos)
      << status.message();
}

TEST_F(StepPartsTest, A27_NoPageForEachPrefillIsAnError) {
  // W = 16 holds a page of 4 for each of four requests with context, not of five.
  std::vector<int32_t> four(4, 9), five(5, 9);
  ChunkSchedule schedule;
  EXPECT_TRUE(scheduleChunks(four, kWorkspace, kPage, schedule).isOk());
  EXPECT_EQ(scheduleChunks(five, kWorkspace, kPage, schedule).code(), MLA_INVALID_ARGUMENT);
}
