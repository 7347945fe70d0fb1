//===- CodeTiles.h - which weights products can read as codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product's tile of a weight has one scale, or one for each of its rows, and sums are scaled
// once for each 128 of the depth, or behind all of it (Products/CodedWeights.h).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_TRANSFORMS_CODETILES_H
#define MLA_DIALECT_MLA_TRANSFORMS_CODETILES_H

#include "mla/Machine/TileShapes.h"

#include "llvm/ADT/ArrayRef.h"

namespace mlir::mla {

/// Rows of a product's tile; columns that products add up before they scale.
inline constexpr int64_t kCodeTileRows = mlac::SwappedTile::kColumns, kScaledDepth = 128;

/// Whether tiles can have scales of blocks of so many rows and columns (0: all).
inline bool canScaleTiles(llvm::ArrayRef<int64_t> block) {
  int64_t rows = block[0], columns = block[1];
  bool isOfRows = columns == 0 && (rows == 0 || rows == 1);
  bool isOfTiles = rows == 1 || (rows > 0 && rows % kCodeTileRows == 0);
  return isOfRows || (isOfTiles && columns == kScaledDepth);
}

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_TRANSFORMS_CODETILES_H
