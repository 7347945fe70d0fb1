//===- StepWork.cpp - the partition of a step -------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes and metadata of a partition of the attention, which WorkPlanner makes. A prefix
// that is attended to apart is left out of it.
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"
#include "step/StepBounds.h"

#include <algorithm>

using namespace mlac::runtime;

// Rows of work_items, merge_items and merge_starts are i32.
static constexpr int64_t kItemFields = sizeof(WorkItem) / sizeof(int32_t);
static constexpr int64_t kMergeFields = sizeof(MergeItem) / sizeof(int32_t);
static constexpr int64_t kMergeStartFields = sizeof(MergeStart) / sizeof(int32_t);

/// A planned step must stay inside what its launches and buffers are sized for.
static Status checkWork(const WorkSizes &planned, const WorkSizes &most) {
  const struct {
    Dim dim;
    int64_t value, limit;
  } sizes[] = {{Dim::NumParts, planned.parts, most.parts},
               {Dim::NumPartials, planned.partials, most.partials},
               {Dim::PartialTokens, planned.partialTokens, most.partialTokens},
               {Dim::NumMerges, planned.merges, most.merges},
               {Dim::NumMergePrograms, planned.mergePrograms, most.mergePrograms}};
  for (const auto &size : sizes)
    if (size.value > size.limit)
      return error(MLA_INTERNAL, "the step's attention has ", dimName(size.dim), " = ", size.value,
                   ", more than the ", size.limit, " of its shape");
  if (planned.items > most.items)
    return error(MLA_INTERNAL, "the step's attention has ", planned.items,
                 " pieces, more than the ", most.items, " of its shape");
  return Status();
}

/// What bounds the partition of any batch within the step's sizes.
static WorkLimits boundsOf(const StepState &state) {
  int64_t numSms = state.limits.numSms;
  if (state.has(mlac::step::Owner::Parts))
    return {state.dim(Dim::NumDecodes), state.dim(Dim::NumDecodeTokens),
            state.dim(Dim::MaxDecodeQueryLen), state.dim(Dim::MaxDecodeSeqLen), numSms};
  return {state.dim(Dim::NumRequests), state.dim(Dim::NumTokens), state.dim(Dim::MaxQueryLen),
          state.dim(Dim::MaxSeqLen), numSms};
}

Status mlac::runtime::measureWork(StepState &state, const StepDemand &demand) {
  const WorkParams &params = *demand.function.work;
  StepPlaces places = state.workPlaces();
  state.workRequests.resize(places.size());
  std::ranges::transform(places, state.workRequests.begin(), [&](const StepPlace &place) {
    if (state.isPrompt(place))
      return WorkRequest{};
    return WorkRequest{static_cast<int32_t>(place.seqLen()), static_cast<int32_t>(place.firstRow),
                       static_cast<int32_t>(place.queryLen())};
  });
  state.work.plan(params, state.workRequests, state.limits.numSms,
                  state.dim(Dim::NumSharedTokens) / params.keysPerBlock,
                  {state.promptParts.merges(), state.promptParts.partialTokens()});
  state.workSizes = state.work.sizes();
  if (state.hasFixedSizes()) {
    state.workSizes = boundWork(params, boundsOf(state), state.envelope);
    MLAC_RETURN_IF_ERROR(checkWork(state.work.sizes(), state.workSizes));
  }
  // No decodes, or prompts alone: nothing to launch but merges of these.
  if (std::ranges::all_of(places, [&](const StepPlace &place) { return state.isPrompt(place); })) {
    const WorkSizes &planned = state.work.sizes();
    state.workSizes = {};
    state.workSizes.partialTokens = planned.partialTokens;
    state.workSizes.merges = planned.merges;
    state.workSizes.mergePrograms = planned.mergePrograms;
  }
  setWorkDims(state.dims, state.workSizes);
  return Status();
}

void mlac::runtime::countWork(const DimValues &, const WorkSizes &work, ArraySizes &sizes) {
  elements(sizes, Metadata::WorkStarts) = work.parts > 0 ? work.parts + 1 : 0;
  elements(sizes, Metadata::WorkItems) = work.items * kItemFields;
  elements(sizes, Metadata::MergeItems) = work.merges * kMergeFields;
  elements(sizes, Metadata::MergeStarts) = work.mergePrograms * kMergeStartFields;
}

/// Rows of the partition, and `rest` behind them: a padded step may have room for more
/// parts, pieces and merges than it needs.
template <typename Row>
static void copyRows(const StepState &state, Metadata which, std::span<const Row> rows, Row rest,
                     const StepMemory &memory) {
  std::span to = arrayOf<Row>(state, which, memory);
  size_t count = std::min(to.size(), rows.size());
  std::ranges::copy(rows.first(count), to.begin());
  std::ranges::fill(to.subspan(count), rest);
}

void mlac::runtime::fillWork(const StepState &state, const StepMemory &memory) {
  std::span<const int32_t> starts = state.work.starts();
  copyRows(state, Metadata::WorkStarts, starts, starts.empty() ? 0 : starts.back(), memory);
  copyRows(state, Metadata::WorkItems, state.work.items(), WorkItem{}, memory);
  copyRows(state, Metadata::MergeItems, state.work.merges(), MergeItem{}, memory);
  copyRows(state, Metadata::MergeStarts, state.work.mergeStarts(), kNoMerge, memory);
}
