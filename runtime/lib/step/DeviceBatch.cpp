//===- DeviceBatch.cpp - steps whose lengths the host does not know -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines that sample on the device know an upper bound of each length when they plan
// (mla.md section 10). Pieces of attention are made for the bounds; a kernel reads the
// length and leaves out what lies behind it, so a piece may turn out to be empty. What
// the caller has on the device is bound in the place of the plan's own arrays.
//
//===----------------------------------------------------------------------===//

#include "step/StepState.h"

#include <algorithm>

using namespace mlac::runtime;

static Status checkPointers(const mla_device_batch &batch) {
  const struct {
    const char *name;
    const void *data;
    size_t alignment; // 1: of the host
  } pointers[] = {{"query_lens", batch.query_lens, 1},
                  {"seq_len_bounds", batch.seq_len_bounds, 1},
                  {"seq_lens", batch.seq_lens, MLA_DATA_ALIGNMENT},
                  {"block_table", batch.block_table, MLA_DATA_ALIGNMENT},
                  {"slot_mapping", batch.slot_mapping, MLA_DATA_ALIGNMENT},
                  {"positions", batch.positions, MLA_DATA_ALIGNMENT}};
  for (const auto &[name, data, alignment] : pointers) {
    if (!data)
      return error(MLA_INVALID_ARGUMENT, "batch.", name, " is null");
    if (auto rest = reinterpret_cast<uintptr_t>(data) % alignment; rest != 0)
      return error(MLA_INVALID_ARGUMENT, "batch.", name, " is not aligned to ", alignment,
                   " bytes: address ends in ", rest);
  }
  return Status();
}

static Status checkBound(const StepLimits &limits, int64_t query, int64_t bound, int64_t stride) {
  if (query < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", query, " is negative");
  if (bound < query || bound > limits.maxSeqLen)
    return error(MLA_INVALID_ARGUMENT, "seq_len_bound ", bound, ", expected ", query,
                 " (the query) to max_seq_len = ", limits.maxSeqLen);
  if (int64_t pages = ceilDiv(bound, limits.pageSize); pages > stride)
    return error(MLA_INVALID_ARGUMENT, "seq_len_bound ", bound, " takes ", pages,
                 " pages, block_table_stride is ", stride);
  return Status();
}

/// In the place of the plan's own arrays.
static void bindArrays(const mla_device_batch &batch, StepLayout &layout) {
  auto bind = [&](Metadata which, const void *data) {
    layout.external[static_cast<size_t>(which)] = data;
  };
  bind(Metadata::SeqLens, batch.seq_lens);
  bind(Metadata::BlockTable, batch.block_table);
  bind(Metadata::SlotMapping, batch.slot_mapping);
  bind(Metadata::Positions, batch.positions);
}

Status mlac::runtime::takeDeviceBatch(StepState &state, const mla_device_batch &batch) {
  const StepLimits &limits = state.limits;
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(limits, batch.num_requests));
  MLAC_RETURN_IF_ERROR(checkPointers(batch));
  int64_t tokens = 0;
  for (int64_t i = 0; i < batch.num_requests; ++i) {
    int64_t query = batch.query_lens[i], bound = batch.seq_len_bounds[i];
    MLAC_RETURN_IF_ERROR(
        checkBound(limits, query, bound, batch.block_table_stride).in(concat("request ", i)));
    state.requests.push_back({0, nullptr, query, bound - query, 0, 0});
    tokens += query;
  }
  MLAC_RETURN_IF_ERROR(checkNumTokens(limits, tokens));
  state.source = StepSource::DeviceTables;
  state.tableColumns = batch.block_table_stride;
  bindArrays(batch, state.layout);
  return Status();
}
