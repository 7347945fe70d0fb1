//===- ProductRanges.cpp - tiles of products by their rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductRanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlac;

static constexpr int64_t kElementBytes = 2, kSumBytes = 4;
static constexpr int64_t kCodedDepth = 128; // of which codes have one scale

/// Tiles that TMA stores are whole panels and as wide as one wgmma at most; f32 parts are stored by
/// threads.
static constexpr int64_t kPanelColumns = 64, kColumnStep = 16, kMaxColumns = 256;
/// One product, or two that share the weights' tile.
static constexpr int64_t kTileRows[] = {64, kProductTileRows};

/// What few programs run at; many, whose tensor cores are at work, are bound by the power limit
/// instead. With this and `l2BytesPerClock` 64 x 64 tiles take 143 ns a step of 64 of the depth
/// (one H100, 4096 columns of depth: 142), and 128 x 64 tiles 215 (237 beside 127 others).
static constexpr double kClockGhz = 1.98;
/// Of the tensor cores' rate: a step of 128 x 192 takes 425 ns and one of 128 x 256 567 where few
/// programs run.
static constexpr double kTensorShare = 0.91;

/// What a row that does not exist adds to a step: one H100, 128 x 64 tiles, 65 to 192 rows of up to
/// 16384 of depth, 1.3 to 1.5 ns. Tiles end with the last row (PersistentProduct.cpp), so that only
/// those of fewer rows than a tile's have such.
static constexpr double kAbsentRowNanoseconds = 1.35;

/// Clocks that two warpgroups take to turn 128 x 128 codes into operands before their products can
/// begin: steps of 128 columns by 128, 192 and 256 rows and 128 of the depth take 0.92, 1.11 and
/// 1.39 us, and their products 0.52, 0.78 and 1.03 (one H100, docs/lab/products.md).
static constexpr double kTurnCycles = 750, kTurnedCodes = 128 * 128;
/// Of the power limit's rate, for the energy of that: 4096 rows of 7168 x 16384 and of 24576 x 1536
/// run at 612 and 616 TFLOP/s there.
static constexpr double kTurnedPowerShare = 0.77;
/// Of a copy's rate, at which a kernel writes the values of codes (one H200: 7168 x 16384 in 97 us,
/// 24576 x 1536 in 35: 0.87 and 0.81).
static constexpr double kDequantisingShare = 0.8;

/// Clocks that a step of codes takes, from its operands' arrival to its sum: 128 of the depth of
/// 128 rows by 64 and 128 columns take 0.41 and 0.51 us (one H200, docs/lab/products.md). Of twice
/// as many rows a consumer multiplies one half while it adds up the other.
static constexpr double kPromotionCycles = 620, kPromotionColumnCycles = 3;
static constexpr double kTallPromotionShare = 0.83;

static constexpr size_t kMostKernels = 3; // beside those for many rows

namespace {
struct Model {
  const ProductShape &shape;
  const TargetDescription &target;

  double microseconds(double clocks) const { return clocks / kClockGhz / 1e3; }
  bool areCodes() const { return shape.operands == ProductOperands::Codes; }
  bool turnsCodes() const { return shape.operands == ProductOperands::CodedWeights; }
  int64_t weightBytes() const { return turnsCodes() || areCodes() ? 1 : kElementBytes; }
  int64_t activationBytes() const { return areCodes() ? 1 : kElementBytes; }
  /// Threads write the tile, the copy engine reads it.
  double store(int64_t rows, int64_t columns) const {
    auto bytes = static_cast<double>(rows * columns * kElementBytes);
    return microseconds(2 * bytes / target.sm.sharedBytesPerClock + 2 * target.sm.handoverCycles);
  }
  double turn(int64_t rows, int64_t programs, const RangeTiles &tiles, int64_t columns) const;
  double memory(int64_t rows, const RangeTiles &tiles, double programs) const;
  double sums(int64_t rows, int64_t parts) const;
};
} // namespace

