//===- StepState.cpp - what planners know of a step -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepState.h"

#include "step/BatchOrder.h"
#include "step/StepBounds.h"

#include <atomic>
#include <bit>

using namespace mlac::runtime;

StepState::StepState(const StepLimits &limits)
    : limits(limits), pageShift(std::has_single_bit(static_cast<uint64_t>(limits.pageSize))
                                    ? std::countr_zero(static_cast<uint64_t>(limits.pageSize))
                                    : -1) {
  requests.reserve(limits.maxRequests);
  places.reserve(limits.maxRequests);
  contextLens.reserve(limits.maxRequests);
  workRequests.reserve(limits.maxRequests);
  contexts.reserve(limits.hasShared ? limits.maxRequests : 0);
  DimValues largest = largestDims(limits, limits.maxRequests, 0, true);
  for (const WorkParams &params : limits.works)
    work.reserve(largestWork(limits, params, largest), limits.maxRequests);
}

void StepState::clear() {
  requests.clear();
  places.clear();
  source = StepSource::Sequences;
  givenSlots = {};
  tableColumns = blockColumns(limits);
  missingPages = 0;
  dims = {};
  layout.external = {};
  chunks = {};
  workSizes = {};
  owners = {};
}

uint64_t mlac::runtime::nextStep() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

Status mlac::runtime::checkNumRequests(const StepLimits &limits, int64_t requests) {
  if (requests >= 1 && requests <= limits.maxRequests)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "batch of ", requests,
               " requests, expected 1 to max_num_requests = ", limits.maxRequests);
}

Status mlac::runtime::checkNumTokens(const StepLimits &limits, int64_t tokens) {
  if (tokens <= limits.maxTokens)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "batch of ", tokens,
               " tokens, limit max_num_tokens = ", limits.maxTokens);
}

mla_batch_split StepState::splitAt(int64_t decodeThreshold) const {
  return splitBatch(static_cast<int64_t>(requests.size()), decodeThreshold, /*isUniform=*/false,
                    [&](int64_t i) { return requests[static_cast<size_t>(i)].queryLen; });
}

void StepState::placeRun(int64_t first, int64_t count, int64_t room, int64_t row) {
  for (int64_t i = 0; i < room; ++i) {
    const StepRequest *request = i < count ? &requests[static_cast<size_t>(first + i)] : nullptr;
    places.push_back({request, row});
    row += places.back().queryLen();
  }
}
