//===- SharedPrefixTest.cpp - what the requests of a step have in common ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepSequences.h"
#include "step/StepPlanner.h"

#include <gtest/gtest.h>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Finding it
//===----------------------------------------------------------------------===//

static int64_t common(const std::vector<std::vector<int32_t>> &pages,
                      const std::vector<int64_t> &tokens, int64_t pageSize = 4) {
  std::vector<CachedContext> contexts;
  for (size_t i = 0; i < pages.size(); ++i)
    contexts.push_back({pages[i], tokens[i]});
  int64_t count = countCommonTokens(contexts, pageSize);
  EXPECT_LE(count, boundCommonTokens(contexts, pageSize));
  return count;
}

TEST(SharedPrefix, RaggedContextsEndAtTheFirstDifference) {
  EXPECT_EQ(common({{7, 8, 1, 2}, {7, 8, 3}, {7, 8, 1}}, {16, 11, 12}), 8);
  EXPECT_EQ(common({{7, 8, 1}, {7, 9, 1}}, {12, 12}), 4);
}

TEST(SharedPrefix, EqualTablesAreAllCommon) { EXPECT_EQ(common({{7, 8}, {7, 8}}, {8, 8}), 8); }

TEST(SharedPrefix, OnlyPagesFullOfCachedTokensCount) {
  EXPECT_EQ(common({{7, 8}, {7, 8}}, {8, 7}), 4); // the second page has a free row
  EXPECT_EQ(common({{7}, {7}}, {3, 3}), 0);
}

TEST(SharedPrefix, ReservedPagesBehindAContextDoNotCount) {
  EXPECT_EQ(common({{7, 8, 9}, {7, 8, 9}}, {12, 5}), 4);
}

TEST(SharedPrefix, EmptyContextsHaveNothingInCommon) {
  EXPECT_EQ(common({{7, 8}, {}}, {8, 0}), 0);
  EXPECT_EQ(common({}, {}), 0);
}

TEST(SharedPrefix, OneRequestHasEverythingInCommon) { EXPECT_EQ(common({{7, 8, 9}}, {11}), 8); }

TEST(SharedPrefix, StrangersStopAtTheirFirstPage) {
  EXPECT_EQ(common({{1, 2, 3}, {4, 5, 6}, {1, 2, 3}}, {12, 12, 12}), 0);
}

//===----------------------------------------------------------------------===//
// Planning with it
//===----------------------------------------------------------------------===//

namespace {
class SharedPrefixTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 64, kMaxSeqLen = 64;
  static constexpr WorkParams kWork = mlac::test::kSmallWork;

  void SetUp() override { start(/*workspaceTokens=*/10); }
  void start(int64_t workspaceTokens) {
    planner.emplace(StepLimits{/*maxRequests=*/8,
                               /*maxTokens=*/64,
                               kMaxSeqLen,
                               workspaceTokens,
                               kPage,
                               kPages,
                               /*pageStrideElements=*/24,
                               /*ropeLength=*/kMaxSeqLen,
                               /*numSms=*/2,
                               {kWork},
                               /*hasParts=*/true,
                               /*hasShared=*/true});
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.emplace().create(device, planner->maxBytes(), "metadata").isOk());
    rows = planner->makeRows();
    rows[0].clear(*mirror);
    // Node 4: what is common, if at least 8 tokens are; node 6: one token too many.
    using Op = fb::ExprOp;
    std::vector<fb::ExprNode> nodes = {{Op::Dim, 0, 0, 0, 0},    {Op::Const, 0, 0, 0, 8},
                                       {Op::Ge, 0, 1, 0, 0},     {Op::Const, 0, 0, 0, 0},
                                       {Op::Select, 2, 0, 3, 0}, {Op::Const, 0, 0, 0, 1},
                                       {Op::Add, 0, 5, 0, 0}};
    ASSERT_TRUE(ExpressionTable::make(nodes, {Dim::NumCommonTokens}, exprs).isOk());
  }

  mla_sequence create(int64_t length) { return mlac::test::createSequence(cache, length); }
  /// A sequence with the first `length` tokens of `parent` and `own` more.
  mla_sequence fork(mla_sequence parent, int64_t length, int64_t own) {
    mla_sequence id = 0;
    Sequence *sequence = nullptr;
    EXPECT_TRUE(cache.fork(parent, length, id).isOk());
    EXPECT_TRUE(cache.find(id, sequence).isOk());
    EXPECT_TRUE(cache.reserve(*sequence, length + own).isOk());
    sequence->length = length + own;
    return id;
  }
  void measure(const std::vector<mla_sequence> &ids, const std::vector<int32_t> &lens,
               int64_t decodeThreshold = 0) {
    mla_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(), lens.data(), 0};
    ASSERT_TRUE(planner->measure(cache, batch).isOk());
    ASSERT_TRUE(measureFor(kTokens, decodeThreshold).isOk());
    ASSERT_LE(planner->layout().bytes, planner->maxBytes());
    planner->fill(cache, *mirror, rows);
  }
  /// As a function that attends apart to as many tokens as node `tokens` says.
  Status measureFor(uint32_t tokens, int64_t decodeThreshold,
                    const mla_step_shape *shape = nullptr) {
    FunctionInfo function{};
    function.exprs = exprs;
    function.sharedTokens = tokens;
    function.work = kWork;
    return planner->measureFor({function, decodeThreshold, shape});
  }
  std::vector<int32_t> array(Metadata which) {
    MetadataArray where = planner->layout().arrays[static_cast<size_t>(which)];
    auto *data = reinterpret_cast<const int32_t *>(mirror->host() + where.offset);
    return {data, data + where.elements};
  }
  int64_t dim(Dim which) { return at(planner->dims(), which); }

  static constexpr uint32_t kTokens = 4, kTooMany = 6; // nodes
  ExpressionTable exprs;
  KVCache cache{kPages, kPage, kMaxSeqLen};
  std::optional<StepPlanner> planner;
  std::optional<DeviceMirror> mirror;
  std::vector<TableRows> rows;
};
} // namespace

