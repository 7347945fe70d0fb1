//===- QueryRows.h - tiles of queries, by TMA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of queries is rows of a view that the host can map, or one of two kinds that only the
// kernel can place. Rows in groups (tile.load) are the heads of a run, token after token,
//
//     offset = run · run stride + start        [groups, G, width], of groups' stride, heads' stride
//
// so the map has all runs, [groups, runs, G, width], and the run is a coordinate. A box is as many
// groups as the tile has whole ones; rows behind them hold what was there and mean nothing. Heads
// of one token, where a tensor has its heads outermost in memory, are
//
//     offset = token · width + start           [heads, width], heads tokens · width apart
//
// so the map has all tokens, [tokens, heads, width], and the token is a coordinate. Rows behind the
// last head are zeros.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_QUERYROWS_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_QUERYROWS_H

#include "Common/LazyCloner.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

namespace mlac {

class QueryRows {
public:
  /// Whether TMA can copy what `load` loads.
  static bool canCopy(mlir::tile::LoadOp load);

  /// Whether it brings all rows of the tile.
  static bool canFill(mlir::tile::LoadOp load);

  /// At the kernel's entry; tiles have `rows` rows, and panels `columns` columns.
  QueryRows(mlir::OpBuilder &builder, LazyCloner &entry, mlir::tile::LoadOp load, int64_t rows,
            int64_t columns = mlir::sm90::kPanelColumns);

  mlir::Value getMap() const { return map; }
  /// Rows that a copy brings.
  int64_t getBoxRows() const { return boxRows; }
  /// Where the tile starts in the map, at the place that `cloner` is at.
  mlir::SmallVector<mlir::Value> getCoordinates(mlir::OpBuilder &builder, LazyCloner &cloner) const;

private:
  mutable mlir::tile::LoadOp load; // op accessors are not const
  mlir::Value map;
  int64_t boxRows;
};

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_QUERYROWS_H
