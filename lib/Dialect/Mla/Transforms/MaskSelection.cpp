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
// each head; those of cached tokens come on top. Assumes nothing; afterwards prompts of sparse
// layers have two forms.
//
//===----------------------------------------------------------------------===//

#include "BatchSizes.h"
#include "LayerShape.h"
#include "Versions.h"

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

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
  /// More than any step has, and products with its tokens, or with what they selected, fit.
  static constexpr int64_t kMostKeys = int64_t(1) << 26;
  /// Costs are of so many keys, as whole numbers.
  static constexpr int64_t kManyKeys = 1024;

  LogicalResult checkOptions() {
    auto refuse = [&](StringRef what) {
      return emitError(getOperation().getLoc())
             << "mla-mask-selection: expected " << what << ", got ";
    };
    if (headTile < 1)
      return refuse("head-tile >= 1") << headTile.getValue();
    for (const Option<int64_t> *option : {&budget, &contextBudget})
      if (*option < 0 || *option > kMostBudget)
        return refuse((option->ArgStr + " from 0 to 2^50").str()) << option->getValue();
    if (!(cost > 0))
      return refuse("cost > 0") << cost.getValue();
    if (!(chunkFlops >= 0))
      return refuse("chunk-flops >= 0") << chunkFlops.getValue();
    return success();
  }

  /// In keys that one token sees through a mask.
  struct Costs {
    int64_t gathered;  ///< kManyKeys selected keys of a token
    int64_t projected; ///< the up-projection of a cached token
    int64_t chunks;    ///< what only a step with chunks launches
  };

  Costs count(AttentionOp attention) {
    mlac::LayerDims dims = readLayerDims(attention);
    auto heads = static_cast<double>(dims.numHeads);
    auto tile = static_cast<double>(llvm::alignTo(dims.numHeads, headTile));
    double gathered = tile * (2 * dims.kvLoraRank + dims.qkRopeHeadDim);
    double projected = heads * dims.kvLoraRank * (dims.qkNopeHeadDim + dims.vHeadDim);
    double masked = heads * (dims.qkNopeHeadDim + dims.qkRopeHeadDim + dims.vHeadDim) * cost;
    auto limit = [](double keys) {
      return static_cast<int64_t>(std::ceil(std::min<double>(keys, kMostKeys)));
    };
    return {limit(kManyKeys * gathered / masked), limit(projected / masked),
            limit(chunkFlops / (2 * masked))};
  }

  /// Of the prompts' batch.
  Value emitCondition(OpBuilder &b, AttentionOp attention, Value batch, bool isPart) {
    BatchSizes sizes(b, attention.getLoc(), batch);
    auto both = [&](Value left, Value right) -> Value {
      return arith::AndIOp::create(b, attention.getLoc(), left, right);
    };
    bool mayHaveContext = attention.getBatch().getType().getContextLen() != 0;
    constexpr int64_t bits = 8;
    Value longest = sizes.batchDim("max_query_len"), widest = longest;
    if (mayHaveContext)
      widest = sizes.maximum(longest, sizes.batchDim("chunk_request_tokens"));
    Value all = sizes.multiply(sizes.batchDim("num_tokens"), widest);
    Value condition = sizes.isAtMost(all, bits * budget);
    if (isPart) // or there is nothing to do apart
      condition = both(condition, sizes.isMore(longest, sizes.constant(0)));
    if (mayHaveContext)
      condition = both(condition, emitHoldsContext(b, sizes, attention));
    if (mode == MaskMode::Always)
      return condition;
    return both(condition, emitTakesLess(sizes, attention, mayHaveContext));
  }

  /// Tokens that see fewer keys than are selected gather as many.
  Value emitTakesLess(BatchSizes &sizes, AttentionOp attention, bool mayHaveContext) {
    Costs costs = count(attention);
    auto selected = cast<RankedTensorType>(attention.getSelected().getType());
    Value seen = sizes.batchDim("attended_pairs"), masked = seen;
    if (mayHaveContext) {
      Value context = sizes.batchDim("total_context_len");
      Value none = sizes.constant(0), ofChunks = sizes.constant(costs.chunks);
      Value launches = sizes.select(sizes.isMore(context, none), ofChunks, none);
      Value projected = sizes.multiply(context, costs.projected);
      masked = sizes.add(seen, sizes.add(projected, launches));
    }
    Value most = sizes.multiply(sizes.batchDim("num_tokens"), selected.getDimSize(1));
    Value gathered = sizes.multiply(sizes.minimum(seen, most), costs.gathered);
    return sizes.isAtMost(masked, sizes.divide(gathered, sizes.constant(kManyKeys)));
  }

  /// Whether there is no context, or there are chunks of it whose keys and values fit.
  Value emitHoldsContext(OpBuilder &b, BatchSizes &sizes, AttentionOp attention) {
    mlac::LayerDims dims = readLayerDims(attention);
    unsigned bits = getElementTypeOrSelf(attention.getOutput()).getIntOrFloatBitWidth();
    int64_t bytes = llvm::divideCeil(bits, 8) * dims.numHeads *
                    static_cast<int64_t>(dims.qkNopeHeadDim + dims.vHeadDim);
    Value zero = sizes.constant(0), context = sizes.batchDim("total_context_len");
    Value hasChunks = sizes.isMore(sizes.batchDim("num_chunks"), zero);
    Value isHeld = sizes.isAtMost(sizes.select(hasChunks, zero, context), zero);
    Value fits = sizes.isAtMost(sizes.batchDim("chunk_tokens"), contextBudget / bytes);
    return arith::AndIOp::create(b, attention.getLoc(), isHeld, fits);
  }

  static AttentionOp emitMasked(OpBuilder &b, AttentionOp attention) {
    auto masked = cast<AttentionOp>(b.clone(*attention));
    masked.setForm(Form::Expanded);
    return masked;
  }

  /// Of a step with a threshold, 0 without one, the decodes gather in any case.
  void version(AttentionOp attention, int64_t threshold) {
    auto function = attention->getParentOfType<func::FuncOp>();
    // Where it is known to all that may be under it (mla-hoist-queries).
    OpBuilder b = OpBuilder::atBlockBegin(&function.front());
    Location loc = attention.getLoc();
    if (attention.getBatch().getType().getContextLen() != 0)
      function->setAttr(kOptionalChunksAttr, b.getUnitAttr());
    Value prefills = threshold ? emitPrefills(b, attention) : Value(attention.getBatch());
    Value condition = emitCondition(b, attention, prefills, threshold != 0);
    versionAttention(attention, condition, [&](OpBuilder &b) -> Value {
      if (!threshold)
        return emitMasked(b, attention).getOutput();
      Value prefilled = emitPart(b, attention, prefills, Form::Expanded).getOutput();
      Value decodes = emitDecodes(b, attention, threshold);
      Value decoded = emitPart(b, attention, decodes, Form::Absorbed).getOutput();
      return JoinPartsOp::create(b, loc, decoded, prefilled);
    });
  }
};
} // namespace
