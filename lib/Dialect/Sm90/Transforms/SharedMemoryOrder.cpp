//===- SharedMemoryOrder.cpp - who may touch shared memory when ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Transforms/SharedMemoryOrder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::sm90;

void SharedMemoryState::join(const SharedMemoryState &other) {
  copiesInFlight |= other.copiesInFlight;
  unfenced |= other.unfenced;
  unpublished |= other.unpublished;
  reading |= other.reading;
}

namespace {
/// Carries the state through blocks. While a loop's state is sought, `report`
/// is off and only the state changes.
class Walker {
public:
  explicit Walker(const SharedMemoryOrderCallbacks &callbacks) : callbacks(callbacks) {}

  void walkBlock(Block &block, SharedMemoryState &state, bool report) {
    for (Operation &op : block.without_terminator())
      walkOp(&op, state, report);
  }

private:
  void walkOp(Operation *op, SharedMemoryState &state, bool report);
  void walkRegions(Operation *op, SharedMemoryState &state, bool report);
  void write(Operation *op, SharedMemoryState &state, bool report);
  void readByTensorCores(Operation *op, SharedMemoryState &state, bool report);
  void barrier(BarrierOp op, SharedMemoryState &state, bool report);
  void hazard(Operation *op, bool report, StringRef what) {
    if (report)
      callbacks.hazard(op, what);
  }

  const SharedMemoryOrderCallbacks &callbacks;
};
} // namespace

void Walker::write(Operation *op, SharedMemoryState &state, bool report) {
  if (state.reading)
    hazard(op, report,
           "writes shared memory that other warps may still read: no barrier after the last read");
  state.unfenced = true;
  state.unpublished = true;
}

void Walker::readByTensorCores(Operation *op, SharedMemoryState &state, bool report) {
  if (state.copiesInFlight)
    hazard(op, report, "reads shared memory before a wait for the copies into it");
  else if (state.unpublished)
    hazard(op, report, "reads shared memory without a barrier after the last write");
  else if (state.unfenced)
    hazard(op, report, "reads shared memory without a proxy fence after the last write");
  state.reading = true;
}

/// A barrier publishes what has been completed: copies in flight stay as they are.
void Walker::barrier(BarrierOp op, SharedMemoryState &state, bool report) {
  bool wouldFence = state.unfenced && !state.copiesInFlight;
  if (wouldFence && callbacks.fenceBefore && (!report || callbacks.fenceBefore(op, state)))
    state.unfenced = false;
  state.unpublished = state.copiesInFlight;
  state.reading = false;
}

void Walker::walkOp(Operation *op, SharedMemoryState &state, bool report) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<CopyOp, CopyRowsOp, CopyPagedOp>([&](Operation *) {
        write(op, state, report);
        state.copiesInFlight = true;
      })
      .Case<StoreSharedOp>([&](Operation *) { write(op, state, report); })
      .Case<ReduceOp>([&](ReduceOp reduce) {
        if (!reduce.getScratch())
          return;
        write(op, state, report);
        state.reading = true;
      })
      .Case<WgmmaOp>([&](Operation *) { readByTensorCores(op, state, report); })
      .Case<CopyWaitOp>([&](CopyWaitOp wait) {
        if (wait.getPending() == 0)
          state.copiesInFlight = false;
      })
      .Case<ProxyFenceOp>([&](Operation *) { state.unfenced = state.copiesInFlight; })
      .Case<BarrierOp>([&](BarrierOp op) { barrier(op, state, report); })
      .Default([&](Operation *) { walkRegions(op, state, report); });
}

/// Regions of `scf.if` are alternatives, those of a loop are repeated until
/// its state no longer changes (four bits that only rise).
void Walker::walkRegions(Operation *op, SharedMemoryState &state, bool report) {
  if (op->getNumRegions() == 0)
    return;
  if (isa<scf::IfOp>(op)) {
    SharedMemoryState out;
    for (Region &region : op->getRegions()) {
      SharedMemoryState branch = state;
      for (Block &block : region)
        walkBlock(block, branch, report);
      out.join(branch);
    }
    state = out;
    return;
  }
  SharedMemoryState entry = state;
  while (true) {
    SharedMemoryState around = entry;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        walkBlock(block, around, /*report=*/false);
    around.join(entry);
    if (around == entry)
      break;
    entry = around;
  }
  SharedMemoryState exit = entry;
  for (Region &region : op->getRegions())
    for (Block &block : region)
      walkBlock(block, exit, report);
  state = entry;
  state.join(exit);
}

void mlir::sm90::walkSharedMemoryOrder(KernelOp kernel,
                                       const SharedMemoryOrderCallbacks &callbacks) {
  SharedMemoryState state;
  Walker(callbacks).walkBlock(kernel.getBody().front(), state, /*report=*/true);
}

bool mlir::sm90::writesWaitForReads(KernelOp kernel) {
  bool ordered = true;
  SharedMemoryOrderCallbacks callbacks;
  // A wgmma that reads too early is another matter: InsertProxyFences reports it.
  auto onHazard = [&](Operation *op, StringRef) { ordered &= isa<WgmmaOp>(op); };
  callbacks.hazard = onHazard;
  walkSharedMemoryOrder(kernel, callbacks);
  return ordered;
}
