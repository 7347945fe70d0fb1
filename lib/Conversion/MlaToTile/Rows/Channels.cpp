//===- Channels.cpp - the channels of heads' rows that are rotated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/Channels.h"

#include "Rows/Codes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
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

static TilePair loadPairs(KernelBuilder &b, const TilePair &views, const ChannelTile &tile) {
  SmallVector<int64_t, 2> shape = {tile.rows, tile.columns};
  SmallVector<Value, 2> at = {tile.row, tile.column};
  Value first = b.loadWide(views.first, at, shape);
  return {first, b.loadWide(views.second, at, shape)};
}

/// Stores f32 to a view of `to`, as its rows are.
static void storeWide(KernelBuilder &b, Value wide, Value view, const ChannelRows &to,
                      const ChannelTile &tile) {
  SmallVector<Value, 2> at = {tile.row, tile.column};
  if (!to.scales)
    return b.storeNarrow(wide, view, at);
  // Here, behind what a dependent launch waits for before it loads tiles.
  Value scale = memref::LoadOp::create(b, to.scales, b.index(to.scale));
  Value rows = b.widen(b.narrow(wide, to.rounded));
  b.store(divideToCodes(b, rows, b.splat(scale, tile.rows)), view, at);
}

void RotatedChannels::storeRotated(KernelBuilder &b, const TilePair &loaded, const TilePair &angles,
                                   const ChannelRows &to, const ChannelTile &tile) const {
  TilePair rotated = mla_to_tile::rotate(b, loaded, angles, isInverse), target = pairs(b, to);
  storeWide(b, rotated.first, target.first, to, tile);
  storeWide(b, rotated.second, target.second, to, tile);
}

void RotatedChannels::rotate(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                             llvm::function_ref<TilePair()> loadAngles,
                             const ChannelTile &tile) const {
  TilePair source = pairs(b, from), angles = loadAngles();
  storeRotated(b, loadPairs(b, source, tile), angles, to, tile);
}

TilePair RotatedChannels::load(KernelBuilder &b, const ChannelRows &from,
                               const ChannelTile &tile) const {
  return loadPairs(b, pairs(b, from), tile);
}

void RotatedChannels::store(KernelBuilder &b, const TilePair &loaded, const TilePair &angles,
                            const ChannelRows &to, const ChannelTile &tile) const {
  storeRotated(b, loaded, angles, to, tile);
}

Value mlac::mla_to_tile::loadChannels(KernelBuilder &b, const ChannelRows &from,
                                      const ChannelTile &tile, int64_t width) {
  return b.load(viewChannels(b, from, 0, width), {tile.row, tile.column},
                {tile.rows, tile.columns});
}

static void storeTile(KernelBuilder &b, Value loaded, Value view, const ChannelRows &to,
                      const ChannelTile &tile) {
  if (getElementTypeOrSelf(view) == getElementTypeOrSelf(loaded))
    b.store(loaded, view, {tile.row, tile.column});
  else // of f32, rounded like what is rotated, or codes
    storeWide(b, b.widen(loaded), view, to, tile);
}

void mlac::mla_to_tile::storeChannels(KernelBuilder &b, Value loaded, const ChannelRows &to,
                                      const ChannelTile &tile, int64_t width) {
  storeTile(b, loaded, viewChannels(b, to, 0, width), to, tile);
}

void RotatedChannels::copyRest(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                               const ChannelTile &tile, int64_t limit) const {
  for (auto [begin, end] : {std::pair(int64_t(0), first), {first + 2 * half, columns}}) {
    if (begin == end)
      continue;
    int64_t width = end - begin, block = blockWidth(width, limit);
    b.forBlocks(width, block, {}, [&, begin = begin](Value column, ValueRange) {
      ChannelTile part{tile.rows, block, tile.row, column};
      Value source = viewChannels(b, from, begin, width);
      Value loaded = b.load(source, {part.row, part.column}, {part.rows, part.columns});
      storeTile(b, loaded, viewChannels(b, to, begin, width), to, part);
      return SmallVector<Value>();
    });
  }
}
