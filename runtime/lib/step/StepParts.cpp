//===- StepParts.cpp - decodes and prefills of a step -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For a function that splits its batch, chunks and their tables are those of the prefills
// only and a partition is that of the decodes:
//
//   requests              | decodes 0 .. nd-1 | prefills nd .. B-1 |
//   block_table             whole batch: decodes are its first rows
//   decode_query_start_loc  nd + 1 entries
//   prefill_block_table                         the table's rows from nd on
//   prefill_query_start_loc                     of rows of the whole batch
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"

#include <algorithm>
#include <numeric>

using namespace mlac::runtime;

Status mlac::runtime::measureParts(StepState &state, const StepDemand &demand) {
  const mla_batch_split &split = state.split = state.splitAt(demand.decodeThreshold);
  state.dim(Dim::NumDecodes) = split.num_decodes;
  state.dim(Dim::NumPrefills) = split.num_prefills;
  state.dim(Dim::NumDecodeTokens) = split.num_decode_tokens;
  state.dim(Dim::NumPrefillTokens) = split.num_prefill_tokens;
  state.dim(Dim::NumPrefillRows) =
      split.num_prefills > 0 ? split.num_decode_tokens + split.num_prefill_tokens : 0;
  for (const StepPlace &place : state.decodePlaces()) {
    state.raise(Dim::MaxDecodeQueryLen, place.queryLen());
    state.raise(Dim::MaxDecodeSeqLen, place.seqLen());
  }
  for (const StepPlace &place : state.prefillPlaces()) {
    state.raise(Dim::MaxPrefillQueryLen, place.queryLen());
    state.dim(Dim::PrefillContextLen) += place.contextLen();
    state.dim(Dim::PrefillAttendedPairs) += countPairs(place.queryLen(), place.contextLen());
  }
  return Status();
}

void mlac::runtime::countParts(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t decodes = at(dims, Dim::NumDecodes), prefills = at(dims, Dim::NumPrefills);
  if (decodes + prefills == 0) // not split: there are requests
    return;
  elements(sizes, Metadata::OutputRows) = at(dims, Dim::NumTokens);
  elements(sizes, Metadata::DecodeQueryStartLoc) = decodes + 1;
  elements(sizes, Metadata::PrefillQueryStartLoc) = prefills + 1;
  forPoolsOf(dims, [&](size_t pool, int64_t columns) {
    elements(sizes, ofPool(Metadata::PrefillBlockTable, pool)) = prefills * columns;
  });
}

void mlac::runtime::fillParts(const StepState &state, const StepMemory &memory) {
  fillStarts(state, Metadata::DecodeQueryStartLoc, state.decodePlaces(), memory);
  fillStarts(state, Metadata::PrefillQueryStartLoc, state.prefillPlaces(), memory);
  std::span rows = arrayOf<int64_t>(state, Metadata::OutputRows, memory);
  if (state.isPadded()) // rows of no request
    std::ranges::fill(rows, -1);
  for (const StepPlace &place : state.places) {
    auto first = rows.begin() + place.firstRow;
    std::iota(first, first + place.queryLen(), place.firstRow);
  }
}
