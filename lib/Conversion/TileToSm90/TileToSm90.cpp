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

/// The kernel in the schedule it asks for, or in the simple one.
static FailureOr<sm90::KernelOp> buildSchedule(tile::KernelOp kernel, StringRef schedule) {
  if (schedule == "simple")
    return mlac::buildSimpleSchedule(kernel);
  std::string why;
  if (schedule == "stream") {
    if (sm90::KernelOp result = mlac::buildStreamSchedule(kernel, why))
      return result;
  } else if (schedule == "product") {
    if (sm90::KernelOp result = mlac::buildProductSchedule(kernel, why))
      return result;
  } else if (schedule == "pingpong") {
    std::optional<mlac::DenseAttentionLoop> loop = mlac::matchDenseAttentionLoop(kernel, why);
    if (loop && !loop->programs)
      why = "its programs are not looped over (tile-loop-over-programs)";
    else if (loop && mlac::canPingPong(*loop, why))
      return mlac::buildPingPongSchedule(*loop);
  } else if (std::optional<mlac::AttentionLoop> loop = mlac::matchAttentionLoop(kernel, why)) {
    if (schedule == "relay" && mlac::canRelay(*loop, why))
      return mlac::buildRelaySchedule(*loop);
  }
  kernel.emitRemark("kernel '") << kernel.getSymName() << "' gets the simple schedule, not '"
                                << schedule << "': " << why;
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
