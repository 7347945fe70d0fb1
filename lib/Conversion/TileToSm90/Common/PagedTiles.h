//===- PagedTiles.h - blocks of a paged cache in shared memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of keys is one box of a page, or several where pages are smaller than
// blocks. Entries of the block table behind the request's end are not read: the
// boxes there repeat the last page, and what they bring is masked or zeroed.
//
// Where rows have several heads, boxes have the columns of one: whole panels, or the part of one
// that the head has.
//
// Pages that boxes do not fit into are copied row by row, by all threads of a role, and so are
// rows by a list.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_PAGEDTILES_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_PAGEDTILES_H

#include "Common/LazyCloner.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlac {

/// Whether the host can make a tensor map of `view`: a reinterpret_cast of a
/// kernel argument by constants, arguments and arguments times constants, with
/// innermost stride 1 and no constant that is no multiple of 16 bytes.
bool canMapView(mlir::Value view);

/// A tensor map of `view` (of the tile kernel) whose boxes have `rows` rows and
/// `columns` columns, whole panels. Must be called at the kernel's entry.
mlir::Value createTensorMap(mlir::OpBuilder &builder, LazyCloner &cloner, mlir::Value view,
                            int64_t rows, int64_t columns = mlir::sm90::kPanelColumns);

/// A paged load of [block, width] tiles whose blocks TMA can copy.
class PagedTiles {
public:
  /// Rows of one box, or 0 if TMA cannot copy blocks of `block` rows of this pool, or those
  /// of this load.
  static int64_t getBoxRows(mlir::Value pool, int64_t block);
  static int64_t getBoxRows(mlir::Operation *load);

  PagedTiles() = default;
  /// At the kernel's entry. `columns` is what `copy` copies by one instruction where
  /// a block is one box; 0: a panel. `block`: rows of a block; 0: those of the load.
  PagedTiles(mlir::OpBuilder &builder, LazyCloner &cloner, mlir::tile::LoadPagedOp load,
             int64_t columns = 0, int64_t block = 0);

  /// Boxes of one block.
  int64_t countBoxes() const;

  /// Computes what does not depend on the block at the place that `cloner` is at: later finds
  /// read it there.
  void hoist(LazyCloner &cloner) const;

  /// Where the boxes of the block that `cloner` is at lie: a page for each, and the
  /// row of the first (all others start pages). Reads the block table.
  struct Block {
    mlir::SmallVector<mlir::Value> pages;
    mlir::Value row;
    mlir::Value column; // of the head in rows of several; null: 0
    mlir::Value head;   // where heads are a dimension; null: they are not
  };
  /// `isInside`: all of the block's rows are there, so that no entry has to be asked for.
  Block find(mlir::OpBuilder &builder, LazyCloner &cloner, bool isInside = false) const;

  /// Bytes that `copy` brings to `target`.
  int64_t countBytes(mlir::Value target) const;

  /// Copies the columns from `column` on to `target`; they complete `part` of
  /// the ring's stage.
  void copy(mlir::OpBuilder &builder, mlir::Location loc, const Block &block, int64_t column,
            mlir::Value target, mlir::Value ring, mlir::Value stage, int32_t part) const;

  /// Whether the last panel of a head is part of one, behind which `copy` writes zeros. A box that
  /// goes on behind the head takes longer: of heads of 96 columns all copies together 1.4 times as
  /// long as those of whole boxes (one H100, docs/lab/grouped.md).
  bool hasRest() const { return static_cast<bool>(restMap); }
  /// The same for a target that `copy` has written before: those zeros stay, so that boxes end with
  /// the head.
  int64_t countBytesAgain(mlir::Value target) const;
  void copyAgain(mlir::OpBuilder &builder, mlir::Location loc, const Block &block, int64_t column,
                 mlir::Value target, mlir::Value ring, mlir::Value stage, int32_t part) const;

private:
  void copyBoxes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value boxes,
                 const Block &block, int64_t column, mlir::Value target, mlir::Value ring,
                 mlir::Value stage, int32_t part) const;
  /// What a target has of whole panels and of the last one.
  struct Ends {
    mlir::sm90::SmemType whole, rest; // null: none
  };
  Ends split(mlir::Value target) const;

  mutable mlir::tile::LoadPagedOp load; // op accessors are not const
  int64_t block = 0, boxRows = 0;
  mlir::Value map, restMap;
};

/// Copies the columns of `load`, of pages or of rows by a list, from `column` on, row by row, by
/// all threads of the role, to `target`; rows that are not there become zeros. A copy_publish of
/// every thread completes it.
void copyKeyRows(mlir::OpBuilder &builder, LazyCloner &cloner, mlir::Operation *load,
                 int64_t column, mlir::Value target);

/// Operands with scales of rows are so many times what codes stand for: groups whose largest
/// element is 1.7e-3 (a scale of 2^-18) or more keep all of f16's digits, and the largest element
/// is 65504 / 16 = 4094. Latents are normalised: of 512 columns none is above 22.6 times its
/// weight.
inline constexpr float kCodeFactor = 16;

/// The scale of each row of codes that `load` loads, in its first column; 0 where there is no row.
/// At the place that `cloner` is at, whose tiles are of one warpgroup.
mlir::Value loadRowScales(mlir::ImplicitLocOpBuilder &b, LazyCloner &cloner, mlir::Operation *load);

/// Copies the scales of all groups of columns, which lie one behind the other, of each row of codes to
/// `target`, a linear tile of f32 with a row for each; zeros where there is no row. `load` is that of
/// the first group's. By all threads.
void copyRowScales(mlir::ImplicitLocOpBuilder &b, LazyCloner &cloner, mlir::Operation *load,
                   mlir::Value target);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_PAGEDTILES_H
