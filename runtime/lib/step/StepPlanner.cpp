//===- StepPlanner.cpp - sizes and metadata of a step -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include "step/Planners.h"

#include <algorithm>

using namespace mlac::runtime;

static Status run(const Planner &planner, StepState &state, const StepDemand &demand) {
  state.setHas(planner.owner);
  return planner.measure(state, demand);
}

void StepPlanner::layOutStep() { layOut(state.dims, state.workSizes, state.limits, state.layout); }

Status StepPlanner::measureBatch() {
  const FunctionInfo any{}; // none is chosen yet
  for (const Planner &planner : planners())
    if (!planner.isOf)
      MLAC_RETURN_IF_ERROR(run(planner, state, {any}));
  layOutStep();
  return Status();
}

Status StepPlanner::measure(KVCache &cache, const mla_batch &batch) {
  MLAC_RETURN_IF_ERROR(takeBatch(state, cache, batch));
  return measureBatch();
}

Status StepPlanner::measureTables(const mla_table_batch &batch) {
  MLAC_RETURN_IF_ERROR(takeTableBatch(state, batch));
  return measureBatch();
}

Status StepPlanner::measureDevice(const mla_device_batch &batch) {
  MLAC_RETURN_IF_ERROR(takeDeviceBatch(state, batch));
  return measureBatch();
}

Status StepPlanner::measureFor(const StepDemand &demand) {
  for (const Planner &planner : planners())
    if (planner.isOf && planner.isOf(demand))
      MLAC_RETURN_IF_ERROR(run(planner, state, demand));
  layOutStep();
  return Status();
}

int64_t StepPlanner::longestSeqLen() const {
  int64_t longest = 0;
  for (const StepRequest &request : state.requests)
    longest = std::max(longest, request.seqLen());
  return longest;
}

bool StepPlanner::isMixed(int64_t decodeThreshold) const {
  mla_batch_split parts = state.splitAt(decodeThreshold);
  return parts.num_decodes > 0 && parts.num_prefills > 0;
}

bool StepPlanner::hasOnlyDecodes(int64_t decodeThreshold, const mla_step_shape *shape) const {
  if (shape)
    return shape->num_requests == shape->num_decodes;
  return decodeThreshold > 0 && state.splitAt(decodeThreshold).num_prefills == 0;
}

bool StepPlanner::hasPages(const KVCache &cache) const {
  // New sequences leave the watermark to those that run.
  bool admits =
      std::any_of(state.requests.begin(), state.requests.end(), [](const StepRequest &request) {
        return request.sequence && request.sequence->pages.empty() && request.queryLen > 0;
      });
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool) {
    int64_t kept = admits ? cache.spec(pool).watermark : 0, missing = state.missingPages[pool];
    if (missing > 0 && missing > cache.pool(pool).numFree() - kept)
      return false;
  }
  return true;
}

std::vector<TableRows> StepPlanner::makeRows() const {
  std::vector<TableRows> rows;
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool)
    rows.emplace_back(state.limits.maxRequests, blockColumns(state.limits, pool),
                      tableOffset(state.limits, pool), pool);
  return rows;
}

/// Cannot fail: lengths were checked by measure, pages by hasPages, which counts those that windows
/// leave as free.
static void takePages(const StepState &state, KVCache &cache) {
  if (!state.hasSequences())
    return;
  // The step's first query still sees the window behind its position; a step that is undone starts
  // there again.
  if (cache.hasWindows())
    for (const StepRequest &request : state.requests)
      cache.leaveWindows(*request.sequence, request.contextLen);
  for (const StepRequest &request : state.requests) {
    if (request.missingPages > 0)
      (void)cache.reserve(*request.sequence, request.seqLen());
    request.sequence->length = request.seqLen();
  }
}

void StepPlanner::fill(KVCache &cache, DeviceMirror &mirror, std::span<TableRows> rows) {
  takePages(state, cache);
  StepMemory memory{mirror, rows, cache};
  for (const Planner &planner : planners())
    if (planner.fill && state.has(planner.owner))
      planner.fill(state, memory);
  mirror.touch(state.layout.tableBytes, state.layout.bytes);
}

void StepPlanner::rollback(KVCache &cache) {
  if (!state.hasSequences())
    return;
  // In reverse, so that the pool's free list becomes what it was.
  for (auto request = state.requests.rbegin(); request != state.requests.rend(); ++request) {
    request->sequence->length = request->contextLen;
    cache.shrink(*request->sequence, static_cast<int64_t>(request->oldPages));
    size_t others = state.limits.others.size(), row = state.requests.rend() - request - 1;
    for (size_t pool = others; pool > 0; --pool)
      cache.shrink(pool, *request->sequence,
                   static_cast<int64_t>(state.oldPages[row * others + pool - 1]));
  }
}
