//===- SharedPrefix.cpp - what the requests of a step have in common ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/SharedPrefix.h"

#include "step/Planners.h"

#include <algorithm>

using namespace mlac::runtime;

int64_t mlac::runtime::boundCommonTokens(std::span<const CachedContext> contexts,
                                         int64_t pageSize) {
  if (contexts.empty())
    return 0;
  int64_t shortest = contexts.front().tokens;
  for (const CachedContext &context : contexts)
    shortest = std::min(shortest, context.tokens);
  return roundDown(shortest, pageSize);
}

int64_t mlac::runtime::countCommonTokens(std::span<const CachedContext> contexts,
                                         int64_t pageSize) {
  int64_t pages = boundCommonTokens(contexts, pageSize) / pageSize;
  for (const CachedContext &context : contexts) {
    auto first = contexts.front().pages.begin();
    pages = std::mismatch(first, first + pages, context.pages.begin()).first - first;
    if (pages == 0) // as of most batches
      break;
  }
  return pages * pageSize;
}

void mlac::runtime::setSharedPrefixDims(DimValues &dims, int64_t tokens, int64_t workspaceTokens,
                                        int64_t pageSize) {
  int64_t capacity = roundDown(workspaceTokens, pageSize);
  if (tokens == 0 || capacity == 0)
    return;
  at(dims, Dim::NumSharedTokens) = tokens;
  at(dims, Dim::NumSharedChunks) = ceilDiv(tokens, capacity);
  at(dims, Dim::SharedChunkCapacity) = capacity;
  at(dims, Dim::SharedChunkTokens) = std::min(tokens, capacity);
}

//===----------------------------------------------------------------------===//
// Of a step
//===----------------------------------------------------------------------===//

/// The function's expression where so many tokens are common.
static Status evaluateShared(StepState &state, const FunctionInfo &function, int64_t common,
                             int64_t &shared) {
  state.dim(Dim::NumCommonTokens) = common;
  return state.evaluate(function, *function.sharedTokens, shared).in("shared_prefix");
}

Status mlac::runtime::measureShared(StepState &state, const StepDemand &demand) {
  const FunctionInfo &function = demand.function;
  int64_t pageSize = state.limits.pageSize, workspace = state.limits.workspaceTokens;
  // A padded step's launches may not depend on what its batch has in common, and of tables on
  // the device nobody knows it.
  if (state.hasFixedSizes() || state.hasDeviceTables || workspace < pageSize ||
      state.dim(Dim::NumTokens) == 0)
    return Status();
  state.contexts.clear();
  for (const StepPlace &place : state.workPlaces())
    state.contexts.push_back({place.request->pages(), place.contextLen()});
  int64_t shared = 0, common = boundCommonTokens(state.contexts, pageSize);
  // Most batches are too small: then nobody looks at their pages.
  MLAC_RETURN_IF_ERROR(evaluateShared(state, function, common, shared));
  if (shared > 0) {
    common = countCommonTokens(state.contexts, pageSize);
    MLAC_RETURN_IF_ERROR(evaluateShared(state, function, common, shared));
  }
  int64_t granule = function.work ? function.work->keysPerBlock : 1;
  if (shared < 0 || shared > common || shared % granule != 0)
    return error(MLA_CORRUPT, "the function attends apart to ", shared, " of ", common,
                 " common tokens, expected a multiple of ", granule, " up to as many");
  setSharedPrefixDims(state.dims, shared, workspace, pageSize);
  return Status();
}

void mlac::runtime::countShared(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t chunks = at(dims, Dim::NumSharedChunks);
  elements(sizes, Metadata::SharedQueryStartLoc) = chunks > 0 ? 2 : 0;
  elements(sizes, Metadata::SharedChunkCuSeqLens) = 2 * chunks;
}

void mlac::runtime::fillShared(const StepState &state, const StepMemory &memory) {
  int64_t tokens = state.dim(Dim::NumSharedTokens);
  if (tokens == 0)
    return;
  Dim rows = state.has(mlac::step::Owner::Parts) ? Dim::NumDecodeTokens : Dim::NumTokens;
  std::span starts = arrayOf<int32_t>(state, Metadata::SharedQueryStartLoc, memory);
  starts[0] = 0;
  starts[1] = static_cast<int32_t>(state.dim(rows));
  ChunkSchedule schedule;
  schedule.capacity = state.dim(Dim::SharedChunkCapacity);
  schedule.numChunks = state.dim(Dim::NumSharedChunks);
  auto length = static_cast<int32_t>(tokens);
  fillChunkTable({&length, 1}, schedule,
                 arrayOf<int32_t>(state, Metadata::SharedChunkCuSeqLens, memory).data());
}
