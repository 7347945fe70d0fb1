//===- Angles.h - rotations of pairs of channels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table has cosines of all pairs of a position, then their sines (mla.rope_table), or cosine
// and sine of each pair beside each other.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ANGLES_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ANGLES_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// Two tiles: of the first and of the second elements of pairs, or cosines and sines.
struct TilePair {
  mlir::Value first, second;
};

struct AngleTable {
  mlir::Value buffer; ///< [length, 2 * half]
  mlir::Value length; ///< index
  int64_t half;       ///< pairs of a row
  bool isBeside = false;

  /// In a kernel, of a table that the plan has.
  static AngleTable of(const TensorRef &table, mlir::Value buffer, mlir::Value length,
                       int64_t half) {
    return {buffer, length, half, table.rank() == 3};
  }
  /// Elements from a pair's cosine to that of the next, and to its sine.
  int64_t pairStride() const { return isBeside ? 2 : 1; }
  int64_t sineOffset() const { return isBeside ? 1 : half; }
};

/// Of the tokens from `row` on, as many as `rows`: positions [tokens]; without, the table has a row
/// for each token.
TilePair loadTokenAngles(KernelBuilder &b, const AngleTable &table, mlir::Value positions,
                         mlir::Value tokens, mlir::Value row, int64_t rows);
/// Of one position, alike in all rows of `shape`, from pair `column` on. `rows`: of what is
/// rotated; each is `groups` rows of the tile.
TilePair loadPositionAngles(KernelBuilder &b, const AngleTable &table, mlir::Value position,
                            mlir::Value column, mlir::OpFoldResult rows,
                            llvm::ArrayRef<int64_t> shape, int64_t groups = 1);
/// f32 pairs by these angles, or back.
TilePair rotate(KernelBuilder &b, const TilePair &pairs, const TilePair &cosSin,
                bool isInverse = false);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ANGLES_H
