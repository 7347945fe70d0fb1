//===- ChunkSchedule.cpp - chunks of cached context -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include <algorithm>

using namespace mlac::runtime;

/// Tokens of a context that fall into chunk `chunk`.
static int64_t chunkLength(int64_t contextLen, int64_t chunk, int64_t capacity) {
  return std::clamp<int64_t>(contextLen - chunk * capacity, 0, capacity);
}

Status mlac::runtime::scheduleChunks(std::span<const int32_t> contextLens, int64_t workspaceTokens,
                                     int64_t pageSize, ChunkSchedule &schedule) {
  schedule = {};
  int64_t longest = 0;
  for (int32_t length : contextLens) {
    schedule.numContext += length > 0;
    longest = std::max<int64_t>(longest, length);
  }
  int64_t sharers = std::max<int64_t>(schedule.numContext, 1);
  schedule.capacity = roundDown(workspaceTokens / sharers, pageSize);
  if (schedule.numContext == 0)
    return Status();
  if (workspaceTokens == 0)
    return error(MLA_INVALID_ARGUMENT, schedule.numContext,
                 " requests have cached context, which runs in chunks, but the engine has no "
                 "workspace for them (workspace_tokens = ",
                 MLA_NO_WORKSPACE, ")");
  if (schedule.capacity == 0)
    return error(MLA_INVALID_ARGUMENT, "workspace_tokens = ", workspaceTokens,
                 " is smaller than one page (", pageSize, " tokens) for each of ",
                 schedule.numContext, " requests with context");
  schedule.numChunks = ceilDiv(longest, schedule.capacity);
  for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
    int64_t total = 0;
    for (int32_t length : contextLens)
      total += chunkLength(length, chunk, schedule.capacity);
    schedule.chunkTokens = std::max(schedule.chunkTokens, total);
  }
  return Status();
}

void mlac::runtime::fillChunkTable(std::span<const int32_t> contextLens,
                                   const ChunkSchedule &schedule, int32_t *table) {
  for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
    int64_t sum = 0;
    *table++ = 0;
    for (int32_t length : contextLens) {
      sum += chunkLength(length, chunk, schedule.capacity);
      *table++ = static_cast<int32_t>(sum);
    }
  }
}
