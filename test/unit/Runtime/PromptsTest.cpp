//===- PromptsTest.cpp - requests apart from the partitioned work ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include "StepSequences.h"

using namespace mlac::runtime;

namespace {
class PromptsTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 64, kMaxSeqLen = 64, kAbove = 4;
  static constexpr WorkParams kWork = mlac::test::kSmallWork;

  void SetUp() override { start(/*workspaceTokens=*/64); }
  void start(int64_t workspaceTokens) {
    StepLimits limits{/*maxRequests=*/8,
                      /*maxTokens=*/64,
                      kMaxSeqLen,
                      workspaceTokens,
                      kPage,
                      kPages,
                      /*pageStrideElements=*/24,
                      /*ropeLength=*/kMaxSeqLen,
                      /*numSms=*/4,
                      {kWork}};
    limits.hasPrompts = true;
    limits.promptCuts = boundPromptCuts(mlac::test::kSmallPrompts, limits.numSms);
    planner.emplace(limits);
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.emplace().create(device, planner->maxBytes(), "metadata").isOk());
    rows = planner->makeRows();
    rows[0].clear(*mirror);
    // Prompts pay if they have at least ten tokens.
    namespace fb = mlac::package;
    std::vector<fb::ExprNode> nodes = {{fb::ExprOp::Dim, 0, 0, 0, 0},
                                       {fb::ExprOp::Const, 0, 0, 0, 10},
                                       {fb::ExprOp::Ge, 0, 1, 0, 0}};
    ASSERT_TRUE(ExpressionTable::make(nodes, {Dim::NumPromptTokens}, function.exprs).isOk());
    function.work = kWork;
    function.prompts = mlac::test::kSmallPrompts;
    function.prompts->above = kAbove, function.prompts->pays = 2;
  }
  /// Of sequences with so many cached tokens.
  void measure(const std::vector<int64_t> &contexts, const std::vector<int32_t> &lens) {
    std::vector<mla_sequence> ids;
    for (int64_t length : contexts)
      ids.push_back(mlac::test::createSequence(cache, length));
    mla_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(), lens.data(), 0};
    ASSERT_TRUE(planner->measure(cache, batch).isOk());
    Status status = planner->measureFor({function});
    ASSERT_TRUE(status.isOk()) << status.message();
    ASSERT_LE(planner->layout().bytes, planner->maxBytes());
    planner->fill(cache, *mirror, rows);
  }
  std::vector<int32_t> array(Metadata which) {
    MetadataArray where = planner->layout().arrays[static_cast<size_t>(which)];
    auto *data = reinterpret_cast<const int32_t *>(mirror->host() + where.offset);
    return {data, data + where.elements};
  }
  std::vector<int32_t> requestsInPieces() {
    std::vector<int32_t> items = array(Metadata::WorkItems), requests;
    constexpr size_t fields = sizeof(WorkItem) / sizeof(int32_t);
    for (size_t i = 0; i < items.size(); i += fields)
      if (requests.empty() || requests.back() != items[i])
        requests.push_back(items[i]);
    std::ranges::sort(requests);
    requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
    return requests;
  }
  int64_t dim(Dim which) { return at(planner->dims(), which); }

  FunctionInfo function{};
  KVCache cache{kPages, kPage, kMaxSeqLen};
  std::optional<StepPlanner> planner;
  std::optional<DeviceMirror> mirror;
  std::vector<TableRows> rows;
};
} // namespace

