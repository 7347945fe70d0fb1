//===- SharedMemoryOrder.h - who may touch shared memory when ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward walk over a kernel's structured control flow that tracks, for
// shared memory as a whole, what the next access must wait for. It knows the
// barriers of the whole CTA only: kernels that order single buffers by
// mbarriers need a finer analysis.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H
#define MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

namespace mlir::sm90 {

/// What is outstanding at a program point. Joins of paths take the union.
struct SharedMemoryState {
  bool copiesInFlight = false; ///< asynchronous copies that were not waited for
  bool unfenced = false;       ///< generic writes since the last proxy fence
  bool unpublished = false;    ///< writes since the last barrier
  bool reading = false;        ///< reads since the last barrier

  void join(const SharedMemoryState &other);
  bool operator==(const SharedMemoryState &other) const = default;
};

struct SharedMemoryOrderCallbacks {
  /// Called before a barrier; returns true if it put a fence there.
  function_ref<bool(BarrierOp, const SharedMemoryState &)> fenceBefore;
  /// Called for every access that is not ordered, with what is missing.
  function_ref<void(Operation *, StringRef)> hazard;
};

/// Walks the kernel; callbacks see each op once, with the state of the fixed
/// point. A fence that `fenceBefore` would put is taken into account.
void walkSharedMemoryOrder(KernelOp kernel, const SharedMemoryOrderCallbacks &callbacks);

/// Whether no write to shared memory can overtake a read of it.
bool writesWaitForReads(KernelOp kernel);

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H
