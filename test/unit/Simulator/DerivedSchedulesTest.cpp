//===- DerivedSchedulesTest.cpp - what passes derive neither races nor hangs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class DerivedSchedules : public ::testing::TestWithParam<AttentionCase>, protected Context {};

TEST_P(DerivedSchedules, GiveTheReferenceUnderEverySeed) {
  Attention attention(GetParam(), context);
  ASSERT_EQ(attention.chosen, GetParam().getSchedule());
  std::vector<double> expected = attention.computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(attention.plan, *attention.module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected[i], kTolerance) << i;
}

const AttentionCase kCases[] = {
    // name, schedule, heads, rank, rope, page size, {length, queries}, SMs, cut, parameters, scale,
    // cache format
    {"relay_ragged", "auto: relay", 128, 512, 64, 64, {{130, 1}, {0, 1}, {64, 1}}, 2},
    {"relay_parts", "auto: relay", 64, 512, 64, 64, {{1, 1}, {65, 1}, {129, 1}}, 2},
    {"relay_cut", "auto: relay", 64, 512, 64, 64, {{300, 1}, {70, 1}}, 3, true},
    // Merges by turns (up to 4 pieces), as columns of tiles of 16 and 32, of 64 where heads ·
    // rank is 16384 and more (two tiles here), as rows.
    {"relay_many_pieces", "relay", 64, 256, 0, 64, {{4170, 1}}, 66, true},
    {"stream_some_pieces", "stream", 4, 64, 0, 64, {{600, 1}, {0, 1}, {70, 1}}, 13, true},
    {"stream_more_pieces", "stream", 4, 64, 0, 64, {{1100, 2}}, 18, true},
    {"stream_many_pieces", "stream", 4, 64, 0, 64, {{4200, 1}}, 66, true},
    {"relay_queries", "auto: relay", 96, 512, 64, 64, {{100, 2}, {2, 2}}, 3},
    {"relay_ragged_queries", "relay", 40, 256, 64, 64, {{100, 3}, {2, 1}, {9, 2}}, 2},
    {"relay_long_queries", "relay", 9, 256, 64, 64, {{200, 100}, {150, 130}, {70, 66}}, 2},
    {"relay_long_cut", "relay", 9, 256, 64, 64, {{300, 70}, {66, 66}}, 3, true},
    {"relay_no_rope", "auto: relay", 64, 512, 0, 64, {{200, 1}, {3, 1}}, 1},
    {"relay_narrow", "relay", 20, 128, 64, 64, {{70, 2}, {5, 2}}, 1},
    {"relay_small_pages", "relay", 64, 256, 64, 16, {{70, 1}, {33, 1}}, 1},
    {"relay_single_tokens",
     "auto: relay",
     128,
     512,
     64,
     1,
     {{300, 1}, {64, 1}, {0, 1}, {70, 1}},
     2},
    {"relay_tiny_pages", "relay", 40, 256, 64, 4, {{130, 2}, {3, 2}, {257, 1}}, 1},
    {"relay_odd_pages", "relay", 64, 256, 0, 24, {{200, 1}, {33, 1}}, 1},
    {"relay_split_pages",
     "relay",
     64,
     256,
     64,
     64,
     {{70, 1}, {33, 1}},
     1,
     false,
     {},
     0.1,
     "split_ckv_kpe"},
    {"relay_split_small_pages",
     "relay",
     64,
     256,
     64,
     16,
     {{70, 1}, {33, 1}},
     1,
     false,
     {},
     0.1,
     "split_ckv_kpe"},
    {"relay_split_tiny_pages",
     "relay",
     40,
     256,
     64,
     4,
     {{130, 2}, {3, 2}},
     1,
     false,
     {},
     0.1,
     "split_ckv_kpe"},
    {"stream_split_pages",
     "auto: stream",
     16,
     512,
     64,
     64,
     {{130, 1}, {0, 1}, {65, 1}},
     2,
     false,
     {},
     0.1,
     "split_ckv_kpe"},
    // Codes: rows of 656 bytes, and rows with one scale of the layer.
    {"relay_code_rows",
     "auto: relay",
     128,
     512,
     64,
     64,
     {{130, 1}, {0, 1}, {64, 1}},
     2,
     false,
     {},
     0.1,
     "fp8_ds_mla"},
    {"relay_code_rows_cut",
     "auto: relay",
     16,
     512,
     64,
     16,
     {{300, 2}, {70, 2}},
     3,
     true,
     {},
     0.1,
     "fp8_ds_mla"},
    {"relay_scaled_codes",
     "auto: relay",
     64,
     512,
     64,
     64,
     {{200, 1}, {3, 1}, {129, 1}},
     2,
     false,
     {},
     0.1,
     "mla_fp8_tensor"},
    {"relay_scaled_codes_narrow",
     "relay",
     20,
     256,
     64,
     32,
     {{70, 2}, {5, 2}},
     1,
     false,
     {},
     0.1,
     "mla_fp8_tensor"},
    {"relay_ungated", "relay", 64, 256, 64, 64, {{300, 1}, {70, 1}}, 1, false, {"gate=none"}},
    {"relay_strict",
     "relay",
     64,
     256,
     64,
     64,
     {{300, 1}, {70, 1}},
     1,
     false,
     {"gate=left", "early=0", "lazy-threshold=0"}},
    {"relay_shallow",
     "relay",
     64,
     256,
     64,
     64,
     {{300, 1}, {70, 1}},
     1,
     false,
     {"gate=left", "early=1", "left-stages=2"}},
    {"relay_single_steps",
     "relay",
     64,
     256,
     64,
     64,
     {{400, 1}, {70, 1}},
     1,
     false,
     {"steps-per-turn=2"}},
    {"relay_jumps", "auto: relay", 64, 512, 64, 64, {{300, 1}, {70, 1}}, 1, false, {}, 2},
    {"stream_jumps", "auto: stream", 16, 512, 64, 64, {{300, 1}, {70, 1}}, 1, false, {}, 2},
    {"stream_16", "auto: stream", 16, 512, 64, 64, {{130, 1}, {0, 1}, {65, 1}}, 2},
    {"stream_cut", "auto: stream", 16, 512, 64, 64, {{300, 1}, {70, 1}}, 3, true},
    {"stream_small_pages", "auto: stream", 8, 512, 64, 16, {{100, 1}, {16, 1}}, 1},
    {"stream_single_tokens", "stream", 8, 256, 64, 1, {{70, 1}, {16, 1}}, 1},
    {"stream_narrow", "stream", 12, 128, 64, 64, {{70, 1}, {5, 1}}, 1},
    {"stream_parts", "stream", 12, 256, 64, 64, {{140, 1}, {5, 1}}, 1, false, {"part-columns=64"}},
    {"stream_queries", "stream", 4, 256, 64, 64, {{70, 4}, {5, 4}, {64, 4}}, 2},
    {"stream_eager",
     "stream",
     16,
     128,
     0,
     64,
     {{70, 1}, {5, 1}},
     1,
     false,
     {"lazy-threshold=0", "stages=2"}},
    {"simple_any_pages", "simple", 128, 256, 64, 4, {{70, 1}, {5, 1}}, 2},
    {"simple_cut", "simple", 16, 128, 64, 64, {{170, 1}, {65, 1}}, 2, true},
};

INSTANTIATE_TEST_SUITE_P(Cases, DerivedSchedules, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Planted bugs
//===----------------------------------------------------------------------===//

class DerivedMutations : public ::testing::TestWithParam<AttentionCase>, protected Context {};

/// In a schedule that nobody wrote by hand.
TEST_P(DerivedMutations, AreFound) {
  Attention attention(GetParam(), context);
  ASSERT_EQ(attention.chosen, GetParam().getSchedule());
  EXPECT_GE(attention.countFoundMutations(GetParam().name), 25u);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DerivedMutations,
    ::testing::Values(AttentionCase{"relay", "relay", 64, 512, 64, 64, {{300, 1}, {70, 1}}, 1},
                      AttentionCase{"relay_codes",
                                    "relay",
                                    64,
                                    512,
                                    64,
                                    64,
                                    {{300, 1}, {70, 1}},
                                    1,
                                    false,
                                    {},
                                    0.1,
                                    "fp8_ds_mla"},
                      AttentionCase{"stream", "stream", 16, 512, 64, 64, {{300, 1}, {70, 1}}, 1}),
    [](const auto &info) { return info.param.name; });

} // namespace
