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
  groups.expectReference();
}

/// Long queries stay in pieces where a step has the sizes of a shape or of bounds.
GroupsCase ofFixedSizes(GroupsCase test) {
  test.hasFixedSizes = true;
  return test;
}

GroupsCase withSink(GroupsCase test) {
  test.hasSink = true;
  return test;
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
    {"decode_no_groups_part_panels", "", "stream", 3, 3, 72, 72, 16, 16, {{65, 1}, {130, 1}}, 3},
    {"decode_no_groups_queries", "", "stream", 2, 2, 120, 120, 64, 64, {{65, 3}, {7, 2}}, 2},
    {"decode_narrow_keys", "", "stream", 8, 2, 80, 64, 16, 16, {{70, 1}, {5, 1}}, 2},
    {"decode_tiny_pages", "stream", "stream", 8, 2, 64, 64, 4, 4, {{70, 1}, {5, 1}}, 2},
    {"decode_window", "", "stream", 16, 2, 128, 128, 64, 64, {{200, 1}, {64, 1}}, 2, false, 70},
    {"decode_window_cut", "", "stream", 8, 2, 64, 64, 16, 16, {{300, 1}}, 6, true, 100},
    // Few pieces, as of the window alone, in tiles whose windows begin apart.
    ofFixedSizes(
        {"queries_window_cut", "", "stream", 2, 1, 64, 64, 16, 16, {{700, 70}}, 9, true, 150}),
    {"simple_window_cut", "simple", "simple", 2, 1, 64, 64, 16, 16, {{700, 70}}, 9, true, 150},
    {"simple_narrow_values", "simple", "simple", 8, 2, 40, 72, 16, 16, {{70, 1}, {5, 1}}, 2},
    // More heads of a group than half a tile, and more than one.
    {"decode_40_of_1", "", "stream", 40, 1, 64, 128, 16, 16, {{130, 1}, {65, 1}}, 2},
    {"decode_70_of_1", "", "stream", 70, 1, 64, 64, 64, 64, {{130, 1}, {65, 1}}, 4, true},
    {"decode_71_of_1_window", "", "stream", 71, 1, 64, 64, 16, 16, {{200, 1}}, 2, false, 100},
    {"decode_128_of_1", "", "stream", 128, 1, 128, 128, 64, 64, {{130, 1}, {65, 1}}, 2},
    {"decode_84_of_1_wide", "", "stream", 84, 1, 256, 256, 64, 64, {{100, 1}}, 1},
    {"decode_300_of_2", "", "stream", 300, 2, 64, 128, 16, 16, {{70, 1}, {1, 1}}, 4},
    // Several queries of each request.
    {"decode_3_queries", "", "stream", 8, 2, 64, 64, 16, 16, {{130, 3}, {3, 3}}, 4},
    {"queries", "", "stream", 4, 2, 64, 64, 16, 16, {{70, 3}, {5, 5}}, 2},
    // Rows that are pairs of a query and a head of its group: of one tile and of several, known to
    // be
    // few or not, of requests with other numbers of queries and with none.
    {"pairs_4_queries", "", "stream", 16, 2, 128, 128, 64, 64, {{130, 4}, {68, 4}}, 4},
    {"pairs_few", "", "stream", 8, 2, 64, 64, 16, 32, {{130, 4}, {0, 0}, {65, 1}, {70, 7}}, 4},
    ofFixedSizes({"pairs_many",
                  "",
                  "stream",
                  16,
                  2,
                  64,
                  128,
                  16,
                  16,
                  {{130, 4}, {65, 1}, {0, 0}, {100, 16}},
                  4}),
    {"pairs_of_3", "", "stream", 6, 2, 64, 64, 16, 16, {{90, 2}, {77, 9}}, 4},
    ofFixedSizes(
        {"pairs_of_3_tiles", "", "stream", 6, 2, 64, 64, 16, 16, {{90, 22}, {64, 5}, {44, 44}}, 4}),
    ofFixedSizes({"pairs_of_16", "", "stream", 32, 2, 64, 64, 64, 64, {{130, 16}, {16, 16}}, 16}),
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
    ofFixedSizes(
        withSink({"pairs_in_runs", "", "stream", 96, 1, 64, 64, 16, 16, {{70, 3}, {9, 1}}, 4})),
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
    ofFixedSizes({"queries_of_two_tiles",
                  "",
                  "stream",
                  2,
                  2,
                  64,
                  128,
                  64,
                  16,
                  {{150, 80}, {66, 66}, {70, 1}},
                  3}),
    {"simple_queries", "simple", "simple", 4, 2, 64, 64, 16, 16, {{70, 3}, {5, 5}}, 2},
    ofFixedSizes(
        {"queries_window", "", "stream", 4, 2, 64, 64, 16, 32, {{90, 3}, {66, 66}}, 2, false, 20}),
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
    // Columns that fill no whole panels: zeros lie behind a head's, not the next head.
    {"decode_96_columns", "", "stream", 16, 2, 96, 96, 64, 16, {{850, 1}, {65, 1}}, 4},
    {"decode_40_columns", "", "stream", 4, 4, 40, 40, 16, 0, {{130, 1}, {0, 1}, {17, 1}}, 4},
    {"decode_80_columns_cut", "", "stream", 8, 2, 80, 72, 32, 64, {{300, 1}, {70, 1}}, 6, true},
    {"queries_72_columns", "", "stream", 12, 2, 72, 72, 16, 16, {{130, 3}, {68, 3}}, 4},
    {"pairs_112_columns", "", "stream", 10, 2, 112, 112, 64, 0, {{200, 20}, {90, 8}, {5, 1}}, 4},
    {"decode_80_columns_large_pages",
     "",
     "stream",
     8,
     2,
     80,
     112,
     128,
     256,
     {{400, 1}, {70, 1}},
     4},
    {"decode_200_columns", "", "stream", 8, 1, 200, 200, 16, 16, {{130, 1}, {70, 1}}, 2},
    // Two consumers take blocks in turns: odd and even numbers of them, most rows, by threads.
    {"turns", "", "stream", 8, 1, 64, 64, 64, 64, {{130, 1}, {1, 1}, {128, 1}, {321, 1}}, 1},
    {"turns_cut", "", "stream", 16, 2, 64, 64, 16, 16, {{700, 1}, {70, 1}, {129, 1}}, 12, true},
    {"turns_32_rows", "", "stream", 16, 2, 64, 64, 64, 0, {{330, 4}, {68, 4}, {4, 4}}, 2},
    {"turns_40_columns_tiny_pages", "", "stream", 4, 2, 40, 40, 4, 4, {{330, 1}, {65, 1}}, 1},
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

GroupsCase makeCodes(std::string name, int64_t heads, int64_t kvHeads, int64_t keyDim,
                     int64_t valueDim, int64_t page, std::vector<Request> requests, int64_t numSms,
                     bool isCut = false) {
  return {.name = std::move(name),
          .chosen = "stream",
          .heads = heads,
          .kvHeads = kvHeads,
          .keyDim = keyDim,
          .valueDim = valueDim,
          .keyPage = page,
          .valuePage = 0,
          .requests = std::move(requests),
          .numSms = numSms,
          .isCut = isCut,
          .scales = {0.13f, 0.0625f}};
}

// Codes of keys and values, with a scale each: boxes of pages and rows that
// threads copy, several queries, tails of NaN. 256 columns of values are too many registers
// beside 64 rows.
const GroupsCase kCodes[] = {
    // Items of odd and even numbers of blocks one after the other, also of one: turns go on.
    makeCodes("codes_turns", 8, 1, 64, 64, 64,
              {{130, 1}, {1, 1}, {128, 1}, {0, 1}, {64, 1}, {321, 1}, {65, 1}}, 1),
    makeCodes("codes_turns_cut", 16, 2, 128, 128, 16, {{700, 1}, {70, 1}, {129, 1}}, 12, true),
    makeCodes("codes_no_groups", 3, 3, 128, 128, 32, {{100, 1}, {17, 1}}, 3),
    makeCodes("codes_one_kv_head", 5, 1, 192, 128, 16, {{130, 1}, {64, 1}}, 2),
    makeCodes("codes_wide", 16, 1, 256, 256, 64, {{130, 1}, {70, 1}}, 2),
    makeCodes("codes_wide_rows", 32, 1, 128, 256, 16, {{130, 1}, {70, 1}}, 2),
    makeCodes("codes_many_rows", 16, 2, 128, 128, 64, {{200, 7}, {70, 7}}, 4),
    makeCodes("codes_many_wide_rows", 16, 2, 64, 192, 16, {{200, 6}, {70, 6}}, 4),
    makeCodes("codes_any_queries", 16, 2, 128, 128, 16, {{200, 20}, {90, 8}, {5, 1}}, 4),
    // Of few rows, of those of two consumers, of several tiles of fewer rows than 64.
    makeCodes("codes_few_queries", 16, 2, 128, 128, 64, {{130, 2}, {0, 0}, {70, 1}}, 4),
    makeCodes("codes_some_queries", 8, 2, 64, 128, 16, {{300, 11}, {70, 4}}, 6, true),
    makeCodes("codes_wide_queries", 6, 2, 256, 256, 64, {{130, 4}, {65, 1}}, 4),
    makeCodes("codes_wide_tiles", 6, 2, 128, 256, 16, {{300, 25}, {70, 3}}, 6, true),
    // A head that ends within a panel of 64 columns, of codes within half of one; a head of its
    // own.
    makeCodes("codes_part_panels", 8, 2, 96, 96, 16, {{130, 1}, {0, 1}, {65, 1}}, 4),
    makeCodes("codes_part_panels_no_groups", 3, 3, 80, 80, 64, {{100, 1}, {17, 1}}, 3, true),
    makeCodes("codes_part_panels_queries", 8, 2, 112, 112, 8, {{130, 3}, {70, 2}}, 4),
    makeCodes("codes_wide_part_panels", 5, 1, 160, 160, 32, {{130, 1}, {64, 1}}, 2),
    makeCodes("codes_tiny_pages", 8, 2, 64, 64, 4, {{70, 1}, {5, 1}}, 2),
    // Heads of half a panel: boxes of a part of one, of keys, of values, of both.
    makeCodes("codes_half_panels_turns", 24, 3, 64, 64, 64,
              {{130, 1}, {1, 1}, {0, 1}, {64, 1}, {700, 1}}, 2, true),
    makeCodes("codes_half_panel_keys", 8, 2, 64, 128, 32, {{130, 1}, {5, 1}}, 2),
    makeCodes("codes_half_panel_values", 8, 2, 128, 64, 16, {{130, 2}, {5, 2}}, 2),
    {.name = "codes_one_pool",
     .chosen = "stream",
     .heads = 8,
     .kvHeads = 2,
     .keyDim = 128,
     .valueDim = 128,
     .keyPage = 64,
     .valuePage = 0,
     .requests = {{130, 1}, {0, 1}, {65, 1}},
     .numSms = 4,
     .scales = {0.125f, 0.0625f}},
    {.name = "codes_half_panels",
     .chosen = "stream",
     .heads = 16,
     .kvHeads = 2,
     .keyDim = 64,
     .valueDim = 64,
     .keyPage = 16,
     .valuePage = 0,
     .requests = {{100, 1}, {17, 1}},
     .numSms = 4,
     .scales = {0.13f, 0.0625f}},
    {.name = "codes_window_sink",
     .chosen = "stream",
     .heads = 10,
     .kvHeads = 2,
     .keyDim = 64,
     .valueDim = 64,
     .keyPage = 16,
     .valuePage = 0,
     .requests = {{200, 20}, {90, 8}, {5, 1}},
     .numSms = 4,
     .window = 50,
     .softcap = 2.5,
     .hasSink = true,
     .scales = {0.13f, 0.0625f}},
    // Capped scores have not enough registers beside 64 rows of 128 columns.
    {.name = "codes_capped_many_rows",
     .chosen = "stream",
     .heads = 8,
     .kvHeads = 2,
     .keyDim = 64,
     .valueDim = 128,
     .keyPage = 16,
     .valuePage = 0,
     .requests = {{100, 20}, {5, 1}},
     .numSms = 4,
     .softcap = 2.5,
     .scales = {0.13f, 0.0625f}},
    {.name = "codes_narrow_values",
     .chosen = "simple",
     .heads = 6,
     .kvHeads = 2,
     .keyDim = 48,
     .valueDim = 80,
     .keyPage = 16,
     .valuePage = 0,
     .requests = {{300, 5}, {70, 3}},
     .numSms = 6,
     .isCut = true,
     .scales = {0.13f, 0.11f}},
    {.name = "codes_simple",
     .schedule = "simple",
     .chosen = "simple",
     .heads = 8,
     .kvHeads = 2,
     .keyDim = 64,
     .valueDim = 64,
     .keyPage = 16,
     .valuePage = 0,
     .requests = {{130, 1}, {65, 1}},
     .numSms = 4,
     .scales = {0.125f, 0.11f}},
};

INSTANTIATE_TEST_SUITE_P(Codes, GroupedSchedules, ::testing::ValuesIn(kCodes),
                         [](const auto &info) { return info.param.name; });

GroupsCase makePromptsOfCodes(std::string name, int64_t heads, int64_t kvHeads, int64_t dim,
                              std::vector<Request> requests, int64_t window = 0, double softcap = 0,
                              bool hasSink = false) {
  GroupsCase made =
      makeCodes(std::move(name), heads, kvHeads, dim, dim, /*page=*/16, std::move(requests), 1);
  made.chosen = made.requests.size() == 1 ? "pingpong" : "pingpong and stream";
  made.window = window;
  made.softcap = softcap;
  made.hasSink = hasSink;
  return made;
}

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
    withSink(
        {"prompts_sink", "", "pingpong and stream", 5, 1, 64, 64, 16, 16, {{150, 150}, {5, 5}}, 1}),
    // Tiles have 32 heads of each query's 96.
    withSink(
        {"prompts_part", "", "pingpong and stream", 96, 1, 64, 64, 16, 16, {{70, 3}, {9, 1}}, 4}),
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
    // Copies of codes, of which each program reads its head's and request's.
    makePromptsOfCodes("prompts_codes", 16, 2, 64, {{250, 250}}),
    makePromptsOfCodes("prompts_codes_ragged", 24, 2, 64,
                       {{300, 270}, {0, 0}, {90, 1}, {230, 230}}),
    // Decodes, a query of some tokens and an empty request stay in pieces.
    {"prompts_beside",
     "",
     "pingpong",
     4,
     2,
     64,
     64,
     16,
     16,
     {{130, 1}, {0, 0}, {200, 200}, {70, 3}, {190, 40}, {150, 90}, {300, 1}},
     2},
    // Groups that do not divide a tile leave them in pieces.
    {"prompts_beside_odd_group",
     "",
     "pingpong and stream",
     3,
     1,
     64,
     64,
     16,
     16,
     {{130, 1}, {200, 200}, {70, 3}},
     2},
    {"prompts_beside_cut", "", "pingpong", 8, 1, 128, 128, 16, 64, {{400, 1}, {300, 180}}, 4, true},
    makePromptsOfCodes("prompts_codes_one_kv_head", 8, 1, 128, {{333, 140}}, /*window=*/0, 2.5),
    makePromptsOfCodes("prompts_codes_window", 8, 1, 64, {{320, 270}}, 150, 0, /*hasSink=*/true),
    // Copies of columns that are no whole panels, and of rows of tiny pages.
    {"prompts_96_columns", "", "pingpong", 8, 1, 96, 72, 16, 64, {{270, 250}}, 1},
    {"prompts_40_columns", "", "pingpong", 16, 2, 40, 40, 64, 0, {{250, 250}}, 1},
    {"prompts_tiny_pages", "", "pingpong", 8, 1, 64, 128, 4, 8, {{260, 240}}, 1},
    {"simple_prompts", "simple", "simple", 2, 1, 64, 64, 16, 16, {{200, 150}}, 1},
};

