//===- PaddedStep.cpp - the sizes of a shape, whatever the batch -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places and sizes of a padded step (StepState.h): those of a shape, which every batch
// within it shares, so that a captured step serves all of them.
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"

#include <algorithm>

using namespace mlac::runtime;

/// The batch against the shape, and the shape against the engine.
static Status checkShape(const StepState &state, const mla_step_shape &shape) {
  const StepLimits &limits = state.limits;
  const mla_batch_split &split = state.split;
  const struct {
    const char *name;
    int64_t value, low, high;
  } sizes[] = {
      {"num_requests", shape.num_requests, 1, limits.maxRequests},
      {"num_tokens", shape.num_tokens, 1, limits.maxTokens},
      {"max_query_len", shape.max_query_len, 1, limits.maxTokens},
      {"max_seq_len", shape.max_seq_len, 1, limits.maxSeqLen},
      {"num_decodes", shape.num_decodes, 0, shape.num_requests},
      {"num_decode_tokens", shape.num_decode_tokens, 0, shape.num_tokens},
      {"num_decodes", shape.num_decodes, split.num_decodes, limits.maxRequests},
      {"num_decode_tokens", shape.num_decode_tokens, split.num_decode_tokens, limits.maxTokens},
      {"num_requests", shape.num_requests, shape.num_decodes + split.num_prefills,
       limits.maxRequests},
      {"num_tokens", shape.num_tokens, shape.num_decode_tokens + split.num_prefill_tokens,
       limits.maxTokens},
      {"max_query_len", shape.max_query_len, state.dim(Dim::MaxQueryLen), limits.maxTokens},
      {"max_seq_len", shape.max_seq_len, state.dim(Dim::MaxSeqLen), limits.maxSeqLen}};
  for (const auto &size : sizes) {
    if (size.low > size.high) // by decodes of the shape and what else the batch has
      return error(MLA_INVALID_ARGUMENT, "shape.", size.name, " = ", size.value,
                   ": its decodes and the batch take ", size.low, ", limit ", size.high);
    if (size.value < size.low || size.value > size.high)
      return error(MLA_INVALID_ARGUMENT, "shape.", size.name, " = ", size.value, ", expected ",
                   size.low, " to ", size.high, " for this engine and batch");
  }
  return Status();
}

static void setPaddedDims(const mla_step_shape &shape, int64_t decodeThreshold, DimValues &dims) {
  int64_t prefills = shape.num_requests - shape.num_decodes;
  const std::pair<Dim, int64_t> sizes[] = {
      {Dim::IsPadded, 1},
      {Dim::NumTokens, shape.num_tokens},
      {Dim::NumRequests, shape.num_requests},
      {Dim::MaxQueryLen, shape.max_query_len},
      {Dim::MaxSeqLen, shape.max_seq_len},
      {Dim::MaxContextLen, shape.max_seq_len},
      {Dim::TotalContextLen, shape.num_requests * shape.max_seq_len},
      {Dim::AttendedPairs, shape.num_tokens * shape.max_seq_len},
      {Dim::NumContextRequests, shape.num_requests},
      {Dim::NumDecodes, shape.num_decodes},
      {Dim::NumPrefills, prefills},
      {Dim::NumDecodeTokens, shape.num_decode_tokens},
      {Dim::NumPrefillTokens, shape.num_tokens - shape.num_decode_tokens},
      {Dim::NumPrefillRows, prefills > 0 ? shape.num_tokens : 0},
      {Dim::MaxDecodeQueryLen, std::min(decodeThreshold, shape.num_decode_tokens)},
      {Dim::MaxDecodeSeqLen, shape.max_seq_len},
      {Dim::MaxPrefillQueryLen, shape.max_query_len},
      {Dim::PrefillContextLen, prefills * shape.max_seq_len},
      {Dim::PrefillAttendedPairs,
       (shape.num_tokens - shape.num_decode_tokens) * shape.max_seq_len}};
  for (auto [dim, value] : sizes)
    at(dims, dim) = value;
}

Status mlac::runtime::measurePadding(StepState &state, const StepDemand &demand) {
  const mla_step_shape &shape = *demand.shape;
  const mla_batch_split &split = state.split;
  MLAC_RETURN_IF_ERROR(checkShape(state, shape));
  setPaddedDims(shape, demand.decodeThreshold, state.dims);
  state.places.clear();
  state.placeRun(0, split.num_decodes, shape.num_decodes, 0);
  state.placeRun(split.num_decodes, split.num_prefills, shape.num_requests - shape.num_decodes,
                 shape.num_decode_tokens);
  return Status();
}
