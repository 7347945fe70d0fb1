//===- RunPipeline.h - passes on a copy of a module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_DRIVER_RUNPIPELINE_H
#define MLAC_LIB_DRIVER_RUNPIPELINE_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace mlac {

/// Runs a pipeline on a copy of `module`.
inline mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
runOnCopy(mlir::ModuleOp module, llvm::function_ref<void(mlir::OpPassManager &)> build) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  mlir::PassManager passes(module.getContext(), mlir::ModuleOp::getOperationName());
  build(passes);
  if (mlir::failed(passes.run(*copy)))
    return mlir::failure();
  return copy;
}

/// The same without the plans, which the conversions below tile do not keep.
inline mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
runOnKernels(mlir::ModuleOp module, llvm::function_ref<void(mlir::OpPassManager &)> build) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  for (mlir::tile::PlanOp plan : llvm::make_early_inc_range(copy->getOps<mlir::tile::PlanOp>()))
    plan.erase();
  return runOnCopy(*copy, build);
}

} // namespace mlac

#endif // MLAC_LIB_DRIVER_RUNPIPELINE_H
