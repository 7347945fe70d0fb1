//===- StepPlanner.cpp - sizes and metadata of a step -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepPlanner.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace mlac::runtime;

// Rows of work_items and merge_items are i32.
static constexpr int64_t kItemFields = sizeof(WorkItem) / sizeof(int32_t);
static constexpr int64_t kMergeFields = sizeof(MergeItem) / sizeof(int32_t);

//===----------------------------------------------------------------------===//
// Chunks of context
//===----------------------------------------------------------------------===//

/// Tokens of a context that fall into chunk `chunk`.
static int64_t chunkLength(int64_t contextLen, int64_t chunk, int64_t capacity) {
  return std::clamp<int64_t>(contextLen - chunk * capacity, 0, capacity);
}

Status mlac::runtime::scheduleChunks(std::span<const int32_t> contextLens, int64_t workspaceTokens,
                                     int64_t pageSize, ChunkSchedule &schedule) {
  schedule = {};
  int64_t longest = 0;
  for (int32_t length : contextLens) {
    schedule.numContext += length > 0;
    longest = std::max<int64_t>(longest, length);
  }
  int64_t sharers = std::max<int64_t>(schedule.numContext, 1);
  schedule.capacity = roundDown(workspaceTokens / sharers, pageSize);
  if (schedule.numContext == 0)
    return Status();
  if (schedule.capacity == 0)
    return error(MLA_INVALID_ARGUMENT, "workspace_tokens = ", workspaceTokens,
                 " is smaller than one page (", pageSize, " tokens) for each of ",
                 schedule.numContext, " requests with context");
  schedule.numChunks = ceilDiv(longest, schedule.capacity);
  for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
    int64_t total = 0;
    for (int32_t length : contextLens)
      total += chunkLength(length, chunk, schedule.capacity);
    schedule.chunkTokens = std::max(schedule.chunkTokens, total);
  }
  return Status();
}

void mlac::runtime::fillChunkTable(std::span<const int32_t> contextLens,
                                   const ChunkSchedule &schedule, int32_t *table) {
  for (int64_t chunk = 0; chunk < schedule.numChunks; ++chunk) {
    int64_t sum = 0;
    *table++ = 0;
    for (int32_t length : contextLens) {
      sum += chunkLength(length, chunk, schedule.capacity);
      *table++ = static_cast<int32_t>(sum);
    }
  }
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

StepPlanner::StepPlanner(const StepLimits &limits) : limits(limits) {
  requests.reserve(limits.maxRequests);
  contextLens.reserve(limits.maxRequests);
  workRequests.reserve(limits.maxRequests);
  DimValues largest = largestDims(limits.maxRequests, 0, true);
  for (const WorkParams &work : limits.works)
    planner.reserve(largestWork(work, largest), limits.maxRequests);
}

/// Steps of all planners are numbered, so that a stamp left by another plan of
/// the engine is never mistaken for a repetition.
static uint64_t nextStep() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

/// Columns of block_table: every page in use, and one column more so that each
/// row ends in an entry that must not be read.
static int64_t blockColumns(int64_t seqLen, int64_t pageSize) {
  return ceilDiv(seqLen, pageSize) + 1;
}

Status StepPlanner::addRequest(KVCache &cache, mla_sequence id, int32_t queryLen) {
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  if (sequence->lastStep == step)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " occurs twice in the batch");
  if (queryLen < 0)
    return error(MLA_INVALID_ARGUMENT, "query length ", queryLen, " is negative");
  if (sequence->length + queryLen > limits.maxSeqLen)
    return error(MLA_INVALID_ARGUMENT, "seq_len ", sequence->length, " + ", queryLen,
                 " is over max_seq_len = ", limits.maxSeqLen,
                 " (positions of the rope table, pages of the block table)");
  sequence->lastStep = step;
  requests.push_back({sequence, queryLen, sequence->length, sequence->pages.size()});
  contextLens.push_back(static_cast<int32_t>(sequence->length));
  return Status();
}