/// So many programs with a tile each.
double Model::turn(int64_t rows, int64_t programs, const RangeTiles &tiles, int64_t columns) const {
  auto steps = static_cast<double>(llvm::divideCeil(shape.depth / tiles.parts / tiles.cluster,
                                                    static_cast<int64_t>(kProductDepth)));
  auto flops = static_cast<double>(2 * tiles.rows * columns * kProductDepth);
  auto bytes = static_cast<double>((tiles.rows * activationBytes() + columns * weightBytes()) *
                                   kProductDepth);
  double tensor = microseconds(flops / target.sm.tensorFlopsPerClock);
  auto absent = static_cast<double>(std::max<int64_t>(tiles.rows - rows, 0));
  double load =
      microseconds(bytes / target.sm.l2BytesPerClock) + absent * kAbsentRowNanoseconds / 1e3;
  double power = static_cast<double>(programs) * flops / target.matmulTflops / 1e6;
  if (areCodes()) {
    double promotion = kPromotionCycles + kPromotionColumnCycles * static_cast<double>(columns);
    if (tiles.rows > kProductTileRows)
      promotion *= kTallPromotionShare * static_cast<double>(tiles.rows) / kProductTileRows;
    tensor = std::max(tensor / 2, microseconds(promotion * kProductDepth / kCodedDepth));
    power /= 2;
  } else if (turnsCodes()) {
    auto codes = static_cast<double>(columns * kProductDepth);
    tensor += microseconds(codes / kTurnedCodes * kTurnCycles);
    power /= kTurnedPowerShare;
  } else {
    tensor /= kTensorShare;
  }
  return steps * std::max({tensor, load, power}) +
         predictClusterSum(tiles.rows, columns, tiles.cluster) +
         store(tiles.rows, columns / tiles.cluster);
}

/// Operands and results once. Fewer programs than keep the machine busy do not take all of its
/// bandwidth.
double Model::memory(int64_t rows, const RangeTiles &tiles, double programs) const {
  auto weights = static_cast<double>(shape.columns * shape.depth * weightBytes());
  auto others = static_cast<double>(rows * (shape.columns + shape.depth) * kElementBytes);
  double bytes = (weights + others) * static_cast<double>(shape.batch);
  double share = std::min(1.0, programs / static_cast<double>(target.tuning.busyPrograms));
  return bytes / target.readGbps / 1e3 / share + store(tiles.rows, tiles.columns);
}

/// Sums of parts are written and read at the rate of a copy: one H100, 128 rows of 4096 x 8192,
/// takes 31.7 us in two parts of 64 columns and 34.7 in four of 128 (docs/lab/products.md).
double Model::sums(int64_t rows, int64_t parts) const {
  if (parts == 1)
    return 0;
  // Instead of values that are written and read in any case, or beside those that are written.
  int64_t ofElement = 2 * parts * kSumBytes + (shape.isRead ? -2 * kElementBytes : kElementBytes);
  auto bytes = static_cast<double>(ofElement * rows * shape.columns);
  return (shape.isRead ? 0 : target.launchMicroseconds) + bytes / target.copyGbps / 1e3;
}

