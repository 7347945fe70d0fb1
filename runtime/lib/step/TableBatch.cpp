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
// where pages and slots come from differs (StepRequest::pages, StepState::givenSlots).
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

static Status checkLengths(const StepLimits &limits, int64_t query, int64_t length,
                           int64_t columns) {
  if (query < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", query, " is negative");
  if (length < query || length > limits.maxSeqLen)
    return error(MLA_INVALID_ARGUMENT, "seq_len ", length, ", expected ", query,
                 " (the query) to max_seq_len = ", limits.maxSeqLen);
  if (int64_t pages = ceilDiv(length, limits.pageSize); pages > columns)
    return error(MLA_INVALID_ARGUMENT, "seq_len ", length, " takes ", pages,
                 " pages, block_table_stride is ", columns);
  return Status();
}

static Status checkPages(const StepLimits &limits, std::span<const int32_t> pages) {
  for (size_t i = 0; i < pages.size(); ++i)
    if (pages[i] < 0 || pages[i] >= limits.numPages)
      return error(MLA_INVALID_ARGUMENT, "block_table entry ", i, " is page ", pages[i],
                   ", the pool has ", limits.numPages);
  return Status();
}

static Status takeSlots(StepState &state, const int64_t *slots, int64_t tokens) {
  if (tokens > 0 && !slots)
    return error(MLA_INVALID_ARGUMENT, "batch.slot_mapping is null");
  state.givenSlots = {slots, static_cast<size_t>(tokens)};
  int64_t end = state.limits.numPages * state.limits.pageSize;
  auto wrong = std::ranges::find_if(state.givenSlots, [&](int64_t slot) { return slot >= end; });
  if (wrong == state.givenSlots.end())
    return Status();
  return error(MLA_INVALID_ARGUMENT, "slot ", *wrong, " of token ",
               wrong - state.givenSlots.begin(), ", the pool has ", end);
}

Status mlac::runtime::takeTableBatch(StepState &state, const mla_table_batch &batch) {
  const StepLimits &limits = state.limits;
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(limits, batch.num_requests));
  MLAC_RETURN_IF_ERROR(checkPointers(batch));
  int64_t tokens = 0;
  for (int64_t i = 0; i < batch.num_requests; ++i) {
    int64_t query = batch.query_lens[i], length = batch.seq_lens[i];
    MLAC_RETURN_IF_ERROR(
        checkLengths(limits, query, length, batch.block_table_stride).in(concat("request ", i)));
    std::span pages(batch.block_table + i * batch.block_table_stride,
                    static_cast<size_t>(ceilDiv(length, limits.pageSize)));
    MLAC_RETURN_IF_ERROR(checkPages(limits, pages).in(concat("request ", i)));
    state.requests.push_back({0, nullptr, query, length - query, 0, 0, pages});
    tokens += query;
  }
  MLAC_RETURN_IF_ERROR(checkNumTokens(limits, tokens));
  state.source = StepSource::HostTables;
  state.step = nextStep();
  return takeSlots(state, batch.slot_mapping, tokens);
}
