//===- ProductCost.cpp - tiles of matrix products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductCost.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlac;

/// Tiles are whole panels of shared memory (TMA stores them), and as wide as one wgmma at
/// most. A tail's divide them.
static constexpr ProductTiles kTiles[] = {{256, 128}, {256, 64}, {256, 0}, {192, 64},
                                          {192, 0},   {128, 64}, {128, 0}, {64, 0}};

static constexpr int64_t kElementBytes = 2;

/// Bytes of a weight and of an activation in memory.
static int64_t getWeightBytes(const ProductShape &shape) {
  return shape.operands == ProductOperands::Values ? kElementBytes : 1;
}
static int64_t getActivationBytes(const ProductShape &shape) {
  return shape.operands == ProductOperands::Codes ? 1 : kElementBytes;
}

/// Codes are multiplied at twice the rate (PTX ISA: m64nNk32 takes what m64nNk16 of 16 bits does).
static double getTensorRate(const ProductShape &shape, const SmDescription &sm) {
  return shape.operands == ProductOperands::Codes ? 2 * sm.tensorFlopsPerClock
                                                  : sm.tensorFlopsPerClock;
}

/// Threads write a tile, the copy engine reads it.
static double predictStoreCycles(int64_t columns, const SmDescription &sm) {
  auto area = static_cast<double>(kProductTileRows * columns);
  return 2 * area * kElementBytes / sm.sharedBytesPerClock + 2 * sm.handoverCycles;
}

