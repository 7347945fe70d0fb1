//===- PingPongTest.cpp - expanded attention neither races nor hangs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prefill.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class PingPong : public ::testing::TestWithParam<PrefillCase>, protected Context {};

TEST_P(PingPong, GivesTheReferenceUnderEverySeed) {
  Prefill prefill(GetParam(), context);
  ASSERT_EQ(prefill.chosen, "pingpong");
  Prefill::Reference expected = prefill.computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(prefill.plan, *prefill.module, {"output"});
  ASSERT_TRUE(buffers);
  // For the next launch.
  const auto &counters = std::get<std::vector<int32_t>>((*buffers)["item_counters"]);
  EXPECT_EQ(counters[0], 0);
  EXPECT_EQ(counters[1], 0);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.output.size(); ++i)
    if (!std::isnan(expected.output[i]))
      ASSERT_NEAR(toFloat(output[i]), expected.output[i], kTolerance) << i;
  const auto &lse = std::get<std::vector<float>>((*buffers)["lse"]);
  for (size_t i = 0; i < expected.lse.size(); ++i)
    if (expected.lse[i] == -INFINITY)
      ASSERT_EQ(lse[i], -INFINITY) << i;
    else if (!std::isnan(expected.lse[i]))
      ASSERT_NEAR(lse[i], expected.lse[i], kTolerance) << i;
}

const PrefillCase kPrefills[] = {
    // name, schedule, heads, nope, rope, value, {keys of the chunk, queries}, SMs, causal,
    // parameters
    {"pingpong_ragged", "auto", 2, 128, 64, 128, {{0, 130}, {0, 1}, {0, 64}}, 2},
    {"pingpong_long", "auto", 1, 128, 64, 128, {{0, 390}}, 3},
    {"pingpong_many", "auto", 3, 64, 32, 64, {{0, 5}, {0, 0}, {0, 129}, {0, 128}}, 2},
    {"pingpong_wide", "auto", 1, 256, 0, 256, {{0, 150}, {0, 70}}, 1},
    {"pingpong_no_rope", "auto", 1, 128, 0, 128, {{0, 260}}, 2},
    {"pingpong_tiny", "auto", 2, 24, 8, 40, {{0, 200}, {0, 30}}, 1},
    {"pingpong_chunk", "auto", 2, 128, 64, 128, {{300, 70}, {0, 3}, {128, 130}}, 2, false},
    {"pingpong_chunk_onto",
     "auto",
     2,
     128,
     64,
     128,
     {{300, 70}, {0, 3}, {128, 130}},
     2,
     false,
     {},
     0.1,
     -1,
     true},
    // The last request has a split without keys.
    {"pingpong_chunk_splits_A33",
     "auto",
     2,
     128,
     64,
     128,
     {{600, 70}, {0, 3}, {128, 130}},
     2,
     false,
     {},
     0.1,
     -1,
     true,
     3},
    {"pingpong_onto", "auto", 2, 24, 8, 40, {{0, 200}, {0, 1}}, 1, true, {}, 0.1, -1, true},
    {"pingpong_wide_onto", "auto", 1, 256, 0, 256, {{0, 150}}, 1, true, {}, 0.1, -1, true},
    {"pingpong_poisoned",
     "pingpong",
     2,
     64,
     16,
     64,
     {{0, 130}, {0, 70}, {0, 3}},
     1,
     true,
     {},
     0.1,
     1},
    {"pingpong_blocks_of_64", "pingpong", 1, 64, 16, 64, {{0, 300}}, 1, true, {"key-block=64"}},
    {"pingpong_blocks_of_48", "pingpong", 1, 64, 16, 64, {{0, 200}}, 1, true, {"key-block=48"}},
    {"pingpong_jumps", "pingpong", 1, 64, 16, 64, {{0, 300}}, 2, true, {"lazy-threshold=0"}, 1},
};

/// Marks of so many positions each.
PrefillCase mark(PrefillCase test, int64_t selected) {
  test.selected = selected;
  return test;
}

/// Blocks of 128, 96, 64 and 32 keys: with one word that ends behind the longest request's, and
/// with steps that the diagonal crosses.
const PrefillCase kMarked[] = {
    mark({"ragged", "auto", 2, 128, 64, 128, {{0, 130}, {0, 1}, {0, 64}}, 2}, 20),
    mark({"long", "auto", 1, 64, 0, 64, {{0, 390}, {0, 0}, {0, 129}}, 3}, 7),
    mark({"blocks_of_96", "auto", 1, 160, 0, 160, {{0, 330}, {0, 97}}, 2}, 33),
    mark({"blocks_of_32", "auto", 1, 256, 0, 256, {{0, 150}}, 1}, 9),
    mark({"blocks_of_64", "pingpong", 1, 64, 16, 64, {{0, 300}}, 1, true, {"key-block=64"}}, 40),
    mark({"one_position", "auto", 1, 64, 16, 64, {{0, 300}}, 1}, 1),
    mark({"onto", "auto", 2, 24, 8, 40, {{0, 200}, {0, 1}}, 1, true, {}, 0.1, -1, true}, 12),
    mark({"chunk", "auto", 2, 128, 64, 128, {{300, 70}, {0, 3}, {128, 130}}, 2, false}, 20),
    mark({"chunk_onto", "auto", 1, 64, 0, 64, {{97, 70}, {0, 3}}, 2, false, {}, 0.1, -1, true}, 9),
    // A split without keys, whose words are behind the row's last.
    mark({"chunk_splits",
          "auto",
          1,
          64,
          16,
          64,
          {{600, 70}, {0, 3}, {98, 20}},
          2,
          false,
          {},
          0.1,
          -1,
          true,
          3},
         15),
};

INSTANTIATE_TEST_SUITE_P(B06, PingPong, ::testing::ValuesIn(kMarked),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Cases, PingPong, ::testing::ValuesIn(kPrefills),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Planted bugs
//===----------------------------------------------------------------------===//

class PingPongMutations : public ::testing::Test, protected Context {};

TEST_F(PingPongMutations, AreFound) {
  PrefillCase test{"pingpong", "pingpong", 2, 64, 16, 64, {{0, 300}, {0, 70}}, 1};
  test.poisoned = 1;
  Prefill prefill(test, context);
  ASSERT_EQ(prefill.chosen, "pingpong");
  EXPECT_GE(prefill.countFoundMutations(test.name), 25u);
}

} // namespace