TEST_F(PromptsTest, D10_PromptsAreListedAndTheOthersPartitioned) {
  measure({20, 3, 0, 9, 6}, {1, 8, 0, kAbove, 5});
  EXPECT_EQ(dim(Dim::NumPrompts), 2);
  EXPECT_EQ(dim(Dim::NumPromptTokens), 13);
  EXPECT_EQ(dim(Dim::NumPromptKeys), 11 + 11);
  EXPECT_EQ(dim(Dim::MaxPieceQueryLen), kAbove);
  EXPECT_EQ(array(Metadata::PromptRequests), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(array(Metadata::PromptKeyLoc), (std::vector<int32_t>{0, 11, 22}));
  EXPECT_EQ(array(Metadata::PromptParts), (std::vector<int32_t>{1, 5,  4, 7,  0, 11, 0,  -1, //
                                                                4, 17, 1, 10, 0, 11, 11, -1, //
                                                                4, 13, 4, 6,  0, 11, 11, -1, //
                                                                1, 1,  4, 3,  0, 11, 0,  -1}));
  EXPECT_EQ(requestsInPieces(), (std::vector<int32_t>{0, 3}));
}

TEST_F(PromptsTest, D10_PromptsAloneLeaveNoWork) {
  measure({3, 6}, {8, 5});
  EXPECT_EQ(dim(Dim::NumPrompts), 2);
  EXPECT_EQ(dim(Dim::NumParts), 0);
  EXPECT_EQ(dim(Dim::MaxPieceQueryLen), 0);
  EXPECT_TRUE(array(Metadata::WorkItems).empty());
}

TEST_F(PromptsTest, D10_WhereTheyDoNotPayAllRequestsArePartitioned) {
  measure({20, 3}, {1, 9});
  EXPECT_EQ(dim(Dim::NumPrompts), 0);
  EXPECT_EQ(dim(Dim::NumPromptTokens), 0);
  EXPECT_EQ(dim(Dim::NumPromptKeys), 0);
  EXPECT_EQ(dim(Dim::MaxPieceQueryLen), 9);
  EXPECT_TRUE(array(Metadata::PromptRequests).empty());
  EXPECT_TRUE(array(Metadata::PromptKeyLoc).empty());
  EXPECT_EQ(requestsInPieces(), (std::vector<int32_t>{0, 1}));
  // The next step has others.
  measure({20, 3}, {1, 10});
  EXPECT_EQ(dim(Dim::NumPrompts), 1);
  EXPECT_EQ(requestsInPieces(), (std::vector<int32_t>{0}));
}

TEST_F(PromptsTest, D10_KeysBeyondTheWorkspaceAreNotCounted) {
  start(/*workspaceTokens=*/21);
  measure({3, 6}, {8, 5}); // 22 keys
  EXPECT_EQ(dim(Dim::NumPrompts), 2);
  EXPECT_EQ(dim(Dim::NumPromptKeys), 0);
  measure({2, 6}, {8, 5});
  EXPECT_EQ(dim(Dim::NumPromptKeys), 21);
}

// Sixteen new tokens on four multiprocessors: one program of four rows has sixteen keys.
TEST_F(PromptsTest, D10_FewProgramsAreCutAndMergedBesidePieces) {
  function.work->mergeForms = {MergeForm{64, 1, 1}};
  function.work->mergePrograms = 1;
  measure({30, 0}, {1, 16});
  EXPECT_EQ(dim(Dim::NumPrompts), 1);
  constexpr size_t kPartFields = sizeof(PromptPart) / sizeof(int32_t);
  constexpr size_t kMergeFields = sizeof(MergeItem) / sizeof(int32_t);
  size_t parts = static_cast<size_t>(dim(Dim::NumPromptParts));
  ASSERT_GT(parts, 4u);
  EXPECT_EQ(array(Metadata::PromptParts).size(), parts * kPartFields);
  EXPECT_EQ(array(Metadata::MergeItems).size(),
            static_cast<size_t>(dim(Dim::NumMerges)) * kMergeFields);
  EXPECT_GT(dim(Dim::PartialTokens), 2 * 16);
  // A prompt alone leaves its merges.
  measure({0}, {16});
  EXPECT_EQ(dim(Dim::NumParts), 0);
  EXPECT_GT(dim(Dim::NumMergePrograms), 0);
  EXPECT_GT(dim(Dim::NumMerges), 0);
}

TEST_F(PromptsTest, D10_StepsOfBoundsHaveNone) {
  const int32_t lens[] = {1, 12}, bounds[] = {20, 15};
  alignas(MLA_DATA_ALIGNMENT) static const char data[MLA_DATA_ALIGNMENT] = {}; // not read
  mla_device_batch batch = {};
  batch.num_requests = 2;
  batch.query_lens = lens;
  batch.seq_len_bounds = bounds;
  batch.seq_lens = batch.block_table = reinterpret_cast<const int32_t *>(data);
  batch.slot_mapping = batch.positions = reinterpret_cast<const int64_t *>(data);
  batch.block_table_stride = kMaxSeqLen / kPage;
  ASSERT_TRUE(planner->measureDevice(batch).isOk());
  ASSERT_TRUE(planner->measureFor({function}).isOk());
  EXPECT_EQ(dim(Dim::NumPrompts), 0);
  EXPECT_EQ(dim(Dim::MaxPieceQueryLen), 12);
  EXPECT_GT(dim(Dim::NumParts), 0);
}
