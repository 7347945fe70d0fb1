//===- IndexMapTest.cpp - token positions to cache indices ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The literal examples of paged-cache.md section 7.
//
//===----------------------------------------------------------------------===//

#include "mla_runtime.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

static mla_index_map mapOf(const std::vector<int32_t> &table, int64_t requests) {
  mla_index_map map = {};
  map.struct_bytes = sizeof map;
  map.block_table = table.data();
  map.num_requests = requests;
  map.max_blocks_per_request = static_cast<int64_t>(table.size()) / requests;
  map.page_size = map.block_stride_rows = 64;
  map.num_blocks = 8;
  return map;
}

static std::vector<int32_t> convert(const mla_index_map &map, const std::vector<int32_t> &positions,
                                    const std::vector<int32_t> &requests) {
  std::vector<int32_t> indices(positions.size(), 12345);
  auto rows = static_cast<int64_t>(requests.size());
  EXPECT_EQ(mla_cache_convert_indices(&map, positions.data(), requests.data(), rows,
                                      static_cast<int64_t>(positions.size()) / rows,
                                      indices.data()),
            MLA_OK)
      << mla_last_error();
  return indices;
}

TEST(IndexMap, B08_PositionsBecomeSlots) {
  std::vector<int32_t> table = {5, 7};
  mla_index_map map = mapOf(table, 1);
  EXPECT_EQ(convert(map, {70, 3, 130, -1}, {0}), (std::vector<int32_t>{454, 323, -1, -1}));
  map.block_stride_rows = 65; // FlashMLA's tests allocate a row more
  EXPECT_EQ(convert(map, {70, 3}, {0}), (std::vector<int32_t>{7 * 65 + 6, 5 * 65 + 3}));
}

TEST(IndexMap, B09_PrefillTokensPointIntoTheWorkspace) {
  std::vector<int32_t> table = {1, 2, 3, 4}, prefills = {-1, 0, 1, -1}, starts = {0, 10};
  mla_index_map map = mapOf(table, 2);
  map.prefill_requests = prefills.data();
  map.workspace_starts = starts.data();
  map.num_prefills = 2;
  // Requests of prefill rows are not looked at, nor is the table.
  EXPECT_EQ(convert(map, {65, -1, 9, -1, 14, 0, 63, 64}, {1, 99, -5, 0}),
            (std::vector<int32_t>{4 * 64 + 1, -1, 9, -1, 24, 10, 64 + 63, 2 * 64}));
}

TEST(IndexMap, WrongInputIsNamedAndNothingWritten) {
  std::vector<int32_t> table = {5, 2147480000}, positions = {3, 70}, requests = {0};
  mla_index_map map = mapOf(table, 1);
  std::vector<int32_t> indices = {-7, -7};
  auto refused = [&](const char *message) {
    EXPECT_EQ(
        mla_cache_convert_indices(&map, positions.data(), requests.data(), 1, 2, indices.data()),
        MLA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(mla_last_error()).find(message), std::string::npos) << mla_last_error();
    EXPECT_EQ(indices, (std::vector<int32_t>{-7, -7}));
  };
  refused("block_table[0, 1] = 2147480000, the pool has 8 blocks");
  requests[0] = 1;
  refused("row 0 is of request 1 of 1");
  map.num_blocks = std::numeric_limits<int32_t>::max() / 64 + 1;
  refused("more than 32 bits");
  map.num_blocks = 8, map.block_stride_rows = 63;
  refused("block_stride_rows = 63, expected at least 64");
  std::vector<int32_t> prefills = {2}, starts = {0};
  map.block_stride_rows = 64, map.prefill_requests = prefills.data();
  map.workspace_starts = starts.data(), map.num_prefills = 1;
  refused("row 0 is of prefill 2 of 1");
}
