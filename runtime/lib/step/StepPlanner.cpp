//===- StepPlanner.cpp - sizes and metadata of a step -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

using namespace mlac::runtime;

/// Of `item_counters`: items taken, programs that have found none left, and one for each
/// program (lib/Conversion/TileToSm90/Schedules/PingPongKernel.h).
static int64_t countItemCounters(const DimValues &dims) { return 2 + 2 * at(dims, Dim::NumSms); }

// Rows of work_items, merge_items and merge_starts are i32.
static constexpr int64_t kItemFields = sizeof(WorkItem) / sizeof(int32_t);
static constexpr int64_t kMergeFields = sizeof(MergeItem) / sizeof(int32_t);
static constexpr int64_t kMergeStartFields = sizeof(MergeStart) / sizeof(int32_t);

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

StepPlanner::StepPlanner(const StepLimits &limits)
    : limits(limits), pageShift(std::has_single_bit(static_cast<uint64_t>(limits.pageSize))
                                    ? std::countr_zero(static_cast<uint64_t>(limits.pageSize))
                                    : -1) {
  requests.reserve(limits.maxRequests);
  places.reserve(limits.maxRequests);
  contextLens.reserve(limits.maxRequests);
  workRequests.reserve(limits.maxRequests);
  contexts.reserve(limits.hasShared ? limits.maxRequests : 0);
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

/// Columns of block_table: the pages of the longest sequence, and an entry that must not
/// be read at the end. Rows stay where they are, and begin where any buffer may.
static int64_t blockColumns(const StepLimits &limits) {
  constexpr int64_t kRowAlignment = MLA_DATA_ALIGNMENT / sizeof(int32_t);
  return roundUp(ceilDiv(limits.maxSeqLen, limits.pageSize) + 1, kRowAlignment);
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
  int64_t missing = cache.missingPages(*sequence, sequence->length + queryLen);
  requests.push_back({id, sequence, queryLen, sequence->length, missing, sequence->pages.size()});
  return Status();
}

Status StepPlanner::measure(KVCache &cache, const mla_batch &batch) {
  requests.clear();
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
    Status status = addRequest(cache, batch.sequences[i], batch.query_lens[i]);
    if (!status.isOk())
      return status.in(concat("request ", i));
    numTokens += requests.back().queryLen;
    missingPages += requests.back().missingPages;
  }
  if (numTokens > limits.maxTokens)
    return error(MLA_INVALID_ARGUMENT, "batch of ", numTokens,
                 " tokens, limit max_num_tokens = ", limits.maxTokens);
  sumDims();
  chunks = {};
  hasWork = false;
  hasParts = false;
  isPadded = isOnDevice = false;
  layout_.external = {};
  placeRequests();
  computeLayout();
  return Status();
}

void StepPlanner::placeRun(int64_t first, int64_t count, int64_t room, int64_t row) {
  for (int64_t i = 0; i < room; ++i) {
    const Request *request = i < count ? &requests[static_cast<size_t>(first + i)] : nullptr;
    places.push_back({request, row});
    row += places.back().queryLen();
  }
}

void StepPlanner::placeRequests() {
  places.clear();
  auto count = static_cast<int64_t>(requests.size());
  placeRun(0, count, count, 0);
}

std::span<const StepPlanner::Place> StepPlanner::decodePlaces() const {
  return std::span(places).first(static_cast<size_t>(numDecodePlaces));
}

std::span<const StepPlanner::Place> StepPlanner::prefillPlaces() const {
  return std::span(places).subspan(static_cast<size_t>(numDecodePlaces));
}

mla_batch_split StepPlanner::splitAt(int64_t decodeThreshold) const {
  return splitBatch(static_cast<int64_t>(requests.size()), decodeThreshold, /*isUniform=*/false,
                    [&](int64_t i) { return requests[static_cast<size_t>(i)].queryLen; });
}

bool StepPlanner::isMixed(int64_t decodeThreshold) const {
  mla_batch_split parts = splitAt(decodeThreshold);
  return parts.num_decodes > 0 && parts.num_prefills > 0;
}

