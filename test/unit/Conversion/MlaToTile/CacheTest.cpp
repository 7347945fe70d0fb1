//===- CacheTest.cpp - append and gather ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pool of 6 pages of 4 rows, 5 latent and 2 rope columns, pages 32 elements
// apart (28 used): widths that no tile has.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "gtest/gtest.h"

#include <algorithm>

#include <sys/mman.h>

using namespace mlac::test;

namespace {

constexpr int64_t kPages = 6, kPageSize = 4, kLatent = 5, kRope = 2, kRow = kLatent + kRope,
                  kPageStride = 32;
constexpr float kUntouched = -1;
constexpr int32_t kGarbagePage = 2147480000;

const std::string kModule = R"(
!cache = !mla.cache<page_size = 4, fields = [latent: 5, rope: 2], element = f32, rope_order = half>
func.func @append(%latent: tensor<?x5xf32> {mla.input = "latent"}, %k_pe: tensor<?x2xf32> {mla.input = "k_pe"},
                  %batch: !mla.batch, %cache: !cache) -> !cache {
  %new = mla.append %latent, %k_pe into %cache, %batch : tensor<?x5xf32>, tensor<?x2xf32>
      into <page_size = 4, fields = [latent: 5, rope: 2], element = f32, rope_order = half>, <query_len = ?>
  return %new : !cache
}
func.func @gather(%batch: !mla.batch, %cache: !cache)
    -> (tensor<?x5xf32> {mla.output = "latent"}, tensor<?x2xf32> {mla.output = "k_pe"}) {
  %chunk = arith.constant 1 : index
  %latent, %k_pe = mla.gather %cache, %batch chunk %chunk
      : <page_size = 4, fields = [latent: 5, rope: 2], element = f32, rope_order = half>, <query_len = ?>
      -> tensor<?x5xf32>, tensor<?x2xf32>
  return %latent, %k_pe : tensor<?x5xf32>, tensor<?x2xf32>
}
)";

size_t poolIndex(int64_t slot, int64_t column) {
  return slot / kPageSize * kPageStride + slot % kPageSize * kRow + column;
}

TEST(Append, A21_SkipsNegativeSlotsAndTouchesNothingElse) {
  auto steps = Steps::compile(kModule);
  ASSERT_TRUE(steps);
  std::vector<int64_t> slots = {9, -1, 23, 0, -7};
  std::vector<float> pool(kPages * kPageStride, kUntouched), latent, kPe;
  for (int token = 0; token < 5; ++token) {
    for (int column = 0; column < kLatent; ++column)
      latent.push_back(100 * token + column);
    for (int column = 0; column < kRope; ++column)
      kPe.push_back(100 * token + 50 + column);
  }
  steps->run("append", {{"num_tokens", 5}, {"num_pages", kPages}, {"page_stride", kPageStride}},
             {{"latent", latent}, {"k_pe", kPe}, {"cache", pool}, {"slot_mapping", slots}});
  std::vector<float> expected(pool.size(), kUntouched);
  for (int token : {0, 2, 3})
    for (int column = 0; column < kRow; ++column)
      expected[poolIndex(slots[token], column)] =
          100 * token + (column < kLatent ? column : 50 + column - kLatent);
  EXPECT_EQ(pool, expected);
}

TEST(Append, A22_EmptyCache) {
  auto steps = Steps::compile(kModule);
  ASSERT_TRUE(steps);
  std::vector<int64_t> slots = {0, 3};
  std::vector<float> pool(kPageStride, kUntouched), latent(10, 1), kPe(4, 1);
  steps->run("append", {{"num_tokens", 2}, {"num_pages", 0}, {"page_stride", kPageStride}},
             {{"latent", latent}, {"k_pe", kPe}, {"cache", pool}, {"slot_mapping", slots}});
  EXPECT_EQ(pool, std::vector<float>(kPageStride, kUntouched));
}

/// Pages so far apart that offsets in elements need more than 32 bits (mla.md
/// section 11). Only the touched parts of the address range become memory.
TEST(Append, C21_PageOffsetsNeed64Bits) {
  auto steps = Steps::compile(kModule);
  ASSERT_TRUE(steps);
  constexpr int64_t stride = (int64_t(1) << 32) + 64, pages = 3;
  constexpr size_t bytes = pages * stride * sizeof(float);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    GTEST_SKIP() << "no address range of " << bytes << " bytes";
  auto *pool = static_cast<float *>(memory);
  std::vector<int64_t> slots = {2 * kPageSize + 1, kPageSize};
  auto latent = randomVector<float>(2 * kLatent, 1), kPe = randomVector<float>(2 * kRope, 2);
  Argument cache(reinterpret_cast<int64_t>(pool));
  steps->run("append", {{"num_tokens", 2}, {"num_pages", pages}, {"page_stride", stride}},
             {{"latent", latent}, {"k_pe", kPe}, {"cache", cache}, {"slot_mapping", slots}});
  EXPECT_EQ(pool[2 * stride + kRow], latent[0]);
  EXPECT_EQ(pool[stride + kLatent + 1], kPe[kRope + 1]);

  // Context of 5 tokens on pages 1 and 2; chunk 1 holds the last one.
  std::vector<int32_t> blockTable = {1, 2}, starts = {0, kPageSize, 0, 1};
  pool[2 * stride + 3] = 7;
  std::vector<float> latentOut(kLatent), kPeOut(kRope);
  steps->run("gather",
             {{"num_requests", 1},
              {"num_pages", pages},
              {"page_stride", stride},
              {"max_blocks_per_request", 2},
              {"chunk_capacity", kPageSize},
              {"chunk_tokens", 1},
              {"num_tokens", 1}},
             {{"cache", cache},
              {"block_table", blockTable},
              {"chunk_cu_seq_lens", starts},
              {"latent", latentOut},
              {"k_pe", kPeOut}});
  EXPECT_EQ(latentOut[3], 7);
  munmap(memory, bytes);
}

