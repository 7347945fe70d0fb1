//===- WeightArguments.h - weights among a step's arguments ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_WEIGHTARGUMENTS_H
#define MLAC_LIB_IMPORT_WEIGHTARGUMENTS_H

#include "mla/Import/CheckpointTensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlac {

/// Names the arguments of `function` from `first` on, one for each tensor, as weights; returns them
/// by these names. The function has a body.
llvm::StringMap<mlir::Value> nameWeights(mlir::func::FuncOp function, unsigned first,
                                         const std::vector<CheckpointTensor> &tensors);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_WEIGHTARGUMENTS_H
