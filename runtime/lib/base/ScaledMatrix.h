//===- ScaledMatrix.h - matrices of e4m3 codes and scales -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How checkpoints store quantised weights (mla.md section 7): a code of 8 bits for each
// element of a matrix [out, in], and one factor for each block of them. Blocks are counted
// from the matrix's first element, so those at its last rows and columns may be ragged:
//
//   block      scale per           grid of [576, 7168]
//   [128, 128] 128 x 128           [5, 56], the last row of blocks has 64 rows
//   [1, 0]     output channel      [576, 1]
//   [0, 0]     tensor              [1, 1]
//
// A value is code * scale, multiplied in f32 and rounded once to the type it is wanted in.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_SCALEDMATRIX_H
#define MLAC_RUNTIME_SCALEDMATRIX_H

#include "base/DataType.h"
#include "base/Status.h"

#include <array>

namespace mlac::runtime {

/// Rows and columns that have one scale; 0: all of the matrix's.
struct ScaleBlock {
  int64_t rows = 0, columns = 0;

  /// Scales of a matrix: blocks beside each other down and across.
  std::array<int64_t, 2> grid(int64_t matrixRows, int64_t matrixColumns) const;
  /// "block", "channel" or "tensor".
  const char *strategy() const;
};

/// A part of a matrix of codes. The part need not begin where a block does.
struct ScaledMatrix {
  const uint8_t *codes; // of the whole matrix, row-major
  const float *scales;  // of the whole matrix, its grid row-major
  int64_t rows, columns;
  ScaleBlock block;
  int64_t firstRow, firstColumn, numRows, numColumns; // the part
};

/// What keeps the part from being values of `type` (bf16, f16 or f32): a NaN, a scale that is
/// negative or not finite, a product beyond the type's largest. Names place, value and limit.
Status checkValues(const ScaledMatrix &matrix, mla_dtype type);

/// The part's values, dense; of a matrix that checkValues accepts.
void dequantise(const ScaledMatrix &matrix, mla_dtype type, void *values);

/// The other way: codes and scales of values [rows, columns] that are finite. A scale is the
/// block's largest magnitude / 448, where that is not too small to divide by: of a whole
/// tensor a magnitude of 1e-10 counts at least, of a block a scale of 1e-12.
void quantise(const float *values, int64_t rows, int64_t columns, const ScaleBlock &block,
              uint8_t *codes, float *scales);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_SCALEDMATRIX_H