Status StepPlanner::measure(KVCache &cache, const mla_batch &batch) {
  requests.clear();
  contextLens.clear();
  if (batch.num_requests < 1 || batch.num_requests > limits.maxRequests)
    return error(MLA_INVALID_ARGUMENT, "batch of ", batch.num_requests,
                 " requests, expected 1 to max_num_requests = ", limits.maxRequests);
  if (!batch.sequences || !batch.query_lens)
    return error(MLA_INVALID_ARGUMENT, "batch without ",
                 batch.sequences ? "query_lens" : "sequences");
  step = nextStep();
  missingPages = 0;
  int64_t numTokens = 0;
  for (int64_t i = 0; i < batch.num_requests; ++i) {
    MLAC_RETURN_IF_ERROR(
        addRequest(cache, batch.sequences[i], batch.query_lens[i]).in(concat("request ", i)));
    const Request &request = requests.back();
    numTokens += request.queryLen;
    missingPages += cache.missingPages(*request.sequence, request.seqLen());
  }
  if (numTokens > limits.maxTokens)
    return error(MLA_INVALID_ARGUMENT, "batch of ", numTokens,
                 " tokens, limit max_num_tokens = ", limits.maxTokens);
  sumDims();
  chunks = {};
  hasWork = false;
  computeLayout();
  return Status();
}

DimValues StepPlanner::staticDims() const {
  DimValues dims{};
  at(dims, Dim::NumPages) = limits.numPages;
  at(dims, Dim::PageStride) = limits.pageStrideElements;
  at(dims, Dim::RopeLength) = limits.ropeLength;
  at(dims, Dim::NumSms) = limits.numSms;
  return dims;
}

void StepPlanner::sumDims() {
  dims_ = staticDims();
  at(dims_, Dim::NumRequests) = static_cast<int64_t>(requests.size());
  auto raise = [&](Dim dim, int64_t value) { at(dims_, dim) = std::max(at(dims_, dim), value); };
  for (const Request &request : requests) {
    int64_t query = request.queryLen, context = request.contextLen;
    at(dims_, Dim::NumTokens) += query;
    raise(Dim::MaxQueryLen, query);
    raise(Dim::MaxSeqLen, request.seqLen());
    raise(Dim::MaxContextLen, context);
    at(dims_, Dim::TotalContextLen) += context;
    at(dims_, Dim::AttendedPairs) += query * context + query * (query + 1) / 2;
    at(dims_, Dim::NumContextRequests) += context > 0;
  }
  at(dims_, Dim::MaxBlocksPerRequest) = blockColumns(at(dims_, Dim::MaxSeqLen), limits.pageSize);
}

static void setChunkDims(DimValues &dims, const ChunkSchedule &chunks) {
  at(dims, Dim::NumChunks) = chunks.numChunks;
  at(dims, Dim::ChunkCapacity) = chunks.capacity;
  at(dims, Dim::ChunkTokens) = chunks.chunkTokens;
}

Status StepPlanner::measureChunks() {
  MLAC_RETURN_IF_ERROR(
      scheduleChunks(contextLens, limits.workspaceTokens, limits.pageSize, chunks));
  setChunkDims(dims_, chunks);
  computeLayout();
  return Status();
}

static void setWorkDims(DimValues &dims, const WorkSizes &work) {
  at(dims, Dim::NumParts) = work.parts;
  at(dims, Dim::NumPartials) = work.partials;
  at(dims, Dim::PartialTokens) = work.partialTokens;
  at(dims, Dim::NumMerges) = work.merges;
  at(dims, Dim::MaxPartials) = work.maxPartials;
}

void StepPlanner::measureWork(const WorkParams &params) {
  workRequests.clear();
  int32_t token = 0;
  for (const Request &request : requests) {
    auto query = static_cast<int32_t>(request.queryLen);
    workRequests.push_back({static_cast<int32_t>(request.seqLen()), token, query});
    token += query;
  }
  planner.plan(params, workRequests, limits.numSms);
  hasWork = true;
  setWorkDims(dims_, planner.sizes());
  computeLayout();
}

