//===- ChunkSchedule.h - chunks of cached context ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prefills attend to cached context in chunks that fit in the workspace (spec: mla.md
// section 9). W = workspace_tokens, n = requests with context:
//   chunk_capacity = floor(W / n), rounded down to a multiple of page_size
//   chunk i covers tokens [i * capacity, (i + 1) * capacity) of every context
//   chunk_cu_seq_lens[i] = exclusive prefix sums of the lengths inside chunk i
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CHUNKSCHEDULE_H
#define MLAC_RUNTIME_CHUNKSCHEDULE_H

#include "package/Dims.h"

#include "base/Status.h"

#include <span>

namespace mlac::runtime {

struct ChunkSchedule {
  int64_t numContext = 0; // requests with context
  int64_t capacity = 0;   // tokens per request and chunk
  int64_t numChunks = 0;
  int64_t chunkTokens = 0; // largest total of one chunk
  int64_t requestTokens = 0; // most of one request in one chunk
};

/// Error: the workspace holds less than a page per request with context.
Status scheduleChunks(std::span<const int32_t> contextLens, int64_t workspaceTokens,
                      int64_t pageSize, ChunkSchedule &schedule);

/// Writes chunk_cu_seq_lens [numChunks, requests + 1].
void fillChunkTable(std::span<const int32_t> contextLens, const ChunkSchedule &schedule,
                    int32_t *table);

void setChunkDims(DimValues &dims, const ChunkSchedule &chunks);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CHUNKSCHEDULE_H
