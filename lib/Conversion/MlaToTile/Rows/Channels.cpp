//===- Channels.cpp - the channels of heads' rows that are rotated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/Channels.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Pairs of a head that a program rotates, where rows alone are too few programs.
static constexpr int64_t kColumnsOfProgram = 16;

RotatedChannels RotatedChannels::of(mla::RopeAttr rope, int64_t first, int64_t columns,
                                    bool isInverse) {
  return {first, rope.getDim() / 2, columns, rope.getOrder() == mla::RopeOrder::Interleaved,
          isInverse};
}

int64_t RotatedChannels::tileColumns(const TileShapes &shapes, bool hasHeads) const {
  bool isCut = hasHeads && shapes.isRowCountFixed;
  return isCut ? std::min(kColumnsOfProgram, paddedWidth(half)) : paddedWidth(half);
}

static Value viewChannels(KernelBuilder &b, const ChannelRows &rows, int64_t begin, int64_t count,
                          int64_t step = 1) {
  return b.view(rows.buffer, b.extent(rows.base, rows.offset + begin * rows.stride),
                {rows.count, b.fixed(count)},
                {b.fixed(rows.rowStride), b.fixed(step * rows.stride)});
}

TilePair RotatedChannels::pairs(KernelBuilder &b, const ChannelRows &rows) const {
  int64_t step = isInterleaved ? 2 : 1;
  Value a = viewChannels(b, rows, first, half, step);
  return {a, viewChannels(b, rows, first + (isInterleaved ? 1 : half), half, step)};
}

void RotatedChannels::rotate(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                             llvm::function_ref<TilePair()> loadAngles,
                             const ChannelTile &tile) const {
  TilePair source = pairs(b, from), target = pairs(b, to), angles = loadAngles();
  SmallVector<int64_t, 2> shape = {tile.rows, tile.columns};
  SmallVector<Value, 2> at = {tile.row, tile.column};
  Value a = b.loadWide(source.first, at, shape);
  Value other = b.loadWide(source.second, at, shape);
  TilePair rotated = mla_to_tile::rotate(b, {a, other}, angles, isInverse);
  b.storeNarrow(rotated.first, target.first, at);
  b.storeNarrow(rotated.second, target.second, at);
}

static void copy(KernelBuilder &b, Value from, Value to, const ChannelTile &tile) {
  SmallVector<Value, 2> at = {tile.row, tile.column};
  Value loaded = b.load(from, at, {tile.rows, tile.columns});
  if (getElementTypeOrSelf(to) == getElementTypeOrSelf(loaded))
    b.store(loaded, to, at);
  else // of f32, rounded like what is rotated
    b.storeNarrow(loaded, to, at);
}

void mlac::mla_to_tile::copyTile(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                                 const ChannelTile &tile, int64_t width) {
  copy(b, viewChannels(b, from, 0, width), viewChannels(b, to, 0, width), tile);
}

void RotatedChannels::copyRest(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                               const ChannelTile &tile, int64_t limit) const {
  for (auto [begin, end] : {std::pair(int64_t(0), first), {first + 2 * half, columns}}) {
    if (begin == end)
      continue;
    int64_t width = end - begin, block = blockWidth(width, limit);
    b.forBlocks(width, block, {}, [&, begin = begin](Value column, ValueRange) {
      copy(b, viewChannels(b, from, begin, width), viewChannels(b, to, begin, width),
           {tile.rows, block, tile.row, column});
      return SmallVector<Value>();
    });
  }
}
