//===- Reductions.cpp - rows and columns of fragments, folded ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/Sm90/Utils/Layout.h"

#include <cmath>

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

static float fold(ReduceKind kind, float a, float b) {
  if (kind == ReduceKind::Sum)
    return a + b;
  return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
}

static float getIdentity(ReduceKind kind) { return kind == ReduceKind::Sum ? 0 : -INFINITY; }

/// The shares of the four lanes of a quad, as the hardware's order of sums has it.
static std::array<float, kQuadLanes> foldLanes(ReduceKind kind, const float *row, int64_t first,
                                               int64_t end) {
  std::array<float, kQuadLanes> lanes;
  lanes.fill(getIdentity(kind));
  for (int64_t column = first; column < end; ++column) {
    float &lane = lanes[column % kColumnGroup / 2];
    lane = fold(kind, lane, row[column]);
  }
  return lanes;
}

static float foldQuad(ReduceKind kind, const float *lanes) {
  return fold(kind, fold(kind, lanes[0], lanes[1]), fold(kind, lanes[2], lanes[3]));
}

Step Machine::runReduce(Warpgroup &warpgroup, ReduceOp op) {
  if (op.getDim() == 0)
    return reduceColumns(warpgroup, op);
  return op.getScratch() ? reduceSplit(warpgroup, op) : reduceRows(warpgroup, op);
}

Step Machine::reduceRows(Warpgroup &warpgroup, ReduceOp op) {
  Tile *source = use(warpgroup, op, op.getSource());
  if (!source)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getResult().getType());
  int64_t columns = getColumns(op.getSource().getType());
  for (int64_t row = 0; row < kTileRows; ++row) {
    const float *values = &source->reals[row * columns];
    if (isPartial(op.getSource().getType())) {
      result->reals[row] = foldQuad(op.getKind(), values);
      continue;
    }
    auto lanes = foldLanes(op.getKind(), values, 0, columns);
    if (isPartial(op.getResult().getType()))
      llvm::copy(lanes, &result->reals[row * kQuadLanes]);
    else
      result->reals[row] = foldQuad(op.getKind(), lanes.data());
  }
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// Rows of a fragment over several warpgroups: through the scratch tile, with a
/// meeting between writing and reading it.
Step Machine::reduceSplit(Warpgroup &warpgroup, ReduceOp op) {
  Place place = getAs<Place>(warpgroup, op.getScratch());
  int64_t split = getColumnSplit(op.getSource().getType()), rowChunks = kTileRows * 4 / kCellBytes;
  auto forEachPart = [&](int64_t row, bool isWrite) {
    for (int64_t warp = 0; warp < kWarps; ++warp) {
      int64_t chunk = row * rowChunks + warp * rowChunks / kWarps;
      if (access(warpgroup, op, place, {0, 1, chunk, chunk + rowChunks / kWarps}, 1 << warp,
                 isWrite) == Step::Failed)
        return Step::Failed;
    }
    return Step::Advanced;
  };
  if (warpgroup.resume == 0 && warpgroup.getLocal() < split) {
    Tile *source = use(warpgroup, op, op.getSource());
    if (!source || forEachPart(warpgroup.getLocal(), true) == Step::Failed)
      return Step::Failed;
    auto [first, end] = getOwnColumns(warpgroup, op.getSource().getType());
    int64_t columns = getColumns(op.getSource().getType());
    for (int64_t row = 0; row < kTileRows; ++row) {
      auto lanes = foldLanes(op.getKind(), &source->reals[row * columns], first, end);
      memory->set(place, warpgroup.getLocal(), row, foldQuad(op.getKind(), lanes.data()));
    }
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  auto result = makeTile(warpgroup, op.getResult().getType());
  for (int64_t part = 0; part < split; ++part)
    if (forEachPart(part, false) == Step::Failed)
      return Step::Failed;
  for (int64_t row = 0; row < kTileRows; ++row) {
    float value = memory->get(place, 0, row);
    for (int64_t part = 1; part < split; ++part)
      value = fold(op.getKind(), value, memory->get(place, part, row));
    result->reals[row] = value;
  }
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// Columns: warp w's share goes to row w of the scratch tile.
Step Machine::reduceColumns(Warpgroup &warpgroup, ReduceOp op) {
  Place place = getAs<Place>(warpgroup, op.getScratch());
  int64_t columns = getColumns(op.getSource().getType());
  int64_t rowChunks = columns * 4 / kCellBytes, warpRows = kTileRows / kWarps;
  if (warpgroup.resume == 0) {
    Tile *source = use(warpgroup, op, op.getSource());
    if (!source)
      return Step::Failed;
    for (int64_t warp = 0; warp < kWarps; ++warp) {
      SharedMemory::Range range{0, 1, warp * rowChunks, (warp + 1) * rowChunks};
      if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/true) == Step::Failed)
        return Step::Failed;
      for (int64_t column = 0; column < columns; ++column) {
        float value = getIdentity(op.getKind());
        for (int64_t row = warp * warpRows; row < (warp + 1) * warpRows; ++row)
          value = fold(op.getKind(), value, source->reals[row * columns + column]);
        memory->set(place, warp, column, value);
      }
    }
  }
  if (Step step = meetRole(warpgroup, op); step != Step::Advanced)
    return step;
  if (access(warpgroup, op, place, SharedMemory::getAll(place), (1 << kWarps) - 1,
             /*isWrite=*/false) == Step::Failed)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getResult().getType());
  for (int64_t column = 0; column < columns; ++column) {
    float value = memory->get(place, 0, column);
    for (int64_t warp = 1; warp < kWarps; ++warp)
      value = fold(op.getKind(), value, memory->get(place, warp, column));
    result->reals[column] = value;
  }
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// As lanes exchange: a thread's own two rows, then ever farther neighbours.
Step Machine::runSumGroups(Warpgroup &warpgroup, SumGroupsOp op) {
  Tile *source = use(warpgroup, op, op.getSource());
  if (!source)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getResult().getType());
  result->reals = source->reals;
  auto exchange = [&](int64_t distance) {
    std::vector<float> old = result->reals;
    for (int64_t row = 0; row < kTileRows; ++row)
      result->reals[row] = old[row & ~distance] + old[row | distance];
  };
  int64_t rowsOfLanes = kWarpRows / kFragmentRows, size = op.getSize();
  if (size > rowsOfLanes)
    exchange(rowsOfLanes);
  for (int64_t distance = 1; distance < std::min(size, rowsOfLanes); distance *= 2)
    exchange(distance);
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}