double mlac::predictRangeMicroseconds(const ProductShape &shape, int64_t rows,
                                      const RangeTiles &tiles, const TargetDescription &target) {
  Model model{shape, target};
  auto count = static_cast<int64_t>(llvm::divideCeil(rows, tiles.rows) *
                                    llvm::divideCeil(shape.columns, tiles.columns)) *
               shape.batch * tiles.parts;
  int64_t atOnce = countClusters(tiles.cluster, target);
  int64_t turns = count / atOnce, rest = count % atOnce;
  double time =
      static_cast<double>(turns) * model.turn(rows, atOnce * tiles.cluster, tiles, tiles.columns);
  if (rest != 0) {
    int64_t narrow = tiles.tailColumns ? rest * (tiles.columns / tiles.tailColumns) : count;
    bool hasTail = tiles.tailColumns != 0 && narrow <= target.numSms;
    if (hasTail && turns != 0)
      time += target.launchMicroseconds;
    time += hasTail ? model.turn(rows, narrow, tiles, tiles.tailColumns)
                    : model.turn(rows, rest * tiles.cluster, tiles, tiles.columns);
    rest = hasTail ? narrow : rest;
    ++turns;
  }
  double programs = static_cast<double>((turns - 1) * atOnce + (rest ? rest : atOnce)) /
                    static_cast<double>(turns);
  programs *= static_cast<double>(tiles.cluster);
  return std::max(time, model.memory(rows, tiles, programs)) + model.sums(rows, tiles.parts) +
         model.microseconds(target.sm.loadLatencyCycles) + target.sm.kernelMicroseconds;
}

/// Clocks of 128 of the depth of 64 columns by 128 tokens, whose consumers take the depth in turns:
/// 128 of them take 43 us (one H200, 7168 x 16384, docs/lab/products.md).
static constexpr double kTokensAsColumnsCycles = 670;

