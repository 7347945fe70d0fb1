//===- TileShapes.cpp - tile sizes per target ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/TileShapes.h"

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlac;

// CPU: one row at a time where weights are read once anyway (a matrix-vector
// product); else 16 rows, so that a widened weight row is used 16 times. Summing
// the lanes of the accumulators costs less at a depth of 512 than at 256: 132
// instead of 103 GFLOP/s for bf16 [64, 7168] x [512, 7168] (cpu-kernel-bench).
static constexpr TileShapes kCpuShapes = {
    .few = {.rows = 1, .columns = 32, .depth = 1024},
    .many = {.rows = 16, .columns = 64, .depth = 512},
    .fewRowsLimit = 4,
    .swapped = {},
    .isProductPersistent = false,
    .overlapsLaunches = false,
    .rows = 1,
    .columns = 512,
    .joinedColumns = 512,
    .turnPieces = 1,
    .turnColumns = 512,
    .fewPieces = 1,
    .queryRows = 16,
    .isRowCountFixed = false,
    .keys = 64,
    .partitionsAttention = false,
    .maxAccumulatorColumns = 4096,
    .narrowColumns = 4096,
    .wideMultiple = kWidthMultiple,
    .latentPanel = 0,
    .swappedLatentRows = 0,
    .maxDecodedLatent = 4096,
    .vectorRows = 64,
    .selectSlices = 1,
    .selectShortRow = 0,
};

// sm_90: every tile has the 64 rows of one wgmma (PTX ISA, wgmma.mma_async). 512
// accumulator columns are two warpgroups of 256 f32 columns, 128 registers of
// each thread. Joining tiles of 128 columns takes 150 registers, of
// 64 columns 96, which hides more latency. Joining 4 at a time, of 32 columns, takes
// 145: 3 CTAs of an SM have 96 KiB in flight. A step of the simple schedule does not
// overlap its loads with its products, so steps load as much as lets several CTAs
// share the 227 KiB of an SM: 48 KiB. Products of few rows are bound by the weights, so
// their rows are padded to one of four numbers, each of which is a kernel to compile. Selection:
// 128 programs took 9.5 us for a row of 131072 scores where 64 took 9.8; four CTAs of 256 threads
// beat one of 1024 for 4096 rows of 8192 (105 to 218 us; prototypes).
static constexpr TileShapes kSm90Shapes = {
    .few = {.rows = 64, .columns = 32, .depth = 256},
    .many = {.rows = 64, .columns = 128, .depth = 128},
    .fewRowsLimit = 64,
    .swapped = {{{.rows = 16, .depth = 128},
                 {.rows = 32, .depth = 128},
                 {.rows = 64, .depth = 128},
                 {.rows = 128, .depth = 64}}},
    .isProductPersistent = true,
    .overlapsLaunches = true,
    .rows = 64,
    .columns = 128,
    .joinedColumns = 64,
    .turnPieces = 2,
    .turnColumns = 32,
    .fewPieces = 4,
    .queryRows = 64,
    .isRowCountFixed = true,
    .keys = 64,
    .partitionsAttention = true,
    .maxAccumulatorColumns = 512,
    .narrowColumns = 256,
    .wideMultiple = 128,
    .latentPanel = kValueColumns,
    .swappedLatentRows = 32,
    // 17 panels of 64 keys, with rope, and 16 heads of them leave 6 panels of shared memory.
    .maxDecodedLatent = 1024,
    .vectorRows = 64,
    .selectSlices = 128,
    .selectShortRow = 8192,
};

const TileShapes &TileShapes::get(TileTarget target) {
  static constexpr const TileShapes *kShapes[] = {
#define MLAC_TARGET(name, option, chip, isScheduled, summary) &k##name##Shapes,
#include "mla/Machine/Targets.def"
  };
  return *kShapes[static_cast<size_t>(target)];
}

