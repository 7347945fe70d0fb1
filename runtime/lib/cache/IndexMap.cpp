//===- IndexMap.cpp - token positions to cache indices ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/IndexMap.h"

#include "base/DataType.h"

#include <limits>

using namespace mlac::runtime;

static constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();

static Status checkMap(const mla_index_map &map) {
  if (map.struct_bytes != sizeof map)
    return error(MLA_INVALID_ARGUMENT, "map.struct_bytes = ", map.struct_bytes, ", expected ",
                 sizeof map);
  struct {
    const char *name;
    int64_t value, low;
  } sizes[] = {{"num_requests", map.num_requests, 0},
               {"max_blocks_per_request", map.max_blocks_per_request, 0},
               {"page_size", map.page_size, 1},
               {"block_stride_rows", map.block_stride_rows, map.page_size},
               {"num_blocks", map.num_blocks, 0},
               {"num_prefills", map.num_prefills, 0}};
  for (auto &size : sizes)
    if (size.value < size.low)
      return error(MLA_INVALID_ARGUMENT, size.name, " = ", size.value, ", expected at least ",
                   size.low);
  int64_t rows;
  if (!checkedMul(map.num_blocks, map.block_stride_rows, rows) || rows > kMaxIndex)
    return error(MLA_INVALID_ARGUMENT, "num_blocks = ", map.num_blocks, " of ",
                 map.block_stride_rows, " rows: indices need more than 32 bits");
  bool lacksTable = map.num_requests > 0 && map.max_blocks_per_request > 0 && !map.block_table;
  if (lacksTable || (map.prefill_requests && map.num_prefills > 0 && !map.workspace_starts))
    return error(MLA_INVALID_ARGUMENT, lacksTable ? "block_table" : "workspace_starts", " is null");
  return Status();
}

/// The index of one position of row `row`; wrong input is named.
static Status convertOne(const mla_index_map &map, const int32_t *requests, int64_t row,
                         int32_t position, int32_t &index) {
  index = -1;
  if (position < 0)
    return Status();
  int32_t prefill = map.prefill_requests ? map.prefill_requests[row] : -1;
  if (prefill >= map.num_prefills)
    return error(MLA_INVALID_ARGUMENT, "row ", row, " is of prefill ", prefill, " of ",
                 map.num_prefills);
  if (prefill >= 0) {
    int64_t place = int64_t(map.workspace_starts[prefill]) + position;
    if (place < 0 || place > kMaxIndex)
      return error(MLA_INVALID_ARGUMENT, "workspace row ", place, " of row ", row,
                   ", expected 0 to ", kMaxIndex);
    index = static_cast<int32_t>(place);
    return Status();
  }
  int64_t request = requests[row], block = position / map.page_size;
  if (request < 0 || request >= map.num_requests)
    return error(MLA_INVALID_ARGUMENT, "row ", row, " is of request ", request, " of ",
                 map.num_requests);
  if (block >= map.max_blocks_per_request)
    return Status();
  int64_t page = map.block_table[request * map.max_blocks_per_request + block];
  if (page < 0 || page >= map.num_blocks)
    return error(MLA_INVALID_ARGUMENT, "block_table[", request, ", ", block, "] = ", page,
                 ", the pool has ", map.num_blocks, " blocks");
  index = static_cast<int32_t>(page * map.block_stride_rows + position % map.page_size);
  return Status();
}

Status mlac::runtime::convertIndices(const mla_index_map &map, const int32_t *positions,
                                     const int32_t *requests, int64_t rows, int64_t width,
                                     int32_t *indices) {
  MLAC_RETURN_IF_ERROR(checkMap(map));
  int64_t count;
  if (!checkedMul(rows, width, count))
    return error(MLA_INVALID_ARGUMENT, "indices [", rows, ", ", width, "]: negative or too many");
  if (count > 0 && (!positions || !requests || !indices))
    return error(MLA_INVALID_ARGUMENT, "positions, requests or indices is null");
  // First everything is checked, then everything is written.
  for (bool isWriting : {false, true})
    for (int64_t i = 0; i < count; ++i) {
      int32_t index;
      MLAC_RETURN_IF_ERROR(convertOne(map, requests, i / width, positions[i], index));
      if (isWriting)
        indices[i] = index;
    }
  return Status();
}
