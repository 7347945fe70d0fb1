//===- InsertProxyFences.cpp - fences between generic accesses and others ---*- C++ -*-===//
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

/// The place for a fence before `op`: ahead of the wgmma_fence that opens its group.
static Operation *getFencePlace(Operation *op) {
  Operation *previous = op->getPrevNode();
  return isa<WgmmaOp>(op) && isa_and_present<WgmmaFenceOp>(previous) ? previous : op;
}

namespace {
struct InsertProxyFences : sm90::impl::Sm90InsertProxyFencesBase<InsertProxyFences> {
  void runOnOperation() override {
    bool ordered = true;
    SharedMemoryOrderCallbacks callbacks;
    auto insert = [&](Operation *op) {
      OpBuilder builder(getFencePlace(op));
      ProxyFenceOp::create(builder, op->getLoc());
      return true;
    };
    auto report = [&](Operation *op, StringRef what) {
      op->emitOpError(what);
      ordered = false;
    };
    callbacks.fenceBefore = insert;
    callbacks.hazard = report;
    walkSharedMemoryOrder(getOperation(), callbacks);
    if (!ordered)
      signalPassFailure();
  }
};
} // namespace
