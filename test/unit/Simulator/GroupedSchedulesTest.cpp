//===- GroupedSchedulesTest.cpp - schedules of grouped attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Heads that share keys, from the mla graph through the compiler's pipelines and the runtime's
// work planner, under 20 orders of events each, against a reference in double.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class GroupedSchedules : public ::testing::TestWithParam<GroupsCase>, protected Context {};

TEST_P(GroupedSchedules, GiveTheReferenceUnderEverySeed) {
  Groups groups(GetParam(), context);
  ASSERT_EQ(groups.chosen, GetParam().chosen);
  std::vector<double> expected = groups.computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(groups.plan, *groups.module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected[i], kTolerance) << i;
}

const GroupsCase kCases[] = {
    // name, schedule, what is chosen, heads, KV heads, columns of keys and values, pages of both,
    // {length, queries}, SMs, cut, window, parameters
    {"decode_64_of_8", "", "stream", 16, 2, 128, 128, 64, 64, {{130, 1}, {0, 1}, {65, 1}}, 4},
    {"decode_pages_16", "", "stream", 16, 4, 128, 128, 16, 16, {{100, 1}, {17, 1}}, 4},
    {"decode_one_pool", "", "stream", 12, 4, 128, 64, 16, 0, {{70, 1}, {16, 1}}, 4},
    {"decode_other_pages", "", "stream", 16, 2, 64, 128, 32, 16, {{100, 1}, {1, 1}}, 2},
    {"decode_cut", "", "stream", 16, 2, 128, 128, 64, 64, {{300, 1}, {70, 1}}, 6, true},
    {"decode_one_kv_head", "", "stream", 5, 1, 128, 128, 64, 64, {{70, 1}, {64, 1}}, 2},
    {"decode_no_groups", "", "stream", 4, 4, 64, 64, 16, 16, {{65, 1}, {3, 1}}, 4},
    {"decode_narrow_keys", "", "stream", 8, 2, 80, 64, 16, 16, {{70, 1}, {5, 1}}, 2},
    {"decode_tiny_pages", "stream", "stream", 8, 2, 64, 64, 4, 4, {{70, 1}, {5, 1}}, 2},
    {"decode_window", "", "stream", 16, 2, 128, 128, 64, 64, {{200, 1}, {64, 1}}, 2, false, 70},
    {"decode_window_cut", "", "stream", 8, 2, 64, 64, 16, 16, {{300, 1}}, 6, true, 100},
    // Few pieces, as of the window alone, in tiles whose windows begin apart.
    {"queries_window_cut", "", "stream", 2, 1, 64, 64, 16, 16, {{700, 70}}, 9, true, 150},
    {"simple_window_cut", "simple", "simple", 2, 1, 64, 64, 16, 16, {{700, 70}}, 9, true, 150},
    {"simple_narrow_values", "", "simple", 8, 2, 40, 72, 16, 16, {{70, 1}, {5, 1}}, 2},
    // More heads of a group than half a tile, and more than one.
    {"decode_40_of_1", "", "stream", 40, 1, 64, 128, 16, 16, {{130, 1}, {65, 1}}, 2},
    {"decode_70_of_1", "", "stream", 70, 1, 64, 64, 64, 64, {{130, 1}, {65, 1}}, 4, true},
    // Several queries of each request.
    {"decode_3_queries", "", "stream", 8, 2, 64, 64, 16, 16, {{130, 3}, {3, 3}}, 4},
    {"queries", "", "stream", 4, 2, 64, 64, 16, 16, {{70, 3}, {5, 5}}, 2},
    // Rows that are pairs of a query and a head of its group: of one tile and of several, known to
    // be
    // few or not, of requests with other numbers of queries and with none.
    {"pairs_4_queries", "", "stream", 16, 2, 128, 128, 64, 64, {{130, 4}, {68, 4}}, 4},
    {"pairs_few", "", "stream", 8, 2, 64, 64, 16, 32, {{130, 4}, {0, 0}, {65, 1}, {70, 7}}, 4},
    {"pairs_many", "", "stream", 16, 2, 64, 128, 16, 16, {{130, 4}, {65, 1}, {0, 0}, {100, 16}}, 4},
    {"pairs_of_3", "", "stream", 6, 2, 64, 64, 16, 16, {{90, 2}, {77, 9}}, 4},
    {"pairs_of_3_tiles", "", "stream", 6, 2, 64, 64, 16, 16, {{90, 22}, {64, 5}, {44, 44}}, 4},
    {"pairs_of_16", "", "stream", 32, 2, 64, 64, 64, 64, {{130, 16}, {16, 16}}, 16},
    {"pairs_of_5_cut", "", "stream", 10, 2, 64, 64, 16, 16, {{300, 5}, {70, 3}}, 9, true},
    {"pairs_window",
     "",
     "stream",
     16,
     2,
     64,
     64,
     16,
     32,
     {{300, 4}, {90, 8}, {5, 1}},
     4,
     false,
     100},
    {"pairs_window_cut", "", "stream", 8, 2, 64, 64, 16, 16, {{300, 16}}, 9, true, 100},
    {"pairs_sink_cut",
     "",
     "stream",
     12,
     2,
     64,
     64,
     16,
     16,
     {{300, 5}, {70, 2}},
     9,
     true,
     0,
     0,
     true},
    {"pairs_sink_window_cap",
     "",
     "stream",
     10,
     2,
     64,
     64,
     16,
     16,
     {{300, 13}, {70, 1}},
     4,
     false,
     100,
     1.5,
     true},
    {"pairs_in_runs", "", "stream", 96, 1, 64, 64, 16, 16, {{70, 3}, {9, 1}}, 4, false, 0, 0, true},
    {"pairs_one_pool", "", "stream", 12, 4, 128, 64, 16, 0, {{70, 2}, {16, 16}}, 4},
    {"simple_pairs",
     "simple",
     "simple",
     12,
     4,
     64,
     64,
     16,
     16,
     {{130, 4}, {0, 0}, {65, 1}, {100, 25}},
     4},
    {"simple_pairs_sink_window",
     "simple",
     "simple",
     6,
     2,
     40,
     72,
     16,
     16,
     {{300, 5}, {70, 22}},
     6,
     true,
     100,
     1.5,
     true},
    {"queries_of_two_tiles",
     "",
     "stream",
     2,
     2,
     64,
     128,
     64,
     16,
     {{150, 80}, {66, 66}, {70, 1}},
     3},
    {"simple_queries", "simple", "simple", 4, 2, 64, 64, 16, 16, {{70, 3}, {5, 5}}, 2},
    {"queries_window", "", "stream", 4, 2, 64, 64, 16, 32, {{90, 3}, {66, 66}}, 2, false, 20},
    {"simple_queries_window",
     "simple",
     "simple",
     4,
     2,
     64,
     64,
     16,
     32,
     {{90, 3}, {66, 66}},
     2,
     false,
     20},
    // Sinks, which a request's first piece has, and capped scores.
    {"decode_sink",
     "",
     "stream",
     12,
     2,
     128,
     128,
     64,
     64,
     {{130, 1}, {0, 1}},
     4,
     false,
     0,
     0,
     true},
    {"decode_sink_cut",
     "",
     "stream",
     12,
     2,
     64,
     64,
     16,
     16,
     {{300, 1}, {70, 1}},
     6,
     true,
     0,
     0,
     true},
    {"decode_sink_window",
     "",
     "stream",
     12,
     2,
     64,
     64,
     16,
     16,
     {{300, 1}},
     6,
     true,
     100,
     1.5,
     true},
    {"decode_cap", "", "stream", 16, 2, 64, 64, 16, 16, {{130, 1}, {65, 1}}, 4, false, 0, 2.5},
    {"queries_sink", "", "stream", 10, 2, 64, 64, 16, 16, {{70, 3}, {5, 5}}, 2, false, 0, 4, true},
    {"simple_sink", "simple", "simple", 12, 2, 40, 72, 16, 16, {{300, 1}}, 6, true, 100, 1.5, true},
    {"queries_one_kv_head_sink",
     "",
     "stream",
     6,
     1,
     64,
     64,
     16,
     16,
     {{70, 3}, {5, 5}},
     2,
     false,
     0,
     0,
     true},
};