void StepPlanner::measureParts(int64_t decodeThreshold) {
  split = splitAt(decodeThreshold);
  hasParts = true;
  numDecodePlaces = split.num_decodes;
  at(dims_, Dim::NumDecodes) = split.num_decodes;
  at(dims_, Dim::NumPrefills) = split.num_prefills;
  at(dims_, Dim::NumDecodeTokens) = split.num_decode_tokens;
  at(dims_, Dim::NumPrefillTokens) = split.num_prefill_tokens;
  at(dims_, Dim::NumPrefillRows) = split.num_prefills > 0 ? at(dims_, Dim::NumTokens) : 0;
  auto raise = [&](Dim dim, int64_t value) { at(dims_, dim) = std::max(at(dims_, dim), value); };
  for (const Place &place : decodePlaces()) {
    raise(Dim::MaxDecodeQueryLen, place.queryLen());
    raise(Dim::MaxDecodeSeqLen, place.seqLen());
  }
  for (const Place &place : prefillPlaces())
    raise(Dim::MaxPrefillQueryLen, place.queryLen());
  computeLayout();
}

bool StepPlanner::hasOnlyDecodes() const { return hasParts && prefillPlaces().empty(); }

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

DimValues StepPlanner::staticDims() const {
  DimValues dims{};
  at(dims, Dim::NumPages) = limits.numPages;
  at(dims, Dim::PageStride) = limits.pageStrideElements;
  at(dims, Dim::RopeLength) = limits.ropeLength;
  at(dims, Dim::NumSms) = limits.numSms;
  at(dims, Dim::MaxBlocksPerRequest) = blockColumns(limits);
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
}

static void setChunkDims(DimValues &dims, const ChunkSchedule &chunks) {
  at(dims, Dim::NumChunks) = chunks.numChunks;
  at(dims, Dim::ChunkCapacity) = chunks.capacity;
  at(dims, Dim::ChunkTokens) = chunks.chunkTokens;
}

Status StepPlanner::measureChunks() {
  contextLens.clear();
  for (const Place &place : hasParts ? prefillPlaces() : places)
    contextLens.push_back(static_cast<int32_t>(place.contextLen()));
  // Any batch of the shape must fit: all places with one cached token.
  if (isPadded)
    MLAC_RETURN_IF_ERROR(scheduleChunks(std::vector<int32_t>(contextLens.size(), 1),
                                        limits.workspaceTokens, limits.pageSize, chunks));
  MLAC_RETURN_IF_ERROR(
      scheduleChunks(contextLens, limits.workspaceTokens, limits.pageSize, chunks));
  if (isPadded)
    setPaddedChunks();
  setChunkDims(dims_, chunks);
  computeLayout();
  return Status();
}

static void setWorkDims(DimValues &dims, const WorkSizes &work) {
  at(dims, Dim::NumParts) = work.parts;
  at(dims, Dim::NumPartials) = work.partials;
  at(dims, Dim::PartialTokens) = work.partialTokens;
  at(dims, Dim::NumMerges) = work.merges;
  at(dims, Dim::NumMergePrograms) = work.mergePrograms;
}

/// A planned step must stay inside what its launches and buffers are sized for.
static Status checkWork(const WorkSizes &planned, const WorkSizes &most) {
  const struct {
    Dim dim;
    int64_t value, limit;
  } sizes[] = {{Dim::NumParts, planned.parts, most.parts},
               {Dim::NumPartials, planned.partials, most.partials},
               {Dim::PartialTokens, planned.partialTokens, most.partialTokens},
               {Dim::NumMerges, planned.merges, most.merges},
               {Dim::NumMergePrograms, planned.mergePrograms, most.mergePrograms}};
  for (const auto &size : sizes)
    if (size.value > size.limit)
      return error(MLA_INTERNAL, "the step's attention has ", dimName(size.dim), " = ", size.value,
                   ", more than the ", size.limit, " of its shape");
  if (planned.items > most.items)
    return error(MLA_INTERNAL, "the step's attention has ", planned.items,
                 " pieces, more than the ", most.items, " of its shape");
  return Status();
}

