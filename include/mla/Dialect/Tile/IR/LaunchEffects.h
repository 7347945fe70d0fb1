//===- LaunchEffects.h - what launches read and write ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffers of a plan that operations of it touch: by what their kernels do with arguments.
// Element types of one named buffer are one buffer. What is not known counts as written.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_LAUNCHEFFECTS_H
#define MLA_DIALECT_TILE_IR_LAUNCHEFFECTS_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tile {

/// Buffers by the operation that stands for them: of those with one name, the first of the plan.
struct LaunchEffects {
  llvm::SetVector<Operation *> reads, writes; // what is written is among what is read

  /// A buffer that one of both writes and the other touches; null if there is none.
  Operation *findConflict(const LaunchEffects &other) const;
  void add(const LaunchEffects &other);
};

/// Effects of the operations of one plan.
class EffectsOfPlan {
public:
  EffectsOfPlan(PlanOp plan, SymbolTableCollection &symbols);
  /// Of a launch, or of all launches that `op` holds.
  LaunchEffects get(Operation *op);

private:
  const llvm::BitVector &getWritten(LaunchOp launch);
  Operation *getBuffer(Value value) const;

  SymbolTableCollection &symbols;
  llvm::DenseMap<Operation *, Operation *> first;       // of buffers with one name
  llvm::DenseMap<Operation *, llvm::BitVector> written; // arguments of kernels
};

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_IR_LAUNCHEFFECTS_H
