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

#include "PingPong/PingPong.h"
#include "Product/Product.h"
#include "Relay/Relay.h"
#include "Simple/Simple.h"
#include "Stream/Stream.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTTILETOSM90
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;

/// Which schedule `kernel` asks for; the option comes first.
static StringRef getSchedule(tile::KernelOp kernel, StringRef option) {
  if (option != "auto")
    return option;
  auto given = kernel->getAttrOfType<DictionaryAttr>("tile.schedule");
  auto kind = given ? given.getAs<StringAttr>("kind") : StringAttr();
  return kind ? kind.getValue() : StringRef("simple");
}

/// The kernel in the schedule it asks for, or null and in `why` the reason. What does not fit
/// is found before the kernel is changed.
static sm90::KernelOp buildDerived(tile::KernelOp kernel, StringRef schedule, std::string &why) {
  if (schedule == "stream")
    return mlac::buildStreamSchedule(kernel, why);
  if (schedule == "product")
    return mlac::buildProductSchedule(kernel, why);
  tile::AttendOp attend = tile::findAttend(kernel);
  why = "it has not one attention";
  if (!attend)
    return {};
  if (schedule == "pingpong") {
    why = "its programs are not looped over (tile-loop-over-programs)";
    return mlac::isLoopedOver(attend) && mlac::canPingPong(attend, why)
               ? mlac::buildPingPongSchedule(attend)
               : sm90::KernelOp();
  }
  why = "there is no such schedule";
  return schedule == "relay" && mlac::canRelay(attend, why) ? mlac::buildRelaySchedule(attend)
                                                            : sm90::KernelOp();
}

/// The kernel in the schedule it asks for, or in the simple one.
static FailureOr<sm90::KernelOp> buildSchedule(tile::KernelOp kernel, StringRef schedule) {
  std::string why;
  if (schedule != "simple") {
    if (sm90::KernelOp result = buildDerived(kernel, schedule, why))
      return result;
    kernel.emitRemark("kernel '") << kernel.getSymName() << "' gets the simple schedule, not '"
                                  << schedule << "': " << why;
  }
  tile::expandAttends(kernel);
  return mlac::buildSimpleSchedule(kernel);
}

namespace {
struct ConvertTileToSm90 : mlac::impl::ConvertTileToSm90Base<ConvertTileToSm90> {
  using ConvertTileToSm90Base::ConvertTileToSm90Base;
  void runOnOperation() override {
    for (tile::PlanOp plan : llvm::make_early_inc_range(getOperation().getOps<tile::PlanOp>()))
      plan.erase();
    for (tile::KernelOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>())) {
      if (failed(buildSchedule(kernel, getSchedule(kernel, schedule))))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
