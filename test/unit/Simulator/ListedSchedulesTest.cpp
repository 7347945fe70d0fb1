//===- ListedSchedulesTest.cpp - schedules of rows by a list, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sparse attention from the mla graph through the compiler's pipelines, under 20 orders of events
// each, against a reference in double.
//
//===----------------------------------------------------------------------===//

#include "Lists.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class ListedSchedules : public ::testing::TestWithParam<ListsCase>, protected Context {};

TEST_P(ListedSchedules, GiveTheReferenceUnderEverySeed) {
  Lists lists(GetParam(), context);
  ASSERT_EQ(lists.chosen, GetParam().chosen);
  Lists::Results expected = lists.computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(lists.plan, *lists.module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.output.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected.output[i], kTolerance) << i;
  if (GetParam().isChunk)
    return;
  const auto &lse = std::get<std::vector<float>>((*buffers)["lse"]);
  for (size_t i = 0; i < expected.lse.size(); ++i)
    if (std::isinf(expected.lse[i]))
      ASSERT_EQ(lse[i], expected.lse[i]) << i;
    else
      ASSERT_NEAR(lse[i], expected.lse[i], 1e-3) << i;
}

const ListsCase kCases[] = {
    // name, schedule, what is chosen, heads, rank, rope, entries, lengths, SMs, splits, sink
    {"simple", "simple", "simple", 20, 128, 64, 100, {100, 0, 65, 64}, 2},
    {"relay_two_tiles", "auto", "relay", 128, 512, 64, 200, {200, 0, 64, 1, 130}, 4},
    {"relay_one_tile", "auto", "relay", 64, 256, 64, 150, {150, 70, -3, 200}, 2, 0, true},
    {"relay_few_heads", "relay", "relay", 40, 128, 64, 130, {130, 3, 129}, 1, 0, true},
    {"relay_splits", "auto", "relay", 64, 256, 64, 260, {260, 0, 65}, 4, 3, true},
    {"stream", "auto", "stream", 16, 512, 64, 200, {200, 0, 64, 1, 130}, 3},
    {"stream_sinks", "auto", "stream", 5, 128, 64, 130, {130, 70, -1}, 2, 0, true},
    {"stream_splits", "auto", "stream", 8, 256, 64, 260, {260, 0, 65}, 5, 3, true},
    // Queries that lie head by head.
    {.name = "simple_heads",
     .schedule = "simple",
     .chosen = "simple",
     .heads = 20,
     .rank = 128,
     .rope = 64,
     .width = 100,
     .lengths = {100, 0, 65, 64},
     .numSms = 2,
     .areHeadsOutermost = true},
    {.name = "relay_heads",
     .schedule = "auto",
     .chosen = "relay",
     .heads = 128,
     .rank = 512,
     .rope = 64,
     .width = 200,
     .lengths = {200, 0, 64, 1, 130},
     .numSms = 4,
     .areHeadsOutermost = true},
    {.name = "relay_heads_splits",
     .schedule = "auto",
     .chosen = "relay",
     .heads = 64,
     .rank = 256,
     .rope = 64,
     .width = 260,
     .lengths = {260, 0, 65},
     .numSms = 4,
     .splits = 3,
     .hasSink = true,
     .areHeadsOutermost = true},
    {.name = "relay_heads_codes",
     .schedule = "auto",
     .chosen = "relay",
     .heads = 64,
     .rank = 512,
     .rope = 64,
     .width = 150,
     .lengths = {150, 70, -3, 200},
     .numSms = 2,
     .format = "fp8_ds_mla",
     .areHeadsOutermost = true},
    {.name = "stream_heads",
     .schedule = "auto",
     .chosen = "stream",
     .heads = 16,
     .rank = 512,
     .rope = 64,
     .width = 200,
     .lengths = {200, 0, 64, 1, 130},
     .numSms = 3,
     .areHeadsOutermost = true},
    {.name = "stream_heads_splits",
     .schedule = "auto",
     .chosen = "stream",
     .heads = 5,
     .rank = 128,
     .rope = 64,
     .width = 130,
     .lengths = {130, 70, -1},
     .numSms = 2,
     .splits = 3,
     .hasSink = true,
     .areHeadsOutermost = true},
    {"relay_codes",
     "auto",
     "relay",
     64,
     512,
     64,
     150,
     {150, 70, -3, 200},
     2,
     0,
     true,
     "fp8_ds_mla"},
    {"relay_codes_splits",
     "relay",
     "relay",
     128,
     512,
     64,
     260,
     {260, 0, 65},
     8,
     3,
     true,
     "fp8_ds_mla"},
    {"stream_codes",
     "auto",
     "stream",
     16,
     512,
     64,
     200,
     {200, 0, 64, 1, 130},
     3,
     0,
     false,
     "fp8_ds_mla"},
    {"stream_codes_splits",
     "auto",
     "stream",
     8,
     512,
     64,
     260,
     {260, 0, 65},
     5,
     3,
     true,
     "fp8_ds_mla"},
};

/// Keys of whole requests in a workspace, attended to by some of the tokens.
ListsCase ofChunk(std::string name, std::string schedule, std::string chosen, int64_t heads) {
  ListsCase test{std::move(name),
                 std::move(schedule),
                 std::move(chosen),
                 heads,
                 256,
                 64,
                 130,
                 {130, 0, 70, 1, 130},
                 3};
  test.isChunk = true;
  return test;
}

