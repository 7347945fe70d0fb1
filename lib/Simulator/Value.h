//===- Value.h - what an SSA value is at run time ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fragments are whole tensors: floats are kept as f32 rounded to their type,
// integers sign-extended to 64 bits (i1 as 0 and 1).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_SIMULATOR_VALUE_H
#define MLA_LIB_SIMULATOR_VALUE_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include <memory>
#include <variant>
#include <vector>

namespace mlac::simulator {

/// What is read from shared memory that was never written: a quiet NaN whose
/// payload survives arithmetic and rounding to bf16 (0x7FFA) and f16 (0x7FD0).
inline constexpr uint32_t kPoisonBits = 0x7FFA0000;
float getPoison();
/// Whether an element of `type`, kept as f32, is that NaN.
bool isPoison(float value);

/// Rounds to bf16 or f16 where `type` says so.
float roundTo(float value, mlir::Type type);
/// An element of a float type at `data`, and back.
float readReal(const char *data, mlir::Type type);
void writeReal(char *data, mlir::Type type, float value);
/// An element of an integer type at `data`, sign-extended.
int64_t readInteger(const char *data, mlir::Type type);
int64_t getElementBytes(mlir::Type type);

/// The content of a tensor.
struct Tile {
  std::vector<float> reals;
  std::vector<int64_t> integers;
  bool isConstant = false;
  uint64_t writtenAt = 0; ///< position in the warpgroup's program of the op that wrote it
  uint64_t usedBy = 0;    ///< the last wgmma that reads its registers
};

struct TileRef {
  std::shared_ptr<Tile> tile;
  uint64_t wgmma = 0; ///< whose result it is, while it has not passed a wait
};

/// A global buffer and the part of it that a memref shows.
struct View {
  char *data = nullptr;
  int64_t bytes = 0;
  mlir::Type elementType;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  bool contains(llvm::ArrayRef<int64_t> indices) const;
  /// The indices of an element of a tile at `offsets`; rows of a view with one dimension more are
  /// in groups (tile.load).
  std::vector<int64_t> getIndices(llvm::ArrayRef<int64_t> offsets, int64_t row,
                                  int64_t column) const;
  /// The element's place, or null where that is outside of the buffer.
  char *locate(llvm::ArrayRef<int64_t> indices) const;
};
using ViewRef = std::shared_ptr<const View>;

/// A tile of shared memory.
struct Place {
  mlir::sm90::SmemType type;
  int64_t base = 0;
  int owner = 0; ///< alloc or tile of a ring's slot that it is, or is a slice of
};

struct StageValue {
  int64_t slot = 0, turn = 0;
};

struct TensorMap {
  ViewRef view;
  int64_t rows;
  int64_t endColumn; ///< what boxes do not see of the view
};

/// A condition that differs between warps: bit w is warp w's.
struct WarpMask {
  unsigned bits;
};

struct Ring;

using Value = std::variant<std::monostate, int64_t, float, WarpMask, TileRef, ViewRef, Place,
                           StageValue, TensorMap, Ring *>;

} // namespace mlac::simulator

#endif // MLA_LIB_SIMULATOR_VALUE_H
