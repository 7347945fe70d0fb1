//===- LayerShape.cpp - dimensions and target around an attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerShape.h"

#include "mla/Dialect/Mla/IR/ModuleTarget.h"

using namespace mlir;
using namespace mlir::mla;

static int64_t dim(Value value, unsigned index) {
  return cast<RankedTensorType>(value.getType()).getDimSize(index);
}

/// H and Lq, from where the query comes or where the output goes.
static void readHiddenDims(AttentionOp attention, mlac::LayerDims &dims) {
  if (auto queryUp = attention.getQNope().getDefiningOp<ProjectOp>()) {
    int64_t inputDim = dim(queryUp.getWeight(), 2);
    Value input = queryUp.getInput();
    if (auto coded = input.getDefiningOp<CodedRowsOp>())
      input = coded.getInput();
    auto queryDown = input.getDefiningOp<LatentProjectOp>();
    dims.qLoraRank = queryDown ? inputDim : 0;
    dims.hiddenSize = queryDown ? dim(queryDown.getWeight(), 1) : inputDim;
    return;
  }
  for (Operation *user : attention.getOutput().getUsers())
    if (auto output = dyn_cast<ProjectOp>(user))
      dims.hiddenSize = dim(output.getWeight(), 0);
}

mlac::LayerDims mlir::mla::readLayerDims(AttentionOp attention) {
  mlac::LayerDims dims;
  dims.numHeads = dim(attention.getQNope(), 1);
  dims.qkNopeHeadDim = dim(attention.getQNope(), 2);
  dims.qkRopeHeadDim = attention.getQPe() ? dim(attention.getQPe(), 2) : 0;
  dims.kvLoraRank = dim(attention.getLatent(), 1);
  dims.vHeadDim = dim(attention.getWUv(), 1);
  readHiddenDims(attention, dims);
  return dims;
}

mlac::FormProblem mlir::mla::readFormProblem(AttentionOp attention) {
  constexpr int64_t kBitsPerByte = 8;
  BatchType batch = attention.getBatch().getType();
  mlac::FormProblem problem;
  problem.dims = readLayerDims(attention);
  problem.queryLen = batch.hasStaticQueryLen() ? batch.getQueryLen() : 1;
  problem.contextLen = batch.hasStaticContextLen() ? batch.getContextLen() : 0;
  problem.elementBytes =
      cast<RankedTensorType>(attention.getQNope().getType()).getElementTypeBitWidth() /
      kBitsPerByte;
  return problem;
}

mlac::TargetDescription mlir::mla::readTarget(ModuleOp module) {
  auto attribute = module->getAttrOfType<TargetAttr>(kTargetAttr);
  if (!attribute)
    return mlac::getScheduledMachine();
  mlac::TargetDescription target = readTarget(attribute, mlac::getScheduledMachine());
  target.name = attribute.getName();
  return target;
}