static double predictTileCycles(const ProductShape &shape, int64_t columns,
                                const SmDescription &sm) {
  auto steps = static_cast<double>(llvm::divideCeil(shape.depth, kProductDepth));
  auto area = static_cast<double>(kProductTileRows * columns);
  double tensor = 2 * area * kProductDepth / getTensorRate(shape, sm);
  auto bytes = kProductTileRows * getActivationBytes(shape) + columns * getWeightBytes(shape);
  double load = static_cast<double>(bytes * kProductDepth) / sm.l2BytesPerClock;
  return steps * std::max(tensor, load) + predictStoreCycles(columns, sm);
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
    bool fits = tiles.columns <= shape.mostColumns &&
                (shape.batch == 1 || shape.columns % tiles.columns == 0);
    return fits ? predictProductCycles(shape, rows, tiles, target)
                : std::numeric_limits<double>::infinity();
  };
  auto judge = [&](const ProductTiles &tiles) {
    double sum = 0;
    for (int64_t rows : target.tuning.productRows) {
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

//===----------------------------------------------------------------------===//
// Few rows
//===----------------------------------------------------------------------===//

/// Whether parts of the depth are whole blocks of every tile.
static bool canCutDepth(const ProductShape &shape, int64_t parts, const TileShapes &tiles) {
  return llvm::all_of(tiles.getSwapped(), [&](const SwappedTile &tile) {
    return shape.depth % (parts * tile.blockDepth(shape.depth)) == 0;
  });
}

static int64_t countPrograms(const ProductShape &shape, int64_t parts) {
  auto tiles = static_cast<int64_t>(llvm::divideCeil(shape.columns, SwappedTile::kColumns));
  return tiles * shape.batch * parts;
}

int64_t mlac::chooseDepthParts(const ProductShape &shape, const TileShapes &tiles,
                               const TargetDescription &target) {
  if (tiles.getSwapped().empty())
    return 1;
  int64_t best = 1;
  for (int64_t parts = 1; parts <= target.tuning.depthParts; ++parts) {
    if (canCutDepth(shape, parts, tiles))
      best = parts;
    if (countPrograms(shape, best) >= target.tuning.busyPrograms)
      break;
  }
  return best;
}

bool mlac::isTooNarrow(const ProductShape &shape, const TargetDescription &target) {
  return countPrograms(shape, /*parts=*/1) < target.tuning.busyPrograms;
}

int64_t mlac::balanceDepthParts(const ProductShape &shape, int64_t parts, const TileShapes &tiles,
                                const TargetDescription &target) {
  auto depthOfTurns = [&](int64_t count) {
    auto turns = static_cast<int64_t>(
        llvm::divideCeil(countPrograms(shape, count), static_cast<int64_t>(target.numSms)));
    return turns * shape.depth / count;
  };
  int64_t best = parts;
  for (int64_t more = parts + 1; more <= target.tuning.depthParts; ++more)
    if (canCutDepth(shape, more, tiles) && depthOfTurns(more) < depthOfTurns(best))
      best = more;
  return best;
}

//===----------------------------------------------------------------------===//
// One row tile
//===----------------------------------------------------------------------===//

/// Tiles that TMA stores are whole panels; f32 parts are stored by threads.
static constexpr int64_t kPanelColumns = 64, kColumnStep = 16, kMaxColumns = 256;

/// Under copies, not products: 64 programs of 128 rows of 4096 x 8192, which read 435 clocks a step
/// from L2, took 35.6 us with their launch (one H100, docs/lab/products.md).
static constexpr double kCopyClockGhz = 1.76;

/// Sums of parts are written and read at the rate of a copy: one H100, 128 rows of 4096 x 8192,
/// takes 31.7 us in two parts of 64 columns and 34.7 in four of 128 (docs/lab/products.md).
static double predictSumCycles(const ProductShape &shape, int64_t parts,
                               const TargetDescription &target) {
  constexpr int64_t sumBytes = 4;
  auto bytes = static_cast<double>((2 * parts * sumBytes + kElementBytes) * kProductTileRows *
                                   shape.columns);
  return (target.launchMicroseconds * 1e3 + bytes / target.copyGbps) * kCopyClockGhz +
         target.sm.loadLatencyCycles;
}

namespace {
/// A row tile's programs.
struct Turns {
  int64_t programs, count;
};
} // namespace

static Turns countTurns(const ProductShape &shape, const RowTile &tile,
                        const TargetDescription &target) {
  auto tiles = static_cast<int64_t>(llvm::divideCeil(shape.columns, tile.columns));
  int64_t programs = tiles * shape.batch * tile.parts;
  return {programs, static_cast<int64_t>(llvm::divideCeil(programs, target.numSms))};
}

/// Clocks of a program's copies and products, over all of its turns.
static double predictProgramCycles(const ProductShape &shape, const RowTile &tile,
                                   const TargetDescription &target) {
  ProductShape part = shape;
  part.depth /= tile.parts;
  return static_cast<double>(countTurns(shape, tile, target).count) *
         predictTileCycles(part, tile.columns, target.sm);
}

/// Clocks in which the weights come from memory. Fewer programs than keep the machine busy, on
/// average over the turns, do not take all of its bandwidth.
static double predictWeightReads(const ProductShape &shape, const RowTile &tile,
                                 const TargetDescription &target) {
  auto bytes =
      static_cast<double>(shape.columns * shape.depth * shape.batch * getWeightBytes(shape));
  Turns turns = countTurns(shape, tile, target);
  double busy = static_cast<double>(turns.programs) / static_cast<double>(turns.count);
  double share = std::min(1.0, busy / static_cast<double>(target.tuning.busyPrograms));
  return bytes / target.readGbps * kCopyClockGhz / share;
}

double mlac::predictRowTileCycles(const ProductShape &shape, const RowTile &tile,
                                  const TargetDescription &target) {
  // Nothing is read behind the last tile.
  double memory =
      predictWeightReads(shape, tile, target) + predictStoreCycles(tile.columns, target.sm);
  double cycles =
      target.sm.loadLatencyCycles + std::max(memory, predictProgramCycles(shape, tile, target));
  return tile.parts == 1 ? cycles : cycles + predictSumCycles(shape, tile.parts, target);
}

RowTile mlac::chooseRowTile(const ProductShape &shape, bool mayCut,
                            const TargetDescription &target) {
  RowTile best;
  auto judge = [&](const RowTile &tile) { // where memory bounds both, that with less to copy
    return std::make_pair(predictRowTileCycles(shape, tile, target),
                          predictProgramCycles(shape, tile, target));
  };
  for (int64_t parts = 1; parts <= (mayCut ? target.tuning.rowTileParts : 1); ++parts) {
    if (shape.depth % (parts * kProductDepth) != 0)
      continue;
    int64_t step = parts == 1 ? kPanelColumns : kColumnStep;
    for (int64_t columns = kPanelColumns; columns <= kMaxColumns; columns += step) {
      // No tile reaches from one part of a batch into the next.
      bool fits =
          columns <= shape.mostColumns && (shape.batch == 1 || shape.columns % columns == 0);
      if (fits && judge({columns, parts}) < judge(best))
        best = {columns, parts};
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Weights of codes
//===----------------------------------------------------------------------===//

/// Clocks in which two warpgroups turn 64 x 256 codes into operands: two warps on each scheduler,
/// of 240 instructions for 64 x 128 (docs/lab/products.md).
static constexpr double kTurnCycles = 480;
static constexpr int64_t kTurnDepth = 256;

/// What writing values takes for a code: it is read, its value written and read again.
static constexpr int64_t kDequantisedBytes = 1 + 2 * kElementBytes;

/// Up to 128 rows, in tiles of 64 columns whose programs share the machine by turns.
static double predictFewRowsCycles(const ProductShape &shape, int64_t rows,
                                   const TargetDescription &target) {
  constexpr int64_t columns = SwappedTile::kColumns;
  const SmDescription &sm = target.sm;
  int64_t tiles = countPrograms(shape, /*parts=*/1), programs = std::min(tiles, target.numSms);
  if (tiles < target.tuning.busyPrograms) // the depth is cut
    programs = target.numSms;
  double turns = static_cast<double>(tiles) / static_cast<double>(programs);
  if (tiles > programs)
    turns = std::ceil(turns);
  auto depth = static_cast<double>(shape.depth);
  auto bytes =
      static_cast<double>(columns * getWeightBytes(shape) + rows * getActivationBytes(shape));
  double load = depth * bytes / sm.l2BytesPerClock;
  double tensor = depth * 2 * static_cast<double>(columns * std::max<int64_t>(rows, columns)) /
                  getTensorRate(shape, sm);
  bool turnsCodes = shape.operands == ProductOperands::CodedWeights;
  double turning = turnsCodes ? depth / kTurnDepth * kTurnCycles : 0;
  auto weights =
      static_cast<double>(shape.columns * shape.depth * shape.batch * getWeightBytes(shape));
  double memory = weights / target.readGbps * sm.clockGhz;
  return sm.loadLatencyCycles + std::max(memory, turns * std::max({load, tensor, turning}));
}

/// A kernel that reads and writes so many bytes.
static double predictPassCycles(double bytes, const TargetDescription &target) {
  return (target.launchMicroseconds * 1e3 + bytes / target.copyGbps) * target.sm.clockGhz;
}

double mlac::predictWeightCycles(const ProductShape &shape, int64_t rows,
                                 const TargetDescription &target) {
  bool isFew = rows <= kProductTileRows;
  auto predict = [&](const ProductShape &of) {
    return isFew ? predictFewRowsCycles(of, rows, target)
                 : predictProductCycles(of, rows, chooseProductTiles(of, target), target);
  };
  ProductShape product = shape;
  double before = 0;
  if (shape.operands == ProductOperands::Codes) {
    auto activations = static_cast<double>(rows * shape.depth);
    before = predictPassCycles(activations * (kElementBytes + 1), target);
  } else if (shape.operands == ProductOperands::CodedWeights && !isFew) {
    auto weights = static_cast<double>(shape.columns * shape.depth * shape.batch);
    before = predictPassCycles(weights * kDequantisedBytes, target);
    product.operands = ProductOperands::Values;
  }
  return before + predict(product);
}

double mlac::predictCodesShare(const ProductShape &shape, llvm::ArrayRef<int64_t> rows,
                               const TargetDescription &target) {
  ProductShape values = shape;
  values.operands = ProductOperands::Values;
  double logs = 0;
  for (int64_t count : rows)
    logs += std::log(predictWeightCycles(shape, count, target) /
                     predictWeightCycles(values, count, target));
  return std::exp(logs / static_cast<double>(rows.size()));
}
