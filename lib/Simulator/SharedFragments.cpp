//===- SharedFragments.cpp - fragments and shared memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

Step Machine::runStoreShared(Warpgroup &warpgroup, StoreSharedOp op) {
  Tile *tile = use(warpgroup, op, op.getValue());
  if (!tile)
    return Step::Failed;
  Place place = getAs<Place>(warpgroup, op.getTarget());
  Type type = op.getValue().getType();
  auto [first, end] = getWrittenColumns(warpgroup, type);
  if (first == end)
    return Step::Advanced;
  if (isRows(type) || isColumns(type)) {
    constexpr unsigned firstWarp = 1; // of column vectors, which all warps hold
    Step step = isRows(type) ? accessByRows(warpgroup, op, place, /*isWrite=*/true)
                             : access(warpgroup, op, place, SharedMemory::getAll(place), firstWarp,
                                      /*isWrite=*/true);
    if (step == Step::Failed)
      return Step::Failed;
    for (auto [index, value] : llvm::enumerate(tile->reals))
      memory->set(place, 0, index, value);
    return Step::Advanced;
  }
  constexpr int64_t chunkElements = kCellBytes / 2, warpRows = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range range{warp * warpRows, (warp + 1) * warpRows, first / chunkElements,
                              llvm::divideCeilSigned(end, chunkElements)};
    int64_t firstChunk = op.getColumn().value_or(0) / chunkElements;
    range.firstChunk += firstChunk;
    range.endChunk += firstChunk;
    if (op.getTransposed())
      range = {first, end, warp * warpRows / chunkElements, (warp + 1) * warpRows / chunkElements};
    if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/true) == Step::Failed)
      return Step::Failed;
  }
  int64_t columns = getColumns(type);
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = first; column < end; ++column) {
      float value = tile->reals[row * columns + column];
      op.getTransposed() ? memory->set(place, column, row, value)
                         : memory->set(place, row, op.getColumn().value_or(0) + column, value);
    }
  return Step::Advanced;
}

Step Machine::runLoadShared(Warpgroup &warpgroup, LoadSharedOp op) {
  Place place = getAs<Place>(warpgroup, op.getSource());
  auto result = makeTile(warpgroup, op.getResult().getType());
  if (isRows(op.getResult().getType())) {
    if (accessByRows(warpgroup, op, place, /*isWrite=*/false) == Step::Failed)
      return Step::Failed;
    for (int64_t row = 0; row < kTileRows; ++row)
      result->reals[row] = op.getColumn() ? memory->get(place, row, *op.getColumn())
                                          : memory->get(place, 0, row);
    set(warpgroup, op.getResult(), TileRef{result});
    return Step::Advanced;
  }
  if (isColumns(op.getResult().getType())) {
    constexpr int32_t everyWarp = (1 << kWarps) - 1;
    if (access(warpgroup, op, place, SharedMemory::getAll(place), everyWarp, /*isWrite=*/false) ==
        Step::Failed)
      return Step::Failed;
    for (int64_t column = 0; column < place.type.getColumns(); ++column)
      result->reals[column] = memory->get(place, 0, column);
    set(warpgroup, op.getResult(), TileRef{result});
    return Step::Advanced;
  }
  int64_t first = op.getColumn().value_or(0), columns = getColumns(op.getResult().getType());
  int64_t chunkElements = kCellBytes / getElementBytes(place.type.getElementType());
  constexpr int64_t warpRows = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range range{warp * warpRows, (warp + 1) * warpRows, first / chunkElements,
                              llvm::divideCeilSigned(first + columns, chunkElements)};
    if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/false) == Step::Failed)
      return Step::Failed;
  }
  result->reals.resize(kTileRows * columns);
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result->reals[row * columns + column] = memory->get(place, row, first + column);
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// A warp reads its rows of the codes and writes those of the target.
Step Machine::runTransformCodes(Warpgroup &warpgroup, TransformCodesOp op) {
  Place codes = getAs<Place>(warpgroup, op.getCodes());
  Place target = getAs<Place>(warpgroup, op.getTarget());
  bool byRows = isa<RankedTensorType>(op.getScale().getType());
  Tile *scales = byRows ? use(warpgroup, op, op.getScale()) : nullptr;
  if (byRows && !scales)
    return Step::Failed;
  int64_t first = static_cast<int64_t>(op.getColumn()), columns = op.countColumns();
  int64_t elements = kCellBytes / getElementBytes(target.type.getElementType());
  constexpr int64_t warpRows = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range read{warp * warpRows, (warp + 1) * warpRows, 0, columns / kCellBytes};
    SharedMemory::Range written{warp * warpRows, (warp + 1) * warpRows, first / elements,
                                (first + columns) / elements};
    if (access(warpgroup, op, codes, read, 1 << warp, /*isWrite=*/false) == Step::Failed ||
        access(warpgroup, op, target, written, 1 << warp, /*isWrite=*/true) == Step::Failed)
      return Step::Failed;
  }
  float all = byRows ? 1 : getAs<float>(warpgroup, op.getScale());
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      memory->set(target, row, first + column,
                  memory->get(codes, row, column) * (scales ? scales->reals[row] : all));
  return Step::Advanced;
}

