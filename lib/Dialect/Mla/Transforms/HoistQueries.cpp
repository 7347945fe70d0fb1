//===- HoistQueries.cpp - mla-hoist-queries ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A branch runs as one: what stands in it is beside nothing that stands in front. Queries on
// latents need no selection, so that they can be made while the indexer selects. Assumes that
// conditions are known where queries are; afterwards they have a branch of their own, which
// computes them under the same condition.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAHOISTQUERIES
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Of branches whose `else` regions `op` stands in, up to the function's block; nothing where that
/// is not so.
static std::optional<SmallVector<scf::IfOp>> findBranches(Operation *op, Block *entry) {
  SmallVector<scf::IfOp> branches;
  while (op->getBlock() != entry) {
    auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
    if (!branch || branch.thenBlock() == op->getBlock())
      return std::nullopt;
    branches.push_back(branch);
    op = branch;
  }
  return branches;
}

/// Behind what defines all of `values` in the function's block; null where one is defined
/// elsewhere.
static Operation *findPlace(ArrayRef<Value> values, Block *entry) {
  Operation *last = nullptr;
  for (Value value : values) {
    Operation *source = value.getDefiningOp();
    if (!source && value.getParentBlock() == entry)
      continue;
    if (!source || source->getBlock() != entry)
      return nullptr;
    if (!last || last->isBeforeInBlock(source))
      last = source;
  }
  return last ? last->getNextNode() : &entry->front();
}

/// The batch whose attention `query` is for: that of what reads it.
static Value findBatch(HeadProjectOp query) {
  for (Operation *user : query->getUsers())
    if (auto attention = dyn_cast<SparseAttentionOp>(user))
      return attention.getBatch();
  return {};
}

static void hoist(HeadProjectOp query, Block *entry) {
  auto branches = findBranches(query, entry);
  Value batch = findBatch(query);
  if (!batch || !branches || branches->empty())
    return;
  SmallVector<Value> needed(query->getOperands());
  for (scf::IfOp branch : *branches)
    needed.push_back(branch.getCondition());
  Operation *place = findPlace(needed, entry);
  Operation *selection = branches->back();
  if (!place || !isa<BlockArgument>(batch) || !place->isBeforeInBlock(selection))
    return;
  OpBuilder b(place);
  Location loc = query.getLoc();
  Value isElsewhere;
  for (scf::IfOp branch : *branches) {
    Value condition = branch.getCondition();
    isElsewhere =
        isElsewhere ? arith::OrIOp::create(b, loc, isElsewhere, condition).getResult() : condition;
  }
  auto type = cast<RankedTensorType>(query.getType());
  Value tokens = BatchDimOp::create(b, loc, b.getIndexType(), batch, "num_tokens");
  auto branch = scf::IfOp::create(b, loc, type, isElsewhere, /*withElseRegion=*/true);
  query.getResult().replaceAllUsesWith(branch.getResult(0));
  b.setInsertionPointToStart(branch.thenBlock());
  Value none = tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType(), tokens);
  scf::YieldOp::create(b, loc, none);
  b.setInsertionPointToStart(branch.elseBlock());
  query->moveBefore(scf::YieldOp::create(b, loc, query.getResult()));
}

namespace {
struct HoistQueries : mla::impl::MlaHoistQueriesBase<HoistQueries> {
  using MlaHoistQueriesBase::MlaHoistQueriesBase;

  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      // Prompts alone have nothing to win: a second stream costs short ones 2 us, and hides as
      // much.
      if (function.isDeclaration() || !function->hasAttr(kDecodeThresholdAttr))
        continue;
      SmallVector<HeadProjectOp> queries;
      function.walk([&](HeadProjectOp query) { queries.push_back(query); });
      for (HeadProjectOp query : queries)
        hoist(query, &function.front());
    }
  }
};
} // namespace
