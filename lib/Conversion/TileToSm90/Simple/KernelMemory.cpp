//===- KernelMemory.cpp - memory that a kernel shares with itself and others ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simple/KernelMemory.h"

#include "Common/ScheduleBuilder.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlac;

llvm::DenseSet<Value> mlac::findReusedBuffers(tile::KernelOp kernel, int32_t warpgroups) {
  llvm::SetVector<Value> loaded;
  llvm::DenseSet<Value> reused;
  kernel.walk([&](Operation *op) {
    if (isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadPagedOp, tile::LoadElementsOp,
            memref::LoadOp>(op))
      for (Value operand : op->getOperands())
        if (isa<MemRefType>(operand.getType()))
          loaded.insert(findBuffer(operand));
  });
  auto note = [&](Value view) {
    Value stored = findBuffer(view);
    auto mayBeStored = [&](Value other) {
      return other == stored || (warpgroups > 1 && other.getType() == stored.getType());
    };
    if (llvm::any_of(loaded, mayBeStored))
      reused.insert(stored);
  };
  kernel.walk([&](tile::StoreOp op) { note(op.getView()); });
  kernel.walk([&](tile::StoreSlotsOp op) { note(op.getPool()); });
  return reused;
}

Operation *mlac::findWaitingOp(tile::KernelOp kernel) {
  if (!kernel->hasAttr(tile::kWaitsForDependencyAttr))
    return nullptr;
  auto accesses = [](Operation *op) {
    return isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadPagedOp, tile::LoadElementsOp,
               tile::StoreOp, tile::StoreSlotsOp, tile::TopKOp, tile::SetBitsOp>(op)
               ? WalkResult::interrupt()
               : WalkResult::advance();
  };
  Block &body = kernel.getBody().front();
  for (Operation &op : body)
    if (op.walk(accesses).wasInterrupted())
      return &op;
  return body.getTerminator();
}
