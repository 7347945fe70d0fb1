//===- ChunkSchedule.cpp - chunks of cached context -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/ChunkSchedule.h"

#include "step/Planners.h"

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
  schedule.requestTokens = std::min(longest, schedule.capacity);
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

void mlac::runtime::setChunkDims(DimValues &dims, const ChunkSchedule &chunks) {
  at(dims, Dim::NumChunks) = chunks.numChunks;
  at(dims, Dim::ChunkCapacity) = chunks.capacity;
  at(dims, Dim::ChunkTokens) = chunks.chunkTokens;
  at(dims, Dim::ChunkRequestTokens) = chunks.requestTokens;
}

//===----------------------------------------------------------------------===//
// Of a step
//===----------------------------------------------------------------------===//

/// As if every place for a prefill held the longest context. Error: the workspace is too
/// small for all of them to have any.
static Status schedulePadded(StepState &state) {
  const StepLimits &limits = state.limits;
  auto sharers = static_cast<int64_t>(state.contextLens.size());
  std::ranges::fill(state.contextLens, 1);
  MLAC_RETURN_IF_ERROR(
      scheduleChunks(state.contextLens, limits.workspaceTokens, limits.pageSize, state.chunks));
  if (sharers == 0)
    return Status();
  state.chunks.numChunks = ceilDiv(state.dim(Dim::MaxSeqLen), state.chunks.capacity);
  state.chunks.chunkTokens = std::min(limits.workspaceTokens, sharers * state.chunks.capacity);
  state.chunks.requestTokens = std::min(state.dim(Dim::MaxSeqLen), state.chunks.capacity);
  return Status();
}

/// Whether the workspace has a page for each request with context.
static bool holdsChunks(const StepState &state) {
  auto sharers =
      std::ranges::count_if(state.contextLens, [](int32_t length) { return length > 0; });
  return state.limits.workspaceTokens >= sharers * state.limits.pageSize;
}

static void listContexts(StepState &state) {
  state.contextLens.clear();
  for (const StepPlace &place :
       state.has(mlac::step::Owner::Parts) ? state.prefillPlaces() : StepPlaces(state.places))
    state.contextLens.push_back(static_cast<int32_t>(place.contextLen()));
}

Status mlac::runtime::measureChunks(StepState &state, const StepDemand &demand) {
  const StepLimits &limits = state.limits;
  listContexts(state);
  if (demand.function.hasOptionalChunks && (state.isPadded() || !holdsChunks(state))) {
    state.chunks = {};
  } else if (state.isPadded()) {
    MLAC_RETURN_IF_ERROR(schedulePadded(state));
    listContexts(state);
  } else {
    MLAC_RETURN_IF_ERROR(
        scheduleChunks(state.contextLens, limits.workspaceTokens, limits.pageSize, state.chunks));
  }
  setChunkDims(state.dims, state.chunks);
  return Status();
}

void mlac::runtime::countChunks(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t decodes = at(dims, Dim::NumDecodes), prefills = at(dims, Dim::NumPrefills);
  int64_t rows = decodes + prefills > 0 ? prefills : at(dims, Dim::NumRequests);
  elements(sizes, Metadata::ChunkCuSeqLens) = at(dims, Dim::NumChunks) * (rows + 1);
}

void mlac::runtime::fillChunks(const StepState &state, const StepMemory &memory) {
  fillChunkTable(state.contextLens, state.chunks,
                 arrayOf<int32_t>(state, Metadata::ChunkCuSeqLens, memory).data());
}