TEST_F(SharedPrefixTest, ForksShareTheirPrefixAndKeepTheirOwnParts) {
  mla_sequence root = create(14);
  measure({root, fork(root, 12, 9), fork(root, 12, 0)}, {1, 2, 1});
  EXPECT_EQ(dim(Dim::NumCommonTokens), 12);
  EXPECT_EQ(dim(Dim::NumSharedTokens), 12);
  EXPECT_EQ(dim(Dim::SharedChunkCapacity), 8); // of a workspace of 10 tokens
  EXPECT_EQ(dim(Dim::NumSharedChunks), 2);
  EXPECT_EQ(dim(Dim::SharedChunkTokens), 8);
  EXPECT_EQ(array(Metadata::SharedQueryStartLoc), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(array(Metadata::SharedChunkCuSeqLens), (std::vector<int32_t>{0, 8, 0, 4}));
  // Pieces are of blocks from the third on, and see whole sequences.
  std::vector<int32_t> items = array(Metadata::WorkItems);
  ASSERT_EQ(items.size() % 8, 0u);
  std::vector<int64_t> blocks(3);
  for (size_t i = 0; i < items.size(); i += 8) {
    EXPECT_GE(items[i + 1], 3);
    EXPECT_EQ(items[i + 3], (std::vector<int32_t>{15, 23, 13})[items[i]]);
    blocks[items[i]] += items[i + 2];
  }
  EXPECT_EQ(blocks, (std::vector<int64_t>{1, 3, 1}));
}

TEST_F(SharedPrefixTest, StrangersAreNotShared) {
  measure({create(20), create(20)}, {1, 1});
  EXPECT_EQ(dim(Dim::NumCommonTokens), 0);
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
  EXPECT_TRUE(array(Metadata::SharedQueryStartLoc).empty());
  EXPECT_EQ(array(Metadata::WorkItems)[1], 0);
}

TEST_F(SharedPrefixTest, WhatDoesNotPayIsNotShared) {
  mla_sequence root = create(7); // one whole page, of the two that pay
  measure({root, fork(root, 7, 0)}, {1, 1});
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
}

TEST_F(SharedPrefixTest, OnlyDecodesOfASplitBatchShare) {
  mla_sequence root = create(12), other = create(3);
  measure({root, fork(root, 8, 3), other}, {1, 1, 5}, /*decodeThreshold=*/1);
  EXPECT_EQ(dim(Dim::NumSharedTokens), 8);
  EXPECT_EQ(array(Metadata::SharedQueryStartLoc), (std::vector<int32_t>{0, 2}));
  // The stranger among the decodes ends it; without decodes there is nothing.
  measure({root, other}, {1, 1}, 1);
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
  measure({root}, {5}, 1);
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
}

TEST_F(SharedPrefixTest, PaddedStepsNeverShare) {
  mla_sequence root = create(12), second = fork(root, 12, 0);
  const mla_sequence ids[] = {root, second};
  const int32_t lens[] = {1, 1};
  mla_batch batch = {sizeof batch, 2, ids, lens, 0};
  mla_step_shape shape = {};
  shape.num_requests = shape.num_decodes = shape.num_decode_tokens = shape.num_tokens = 4;
  shape.max_query_len = 1;
  shape.max_seq_len = 20;
  ASSERT_TRUE(planner->measure(cache, batch).isOk());
  ASSERT_TRUE(measureFor(kTokens, 1, &shape).isOk());
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
}

TEST_F(SharedPrefixTest, WithoutAWorkspaceNothingIsShared) {
  start(/*workspaceTokens=*/0);
  mla_sequence root = create(12);
  measure({root, fork(root, 12, 0)}, {1, 1});
  EXPECT_EQ(dim(Dim::NumSharedTokens), 0);
}

TEST_F(SharedPrefixTest, ExpressionsThatAskForTooMuchAreRefused) {
  mla_sequence root = create(12), second = fork(root, 12, 0);
  const mla_sequence ids[] = {root, second};
  const int32_t lens[] = {1, 1};
  mla_batch batch = {sizeof batch, 2, ids, lens, 0};
  ASSERT_TRUE(planner->measure(cache, batch).isOk());
  Status status = measureFor(kTooMany, 0);
  EXPECT_EQ(status.code(), MLA_CORRUPT);
  EXPECT_NE(status.message().find("13 of 12 common tokens"), std::string::npos) << status.message();
}
