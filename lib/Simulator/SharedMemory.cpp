//===- SharedMemory.cpp - bytes that remember who touched them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedMemory.h"

#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlac::simulator;
using namespace mlir::sm90;
using llvm::Twine;

bool Access::isKnownTo(const Clock &clock) const {
  if (unit == Unit::Tma)
    return clock[agent] >= count;
  for (int warp = 0; warp < kWarps; ++warp)
    if ((warps >> warp & 1) && clock[agent + warp * kUnitsOfWarp] < count)
      return false;
  return true;
}

SharedMemory::SharedMemory(int64_t size)
    : bytes(size, char(0xFF)), cells(llvm::divideCeil(size, kCellBytes)) {}

int64_t SharedMemory::getChunks(const Place &place) {
  int64_t rowBytes = place.type.getColumns() * getElementBytes(place.type.getElementType());
  if (place.type.getLayout() == SmemLayout::Swizzle128)
    return llvm::divideCeil(rowBytes, kChunkBytes);
  return llvm::divideCeil(rowBytes * place.type.getRows(), kChunkBytes);
}

/// A linear tile is one row of chunks.
SharedMemory::Range SharedMemory::getAll(const Place &place) {
  bool isSwizzled = place.type.getLayout() == SmemLayout::Swizzle128;
  return {0, isSwizzled ? place.type.getRows() : 1, 0, getChunks(place)};
}

int64_t SharedMemory::getChunkByte(const Place &place, int64_t row, int64_t chunk) {
  if (place.type.getLayout() == SmemLayout::Swizzle128)
    return place.base + getSwizzledChunkByte(row, chunk, place.type.getRows());
  return place.base + chunk * kChunkBytes;
}

int64_t SharedMemory::getByte(const Place &place, int64_t row, int64_t column) {
  int64_t elementBytes = getElementBytes(place.type.getElementType());
  if (place.type.getLayout() == SmemLayout::Linear)
    return place.base + (row * place.type.getColumns() + column) * elementBytes;
  int64_t byte = column * elementBytes;
  return getChunkByte(place, row, byte / kChunkBytes) + byte % kChunkBytes;
}

/// What stands between an earlier access and this one, if it is not enough.
/// A read, too, needs a fence in front of the async proxy's write: an mbarrier orders it for
/// ordinary accesses only (measured: docs/lab/codes.md).
std::optional<Conflict> SharedMemory::order(const Access &before, const Accessor &now,
                                            const Place &place, int64_t row) const {
  bool needsFence = now.access.isAsyncProxy() && !before.isAsyncProxy();
  for (int warp = 0; warp < kWarps; ++warp) {
    if (!(now.access.warps >> warp & 1))
      continue;
    if (!before.isKnownTo(now.warps[warp].seen)) {
      // Its own unit is what this warp has not waited for.
      int64_t warpgroupAgents = kWarps * kUnitsOfWarp;
      bool isOwn = before.isAsynchronous() && before.unit != Unit::Tma &&
                   now.access.unit != Unit::Tma &&
                   before.agent / warpgroupAgents == now.access.agent / warpgroupAgents &&
                   now.warps[warp].seen[before.agent + warp * kUnitsOfWarp] < before.count;
      std::string text =
          ("reaches row " + Twine(row) + " of a tile at byte " + Twine(place.base) + " (warp " +
           Twine(warp) + "), not ordered after this access to the same bytes")
              .str();
      return Conflict{isOwn ? Defect::MissingWait : Defect::Race, text, before.op};
    }
    if (needsFence && !before.isKnownTo(now.warps[warp].fenced))
      return Conflict{Defect::MissingProxyFence,
                      ("reaches row " + Twine(row) + " of a tile at byte " + Twine(place.base) +
                       " through the async proxy, with no proxy fence after this ordinary access")
                          .str(),
                      before.op};
  }
  return std::nullopt;
}

template <typename Function>
std::optional<Conflict> SharedMemory::visit(const Place &place, const Range &range,
                                            Function function) {
  for (int64_t row = range.firstRow; row < range.endRow; ++row)
    for (int64_t chunk = range.firstChunk; chunk < range.endChunk; ++chunk)
      if (std::optional<Conflict> conflict =
              function(cells[getChunkByte(place, row, chunk) / kCellBytes], row))
        return conflict;
  return std::nullopt;
}

