//===- Matrices.h - what ldmatrix and stmatrix address ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fragments of 16-bit elements travel by ldmatrix and stmatrix, 8 x 8 elements a
// time: lane 8m + r names row r of matrix m, and every lane gets or gives the
// pair that a fragment has of each matrix. A group of 16 columns is four
// matrices, in the order of the fragment's registers:
//
//                 columns 16q ..  +7 | +8 ..  +15
//     rows 16w .. +7      matrix 0   | matrix 2
//     rows +8 .. +15      matrix 1   | matrix 3
//
// The eight rows of a matrix lie in eight different chunks of the swizzle: one
// access takes every bank once. Of codes a matrix is 8 rows of 16, and a lane gets four of a row.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_SM90TONVVM_MATRICES_H
#define MLAC_LIB_CONVERSION_SM90TONVVM_MATRICES_H

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlac::sm90nvvm {

namespace LLVM = mlir::LLVM;
namespace NVVM = mlir::NVVM;
namespace sm90 = mlir::sm90;

/// Rows of a matrix, and matrices of one instruction.
inline constexpr int64_t kMatrixRows = 8, kMatrices = 4;

inline NVVM::LdStMatrixShapeAttr getMatrixShape(ImplicitLocOpBuilder &b) {
  return NVVM::LdStMatrixShapeAttr::get(b.getContext(), kMatrixRows, kMatrixRows);
}
inline NVVM::LdStMatrixEltTypeAttr getMatrixElement(ImplicitLocOpBuilder &b) {
  return NVVM::LdStMatrixEltTypeAttr::get(b.getContext(), NVVM::LdStMatrixEltType::B16);
}
inline NVVM::MMALayoutAttr getMatrixLayout(ImplicitLocOpBuilder &b, bool transposed) {
  return NVVM::MMALayoutAttr::get(b.getContext(),
                                  transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row);
}

/// The byte of column chunk `chunk`, a constant, of the row that a thread names by `first`, the
/// byte of chunk 0. The swizzle exchanges three bits of it. Pinned: those of a few columns after
/// the other would else all be computed at the role's entry and take registers from
/// everything in between.
inline Int getChunkFrom(ImplicitLocOpBuilder &b, Int first, int64_t chunk, int64_t rows) {
  Int pinned(b, emitPin(b, Value(first)).front());
  return (pinned ^ chunk % sm90::kPanelChunks * sm90::kChunkBytes) +
         chunk / sm90::kPanelChunks * (rows * sm90::kPanelRowBytes);
}

/// The address that each lane names for the matrices of column group pair `q`.
struct MatrixAddresses {
  ImplicitLocOpBuilder &b;
  const Kernel &kernel;
  sm90::SmemType type;
  Value tile;

  Int getWarp() const { return Int(b, kernel.groupThread) / (kMatrixRows * kMatrices); }
  /// A fragment of the tile's shape whose first column is in chunk `firstChunk`.
  Value get(Int firstChunk, int64_t q) const {
    Int lane(b, kernel.lane);
    Int row = getWarp() * (2 * kMatrixRows) + lane % (2 * kMatrixRows);
    Int chunk = firstChunk + lane / (2 * kMatrixRows) + 2 * q;
    return kernel.getSharedAddress(b, tile, sm90::getSwizzledChunkByte(row, chunk, type.getRows()));
  }
  /// The same, of a chunk that is even and known.
  Value getFrom(int64_t chunk) const {
    Int lane(b, kernel.lane);
    Int row = getWarp() * (2 * kMatrixRows) + lane % (2 * kMatrixRows);
    Int first = sm90::getSwizzledChunkByte(row, lane / (2 * kMatrixRows), type.getRows());
    return kernel.getSharedAddress(b, tile, getChunkFrom(b, first, chunk, type.getRows()));
  }
  /// A fragment of the reversed shape: its columns are the tile's rows.
  Value getTransposed(int64_t q) const {
    Int lane(b, kernel.lane);
    Int row = lane / (2 * kMatrixRows) * kMatrixRows + lane % kMatrixRows + q * 2 * kMatrixRows;
    Int chunk = getWarp() * 2 + lane / kMatrixRows % 2;
    return kernel.getSharedAddress(b, tile, sm90::getSwizzledChunkByte(row, chunk, type.getRows()));
  }
};

} // namespace mlac::sm90nvvm

#endif // MLAC_LIB_CONVERSION_SM90TONVVM_MATRICES_H
