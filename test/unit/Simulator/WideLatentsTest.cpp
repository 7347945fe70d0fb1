//===- WideLatentsTest.cpp - latents wider than an accumulator ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs have few heads each, and the ring of keys has panels for stages: a block takes most of
// them, the next one's follow as they become free.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class WideLatents : public ::testing::TestWithParam<AttentionCase>, protected Context {};

TEST_P(WideLatents, GiveTheReferenceUnderEverySeed_A02) {
  Attention attention(GetParam(), context);
  attention.expectReference();
}

const AttentionCase kCases[] = {
    // name, schedule, heads, rank, rope, page size, {length, queries}, SMs, cut
    {"ragged_1024", "auto: stream", 16, 1024, 64, 64, {{130, 1}, {0, 1}, {65, 1}}, 2},
    {"several_768", "auto: stream", 24, 768, 64, 64, {{130, 1}, {64, 1}}, 3, true},
    {"prime_896", "auto: stream", 19, 896, 64, 64, {{70, 1}, {64, 1}}, 2, true},
    {"two_stages_640", "auto: stream", 20, 640, 64, 64, {{200, 1}, {1, 1}}, 1},
    {"small_pages_768", "auto: stream", 12, 768, 64, 16, {{100, 1}, {16, 1}}, 1},
    {"tokens_1024", "auto: stream", 8, 1024, 64, 1, {{130, 1}, {3, 1}}, 1},
    {"no_rope_896", "auto: stream", 7, 896, 0, 64, {{200, 1}, {70, 1}}, 2, true},
    {"narrow_rope_704", "auto: stream", 20, 704, 32, 64, {{130, 1}, {5, 1}}, 1},
    {.name = "heads_outermost_1024",
     .schedule = "auto: stream",
     .heads = 32,
     .rank = 1024,
     .rope = 64,
     .pageSize = 64,
     .requests = {{70, 1}, {65, 1}},
     .numSms = 2,
     .areHeadsOutermost = true},
    {.name = "split_pages_1024",
     .schedule = "auto: stream",
     .heads = 10,
     .rank = 1024,
     .rope = 64,
     .pageSize = 32,
     .requests = {{130, 1}, {33, 1}},
     .numSms = 1,
     .format = "split_ckv_kpe"},
};

INSTANTIATE_TEST_SUITE_P(Cases, WideLatents, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

class WideLatentsMutations : public ::testing::Test, protected Context {};

/// Bugs planted in a ring of panels.
TEST_F(WideLatentsMutations, AreFound_A02) {
  const AttentionCase test{"panels", "stream", 8, 1024, 64, 64, {{300, 1}, {70, 1}}, 1};
  Attention attention(test, context);
  ASSERT_EQ(attention.chosen, "stream");
  EXPECT_GE(attention.countFoundMutations(test.name), 25u);
}

} // namespace
