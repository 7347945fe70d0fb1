//===- TileForkOp.cpp - launches that may run beside others ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/LaunchEffects.h"

using namespace mlir;
using namespace mlir::tile;

/// The launches that may be the first ones of `block` to run, from `op` on.
static void findFirstLaunches(Block::iterator op, Block &block,
                              SmallVectorImpl<LaunchOp> &launches) {
  for (; op != block.end(); ++op) {
    if (auto launch = dyn_cast<LaunchOp>(*op))
      return launches.push_back(launch);
    for (Region &region : op->getRegions()) // which need not run
      if (!region.empty())
        findFirstLaunches(region.front().begin(), region.front(), launches);
  }
}

LogicalResult ForkOp::verifyRegions() {
  for (Region *side : {&getMain(), &getSide()}) {
    WalkResult walk = side->walk([&](Operation *op) {
      if (!isa<ForkOp, BufferOp, DimOp, WorkOp, SharedPrefixOp, PromptsOp, ReturnOp>(op)) // (C1)
        return WalkResult::advance();
      op->emitOpError("expected in the plan's own block, not in a side of a tile.fork");
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  SmallVector<LaunchOp> launches; // (C3)
  findFirstLaunches(getMain().front().begin(), getMain().front(), launches);
  findFirstLaunches(getSide().front().begin(), getSide().front(), launches);
  findFirstLaunches(std::next(getOperation()->getIterator()), *(*this)->getBlock(), launches);
  for (LaunchOp launch : launches)
    if (launch.getDependent())
      return launch.emitOpError("expected no dependent launch where a tile.fork begins or behind "
                                "its end, got one of ")
             << launch.getKernelAttr();
  return success();
}

static std::string describeBuffer(Operation *buffer) {
  auto named = dyn_cast<BufferOp>(buffer);
  return named ? ("'" + named.getName() + "'").str() : std::string("a workspace");
}

LogicalResult ForkOp::verifySymbolUses(SymbolTableCollection &symbols) {
  WalkResult isKnown = (*this)->walk([&](LaunchOp launch) {
    bool found =
        symbols.lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr()) != nullptr;
    return found ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (isKnown.wasInterrupted()) // the launch says so
    return success();
  EffectsOfPlan effects((*this)->getParentOfType<PlanOp>(), symbols);
  LaunchEffects sides[2];
  for (auto [side, region] : llvm::zip_equal(sides, (*this)->getRegions()))
    for (Operation &op : region.front())
      side.add(effects.get(&op));
  Operation *shared = sides[0].findConflict(sides[1]);
  if (!shared)
    return success();
  auto diag = emitOpError("expected sides that do not wait for each other, but one writes ")
              << describeBuffer(shared) << ", which the other touches"; // (C2)
  diag.attachNote(shared->getLoc()) << "the buffer is here";
  return diag;
}
