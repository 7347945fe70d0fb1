//===- RotatedRows.h - rows some of whose channels are rotated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is four tiles at most, so that pairs meet without moving between threads:
//
//     first elements of the pairs | second ones | channels in front | behind
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROTATEDROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROTATEDROWS_H

#include "Rows/Angles.h"

namespace mlac::mla_to_tile {

/// Columns of a row: `first`, `first + stride`, ...
struct Run {
  int64_t first, width, stride;
};

/// Rows whose channels [offset, offset + dim) are rotated, as tiles.
class RotatedRows {
public:
  using Value = mlir::Value;
  RotatedRows(mlir::mla::RopeAttr rope, int64_t offset, int64_t columns, bool isInverse = false)
      : half(rope.getDim() / 2), isInverse(isInverse) {
    bool isInterleaved = rope.getOrder() == mlir::mla::RopeOrder::Interleaved;
    int64_t behind = offset + rope.getDim();
    runs.push_back({offset, half, isInterleaved ? 2 : 1});
    runs.push_back({offset + (isInterleaved ? 1 : half), half, isInterleaved ? 2 : 1});
    for (Run rest : {Run{0, offset, 1}, Run{behind, columns - behind, 1}})
      if (rest.width != 0)
        runs.push_back(rest);
  }
  llvm::SmallVector<Value> map(llvm::function_ref<Value(const Run &)> make) const {
    return llvm::map_to_vector(runs, make);
  }
  /// Of f32 tiles in the order of `runs`.
  void rotatePairs(KernelBuilder &b, llvm::SmallVectorImpl<Value> &tiles,
                   const TilePair &cosSin) const {
    TilePair rotated = rotate(b, {tiles[0], tiles[1]}, cosSin, isInverse);
    tiles[0] = rotated.first, tiles[1] = rotated.second;
  }

  int64_t half;
  llvm::SmallVector<Run, 4> runs;

private:
  bool isInverse;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROTATEDROWS_H
