//===- ProductCost.cpp - tiles of matrix products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductCost.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlac;

/// Tiles are whole panels of shared memory (TMA stores them), and as wide as one wgmma at
/// most. A tail's divide them.
static constexpr ProductTiles kTiles[] = {{256, 128}, {256, 64}, {256, 0}, {192, 64},
                                          {192, 0},   {128, 64}, {128, 0}, {64, 0}};

/// The numbers of rows that tiles are chosen for.
static constexpr int64_t kRows[] = {256, 512, 1024, 2048, 4096, 8192};

static constexpr int64_t kElementBytes = 2;

static double predictTileCycles(const ProductShape &shape, int64_t columns,
                                const SmDescription &sm) {
  auto steps = static_cast<double>(llvm::divideCeil(shape.depth, kProductDepth));
  auto area = static_cast<double>(kProductTileRows * columns);
  double tensor = 2 * area * kProductDepth / sm.tensorFlopsPerClock;
  double load = static_cast<double>((kProductTileRows + columns) * kProductDepth * kElementBytes) /
                sm.l2BytesPerClock;
  // Written by the threads, read by the copy engine.
  double store = 2 * area * kElementBytes / sm.sharedBytesPerClock + 2 * sm.handoverCycles;
  return steps * std::max(tensor, load) + store;
}

double mlac::predictProductCycles(const ProductShape &shape, int64_t rows,
                                  const ProductTiles &tiles, const TargetDescription &target) {
  auto count = static_cast<int64_t>(llvm::divideCeil(rows, kProductTileRows) *
                                    llvm::divideCeil(shape.columns, tiles.columns)) *
               shape.batch;
  int64_t turns = count / target.numSms, rest = count % target.numSms;
  double tile = predictTileCycles(shape, tiles.columns, target.sm);
  double cycles = static_cast<double>(turns) * tile + target.sm.loadLatencyCycles;
  if (rest == 0)
    return cycles;
  if (tiles.tailColumns == 0 || rest * (tiles.columns / tiles.tailColumns) > target.numSms)
    return cycles + tile;
  // The tail is a launch of its own.
  double launch = turns == 0 ? 0 : target.sm.loadLatencyCycles;
  return cycles + launch + predictTileCycles(shape, tiles.tailColumns, target.sm);
}

/// The least time, as multiples of the best tiles' for each number of rows.
ProductTiles mlac::chooseProductTiles(const ProductShape &shape, const TargetDescription &target) {
  auto predict = [&](int64_t rows, const ProductTiles &tiles) {
    // No tile reaches from one part of a batch into the next.
    bool fits = shape.batch == 1 || shape.columns % tiles.columns == 0;
    return fits ? predictProductCycles(shape, rows, tiles, target)
                : std::numeric_limits<double>::infinity();
  };
  auto judge = [&](const ProductTiles &tiles) {
    double sum = 0;
    for (int64_t rows : kRows) {
      double best = std::numeric_limits<double>::infinity();
      for (const ProductTiles &other : kTiles)
        best = std::min(best, predict(rows, other));
      sum += predict(rows, tiles) / best;
    }
    return sum;
  };
  return *std::min_element(
      std::begin(kTiles), std::end(kTiles),
      [&](const ProductTiles &a, const ProductTiles &b) { return judge(a) < judge(b); });
}
