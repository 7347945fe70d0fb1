//===- Channels.h - the channels of heads' rows that are rotated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two elements of every pair are two strided views of one row:
//
//     interleaved  a = x[0::2]        b = x[1::2]
//     half         a = x[0 : R/2]     b = x[R/2 : R]
//
// so that rotation is element-wise on [M, R/2] tiles. Where rows are wider than R, the channels
// before and behind are copied by a program of their own. Heads that are fewer than a tile has rows
// are folded, so that all threads have some of their pairs:
//
//     32 heads of 64 pairs   [64, 32]: pairs 0 .. 31 of head 0, pairs 32 .. 63, 0 .. 31 of head 1
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CHANNELS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CHANNELS_H

#include "Rows/Angles.h"

namespace mlac::mla_to_tile {

/// Rows of channels in a buffer, from element base + offset on.
struct ChannelRows {
  mlir::Value buffer, base;
  int64_t offset;
  mlir::OpFoldResult count; ///< what is behind them is neither read nor written
  int64_t rowStride, stride;
  /// Of rows that are stored as codes: the buffer of the layer's scales and which one is theirs,
  /// and the type that rows are rounded to first. Null: rows are as they are.
  mlir::Value scales = {};
  int64_t scale = 0;
  mlir::Type rounded = {};
};

/// What a program has of heads' rows; columns: pairs, where it rotates.
struct ChannelTile {
  int64_t rows, columns;
  mlir::Value row, column; ///< first head, and its first column
  int64_t groups = 1;      ///< rows of the tile that are one head's, `columns` of each

  /// Of at most `heads` heads from `first` on, and of the `width` columns of each at most `count`
  /// from `column` on.
  static ChannelTile ofHeads(const TileShapes &shapes, int64_t heads, int64_t width, int64_t count,
                             mlir::Value first, mlir::Value column);
  /// All `width` columns of such heads, a head as `groups` rows of the tile.
  static ChannelTile ofWhole(KernelBuilder &b, const TileShapes &shapes, int64_t heads,
                             int64_t width, int64_t groups, mlir::Value first);
  llvm::SmallVector<int64_t, 2> shape() const { return {rows, columns}; }
};

/// The heads, and the pairs of each, that a program rotates at most.
struct HeadShare {
  int64_t heads, columns;
  bool operator==(const HeadShare &) const = default;
};

struct RotatedChannels {
  int64_t first, half, columns; ///< `half` pairs from channel `first` on, of `columns` channels
  bool isInterleaved, isInverse;

  static RotatedChannels of(mlir::mla::RopeAttr rope, int64_t first, int64_t columns,
                            bool isInverse = false);
  /// A program's share of a token's `heads`: little, where tokens are too few programs, or as much
  /// as its registers hold, of whole heads if they can be.
  HeadShare littleOf(const TileShapes &shapes, int64_t heads) const;
  HeadShare muchOf(const TileShapes &shapes, int64_t heads) const;
  /// The same of heads all of whose channels a program has (canHoldHeads).
  HeadShare wholeLittle(const TileShapes &shapes, int64_t heads) const;
  HeadShare wholeMuch(const TileShapes &shapes, int64_t heads) const;
  /// The rows of a tile that one of `heads` such heads is.
  int64_t foldsOf(const TileShapes &shapes, int64_t heads) const;
  TileShapes::HeadChannels head() const { return {columns, first, 2 * half}; }
  bool hasRest() const { return 2 * half < columns; }
  /// Of the channels that are not rotated: the first, and how many follow it.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> rest() const;
  /// Programs of a tile of rows: for tiles of pairs and, if there are any, for the other channels.
  int64_t programs(int64_t tileColumns) const {
    return llvm::divideCeil(half, tileColumns) + (hasRest() ? 1 : 0);
  }

  void rotate(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
              llvm::function_ref<TilePair()> loadAngles, const ChannelTile &tile) const;
  /// The same in two steps: pairs as they are, and their rotation.
  TilePair load(KernelBuilder &b, const ChannelRows &from, const ChannelTile &tile) const;
  void store(KernelBuilder &b, const TilePair &loaded, const TilePair &angles,
             const ChannelRows &to, const ChannelTile &tile) const;
  /// Channels before and behind those that are rotated, at most `limit` at a time; `tileOf` says
  /// what a program has of `width` of them, `count` from `column` on.
  using TileOf = llvm::function_ref<ChannelTile(int64_t width, int64_t count, mlir::Value column)>;
  void copyRest(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to, TileOf tileOf,
                int64_t limit) const;
};

/// A tile of rows of `width` channels, from channel `begin` on, as they are.
mlir::Value loadChannels(KernelBuilder &b, const ChannelRows &from, const ChannelTile &tile,
                         int64_t width, int64_t begin = 0);
/// The same of a tile of their type or of f32.
void storeChannels(KernelBuilder &b, mlir::Value loaded, const ChannelRows &to,
                   const ChannelTile &tile, int64_t width, int64_t begin = 0);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CHANNELS_H
