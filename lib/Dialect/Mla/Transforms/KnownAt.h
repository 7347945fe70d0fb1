//===- KnownAt.h - where values are made, and by what alone ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_DIALECT_MLA_TRANSFORMS_KNOWNAT_H
#define MLA_LIB_DIALECT_MLA_TRANSFORMS_KNOWNAT_H

#include "mlir/IR/Operation.h"

namespace mlir::mla {

/// Whether what defines `value`, which some operation behind `op` in its block uses, stands
/// before `op`.
inline bool isKnownAt(Value value, Operation *op) {
  Operation *source = value.getDefiningOp();
  return !source || source->getBlock() != op->getBlock() || source->isBeforeInBlock(op);
}

/// What alone makes `value`, if that is an `Op`, and has no other use.
template <typename Op> Op findMaker(Value value) {
  return value.hasOneUse() ? value.getDefiningOp<Op>() : Op();
}

} // namespace mlir::mla

#endif // MLA_LIB_DIALECT_MLA_TRANSFORMS_KNOWNAT_H
