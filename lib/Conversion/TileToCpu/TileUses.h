//===- TileUses.h - which tiles need memory, and when it is free ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile value is either *stored* (it has rows in memory from its definition on)
// or *virtual*: an expression that its consumers evaluate chunk by chunk, which
// is what fuses element-wise chains. Constants, splats, iotas and broadcasts are
// always virtual; an element-wise operation is when evaluating it at its
// consumers costs no more than a pass over memory.
//
// A virtual value reads its operands where its consumers stand. The *effective
// uses* of a value are the operations that read it directly or through virtual
// values; they decide when its memory may be overwritten:
//
//     acc  (stored)  --mulf (virtual)-->  dot          effective use: dot
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOCPU_TILEUSES_H
#define MLAC_LIB_CONVERSION_TILETOCPU_TILEUSES_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace mlac::tile_to_cpu {

/// Whether `op` computes each element of its tile from the elements at the same
/// place of its tile operands.
bool isElementwise(mlir::Operation *op);

/// Whether `value` is a tile (a ranked tensor).
bool isTile(mlir::Value value);

class TileUses {
public:
  explicit TileUses(mlir::tile::KernelOp kernel);

  bool isVirtual(mlir::Value value) const { return virtualCost.count(value); }

  /// Whether the rows of a load may be read in place by all its effective uses:
  /// nothing is stored between the load and the last of them.
  bool canReadInPlace(mlir::Operation *load) const;

  /// Whether `next`, defined in `block`, may be computed into the memory of
  /// `current`: every effective use of `current` in `block` is over by then, or
  /// is the definition of `next` itself reading the element it writes.
  bool canOverwrite(mlir::Value current, mlir::Block *block, mlir::Value next) const;

private:
  struct Use {
    mlir::Operation *user;
    mlir::OpOperand *operand; // the one of `user` through which the value is read
    bool sameElement;         // reads of element (i, j) happen when (i, j) is computed
  };
  void decide(mlir::Value value);
  bool isCheapAtUses(mlir::Value value, int64_t cost) const;
  llvm::SmallVector<Use> effectiveUses(mlir::Value value) const;
  void collectUses(mlir::Value value, bool sameElement, llvm::SmallVectorImpl<Use> &uses) const;
  bool mayWriteOver(const Use &use, mlir::Value current, mlir::Value next) const;
  bool canOverwriteInIf(mlir::Value current, mlir::Operation *ifOp, mlir::Value next) const;

  /// Every virtual value and the arithmetic its evaluation takes per element.
  llvm::DenseMap<mlir::Value, int64_t> virtualCost;
};

} // namespace mlac::tile_to_cpu

#endif // MLAC_LIB_CONVERSION_TILETOCPU_TILEUSES_H
