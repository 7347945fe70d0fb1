//===- OddLatentsTest.cpp - latents of no even number of panels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles have panels of 64 columns, of codes 128, and halves of whole ones where two consumers share
// them. What a latent or RoPE does not have of its last panel, or has none of, is zeros.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

class OddLatents : public ::testing::TestWithParam<AttentionCase>, protected Context {};

TEST_P(OddLatents, GiveTheReferenceUnderEverySeed_C03) {
  Attention attention(GetParam(), context);
  attention.expectReference();
}

AttentionCase makeCodes(AttentionCase test) {
  test.format = "mla_fp8_tensor";
  return test;
}

const AttentionCase kCases[] = {
    // name, schedule, heads, rank, rope, page size, {length, queries}, SMs, cut
    {"part_of_a_panel", "auto: relay", 40, 288, 64, 64, {{130, 1}, {0, 1}, {65, 1}}, 2},
    {"part_of_a_rope_panel", "relay", 40, 256, 120, 64, {{130, 1}, {65, 1}}, 1},
    {"odd_panels", "auto: relay", 40, 192, 64, 16, {{130, 1}, {0, 1}, {65, 1}}, 2},
    {"odd_panels_queries", "auto: relay", 20, 160, 0, 64, {{100, 3}, {2, 1}}, 1},
    makeCodes({"odd_code_panels", "auto: relay", 40, 384, 64, 64, {{130, 1}, {65, 1}}, 2, true}),
    makeCodes({"odd_code_tokens", "auto: relay", 64, 128, 64, 4, {{70, 1}, {3, 1}}, 1}),
    makeCodes({"half_code_panels", "auto: stream", 16, 192, 64, 8, {{130, 1}, {65, 1}}, 2}),
};

INSTANTIATE_TEST_SUITE_P(Cases, OddLatents, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

} // namespace
