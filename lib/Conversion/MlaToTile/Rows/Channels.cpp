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

/// Pairs of a head that a program rotates, where heads alone are too few programs.
static constexpr int64_t kColumnsOfProgram = 16;

/// Columns of a tile of pairs at most: of both elements, cosine and sine a thread has 16 then. Where
/// heads cannot be folded into such tiles, wider ones beat parts of heads: 24/8 heads of 96, 8192
/// tokens 54.9 us with 48 columns, 75.6 with 32.
static constexpr int64_t kColumnsOfTile = 32, kColumnsOfWideTile = 48;

//===----------------------------------------------------------------------===//
// Tiles of heads
//===----------------------------------------------------------------------===//

RotatedChannels RotatedChannels::of(mla::RopeAttr rope, int64_t first, int64_t columns,
                                    bool isInverse) {
  return {first, rope.getDim() / 2, columns, rope.getOrder() == mla::RopeOrder::Interleaved,
          isInverse};
}

HeadShare RotatedChannels::littleOf(const TileShapes &shapes, int64_t heads) const {
  int64_t all = paddedWidth(half);
  return {shapes.rowsFor(heads), shapes.isRowCountFixed ? std::min(kColumnsOfProgram, all) : all};
}

HeadShare RotatedChannels::muchOf(const TileShapes &shapes, int64_t heads) const {
  int64_t rows = shapes.rowsFor(heads), columns = half, groups = 1;
  if (!shapes.isRowCountFixed)
    return {rows, paddedWidth(half)};
  for (; columns > kColumnsOfTile && columns % (2 * kWidthMultiple) == 0; columns /= 2)
    groups *= 2;
  // Parts of heads touch half a line of memory: 64/8 heads of 128, 8192 tokens 0.77 of a copy where
  // whole ones of 32/8 took 0.95.
  if (columns > kColumnsOfTile) {
    int64_t parts = llvm::divideCeil(half, kColumnsOfWideTile);
    return {rows, paddedWidth(llvm::divideCeil(half, parts))};
  }
  return {rows / groups, paddedWidth(half)};
}

SmallVector<std::pair<int64_t, int64_t>, 2> RotatedChannels::rest() const {
  SmallVector<std::pair<int64_t, int64_t>, 2> runs;
  int64_t behind = first + 2 * half;
  for (auto [begin, width] : {std::pair(int64_t(0), first), {behind, columns - behind}})
    if (width != 0)
      runs.push_back({begin, width});
  return runs;
}

HeadShare RotatedChannels::wholeLittle(const TileShapes &shapes, int64_t heads) const {
  return {shapes.rowsFor(heads) / shapes.mostFolds(head()), paddedWidth(half)};
}

HeadShare RotatedChannels::wholeMuch(const TileShapes &shapes, int64_t heads) const {
  int64_t most = shapes.mostFolds(head()), folds = 1;
  while (folds < most && half / folds > kColumnsOfTile)
    folds *= 2;
  return {shapes.rowsFor(heads) / folds, paddedWidth(half)};
}

int64_t RotatedChannels::foldsOf(const TileShapes &shapes, int64_t heads) const {
  int64_t folds = shapes.mostFolds(head());
  while (folds > 1 && folds * heads > shapes.rowsFor(heads))
    folds /= 2;
  return folds;
}

ChannelTile ChannelTile::ofWhole(KernelBuilder &b, const TileShapes &shapes, int64_t heads,
                                 int64_t width, int64_t groups, Value first) {
  return {shapes.rowsFor(heads), paddedWidth(width) / groups, first, b.index(0), groups};
}

ChannelTile ChannelTile::ofHeads(const TileShapes &shapes, int64_t heads, int64_t width,
                                 int64_t count, Value first, Value column) {
  count = std::min(count, width);
  ChannelTile tile{shapes.rowsFor(heads), paddedWidth(count), first, column};
  auto canFold = [&](int64_t groups) {
    return groups * heads <= tile.rows && count % (groups * kWidthMultiple) == 0;
  };
  // A last tile of fewer columns would end within a group.
  while (shapes.isRowCountFixed && width % count == 0 && canFold(2 * tile.groups))
    tile.groups *= 2;
  if (tile.groups > 1)
    tile.columns = count / tile.groups;
  return tile;
}

namespace {
/// Where a tile's columns of rows are: those of [begin, begin + count), `step` apart.
struct TilePlace {
  Value view;
  SmallVector<Value, 2> at;