/// `work`: all zero if the function has none.
static void layOut(const DimValues &dims, const WorkSizes &work, StepLayout &layout) {
  int64_t requests = at(dims, Dim::NumRequests);
  int64_t tokens = at(dims, Dim::NumTokens);
  const std::array<int64_t, kNumMetadata> elements = {requests + 1,
                                                      requests,
                                                      requests,
                                                      requests * at(dims, Dim::MaxBlocksPerRequest),
                                                      tokens,
                                                      tokens,
                                                      at(dims, Dim::NumChunks) * (requests + 1),
                                                      work.parts > 0 ? work.parts + 1 : 0,
                                                      work.items * kItemFields,
                                                      work.merges * kMergeFields};
  layout.bytes = 0;
  for (size_t i = 0; i < kNumMetadata; ++i) {
    layout.arrays[i] = {layout.bytes, elements[i]};
    int64_t bytes = elements[i] * elementBytes(metadataType(static_cast<Metadata>(i)));
    layout.bytes += roundUp(bytes, kBufferAlignment);
  }
}

void StepPlanner::computeLayout() {
  layOut(dims_, hasWork ? planner.sizes() : WorkSizes(), layout_);
}

int64_t StepPlanner::maxBytes() const {
  DimValues dims = largestDims(limits.maxRequests, 0, true);
  StepLayout layout;
  layOut(dims, WorkSizes(), layout);
  int64_t bytes = layout.bytes;
  for (const WorkParams &work : limits.works) {
    layOut(dims, largestWork(work, dims), layout);
    bytes = std::max(bytes, layout.bytes);
  }
  return bytes;
}

WorkSizes StepPlanner::largestWork(const WorkParams &params, const DimValues &dims) const {
  return boundWork(params, {at(dims, Dim::NumRequests), at(dims, Dim::NumTokens),
                            at(dims, Dim::MaxQueryLen), at(dims, Dim::MaxSeqLen), limits.numSms});
}

