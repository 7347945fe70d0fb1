//===- StepPlanner.h - sizes and metadata of a step -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns a batch (sequences and query lengths) into the sizes and metadata
// arrays that launch plans read, on the host (spec: mla.md sections 9 and 11).
//
// Two phases, so that a refused step changes nothing:
//   measure()  validates the batch and computes every size;
//   fill()     cannot fail: takes the pages, advances the sequences and writes
//              the arrays into one mirror of device memory, ready for one upload.
//
//   bytes  | block_table      | query_start_loc | seq_lens | context_lens | ...
//            [max_num_requests,  each array starts at a multiple of kBufferAlignment
//             columns]
//          0                    tableBytes                                      bytes
//
// block_table has room for the longest sequences, whatever the step, so it stays where it
// is, and of it only what has changed is sent: in decode an entry for each request that
// starts a page. The arrays behind it are sent whole.
//
// Chunks of context, W = workspace_tokens, n = requests with context:
//   chunk_capacity = floor(W / n), rounded down to a multiple of page_size
//   chunk i covers tokens [i * capacity, (i + 1) * capacity) of every context
//   chunk_cu_seq_lens[i] = exclusive prefix sums of the lengths inside chunk i
//
// A partition of the attention into pieces is made by WorkPlanner. A prefix that requests
// share and that is attended to apart (SharedPrefix.h) is one more request, without
// tokens of its own, whose rows are those of all:
//   shared_query_start_loc    0 | rows
//   shared_chunk_cu_seq_lens  0 | tokens of the chunk; pages: row 0 of block_table
//
// For a function that splits its batch (decode_threshold > 0), chunks and their
// tables are those of the prefills only and a partition is that of the decodes:
//
//   requests              | decodes 0 .. nd-1 | prefills nd .. B-1 |
//   block_table             whole batch: decodes are its first rows
//   decode_query_start_loc  nd + 1 entries
//   prefill_block_table                         the table's rows from nd on
//   prefill_query_start_loc                     of rows of the whole batch
//
// A padded step (mla_step_plan_padded) has the sizes of a shape, whatever the batch.
// Requests stand in places, of which the batch leaves some empty:
//
//   places   | decodes | empty | prefills | empty |      D = shape.num_decodes
//            0         nd      D                  B
//   rows     | tokens  | -1    | tokens   | -1    |      Dt = shape.num_decode_tokens
//            0                 Dt                 T
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPPLANNER_H
#define MLAC_RUNTIME_STEPPLANNER_H

#include "package/Dims.h"
#include "package/Expression.h"
#include "step/BatchOrder.h"
#include "step/SharedPrefix.h"
#include "step/TableRows.h"
#include "step/WorkPlanner.h"

#include <optional>
#include <span>

namespace mlac::runtime {

/// What stays the same over an engine's life.
struct StepLimits {
  int64_t maxRequests, maxTokens, maxSeqLen, workspaceTokens;
  int64_t pageSize, numPages, pageStrideElements, ropeLength, numSms;
  /// Of the functions that partition their attention, each with its own bound.
  std::vector<WorkParams> works = {};
  /// Whether any function splits its batch.
  bool hasParts = false;
  /// Whether any function attends apart to shared prefixes.
  bool hasShared = false;
};

/// Value of block_table entries that no kernel may read.
inline constexpr int32_t kUnusedPage = TableRows::kNoPage;

struct ChunkSchedule {
  int64_t numContext = 0; // requests with context
  int64_t capacity = 0;   // tokens per request and chunk
  int64_t numChunks = 0;
  int64_t chunkTokens = 0; // largest total of one chunk
};

/// Error: the workspace holds less than a page per request with context.
Status scheduleChunks(std::span<const int32_t> contextLens, int64_t workspaceTokens,
                      int64_t pageSize, ChunkSchedule &schedule);

/// Writes chunk_cu_seq_lens [numChunks, requests + 1].
void fillChunkTable(std::span<const int32_t> contextLens, const ChunkSchedule &schedule,
                    int32_t *table);

/// Where one metadata array lies in the step's bytes.
struct MetadataArray {
  int64_t offset = 0; // bytes
  int64_t elements = 0;
};

struct StepLayout {
  std::array<MetadataArray, kNumMetadata> arrays;
  /// Arrays that the caller has on the device; null: in the step's bytes.
  std::array<const void *, kNumMetadata> external{};
  int64_t tableBytes = 0; // at the front, the same for all steps
  int64_t bytes = 0;      // with the arrays of this step
};

class StepPlanner {
public:
  explicit StepPlanner(const StepLimits &limits);

  /// Bytes that hold the metadata of any step within the limits.
  int64_t maxBytes() const;

