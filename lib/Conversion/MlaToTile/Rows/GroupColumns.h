//===- GroupColumns.h - a row of groups, a column each ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row becomes codes in groups with one scale each. Groups are few and wide: as a tile's rows they
// would leave most of 64 rows empty (12 groups of 128 of a query's latent: 52). Here they are its
// columns, and a group has as many tiles as it has 64 elements:
//
//     tile t, row i, column g = element 64 t + i of group g
//
// All threads work, and what is reduced over rows is reduced over a group.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_GROUPCOLUMNS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_GROUPCOLUMNS_H

#include "Rows/RowKernel.h"

namespace mlac::mla_to_tile {

/// What a program says of a row of whole groups, which are whole tiles' columns.
class GroupColumns {
public:
  using Value = mlir::Value;
  using Tiles = mlir::SmallVector<Value, 2>;

  GroupColumns(StepLowering &step, KernelBuilder &b, int64_t width, int64_t group)
      : b(b), rows(step.shapes.rows), group(group), groups(width / group),
        columns(paddedWidth(groups)), whole(step, b, width, /*stride=*/1, columns) {
    assert(canHold(step.shapes, width, group) && "expected groups of whole tiles");
  }
  static bool canHold(const TileShapes &shapes, int64_t width, int64_t group) {
    return group != 0 && group % shapes.rows == 0 && width % group == 0 &&
           width / group <= shapes.rows;
  }

  /// From element `base + offset` of the buffer on.
  Tiles load(Value buffer, Value base, int64_t offset) {
    Tiles tiles;
    for (int64_t first = 0; first < group; first += rows)
      tiles.push_back(b.loadWide(view(buffer, base, offset + first, b.fixed(rows), 1, group),
                                 {b.index(0), b.index(0)}, {rows, columns}));
    return tiles;
  }
  /// Only where the condition holds, or, if it is null, in any case.
  void store(Value condition, llvm::ArrayRef<Value> tiles, Value buffer, Value base,
             int64_t offset) {
    for (auto [number, tile] : llvm::enumerate(tiles)) {
      int64_t first = offset + static_cast<int64_t>(number) * rows;
      b.store(tile, view(buffer, base, first, count(condition, rows), 1, group),
              {b.index(0), b.index(0)});
    }
  }
  /// Of a tile with equal rows the first one, `apart` elements from one group to the next.
  void storeOfGroups(Value condition, Value tile, Value buffer, Value base, int64_t apart) {
    b.store(tile, view(buffer, base, /*offset=*/0, count(condition, 1), 1, apart),
            {b.index(0), b.index(0)});
  }

  /// The sum of all elements, in each row.
  Value sum(llvm::ArrayRef<Value> tiles) {
    return whole.sum(join(tiles, [&](Value x, Value y) { return b.addf(x, y); }));
  }
  /// The largest magnitude of each group, in a tile with equal rows; NaN counts as none.
  Value largest(llvm::ArrayRef<Value> tiles) {
    auto sizes = llvm::map_to_vector(tiles, [&](Value tile) { return b.zeroNan(b.absf(tile)); });
    Value most = join(sizes, [&](Value x, Value y) { return b.maxf(x, y); });
    return b.broadcastRows(b.reduceMax(most, /*dim=*/0), rows);
  }
  /// A value of each row, in all columns.
  Value broadcast(Value vector) { return b.broadcast(vector, columns); }

private:
  static Value join(llvm::ArrayRef<Value> tiles,
                    llvm::function_ref<Value(Value, Value)> combine) {
    Value all = tiles.front();
    for (Value tile : tiles.drop_front())
      all = combine(all, tile);
    return all;
  }
  mlir::OpFoldResult count(Value condition, int64_t most) {
    if (!condition)
      return b.fixed(most);
    return b.choose(condition, b.index(most), b.index(0));
  }
  Value view(Value buffer, Value base, int64_t offset, mlir::OpFoldResult count, int64_t rowStride,
             int64_t columnStride) {
    return b.view(buffer, b.extent(base, offset), {count, b.fixed(groups)},
                  {b.fixed(rowStride), b.fixed(columnStride)});
  }

  KernelBuilder &b;
  int64_t rows, group, groups, columns;
  RowKernel whole;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_GROUPCOLUMNS_H