DimValues StepPlanner::largestDims(int64_t numRequests, int64_t maxQueryLen, bool hasContext,
                                   const std::optional<WorkParams> &work) const {
  DimValues dims = staticDims();
  int64_t tokens = limits.maxTokens;
  if (maxQueryLen > 0)
    tokens = std::min(tokens, numRequests * maxQueryLen);
  int64_t longestQuery = std::min(tokens, limits.maxSeqLen);
  if (maxQueryLen > 0)
    longestQuery = std::min(longestQuery, maxQueryLen);
  int64_t context = hasContext ? limits.maxSeqLen : 0;
  at(dims, Dim::NumTokens) = tokens;
  at(dims, Dim::NumRequests) = numRequests;
  at(dims, Dim::MaxQueryLen) = longestQuery;
  at(dims, Dim::MaxSeqLen) = hasContext ? limits.maxSeqLen : longestQuery;
  at(dims, Dim::MaxContextLen) = context;
  at(dims, Dim::TotalContextLen) = numRequests * context;
  at(dims, Dim::AttendedPairs) = tokens * std::max<int64_t>(limits.maxSeqLen, 1);
  at(dims, Dim::NumContextRequests) = hasContext ? numRequests : 0;
  at(dims, Dim::MaxBlocksPerRequest) = blockColumns(limits.maxSeqLen, limits.pageSize);
  ChunkSchedule chunks;
  // With a workspace below a page per request, steps of so many requests with
  // context are refused: size for chunks of one page.
  chunks.capacity =
      std::max(roundDown(limits.workspaceTokens / numRequests, limits.pageSize), limits.pageSize);
  if (hasContext) {
    chunks.numContext = numRequests;
    chunks.numChunks = ceilDiv(limits.maxSeqLen, chunks.capacity);
    chunks.chunkTokens = std::min(limits.workspaceTokens, numRequests * chunks.capacity);
  }
  setChunkDims(dims, chunks);
  if (work)
    setWorkDims(dims, largestWork(*work, dims));
  return dims;
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

bool StepPlanner::hasPages(const KVCache &cache) const {
  // New sequences leave the watermark to those that run.
  bool admits = std::any_of(requests.begin(), requests.end(), [](const Request &request) {
    return request.sequence->pages.empty() && request.queryLen > 0;
  });
  int64_t kept = admits ? cache.spec().watermark : 0;
  return missingPages == 0 || missingPages <= cache.pool().numFree() - kept;
}

template <typename T>
static T *arrayOf(const StepLayout &layout, Metadata metadata, uint8_t *bytes) {
  return reinterpret_cast<T *>(bytes + layout.arrays[static_cast<size_t>(metadata)].offset);
}

void StepPlanner::fillRequests(uint8_t *bytes) const {
  auto *starts = arrayOf<int32_t>(layout_, Metadata::QueryStartLoc, bytes);
  auto *seqLens = arrayOf<int32_t>(layout_, Metadata::SeqLens, bytes);
  auto *contexts = arrayOf<int32_t>(layout_, Metadata::ContextLens, bytes);
  auto *blocks = arrayOf<int32_t>(layout_, Metadata::BlockTable, bytes);
  int64_t columns = at(dims_, Dim::MaxBlocksPerRequest);
  starts[0] = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request &request = requests[i];
    starts[i + 1] = starts[i] + static_cast<int32_t>(request.queryLen);
    seqLens[i] = static_cast<int32_t>(request.seqLen());
    contexts[i] = static_cast<int32_t>(request.contextLen);
    // Reserved pages beyond seq_len stay hidden from the kernels.
    int64_t used = ceilDiv(request.seqLen(), limits.pageSize);
    int32_t *row = blocks + static_cast<int64_t>(i) * columns;
    std::copy_n(request.sequence->pages.begin(), used, row);
    std::fill(row + used, row + columns, kUnusedPage);
  }
}

void StepPlanner::fillTokens(uint8_t *bytes) const {
  auto *slots = arrayOf<int64_t>(layout_, Metadata::SlotMapping, bytes);
  auto *positions = arrayOf<int64_t>(layout_, Metadata::Positions, bytes);
  for (const Request &request : requests) {
    for (int64_t position = request.contextLen; position < request.seqLen(); ++position) {
      int64_t page = request.sequence->pages[position / limits.pageSize];
      *slots++ = page * limits.pageSize + position % limits.pageSize;
      *positions++ = position;
    }
  }
}

void StepPlanner::fillWork(uint8_t *bytes) const {
  auto copy = [&](auto rows, Metadata which) {
    if (!rows.empty())
      std::memcpy(arrayOf<uint8_t>(layout_, which, bytes), rows.data(), rows.size_bytes());
  };
  copy(planner.starts(), Metadata::WorkStarts);
  copy(planner.items(), Metadata::WorkItems);
  copy(planner.merges(), Metadata::MergeItems);
}

void StepPlanner::fill(KVCache &cache, uint8_t *bytes) {
  for (const Request &request : requests) {
    // Cannot fail: lengths were checked by measure, pages by hasPages.
    (void)cache.reserve(*request.sequence, request.seqLen());
    request.sequence->length = request.seqLen();
  }
  fillRequests(bytes);
  fillTokens(bytes);
  fillChunkTable(contextLens, chunks, arrayOf<int32_t>(layout_, Metadata::ChunkCuSeqLens, bytes));
  if (hasWork)
    fillWork(bytes);
}

void StepPlanner::rollback(KVCache &cache) {
  // In reverse, so that the pool's free list becomes what it was.
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    request->sequence->length = request->contextLen;
    cache.shrink(*request->sequence, static_cast<int64_t>(request->oldPages));
  }
}
