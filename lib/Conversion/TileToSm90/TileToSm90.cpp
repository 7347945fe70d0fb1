//===- TileToSm90.cpp - tile kernels to the Hopper level ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Picks a schedule for each kernel; the schedules are in Schedules/. There is
// one so far, the one that is always right.
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/Passes.h"

#include "Schedules/Simple.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTTILETOSM90
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;

namespace {
struct ConvertTileToSm90 : mlac::impl::ConvertTileToSm90Base<ConvertTileToSm90> {
  void runOnOperation() override {
    for (tile::PlanOp plan : llvm::make_early_inc_range(getOperation().getOps<tile::PlanOp>()))
      plan.erase();
    for (tile::KernelOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (failed(mlac::buildSimpleSchedule(kernel)))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
