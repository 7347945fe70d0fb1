//===- ConvertIndicesTest.cpp - token positions to cache indices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel against the runtime's function on the host, element by element: what that
// refuses is -1 here. B08 (positions to slots) and B09 (workspace of prefills).
//
//===----------------------------------------------------------------------===//

#include "mla_runtime.h"

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <limits>
#include <random>

using namespace mlac::test;

namespace {

constexpr int32_t kPoison = 0x5a5a5a5a;

std::string stepsOf(int64_t page, int64_t width) {
  return substitute(R"(
!cache = !mla.cache<page_size = $PAGE, fields = [latent: 16, rope: 16], element = bf16, rope_order = half>
func.func @decode(%p: tensor<?x$WIDTHxi32> {mla.input = "positions"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x$WIDTHxi32> {mla.output = "rows"}) {
  %0 = mla.convert_indices %p in %cache, %batch : tensor<?x$WIDTHxi32> in !cache, !mla.batch
  return %0 : tensor<?x$WIDTHxi32>
}
func.func @mixed(%p: tensor<?x$WIDTHxi32> {mla.input = "positions"},
                 %r: tensor<?xi32> {mla.input = "prefill_requests"},
                 %s: tensor<?xi32> {mla.input = "workspace_starts"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x$WIDTHxi32> {mla.output = "rows"}) {
  %0 = mla.convert_indices %p in %cache, %batch prefill %r, %s
      : tensor<?x$WIDTHxi32> in !cache, !mla.batch prefill tensor<?xi32>, tensor<?xi32>
  return %0 : tensor<?x$WIDTHxi32>
}
)",
                    {{"PAGE", std::to_string(page)}, {"WIDTH", std::to_string(width)}});
}

/// A conversion's input; the pool's rows are 32 elements.
struct Input {
  int64_t page, pageRows, pages, maxBlocks;
  std::vector<int32_t> table, requests, positions, prefills, starts;
};

std::vector<int32_t> run(Steps &steps, const char *name, Input input, int64_t width) {
  auto tokens = static_cast<int64_t>(input.requests.size());
  int64_t requests = static_cast<int64_t>(input.table.size()) / input.maxBlocks;
  std::vector<int32_t> rows(tokens * width, kPoison);
  std::vector<uint16_t> pool; // never touched
  input.starts.resize(requests, kPoison);
  steps.run(name,
            {{"num_tokens", tokens},
             {"num_requests", requests},
             {"num_pages", input.pages},
             {"page_stride", input.pageRows * 32},
             {"max_blocks_per_request", input.maxBlocks}},
            {{"positions", input.positions},
             {"req_id_per_token", input.requests},
             {"block_table", input.table},
             {"prefill_requests", input.prefills},
             {"workspace_starts", input.starts},
             {"cache", pool},
             {"rows", rows}});
  return rows;
}

/// The host's index of one element; -1 where it is refused.
int32_t onHost(const Input &input, int64_t token, int32_t position, bool hasPrefills) {
  mla_index_map map = {};
  map.struct_bytes = sizeof map;
  map.block_table = input.table.data();
  map.num_requests = static_cast<int64_t>(input.table.size()) / input.maxBlocks;
  map.max_blocks_per_request = input.maxBlocks;
  map.page_size = input.page;
  map.block_stride_rows = input.pageRows;
  map.num_blocks = input.pages;
  map.prefill_requests = hasPrefills ? &input.prefills[token] : nullptr;
  map.workspace_starts = input.starts.data();
  map.num_prefills = static_cast<int64_t>(input.starts.size());
  int32_t index = -1;
  if (mla_cache_convert_indices(&map, &position, &input.requests[token], 1, 1, &index) != MLA_OK)
    return -1;
  return index;
}

TEST(ConvertIndices, B08_LiteralExamples) {
  auto steps = Steps::compile(stepsOf(64, 4));
  ASSERT_TRUE(steps);
  Input input{64, 64, 8, 2, {5, 7}, {0}, {70, 3, 130, -1}, {}, {}};
  EXPECT_EQ(run(*steps, "decode", input, 4), (std::vector<int32_t>{454, 323, -1, -1}));
  input.pageRows = 65;
  EXPECT_EQ(run(*steps, "decode", input, 4),
            (std::vector<int32_t>{7 * 65 + 6, 5 * 65 + 3, -1, -1}));
}

TEST(ConvertIndices, B09_WorkspaceOfPrefills) {
  auto steps = Steps::compile(stepsOf(64, 2));
  ASSERT_TRUE(steps);
  // Starts of sequences of 10, 15, 20 and 5 tokens in chunks of two.
  Input input{64,
              64,
              8,
              1,
              {1, 2, 3, 4},
              {0, 1, 2, 3, -5},
              {9, -1, 14, 0, 19, 63, 4, 64, 7, 2},
              {0, 1, 2, -1, 3},
              {0, 10, 0, 20}};
  EXPECT_EQ(run(*steps, "mixed", input, 2),
            (std::vector<int32_t>{9, -1, 24, 10, 19, 63, 4 * 64 + 4, -1, 27, 22}));
}

/// Numbers that are mostly in [0, limit), and hostile ones.
int32_t draw(std::mt19937 &random, int64_t limit) {
  constexpr int32_t kHostile[] = {-1, -2, std::numeric_limits<int32_t>::min(),
                                  std::numeric_limits<int32_t>::max(), 2147480000};
  if (random() % 8 == 0)
    return kHostile[random() % std::size(kHostile)];
  return static_cast<int32_t>(random() % (limit + limit / 4 + 1));
}

void checkRandom(int64_t page, int64_t width, int64_t pageRows, int64_t pages) {
  auto steps = Steps::compile(stepsOf(page, width));
  ASSERT_TRUE(steps);
  std::mt19937 random(page * 1000 + width);
  constexpr int64_t tokens = 37, requests = 5, maxBlocks = 9;
  Input input{page, pageRows, pages, maxBlocks, {}, {}, {}, {}, {}};
  for (int64_t i = 0; i < requests * maxBlocks; ++i)
    input.table.push_back(draw(random, pages));
  for (int64_t i = 0; i < requests; ++i)
    input.starts.push_back(draw(random, 1 << 20));
  for (int64_t i = 0; i < tokens; ++i) {
    input.requests.push_back(draw(random, requests));
    input.prefills.push_back(random() % 2 ? -1 : draw(random, requests));
  }
  for (int64_t i = 0; i < tokens * width; ++i)
    input.positions.push_back(draw(random, page * maxBlocks));
  for (bool hasPrefills : {false, true}) {
    std::vector<int32_t> rows = run(*steps, hasPrefills ? "mixed" : "decode", input, width);
    for (int64_t i = 0; i < tokens * width; ++i)
      ASSERT_EQ(rows[i], onHost(input, i / width, input.positions[i], hasPrefills))
          << "token " << i / width << ", position " << input.positions[i];
  }
}

TEST(ConvertIndices, B08_B09_RandomAndHostile) {
  checkRandom(1, 1, 1, 1000);
  checkRandom(48, 100, 50, 7); // pages of no power of two, columns of no tile
  checkRandom(64, 530, 64, 1 << 20);
}

TEST(ConvertIndices, RowsBeyond31BitsAreNone) {
  auto steps = Steps::compile(stepsOf(64, 2));
  ASSERT_TRUE(steps);
  constexpr int32_t last = std::numeric_limits<int32_t>::max() / 64 - 1;
  Input input{64, 64, std::int64_t(1) << 26, 2, {last, last + 1}, {0}, {63, 64}, {}, {}};
  EXPECT_EQ(run(*steps, "decode", input, 2), (std::vector<int32_t>{last * 64 + 63, -1}));
}

} // namespace
