//===- Planners.cpp - who makes which sizes and metadata -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"

using namespace mlac::runtime;
using mlac::step::Owner;

static bool isSplit(const StepDemand &demand) { return demand.decodeThreshold > 0; }
static bool isPadded(const StepDemand &demand) { return demand.shape != nullptr; }
static bool mayShare(const StepDemand &demand) { return demand.function.sharedTokens.has_value(); }
static bool usesChunks(const StepDemand &demand) { return demand.function.usesChunks; }
static bool gathersWhole(const StepDemand &demand) { return demand.function.gathersWhole; }
static bool hasPrompts(const StepDemand &demand) { return demand.function.prompts.has_value(); }
static bool isPartitioned(const StepDemand &demand) { return demand.function.work.has_value(); }

static constexpr Planner kPlanners[] = {
    {.owner = Owner::Machine,
     .needs = {},
     .rewrites = {},
     .isOf = nullptr,
     .measure = measureMachine,
     .count = countMachine,
     .fill = fillMachine},
    {.owner = Owner::Batch,
     .needs = {},
     .rewrites = {},
     .isOf = nullptr,
     .measure = measureBatch,
     .count = countBatch,
     .fill = fillBatch},
    {.owner = Owner::Parts,
     .needs = {},
     .rewrites = {},
     .isOf = isSplit,
     .measure = measureParts,
     .count = countParts,
     .fill = fillParts},
    {.owner = Owner::Padding,
     .needs = {Dim::MaxQueryLen, Dim::MaxSeqLen},
     .rewrites = DimSet(Owner::Batch) | Owner::Parts,
     .isOf = isPadded,
     .measure = measurePadding,
     .count = nullptr,
     .fill = nullptr},
    {.owner = Owner::Shared, // the package verifier: its expression names no others
     .needs = DimSet(Owner::Machine) | Owner::Batch | Owner::Parts | Owner::Padding,
     .rewrites = {},
     .isOf = mayShare,
     .measure = measureShared,
     .count = countShared,
     .fill = fillShared},
    {.owner = Owner::Chunks,
     .needs = {Dim::NumDecodes, Dim::IsPadded, Dim::MaxSeqLen},
     .rewrites = {},
     .isOf = usesChunks,
     .measure = measureChunks,
     .count = countChunks,
     .fill = fillChunks},
    {.owner = Owner::Gathers,
     .needs = {Dim::NumDecodes, Dim::IsPadded},
     .rewrites = {},
     .isOf = gathersWhole,
     .measure = measureGathers,
     .count = countGathers,
     .fill = fillGathers},
    {.owner = Owner::Prompts, // the package verifier: its expression names no others
     .needs = DimSet(Owner::Machine) | Owner::Batch | Owner::Padding,
     .rewrites = {},
     .isOf = hasPrompts,
     .measure = measurePrompts,
     .count = countPromptArrays,
     .fill = fillPrompts},
    {.owner = Owner::Work,
     .needs = {Dim::NumRequests, Dim::NumTokens, Dim::MaxQueryLen, Dim::MaxSeqLen, Dim::NumDecodes,
               Dim::NumDecodeTokens, Dim::MaxDecodeQueryLen, Dim::MaxDecodeSeqLen, Dim::IsPadded,
               Dim::NumSharedTokens, Dim::NumPrompts},
     .rewrites = {},
     .isOf = isPartitioned,
     .measure = measureWork,
     .count = countWork,
     .fill = fillWork},
};
static_assert(!findUnservedNeed(kPlanners),
              "a planner needs a size that a later one writes, or nobody");

std::span<const Planner> mlac::runtime::planners() { return kPlanners; }

void mlac::runtime::fillStarts(const StepState &state, Metadata which, StepPlaces places,
                               const StepMemory &memory) {
  int32_t *starts = arrayOf<int32_t>(state, which, memory).data();
  for (const StepPlace &place : places)
    *starts++ = static_cast<int32_t>(place.firstRow);
  int64_t end = places.empty() ? 0 : places.back().firstRow + places.back().queryLen();
  *starts = static_cast<int32_t>(end);
}
