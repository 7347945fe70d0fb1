//===- MlaCanonicalize.cpp - folders and canonical forms of mla ---*- C++
//-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShapeCheck.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::mla;

Operation *MlaDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

/// A conversion to the same convention is none, and neither is one there and
/// back: only rounding differs.
OpFoldResult ConvertLseOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto first = getInput().getDefiningOp<ConvertLseOp>())
    if (first.getInput().getType() == getType())
      return first.getInput();
  return {};
}

OpFoldResult BatchDimOp::fold(FoldAdaptor) {
  BatchType batch = getBatch().getType();
  Builder builder(getContext());
  if (getName() == "max_query_len" && batch.hasStaticQueryLen())
    return builder.getIndexAttr(batch.getQueryLen());
  if (!batch.hasStaticContextLen())
    return {};
  if (getName() == "max_context_len")
    return builder.getIndexAttr(batch.getContextLen());
  if (getName() == "max_seq_len" && batch.hasStaticQueryLen())
    return builder.getIndexAttr(batch.getContextLen() + batch.getQueryLen());
  bool isCountOfContext =
      llvm::is_contained({"total_context_len", "num_context_requests",
                          "num_chunks", "chunk_tokens"},
                         getName());
  if (isCountOfContext && batch.getContextLen() == 0)
    return builder.getIndexAttr(0);
  return {};
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {

/// Drops an optional second result, the LSE, that nobody reads: without it
/// the kernel neither forms nor stores it.
template <typename OpTy> struct DropUnusedLse : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!op.getLse() || !op.getLse().use_empty())
      return rewriter.notifyMatchFailure(op, "no lse, or it is used");
    OperationState state(op.getLoc(), op->getName(), op->getOperands(),
                         TypeRange(op.getOutput().getType()));
    state.attributes = op->getAttrDictionary();
    rewriter.replaceAllUsesWith(op.getOutput(),
                                rewriter.create(state)->getResult(0));
    rewriter.eraseOp(op);
    return success();
  }
};

/// Splits need their LSE for merge_splits; unused, the op itself is dead.
template <typename OpTy> struct DropUnusedLseOfUnsplit : DropUnusedLse<OpTy> {
  using DropUnusedLse<OpTy>::DropUnusedLse;

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (op.getNumSplits())
      return rewriter.notifyMatchFailure(op, "splits need an lse");
    return DropUnusedLse<OpTy>::matchAndRewrite(op, rewriter);
  }
};

/// Drops optional results, LSE and maximum, that nobody reads. Splits keep their LSE.
template <typename OpTy> struct DropUnusedOptional : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  static bool needsLse(SparseAttentionOp op) { return static_cast<bool>(op.getNumSplits()); }
  static bool needsLse(MergeSplitsOp) { return false; }

  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    bool keepsLse = op.getLse() && (!op.getLse().use_empty() || needsLse(op));
    bool keepsMax = op.getMaxLogits() && !op.getMaxLogits().use_empty();
    if (keepsLse == static_cast<bool>(op.getLse()) &&
        keepsMax == static_cast<bool>(op.getMaxLogits()))
      return rewriter.notifyMatchFailure(op, "all results are used");
    SmallVector<Value> kept = {op.getOutput()};
    if (keepsLse)
      kept.push_back(op.getLse());
    if (keepsMax)
      kept.push_back(op.getMaxLogits());
    OperationState state(op.getLoc(), op->getName(), op->getOperands(),
                         ValueRange(kept).getTypes());
    state.attributes = op->getAttrDictionary();
    state.attributes.set("resultSegmentSizes",
                         rewriter.getDenseI32ArrayAttr({1, keepsLse, keepsMax}));
    rewriter.replaceAllUsesWith(kept, rewriter.create(state)->getResults());
    rewriter.eraseOp(op);
    return success();
  }
};

/// Whether an output is defined where its lse is -inf: everywhere but in the
/// identity of merge (and splits, which merge does not take).
bool isDefinedPartial(Value output) {
  return output.getDefiningOp<ExpandedAttentionOp>() ||
         output.getDefiningOp<AbsorbedAttentionOp>() ||
         output.getDefiningOp<GroupedAttentionOp>() || output.getDefiningOp<SparseAttentionOp>() ||
         output.getDefiningOp<MergeOp>();
}

/// merge(empty, x) = merge(x, empty) = x.
struct MergeWithEmpty : OpRewritePattern<MergeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MergeOp op,
                                PatternRewriter &rewriter) const override {
    Value output = op.getA(), lse = op.getALse();
    if (op.getALse().getDefiningOp<EmptyPartialOp>()) {
      output = op.getB();
      lse = op.getBLse();
    } else if (!op.getBLse().getDefiningOp<EmptyPartialOp>()) {
      return rewriter.notifyMatchFailure(op, "neither partial is empty");
    }
    if (output.getType() != op.getOutput().getType() ||
        (op.getLse() && lse.getType() != op.getLse().getType()))
      return rewriter.notifyMatchFailure(op, "merge also converts the type");
    if (!isDefinedPartial(output))
      return rewriter.notifyMatchFailure(op, "merge also defines empty rows");
    SmallVector<Value> results{output};
    if (op.getLse())
      results.push_back(lse);
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// Attention that goes on from nothing starts from nothing.
struct StartFromEmpty : OpRewritePattern<ExpandedAttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ExpandedAttentionOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getPartialLse() ||
        !op.getPartialLse().getDefiningOp<EmptyPartialOp>())
      return rewriter.notifyMatchFailure(op, "no partial, or it is not empty");
    rewriter.modifyOpInPlace(op, [&] {
      op.getPartialMutable().clear();
      op.getPartialLseMutable().clear();
    });
    return success();
  }
};

} // namespace

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<DropUnusedLse<AttentionOp>>(context);
}

void ExpandedAttentionOp::getCanonicalizationPatterns(
    RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnusedLse<ExpandedAttentionOp>, StartFromEmpty>(context);
}

void AbsorbedAttentionOp::getCanonicalizationPatterns(
    RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnusedLseOfUnsplit<AbsorbedAttentionOp>>(context);
}

void GroupedAttentionOp::getCanonicalizationPatterns(
    RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnusedLseOfUnsplit<GroupedAttentionOp>>(context);
}

void MergeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                          MLIRContext *context) {
  patterns.add<DropUnusedLse<MergeOp>, MergeWithEmpty>(context);
}

void MergeSplitsOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                MLIRContext *context) {
  patterns.add<DropUnusedOptional<MergeSplitsOp>>(context);
}

void SparseAttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                    MLIRContext *context) {
  patterns.add<DropUnusedOptional<SparseAttentionOp>>(context);
}
