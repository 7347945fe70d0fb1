//===- SliceScores.cpp - scores of a selection in slices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASLICESCORES
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Rows of a slice, and columns of scores, are multiples of it (mla.index_scores).
static constexpr int64_t kTile = 64;
static constexpr int64_t kScoreBytes = 4;

namespace {
/// Writes what stands in the place of a selection and its scores.
class Slices {
public:
  Slices(OpBuilder &builder, TopKOp select, IndexScoresOp scores)
      : b(builder), loc(select.getLoc()), select(select), scores(scores),
        tokens(dim("num_tokens")) {}

  Value countRows(int64_t budget);
  Value emitLoop(Value rows);

private:
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value dim(StringRef name) {
    return BatchDimOp::create(b, loc, b.getIndexType(), scores.getBatch(), name);
  }
  Value ceilDiv(Value value, Value by) { return arith::CeilDivSIOp::create(b, loc, value, by); }
  Value multiply(Value a, Value b) { return arith::MulIOp::create(this->b, loc, a, b); }
  Value emitSlice(Value first, Value rows, Value onto);

  OpBuilder &b;
  Location loc;
  TopKOp select;
  IndexScoresOp scores;
  Value tokens;
};
} // namespace

/// Of a slice: whole tiles of 64, as many as the budget has or the step needs, one at least.
Value Slices::countRows(int64_t budget) {
  int64_t perRow = scores.getCache().getType().getTokensPerRow();
  Value one = constant(1), longest = dim("max_seq_len");
  Value columns = ceilDiv(longest, constant(perRow * kTile));
  columns = arith::MaxSIOp::create(b, loc, columns, one);
  Value most = constant(budget / (kTile * kTile * kScoreBytes)); // square tiles
  Value fit = arith::DivSIOp::create(b, loc, most, columns);
  Value needed = ceilDiv(tokens, constant(kTile));
  Value tiles = arith::MinSIOp::create(b, loc, fit, needed);
  tiles = arith::MaxSIOp::create(b, loc, tiles, one);
  return multiply(tiles, constant(kTile));
}

Value Slices::emitSlice(Value first, Value rows, Value onto) {
  Value part =
      IndexScoresOp::create(b, loc, scores.getType(), scores.getQuery(), scores.getWeights(),
                            scores.getCache(), scores.getBatch(), first, rows);
  return TopKOp::create(b, loc, select.getType(), part, select.getLengths(), select.getBatch(),
                        select.getKAttr(), first, onto);
}

/// The loop is built by the same builder, which stands in its body meanwhile.
Value Slices::emitLoop(Value rows) {
  Value slices = ceilDiv(tokens, rows), zero = constant(0), one = constant(1);
  Value none = tensor::EmptyOp::create(b, loc, cast<RankedTensorType>(select.getType()), tokens);
  auto loop = scf::ForOp::create(b, loc, zero, slices, one, none,
                                 [&](OpBuilder &, Location, Value slice, ValueRange carried) {
                                   Value first = multiply(slice, rows);
                                   scf::YieldOp::create(b, loc, emitSlice(first, rows, carried[0]));
                                 });
  return loop.getResult(0);
}

namespace {
struct SliceScores : mla::impl::MlaSliceScoresBase<SliceScores> {
  using MlaSliceScoresBase::MlaSliceScoresBase;

  void runOnOperation() override {
    if (budget < 1) {
      getOperation().emitError() << "mla-slice-scores: expected a budget of at least 1 byte, got "
                                 << budget.getValue();
      return signalPassFailure();
    }
    SmallVector<TopKOp> selections;
    getOperation().walk([&](TopKOp op) { selections.push_back(op); });
    for (TopKOp op : selections)
      slice(op);
  }

private:
  void slice(TopKOp select);
};
} // namespace

/// Rows of a part of a batch are not its first ones.
static bool isOfAnyLengths(Value batch) {
  return isa<BlockArgument>(batch) && !cast<BatchType>(batch.getType()).hasStaticQueryLen();
}

void SliceScores::slice(TopKOp select) {
  auto scores = select.getScores().getDefiningOp<IndexScoresOp>();
  if (!scores || !scores->hasOneUse() || scores.getFirst() || select.getFirst() ||
      scores.getBatch() != select.getBatch() || !isOfAnyLengths(scores.getBatch()))
    return;
  OpBuilder builder(select);
  Slices slices(builder, select, scores);
  select.getResult().replaceAllUsesWith(slices.emitLoop(slices.countRows(budget)));
  select.erase();
  scores.erase();
}
