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
// prefills of its batch (mla.md section 10), or, over selected keys, is so if its prefills
// read a workspace (sparse.md section 11). All other operations stay as they
// are: projections, rotation and append are the same for both, on all rows at once.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "CacheFormats.h"
#include "LayerShape.h"
#include "Versions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASPLITBATCH
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

static void splitAttention(AttentionOp attention, int64_t threshold, bool isGathered) {
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  Value prefills = emitPrefills(builder, attention);
  AttentionOp prefilling =
      emitPart(builder, attention, prefills, isGathered ? Form::Absorbed : Form::Expanded);
  prefilling.setGathered(isGathered);

  Value decodes = emitDecodes(builder, attention, threshold);
  AttentionOp decoding = emitPart(builder, attention, decodes, Form::Absorbed);
  for (auto [result, decoded, prefilled] :
       llvm::zip(attention->getResults(), decoding->getResults(), prefilling->getResults())) {
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
    if (separateHeads < 1) {
      emitError(getOperation().getLoc())
          << "mla-split-batch: expected separate-heads >= 1, got " << separateHeads.getValue();
      return signalPassFailure();
    }
    for (const Option<int64_t> *option : {&mostLatent, &mostDecodedLatent})
      if (*option < 0) {
        emitError(getOperation().getLoc()) << "mla-split-batch: expected " << option->ArgStr
                                           << " >= 0, got " << option->getValue();
        return signalPassFailure();
      }
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      auto threshold = function->getAttrOfType<IntegerAttr>(kDecodeThresholdAttr);
      if (threshold && threshold.getInt() < 1) {
        function.emitError() << "expected " << kDecodeThresholdAttr << " of at least 1, got "
                             << threshold.getInt();
        return signalPassFailure();
      }
      if (threshold)
        split(function, threshold.getInt());
      else
        markGathered(function);
    }
    dropDecodes();
  }

  /// A function for batches of decodes alone is of a step that is split.
  void dropDecodes() {
    LatentLimits limits{mostLatent, mostDecodedLatent};
    for (func::FuncOp function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      auto isTooWide = [&](AttentionOp attention) {
        bool hasOneQuery = attention.getBatch().getType().getQueryLen() == 1;
        return WalkResult(limits.areExceeded(attention, hasOneQuery) ? failure() : success());
      };
      if (function->hasAttr(kDecodesOfAttr) && function.walk(isTooWide).wasInterrupted())
        function.erase();
    }
  }

  /// Whether the prefills of an attention read a workspace and not the pool.
  bool isGathered(AttentionOp attention) const {
    CacheType cache = attention.getCache().getType();
    bool hasCodes = cache.getLayout().fields[0].storage == mlac::cache::Storage::E4M3;
    if (!attention.getSelected() || !hasCodes || sparseMode == SparseMode::Mixed ||
        attention.getForm() == Form::Expanded) // through a mask
      return false;
    int64_t heads = cast<RankedTensorType>(attention.getQNope().getType()).getDimSize(1);
    return sparseMode == SparseMode::Separate || heads >= separateHeads;
  }

  /// A batch of any lengths that is not split is one of prefills.
  void markGathered(func::FuncOp function) {
    function.walk([&](AttentionOp attention) {
      if (isWhole(attention.getBatch(), function) && isGathered(attention))
        attention.setGathered(true);
    });
  }

  void split(func::FuncOp function, int64_t threshold) {
    SmallVector<AttentionOp> attentions;
    LatentLimits limits{mostLatent, mostDecodedLatent};
    function.walk([&](AttentionOp attention) {
      bool isOpen = form == Form::Auto && attention.getForm() == Form::Auto &&
                    !attention.getSelected() &&
                    !limits.areExceeded(attention, /*hasOneQuery=*/threshold == 1);
      if ((isOpen || isGathered(attention)) && isWhole(attention.getBatch(), function))
        attentions.push_back(attention);
    });
    for (AttentionOp attention : attentions)
      splitAttention(attention, threshold, isGathered(attention));
    // The runtime would make tables that nobody reads.
    bool hasParts =
        function.walk([](BatchPartOp) { return WalkResult::interrupt(); }).wasInterrupted();
    if (!hasParts)
      function->removeAttr(kDecodeThresholdAttr);
  }
};
} // namespace
