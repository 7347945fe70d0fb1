//===- SharePrefix.cpp - mla-share-prefix ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every request of a decode step reads a common prefix again, though each of its keys
// could be up-projected once for all of them. Assumes that forms are chosen; afterwards
// absorbed attentions have a branch that attends to the prefix once and merges. Which
// tokens are common, the runtime finds out; whether they pay, an expression over the
// step's sizes says (SharedPrefixCost).
//
//===----------------------------------------------------------------------===//

#include "BatchSizes.h"
#include "LayerShape.h"
#include "mla/Analysis/SharedPrefixCost.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASHAREPREFIX
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

//===----------------------------------------------------------------------===//
// The condition
//===----------------------------------------------------------------------===//

/// Whether sharing `common` tokens takes less time: SharedPrefixCost::computeSaving.
static Value emitPays(BatchSizes &a, Value common, const mlac::SharedPrefixCost &cost,
                      int64_t heads) {
  Value tokens = a.batchDim("num_tokens");
  Value requests = a.batchDim("num_requests");
  Value rows = a.multiply(tokens, heads);
  Value tiles = a.maximum(requests, a.ceilDiv(rows, cost.tileRows));
  Value absorbed = a.multiply(tiles, cost.absorbedTile);
  Value saved = a.multiply(absorbed, common);

  Value items = a.multiply(a.ceilDiv(tokens, cost.turnTokens), heads);
  Value turns = a.multiply(a.ceilDiv(items, cost.numSms), cost.expandedTurn);
  Value whole = a.multiply(turns, common);
  Value shares = a.multiply(a.multiply(items, cost.expandedTurn), common);
  Value share = a.ceilDiv(shares, cost.numSms);
  Value cut = a.add(share, a.constant(cost.split));
  Value expanded = a.minimum(whole, cut);
  Value up = a.multiply(common, cost.upProjection);
  Value merge = a.multiply(tokens, cost.merge);
  Value rest = a.add(merge, a.constant(cost.fixed));
  Value ofKeys = a.add(expanded, up);
  Value spent = a.add(ofKeys, rest);
  return a.isMore(saved, spent);
}

static mlac::SharedPrefixProblem readProblem(AttentionOp attention) {
  BatchType batch = attention.getBatch().getType();
  mlac::SharedPrefixProblem problem;
  problem.dims = readLayerDims(attention);
  problem.queryLen = batch.hasStaticQueryLen() ? batch.getQueryLen() : 0;
  problem.pageSize = attention.getCache().getType().getPageSize();
  problem.elementBytes = readFormProblem(attention).elementBytes;
  return problem;
}

static void tellWhenItPays(AttentionOp attention, const mlac::SharedPrefixCost &cost,
                           int64_t heads) {
  constexpr int64_t kMostSharers = 4096, kPrefixes[] = {512, 2048, 8192, 32768};
  InFlightDiagnostic diagnostic = attention.emitRemark("a shared prefix pays");
  StringRef separator = " with ";
  for (int64_t keys : kPrefixes) {
    std::optional<int64_t> least = mlac::findLeastSharers(cost, heads, keys, kMostSharers);
    diagnostic << separator << keys << " tokens ";
    if (least)
      diagnostic << "from " << *least << " one-token queries on";
    else
      diagnostic << "for no number of queries up to " << kMostSharers;
    separator = ", ";
  }
}

//===----------------------------------------------------------------------===//
// The branch
//===----------------------------------------------------------------------===//

/// A partial of `attention` over a part of its batch: output and token-major LSE.
static AttentionOp emitPart(OpBuilder &builder, AttentionOp attention, Value part, Form form,
                            Type element) {
  auto output = cast<RankedTensorType>(attention.getOutput().getType());
  auto encoding =
      LseAttr::get(builder.getContext(), LseBase::E, LseLayout::TokenMajor, LseEmpty::NegInf);
  auto lse = RankedTensorType::get(output.getShape().drop_back(), builder.getF32Type(), encoding);
  return AttentionOp::create(
      builder, attention.getLoc(), RankedTensorType::get(output.getShape(), element), lse,
      attention.getQNope(), attention.getQPe(), attention.getLatent(), attention.getKPe(),
      attention.getWUk(), attention.getWUv(), attention.getCache(), part,
      /*selected=*/Value(), attention.getScaleAttr(), FormAttr::get(builder.getContext(), form));
}