static bool isSame(const Access &a, const Access &b) {
  return a.op == b.op && a.count == b.count && a.agent == b.agent && a.warps == b.warps;
}

std::optional<Conflict> SharedMemory::read(const Place &place, const Range &range,
                                           const Accessor &accessor) {
  Access checked; // neighbours were mostly written together
  return visit(place, range, [&](Cell &cell, int64_t row) -> std::optional<Conflict> {
    if (cell.written.op && !isSame(cell.written, checked)) {
      if (auto conflict = order(cell.written, accessor, place, row))
        return conflict;
      checked = cell.written;
    }
    if (cell.written.op && cell.owner != place.owner && cell.isDefined)
      return Conflict{Defect::Aliasing,
                      ("reads row " + Twine(row) + " of a tile at byte " + Twine(place.base) +
                       " whose place was last written as another tile")
                          .str(),
                      cell.written.op};
    for (Access &read : cell.reads)
      if (read.agent == accessor.access.agent && read.warps == accessor.access.warps) {
        read = accessor.access; // later accesses of an agent stand for earlier ones
        return std::nullopt;
      }
    cell.reads.push_back(accessor.access);
    return std::nullopt;
  });
}

std::optional<Conflict> SharedMemory::write(const Place &place, const Range &range,
                                            const Accessor &accessor) {
  Access checkedWrite, checkedRead;
  return visit(place, range, [&](Cell &cell, int64_t row) -> std::optional<Conflict> {
    if (cell.written.op && !isSame(cell.written, checkedWrite)) {
      if (auto conflict = order(cell.written, accessor, place, row))
        return conflict;
      checkedWrite = cell.written;
    }
    for (const Access &read : cell.reads) {
      if (isSame(read, checkedRead))
        continue;
      if (auto conflict = order(read, accessor, place, row))
        return conflict;
      checkedRead = read;
    }
    cell.reads.clear();
    cell.written = accessor.access;
    cell.owner = place.owner;
    cell.isDefined = !accessor.access.isAsynchronous();
    return std::nullopt;
  });
}

void SharedMemory::land(const Place &place, const Range &range, const Access &access) {
  visit(place, range, [&](Cell &cell, int64_t) -> std::optional<Conflict> {
    if (isSame(cell.written, access))
      cell.isDefined = true;
    return std::nullopt;
  });
}

void SharedMemory::forget(int64_t base, int64_t size) {
  for (int64_t cell = base / kCellBytes; cell < (base + size) / kCellBytes; ++cell)
    cells[cell].isDefined = false;
}

float SharedMemory::get(const Place &place, int64_t row, int64_t column) const {
  int64_t byte = getByte(place, row, column);
  if (!cells[byte / kCellBytes].isDefined)
    return getPoison();
  return readReal(&bytes[byte], place.type.getElementType());
}

void SharedMemory::set(const Place &place, int64_t row, int64_t column, float value) {
  writeReal(&bytes[getByte(place, row, column)], place.type.getElementType(), value);
}

void SharedMemory::load(const Place &place, llvm::SmallVectorImpl<float> &values) const {
  int64_t rows = place.type.getRows(), columns = place.type.getColumns();
  values.resize_for_overwrite(rows * columns);
  if (place.type.getLayout() == SmemLayout::Linear || !place.type.getElementType().isBF16()) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        values[row * columns + column] = get(place, row, column);
    return;
  }
  constexpr int64_t chunkColumns = kChunkBytes / 2;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; column += chunkColumns) {
      int64_t byte = getChunkByte(place, row, column / chunkColumns);
      bool isDefined = cells[byte / kCellBytes].isDefined;
      for (int64_t i = 0; i < std::min(chunkColumns, columns - column); ++i) {
        uint16_t bits;
        memcpy(&bits, &bytes[byte + 2 * i], sizeof(bits));
        values[row * columns + column + i] =
            isDefined ? llvm::bit_cast<float>(uint32_t(bits) << 16) : getPoison();
      }
    }
}
