//===- Dims.h - named sizes and metadata of a step --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names that a package's functions may use for run-time sizes and for
// metadata buffers, and the order in which the runtime keeps them. The compiler
// knows the same names (tile.dim and tile.buffer).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DIMS_H
#define MLAC_RUNTIME_DIMS_H

#include "base/DataType.h"

#include <array>
#include <optional>
#include <string_view>

namespace mlac::runtime {

enum class Dim : uint8_t {
  NumTokens,
  NumRequests,
  MaxQueryLen,
  MaxSeqLen,
  MaxContextLen,
  TotalContextLen,
  AttendedPairs,       // sum over requests of query_len * context_len +
                       // query_len * (query_len + 1) / 2
  NumContextRequests,  // requests with context_len > 0
  MaxBlocksPerRequest, // row stride of block_table
  NumPages,
  PageStride, // elements between pages of the pool
  NumChunks,
  ChunkCapacity, // tokens per request and chunk
  ChunkTokens,   // largest total of one chunk
  RopeLength,
  NumSms,
  IsPadded,     // 1 if the step has sizes of its own beside the batch's
  NumHostPages, // of the memory that pages are swapped to; 0 in steps
  // Of functions that partition their attention (tile.work).
  NumParts,
  NumPartials,   // pieces of requests in several pieces
  PartialTokens, // sum of their query lengths
  NumMerges,     // requests in several pieces
  NumMergePrograms,
  // Of functions that split the batch into decodes and prefills.
  NumDecodes,
  NumPrefills,
  NumDecodeTokens,
  NumPrefillTokens,
  NumPrefillRows, // all tokens, or none without prefills
  MaxDecodeQueryLen,
  MaxDecodeSeqLen,
  MaxPrefillQueryLen,
  // Of functions that attend apart to a prefix which all requests (of decodes) share.
  NumCommonTokens, // that they have in common
  NumSharedTokens, // of these, attended to apart
  NumSharedChunks,
  SharedChunkCapacity, // tokens of a chunk
  SharedChunkTokens,   // of the largest chunk
};
inline constexpr size_t kNumDims = 36;
using DimValues = std::array<int64_t, kNumDims>;

std::optional<Dim> findDim(std::string_view name);
const char *dimName(Dim dim);

/// Whether only functions with a tile.work have it.
inline bool isOfWork(Dim dim) { return dim >= Dim::NumParts && dim <= Dim::NumMergePrograms; }
/// Whether only functions that split the batch have it.
inline bool isOfParts(Dim dim) { return dim >= Dim::NumDecodes && dim <= Dim::MaxPrefillQueryLen; }
/// Whether only functions with a tile.shared_prefix have it.
inline bool isOfShared(Dim dim) { return dim >= Dim::NumCommonTokens; }

inline int64_t &at(DimValues &values, Dim dim) { return values[static_cast<size_t>(dim)]; }
inline int64_t at(const DimValues &values, Dim dim) { return values[static_cast<size_t>(dim)]; }

enum class Metadata : uint8_t {
  QueryStartLoc,
  SeqLens,
  ContextLens,
  BlockTable,
  SlotMapping,
  Positions,
  ChunkCuSeqLens,
  WorkStarts,
  WorkItems,
  MergeItems,
  MergeStarts,
  ReqIdPerToken,
  OutputRows,   // i64: the row of each token, -1 for padding
  ItemCounters, // zeros that a kernel counts in, and leaves as zeros
  DecodeQueryStartLoc,
  PrefillQueryStartLoc,
  PrefillBlockTable,
  SharedQueryStartLoc,  // 0 and the rows of the requests that share a prefix
  SharedChunkCuSeqLens, // [num_shared_chunks, 2]
};
inline constexpr size_t kNumMetadata = 19;

std::optional<Metadata> findMetadata(std::string_view name);
inline bool isOfWork(Metadata metadata) {
  return metadata >= Metadata::WorkStarts && metadata <= Metadata::MergeStarts;
}
inline bool isTable(Metadata metadata) {
  return metadata == Metadata::BlockTable || metadata == Metadata::PrefillBlockTable;
}
inline bool isOfParts(Metadata metadata) {
  return metadata >= Metadata::DecodeQueryStartLoc && metadata <= Metadata::PrefillBlockTable;
}
inline bool isOfShared(Metadata metadata) { return metadata >= Metadata::SharedQueryStartLoc; }
const char *metadataName(Metadata metadata);
mla_dtype metadataType(Metadata metadata);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DIMS_H