  TilePlace(KernelBuilder &b, const ChannelRows &rows, const ChannelTile &tile, int64_t begin,
            int64_t count, int64_t step = 1) {
    int64_t stride = step * rows.stride, first = rows.offset + begin * rows.stride;
    if (tile.groups == 1) {
      view = b.view(rows.buffer, b.extent(rows.base, first), {rows.count, b.fixed(count)},
                    {b.fixed(rows.rowStride), b.fixed(stride)});
      at = {tile.row, tile.column};
      return;
    }
    Value base = b.add(rows.base, b.mul(tile.column, stride));
    view = b.view(rows.buffer, b.extent(base, first),
                  {rows.count, b.fixed(tile.groups), b.fixed(tile.columns)},
                  {b.fixed(rows.rowStride), b.fixed(tile.columns * stride), b.fixed(stride)});
    at = {b.mul(tile.row, tile.groups), b.index(0)};
  }
};

struct PlacePair {
  TilePlace first, second;

  PlacePair(KernelBuilder &b, const RotatedChannels &channels, const ChannelRows &rows,
            const ChannelTile &tile)
      : first(placeAt(b, channels, rows, tile, 0)),
        second(placeAt(b, channels, rows, tile, channels.isInterleaved ? 1 : channels.half)) {}

private:
  static TilePlace placeAt(KernelBuilder &b, const RotatedChannels &channels,
                           const ChannelRows &rows, const ChannelTile &tile, int64_t behind) {
    return TilePlace(b, rows, tile, channels.first + behind, channels.half,
                     channels.isInterleaved ? 2 : 1);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

/// f32 as the elements of `to`, as its rows are.
static Value narrowFor(KernelBuilder &b, Value wide, const ChannelRows &to) {
  if (!to.scales)
    return b.narrow(wide, getElementTypeOrSelf(to.buffer));
  // Here, behind what a dependent launch waits for before it loads tiles.
  Value scale = memref::LoadOp::create(b, to.scales, b.index(to.scale));
  return toLayerCodes(b, wide, to.rounded, scale);
}

void RotatedChannels::rotate(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                             llvm::function_ref<TilePair()> loadAngles,
                             const ChannelTile &tile) const {
  TilePair angles = loadAngles();
  store(b, load(b, from, tile), angles, to, tile);
}

TilePair RotatedChannels::load(KernelBuilder &b, const ChannelRows &from,
                               const ChannelTile &tile) const {
  PlacePair places(b, *this, from, tile);
  Value first = b.loadWide(places.first.view, places.first.at, tile.shape());
  return {first, b.loadWide(places.second.view, places.second.at, tile.shape())};
}

/// Both are made before either is stored: what is beside each other is one store then.
void RotatedChannels::store(KernelBuilder &b, const TilePair &loaded, const TilePair &angles,
                            const ChannelRows &to, const ChannelTile &tile) const {
  TilePair rotated = mla_to_tile::rotate(b, loaded, angles, isInverse);
  PlacePair places(b, *this, to, tile);
  Value first = narrowFor(b, rotated.first, to), second = narrowFor(b, rotated.second, to);
  b.store(first, places.first.view, places.first.at);
  b.store(second, places.second.view, places.second.at);
}

Value mlac::mla_to_tile::loadChannels(KernelBuilder &b, const ChannelRows &from,
                                      const ChannelTile &tile, int64_t width, int64_t begin) {
  TilePlace place(b, from, tile, begin, width);
  return b.load(place.view, place.at, tile.shape());
}

static void storeTile(KernelBuilder &b, Value loaded, const TilePlace &place,
                      const ChannelRows &to) {
  // Of f32, rounded like what is rotated, or codes.
  if (getElementTypeOrSelf(place.view) != getElementTypeOrSelf(loaded))
    loaded = narrowFor(b, b.widen(loaded), to);
  b.store(loaded, place.view, place.at);
}

void mlac::mla_to_tile::storeChannels(KernelBuilder &b, Value loaded, const ChannelRows &to,
                                      const ChannelTile &tile, int64_t width, int64_t begin) {
  storeTile(b, loaded, TilePlace(b, to, tile, begin, width), to);
}

void RotatedChannels::copyRest(KernelBuilder &b, const ChannelRows &from, const ChannelRows &to,
                               TileOf tileOf, int64_t limit) const {
  for (auto [begin, width] : rest()) {
    int64_t block = blockWidth(width, limit);
    b.forBlocks(width, block, {}, [&, begin = begin, width = width](Value column, ValueRange) {
      ChannelTile part = tileOf(width, block, column);
      TilePlace source(b, from, part, begin, width);
      storeTile(b, b.load(source.view, source.at, part.shape()),
                TilePlace(b, to, part, begin, width), to);
      return SmallVector<Value>();
    });
  }
}
