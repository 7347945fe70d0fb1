//===- TileToSm90.cpp - tile kernels to the Hopper level ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Picks a schedule for each kernel; each schedule has a folder. A kernel's
// `tile.schedule` names its own; what that cannot handle gets the simple one,
// which is always right, and a remark.
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/KernelAttrs.h"

#include "Schedules.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTTILETOSM90
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;

/// Which schedule `kernel` asks for; the option comes first.
static StringRef getScheduleName(tile::KernelOp kernel, StringRef option) {
  if (option != "auto")
    return option;
  auto given = kernel->getAttrOfType<tile::ScheduleInterface>(tile::kScheduleAttr);
  return given ? given.getScheduleName() : tile::SimpleScheduleAttr::getMnemonic();
}

/// The kernel in the schedule it asks for, or in the simple one.
static LogicalResult buildSchedule(tile::KernelOp kernel, StringRef name) {
  std::optional<mlac::ScheduleKind> kind = mlac::parseScheduleKind(name);
  if (!kind)
    return kernel.emitError("schedule: expected auto, ")
           << mlac::listScheduleNames() << ", got '" << name << "'";
  std::string why;
  FailureOr<sm90::KernelOp> result = mlac::getSchedule(*kind).build(kernel, why);
  if (failed(result) || *result)
    return result;
  kernel.emitRemark("kernel '") << kernel.getSymName() << "' gets the simple schedule, not '"
                                << name << "': " << why;
  return mlac::getSchedule(mlac::ScheduleKind::Simple).build(kernel, why);
}

namespace {
struct ConvertTileToSm90 : mlac::impl::ConvertTileToSm90Base<ConvertTileToSm90> {
  using ConvertTileToSm90Base::ConvertTileToSm90Base;
  void runOnOperation() override {
    for (tile::PlanOp plan : llvm::make_early_inc_range(getOperation().getOps<tile::PlanOp>()))
      plan.erase();
    for (tile::KernelOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (failed(buildSchedule(kernel, getScheduleName(kernel, schedule))))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