// Queries that fill tiles, whose programs lie side by side: whole and behind a context, where
// blocks do not begin, of one request that is a tile and a row.
const GroupsCase kPrompts[] = {
    {"prompts", "", "pingpong", 4, 2, 64, 64, 16, 16, {{200, 200}}, 2},
    {"prompts_ragged", "", "pingpong", 4, 2, 128, 128, 64, 64, {{130, 130}, {1, 1}, {129, 129}}, 1},
    {"prompts_context", "", "pingpong", 4, 2, 64, 128, 64, 16, {{333, 140}, {200, 65}}, 1},
    {"prompts_one_pool", "", "pingpong", 4, 2, 128, 64, 16, 0, {{150, 140}}, 2},
    {"prompts_no_groups", "", "pingpong", 2, 2, 64, 64, 16, 32, {{150, 150}, {100, 90}}, 1},
    {"prompts_one_kv_head", "", "pingpong", 3, 1, 192, 128, 64, 64, {{150, 150}}, 1},
    {"prompts_wide", "", "pingpong", 2, 1, 256, 256, 128, 128, {{130, 130}}, 1},
    {"prompts_large_pages", "", "pingpong", 2, 1, 64, 64, 128, 256, {{400, 130}}, 1},
    {"prompts_window",
     "",
     "pingpong",
     4,
     2,
     64,
     64,
     16,
     32,
     {{500, 200}, {100, 100}},
     1,
     false,
     150},
    {"prompts_short_window", "", "pingpong", 2, 1, 64, 64, 64, 64, {{400, 233}}, 1, false, 20},
    {"prompts_window_large_pages",
     "",
     "pingpong",
     2,
     1,
     64,
     64,
     128,
     128,
     {{600, 130}},
     1,
     false,
     300},
    {"prompts_cap", "", "pingpong", 2, 1, 64, 64, 16, 16, {{200, 150}}, 1, false, 0, 2.5},
    {"prompts_sink",
     "",
     "pingpong",
     5,
     1,
     64,
     64,
     16,
     16,
     {{150, 150}, {5, 5}},
     1,
     false,
     0,
     0,
     true},
    {"prompts_sink_window",
     "",
     "pingpong",
     5,
     1,
     64,
     64,
     16,
     16,
     {{250, 140}},
     1,
     false,
     100,
     1.5,
     true},
    {"prompts_blocks_of_64",
     "pingpong",
     "pingpong",
     2,
     1,
     64,
     64,
     16,
     16,
     {{200, 150}},
     1,
     false,
     0,
     0,
     false,
     {"key-block=64"}},
    {"simple_prompts", "simple", "simple", 2, 1, 64, 64, 16, 16, {{200, 150}}, 1},
};

INSTANTIATE_TEST_SUITE_P(D06_D10, GroupedSchedules, ::testing::ValuesIn(kPrompts),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(D05_D11_D17_D18, GroupedSchedules, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

class GroupedMutations : public ::testing::TestWithParam<GroupsCase>, protected Context {};

/// In rings whose stages have keys and values of their own pages.
TEST_P(GroupedMutations, AreFound) {
  Groups groups(GetParam(), context);
  ASSERT_EQ(groups.chosen, GetParam().chosen);
  EXPECT_GE(groups.countFoundMutations(GetParam().name), 25u);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GroupedMutations,
    ::testing::Values(
        GroupsCase{"pairs", "", "stream", 6, 2, 64, 64, 16, 32, {{300, 12}, {70, 5}}, 4},
        GroupsCase{"stream", "", "stream", 16, 2, 128, 128, 16, 32, {{300, 1}, {70, 1}}, 2},
        GroupsCase{"prompts", "", "pingpong", 4, 2, 64, 64, 16, 32, {{333, 200}}, 1}),
    [](const auto &info) { return info.param.name; });

} // namespace
