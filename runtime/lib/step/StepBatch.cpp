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

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Taking a batch
//===----------------------------------------------------------------------===//

/// Why `sequence` with so many new tokens is refused. Named once already: by this batch.
static Status refuse(const StepState &state, KVCache &cache, mla_sequence id, int32_t queryLen) {
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  if (sequence->lastStep == state.step)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " occurs twice in the batch");
  if (queryLen < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", queryLen, " is negative");
  return error(MLA_INVALID_ARGUMENT, "seq_len ", sequence->length, " + ", queryLen,
               " is over max_seq_len = ", state.limits.maxSeqLen,
               " (positions of the rope table, pages of the block table)");
}

/// Pages that the sequence lacks of the pools behind the first. What the windows leave behind
/// is given back before pages are taken.
static int64_t countMissing(StepState &state, const KVCache &cache, const Sequence &sequence,
                            int64_t seqLen) {
  int64_t missing = 0;
  for (size_t pool = 1; pool < state.limits.numPools(); ++pool) {
    int64_t ofPool = cache.missingPages(pool, sequence, seqLen);
    missing += ofPool;
    state.missingPages[pool] += ofPool - cache.countLeaving(pool, sequence, sequence.length);
    state.oldPages.push_back(sequence.table(pool).size());
  }
  return missing;
}

Status mlac::runtime::takeBatch(StepState &state, KVCache &cache, const mla_batch &batch) {
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(state.limits, batch.num_requests));
  if (!batch.sequences || !batch.query_lens)
    return error(MLA_INVALID_ARGUMENT, "batch without ",
                 batch.sequences ? "query_lens" : "sequences");
  int64_t numTokens = 0, missingOfFirst = 0, maxSeqLen = state.limits.maxSeqLen;
  uint64_t step = state.step = nextStep();
  bool hasOthers = state.limits.numPools() > 1;
  for (int64_t i = 0; i < batch.num_requests; ++i) {
    mla_sequence id = batch.sequences[i];
    int32_t queryLen = batch.query_lens[i];
    Sequence *sequence = cache.findLive(id);
    if (!sequence || sequence->lastStep == step || queryLen < 0 ||
        sequence->length + queryLen > maxSeqLen)
      return refuse(state, cache, id, queryLen).in(concat("request ", i));
    sequence->lastStep = step;
    int64_t length = sequence->length;
    int64_t missing = cache.missingPages(*sequence, length + queryLen);
    missingOfFirst += missing;
    if (hasOthers)
      missing += countMissing(state, cache, *sequence, length + queryLen);
    state.requests.push_back({id, sequence, queryLen, length, missing, sequence->pages.size()});
    numTokens += queryLen;
  }
  state.missingPages[0] = missingOfFirst;
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
  int64_t tokens = 0, maxQuery = 0, maxSeq = 0, maxContext = 0, contexts = 0, pairs = 0, having = 0;
  for (const StepRequest &request : state.requests) {
    int64_t query = request.queryLen, context = request.contextLen;
    tokens += query;
    maxQuery = std::max(maxQuery, query);
    maxSeq = std::max(maxSeq, query + context);
    maxContext = std::max(maxContext, context);
    contexts += context;
    pairs += countPairs(query, context);
    having += context > 0;
  }
  state.dim(Dim::NumRequests) = numRequests;
  state.dim(Dim::NumTokens) = tokens;
  state.dim(Dim::MaxQueryLen) = maxQuery;
  state.dim(Dim::MaxSeqLen) = maxSeq;
  state.dim(Dim::MaxContextLen) = maxContext;
  state.dim(Dim::TotalContextLen) = contexts;
  state.dim(Dim::AttendedPairs) = pairs;
  state.dim(Dim::NumContextRequests) = having;
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

/// Of requests and of their tokens.
static void fillLengths(const StepState &state, const StepMemory &memory) {
  int32_t *seqLens = arrayOf<int32_t>(state, Metadata::SeqLens, memory).data();
  int32_t *contexts = arrayOf<int32_t>(state, Metadata::ContextLens, memory).data();
  std::span positions = arrayOf<int64_t>(state, Metadata::Positions, memory);
  std::span owners = arrayOf<int32_t>(state, Metadata::ReqIdPerToken, memory);
  if (state.isPadded()) { // rows of no request
    std::ranges::fill(positions, 0);
    std::ranges::fill(owners, 0);
  }
  bool hasPositions = !state.isOnDevice(); // else the caller has them
  for (size_t i = 0; i < state.places.size(); ++i) {
    const StepPlace &place = state.places[i];
    int64_t context = place.contextLen(), end = place.seqLen();
    seqLens[i] = static_cast<int32_t>(end);
    contexts[i] = static_cast<int32_t>(context);
    int64_t *position = positions.data() + place.firstRow;
    int32_t *owner = owners.data() + place.firstRow;
    for (int64_t value = context; value < end; ++value) {
      *owner++ = static_cast<int32_t>(i);
      if (hasPositions)
        *position++ = value;
    }
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

/// The slots of the first pool, which has a row of every token.
static void fillSlots(const StepState &state, const StepMemory &memory) {
  std::span slots = arrayOf<int64_t>(state, Metadata::SlotMapping, memory);
  if (state.isPadded()) // rows of no request
    std::ranges::fill(slots, -1);
  const int64_t *given = state.hasSequences() ? nullptr : state.givenSlots.data();
  for (const StepPlace &place : state.places) {
    if (place.queryLen() == 0)
      continue;
    int64_t *to = slots.data() + place.firstRow;
    if (given) {
      std::copy_n(given, place.queryLen(), to);
      given += place.queryLen();
      continue;
    }
    const int32_t *pages = place.request->sequence->pages.data();
    for (int64_t position = place.contextLen(); position < place.seqLen(); ++position) {
      int64_t entry = state.byPage(position);
      *to++ = position + (pages[entry] - entry) * state.limits.pageSize;
    }
  }
}

void mlac::runtime::fillBatch(const StepState &state, const StepMemory &memory) {
  fillStarts(state, Metadata::QueryStartLoc, state.places, memory);
  fillLengths(state, memory);
  if (state.hasDeviceTables)
    return;
  showBlocks(state, memory.mirror, memory.rows[0], [&](const StepRequest &request) {
    return request.pages().first(static_cast<size_t>(state.byPage.up(request.seqLen())));
  });
  fillSlots(state, memory);
  for (size_t pool = 1; pool < state.limits.numPools(); ++pool) {
    showBlocks(state, memory.mirror, memory.rows[pool],
               [&](const StepRequest &request) { return state.pagesOf(request, pool); });
    fillPoolSlots(state, pool, memory);
  }
}
