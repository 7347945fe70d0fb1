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

void mlac::runtime::setMostPrompts(DimValues &dims, int64_t workspaceTokens) {
  int64_t requests = at(dims, Dim::NumRequests);
  at(dims, Dim::NumPrompts) = requests;
  at(dims, Dim::NumPromptTokens) = at(dims, Dim::NumTokens);
  at(dims, Dim::NumPromptKeys) = std::min(workspaceTokens, requests * at(dims, Dim::MaxSeqLen));
  at(dims, Dim::MaxPieceQueryLen) = at(dims, Dim::MaxQueryLen);
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
}

void mlac::runtime::fillPrompts(const StepState &state, const StepMemory &memory) {
  if (state.dim(Dim::NumPrompts) == 0)
    return;
  int32_t *requests = arrayOf<int32_t>(state, Metadata::PromptRequests, memory).data();
  int32_t *starts = arrayOf<int32_t>(state, Metadata::PromptKeyLoc, memory).data();
  int64_t keys = 0; // below 2^31 where they are copied
  for (size_t i = 0; i < state.places.size(); ++i) {
    if (!state.isPrompt(state.places[i]))
      continue;
    *requests++ = static_cast<int32_t>(i);
    *starts++ = static_cast<int32_t>(keys);
    keys += state.places[i].seqLen();
  }
  *starts = static_cast<int32_t>(keys);
}
