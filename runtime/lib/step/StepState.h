//===- StepState.h - what planners know of a step ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The batch of a step, its sizes so far, and what the planners keep from one step to the
// next so that planning allocates nothing.
//
// Requests stand in places. For a function that splits its batch, decodes stand before
// prefills; a padded step (mla_step_plan_padded) leaves places and rows empty:
//
//   places   | decodes | empty | prefills | empty |      D = num_decodes
//            0         nd      D                  B
//   rows     | tokens  | -1    | tokens   | -1    |      Dt = num_decode_tokens
//            0                 Dt                 T
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPSTATE_H
#define MLAC_RUNTIME_STEPSTATE_H

#include "cache/KVCache.h"
#include "package/Package.h"
#include "step/ChunkSchedule.h"
#include "step/GatherSchedule.h"
#include "step/SharedPrefix.h"
#include "step/StepLayout.h"
#include "step/WorkPlanner.h"

namespace mlac::runtime {

/// What a function and its caller ask of a step.
struct StepDemand {
  const FunctionInfo &function;
  /// Longest query of a decode; 0 if the batch is not split. A function for the decodes
  /// of another has that one's.
  int64_t decodeThreshold = 0;
  const mla_step_shape *shape = nullptr; // of a padded step
};

struct StepRequest {
  mla_sequence id;
  Sequence *sequence; // null where the pages are the caller's
  int64_t queryLen, contextLen;
  int64_t missingPages;                     // of all pools
  size_t oldPages;                          // of the first; StepState::oldPages has the others'
  std::span<const int32_t> givenPages = {}; // of the caller's table, where it is on the host
  int64_t seqLen() const { return contextLen + queryLen; }
  /// Of the first pool.
  std::span<const int32_t> pages() const { return sequence ? sequence->pages : givenPages; }
};

/// Who says where the tokens of a batch are.
enum class StepSource { Sequences, HostTables, DeviceTables };

/// Keys that the query's tokens see: each all of the context, and the query's up to its own.
inline int64_t countPairs(int64_t queryLen, int64_t contextLen) {
  return queryLen * contextLen + queryLen * (queryLen + 1) / 2;
}

/// Where a request stands; `request` is null where none does.
struct StepPlace {
  const StepRequest *request;
  int64_t firstRow;
  int64_t queryLen() const { return request ? request->queryLen : 0; }
  int64_t contextLen() const { return request ? request->contextLen : 0; }
  int64_t seqLen() const { return request ? request->seqLen() : 0; }
};
using StepPlaces = std::span<const StepPlace>;

struct StepState {
  explicit StepState(const StepLimits &limits);

  /// Before the next batch.
  void clear();

  StepLimits limits;
  Divider byPage; // of limits.pageSize

  // The batch (takeBatch, takeTableBatch, takeDeviceBatch).
  std::vector<StepRequest> requests;
  StepSource source = StepSource::Sequences;
  bool hasDeviceTables = false;                  // block tables and slots, the caller's
  std::span<const int64_t> givenSlots;           // of the caller's host tables, one a token
  std::vector<mla_pool_table> given;             // of the pools behind the first, on host or device
  std::array<int64_t, kMaxPools> tableColumns{}; // of each pool's block_table
  std::array<int64_t, kMaxPools> missingPages{};
  std::vector<size_t> oldPages; // [requests, pools behind the first], of sequences
  uint64_t step = 0;

  // What the planners have made of it.
  DimValues dims{};
  StepLayout layout;
  std::vector<StepPlace> places;
  mla_batch_split split{};

  // Of one planner each.
  std::vector<int32_t> contextLens; // of the places that run in chunks
  ChunkSchedule chunks;
  std::vector<GatheredRequest> gathered; // of the places that are gathered whole
  GatherSchedule gathers;
  std::vector<CachedContext> contexts; // of requests that may share a prefix
  Evaluator evaluator;
  int64_t mostPieceTokens; // new tokens of a request that is partitioned: others are prompts
  std::vector<Prompt> prompts;
  PromptParts promptParts;
  std::vector<WorkRequest> workRequests;
  WorkPlanner work;
  EnvelopePoints envelope;
  WorkSizes workSizes; // of the partition, or of any partition of a padded step

