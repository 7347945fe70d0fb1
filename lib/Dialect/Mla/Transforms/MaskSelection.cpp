//===- MaskSelection.cpp - mla-mask-selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps of decodes and prompts have prompts of their own, beside which decodes gather.
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

#include <algorithm>

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
      SmallVector<AttentionOp> prompts;
      function.walk([&](AttentionOp attention) {
        if (attention.getSelected() && !attention.getLse() &&
            isWhole(attention.getBatch(), function))
          prompts.push_back(attention);
      });
      auto threshold = function->getAttrOfType<IntegerAttr>(kDecodeThresholdAttr);
      for (AttentionOp attention : prompts)
        version(attention, threshold ? threshold.getInt() : 0);
    }
  }

  /// More than any machine has, and products with it fit 64 bits.
  static constexpr int64_t kMostBudget = int64_t(1) << 50;

  LogicalResult checkOptions() {
    auto refuse = [&](StringRef what) {
      return emitError(getOperation().getLoc())
             << "mla-mask-selection: expected " << what << ", got ";
    };
    if (headTile < 1)
      return refuse("head-tile >= 1") << headTile.getValue();
    if (budget < 0 || budget > kMostBudget)
      return refuse("a budget from 0 to 2^50") << budget.getValue();
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
    double keys = selected.getDimSize(1) * gathered / masked;
    return static_cast<int64_t>(std::min<double>(keys, kMostBudget));
  }

  /// Of the prompts' batch. Without context the longest prompt's tokens see half as many keys on
  /// average as it has; those of shorter ones see fewer.
  Value emitCondition(OpBuilder &b, AttentionOp attention, Value batch, bool isPart) {
    Location loc = attention.getLoc();
    auto size = [&](StringRef dim) -> Value {
      return BatchDimOp::create(b, loc, b.getIndexType(), batch, dim);
    };
    auto compare = [&](arith::CmpIPredicate predicate, Value left, int64_t right) -> Value {
      Value limit = arith::ConstantIndexOp::create(b, loc, right);
      return arith::CmpIOp::create(b, loc, predicate, left, limit);
    };
    auto both = [&](Value left, Value right) -> Value {
      return arith::AndIOp::create(b, loc, left, right);
    };
    constexpr int64_t bits = 8;
    Value longest = size("max_query_len");
    Value condition = emitIsAtMost(b, loc, batch, "total_context_len", 0);
    if (isPart) // or there is nothing to do apart
      condition = both(condition, compare(arith::CmpIPredicate::sge, longest, 1));
    Value all = arith::MulIOp::create(b, loc, size("num_tokens"), longest);
    condition = both(condition, compare(arith::CmpIPredicate::sle, all, bits * budget));
    if (mode == MaskMode::Always)
      return condition;
    int64_t most = 2 * countKeys(attention);
    return both(condition, compare(arith::CmpIPredicate::sle, longest, most));
  }

  static Value emitMasked(OpBuilder &b, AttentionOp attention) {
    constexpr int64_t open = ShapedType::kDynamic;
    auto type = RankedTensorType::get({open, open}, b.getI32Type());
    Value marks = MarkSelectedOp::create(b, attention.getLoc(), type, attention.getSelected(),
                                         attention.getBatch());
    return emitOwnRows(b, attention, marks);
  }

  /// Of a step with a threshold, 0 without one, the decodes gather in any case.
  void version(AttentionOp attention, int64_t threshold) {
    // Where it is known to all that may be under it (mla-hoist-queries).
    OpBuilder b = OpBuilder::atBlockBegin(&attention->getParentOfType<func::FuncOp>().front());
    Location loc = attention.getLoc();
    Value batch = attention.getBatch();
    Value prefills = threshold ? emitPrefills(b, attention) : batch;
    Value condition = emitCondition(b, attention, prefills, threshold != 0);
    versionAttention(attention, condition, [&](OpBuilder &b) -> Value {
      if (!threshold)
        return emitMasked(b, attention);
      AttentionOp prefilling = emitPart(b, attention, prefills, Form::Expanded);
      Value prefilled = emitMasked(b, prefilling);
      prefilling.erase();
      Value decodes = emitDecodes(b, attention, threshold);
      Value decoded = emitPart(b, attention, decodes, Form::Absorbed).getOutput();
      return JoinPartsOp::create(b, loc, decoded, prefilled);
    });
  }
};
} // namespace
