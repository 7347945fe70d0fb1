//===- StepBatch.cpp - requests and tokens of a step ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The batch as it was given: its requests, their sizes, and the metadata that every step
// has. Sizes of the machine come with it.
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"

#include <algorithm>
#include <numeric>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Taking a batch
//===----------------------------------------------------------------------===//

static Status addRequest(StepState &state, KVCache &cache, mla_sequence id, int32_t queryLen) {
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  if (sequence->lastStep == state.step)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " occurs twice in the batch");
  if (queryLen < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", queryLen, " is negative");
  if (sequence->length + queryLen > state.limits.maxSeqLen)
    return error(MLA_INVALID_ARGUMENT, "seq_len ", sequence->length, " + ", queryLen,
                 " is over max_seq_len = ", state.limits.maxSeqLen,
                 " (positions of the rope table, pages of the block table)");
  sequence->lastStep = state.step;
  int64_t missing = 0;
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool) {
    int64_t ofPool = cache.missingPages(pool, *sequence, sequence->length + queryLen);
    missing += ofPool;
    // What the windows leave behind is given back before pages are taken.
    state.missingPages[pool] += ofPool - cache.countLeaving(pool, *sequence, sequence->length);
    if (pool > 0)
      state.oldPages.push_back(sequence->table(pool).size());
  }
  state.requests.push_back(
      {id, sequence, queryLen, sequence->length, missing, sequence->pages.size()});
  return Status();
}

Status mlac::runtime::takeBatch(StepState &state, KVCache &cache, const mla_batch &batch) {
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(state.limits, batch.num_requests));
  if (!batch.sequences || !batch.query_lens)
    return error(MLA_INVALID_ARGUMENT, "batch without ",
                 batch.sequences ? "query_lens" : "sequences");
  state.step = nextStep();
  int64_t numTokens = 0;
  for (int64_t i = 0; i < batch.num_requests; ++i) {
    Status status = addRequest(state, cache, batch.sequences[i], batch.query_lens[i]);
    if (!status.isOk())
      return status.in(concat("request ", i));
    numTokens += state.requests.back().queryLen;
  }
  return checkNumTokens(state.limits, numTokens);
}

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

Status mlac::runtime::measureMachine(StepState &state, const StepDemand &) {
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool) {
    PoolLimits limits = state.limits.pool(pool);
    state.dim(ofPool(Dim::NumPages, pool)) = limits.numPages;
    state.dim(ofPool(Dim::PageStride, pool)) = limits.pageStrideElements;
  }
  state.dim(Dim::RopeLength) = state.limits.ropeLength;
  state.dim(Dim::NumSms) = state.limits.numSms;
  return Status();
}

void mlac::runtime::countMachine(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  // Items taken, programs that have found none left, and two for each program
  // (lib/Conversion/TileToSm90/PingPong/PingPongKernel.h).
  elements(sizes, Metadata::ItemCounters) = 2 + 2 * at(dims, Dim::NumSms);
}

/// Every kernel leaves zeros behind, too.
void mlac::runtime::fillMachine(const StepState &state, const StepMemory &memory) {
  std::ranges::fill(arrayOf<int32_t>(state, Metadata::ItemCounters, memory), 0);
}

//===----------------------------------------------------------------------===//
// Batch
//===----------------------------------------------------------------------===//

/// Everything that launches may depend on is as for the longest requests.
static void setDeviceDims(StepState &state) {
  int64_t requests = state.dim(Dim::NumRequests), longest = state.limits.maxSeqLen;
  state.dim(Dim::MaxSeqLen) = state.dim(Dim::MaxContextLen) = longest;
  state.dim(Dim::TotalContextLen) = requests * longest;
  state.dim(Dim::AttendedPairs) = state.dim(Dim::NumTokens) * longest;
  state.dim(Dim::NumContextRequests) = requests;
}

Status mlac::runtime::measureBatch(StepState &state, const StepDemand &) {
  auto numRequests = static_cast<int64_t>(state.requests.size());
  for (size_t pool = 0; pool < state.limits.numPools(); ++pool)
    state.dim(ofPool(Dim::MaxBlocksPerRequest, pool)) = state.tableColumns[pool];
  state.dim(Dim::NumRequests) = numRequests;
  for (const StepRequest &request : state.requests) {
    int64_t query = request.queryLen, context = request.contextLen;
    state.dim(Dim::NumTokens) += query;
    state.raise(Dim::MaxQueryLen, query);
    state.raise(Dim::MaxSeqLen, request.seqLen());
    state.raise(Dim::MaxContextLen, context);
    state.dim(Dim::TotalContextLen) += context;
    state.dim(Dim::AttendedPairs) += query * context + query * (query + 1) / 2;
    state.dim(Dim::NumContextRequests) += context > 0;
  }
  if (state.isOnDevice())
    setDeviceDims(state);
  state.placeRun(0, numRequests, numRequests, 0);
  return Status();
}

