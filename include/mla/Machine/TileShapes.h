//===- TileShapes.h - tile sizes per target ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything about a target that tile kernels, and the passes that decide on them, depend
// on. No size of a model is here: model sizes are padded up to tile sizes by the rule that
// loads give zero outside a view and stores drop.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_MACHINE_TILESHAPES_H
#define MLA_MACHINE_TILESHAPES_H

#include "mla/Machine/Targets.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>

namespace mlac {

/// Tile of a matrix product: `rows` x `columns` results, `depth` of the
/// contraction at a time.
struct MatmulTile {
  int64_t rows, columns, depth;
  bool operator==(const MatmulTile &) const = default;
};

/// Tile of the transpose of a product with at most `rows` rows: 64 columns of the
/// result by `rows`, `depth` of the contraction at a time.
struct SwappedTile {
  static constexpr int64_t kColumns = 64;
  int64_t rows, depth;

  /// What is taken at a time of a contraction of `width`: at most `depth`.
  int64_t blockDepth(int64_t width) const;
};

struct TileShapes {
  /// Products with at most `fewRowsLimit` rows use `few`, others `many`.
  MatmulTile few, many;
  int64_t fewRowsLimit;
  /// Ascending; products of up to the last one's rows are computed columns first.
  std::array<SwappedTile, 4> swapped;
  /// Whether products of more rows are computed by persistent programs where they can be
  /// (PersistentProduct.h); `many` is for the others.
  bool isProductPersistent;
  /// Whether launches may begin while the one before runs (tile.launch).
  bool overlapsLaunches;
  /// Rows of element-wise kernels, and columns they hold at a time: of one tile,
  /// and where two tiles are joined.
  int64_t rows, columns, joinedColumns;
  /// Of kernels that join few partials: how many they load together, and columns of each.
  /// On an H200 two of 32 columns beat four (1 to 3 % of a step with many short requests),
  /// and both beat 64 and 128 columns: what counts is many small units.
  int64_t turnPieces, turnColumns;
  /// Partials that are joined in such turns, at most.
  int64_t fewPieces;
  /// Rows of one query tile at most; `isRowCountFixed` says that fewer are not
  /// possible (wgmma has 64 rows).
  int64_t queryRows;
  bool isRowCountFixed;
  /// Keys of one step of an attention loop.
  int64_t keys;
  /// Whether attention over the cache is one persistent kernel over pieces that the
  /// runtime makes (tile.work), or has a program for each request and split.
  bool partitionsAttention;
  /// Largest width of an attention accumulator. Above `narrowColumns` it is a
  /// multiple of `wideMultiple`, so that warpgroups can share it evenly.
  int64_t maxAccumulatorColumns, narrowColumns, wideMultiple;
  /// Columns of a panel of latents (0: there are no panels), and rows at most of which one consumer
  /// has all columns.
  int64_t latentPanel, swappedLatentRows;
  /// Columns of latents at most where a request has one query and rows are no codes: its heads are
  /// cut into tiles whose accumulators fit all the same.
  int64_t maxDecodedLatent;
  /// Elements of the kernels that work on row vectors only.
  int64_t vectorRows;
  /// Programs that share the selection from one row where there are few rows, at most; and the
  /// longest row that has a kernel of its own, which is for many rows (0: one kernel for all).
  int64_t selectSlices, selectShortRow;

  /// Empty where products are always computed rows first.
  llvm::ArrayRef<SwappedTile> getSwapped() const {
    return swapped.front().rows == 0 ? llvm::ArrayRef<SwappedTile>() : swapped;
  }

  /// Rows of a tile for `available` rows, which may be fewer than `queryRows`.
  int64_t rowsFor(int64_t available) const;

  /// A tile's rows, where it is one row of the model, have whole groups of columns, which tiles in
  /// registers are made of, and at most so many: 128 registers of a thread.
  static constexpr int64_t kRowGroup = 8, kMostRowColumns = 256;
  /// Where a program has one row and a tile `rows` of them, a row of `width` elements is laid out
  /// as such a tile: its columns, or 0 where none can hold the row.
  int64_t foldedColumns(int64_t width) const;
  bool canHoldRow(int64_t width) const { return isRowCountFixed && foldedColumns(width) != 0; }
  /// Columns of tiles of which each holds a part of a row; 0 where there are none for all of them.
  int64_t foldedColumns(llvm::ArrayRef<int64_t> widths) const;
  bool canHoldRow(llvm::ArrayRef<int64_t> widths) const {
    return isRowCountFixed && foldedColumns(widths) != 0;
  }

  /// The channels of a head, of which `rotated` from `first` on are pairs.
  struct HeadChannels {
    int64_t columns, first, rotated;
  };
  /// Where a program has both elements of pairs, and the channels in front and behind, as tiles, a
  /// head is that many rows of each at most: a power of two, by which all are whole columns.
  int64_t mostFolds(const HeadChannels &head) const;
  /// Whether a program can have all channels of a head.
  bool canHoldHeads(const HeadChannels &head) const;

  /// The width of an accumulator, and of the tile of values it is formed from,
  /// for `width` columns.
  int64_t accumulatorWidth(int64_t width) const;

  /// The same for latents, which `rows` rows of a request share (0: any number). Above
  /// `latentPanel` columns they are whole panels of rows in memory, of codes of twice as many
  /// columns, and where there are more rows than `swappedLatentRows`, two consumers halve the
  /// panels.
  int64_t latentWidth(int64_t width, int64_t rows, bool hasCodes) const;

  static const TileShapes &get(TileTarget target);
};

/// Tile widths are multiples of this on every target: 16 is the K of one wgmma
/// with 16-bit operands and a full AVX-512 register of f32.
inline constexpr int64_t kWidthMultiple = 16;

/// Bytes that rows begin at multiples of, so that TMA can copy them ([PTX] "Tensors",
/// globalStrides).
inline constexpr int64_t kRowAlignment = 16;

/// Values of so many columns, and multiples of it, may be the side of a product with a tile's rows.
inline constexpr int64_t kValueColumns = 64;
/// Tiles of queries that share keys in one program (tile.side_by_side), each with its part of a
/// tile's rows.
inline constexpr int64_t kSides = 2;

/// `width` rounded up to a legal tile width.
inline int64_t paddedWidth(int64_t width) {
  return (width + kWidthMultiple - 1) / kWidthMultiple * kWidthMultiple;
}

/// The widest part that a program holds of rows of `columns` elements, and that divides them, or
/// 0. A warp of 16-byte accesses takes 128 columns of f32, a program of four warps two of them
/// for each part of a sum.
int64_t findRowBlock(const TileShapes &shapes, int64_t columns);

/// The widest tile of at most `limit` columns for blocks of `width` columns:
/// it divides `width` where it can without becoming less than a quarter of
/// `limit`, so that no block is partly outside.
int64_t blockWidth(int64_t width, int64_t limit);

} // namespace mlac

#endif // MLA_MACHINE_TILESHAPES_H