  /// Checks `batch` and computes sizes. The result is used by the calls below
  /// and stays until the next measure.
  Status measure(KVCache &cache, const mla_batch &batch);
  /// The same with the sizes of `shape`, which may not be smaller than the batch's, for
  /// a function that splits the batch at `decodeThreshold`. In place of measureParts;
  /// comes behind measure.
  Status measurePadded(const mla_step_shape &shape, int64_t decodeThreshold);
  /// In place of measure: a batch whose lengths, table and slots the caller has on the
  /// device. Sizes are those of the longest requests; work is divided by the bounds.
  Status measureDevice(const mla_device_batch &batch);
  /// Keys of the longest request.
  int64_t longestSeqLen() const;
  /// Whether the batch, as it stands, begins with decodes and has prefills behind them.
  bool isMixed(int64_t decodeThreshold) const;
  /// Splits the batch, as it stands, into decodes and prefills and adds their sizes
  /// to the dims. Comes before the two below.
  void measureParts(int64_t decodeThreshold);
  /// Looks for a prefix that all requests (of decodes, behind measureParts) share, and adds
  /// what is attended to apart, as expression `tokens` says, to the dims. The part is a
  /// multiple of `granule`. Comes before measureWork. Error: the expression is wrong.
  Status measureShared(const ExpressionTable &exprs, uint32_t tokens, int64_t granule);
  /// Adds the chunk sizes to the dims. Error: workspace too small.
  Status measureChunks();
  /// Whether the step, or every step of its shape, has no prefills; after the parts.
  bool hasOnlyDecodes() const;
  /// Partitions the attention and adds the sizes of the partition to the dims.
  Status measureWork(const WorkParams &params);

  const DimValues &dims() const { return dims_; }
  const StepLayout &layout() const { return layout_; }
  /// Whether the pool holds the new tokens' pages.
  bool hasPages(const KVCache &cache) const;

  /// Rows of block_table, for any step.
  TableRows makeRows() const;
  /// Takes pages, advances sequences, writes the arrays to `mirror` and touches what is
  /// not as it was: entries of block_table, which is `rows`, and all other arrays.
  void fill(KVCache &cache, DeviceMirror &mirror, TableRows &rows);
  /// Undoes fill() for the cache.
  void rollback(KVCache &cache);

  /// Sizes as large as a step with `numRequests` requests may have: what
  /// workspaces are allocated for.
  DimValues largestDims(int64_t numRequests, int64_t maxQueryLen, bool hasContext,
                        const std::optional<WorkParams> &work = std::nullopt) const;
  /// Sizes that hold before any step (for "prepare").
  DimValues staticDims() const;

private:
  struct Request {
    mla_sequence id;
    Sequence *sequence;
    int64_t queryLen, contextLen;
    int64_t missingPages;
    size_t oldPages;
    int64_t seqLen() const { return contextLen + queryLen; }
  };

  /// Where a request stands; `request` is null where none does.
  struct Place {
    const Request *request;
    int64_t firstRow;
    int64_t queryLen() const { return request ? request->queryLen : 0; }
    int64_t contextLen() const { return request ? request->contextLen : 0; }
    int64_t seqLen() const { return request ? request->seqLen() : 0; }
  };

  Status addRequest(KVCache &cache, mla_sequence id, int32_t queryLen);
  void placeRequests();
  /// Requests [first, first + count) in places [place, place + room), rows from `row` on.
  void placeRun(int64_t first, int64_t count, int64_t room, int64_t row);
  Status checkShape(const mla_step_shape &shape) const;
  std::span<const Place> decodePlaces() const;
  std::span<const Place> prefillPlaces() const;
  void setPaddedDims(const mla_step_shape &shape, int64_t decodeThreshold);
  void setPaddedChunks();
  /// The places whose tokens are attended to in one piece of work.
  std::span<const Place> workPlaces() const {
    return hasParts ? decodePlaces() : std::span<const Place>(places);
  }
  /// The expression's value where so many tokens are common.
  Status evaluateShared(const ExpressionTable &exprs, uint32_t tokens, int64_t common,
                        int64_t &shared);
  void fillShared(uint8_t *bytes) const;
  mla_batch_split splitAt(int64_t decodeThreshold) const;
  void sumDims();
  void setDeviceDims(const mla_device_batch &batch);
  /// Whether the sizes of the partition are those of any batch of the step's sizes.
  bool hasFixedSizes() const { return isPadded || isOnDevice; }
  void computeLayout();
  WorkSizes largestWork(const WorkParams &params, const DimValues &dims) const;
  int64_t pageOf(int64_t position) const;
  void fillRequests(uint8_t *bytes) const;
  void fillTokens(uint8_t *bytes) const;
  void fillWork(uint8_t *bytes) const;
  void fillStarts(uint8_t *bytes, Metadata which, std::span<const Place> of) const;
  void showBlocks(DeviceMirror &mirror, TableRows &rows) const;

  StepLimits limits;
  int pageShift; // of pageSize, -1 if it is no power of two
  std::vector<Request> requests;
  std::vector<Place> places;
  std::vector<int32_t> contextLens; // of the places that run in chunks
  std::vector<WorkRequest> workRequests;
  std::vector<CachedContext> contexts; // of requests that may share a prefix
  Evaluator evaluator;
  DimValues dims_{};
  ChunkSchedule chunks;
  WorkPlanner planner;
  bool hasWork = false; // `planner` holds this step's partition
  WorkSizes workSizes;  // of the partition, or of any partition of a padded step
  mla_batch_split split{};
  bool hasParts = false; // `split` is this step's
  bool isPadded = false;
  bool isOnDevice = false;     // requests have no sequences
  int64_t numDecodePlaces = 0; // if it has parts
  StepLayout layout_;
  int64_t missingPages = 0;
  uint64_t step = 0;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPPLANNER_H