/// Chunk 1 of a request whose pages are 5, 0 and 3; slots written down, not computed.
void checkGatheredSlots(int64_t capacity, int32_t context, const std::vector<int64_t> &slots) {
  auto steps = Steps::compile(kModule);
  ASSERT_TRUE(steps);
  std::vector<int32_t> blockTable = {5, 0, 3, kGarbagePage},
                       starts = {0, static_cast<int32_t>(capacity), 0,
                                 static_cast<int32_t>(slots.size())};
  ASSERT_EQ(std::min<int64_t>(context - capacity, capacity), int64_t(slots.size()));
  std::vector<float> pool(kPages * kPageStride), latent(slots.size() * kLatent, kUntouched),
      kPe(slots.size() * kRope, kUntouched);
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = i;
  steps->run("gather",
             {{"num_requests", 1},
              {"num_pages", kPages},
              {"page_stride", kPageStride},
              {"max_blocks_per_request", 4},
              {"chunk_capacity", capacity},
              {"chunk_tokens", int64_t(slots.size())},
              {"num_tokens", 1}},
             {{"cache", pool},
              {"block_table", blockTable},
              {"chunk_cu_seq_lens", starts},
              {"latent", latent},
              {"k_pe", kPe}});
  for (size_t row = 0; row < slots.size(); ++row) {
    EXPECT_EQ(latent[row * kLatent], pool[poolIndex(slots[row], 0)]) << row;
    EXPECT_EQ(kPe[row * kRope + 1], pool[poolIndex(slots[row], kRow - 1)]) << row;
  }
}

/// Chunk 1 of 3 requests; `capacity` tokens per chunk, page aligned or not.
void checkGather(int64_t capacity, const std::vector<int32_t> &contextLens) {
  auto steps = Steps::compile(kModule);
  ASSERT_TRUE(steps);
  std::vector<int32_t> blockTable = {
      4, 2, kGarbagePage, kGarbagePage, kGarbagePage, kGarbagePage, 5, 0, 3, kGarbagePage};
  constexpr int64_t maxBlocks = 4, requests = 3, chunk = 1;
  blockTable.resize(maxBlocks * requests, kGarbagePage);
  std::vector<std::vector<int32_t>> pages = {{4, 2}, {}, {5, 0, 3}};
  for (int64_t r = 0; r < requests; ++r)
    for (int64_t i = 0; i < maxBlocks; ++i)
      blockTable[r * maxBlocks + i] = i < int64_t(pages[r].size()) ? pages[r][i] : kGarbagePage;
  std::vector<int32_t> starts(2 * (requests + 1), 0);
  for (int64_t r = 0; r < requests; ++r) {
    int64_t length = std::clamp<int64_t>(contextLens[r] - chunk * capacity, 0, capacity);
    starts[requests + 1 + r + 1] = starts[requests + 1 + r] + length;
  }
  std::vector<float> pool(kPages * kPageStride);
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = i;
  int64_t total = starts.back();
  std::vector<float> latent((total + 2) * kLatent, kUntouched),
      kPe((total + 2) * kRope, kUntouched);
  steps->run("gather",
             {{"num_requests", requests},
              {"num_pages", kPages},
              {"page_stride", kPageStride},
              {"max_blocks_per_request", maxBlocks},
              {"chunk_capacity", capacity},
              {"chunk_tokens", total},
              {"num_tokens", 1}},
             {{"cache", pool},
              {"block_table", blockTable},
              {"chunk_cu_seq_lens", starts},
              {"latent", latent},
              {"k_pe", kPe}});
  for (int64_t r = 0; r < requests; ++r)
    for (int64_t row = starts[requests + 1 + r]; row < starts[requests + 2 + r]; ++row) {
      int64_t token = chunk * capacity + row - starts[requests + 1 + r];
      int64_t slot = pages[r][token / kPageSize] * kPageSize + token % kPageSize;
      for (int64_t column = 0; column < kRow; ++column) {
        float got =
            column < kLatent ? latent[row * kLatent + column] : kPe[row * kRope + column - kLatent];
        EXPECT_EQ(got, pool[poolIndex(slot, column)]) << "request " << r << ", row " << row;
      }
    }
  EXPECT_EQ(latent[total * kLatent], kUntouched); // rows behind the last are not written
}

TEST(Gather, A30_PageAlignedChunks) { checkGather(4, {7, 0, 12}); }
TEST(Gather, A30_UnalignedChunks) { checkGather(3, {5, 0, 11}); }
// Chunk 1 begins with token 4, the first of page 0; or with token 3, the last of page 5;
// or with token 6, in the middle of page 0.
TEST(Gather, A30_AlignedSlots) { checkGatheredSlots(4, 8, {0, 1, 2, 3}); }
TEST(Gather, A30_UnalignedSlots) {
  checkGatheredSlots(3, 12, {23, 0, 1});
  checkGatheredSlots(6, 11, {2, 3, 12, 13, 14});
}
TEST(Gather, NothingInTheChunk) { checkGather(8, {7, 0, 8}); }

} // namespace
