//===- SharedMemory.h - bytes that remember who touched them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One cell for each 16 bytes, the unit that the swizzle moves: it belongs to one
// row of a tile and so to one warp of a fragment. A cell knows its last write
// and the reads since then (FastTrack, Flanagan and Freund 2009, with warps and
// asynchronous units as agents).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_SIMULATOR_SHAREDMEMORY_H
#define MLA_LIB_SIMULATOR_SHAREDMEMORY_H

#include "Clock.h"
#include "Value.h"

#include "mla/Simulator/Simulator.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <array>

namespace mlac::simulator {

inline constexpr int64_t kCellBytes = 16;
inline constexpr int kWarps = 4; // of a warpgroup

/// Which unit makes an access; the first two are the generic proxy's.
enum class Unit : uint8_t { Generic, Copy, Wgmma, BulkStore, Tma };
inline constexpr int kUnitsOfWarp = 4; // Tma's agents are barriers

/// A read or a write, as the agents and their count at the time.
struct Access {
  mlir::Operation *op = nullptr;
  uint64_t count = 0;
  int agent = 0; ///< of warp 0 of the warpgroup, or of the barrier
  Unit unit = Unit::Generic;
  uint8_t warps = 0; ///< bit w: warp w takes part (not Tma)

  static int getAgent(int64_t warpgroup, int warp, Unit unit) {
    return (warpgroup * kWarps + warp) * kUnitsOfWarp + int(unit);
  }
  bool isAsyncProxy() const { return unit >= Unit::Wgmma; }
  bool isAsynchronous() const { return unit != Unit::Generic; }
  /// Whether all of it is known to whoever has the clock.
  bool isKnownTo(const Clock &clock) const;
};

/// Where a tile is read or written and what the executing warps know.
struct Accessor {
  Access access;
  llvm::ArrayRef<Knowledge> warps; ///< of the executing warpgroup
};

/// A problem found by an access, for the machine to report.
struct Conflict {
  Defect defect;
  std::string text;
  mlir::Operation *other;
};

class SharedMemory {
public:
  explicit SharedMemory(int64_t bytes);

  /// Rows and 16-byte chunks of a tile that are accessed, each by the warps of
  /// the accessor's mask.
  struct Range {
    int64_t firstRow, endRow, firstChunk, endChunk;
  };
  static Range getAll(const Place &place);
  static int64_t getChunks(const Place &place);

  std::optional<Conflict> read(const Place &place, const Range &range, const Accessor &accessor);
  /// Asynchronous writes leave the content undefined until `land`.
  std::optional<Conflict> write(const Place &place, const Range &range, const Accessor &accessor);
  void land(const Place &place, const Range &range, const Access &access);
  /// Forgets the content: what is read before the next write is poison.
  void forget(int64_t base, int64_t bytes);

  /// The tile's elements, row-major, with poison where nothing was written.
  void load(const Place &place, llvm::SmallVectorImpl<float> &values) const;
  float get(const Place &place, int64_t row, int64_t column) const;
  void set(const Place &place, int64_t row, int64_t column, float value);
  int64_t getBytes() const { return bytes.size(); }

private:
  struct Cell {
    Access written;
    llvm::SmallVector<Access, 2> reads;
    int owner = 0;
    bool isDefined = false;
  };
  static int64_t getByte(const Place &place, int64_t row, int64_t column);
  static int64_t getChunkByte(const Place &place, int64_t row, int64_t chunk);
  std::optional<Conflict> order(const Access &before, const Accessor &now, const Place &place,
                                int64_t row) const;
  template <typename Function>
  std::optional<Conflict> visit(const Place &place, const Range &range, Function function);

  std::vector<char> bytes;
  std::vector<Cell> cells;
};

} // namespace mlac::simulator

#endif // MLA_LIB_SIMULATOR_SHAREDMEMORY_H