  bool has(step::Owner owner) const { return owners[static_cast<size_t>(owner)]; }
  void setHas(step::Owner owner) { owners[static_cast<size_t>(owner)] = true; }
  int64_t &dim(Dim which) { return at(dims, which); }
  int64_t dim(Dim which) const { return at(dims, which); }
  void raise(Dim which, int64_t value) { dim(which) = std::max(dim(which), value); }

  bool hasSequences() const { return source == StepSource::Sequences; }
  bool isOnDevice() const { return source == StepSource::DeviceTables; }
  bool isPadded() const { return dim(Dim::IsPadded) != 0; }
  /// Whether the sizes are those of any batch within the step's bounds.
  bool hasFixedSizes() const { return isPadded() || isOnDevice(); }
  mla_batch_split splitAt(int64_t decodeThreshold) const;
  /// The pages of a pool that `request` has on the host, at least those of its keys.
  std::span<const int32_t> pagesOf(const StepRequest &request, size_t pool) const;

  /// Requests [first, first + count) in the next `room` places, rows from `row` on.
  void placeRun(int64_t first, int64_t count, int64_t room, int64_t row);
  StepPlaces decodePlaces() const {
    return StepPlaces(places).first(static_cast<size_t>(dim(Dim::NumDecodes)));
  }
  StepPlaces prefillPlaces() const {
    return StepPlaces(places).subspan(static_cast<size_t>(dim(Dim::NumDecodes)));
  }
  bool isPrompt(const StepPlace &place) const { return place.queryLen() > mostPieceTokens; }
  /// Of an expression of the function, with the sizes that are known by now.
  Status evaluate(const FunctionInfo &function, uint32_t expression, int64_t &value);
  /// The places whose tokens are attended to in one piece of work.
  StepPlaces workPlaces() const { return has(step::Owner::Parts) ? decodePlaces() : places; }

private:
  std::array<bool, step::kNumOwners> owners{}; // that have planned
};

/// Steps of all planners are numbered, so that a stamp left by another plan of the engine
/// is never mistaken for a repetition.
uint64_t nextStep();

/// What every batch is held against.
Status checkNumRequests(const StepLimits &limits, int64_t requests);
Status checkNumTokens(const StepLimits &limits, int64_t tokens);

/// The requests of a caller's tables, whose block tables have so many `columns`. `lengths`:
/// keys after the step or bounds of them; messages call them `what`.
Status takeLengths(StepState &state, int64_t count, const int32_t *queryLens,
                   const int32_t *lengths, const char *what, std::span<const int64_t> columns);
/// Takes the tables of the pools behind the first, one each, and how many columns each has.
Status takePoolTables(StepState &state, const mla_pool_table *tables, int64_t count,
                      int64_t firstColumns);

/// Whether `data` can be an array of a batch.
Status checkArray(const std::string &name, const void *data, size_t alignment);
/// Block tables and slots on the device in the place of the plan's own; `pools` are those
/// behind the first. Error: names an array that is null or not aligned.
Status takeDeviceTables(StepState &state, const int32_t *table, const int64_t *slots,
                        std::span<const mla_pool_table> pools);

/// Makes `batch` the step's requests. Error: names what is wrong with it.
Status takeBatch(StepState &state, KVCache &cache, const mla_batch &batch);
/// A batch whose lengths the caller has on the host, table and slots there, too, or on the
/// device; what is on the host is read until the step is filled.
Status takeTableBatch(StepState &state, const mla_table_batch &batch);
/// A batch whose lengths, table and slots the caller has on the device.
Status takeDeviceBatch(StepState &state, const mla_device_batch &batch);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPSTATE_H