Status StepPlanner::measureWork(const WorkParams &params) {
  workRequests.clear();
  for (const Place &place : workPlaces())
    workRequests.push_back({static_cast<int32_t>(place.seqLen()),
                            static_cast<int32_t>(place.firstRow),
                            static_cast<int32_t>(place.queryLen())});
  planner.plan(params, workRequests, limits.numSms,
               at(dims_, Dim::NumSharedTokens) / params.keysPerBlock);
  hasWork = true;
  workSizes = planner.sizes();
  if (hasFixedSizes()) {
    workSizes = boundWork(
        params, hasParts ? WorkLimits{at(dims_, Dim::NumDecodes), at(dims_, Dim::NumDecodeTokens),
                                      at(dims_, Dim::MaxDecodeQueryLen),
                                      at(dims_, Dim::MaxDecodeSeqLen), limits.numSms}
                         : WorkLimits{at(dims_, Dim::NumRequests), at(dims_, Dim::NumTokens),
                                      at(dims_, Dim::MaxQueryLen), at(dims_, Dim::MaxSeqLen),
                                      limits.numSms});
    MLAC_RETURN_IF_ERROR(checkWork(planner.sizes(), workSizes));
  }
  if (workRequests.empty()) // no decodes: nothing to launch
    workSizes = {};
  setWorkDims(dims_, workSizes);
  computeLayout();
  return Status();
}

TableRows StepPlanner::makeRows() const { return {limits.maxRequests, blockColumns(limits)}; }

/// The table in front of the arrays. Prefills are rows of it.
static void layOutTable(const DimValues &dims, const StepLimits &limits, StepLayout &layout) {
  int64_t entryBytes = elementBytes(metadataType(Metadata::BlockTable));
  int64_t columns = at(dims, Dim::MaxBlocksPerRequest), rowBytes = columns * entryBytes;
  layout.tableBytes =
      roundUp(limits.maxRequests * blockColumns(limits) * entryBytes, kBufferAlignment);
  auto set = [&](Metadata which, int64_t firstRow, int64_t rows) {
    layout.arrays[static_cast<size_t>(which)] = {firstRow * rowBytes, rows * columns};
  };
  set(Metadata::BlockTable, 0, at(dims, Dim::NumRequests));
  set(Metadata::PrefillBlockTable, at(dims, Dim::NumDecodes), at(dims, Dim::NumPrefills));
}

/// `work`: all zero if the function has none.
static void layOut(const DimValues &dims, const WorkSizes &work, const StepLimits &limits,
                   StepLayout &layout) {
  int64_t requests = at(dims, Dim::NumRequests), tokens = at(dims, Dim::NumTokens);
  int64_t decodes = at(dims, Dim::NumDecodes), prefills = at(dims, Dim::NumPrefills);
  bool hasParts = prefills + decodes > 0; // there are requests
  int64_t chunked = hasParts ? prefills : requests;
  std::array<int64_t, kNumMetadata> elements{};
  auto set = [&](Metadata which, int64_t count) { elements[static_cast<size_t>(which)] = count; };
  set(Metadata::QueryStartLoc, requests + 1);
  set(Metadata::SeqLens, requests);
  set(Metadata::ContextLens, requests);
  for (Metadata ofTokens : {Metadata::SlotMapping, Metadata::Positions, Metadata::ReqIdPerToken})
    set(ofTokens, tokens);
  set(Metadata::ChunkCuSeqLens, at(dims, Dim::NumChunks) * (chunked + 1));
  set(Metadata::WorkStarts, work.parts > 0 ? work.parts + 1 : 0);
  set(Metadata::WorkItems, work.items * kItemFields);
  set(Metadata::MergeItems, work.merges * kMergeFields);
  set(Metadata::ItemCounters, countItemCounters(dims));
  set(Metadata::MergeStarts, work.mergePrograms * kMergeStartFields);
  if (hasParts) {
    set(Metadata::OutputRows, tokens);
    set(Metadata::DecodeQueryStartLoc, decodes + 1);
    set(Metadata::PrefillQueryStartLoc, prefills + 1);
  }
  if (int64_t chunks = at(dims, Dim::NumSharedChunks); chunks > 0) {
    set(Metadata::SharedQueryStartLoc, 2);
    set(Metadata::SharedChunkCuSeqLens, 2 * chunks);
  }
  layOutTable(dims, limits, layout);
  layout.bytes = layout.tableBytes;
  for (size_t i = 0; i < kNumMetadata; ++i) {
    if (isTable(static_cast<Metadata>(i)))
      continue;
    layout.arrays[i] = {layout.bytes, elements[i]};
    int64_t bytes = elements[i] * elementBytes(metadataType(static_cast<Metadata>(i)));
    layout.bytes += roundUp(bytes, kBufferAlignment);
  }
}

