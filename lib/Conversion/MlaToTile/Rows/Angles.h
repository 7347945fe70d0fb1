//===- Angles.h - rotations of pairs of channels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table has cosines of all pairs of a position, then their sines (mla.rope_table).
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
  mlir::Value buffer; ///< f32 [length, 2 * half]
  mlir::Value length; ///< index
  int64_t half;       ///< pairs of a row
};

/// Of the tokens from `row` on, as many as `rows`: positions [tokens].
TilePair loadTokenAngles(KernelBuilder &b, const AngleTable &table, mlir::Value positions,
                         mlir::Value tokens, mlir::Value row, int64_t rows);
/// Of one position, alike in all rows of `shape`, from pair `column` on. `rows`: of what is
/// rotated.
TilePair loadPositionAngles(KernelBuilder &b, const AngleTable &table, mlir::Value position,
                            mlir::Value column, mlir::OpFoldResult rows,
                            llvm::ArrayRef<int64_t> shape);
/// f32 pairs by these angles, or back.
TilePair rotate(KernelBuilder &b, const TilePair &pairs, const TilePair &cosSin,
                bool isInverse = false);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ANGLES_H