void mlac::runtime::countBatch(const DimValues &dims, const WorkSizes &, ArraySizes &sizes) {
  int64_t requests = at(dims, Dim::NumRequests), tokens = at(dims, Dim::NumTokens);
  elements(sizes, Metadata::QueryStartLoc) = requests + 1;
  elements(sizes, Metadata::SeqLens) = requests;
  elements(sizes, Metadata::ContextLens) = requests;
  forPoolsOf(dims, [&](size_t pool, int64_t columns) {
    elements(sizes, ofPool(Metadata::BlockTable, pool)) = requests * columns;
    elements(sizes, ofPool(Metadata::SlotMapping, pool)) = tokens;
  });
  for (Metadata ofTokens : {Metadata::Positions, Metadata::ReqIdPerToken})
    elements(sizes, ofTokens) = tokens;
}

/// Page of a sequence that holds `position`. Nearly all sizes are powers of two.
static int64_t pageOf(const StepState &state, int64_t position) {
  return state.pageShift >= 0 ? position >> state.pageShift : position / state.limits.pageSize;
}

/// `used(request)`: its pages, without those reserved beyond seq_len, which stay hidden.
template <typename Used>
static void showBlocks(const StepState &state, DeviceMirror &mirror, TableRows &rows, Used used) {
  for (size_t i = 0; i < state.places.size(); ++i) {
    const StepRequest *request = state.places[i].request;
    if (!request)
      rows.show(mirror, i, 0, 0, {});
    else if (request->sequence)
      rows.show(mirror, i, request->id, request->sequence->edits, used(*request));
    else // the caller may have changed any entry since: the step's number was never shown
      rows.show(mirror, i, 0, state.step, used(*request));
  }
}

static void fillRequests(const StepState &state, const StepMemory &memory) {
  fillStarts(state, Metadata::QueryStartLoc, state.places, memory);
  int32_t *seqLens = arrayOf<int32_t>(state, Metadata::SeqLens, memory).data();
  int32_t *contexts = arrayOf<int32_t>(state, Metadata::ContextLens, memory).data();
  for (const StepPlace &place : state.places) {
    *seqLens++ = static_cast<int32_t>(place.seqLen());
    *contexts++ = static_cast<int32_t>(place.contextLen());
  }
}

/// The slots of a place's tokens, behind each other from `slots` on.
static void fillSlots(const StepState &state, const StepPlace &place, int64_t *slots) {
  std::span<const int32_t> pages = place.request->pages();
  for (int64_t position = place.contextLen(); position < place.seqLen(); ++position) {
    int64_t entry = pageOf(state, position);
    *slots++ = position + (pages[static_cast<size_t>(entry)] - entry) * state.limits.pageSize;
  }
}

/// The slots of a pool behind the first, of rows that the step's tokens complete.
static void fillPoolSlots(const StepState &state, size_t pool, const StepMemory &memory) {
  std::span slots = arrayOf<int64_t>(state, ofPool(Metadata::SlotMapping, pool), memory);
  if (state.isPadded()) // rows of no request
    std::ranges::fill(slots, -1);
  const int64_t *given = state.hasSequences() ? nullptr : state.given[pool - 1].slot_mapping;
  for (const StepPlace &place : state.places) {
    if (place.queryLen() == 0)
      continue;
    int64_t *to = slots.data() + place.firstRow;
    if (given) {
      std::copy_n(given, place.queryLen(), to);
      given += place.queryLen();
    } else {
      for (int64_t position = place.contextLen(); position < place.seqLen(); ++position)
        *to++ = memory.cache.slot(pool, *place.request->sequence, position);
    }
  }
}

static void fillTokens(const StepState &state, const StepMemory &memory) {
  std::span slots = arrayOf<int64_t>(state, Metadata::SlotMapping, memory);
  std::span positions = arrayOf<int64_t>(state, Metadata::Positions, memory);
  std::span owners = arrayOf<int32_t>(state, Metadata::ReqIdPerToken, memory);
  if (state.isPadded()) { // rows of no request
    std::ranges::fill(slots, -1);
    std::ranges::fill(positions, 0);
    std::ranges::fill(owners, 0);
  }
  std::span<const int64_t> given = state.givenSlots;
  for (size_t i = 0; i < state.places.size(); ++i) {
    const StepPlace &place = state.places[i];
    auto count = static_cast<size_t>(place.queryLen());
    if (count == 0)
      continue;
    std::fill_n(owners.begin() + place.firstRow, count, static_cast<int32_t>(i));
    if (state.isOnDevice())
      continue; // the caller has the others
    std::iota(positions.begin() + place.firstRow,
              positions.begin() + place.firstRow + place.queryLen(), place.contextLen());
    if (state.hasDeviceTables)
      continue;
    if (state.hasSequences()) {
      fillSlots(state, place, slots.data() + place.firstRow);
      continue;
    }
    std::ranges::copy(given.first(count), slots.begin() + place.firstRow);
    given = given.subspan(count);
  }
}

void mlac::runtime::fillBatch(const StepState &state, const StepMemory &memory) {
  if (!state.hasDeviceTables)
    showBlocks(state, memory.mirror, memory.rows[0], [&](const StepRequest &request) {
      int64_t used = pageOf(state, request.seqLen() + state.limits.pageSize - 1);
      return request.pages().first(static_cast<size_t>(used));
    });
  fillRequests(state, memory);
  fillTokens(state, memory);
  for (size_t pool = 1; pool < state.limits.numPools() && !state.hasDeviceTables; ++pool) {
    showBlocks(state, memory.mirror, memory.rows[pool],
               [&](const StepRequest &request) { return state.pagesOf(request, pool); });
    fillPoolSlots(state, pool, memory);
  }
}
