//===- Prompts.cpp - requests apart from the partitioned work ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/Prompts.h"

#include "step/Planners.h"

#include <algorithm>

using namespace mlac::runtime;

// Rows of prompt_parts are i32.
static constexpr int64_t kPartFields = sizeof(PromptPart) / sizeof(int32_t);

void mlac::runtime::setMostPrompts(DimValues &dims, int64_t workspaceTokens,
                                   const PromptCuts &most) {
  int64_t requests = at(dims, Dim::NumRequests);
  at(dims, Dim::NumPrompts) = requests;
  at(dims, Dim::NumPromptTokens) = at(dims, Dim::NumTokens);
  at(dims, Dim::NumPromptKeys) = std::min(workspaceTokens, requests * at(dims, Dim::MaxSeqLen));
  at(dims, Dim::MaxPieceQueryLen) = at(dims, Dim::MaxQueryLen);
  at(dims, Dim::NumPromptParts) = boundPromptParts(most, requests, at(dims, Dim::NumTokens));
}

/// As if they were apart.
static void countPrompts(StepState &state, int64_t above) {
  int64_t keys = 0;
  for (const StepPlace &place : state.places) {
    if (place.queryLen() <= above) {
      state.raise(Dim::MaxPieceQueryLen, place.queryLen());
      continue;
    }
    ++state.dim(Dim::NumPrompts);
    state.dim(Dim::NumPromptTokens) += place.queryLen();
    keys += place.seqLen();
  }
  state.dim(Dim::NumPromptKeys) = keys <= state.limits.workspaceTokens ? keys : 0;
}

/// Those that are apart.
static void cutPrompts(StepState &state, const PromptParams &params) {
  int32_t firstCopy = 0; // counted where keys are copied: below 2^31 then
  bool copiesKeys = state.dim(Dim::NumPromptKeys) > 0;
  state.prompts.clear();
  for (size_t i = 0; i < state.places.size(); ++i) {
    const StepPlace &place = state.places[i];
    if (!state.isPrompt(place))
      continue;
    state.prompts.push_back({static_cast<int32_t>(i), static_cast<int32_t>(place.firstRow),
                             static_cast<int32_t>(place.queryLen()),
                             static_cast<int32_t>(place.contextLen()), firstCopy});
    firstCopy += copiesKeys ? static_cast<int32_t>(place.seqLen()) : 0;
  }
  state.promptParts.plan(params, state.prompts, state.limits.numSms);
  state.dim(Dim::NumPromptParts) = static_cast<int64_t>(state.promptParts.parts().size());
}

Status mlac::runtime::measurePrompts(StepState &state, const StepDemand &demand) {
  const FunctionInfo &function = demand.function;
  int64_t pays = 0;
  // Who runs a step of fixed sizes again may have other requests.
  if (!state.hasFixedSizes())
    countPrompts(state, function.prompts->above);
  if (state.dim(Dim::NumPrompts) > 0)
    MLAC_RETURN_IF_ERROR(state.evaluate(function, function.prompts->pays, pays).in("prompts"));
  if (pays != 0) {
    state.mostPieceTokens = function.prompts->above;
    cutPrompts(state, *function.prompts);
    return Status();
  }
  for (Dim none : {Dim::NumPrompts, Dim::NumPromptTokens, Dim::NumPromptKeys})
    state.dim(none) = 0;
  state.dim(Dim::MaxPieceQueryLen) = state.dim(Dim::MaxQueryLen);
  return Status();
}

void mlac::runtime::countPromptArrays(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t prompts = at(dims, Dim::NumPrompts);
  elements(sizes, Metadata::PromptRequests) = prompts;
  elements(sizes, Metadata::PromptKeyLoc) = prompts > 0 ? prompts + 1 : 0;
  elements(sizes, Metadata::PromptParts) = at(dims, Dim::NumPromptParts) * kPartFields;
}

void mlac::runtime::fillPrompts(const StepState &state, const StepMemory &memory) {
  if (state.dim(Dim::NumPrompts) == 0)
    return;
  int32_t *requests = arrayOf<int32_t>(state, Metadata::PromptRequests, memory).data();
  int32_t *starts = arrayOf<int32_t>(state, Metadata::PromptKeyLoc, memory).data();
  for (const Prompt &prompt : state.prompts) {
    *requests++ = prompt.request;
    *starts++ = prompt.firstCopy;
  }
  *starts = static_cast<int32_t>(state.dim(Dim::NumPromptKeys));
  std::ranges::copy(state.promptParts.parts(),
                    arrayOf<PromptPart>(state, Metadata::PromptParts, memory).begin());
}