void StepPlanner::computeLayout() {
  layOut(dims_, hasWork ? workSizes : WorkSizes(), limits, layout_);
}

int64_t StepPlanner::maxBytes() const {
  DimValues dims = largestDims(limits.maxRequests, 0, true);
  StepLayout layout;
  layOut(dims, WorkSizes(), limits, layout);
  int64_t bytes = layout.bytes;
  for (const WorkParams &work : limits.works) {
    layOut(dims, largestWork(work, dims), limits, layout);
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
  if (limits.hasParts) { // all requests may be of either kind
    at(dims, Dim::NumDecodes) = at(dims, Dim::NumPrefills) = numRequests;
    at(dims, Dim::NumDecodeTokens) = at(dims, Dim::NumPrefillTokens) = tokens;
    at(dims, Dim::NumPrefillRows) = tokens;
    at(dims, Dim::MaxDecodeQueryLen) = at(dims, Dim::MaxPrefillQueryLen) = longestQuery;
    at(dims, Dim::MaxDecodeSeqLen) = at(dims, Dim::MaxSeqLen);
  }
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
  if (limits.hasShared && hasContext)
    setSharedPrefixDims(dims, limits.maxSeqLen, limits.workspaceTokens, limits.pageSize);
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

/// Page of a sequence that holds `position`. Nearly all sizes are powers of two.
int64_t StepPlanner::pageOf(int64_t position) const {
  return pageShift >= 0 ? position >> pageShift : position / limits.pageSize;
}

/// First rows of requests, and the end of the last one's.
void StepPlanner::fillStarts(uint8_t *bytes, Metadata which, std::span<const Place> of) const {
  auto *starts = arrayOf<int32_t>(layout_, which, bytes);
  for (const Place &place : of)
    *starts++ = static_cast<int32_t>(place.firstRow);
  int64_t end = of.empty() ? 0 : of.back().firstRow + of.back().queryLen();
  *starts = static_cast<int32_t>(end);
}

void StepPlanner::showBlocks(DeviceMirror &mirror, TableRows &rows) const {
  for (size_t i = 0; i < places.size(); ++i) {
    const Request *request = places[i].request;
    // Reserved pages beyond seq_len stay hidden from the kernels.
    auto used = static_cast<size_t>(pageOf(places[i].seqLen() + limits.pageSize - 1));
    if (request)
      rows.show(mirror, i, request->id, request->sequence->edits,
                std::span(request->sequence->pages).first(used));
    else
      rows.show(mirror, i, 0, 0, {});
  }
}

void StepPlanner::fillRequests(uint8_t *bytes) const {
  fillStarts(bytes, Metadata::QueryStartLoc, places);
  auto *seqLens = arrayOf<int32_t>(layout_, Metadata::SeqLens, bytes);
  auto *contexts = arrayOf<int32_t>(layout_, Metadata::ContextLens, bytes);
  for (const Place &place : places) {
    *seqLens++ = static_cast<int32_t>(place.seqLen());
    *contexts++ = static_cast<int32_t>(place.contextLen());
  }
  if (!hasParts)
    return;
  fillStarts(bytes, Metadata::DecodeQueryStartLoc, decodePlaces());
  fillStarts(bytes, Metadata::PrefillQueryStartLoc, prefillPlaces());
}

void StepPlanner::fillTokens(uint8_t *bytes) const {
  auto *slots = arrayOf<int64_t>(layout_, Metadata::SlotMapping, bytes);
  auto *positions = arrayOf<int64_t>(layout_, Metadata::Positions, bytes);
  auto *owners = arrayOf<int32_t>(layout_, Metadata::ReqIdPerToken, bytes);
  auto *rows = hasParts ? arrayOf<int64_t>(layout_, Metadata::OutputRows, bytes) : nullptr;
  if (isPadded) { // rows of no request
    int64_t tokens = at(dims_, Dim::NumTokens);
    std::fill_n(slots, tokens, -1);
    std::fill_n(positions, tokens, 0);
    std::fill_n(owners, tokens, 0);
    std::fill_n(rows, tokens, -1);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Place &place = places[i];
    int64_t row = place.firstRow;
    for (int64_t position = place.contextLen(); position < place.seqLen(); ++position, ++row) {
      owners[row] = static_cast<int32_t>(i);
      if (rows)
        rows[row] = row;
      if (isOnDevice)
        continue; // the caller has the others
      int64_t entry = pageOf(position);
      int64_t page = place.request->sequence->pages[static_cast<size_t>(entry)];
      slots[row] = position + (page - entry) * limits.pageSize;
      positions[row] = position;
    }
  }
}

/// A padded step may have room for more parts, pieces and merges than it needs: those
/// are empty.
void StepPlanner::fillWork(uint8_t *bytes) const {
  auto copy = [&](auto rows, Metadata which, int32_t rest) {
    auto *to = arrayOf<int32_t>(layout_, which, bytes);
    int64_t room = layout_.arrays[static_cast<size_t>(which)].elements;
    int64_t count = std::min(room, static_cast<int64_t>(rows.size_bytes() / sizeof *to));
    if (count > 0)
      std::memcpy(to, rows.data(), static_cast<size_t>(count) * sizeof *to);
    std::fill_n(to + count, room - count, rest);
  };
  std::span<const int32_t> starts = planner.starts();
  copy(starts, Metadata::WorkStarts, starts.empty() ? 0 : starts.back());
  copy(planner.items(), Metadata::WorkItems, 0);
  copy(planner.merges(), Metadata::MergeItems, 0);
  copy(planner.mergeStarts(), Metadata::MergeStarts, 0);
  std::span rest(arrayOf<MergeStart>(layout_, Metadata::MergeStarts, bytes),
                 static_cast<size_t>(workSizes.mergePrograms));
  std::ranges::fill(rest.subspan(planner.mergeStarts().size()), kNoMerge);
}

void StepPlanner::fill(KVCache &cache, DeviceMirror &mirror, TableRows &rows) {
  for (const Request &request : isOnDevice ? std::span<Request>() : std::span(requests)) {
    // Cannot fail: lengths were checked by measure, pages by hasPages.
    if (request.missingPages > 0)
      (void)cache.reserve(*request.sequence, request.seqLen());
    request.sequence->length = request.seqLen();
  }
  if (!isOnDevice)
    showBlocks(mirror, rows);
  uint8_t *bytes = mirror.host();
  fillRequests(bytes);
  fillTokens(bytes);
  fillChunkTable(contextLens, chunks, arrayOf<int32_t>(layout_, Metadata::ChunkCuSeqLens, bytes));
  fillShared(bytes);
  // Every kernel leaves zeros behind, too.
  std::fill_n(arrayOf<int32_t>(layout_, Metadata::ItemCounters, bytes), countItemCounters(dims_),
              0);
  if (hasWork)
    fillWork(bytes);
  mirror.touch(layout_.tableBytes, layout_.bytes);
}

void StepPlanner::rollback(KVCache &cache) {
  if (isOnDevice)
    return;
  // In reverse, so that the pool's free list becomes what it was.
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    request->sequence->length = request->contextLen;
    cache.shrink(*request->sequence, static_cast<int64_t>(request->oldPages));
  }
}
