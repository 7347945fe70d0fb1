//===- HeadNorm.cpp - heads normalised and rotated in one program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/HeadNorm.h"

#include "Plan/Lowerings.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

NormedHeads::NormedHeads(KernelBuilder &b, const TileShapes &shapes,
                         const RotatedChannels &channels, int64_t heads, Value first)
    : b(b), shapes(shapes), channels(channels), heads(heads), first(first),
      tile(tileOf(channels.half)) {}

ChannelTile NormedHeads::tileOf(int64_t width) {
  return ChannelTile::ofWhole(b, shapes, heads, width, channels.foldsOf(shapes, heads), first);
}

NormedHeads::Tiles NormedHeads::loadRows(const ChannelRows &from) {
  Tiles tiles{channels.load(b, from, tile), {}};
  for (auto [begin, width] : channels.rest())
    tiles.rest.push_back(b.widen(loadChannels(b, from, tileOf(width), width, begin)));
  return tiles;
}

/// Of each row's head.
Value NormedHeads::sumSquares() {
  auto square = [&](Value x) { return b.mulf(x, x); };
  Value sum = b.reduceSum(b.addf(square(values.pairs.first), square(values.pairs.second)));
  for (Value x : values.rest)
    sum = b.addf(sum, b.reduceSum(square(x)));
  return b.sumGroups(sum, tile.groups);
}

void NormedHeads::normalise(Value gamma, int64_t offset, double eps) {
  Tiles gammas = loadRows({gamma, b.index(0), offset, count, /*rowStride=*/0, /*stride=*/1});
  Value factor = rmsScale(b, sumSquares(), channels.columns, RmsNorm{{}, {}, eps, 1});
  auto scale = [&](Value &x, Value weight) {
    Value factors = b.broadcast(factor, cast<RankedTensorType>(x.getType()).getDimSize(1));
    x = b.mulf(b.mulf(x, factors), weight);
  };
  scale(values.pairs.first, gammas.pairs.first);
  scale(values.pairs.second, gammas.pairs.second);
  for (auto [x, weight] : llvm::zip_equal(values.rest, gammas.rest))
    scale(x, weight);
}

void NormedHeads::store(const TilePair &angles, const ChannelRows &to) {
  channels.store(b, values.pairs, angles, to, tile);
  for (auto [x, run] : llvm::zip_equal(values.rest, channels.rest()))
    storeChannels(b, x, to, tileOf(run.second), run.second, run.first);
}