static SmallVector<Value> emitShared(OpBuilder &builder, AttentionOp attention,
                                     SharePrefixOp parts) {
  Type element = cast<RankedTensorType>(attention.getOutput().getType()).getElementType();
  AttentionOp own = emitPart(builder, attention, parts.getOwn(), Form::Absorbed, element);
  AttentionOp prefix =
      emitPart(builder, attention, parts.getShared(), Form::Expanded, builder.getF32Type());
  Value wanted = attention.getLse();
  auto merge = MergeOp::create(builder, attention.getLoc(), attention.getOutput().getType(),
                               wanted ? own.getLse().getType() : Type(), own.getOutput(),
                               own.getLse(), prefix.getOutput(), prefix.getLse());
  SmallVector<Value> results = {merge.getOutput()};
  if (wanted && wanted.getType() != merge.getLse().getType())
    results.push_back(
        ConvertLseOp::create(builder, attention.getLoc(), wanted.getType(), merge.getLse()));
  else if (wanted)
    results.push_back(merge.getLse());
  return results;
}

namespace {
struct SharePrefix : mla::impl::MlaSharePrefixBase<SharePrefix> {
  using MlaSharePrefixBase::MlaSharePrefixBase;

  void runOnOperation() override {
    if (mode == SharePrefixMode::Never)
      return;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      for (AttentionOp attention : llvm::to_vector(function.getOps<AttentionOp>()))
        if (attention.getForm() == Form::Absorbed && canShare(attention))
          share(attention);
    }
  }

  /// There is context, the batch is one that may have a shared prefix, and no other of the
  /// function has one.
  static bool canShare(AttentionOp attention) {
    auto function = attention->getParentOfType<func::FuncOp>();
    auto part = attention.getBatch().getDefiningOp<BatchPartOp>();
    bool isSplit = function->hasAttr(kDecodeThresholdAttr);
    bool fits = isSplit ? part && part.getPart() == BatchPart::Decodes
                        : isa<BlockArgument>(attention.getBatch());
    if (!fits || attention.getSelected() || attention.getBatch().getType().getContextLen() == 0)
      return false;
    WalkResult others = function.walk([&](SharePrefixOp known) {
      bool isOwn = known.getBatch() == attention.getBatch() &&
                   known->getBlock() == attention->getBlock() && known->isBeforeInBlock(attention);
      return isOwn ? WalkResult::advance() : WalkResult::interrupt();
    });
    return !others.wasInterrupted();
  }

  SharePrefixOp findOrEmitParts(AttentionOp attention);
  void share(AttentionOp attention);
};
} // namespace

/// One for all attentions over the batch.
SharePrefixOp SharePrefix::findOrEmitParts(AttentionOp attention) {
  Value batch = attention.getBatch();
  for (Operation *user : batch.getUsers())
    if (auto parts = dyn_cast<SharePrefixOp>(user))
      return parts;
  OpBuilder builder(attention);
  builder.setInsertionPointAfterValue(batch);
  Location loc = attention.getLoc();
  BatchSizes a(builder, loc, batch);
  Value tokens = a.batchDim("num_common_tokens");
  if (mode == SharePrefixMode::Auto) {
    mlac::SharedPrefixProblem problem = readProblem(attention);
    mlac::SharedPrefixCost cost =
        mlac::computeSharedPrefixCost(problem, readTarget(getOperation()));
    tellWhenItPays(attention, cost, problem.dims.numHeads);
    Value pays = emitPays(a, tokens, cost, problem.dims.numHeads);
    Value none = a.constant(0);
    tokens = arith::SelectOp::create(builder, loc, pays, tokens, none);
  }
  auto shared = BatchType::get(builder.getContext(), ShapedType::kDynamic, ShapedType::kDynamic);
  return SharePrefixOp::create(builder, loc, shared, batch.getType(), tokens, batch);
}

void SharePrefix::share(AttentionOp attention) {
  SharePrefixOp parts = findOrEmitParts(attention);
  OpBuilder builder(attention);
  Location loc = attention.getLoc();
  BatchSizes a(builder, loc, attention.getBatch());
  Value taken = a.batchDim("num_shared_tokens"), none = a.constant(0);
  Value shares = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, taken, none);
  auto branch = scf::IfOp::create(
      builder, loc, shares,
      [&](OpBuilder &nested, Location) {
        scf::YieldOp::create(nested, loc, emitShared(nested, attention, parts));
      },
      [&](OpBuilder &nested, Location) {
        Operation *plain = nested.clone(*attention);
        scf::YieldOp::create(nested, loc, plain->getResults());
      });
  attention->replaceAllUsesWith(branch);
  attention->erase();
}
