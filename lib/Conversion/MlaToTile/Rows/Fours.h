//===- Fours.h - e2m1 codes, two in a byte ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile has no two columns of which one moves to the other's place, so that rows of codes are two
// tiles: columns 0, 2, 4, ... of rows, which are the low halves of bytes, and 1, 3, 5, ...
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_FOURS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_FOURS_H

#include "Rows/Angles.h"

namespace mlac::mla_to_tile {

/// The numbers, f32, of e2m1 codes that are the low bits of i32.
mlir::Value numbersOfFours(KernelBuilder &b, mlir::Value codes);

/// The i32 codes of f32 rows divided by their scales [rows], powers of two that are normal.
mlir::Value divideToFours(KernelBuilder &b, mlir::Value wide, mlir::Value scale);

/// i8 bytes of the codes of even and of odd columns, and the numbers of bytes.
mlir::Value packFours(KernelBuilder &b, const TilePair &codes);
TilePair unpackFours(KernelBuilder &b, mlir::Value bytes);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_FOURS_H
