//===- MaskSelection.cpp - mla-mask-selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FLOPs decide, since both forms run at the tensor cores' rate: those of masked attention grow with
// all pairs of a token and a key before it, those of gathered attention with K keys of each token.
// Up-projections of new tokens' keys and values take as many as the absorbed form's products for
// each head. Assumes nothing; afterwards prompts of sparse layers have two forms.
//
//===----------------------------------------------------------------------===//

#include "LayerShape.h"
#include "Versions.h"

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAMASKSELECTION
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

namespace {
struct MaskSelection : mla::impl::MlaMaskSelectionBase<MaskSelection> {
  using MlaMaskSelectionBase::MlaMaskSelectionBase;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    if (mode == MaskMode::Never)
      return;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr(kDecodeThresholdAttr))
        continue;
      SmallVector<AttentionOp> prompts;
      function.walk([&](AttentionOp attention) {
        if (attention.getSelected() && !attention.getLse() &&
            attention.getBatch().getType().getQueryLen() != 1)
          prompts.push_back(attention);
      });
      for (AttentionOp attention : prompts)
        version(attention);
    }
  }

  LogicalResult checkOptions() {
    auto refuse = [&](StringRef what) {
      return emitError(getOperation().getLoc())
             << "mla-mask-selection: expected " << what << ", got ";
    };
    if (headTile < 1)
      return refuse("head-tile >= 1") << headTile.getValue();
    if (budget < 0)
      return refuse("budget >= 0") << budget.getValue();
    if (!(cost > 0))
      return refuse("cost > 0") << cost.getValue();
    return success();
  }

  /// Keys that a token may see on average before masks take longer than gathered keys.
  int64_t countKeys(AttentionOp attention) {
    mlac::LayerDims dims = readLayerDims(attention);
    auto selected = cast<RankedTensorType>(attention.getSelected().getType());
    auto heads = static_cast<double>(dims.numHeads);
    double tile = llvm::alignTo(dims.numHeads, headTile);
    double gathered = tile * (2 * dims.kvLoraRank + dims.qkRopeHeadDim);
    double masked = heads * (dims.qkNopeHeadDim + dims.qkRopeHeadDim + dims.vHeadDim) * cost;
    return static_cast<int64_t>(selected.getDimSize(1) * gathered / masked);
  }

  Value emitCondition(OpBuilder &b, AttentionOp attention) {
    Location loc = attention.getLoc();
    Value batch = attention.getBatch();
    auto size = [&](StringRef dim) -> Value {
      return BatchDimOp::create(b, loc, b.getIndexType(), batch, dim);
    };
    auto isAtMost = [&](Value pairs, Value most) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, pairs, most);
    };
    auto both = [&](Value left, Value right) -> Value {
      return arith::AndIOp::create(b, loc, left, right);
    };
    auto times = [&](Value left, Value right) -> Value {
      return arith::MulIOp::create(b, loc, left, right);
    };
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(b, loc, value);
    };
    constexpr int64_t bits = 8;
    Value tokens = size("num_tokens");
    Value isNew = emitIsAtMost(b, loc, batch, "total_context_len", 0);
    Value fits = isAtMost(times(tokens, size("max_seq_len")), constant(bits * budget));
    Value condition = both(isNew, fits);
    if (mode == MaskMode::Always)
      return condition;
    Value most = times(tokens, constant(countKeys(attention)));
    return both(condition, isAtMost(size("attended_pairs"), most));
  }

  void version(AttentionOp attention) {
    OpBuilder b(attention);
    Value condition = emitCondition(b, attention);
    versionAttention(attention, condition, [&](OpBuilder &b) {
      constexpr int64_t open = ShapedType::kDynamic;
      auto type = RankedTensorType::get({open, open}, b.getI32Type());
      Value marks = MarkSelectedOp::create(b, attention.getLoc(), type, attention.getSelected(),
                                           attention.getBatch());
      return emitOwnRows(b, attention, marks);
    });
  }
};
} // namespace
