//===- InsertProxyFences.cpp - fences between generic writes and wgmma ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rule: PTX ISA, "Async proxy": accesses across proxies need a proxy fence.
// The order of things in a kernel is followed by SharedMemoryOrder; this file
// only acts on what it reports.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Transforms/Passes.h"
#include "mla/Dialect/Sm90/Transforms/SharedMemoryOrder.h"

#include "mlir/IR/Builders.h"

namespace mlir::sm90 {
#define GEN_PASS_DEF_SM90INSERTPROXYFENCES
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"
} // namespace mlir::sm90

using namespace mlir;
using namespace mlir::sm90;

namespace {
struct InsertProxyFences : sm90::impl::Sm90InsertProxyFencesBase<InsertProxyFences> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    bool hasWgmma = kernel.walk([](WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
    bool ordered = true;
    SharedMemoryOrderCallbacks callbacks;
    auto insert = [&](BarrierOp barrier, const SharedMemoryState &) {
      if (hasWgmma) {
        OpBuilder builder(barrier);
        ProxyFenceOp::create(builder, barrier.getLoc());
      }
      return hasWgmma;
    };
    auto report = [&](Operation *op, StringRef what) {
      op->emitOpError(what);
      ordered = false;
    };
    callbacks.fenceBefore = insert;
    callbacks.hazard = report;
    walkSharedMemoryOrder(kernel, callbacks);
    if (!ordered)
      signalPassFailure();
  }
};
} // namespace
