//===- GatherSchedule.cpp - chunks of whole requests ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/GatherSchedule.h"

#include "step/Planners.h"

#include <algorithm>

using namespace mlac::runtime;

Status mlac::runtime::scheduleGathers(std::span<const GatheredRequest> requests,
                                      int64_t workspaceTokens, GatherSchedule &schedule) {
  schedule.firsts.clear();
  schedule.rows = schedule.tokens = 0;
  int64_t rows = 0, tokens = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto &[keys, newTokens] = requests[i];
    if (keys > workspaceTokens)
      return error(MLA_INVALID_ARGUMENT, "prefill ", i, " has ", keys,
                   " keys, which are gathered into a workspace of ", workspaceTokens,
                   " rows (workspace_tokens)");
    if (schedule.firsts.empty() || rows + keys > workspaceTokens) {
      schedule.firsts.push_back(static_cast<int32_t>(i));
      rows = tokens = 0;
    }
    rows += keys;
    tokens += newTokens;
    schedule.rows = std::max(schedule.rows, rows);
    schedule.tokens = std::max(schedule.tokens, tokens);
  }
  if (!schedule.firsts.empty())
    schedule.firsts.push_back(static_cast<int32_t>(requests.size()));
  return Status();
}

void mlac::runtime::fillGatherTables(std::span<const GatheredRequest> requests,
                                     const GatherSchedule &schedule, int32_t *ends,
                                     int32_t *starts) {
  for (int64_t chunk = 0; chunk < schedule.numChunks(); ++chunk) {
    auto first = static_cast<size_t>(schedule.firsts[static_cast<size_t>(chunk)]);
    auto last = static_cast<size_t>(schedule.firsts[static_cast<size_t>(chunk) + 1]);
    int64_t sum = 0;
    *ends++ = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (i >= first && i < last) {
        starts[i] = static_cast<int32_t>(sum);
        sum += requests[i].keys;
      }
      *ends++ = static_cast<int32_t>(sum);
    }
  }
}

void mlac::runtime::setLargestGathers(DimValues &dims, int64_t maxSeqLen, int64_t workspaceTokens) {
  int64_t requests = at(dims, Dim::NumRequests);
  at(dims, Dim::NumGathers) = requests;
  at(dims, Dim::GatherRows) = std::min(workspaceTokens, requests * maxSeqLen);
  at(dims, Dim::GatherTokens) = at(dims, Dim::NumTokens);
}

//===----------------------------------------------------------------------===//
// Of a step
//===----------------------------------------------------------------------===//

static StepPlaces gatheredPlaces(const StepState &state) {
  return state.has(mlac::step::Owner::Parts) ? state.prefillPlaces() : StepPlaces(state.places);
}

Status mlac::runtime::measureGathers(StepState &state, const StepDemand &demand) {
  StepPlaces places = gatheredPlaces(state);
  if (state.hasFixedSizes() && !places.empty())
    return error(
        MLA_UNSUPPORTED, "function '", demand.function.name,
        "' gathers prefills whole, of which the step may have ", places.size(),
        ": it needs their lengths, not bounds or a shape; plan prefills with mla_step_plan");
  state.gathered.clear();
  for (const StepPlace &place : places)
    state.gathered.push_back({place.queryLen() > 0 ? place.seqLen() : 0, place.queryLen()});
  GatherSchedule &gathers = state.gathers;
  MLAC_RETURN_IF_ERROR(scheduleGathers(state.gathered, state.limits.workspaceTokens, gathers));
  state.dim(Dim::NumGathers) = gathers.numChunks();
  state.dim(Dim::GatherRows) = gathers.rows;
  state.dim(Dim::GatherTokens) = gathers.tokens;
  return Status();
}

void mlac::runtime::countGathers(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t gathers = at(dims, Dim::NumGathers);
  if (gathers == 0)
    return;
  int64_t decodes = at(dims, Dim::NumDecodes), prefills = at(dims, Dim::NumPrefills);
  int64_t rows = decodes + prefills > 0 ? prefills : at(dims, Dim::NumRequests);
  elements(sizes, Metadata::GatherCuSeqLens) = gathers * (rows + 1);
  elements(sizes, Metadata::GatherStarts) = rows;
  elements(sizes, Metadata::GatherQueryLoc) = gathers + 1;
  elements(sizes, Metadata::GatherReqIdPerToken) = at(dims, Dim::NumTokens);
}

void mlac::runtime::fillGathers(const StepState &state, const StepMemory &memory) {
  auto array = [&](Metadata which) { return arrayOf<int32_t>(state, which, memory); };
  if (state.gathers.numChunks() == 0)
    return;
  fillGatherTables(state.gathered, state.gathers, array(Metadata::GatherCuSeqLens).data(),
                   array(Metadata::GatherStarts).data());
  StepPlaces places = gatheredPlaces(state);
  std::span owners = array(Metadata::GatherReqIdPerToken);
  std::ranges::fill(owners, -1);
  for (size_t i = 0; i < places.size(); ++i)
    std::fill_n(owners.begin() + places[i].firstRow, places[i].queryLen(), static_cast<int32_t>(i));
  int32_t *firstTokens = array(Metadata::GatherQueryLoc).data();
  for (int32_t first : state.gathers.firsts) {
    auto i = static_cast<size_t>(first);
    bool isEnd = i == places.size();
    const StepPlace &place = isEnd ? places.back() : places[i];
    *firstTokens++ = static_cast<int32_t>(place.firstRow + (isEnd ? place.queryLen() : 0));
  }
}
