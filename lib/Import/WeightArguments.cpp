//===- WeightArguments.cpp - weights among a step's arguments ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightArguments.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"

using namespace mlac;
using namespace mlir;

llvm::StringMap<Value> mlac::nameWeights(func::FuncOp function, unsigned first,
                                         const std::vector<CheckpointTensor> &tensors) {
  llvm::StringMap<Value> values;
  for (auto [position, tensor] : llvm::enumerate(tensors)) {
    unsigned argument = first + position;
    function.setArgAttr(argument, mla::kWeightAttr,
                        StringAttr::get(function.getContext(), tensor.name));
    values[tensor.name] = function.getArgument(argument);
  }
  return values;
}
