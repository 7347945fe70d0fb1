//===- SplitBatch.cpp - mla-split-batch ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Short queries over long contexts and long queries want different forms, and a
// batch may hold both. Assumes forms as imported; afterwards every attention of a
// function with a decode threshold is one over the decodes and one over the
// prefills of its batch (mla.md section 10). All other operations stay as they
// are: projections, rotation and append are the same for both, on all rows at once.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASPLITBATCH
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

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

/// A copy of `attention` over a part of its batch, in the form that suits it.
static AttentionOp emitPart(OpBuilder &builder, AttentionOp attention, Value part, Form form) {
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

static void splitAttention(AttentionOp attention, int64_t threshold) {
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  BatchType batch = attention.getBatch().getType();
  auto partType = [&](int64_t queryLen) {
    return BatchType::get(builder.getContext(), queryLen, batch.getContextLen());
  };
  Value prefills = BatchPartOp::create(builder, loc, partType(ShapedType::kDynamic),
                                       attention.getBatch(), BatchPart::Prefills);
  AttentionOp expanded = emitPart(builder, attention, prefills, Form::Expanded);

  Value decodes =
      BatchPartOp::create(builder, loc, partType(threshold == 1 ? 1 : ShapedType::kDynamic),
                          attention.getBatch(), BatchPart::Decodes);
  AttentionOp absorbed = emitPart(builder, attention, decodes, Form::Absorbed);
  for (auto [result, decoded, prefilled] :
       llvm::zip(attention->getResults(), absorbed->getResults(), expanded->getResults())) {
    Value joined = JoinPartsOp::create(builder, loc, decoded, prefilled);
    if (joined.getType() != result.getType())
      joined = ConvertLseOp::create(builder, loc, result.getType(), joined);
    result.replaceAllUsesWith(joined);
  }
  attention->erase();
}

namespace {
struct SplitBatch : mla::impl::MlaSplitBatchBase<SplitBatch> {
  using MlaSplitBatchBase::MlaSplitBatchBase;

  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      auto threshold = function->getAttrOfType<IntegerAttr>(kDecodeThresholdAttr);
      if (threshold && threshold.getInt() < 1) {
        function.emitError() << "expected " << kDecodeThresholdAttr << " of at least 1, got "
                             << threshold.getInt();
        return signalPassFailure();
      }
      if (threshold)
        split(function, threshold.getInt());
    }
  }

  /// Whether the batch is the function's own and of any lengths.
  static bool isWhole(TypedValue<BatchType> batch, func::FuncOp function) {
    auto argument = dyn_cast<BlockArgument>(batch);
    return argument && argument.getOwner() == &function.front() &&
           !batch.getType().hasStaticQueryLen();
  }

  void split(func::FuncOp function, int64_t threshold) {
    SmallVector<AttentionOp> attentions;
    function.walk([&](AttentionOp attention) {
      if (form == Form::Auto && attention.getForm() == Form::Auto && !attention.getSelected() &&
          isWhole(attention.getBatch(), function))
        attentions.push_back(attention);
    });
    for (AttentionOp attention : attentions)
      splitAttention(attention, threshold);
    // The runtime would make tables that nobody reads.
    bool hasParts =
        function.walk([](BatchPartOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!hasParts)
      function->removeAttr(kDecodeThresholdAttr);
  }
};
} // namespace
