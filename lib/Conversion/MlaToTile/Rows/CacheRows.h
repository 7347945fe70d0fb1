//===- CacheRows.h - rows of a pool in their format ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How kernels write rows of the model's type to a pool and read them back, whatever
// the format (runtime/lib/package/CacheFormat is the same on the host, byte by byte):
//
//   as they are        stored = row
//   one layer scale    code = e4m3(x / scale)       x' = round(code * scale)
//   groups             scale = max(max|x|, ...) / 448 over the group, in the row or its page
//
// Tiles are blocks of columns of one part of the row; where groups have scales a block
// is one group.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CACHEROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CACHEROWS_H

#include "Plan/PagedPool.h"
#include "Rows/Angles.h"

namespace mlac::mla_to_tile {

class CacheRows {
public:
  /// Of a pool inside a kernel. Makes the views of whole parts here.
  CacheRows(KernelBuilder &b, const Pool &pool);

  /// Columns of the blocks of a part: a legal tile width of at most `limit`.
  static int64_t blockWidth(const Pool &pool, cache::Part part, int64_t limit);

  /// Stores `tile` [rows, block], columns from `column` on of the rows
  /// slots[first], slots[first + 1], ...
  void store(cache::Part part, mlir::Value tile, mlir::Value column, mlir::Value slots,
             mlir::Value first);

  /// The same of a group of columns, two of which are a byte: those at even places, and at odd
  /// ones.
  void storePacked(cache::Part part, const TilePair &tiles, mlir::Value column, mlir::Value slots,
                   mlir::Value first);

  /// Where groups have scales, `width` is that of a group.
  /// Loads columns from `column` on of `rows` tokens from `token` on, below `limit`, of
  /// the request with this row of the block table.
  mlir::Value load(cache::Part part, int64_t rows, int64_t width, mlir::Value column,
                   mlir::Value table, mlir::Value token, mlir::Value limit);

private:
  mlir::Type storage(cache::Part part) const;
  mlir::Value view(cache::Part part) const;
  bool hasGroups(cache::Part part) const;
  mlir::Value layerScale(cache::Part part, mlir::ArrayRef<int64_t> shape);
  mlir::Value zeros(int64_t rows);
  cache::ScaleRule scaleRule() const;
  void storeScale(mlir::Value scale, mlir::Value column, mlir::Value slots, mlir::Value first);

  KernelBuilder &b;
  const Pool &pool;
  struct PartView {
    cache::Part part;
    mlir::Value view;
  };
  mlir::SmallVector<PartView, cache::kMaxRowFields> views;
};

/// Programs for tiles of rows times blocks of columns. The blocks of a tile follow one
/// another, so that sectors of 32 bytes that two of them share, as rows of 656 bytes do,
/// are complete before they leave the L2 cache: half a sector costs a read.
struct RowGrid {
  int64_t tileRows, blocks;

  std::array<mlir::Value, 3> size(StepLowering &step, mlir::Value rows) const {
    return {step.multiply(step.ceilDiv(rows, tileRows), blocks), step.constant(1),
            step.constant(1)};
  }
  /// The program's first row and block, in a kernel.
  std::pair<mlir::Value, mlir::Value> place(KernelBuilder &b) const;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CACHEROWS_H