int64_t TileShapes::rowsFor(int64_t available) const {
  if (isRowCountFixed || available >= queryRows)
    return queryRows;
  // The CPU's register blocks have 1, 4, 8 or 16 rows.
  return available <= 1 ? 1 : std::max<int64_t>(4, llvm::PowerOf2Ceil(available));
}

int64_t TileShapes::foldedColumns(int64_t width) const {
  return foldedColumns(llvm::ArrayRef(width));
}

int64_t TileShapes::foldedColumns(llvm::ArrayRef<int64_t> widths) const {
  for (int64_t columns = kRowGroup; columns <= kMostRowColumns; columns += kRowGroup)
    if (llvm::all_of(
            widths, [&](int64_t width) { return width % columns == 0 && width / columns <= rows; }))
      return columns;
  return 0;
}

/// Rows of a head that have one sum are in one warp (`sm90.sum_groups`).
static constexpr int64_t kMostFolds = mlir::sm90::kTileRows / mlir::sm90::kWarpgroupWarps;

/// First elements of the pairs, second ones, and the channels in front and behind.
static llvm::SmallVector<int64_t, 4> listRuns(const TileShapes::HeadChannels &head) {
  llvm::SmallVector<int64_t, 4> widths = {head.rotated / 2, head.rotated / 2};
  for (int64_t rest : {head.first, head.columns - head.first - head.rotated})
    if (rest != 0)
      widths.push_back(rest);
  return widths;
}

int64_t TileShapes::mostFolds(const HeadChannels &head) const {
  int64_t folds = 1;
  llvm::SmallVector<int64_t, 4> widths = listRuns(head);
  auto canFold = [&](int64_t width) { return width % (2 * folds * kWidthMultiple) == 0; };
  while (isRowCountFixed && folds < kMostFolds && llvm::all_of(widths, canFold))
    folds *= 2;
  return folds;
}

bool TileShapes::canHoldHeads(const HeadChannels &head) const {
  // Values and gammas are 128 registers of a thread then, half of which are of few heads.
  constexpr int64_t mostColumns = 128;
  int64_t columns = 0, folds = mostFolds(head);
  for (int64_t width : listRuns(head))
    columns += paddedWidth(width) / folds;
  return !isRowCountFixed || columns <= mostColumns;
}

/// Whole panels of 64 that divide the width, if there are any.
int64_t SwappedTile::blockDepth(int64_t width) const {
  constexpr int64_t panel = 64;
  for (int64_t block = depth; block >= panel; block -= panel)
    if (width % block == 0)
      return block;
  return blockWidth(width, depth);
}

int64_t TileShapes::accumulatorWidth(int64_t width) const {
  int64_t padded = paddedWidth(width);
  return padded <= narrowColumns ? padded : llvm::alignTo(padded, wideMultiple);
}

int64_t TileShapes::latentWidth(int64_t width, int64_t rows, bool hasCodes) const {
  int64_t padded = accumulatorWidth(width);
  if (latentPanel == 0 || width <= latentPanel)
    return padded;
  constexpr int64_t codesOfElement = 2, halves = 2;
  bool areHalved = rows == 0 || rows > swappedLatentRows;
  int64_t panel = latentPanel * (hasCodes ? codesOfElement : 1);
  return llvm::alignTo(padded, panel * (areHalved ? halves : 1));
}

int64_t mlac::findRowBlock(const TileShapes &shapes, int64_t columns) {
  constexpr int64_t most = 1024;
  for (int64_t block = most; block > 0; block -= kWidthMultiple)
    if (columns % block == 0 && shapes.canHoldRow(block))
      return block;
  return 0;
}

int64_t mlac::blockWidth(int64_t width, int64_t limit) {
  int64_t padded = paddedWidth(width);
  if (padded <= limit)
    return padded;
  for (int64_t block = limit; block >= limit / 4; block -= kWidthMultiple)
    if (width % block == 0)
      return block;
  return limit;
}
