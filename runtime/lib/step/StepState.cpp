//===- StepState.cpp - what planners know of a step -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepState.h"

#include "step/BatchOrder.h"
#include "step/StepBounds.h"

#include <atomic>
#include <limits>

using namespace mlac::runtime;

StepState::StepState(const StepLimits &limits) : limits(limits), byPage(limits.pageSize) {
  requests.reserve(limits.maxRequests);
  places.reserve(limits.maxRequests);
  contextLens.reserve(limits.maxRequests);
  workRequests.reserve(limits.maxRequests);
  prompts.reserve(limits.hasPrompts ? limits.maxRequests : 0);
  if (limits.hasPrompts)
    promptParts.reserve(limits.promptCuts, limits.maxRequests, limits.maxTokens);
  contexts.reserve(limits.hasShared ? limits.maxRequests : 0);
  oldPages.reserve(static_cast<size_t>(limits.maxRequests) * limits.others.size());
  given.reserve(limits.others.size());
  DimValues largest = largestDims(limits, limits.maxRequests, 0, true);
  for (const WorkParams &params : limits.works)
    work.reserve(largestWork(limits, params, largest), limits.maxRequests);
}

void StepState::clear() {
  requests.clear();
  places.clear();
  source = StepSource::Sequences;
  hasDeviceTables = false;
  givenSlots = {};
  given.clear();
  oldPages.clear();
  for (size_t pool = 0; pool < limits.numPools(); ++pool)
    tableColumns[pool] = blockColumns(limits, pool);
  missingPages = {};
  dims = {};
  layout.external = {};
  chunks = {};
  workSizes = {};
  owners = {};
  mostPieceTokens = std::numeric_limits<int64_t>::max();
  promptParts.clear();
}

Status StepState::evaluate(const FunctionInfo &function, uint32_t expression, int64_t &value) {
  evaluator.bind(function.exprs);
  evaluator.update(dims, {});
  return evaluator.get(expression, value);
}

uint64_t mlac::runtime::nextStep() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

Status mlac::runtime::checkNumRequests(const StepLimits &limits, int64_t requests) {
  if (requests >= 1 && requests <= limits.maxRequests)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "batch of ", requests,
               " requests, expected 1 to max_num_requests = ", limits.maxRequests);
}

Status mlac::runtime::checkNumTokens(const StepLimits &limits, int64_t tokens) {
  if (tokens <= limits.maxTokens)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "batch of ", tokens,
               " tokens, limit max_num_tokens = ", limits.maxTokens);
}

mla_batch_split StepState::splitAt(int64_t decodeThreshold) const {
  return splitBatch(static_cast<int64_t>(requests.size()), decodeThreshold, /*isUniform=*/false,
                    [&](int64_t i) { return requests[static_cast<size_t>(i)].queryLen; });
}

void StepState::placeRun(int64_t first, int64_t count, int64_t room, int64_t row) {
  const StepRequest *request = requests.data() + first, *end = request + count;
  for (int64_t i = 0; i < room; ++i) {
    bool isTaken = request < end;
    places.push_back({isTaken ? request : nullptr, row});
    row += isTaken ? request++->queryLen : 0;
  }
}

std::span<const int32_t> StepState::pagesOf(const StepRequest &request, size_t pool) const {
  auto count = static_cast<size_t>(limits.pool(pool).pagesOf(request.seqLen()));
  if (pool == 0)
    return request.pages().first(count);
  if (request.sequence)
    return std::span(request.sequence->table(pool)).first(count);
  const mla_pool_table &table = given[pool - 1];
  return {table.block_table + (&request - requests.data()) * table.block_table_stride, count};
}

//===----------------------------------------------------------------------===//
// Batches of tables
//===----------------------------------------------------------------------===//

static Status checkLength(const StepLimits &limits, int64_t query, int64_t length, const char *what,
                          std::span<const int64_t> columns) {
  if (query < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", query, " is negative");
  if (length < query || length > limits.maxSeqLen)
    return error(MLA_INVALID_ARGUMENT, what, " ", length, ", expected ", query,
                 " (the query) to max_seq_len = ", limits.maxSeqLen);
  for (size_t pool = 0; pool < columns.size(); ++pool)
    if (int64_t pages = limits.pool(pool).pagesOf(length); pages > columns[pool])
      return error(MLA_INVALID_ARGUMENT, what, " ", length, " takes ", pages, " pages",
                   pool ? concat(" of pool ", pool) : "", ", block_table_stride is ",
                   columns[pool]);
  return Status();
}

Status mlac::runtime::takeLengths(StepState &state, int64_t count, const int32_t *queryLens,
                                  const int32_t *lengths, const char *what,
                                  std::span<const int64_t> columns) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t query = queryLens[i], length = lengths[i];
    MLAC_RETURN_IF_ERROR(
        checkLength(state.limits, query, length, what, columns).in(concat("request ", i)));
    state.requests.push_back({0, nullptr, query, length - query, 0, 0});
    tokens += query;
  }
  return checkNumTokens(state.limits, tokens);
}

Status mlac::runtime::takePoolTables(StepState &state, const mla_pool_table *tables, int64_t count,
                                     int64_t firstColumns) {
  auto expected = static_cast<int64_t>(state.limits.others.size());
  if (count != expected)
    return error(MLA_INVALID_ARGUMENT, "batch.num_pools = ", count, ", expected ", expected,
                 ": tables of the pools behind the first");
  if (count > 0 && !tables)
    return error(MLA_INVALID_ARGUMENT, "batch.pools is null");
  state.tableColumns[0] = firstColumns;
  for (int64_t i = 0; i < count; ++i) {
    state.given.push_back(tables[i]);
    state.tableColumns[static_cast<size_t>(i + 1)] = tables[i].block_table_stride;
  }
  return Status();
}