INSTANTIATE_TEST_SUITE_P(B12, ListedSchedules,
                         ::testing::Values(ofChunk("chunk_simple", "simple", "simple", 20),
                                           ofChunk("chunk_relay", "relay", "relay", 64),
                                           ofChunk("chunk_stream", "auto", "stream", 16)),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(B05_B10, ListedSchedules, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

/// A window and entries of a pool of their own under one softmax.
ListsCase ofTwo(std::string name, std::string schedule, std::string chosen, int64_t heads,
                int64_t width, std::vector<int32_t> lengths, int64_t others,
                std::vector<int32_t> otherLengths, int64_t numSms, int64_t splits, int64_t rank) {
  ListsCase test{std::move(name),
                 std::move(schedule),
                 std::move(chosen),
                 heads,
                 rank,
                 0,
                 width,
                 std::move(lengths),
                 numSms,
                 splits};
  test.hasSink = true;
  test.others = others;
  test.otherLengths = std::move(otherLengths);
  return test;
}

/// Lengths of both lists at ends of blocks and beside them, in all pairs with an empty list.
const std::vector<int32_t> kWindow = {128, 0, 0, 63, 64, 65, 127, 1, 128},
                           kEntries = {130, 0, 65, 0, 64, 63, 129, 128, -1};

INSTANTIATE_TEST_SUITE_P(
    V4_27_V4_28_V4_30, ListedSchedules,
    ::testing::Values(
        ofTwo("two_simple", "simple", "simple", 20, 128, kWindow, 130, kEntries, 2, 0, 128),
        ofTwo("two_relay", "auto", "relay", 64, 128, kWindow, 130, kEntries, 2, 0, 256),
        ofTwo("two_relay_tiles", "auto", "relay", 128, 100, {100, 3, 0}, 200, {200, 0, 70}, 4, 0,
              512),
        ofTwo("two_relay_few", "relay", "relay", 40, 128, {128, 5}, 64, {0, 64}, 1, 0, 128),
        ofTwo("two_stream", "stream", "stream", 16, 128, kWindow, 130, kEntries, 2, 0, 256),
        ofTwo("two_stream_wide", "auto", "stream", 8, 100, {100, 3, 0}, 200, {200, 0, 70}, 2, 0,
              512)),
    [](const auto &info) { return info.param.name; });

/// A split may be of either list, of both or of none.
INSTANTIATE_TEST_SUITE_P(V4_29, ListedSchedules,
                         ::testing::Values(ofTwo("two_simple_splits", "simple", "simple", 20, 128,
                                                 kWindow, 130, kEntries, 4, 3, 128),
                                           ofTwo("two_relay_splits", "auto", "relay", 64, 128,
                                                 kWindow, 130, kEntries, 4, 3, 128),
                                           ofTwo("two_stream_splits", "stream", "stream", 8, 128,
                                                 kWindow, 260, kEntries, 5, 4, 128)),
                         [](const auto &info) { return info.param.name; });

ListsCase madeFrom(ListsFrom from, std::string name, std::string chosen, int64_t heads,
                   int64_t rank, int64_t width, std::vector<int32_t> lengths, int64_t splits = 0) {
  ListsCase test{std::move(name), "auto", std::move(chosen),  heads, rank,
                 /*rope=*/64,     width,  std::move(lengths), 4,     splits};
  test.from = from;
  return test;
}

/// More lists than are left whole: some end in the second part, or with the first.
std::vector<int32_t> makeManyLengths() {
  std::vector<int32_t> lengths(36, 3);
  lengths[1] = 0, lengths[7] = 1030, lengths[12] = 1024, lengths[20] = 1025, lengths[35] = 65;
  return lengths;
}

/// Where a step's own lists end, attention looks at nothing behind: of few tokens whose lists are
/// the caller's at all of it, of lists in two parts, and of widths that are no rows of a program.
INSTANTIATE_TEST_SUITE_P(
    B40_OwnLists, ListedSchedules,
    ::testing::Values(
        madeFrom(ListsFrom::Positions, "few", "relay", 64, 256, 128, {128, 0, 64, 1, 127, 65}),
        madeFrom(ListsFrom::Positions, "many", "stream", 5, 128, 2048, makeManyLengths()),
        madeFrom(ListsFrom::Positions, "ragged", "stream", 16, 256, 100, {100, 0, 99, 1, 64}),
        madeFrom(ListsFrom::Scores, "selected", "relay", 128, 512, 128, {320, 5, 0, 128, 129, 64}),
        madeFrom(ListsFrom::Scores, "selected_splits", "stream", 8, 256, 256, {320, 5, 0, 256, 70},
                 3)),
    [](const auto &info) { return info.param.name; });

class ListedMutations : public ::testing::TestWithParam<ListsCase>, protected Context {};

/// In rings that all threads of a role fill by a list.
TEST_P(ListedMutations, AreFound) {
  Lists lists(GetParam(), context);
  ASSERT_EQ(lists.chosen, GetParam().chosen);
  EXPECT_GE(lists.countFoundMutations(GetParam().name), 20u);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ListedMutations,
    ::testing::Values(
        ListsCase{"relay", "relay", "relay", 64, 128, 64, 300, {300, 170}, 1},
        ListsCase{"stream", "auto", "stream", 8, 128, 64, 300, {300, 170}, 1},
        ofTwo("V4_27_relay", "relay", "relay", 64, 128, {128, 70}, 200, {200, 90}, 1, 0, 128),
        ofTwo("V4_27_stream", "stream", "stream", 8, 128, {128, 70}, 200, {200, 90}, 1, 0, 128)),
    [](const auto &info) { return info.param.name; });

} // namespace
