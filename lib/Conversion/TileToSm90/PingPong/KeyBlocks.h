//===- KeyBlocks.h - blocks of keys or values, wherever they lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What TMA copies: rows of a view that are one box (DenseRows.h), or boxes of pages
// (PagedTiles.h). Where a block lies is found before there is room for it, since a block
// table is in memory.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_KEYBLOCKS_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_KEYBLOCKS_H

#include "Common/DenseRows.h"
#include "Common/PagedTiles.h"
#include "Common/QueryRows.h"

namespace mlac::pingpong {

/// Of queries, too, where rows may be in groups.
class KeyBlocks {
public:
  /// Whether TMA can copy blocks of `attend`'s `view`; if not, `why` says what stands against it.
  static bool canCopy(mlir::tile::AttendOp attend, mlir::Value view, std::string &why);
  /// The same of a tile of queries.
  static bool canCopyQueries(mlir::tile::LoadOp load, std::string &why);

  /// What `load` (tile.load or load_paged) loads, in blocks of `rows`. At the kernel's entry.
  /// Precondition: canCopy.
  KeyBlocks(mlir::OpBuilder &builder, LazyCloner &entry, mlir::Operation *load, int64_t rows);

  /// Computes what of pages does not depend on the block. What loads of it is not hoisted later,
  /// as all of dense rows is.
  void hoist(LazyCloner &cloner) const {
    if (!rows && !groups)
      pages.hoist(cloner);
  }

  /// Where the block lies that `cloner` is at, of rows that are all there if `isInside`.
  struct Place {
    mlir::SmallVector<mlir::Value> coordinates; // of dense rows, or in groups
    PagedTiles::Block boxes;
  };
  Place find(mlir::OpBuilder &builder, LazyCloner &cloner, bool isInside) const;
  /// Copies it to `target`, which completes the ring's stage.
  void copy(mlir::OpBuilder &builder, const Place &place, mlir::Value target, mlir::Value ring,
            mlir::Value stage) const;
  /// Rows of the request, a value of the tile kernel.
  mlir::Value getRowCount() const;

private:
  mlir::Operation *load;
  std::optional<DenseRows> rows;
  std::optional<QueryRows> groups;
  mlir::Value map; // of `rows`
  PagedTiles pages;
};

} // namespace mlac::pingpong

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_KEYBLOCKS_H
