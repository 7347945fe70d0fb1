//===- RowKernel.h - kernels whose programs have one row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles of targets with a matrix unit have 64 rows. A program with one row of an
// activation lays it out as such a tile: width elements as [64, columns], with fewer
// rows where columns would be less than 8. All threads work, and the row is read once.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROWKERNEL_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROWKERNEL_H

#include "Plan/Lowerings.h"

namespace mlac::mla_to_tile {

inline int64_t findRowBlock(StepLowering &step, int64_t columns) {
  return mlac::findRowBlock(step.shapes, columns);
}

/// What a program says of a row of `width` elements, `stride` apart; canHoldRow of it. A tile's
/// rows have `columns` where the caller says so, else as many as leave the most rows.
class RowKernel {
public:
  using Value = mlir::Value;

  RowKernel(StepLowering &step, KernelBuilder &b, int64_t width, int64_t stride = 1,
            int64_t columns = 0)
      : b(b), tileRows(step.shapes.rows), width(width),
        columns(columns ? columns : step.shapes.foldedColumns(width)), stride(stride) {
    assert(this->columns != 0 && "expected a row that canHoldRow");
  }

  /// From element `base + offset` of the buffer on.
  Value load(Value buffer, Value base, int64_t offset) {
    Value from = view(buffer, base, offset, b.fixed(width / columns));
    return b.loadWide(from, {b.index(0), b.index(0)}, {tileRows, columns});
  }
  void store(Value tile, Value buffer, Value base, int64_t offset) {
    store(tile, buffer, base, offset, b.fixed(width / columns));
  }
  /// Only where the condition holds.
  void storeIf(Value condition, Value tile, Value buffer, Value base, int64_t offset) {
    Value rows = b.choose(condition, b.index(width / columns), b.index(0));
    store(tile, buffer, base, offset, mlir::OpFoldResult(rows));
  }
  /// The first value of a vector whose values are equal, where the condition holds.
  void storeOneIf(Value condition, Value vector, Value buffer, Value base) {
    Value count = b.choose(condition, b.index(1), b.index(0));
    Value to = b.view(buffer, b.extent(base), {mlir::OpFoldResult(count), b.fixed(1)},
                      {b.fixed(1), b.fixed(1)});
    b.store(b.broadcast(vector, kWidthMultiple), to, {b.index(0), b.index(0)});
  }
  /// The sum of all elements, in each row of the tile: what is summed over rows is
  /// summed over columns by adding up one row that holds all of it.
  Value sum(Value tile) {
    if (!hasNarrowRows())
      // All columns of these rows are equal.
      return b.reduceMax(
          b.broadcastRows(b.reduceSum(narrow(b.reduceSum(tile)), /*dim=*/0), tileRows));
    return b.reduceSum(b.broadcastRows(b.reduceSum(tile, /*dim=*/0), tileRows));
  }
  /// The largest element, likewise.
  Value most(Value tile) {
    if (!hasNarrowRows())
      tile = narrow(b.reduceMax(tile));
    return b.reduceMax(b.broadcastRows(b.reduceMax(tile, /*dim=*/0), tileRows));
  }
  Value broadcast(Value vector) { return b.broadcast(vector, columns); }

private:
  /// A row's columns are a vector of fewer elements than a tile has rows; wider rows are reduced
  /// first.
  bool hasNarrowRows() const { return columns < tileRows; }
  Value narrow(Value ofRows) { return b.broadcast(ofRows, kWidthMultiple); }
  Value view(Value buffer, Value base, int64_t offset, mlir::OpFoldResult rows) {
    return b.view(buffer, b.extent(base, offset), {rows, b.fixed(columns)},
                  {b.fixed(columns * stride), b.fixed(stride)});
  }
  void store(Value tile, Value buffer, Value base, int64_t offset, mlir::OpFoldResult rows) {
    b.storeNarrow(tile, view(buffer, base, offset, rows), {b.index(0), b.index(0)});
  }

  KernelBuilder &b;
  int64_t tileRows, width, columns, stride;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_ROWKERNEL_H
