//===- MlaToTile.cpp - from steps on tensors to launches of block programs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass. Every step function (phase 4 of the mla dialect) becomes a
// `tile.plan` of the same name: tensors become buffers (StepLowering), operations
// become launches of kernels (one file per family, see Lowerings.h), which the
// steps of a module share (KernelTable).
//
//===----------------------------------------------------------------------===//

#include "Plan/KernelTable.h"
#include "Plan/StepLowering.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Mla/IR/ModuleTarget.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTMLATOTILE
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

class ConvertMlaToTile : public mlac::impl::ConvertMlaToTileBase<ConvertMlaToTile> {
public:
  using ConvertMlaToTileBase::ConvertMlaToTileBase;

  void runOnOperation() override {
    KernelTable kernels(getOperation());
    TileShapes shapes = TileShapes::get(target);
    shapes.isProductPersistent &= persistentProducts;
    const mlac::TargetDescription machine = mla::findMachine(getOperation(), target);
    if (mlac::getInfo(target).isScheduled)
      getOperation()->setAttr(tile::kMachineAttr, tile::makeMachineAttr(&getContext(), machine));
    WorkCosts costs{itemCost >= 0 ? itemCost : machine.tuning.itemCost,
                    mergeCost >= 0 ? mergeCost : machine.tuning.mergeCost, fixedBlocks};
    // The functions go last, so that no kernel takes the name of a plan.
    auto steps = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp step : steps)
      if (failed(StepLowering(step, kernels, shapes, machine, costs).run()))
        return signalPassFailure();
    for (func::FuncOp step : steps)
      step.erase();
  }
};

} // namespace
