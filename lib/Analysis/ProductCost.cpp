//===- ProductCost.cpp - tiles of matrix products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductRanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlac;

/// Tiles are whole panels of shared memory (TMA stores them), and as wide as one wgmma at
/// most. A tail's divide them.
static constexpr ProductTiles kTiles[] = {{256, 128},
                                          {256, 64},
                                          {256, 0},
                                          {192, 64},
                                          {192, 0},
                                          {128, 64},
                                          {128, 0},
                                          {64, 0},
                                          {128, 64, kMostCodedRows},
                                          {128, 0, kMostCodedRows}};

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
static double predictStoreCycles(int64_t rows, int64_t columns, const SmDescription &sm) {
  auto area = static_cast<double>(rows * columns);
  return 2 * area * kElementBytes / sm.sharedBytesPerClock + 2 * sm.handoverCycles;
}

static double predictTileCycles(const ProductShape &shape, int64_t rows, int64_t columns,
                                const SmDescription &sm) {
  auto steps = static_cast<double>(llvm::divideCeil(shape.depth, kProductDepth));
  auto area = static_cast<double>(rows * columns);
  double tensor = 2 * area * kProductDepth / getTensorRate(shape, sm);
  auto bytes = rows * getActivationBytes(shape) + columns * getWeightBytes(shape);
  double load = static_cast<double>(bytes * kProductDepth) / sm.l2BytesPerClock;
  return steps * std::max(tensor, load) + predictStoreCycles(rows, columns, sm);
}

double mlac::predictProductCycles(const ProductShape &shape, int64_t rows,
                                  const ProductTiles &tiles, const TargetDescription &target) {
  auto count = static_cast<int64_t>(llvm::divideCeil(rows, tiles.rows) *
                                    llvm::divideCeil(shape.columns, tiles.columns)) *
               shape.batch;
  int64_t turns = count / target.numSms, rest = count % target.numSms;
  double tile = predictTileCycles(shape, tiles.rows, tiles.columns, target.sm);
  double cycles = static_cast<double>(turns) * tile + target.sm.loadLatencyCycles;
  if (rest == 0)
    return cycles;
  if (tiles.tailColumns == 0 || rest * (tiles.columns / tiles.tailColumns) > target.numSms)
    return cycles + tile;
  // The tail is a launch of its own.
  double launch = turns == 0 ? 0 : target.sm.loadLatencyCycles;
  return cycles + launch + predictTileCycles(shape, tiles.rows, tiles.tailColumns, target.sm);
}

/// The least time, as multiples of the best tiles' for each number of rows.
ProductTiles mlac::chooseProductTiles(const ProductShape &shape, const TargetDescription &target) {
  auto predict = [&](int64_t rows, const ProductTiles &tiles) {
    return shape.takesTiles(tiles.columns) && tiles.rows <= shape.mostRows
               ? predictProductCycles(shape, rows, tiles, target)
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
// Clusters
//===----------------------------------------------------------------------===//

/// Of the multiprocessors, those that clusters of more than two have at once: GPCs have 16 or 18,
/// and 30 clusters of four fit on 132 (one H200).
static constexpr double kClusteredShare = 0.91;

int64_t mlac::countClusters(int64_t cluster, const TargetDescription &target) {
  constexpr int64_t pair = 2; // of one TPC
  double share = cluster > pair ? kClusteredShare : 1;
  return static_cast<int64_t>(share * static_cast<double>(target.numSms)) / cluster;
}

/// A start together, a fence at cluster scope and its arrival, and what a CTA sends: 64 x 16 sums
/// cost 1 us and 128 x 128 in two parts 2.6 (one H200, docs/lab/products.md).
static constexpr double kClusterMicroseconds = 1, kClusterBytesPerNs = 20;

double mlac::predictClusterSum(int64_t rows, int64_t columns, int64_t cluster) {
  if (cluster == 1)
    return 0;
  constexpr double sumBytes = 4;
  auto sent = static_cast<double>(rows * columns * (cluster - 1)) / static_cast<double>(cluster);
  return kClusterMicroseconds + sent * sumBytes / kClusterBytesPerNs / 1e3;
}

int64_t mlac::chooseDepthCluster(const ProductShape &shape, int64_t rows, int64_t blockDepth,
                                 const TargetDescription &target) {
  if (shape.depth % blockDepth != 0)
    return 1;
  constexpr int64_t columns = SwappedTile::kColumns, group = 8; // columns of a fragment's part
  auto bytes = static_cast<double>(
      shape.depth * (columns * getWeightBytes(shape) + rows * getActivationBytes(shape)));
  double whole = bytes / target.sm.l2BytesPerClock / target.sm.clockGhz / 1e3;
  int64_t best = 1;
  double most = 0;
  for (int64_t cluster : kDepthClusters) {
    bool fits = countPrograms(shape, /*parts=*/1) <= countClusters(cluster, target) &&
                shape.depth / blockDepth % cluster == 0 && rows % (group * cluster) == 0;
    double saved = whole * static_cast<double>(cluster - 1) / static_cast<double>(cluster) -
                   predictClusterSum(rows, columns, cluster);
    if (fits && saved > most) {
      best = cluster;
      most = saved;
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
  double tensor = depth * 2 * static_cast<double>(columns * rows) / getTensorRate(shape, sm);
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
    ProductRanges turned = chooseTurnedRanges(shape, target);
    if (rows <= findMostTurnedRows(shape, turned, target))
      return predictRangeMicroseconds(shape, rows, turned.find(rows), target) * 1e3 *
             target.sm.clockGhz;
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
