//===- FuseMerge.cpp - mla-fuse-merge ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention keeps a running output, sum and maximum per row. A partial is such a
// state, too: its output, 1 and its LSE; so attention can start from one instead of
// from nothing, and no merge is needed. Assumes nothing; afterwards merges remain only
// where neither side is an expanded attention of their own. Idea: the running state of
// FlashAttention-2 (Dao, 2023), carried across kernels.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAFUSEMERGE
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

static bool isUsedOnlyBy(Operation *op, Operation *user) {
  return llvm::all_of(op->getUsers(), [&](Operation *other) { return other == user; });
}

/// Whether an expanded attention with queries like `attention`'s can write `output`.
static bool canWrite(ExpandedAttentionOp attention, Value output) {
  Type element = getElementTypeOrSelf(output);
  return element.isF32() || element == getElementTypeOrSelf(attention.getQNope());
}

/// The attention that makes (output, lse), if it can go on from `partial` and write
/// `merge`'s result in its place.
static ExpandedAttentionOp findAttention(MergeOp merge, Value output, Value lse, Value partial) {
  auto attention = output.getDefiningOp<ExpandedAttentionOp>();
  bool isFree = attention && attention.getLse() == lse && !attention.getPartial() &&
                isUsedOnlyBy(attention, merge);
  // In an outer block it runs once; in a loop's body it would run for each iteration.
  bool isHere = attention && attention->getBlock() == merge->getBlock();
  bool fits = isFree && isHere && canWrite(attention, merge.getOutput()) &&
              getElementTypeOrSelf(partial).isF32() &&
              partial.getDefiningOp() != attention.getOperation();
  return fits ? attention : ExpandedAttentionOp();
}

static void fuse(MergeOp merge, ExpandedAttentionOp attention, Value partial, Value partialLse) {
  OpBuilder builder(merge);
  Type lseType = merge.getLse() ? merge.getLse().getType() : Type();
  auto fused = ExpandedAttentionOp::create(
      builder, attention.getLoc(), merge.getOutput().getType(), lseType, attention.getQNope(),
      attention.getQPe(), attention.getKNope(), attention.getKPe(), attention.getV(),
      attention.getBatch(), attention.getChunk(), partial, partialLse, attention.getNumSplits(),
      attention.getMarks(), attention.getScaleAttr());
  fused->setDiscardableAttrs(attention->getDiscardableAttrDictionary());
  merge->replaceAllUsesWith(fused->getResults());
  merge->erase();
  attention->erase();
}

namespace {
struct FuseMerge : mla::impl::MlaFuseMergeBase<FuseMerge> {
  using MlaFuseMergeBase::MlaFuseMergeBase;

  void runOnOperation() override {
    SmallVector<MergeOp> merges;
    getOperation().walk([&](MergeOp merge) { merges.push_back(merge); });
    for (MergeOp merge : merges) {
      Value a = merge.getA(), aLse = merge.getALse(), b = merge.getB(), bLse = merge.getBLse();
      if (ExpandedAttentionOp attention = findAttention(merge, b, bLse, a))
        fuse(merge, attention, a, aLse);
      else if (ExpandedAttentionOp attention = findAttention(merge, a, aLse, b))
        fuse(merge, attention, b, bLse);
    }
  }
};
} // namespace
