//===- CodeTiles.cpp - codes in shared memory and in registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

/// The column at a position of a tile whose columns are in runs of four (Sm90CodeOps.td).
static int64_t getRunColumn(int64_t position) {
  int64_t h = position / 8 % 2, t = position / 2 % 4, i = position % 2;
  return position / 16 * 16 + 4 * t + 2 * h + i;
}

/// The column at a position of a tile whose columns are in pairs.
static int64_t getPairColumn(int64_t position) {
  return position / 16 * 16 + 2 * (position % 8) + position / 8 % 2;
}

/// The tile's `reals` are what the words stand for, 64 x columns codes: no op looks into them.
Step Machine::runLoadCodeWords(Warpgroup &warpgroup, LoadCodeWordsOp op) {
  Place place = getAs<Place>(warpgroup, op.getCodes());
  auto first = static_cast<int64_t>(op.getColumn()),
       columns = static_cast<int64_t>(op.getColumns());
  constexpr int64_t warpRows = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range range{warp * warpRows, (warp + 1) * warpRows, first / kCellBytes,
                              (first + columns) / kCellBytes};
    if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/false) == Step::Failed)
      return Step::Failed;
  }
  auto result = makeTile(warpgroup, op.getResult().getType());
  result->reals.resize(kTileRows * columns);
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result->reals[row * columns + column] = memory->get(place, row, first + column);
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// Words as `runLoadCodeWords` has them, of the transpose.
Step Machine::runLoadCodeColumns(Warpgroup &warpgroup, LoadCodeColumnsOp op) {
  Place place = getAs<Place>(warpgroup, op.getCodes());
  auto first = static_cast<int64_t>(op.getColumn());
  constexpr int64_t warpColumns = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    int64_t start = first + warp * warpColumns;
    SharedMemory::Range range{0, kTileRows, start / kCellBytes, (start + warpColumns) / kCellBytes};
    if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/false) == Step::Failed)
      return Step::Failed;
  }
  int64_t limit = op.getLimit() ? getInt(warpgroup, op.getLimit()) : kTileRows;
  auto result = makeTile(warpgroup, op.getResult().getType());
  result->reals.resize(kTileRows * kTileRows);
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t key = 0; key < kTileRows; ++key)
      result->reals[row * kTileRows + getRunColumn(key)] =
          key < limit ? memory->get(place, key, first + getPairColumn(row)) : 0;
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runScaleCodes(Warpgroup &warpgroup, ScaleCodesOp op) {
  Tile *words = use(warpgroup, op, op.getWords());
  bool byRows = isa<RankedTensorType>(op.getScale().getType());
  Tile *scales = byRows ? use(warpgroup, op, op.getScale()) : nullptr;
  if (!words || (byRows && !scales))
    return Step::Failed;
  float all = byRows ? 1 : getAs<float>(warpgroup, op.getScale());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto result = makeTile(warpgroup, type);
  int64_t columns = type.getDimSize(1);
  for (int64_t row = 0; row < kTileRows; ++row) {
    float scale = roundTo(scales ? scales->reals[row] : all, type.getElementType());
    for (int64_t column = 0; column < columns; ++column) {
      float code = words->reals[row * columns + getRunColumn(column)];
      result->reals[row * columns + column] =
          isPoison(code) ? code : roundTo(code * scale, type.getElementType());
    }
  }
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// Which of the role's warps has which 32 bytes of a row is left open.
Step Machine::runOrderRuns(Warpgroup &warpgroup, OrderRunsOp op) {
  Place place = getAs<Place>(warpgroup, op.getSource()), target = place;
  target.type = op.getResult().getType();
  SmallVector<float> values;
  memory->load(place, values);
  // A thread reads what it writes.
  if (access(warpgroup, op, place, SharedMemory::getAll(place), (1 << kWarps) - 1,
             /*isWrite=*/true) == Step::Failed)
    return Step::Failed;
  constexpr float largest = 65504;
  float factor = getAs<float>(warpgroup, op.getFactor());
  int64_t columns = place.type.getColumns();
  for (int64_t row = 0; row < place.type.getRows(); ++row)
    for (int64_t column = 0; column < columns; ++column) {
      float value = values[row * columns + getRunColumn(column)];
      if (value == value)
        value = std::clamp(value * factor, -largest, largest);
      memory->set(target, row, column, value);
    }
  set(warpgroup, op.getResult(), target);
  return Step::Advanced;
}

Step Machine::runStoreRuns(Warpgroup &warpgroup, StoreRunsOp op) {
  Tile *tile = use(warpgroup, op, op.getValue());
  if (!tile || checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  const View &view = *getAs<ViewRef>(warpgroup, op.getView());
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  int64_t columns = getColumns(op.getValue().getType());
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      auto [i, j] = op.getTransposed()
                        ? std::pair(column, op.getPairs() ? getPairColumn(row) : getRunColumn(row))
                        : std::pair(row, getRunColumn(column));
      if (storeElement(op, op.getValue(), *tile, row * columns + column, view,
                       view.getIndices(offsets, i, j)) == Step::Failed)
        return Step::Failed;
    }
  return Step::Advanced;
}
