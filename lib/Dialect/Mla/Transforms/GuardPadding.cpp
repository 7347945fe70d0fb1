//===- GuardPadding.cpp - mla-guard-padding ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of a captured step are fixed, its tokens are not. Assumes that outputs
// are made by projections; afterwards functions with a decode threshold write rows
// of tokens only. Unpadded steps pay nothing: the launch plan decides.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAGUARDPADDING
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// The batch that the function gets; null without one.
static Value findBatch(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (isa<BatchType>(argument.getType()))
      return argument;
  return {};
}

/// Whether the runtime pads the function's steps.
static bool isPadded(func::FuncOp function) {
  return function->hasAttr(kDecodeThresholdAttr) || function->hasAttr(kDecodesOfAttr);
}

static void guard(ProjectOp project, Value batch) {
  OpBuilder builder(project);
  Location loc = project.getLoc();
  Value isPadded = BatchDimOp::create(builder, loc, builder.getIndexType(), batch, "is_padded");
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value condition = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, isPadded, zero);
  auto emitCopy = [&](bool isGuarded) {
    return [&, isGuarded](OpBuilder &nested, Location) {
      Value rows = nested.clone(*project)->getResult(0);
      if (isGuarded)
        rows = KeepRowsOp::create(nested, loc, rows, batch);
      scf::YieldOp::create(nested, loc, rows);
    };
  };
  auto branch = scf::IfOp::create(builder, loc, condition, emitCopy(true), emitCopy(false));
  project->replaceAllUsesWith(branch);
  project->erase();
}

namespace {
struct GuardPadding : mla::impl::MlaGuardPaddingBase<GuardPadding> {
  using MlaGuardPaddingBase::MlaGuardPaddingBase;

  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (Value batch = findBatch(function);
          batch && isPadded(function) && !function.isDeclaration())
        guardOutputs(function, batch);
  }

  void guardOutputs(func::FuncOp function, Value batch) {
    auto returnOp = cast<func::ReturnOp>(function.getBody().front().getTerminator());
    for (auto [index, value] : llvm::enumerate(returnOp.getOperands())) {
      auto project = value.getDefiningOp<ProjectOp>();
      if (project && value.hasOneUse() && function.getResultAttr(index, kOutputAttr))
        guard(project, batch);
    }
  }
};
} // namespace