/// Prompts whose keys are cut where that balances the machine, and merged.
GroupsCase cutPrompts(std::string name, std::vector<Request> requests, int64_t numSms,
                      int64_t window = 0, bool hasSink = false) {
  GroupsCase made{std::move(name),     "",    "pingpong", 4, 2, 64, 64, 16, 64,
                  std::move(requests), numSms};
  made.isCut = true;
  made.window = window;
  made.hasSink = hasSink;
  return made;
}

GroupsCase cutPromptsOfCodes() {
  GroupsCase made = makePromptsOfCodes("codes", 8, 2, 64, {{420, 150}, {300, 90}, {200, 3}}, 0, 0,
                                       /*hasSink=*/true);
  made.chosen = "pingpong and stream";
  made.numSms = 12;
  made.isCut = true;
  return made;
}

const GroupsCase kCutPrompts[] = {
    cutPrompts("causal", {{400, 400}}, 16),
    cutPrompts("context", {{700, 70}}, 10),
    cutPrompts("ragged", {{300, 260}, {130, 130}, {64, 64}}, 16),
    cutPrompts("window", {{800, 200}}, 12, /*window=*/300),
    cutPrompts("sink", {{500, 200}}, 12, 0, /*hasSink=*/true),
    cutPrompts("window_sink", {{640, 140}, {200, 200}}, 14, /*window=*/250, /*hasSink=*/true),
    // Decodes and a query of some tokens are prompts, too.
    cutPrompts("beside", {{300, 1}, {290, 140}, {0, 0}, {200, 3}}, 9),
    cutPromptsOfCodes(),
};

INSTANTIATE_TEST_SUITE_P(D10_CutPrompts, GroupedSchedules, ::testing::ValuesIn(kCutPrompts),
                         [](const auto &info) { return info.param.name; });

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
        GroupsCase{"turns", "", "stream", 8, 1, 64, 64, 64, 64, {{400, 1}, {70, 1}}, 1},
        makeCodes("codes", 16, 2, 128, 128, 16, {{300, 1}, {70, 1}}, 2),
        makeCodes("codes_half_panels", 16, 2, 64, 64, 16, {{300, 1}, {70, 1}}, 2),
        GroupsCase{"prompts", "", "pingpong", 4, 2, 64, 64, 16, 32, {{333, 200}}, 1}),
    [](const auto &info) { return info.param.name; });

} // namespace
