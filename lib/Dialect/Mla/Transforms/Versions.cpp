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

static BatchType makePartType(AttentionOp attention, int64_t queryLen) {
  return BatchType::get(attention.getContext(), queryLen,
                        attention.getBatch().getType().getContextLen());
}

Value mla::emitPrefills(OpBuilder &builder, AttentionOp attention) {
  return BatchPartOp::create(builder, attention.getLoc(),
                             makePartType(attention, ShapedType::kDynamic), attention.getBatch(),
                             BatchPart::Prefills);
}

Value mla::emitDecodes(OpBuilder &builder, AttentionOp attention, int64_t threshold) {
  return BatchPartOp::create(builder, attention.getLoc(),
                             makePartType(attention, threshold == 1 ? 1 : ShapedType::kDynamic),
                             attention.getBatch(), BatchPart::Decodes);
}

bool mla::isWhole(TypedValue<BatchType> batch, func::FuncOp function) {
  auto argument = dyn_cast<BlockArgument>(batch);
  return argument && argument.getOwner() == &function.front() &&
         !batch.getType().hasStaticQueryLen();
}

/// `type` with rows of tokens, which is how parts are joined.
static RankedTensorType withTokenMajor(RankedTensorType type) {
  auto encoding = cast<LseAttr>(type.getEncoding());
  SmallVector<int64_t> shape(type.getShape());
  if (encoding.getLayout() == LseLayout::HeadMajor)
    std::swap(shape[0], shape[1]);
  auto tokenMajor = LseAttr::get(type.getContext(), encoding.getBase(), LseLayout::TokenMajor,
                                 encoding.getEmpty());
  return RankedTensorType::get(shape, type.getElementType(), tokenMajor);
}

AttentionOp mla::emitPart(OpBuilder &builder, AttentionOp attention, Value part, Form form) {
  auto copy = cast<AttentionOp>(builder.clone(*attention));
  copy.getBatchMutable().assign(part);
  copy.setForm(form);
  OpBuilder before(copy);
  for (OpOperand &operand : copy->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (type && type.isDynamicDim(0)) // rows of tokens, not weights
      operand.set(PartRowsOp::create(before, copy.getLoc(), operand.get(), part));
  }
  if (copy.getLse())
    copy.getLse().setType(withTokenMajor(cast<RankedTensorType>(copy.getLse().getType())));
  return copy;
}

Value mla::emitOwnRows(OpBuilder &b, AttentionOp attention) {
  Location loc = attention.getLoc();
  auto latent = cast<RankedTensorType>(attention.getLatent().getType());
  auto project = [&](Value weight) -> Value {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
    auto type =
        RankedTensorType::get({latent.getDimSize(0), shape[0], shape[1]}, latent.getElementType());
    return ProjectOp::create(b, loc, type, attention.getLatent(), weight, /*bias=*/Value());
  };
  Value keys = project(attention.getWUk()), values = project(attention.getWUv());
  return ExpandedAttentionOp::create(b, loc, attention.getOutput().getType(), /*lse=*/Type(),
                                     attention.getQNope(), attention.getQPe(), keys,
                                     attention.getKPe(), values, attention.getBatch(),
                                     /*chunk=*/Value(), /*partial=*/Value(),
                                     /*partial_lse=*/Value(), /*num_splits=*/Value(),
                                     /*marks=*/Value(), attention.getScaleAttr())
      .getOutput();
}