/// A warp's share is one row of the tile, whose chunks follow one another.
Step Machine::accessParked(Warpgroup &warpgroup, Operation *op, const Place &place, bool isWrite) {
  int64_t share = SharedMemory::getChunks(place) / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp)
    if (access(warpgroup, op, place, {0, 1, warp * share, (warp + 1) * share}, 1 << warp,
               isWrite) == Step::Failed)
      return Step::Failed;
  return Step::Advanced;
}

/// Calls `function` with each element of a fragment and where it is parked.
template <typename Function> static void forEachParked(Type type, Function function) {
  int64_t columns = getColumns(type), share = kTileRows / kWarps * columns;
  for (int64_t element = 0; element < kTileRows * columns; ++element)
    function(element, element / share, element % share);
}

Step Machine::runPark(Warpgroup &warpgroup, ParkOp op) {
  Tile *tile = use(warpgroup, op, op.getValue());
  Place place = getAs<Place>(warpgroup, op.getTarget());
  if (std::optional<int64_t> rank = op.getRank()) {
    if (checkRuns(op, *rank) == Step::Failed)
      return Step::Failed;
    place.base += (*rank - warpgroup.rank) * sharedBytes;
  }
  if (!tile || accessParked(warpgroup, op, place, /*isWrite=*/true) == Step::Failed)
    return Step::Failed;
  forEachParked(op.getValue().getType(), [&](int64_t element, int64_t row, int64_t column) {
    memory->set(place, row, column, tile->reals[element]);
  });
  return Step::Advanced;
}

Step Machine::runUnpark(Warpgroup &warpgroup, UnparkOp op) {
  Place place = getAs<Place>(warpgroup, op.getSource());
  if (accessParked(warpgroup, op, place, /*isWrite=*/false) == Step::Failed)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getType());
  forEachParked(op.getType(), [&](int64_t element, int64_t row, int64_t column) {
    result->reals[element] = memory->get(place, row, column);
  });
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

/// Warpgroup g of G clears the groups of eight rows g, g + G, ...; which of its
/// warps writes what is left open.
Step Machine::runZeroRows(Warpgroup &warpgroup, ZeroRowsOp op) {
  Place place = getAs<Place>(warpgroup, op.getTarget());
  int64_t from = std::max<int64_t>(getInt(warpgroup, op.getFirst()), 0);
  for (int64_t row = from; row < place.type.getRows(); ++row) {
    if (row / kSwizzleRows % warpgroup.count != warpgroup.getLocal())
      continue;
    SharedMemory::Range range{row, row + 1, 0, SharedMemory::getChunks(place)};
    if (access(warpgroup, op, place, range, (1 << kWarps) - 1, /*isWrite=*/true) == Step::Failed)
      return Step::Failed;
    for (int64_t column = 0; column < place.type.getColumns(); ++column)
      memory->set(place, row, column, 0);
  }
  return Step::Advanced;
}
