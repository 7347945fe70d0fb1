//===- SkipSelection.cpp - mla-skip-selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An indexer that may select as many keys as there are selects all of them: nothing is scored then,
// and attention is that of a dense layer. Prompts are versioned before their form is chosen, as
// they take the expanded one; decodes once they are attention on latents, whose projections both
// versions share. Assumes nothing; afterwards such a selection is made where it can matter.
//
//===----------------------------------------------------------------------===//

#include "KnownAt.h"
#include "Versions.h"

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASKIPSELECTION
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

namespace {
/// What selects the keys of an attention, and whose rows it makes.
class Selection {
public:
  /// `last` is `select` or what alone reads it.
  Selection(TopKOp select, Operation *last, TypedValue<BatchType> batch)
      : select(select), last(last), batch(batch), loc(select.getLoc()) {}

  /// True where all keys are selected.
  Value emitCondition(OpBuilder &b);
  /// Rows are made where `selectsAll` is false.
  void version(Value selectsAll);
  TopKOp getSelect() { return select; }

private:
  SmallVector<Operation *> findMakers();

  TopKOp select;
  Operation *last;
  TypedValue<BatchType> batch;
  Location loc;
};
} // namespace

/// Whether no request has more keys than are selected. In a step of any lengths none may have
/// context, either: what a request of the dense layer has cached would be gathered in chunks, for
/// which an engine of sparse layers need have no workspace.
Value Selection::emitCondition(OpBuilder &b) {
  Value areFew = emitIsAtMost(b, loc, batch, "max_seq_len", select.getK());
  if (batch.getType().getQueryLen() == 1)
    return areFew;
  return arith::AndIOp::create(b, loc, areFew, emitIsAtMost(b, loc, batch, "total_context_len", 0));
}

/// The operations that are there for the selection alone, in order. Projections are not among
/// them: they are one product with others of the same rows.
SmallVector<Operation *> Selection::findMakers() {
  llvm::SetVector<Operation *> makers;
  makers.insert(last);
  makers.insert(select);
  for (size_t i = 0; i < makers.size(); ++i)
    for (Value operand : makers[i]->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      auto isOurs = [&](Operation *user) { return makers.contains(user); };
      if (maker && maker->getBlock() == select->getBlock() &&
          isa<IndexScoresOp, IndexWeightsOp, QuantizeOp, RopeOp, HadamardOp>(maker) &&
          llvm::all_of(maker->getUsers(), isOurs))
        makers.insert(maker);
    }
  SmallVector<Operation *> order = makers.takeVector();
  llvm::sort(order, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return order;
}

/// Where the selection was: beside the attention's branch both would become one, and with it a
/// chain that need not wait for the queries' projections.
void Selection::version(Value selectsAll) {
  OpBuilder b(select);
  SmallVector<Operation *> makers = findMakers();
  Value rows = last->getResult(0);
  auto type = cast<RankedTensorType>(rows.getType());
  Value tokens = BatchDimOp::create(b, loc, b.getIndexType(), batch, "num_tokens");
  auto branch = scf::IfOp::create(b, loc, type, selectsAll, /*withElseRegion=*/true);
  rows.replaceAllUsesWith(branch.getResult(0));
  b.setInsertionPointToStart(branch.thenBlock());
  Value none = tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType(), tokens);
  scf::YieldOp::create(b, loc, none);
  b.setInsertionPointToStart(branch.elseBlock());
  auto yield = scf::YieldOp::create(b, loc, rows);
  for (Operation *maker : makers)
    maker->moveBefore(yield);
}

static void version(Operation *attention, Selection selection,
                    llvm::function_ref<Value(OpBuilder &)> emitDense) {
  // Where it is known to all that may be under it (mla-hoist-queries).
  OpBuilder b = OpBuilder::atBlockBegin(&attention->getParentOfType<func::FuncOp>().front());
  Value selectsAll = selection.emitCondition(b);
  versionAttention(attention, selectsAll, emitDense);
  selection.version(selectsAll);
}

static Value emitAbsorbed(OpBuilder &b, SparseAttentionOp attention, TypedValue<BatchType> batch) {
  return AbsorbedAttentionOp::create(b, attention.getLoc(), attention.getOutput().getType(),
                                     /*lse=*/Type(), attention.getQLat(), attention.getQPe(),
                                     attention.getCache(), batch, /*num_splits=*/Value(),
                                     attention.getScaleAttr())
      .getOutput();
}

/// The selection that is read here alone, over a batch that is the function's own.
static TopKOp findSelection(Value selected, TypedValue<BatchType> batch) {
  auto select = selected ? selected.getDefiningOp<TopKOp>() : TopKOp();
  bool isWhole = select && isa<BlockArgument>(batch) && select.getBatch() == batch &&
                 !select.getLengths() && !select.getFirst();
  return isWhole && select->hasOneUse() ? select : TopKOp();
}

static void versionPrompts(AttentionOp attention) {
  TypedValue<BatchType> batch = attention.getBatch();
  TopKOp select = findSelection(attention.getSelected(), batch);
  if (!select || attention.getLse() || select->getBlock() != attention->getBlock() ||
      batch.getType().getQueryLen() == 1)
    return;
  version(attention, {select, select, batch},
          [&](OpBuilder &b) { return emitOwnRows(b, attention); });
}

static void versionDecodes(SparseAttentionOp attention, int64_t mostLatent) {
  auto convert = attention.getRows().getDefiningOp<ConvertIndicesOp>();
  if (!convert || !convert->hasOneUse() || convert.getWorkspace() || convert.getPrefillRequests() ||
      convert->getBlock() != attention->getBlock())
    return;
  TypedValue<BatchType> batch = convert.getBatch();
  TopKOp select = findSelection(convert.getPositions(), batch);
  bool isPlain = attention->getNumResults() == 1 && !attention.getSink() &&
                 !attention.getLengths() && !attention.getBesideRows() && attention.getCache();
  if (!select || !isPlain || select->getBlock() != attention->getBlock() ||
      batch.getType().getQueryLen() != 1 || !isKnownAt(convert.getCache(), select) ||
      (mostLatent != 0 && attention.getCache().getType().getKvLoraRank() > mostLatent))
    return;
  version(attention, {select, convert, batch},
          [&](OpBuilder &b) { return emitAbsorbed(b, attention, batch); });
}

namespace {
struct SkipSelection : mla::impl::MlaSkipSelectionBase<SkipSelection> {
  using MlaSkipSelectionBase::MlaSkipSelectionBase;

  void runOnOperation() override {
    if (mostLatent < 0) {
      emitError(getOperation().getLoc())
          << "mla-skip-selection: expected most-latent >= 0, got " << mostLatent.getValue();
      return signalPassFailure();
    }
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      // Steps of both kinds seldom have short requests alone.
      if (function->hasAttr(kDecodeThresholdAttr))
        continue;
      SmallVector<AttentionOp> prompts;
      SmallVector<SparseAttentionOp> decodes;
      function.walk([&](AttentionOp attention) { prompts.push_back(attention); });
      function.walk([&](SparseAttentionOp attention) { decodes.push_back(attention); });
      for (AttentionOp attention : prompts)
        versionPrompts(attention);
      for (SparseAttentionOp attention : decodes)
        versionDecodes(attention, mostLatent);
    }
  }
};
} // namespace
