//===- Versions.cpp - attention in one form or another, decided in the step ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Versions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::mla;

Value mla::emitIsAtMost(OpBuilder &b, Location loc, Value batch, StringRef dim, int64_t limit) {
  Value size = BatchDimOp::create(b, loc, b.getIndexType(), batch, dim);
  Value most = arith::ConstantIndexOp::create(b, loc, limit);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, size, most);
}

void mla::versionAttention(Operation *attention, Value condition,
                           llvm::function_ref<Value(OpBuilder &)> emitOther) {
  OpBuilder b(attention);
  Location loc = attention->getLoc();
  Value output = attention->getResult(0);
  auto branch = scf::IfOp::create(b, loc, output.getType(), condition, /*withElseRegion=*/true);
  output.replaceAllUsesWith(branch.getResult(0));
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, emitOther(b));
  b.setInsertionPointToStart(branch.elseBlock());
  auto yield = scf::YieldOp::create(b, loc, output);
  attention->moveBefore(yield);
}

Value mla::emitOwnRows(OpBuilder &b, AttentionOp attention, Value marks) {
  Location loc = attention.getLoc();
  auto latent = cast<RankedTensorType>(attention.getLatent().getType());
  auto project = [&](Value weight) -> Value {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
    auto type =
        RankedTensorType::get({latent.getDimSize(0), shape[0], shape[1]}, latent.getElementType());
    return ProjectOp::create(b, loc, type, attention.getLatent(), weight, /*bias=*/Value());
  };
  Value keys = project(attention.getWUk()), values = project(attention.getWUv());
  return ExpandedAttentionOp::create(
             b, loc, attention.getOutput().getType(), /*lse=*/Type(), attention.getQNope(),
             attention.getQPe(), keys, attention.getKPe(), values, attention.getBatch(),
             /*chunk=*/Value(), /*partial=*/Value(),
             /*partial_lse=*/Value(), /*num_splits=*/Value(), marks, attention.getScaleAttr())
      .getOutput();
}
