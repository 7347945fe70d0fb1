//===- StreamModel.h - the parameters of stream, and what it takes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H

#include "mla/Analysis/ScheduleCost.h"

namespace mlac::stream {

/// All columns of a block of 64 keys that fits.
constexpr int64_t kMostColumns = mlir::sm90::kMaxSharedBytes /
                                 (kBlockKeys * mlir::sm90::kPanelRowBytes) *
                                 mlir::sm90::kPanelColumns;
/// The queries of the next item arrive while this item's are read: waiting for them
/// would keep the producer from the next item's keys.
inline constexpr int64_t kQueryStages = 2;
inline constexpr auto kStages = makeInteger("stages", "blocks in the ring", 1, kMostStages);
inline constexpr auto kPartColumns =
    makeInteger("part-columns", "columns of keys that one barrier announces",
                mlir::sm90::kPanelColumns, kMostColumns, mlir::sm90::kPanelColumns);

/// What a kernel's tiles take of shared memory and of registers: the model asks before there is a
/// kernel, the builder of the one that it has.
struct Tiles {
  int64_t rows; // N
  /// Of 64 columns: of a query, of what is copied of a key and its value, of the output.
  int64_t queryPanels, stagePanels, outputPanels;
  /// Keys are codes, of which two consumers make values: panels of a stage are of codes.
  bool hasCodes = false;
  /// Tiles of queries, of so many rows each, that share the keys, a consumer each.
  int64_t sides = 1;
  /// What codes of heads become beside the ring.
  int64_t turnedPanels = 0;

  /// A block of keys.
  int64_t stageBytes() const;
  /// What lies beside the ring of keys: queries, of two items, weights, row vectors, barriers.
  int64_t fixedBytes(int64_t sharedBytes) const {
    return fixedBytesBeside(queryStages(sharedBytes));
  }
  int64_t mostStages(int64_t sharedBytes) const {
    return (sharedBytes - fixedBytes(sharedBytes)) / stageBytes();
  }
  /// Items whose queries have room. With codes the next item's wait where they would leave one
  /// block of codes alone.
  int64_t queryStages(int64_t sharedBytes) const;
  /// Of a thread, that hold the output, and scores where there are more than of half a tile.
  int64_t heldRegisters() const;

private:
  int64_t fixedBytesBeside(int64_t queryStages) const;
};

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
