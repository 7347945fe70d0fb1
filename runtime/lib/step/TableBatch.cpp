//===- TableBatch.cpp - steps whose tables are the caller's -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines that manage pages themselves give a block table, lengths and slots instead of
// sequences. With exact lengths on the host a step is planned as for sequences; only
// where pages and slots come from differs (StepRequest::pages, StepState::givenSlots). On
// the device they are bound in the place of the plan's own (takeDeviceTables).
//
//===----------------------------------------------------------------------===//

#include "step/StepState.h"

#include <algorithm>

using namespace mlac::runtime;

static Status checkPointers(const mla_table_batch &batch) {
  const struct {
    const char *name;
    const void *data;
  } pointers[] = {{"query_lens", batch.query_lens},
                  {"seq_lens", batch.seq_lens},
                  {"block_table", batch.block_table}};
  for (const auto &[name, data] : pointers)
    if (!data)
      return error(MLA_INVALID_ARGUMENT, "batch.", name, " is null");
  return Status();
}

/// The pages that a request's queries see.
static Status checkPages(const PoolLimits &pool, const StepRequest &request,
                         std::span<const int32_t> pages) {
  for (auto i = static_cast<size_t>(pool.firstPageBehind(request.contextLen)); i < pages.size();
       ++i)
    if (pages[i] < 0 || pages[i] >= pool.numPages)
      return error(MLA_INVALID_ARGUMENT, "block_table entry ", i, " is page ", pages[i],
                   ", the pool has ", pool.numPages);
  return Status();
}

static Status checkSlots(const PoolLimits &pool, std::span<const int64_t> slots) {
  int64_t end = pool.numPages * pool.pageRows;
  auto wrong = std::ranges::find_if(slots, [&](int64_t slot) { return slot >= end; });
  if (wrong == slots.end())
    return Status();
  return error(MLA_INVALID_ARGUMENT, "slot ", *wrong, " of token ", wrong - slots.begin(),
               ", the pool has ", end);
}

static Status checkTable(const StepState &state, size_t pool, const int64_t *slots) {
  PoolLimits limits = state.limits.pool(pool);
  int64_t tokens = 0;
  for (size_t i = 0; i < state.requests.size(); ++i) {
    const StepRequest &request = state.requests[i];
    MLAC_RETURN_IF_ERROR(
        checkPages(limits, request, state.pagesOf(request, pool)).in(concat("request ", i)));
    tokens += request.queryLen;
  }
  if (tokens > 0 && !slots)
    return error(MLA_INVALID_ARGUMENT, "batch.slot_mapping is null");
  return checkSlots(limits, {slots, static_cast<size_t>(tokens)});
}

static Status checkPools(const StepState &state) {
  for (size_t pool = 1; pool < state.limits.numPools(); ++pool) {
    const mla_pool_table &table = state.given[pool - 1];
    if (!table.block_table)
      return error(MLA_INVALID_ARGUMENT, "batch.pools[", pool - 1, "].block_table is null");
    MLAC_RETURN_IF_ERROR(checkTable(state, pool, table.slot_mapping).in(concat("pool ", pool)));
  }
  return Status();
}

/// The caller's tables are shown in the engine's own, of its own width.
static Status takeHostTables(StepState &state, const mla_table_batch &batch) {
  size_t tokens = 0;
  for (StepRequest &request : state.requests) {
    auto pages = static_cast<size_t>(ceilDiv(request.seqLen(), state.limits.pageSize));
    request.givenPages = {
        batch.block_table + (&request - state.requests.data()) * batch.block_table_stride, pages};
    tokens += static_cast<size_t>(request.queryLen);
  }
  MLAC_RETURN_IF_ERROR(checkTable(state, 0, batch.slot_mapping));
  MLAC_RETURN_IF_ERROR(checkPools(state));
  state.givenSlots = {batch.slot_mapping, tokens};
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool)
    state.tableColumns[pool] = blockColumns(state.limits, pool);
  state.step = nextStep();
  return Status();
}

Status mlac::runtime::takeTableBatch(StepState &state, const mla_table_batch &batch) {
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(state.limits, batch.num_requests));
  MLAC_RETURN_IF_ERROR(checkPointers(batch));
  MLAC_RETURN_IF_ERROR(
      takePoolTables(state, batch.pools, batch.num_pools, batch.block_table_stride));
  MLAC_RETURN_IF_ERROR(takeLengths(state, batch.num_requests, batch.query_lens, batch.seq_lens,
                                   "seq_len",
                                   {state.tableColumns.data(), state.limits.numPools()}));
  state.source = StepSource::HostTables;
  if (batch.flags & MLA_TABLES_ON_DEVICE)
    return takeDeviceTables(state, batch.block_table, batch.slot_mapping, state.given);
  return takeHostTables(state, batch);
}
