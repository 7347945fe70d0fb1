//===- HeadNorm.h - heads normalised and rotated in one program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has all channels of its heads, as tiles of which a head is one row or several:
//
//     first elements of the pairs | second ones | channels in front | behind
//
// The rows' sums of squares are summed over the rows of a head (`tile.sum_groups`).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_HEADNORM_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_HEADNORM_H

#include "Rows/Channels.h"

namespace mlac::mla_to_tile {

/// Some heads of a token, from their load to their store.
class NormedHeads {
public:
  /// At most `heads` heads from `first` on; canHoldHeads of them.
  NormedHeads(KernelBuilder &b, const TileShapes &shapes, const RotatedChannels &channels,
              int64_t heads, mlir::Value first);

  void load(const ChannelRows &from) {
    count = from.count;
    values = loadRows(from);
  }
  /// By a gamma [channels], alike of all heads, from the buffer's `offset` on; f32 until the store.
  void normalise(mlir::Value gamma, int64_t offset, double eps);
  void store(const TilePair &angles, const ChannelRows &to);
  /// The tile of the heads' pairs.
  const ChannelTile &pairs() const { return tile; }

private:
  struct Tiles {
    TilePair pairs;
    llvm::SmallVector<mlir::Value, 2> rest;
  };
  Tiles loadRows(const ChannelRows &from);
  ChannelTile tileOf(int64_t width);
  mlir::Value sumSquares();

  KernelBuilder &b;
  const TileShapes &shapes;
  const RotatedChannels &channels;
  int64_t heads;
  mlir::Value first;
  ChannelTile tile;
  mlir::OpFoldResult count;
  Tiles values;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_HEADNORM_H
