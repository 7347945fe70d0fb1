//===- StepBounds.cpp - the largest sizes of any step -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepBounds.h"

#include "step/ChunkSchedule.h"
#include "step/GatherSchedule.h"
#include "step/Prompts.h"
#include "step/SharedPrefix.h"

#include <algorithm>

using namespace mlac::runtime;

void mlac::runtime::setWorkDims(DimValues &dims, const WorkSizes &work) {
  at(dims, Dim::NumParts) = work.parts;
  at(dims, Dim::NumPartials) = work.partials;
  at(dims, Dim::PartialTokens) = work.partialTokens;
  at(dims, Dim::NumMerges) = work.merges;
  at(dims, Dim::NumMergePrograms) = work.mergePrograms;
}

WorkSizes mlac::runtime::largestWork(const StepLimits &limits, const WorkParams &params,
                                     const DimValues &dims) {
  WorkSizes most =
      boundWork(params, {at(dims, Dim::NumRequests), at(dims, Dim::NumTokens),
                         at(dims, Dim::MaxQueryLen), at(dims, Dim::MaxSeqLen), limits.numSms});
  most.partialTokens += limits.promptCuts.partialTokens;
  most.merges += limits.promptCuts.merges;
  if (most.merges > 0)
    most.mergePrograms = countMergePrograms(params, limits.numSms);
  return most;
}

DimValues mlac::runtime::largestDims(const StepLimits &limits, int64_t numRequests,
                                     int64_t maxQueryLen, bool hasContext,
                                     const std::optional<WorkParams> &work) {
  DimValues dims = staticDims(limits);
  int64_t tokens = limits.maxTokens;
  if (maxQueryLen > 0)
    tokens = std::min(tokens, numRequests * maxQueryLen);
  int64_t longestQuery = std::min(tokens, limits.maxSeqLen);
  if (maxQueryLen > 0)
    longestQuery = std::min(longestQuery, maxQueryLen);
  int64_t context = hasContext ? limits.maxSeqLen : 0;
  at(dims, Dim::NumTokens) = tokens;
  at(dims, Dim::NumRequests) = numRequests;
  at(dims, Dim::MaxQueryLen) = longestQuery;
  at(dims, Dim::MaxSeqLen) = hasContext ? limits.maxSeqLen : longestQuery;
  at(dims, Dim::MaxContextLen) = context;
  at(dims, Dim::TotalContextLen) = numRequests * context;
  at(dims, Dim::AttendedPairs) = tokens * std::max<int64_t>(limits.maxSeqLen, 1);
  at(dims, Dim::NumContextRequests) = hasContext ? numRequests : 0;
  if (limits.hasParts) { // all requests may be of either kind
    at(dims, Dim::NumDecodes) = at(dims, Dim::NumPrefills) = numRequests;
    at(dims, Dim::NumDecodeTokens) = at(dims, Dim::NumPrefillTokens) = tokens;
    at(dims, Dim::NumPrefillRows) = tokens;
    at(dims, Dim::MaxDecodeQueryLen) = at(dims, Dim::MaxPrefillQueryLen) = longestQuery;
    at(dims, Dim::MaxDecodeSeqLen) = at(dims, Dim::MaxSeqLen);
    at(dims, Dim::PrefillContextLen) = at(dims, Dim::TotalContextLen);
    at(dims, Dim::PrefillAttendedPairs) = at(dims, Dim::AttendedPairs);
  }
  ChunkSchedule chunks;
  // With a workspace below a page per request, steps of so many requests with
  // context are refused: size for chunks of one page.
  chunks.capacity =
      std::max(roundDown(limits.workspaceTokens / numRequests, limits.pageSize), limits.pageSize);
  if (hasContext) {
    chunks.numContext = numRequests;
    chunks.numChunks = ceilDiv(limits.maxSeqLen, chunks.capacity);
    chunks.chunkTokens = std::min(limits.workspaceTokens, numRequests * chunks.capacity);
    chunks.requestTokens = std::min(limits.maxSeqLen, chunks.capacity);
  }
  setChunkDims(dims, chunks);
  if (limits.hasGathers)
    setLargestGathers(dims, limits.maxSeqLen, limits.workspaceTokens);
  if (limits.hasPrompts)
    setMostPrompts(dims, limits.workspaceTokens, limits.promptCuts);
  if (limits.hasShared && hasContext)
    setSharedPrefixDims(dims, limits.maxSeqLen, limits.workspaceTokens, limits.pageSize);
  if (work)
    setWorkDims(dims, largestWork(limits, *work, dims));
  return dims;
}

int64_t mlac::runtime::largestBytes(const StepLimits &limits) {
  DimValues dims = largestDims(limits, limits.maxRequests, 0, true);
  StepLayout layout;
  layOut(dims, WorkSizes(), limits, layout);
  int64_t bytes = layout.bytes;
  for (const WorkParams &work : limits.works) {
    layOut(dims, largestWork(limits, work, dims), limits, layout);
    bytes = std::max(bytes, layout.bytes);
  }
  return bytes;
}