double mlac::predictTokensAsColumns(const ProductShape &shape, int64_t rows, int64_t cluster,
                                    const TargetDescription &target) {
  constexpr int64_t columns = SwappedTile::kColumns;
  Model model{shape, target};
  RangeTiles tiles{kProductTileRows, columns, /*tailColumns=*/0, /*parts=*/1, cluster};
  auto count = static_cast<int64_t>(llvm::divideCeil(shape.columns, columns)) * shape.batch;
  auto turns = static_cast<double>(llvm::divideCeil(count, countClusters(cluster, target)));
  auto steps = static_cast<double>(shape.depth / kCodedDepth) / static_cast<double>(cluster);
  double time = turns * (steps * model.microseconds(kTokensAsColumnsCycles) +
                         predictClusterSum(kProductTileRows, columns, cluster));
  auto programs = static_cast<double>(count * cluster) / turns;
  return std::max(time, model.memory(rows, tiles, programs)) +
         model.microseconds(target.sm.loadLatencyCycles) + target.sm.kernelMicroseconds;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

namespace {
/// Rows of which a product's tiles are chosen together, and those that stand for them.
struct Limit {
  int64_t mostRows, typicalRows;
};
} // namespace

/// A whole tile of 128 rows is a range of its own: it has no rows that do not exist.
static llvm::SmallVector<Limit> getLimits() {
  llvm::SmallVector<Limit> limits = {{96, 80}, {kProductTileRows - 1, 112}};
  for (int64_t rows = kProductTileRows; rows <= kMostRangeRows; rows += 64)
    limits.push_back({rows, rows});
  return limits;
}

/// Everything but the tiles for many rows.
static llvm::SmallVector<RangeTiles> getCandidates(const ProductShape &shape, bool mayCut,
                                                   const TargetDescription &target) {
  llvm::SmallVector<RangeTiles> candidates;
  bool areCodes = shape.operands == ProductOperands::Codes;
  for (int64_t rows : kTileRows)
    for (int64_t columns = kPanelColumns; columns <= kMaxColumns; columns += kPanelColumns)
      if (shape.takesTiles(columns) && (!areCodes || rows == kProductTileRows))
        candidates.push_back({rows, columns});
  int64_t columnStep = areCodes ? kPanelColumns : kColumnStep,
          depthStep = areCodes ? kCodedDepth : kProductDepth;
  for (int64_t parts = 2; parts <= (mayCut ? target.tuning.rowTileParts : 1); ++parts)
    for (int64_t columns = kPanelColumns; columns <= kMaxColumns; columns += columnStep)
      if (shape.depth % (parts * depthStep) == 0 && shape.takesTiles(columns))
        candidates.push_back({kProductTileRows, columns, /*tailColumns=*/0, parts});
  // Of values clusters take 0.92 to 1.24 of the time of whole depths, which the model does not tell
  // apart; kernels that read sums add them up themselves.
  if (!areCodes || shape.isRead)
    return candidates;
  for (int64_t cluster : kDepthClusters)
    for (int64_t columns = kPanelColumns; columns <= kMostCodedColumns; columns += kPanelColumns)
      if (shape.depth % (cluster * depthStep) == 0 && shape.takesTiles(columns))
        candidates.push_back({kProductTileRows, columns, /*tailColumns=*/0, /*parts=*/1, cluster});
  return candidates;
}

/// Sums of parts stay in the L2 cache beside the operands: 1000 rows of 2624 columns in three
/// parts, 0.6 of it, take 70 us where whole products take 66 (one H200).
static constexpr double kMostSumsOfCache = 0.5;

static bool canTake(const ProductShape &shape, const RangeTiles &tiles, int64_t rows,
                    const TargetDescription &target) {
  if (tiles.parts == 1 || rows <= kProductTileRows)
    return true;
  auto bytes = static_cast<double>(rows * shape.columns * tiles.parts * kSumBytes);
  return shape.isRead && bytes <= kMostSumsOfCache * static_cast<double>(target.l2Bytes);
}

namespace {
/// Times by candidate and limit; infinite where a candidate does not take so many rows.
class Times {
public:
  Times(const ProductShape &shape, llvm::ArrayRef<RangeTiles> candidates,
        llvm::ArrayRef<Limit> limits, const TargetDescription &target) {
    for (const RangeTiles &tiles : candidates) {
      auto &row = times.emplace_back();
      for (const Limit &limit : limits)
        row.push_back(canTake(shape, tiles, limit.mostRows, target)
                          ? predictRangeMicroseconds(shape, limit.typicalRows, tiles, target)
                          : std::numeric_limits<double>::infinity());
    }
  }
  /// The fastest of `chosen`; the earlier where two are alike.
  size_t findBest(llvm::ArrayRef<size_t> chosen, size_t limit) const {
    return *std::min_element(chosen.begin(), chosen.end(),
                             [&](size_t a, size_t b) { return times[a][limit] < times[b][limit]; });
  }
  /// Whether it takes as little: ranges are few rather than the best by a hair.
  bool isNear(size_t candidate, size_t best, size_t limit) const {
    constexpr double hair = 1.005;
    return times[candidate][limit] <= hair * times[best][limit];
  }
  /// Of the best of all candidates, on the average over limits.
  double judge(llvm::ArrayRef<size_t> chosen) const {
    auto all = llvm::to_vector(llvm::seq<size_t>(0, times.size()));
    double sum = 0;
    size_t limits = times.front().size();
    for (size_t limit = 0; limit < limits; ++limit)
      sum += times[findBest(chosen, limit)][limit] / times[findBest(all, limit)][limit];
    return sum / static_cast<double>(limits);
  }

private:
  llvm::SmallVector<llvm::SmallVector<double>> times;
};
} // namespace

/// The candidates that one kernel more, each time the best one, leads to.
static llvm::SmallVector<size_t> chooseKernels(const Times &times, size_t given, size_t count) {
  auto chosen = llvm::to_vector(llvm::seq<size_t>(0, given));
  double now = times.judge(chosen);
  for (size_t kernels = 0; kernels < kMostKernels; ++kernels) {
    size_t best = count;
    double least = now - kWorthwhileKernel;
    for (size_t candidate = given; candidate < count; ++candidate) {
      chosen.push_back(candidate);
      if (double next = times.judge(chosen); next < least) {
        least = next;
        best = candidate;
      }
      chosen.pop_back();
    }
    if (best == count)
      break;
    chosen.push_back(best);
    now = least;
  }
  return chosen;
}

/// Of `candidates`, the first `given` of which there are in any case.
static ProductRanges chooseRanges(const ProductShape &shape, llvm::ArrayRef<RangeTiles> candidates,
                                  size_t given, const TargetDescription &target) {
  llvm::SmallVector<Limit> limits = getLimits();
  Times times(shape, candidates, limits, target);
  llvm::SmallVector<size_t> chosen = chooseKernels(times, given, candidates.size());
  ProductRanges result;
  for (size_t candidate : chosen)
    result.tiles.push_back(candidates[candidate]);
  for (auto [number, limit] : llvm::enumerate(limits)) {
    size_t best = times.findBest(chosen, number);
    if (!result.ranges.empty() && times.isNear(chosen[result.ranges.back().number], best, number)) {
      result.ranges.back().mostRows = limit.mostRows;
      continue;
    }
    auto place = static_cast<size_t>(llvm::find(chosen, best) - chosen.begin());
    result.ranges.push_back({limit.mostRows, place});
  }
  if (result.ranges.back().number == 0) // as more rows have
    result.ranges.pop_back();
  return result;
}

ProductRanges mlac::chooseProductRanges(const ProductShape &shape, bool mayCut,
                                        const TargetDescription &target) {
  ProductTiles many = chooseProductTiles(shape, target);
  llvm::SmallVector<RangeTiles> candidates = {{many.rows, many.columns, many.tailColumns, 1}};
  if (many.tailColumns != 0) // the tail's kernel can take all
    candidates.push_back({many.rows, many.tailColumns});
  size_t given = candidates.size();
  for (const RangeTiles &tiles : getCandidates(shape, mayCut, target))
    if (!llvm::is_contained(candidates, tiles))
      candidates.push_back(tiles);
  return chooseRanges(shape, candidates, given, target);
}

//===----------------------------------------------------------------------===//
// Turned codes
//===----------------------------------------------------------------------===//

/// Reads codes and writes values.
static double predictDequantising(const ProductShape &shape, const TargetDescription &target) {
  constexpr double bytesOfCode = 1 + kElementBytes;
  auto codes = static_cast<double>(shape.columns * shape.depth * shape.batch);
  return target.launchMicroseconds +
         codes * bytesOfCode / (kDequantisingShare * target.copyGbps) / 1e3;
}

int64_t mlac::findMostTurnedRows(const ProductShape &shape, const ProductRanges &turned,
                                 const TargetDescription &target) {
  ProductShape plain = shape;
  plain.operands = ProductOperands::Values;
  ProductRanges values = chooseProductRanges(plain, /*mayCut=*/shape.isRead, target);
  double writing = predictDequantising(shape, target);
  auto predict = [&](const ProductShape &of, const ProductRanges &ranges, int64_t rows) {
    return predictRangeMicroseconds(of, rows, ranges.find(rows), target);
  };
  int64_t most = 0;
  auto rows = llvm::map_to_vector(getLimits(), [](const Limit &limit) { return limit.mostRows; });
  llvm::append_range(rows, target.tuning.productRows);
  llvm::sort(rows);
  for (int64_t count :
       llvm::make_filter_range(rows, [](int64_t count) { return count > kProductTileRows; })) {
    if (predict(shape, turned, count) >= writing + predict(plain, values, count))
      return most;
    most = count;
  }
  return std::numeric_limits<int64_t>::max();
}

ProductRanges mlac::chooseTurnedRanges(const ProductShape &shape, const TargetDescription &target) {
  llvm::SmallVector<RangeTiles> candidates;
  for (int64_t parts = 1; parts <= (shape.isRead ? target.tuning.rowTileParts : 1); ++parts)
    for (int64_t rows = kMaxColumns; rows >= kLeastTurnedRows; rows -= kColumnStep)
      if (shape.depth % (parts * kCodedDepth) == 0)
        candidates.push_back({rows, kTurnedColumns, /*tailColumns=*/0, parts});
  return chooseRanges(shape, candidates, /*given=*/1, target);
}
