//===- SharedPrefix.cpp - what the requests of a step have in common ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/SharedPrefix.h"

#include "step/StepPlanner.h"

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

Status StepPlanner::evaluateShared(const ExpressionTable &exprs, uint32_t tokens, int64_t common,
                                   int64_t &shared) {
  at(dims_, Dim::NumCommonTokens) = common;
  evaluator.bind(exprs);
  evaluator.update(dims_, {});
  MLAC_RETURN_IF_ERROR(evaluator.get(tokens, shared).in("shared_prefix"));
  return Status();
}

Status StepPlanner::measureShared(const ExpressionTable &exprs, uint32_t tokens, int64_t granule) {
  // A padded step's launches may not depend on what its batch has in common.
  if (hasFixedSizes() || limits.workspaceTokens < limits.pageSize || at(dims_, Dim::NumTokens) == 0)
    return Status();
  contexts.clear();
  for (const Place &place : workPlaces())
    contexts.push_back({place.request->sequence->pages, place.contextLen()});
  int64_t shared = 0, common = boundCommonTokens(contexts, limits.pageSize);
  // Most batches are too small: then nobody looks at their pages.
  MLAC_RETURN_IF_ERROR(evaluateShared(exprs, tokens, common, shared));
  if (shared > 0) {
    common = countCommonTokens(contexts, limits.pageSize);
    MLAC_RETURN_IF_ERROR(evaluateShared(exprs, tokens, common, shared));
  }
  if (shared < 0 || shared > common || shared % granule != 0)
    return error(MLA_CORRUPT, "the function attends apart to ", shared, " of ", common,
                 " common tokens, expected a multiple of ", granule, " up to as many");
  setSharedPrefixDims(dims_, shared, limits.workspaceTokens, limits.pageSize);
  computeLayout();
  return Status();
}

void StepPlanner::fillShared(uint8_t *bytes) const {
  int64_t tokens = at(dims_, Dim::NumSharedTokens);
  if (tokens == 0)
    return;
  auto *starts = reinterpret_cast<int32_t *>(
      bytes + layout_.arrays[static_cast<size_t>(Metadata::SharedQueryStartLoc)].offset);
  starts[0] = 0;
  starts[1] = static_cast<int32_t>(at(dims_, hasParts ? Dim::NumDecodeTokens : Dim::NumTokens));
  ChunkSchedule schedule;
  schedule.capacity = at(dims_, Dim::SharedChunkCapacity);
  schedule.numChunks = at(dims_, Dim::NumSharedChunks);
  auto length = static_cast<int32_t>(tokens);
  fillChunkTable(
      {&length, 1}, schedule,
      reinterpret_cast<int32_t *>(
          bytes + layout_.arrays[static_cast<size_t>(Metadata::SharedChunkCuSeqLens)].offset));
}
