//===- FuseGroupedAppend.cpp - mla-fuse-grouped-append ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys of heads that are rotated, and go to the cache and nowhere else, are one operation with the
// queries that are rotated by the same angles, the values and the append. It stands where the
// last append stood. Where heads of both are normalised alike and only to be rotated, it does that,
// too. Assumes nothing; afterwards no such append remains.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAFUSEGROUPEDAPPEND
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;
using mlac::cache::Part;

namespace {
/// What becomes one operation; `values` is the append of values to a pool of their own, or null.
struct Chain {
  RopeOp query, key;
  AppendOp append, values;
  RmsNormOp queryNorm, keyNorm; ///< null: none, or of another kind

  AppendOp last() const { return values && append->isBeforeInBlock(values) ? values : append; }
  Value value() { return values ? values.getRows().front() : append.getRows().back(); }
};
} // namespace

/// A rotation of whole heads' rows, each by its token's position or row of the table.
static bool isOfHeads(RopeOp rope) {
  return cast<RankedTensorType>(rope.getType()).getRank() == 3 && !rope.getInverse() &&
         static_cast<int64_t>(rope.getEvery()) == 1 && rope.getInput().getType() == rope.getType();
}

/// Whether all of it is what `key` does to its rows.
static bool isAlike(RopeOp query, RopeOp key) {
  return query != key && isOfHeads(query) && query.getTable() == key.getTable() &&
         query.getBatch() == key.getBatch() && query.getRope() == key.getRope() &&
         hasTokenAngles(query) == hasTokenAngles(key) &&
         query.getOffset().value_or(0) == key.getOffset().value_or(0) &&
         query->getBlock() == key->getBlock() &&
         getElementTypeOrSelf(query) == getElementTypeOrSelf(key) &&
         cast<RankedTensorType>(query.getType()).getDimSize(2) ==
             cast<RankedTensorType>(key.getType()).getDimSize(2);
}

/// Whether all that use `value` stand behind `op`.
static bool isUsedBehind(Value value, Operation *op) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    Operation *own = op->getBlock()->findAncestorOpInBlock(*user);
    return own && op->isBeforeInBlock(own);
  });
}

/// The append of values to a pool that has nothing else, beside that of `append`'s keys.
static AppendOp findValues(AppendOp append) {
  for (auto other : append->getBlock()->getOps<AppendOp>()) {
    ArrayRef<CacheField> fields = other.getCache().getType().getFields();
    if (fields.size() == 1 && fields.front().part == Part::Value &&
        other.getBatch() == append.getBatch())
      return other;
  }
  return {};
}

/// As many heads as `keys`, of their type.
static bool hasHeadsOf(Value rows, Value keys) {
  auto own = cast<RankedTensorType>(rows.getType()), other = cast<RankedTensorType>(keys.getType());
  return own.getRank() == 3 && own.getDimSize(1) == other.getDimSize(1) &&
         own.getElementType() == other.getElementType();
}

/// Queries that nothing needs before the operation stands.
static RopeOp findQuery(Chain chain) {
  for (auto rope : chain.append->getBlock()->getOps<RopeOp>())
    if (isAlike(rope, chain.key) && rope->isBeforeInBlock(chain.last()) &&
        isUsedBehind(rope.getResult(), chain.last()))
      return rope;
  return {};
}

/// What `append` is a part of; without a query: nothing.
static Chain findChain(AppendOp append) {
  ArrayRef<CacheField> fields = append.getCache().getType().getFields();
  auto key = append.getRows().front().getDefiningOp<RopeOp>();
  if (fields.front().part != Part::Key || !key || !key.getResult().hasOneUse() || !isOfHeads(key) ||
      key->getBlock() != append->getBlock() || key.getBatch() != append.getBatch())
    return {};
  Chain chain{.key = key, .append = append};
  if (fields.size() == 1)
    chain.values = findValues(append);
  bool hasValues = fields.size() == 2 || chain.values;
  if (!hasValues || !hasHeadsOf(chain.value(), key.getResult()))
    return {};
  for (AppendOp own : {chain.append, chain.values})
    if (own && own != chain.last() && !isUsedBehind(own.getResult(), chain.last()))
      return {};
  chain.query = findQuery(chain);
  return chain;
}

/// The norm of heads whose only use is `rope`.
static RmsNormOp findNorm(RopeOp rope) {
  auto norm = rope.getInput().getDefiningOp<RmsNormOp>();
  bool isOfHeads = norm && norm->hasOneUse() && norm.getGamma() &&
                   norm.getMultiplier().convertToDouble() == 1 &&
                   norm.getType() == norm.getInput().getType();
  return isOfHeads ? norm : RmsNormOp();
}

/// Whether a program of the target can have all channels of a head.
static bool canHoldHeads(RopeOp rope, const mlac::TileShapes &shapes) {
  int64_t columns = cast<RankedTensorType>(rope.getType()).getDimSize(2);
  int64_t offset = rope.getOffset().value_or(0);
  return shapes.canHoldHeads({columns, offset, rope.getRope().getDim()});
}

static void findNorms(Chain &chain, const mlac::TileShapes &shapes) {
  RmsNormOp query = findNorm(chain.query), key = findNorm(chain.key);
  if (!query || !key || query.getEps() != key.getEps() || !canHoldHeads(chain.key, shapes))
    return;
  chain.queryNorm = query;
  chain.keyNorm = key;
}

static void fuse(Chain chain) {
  OpBuilder builder(chain.last());
  Value valueCache = chain.values ? chain.values.getCache() : Value();
  RmsNormOp queryNorm = chain.queryNorm, keyNorm = chain.keyNorm;
  auto fused = GroupedAppendOp::create(
      builder, chain.append.getLoc(), chain.query.getType(), chain.append.getCache().getType(),
      valueCache ? valueCache.getType() : Type(),
      queryNorm ? queryNorm.getInput() : chain.query.getInput(),
      keyNorm ? keyNorm.getInput() : chain.key.getInput(), chain.value(),
      queryNorm ? queryNorm.getGamma() : Value(), keyNorm ? keyNorm.getGamma() : Value(),
      keyNorm ? keyNorm.getEpsAttr() : FloatAttr(), chain.key.getTable(), chain.key.getRopeAttr(),
      builder.getI64IntegerAttr(chain.key.getOffset().value_or(0)), chain.append.getCache(),
      valueCache, chain.append.getBatch());
  if (hasTokenAngles(chain.key))
    fused->setAttr(kByTokenAttr, builder.getUnitAttr());
  chain.query.getResult().replaceAllUsesWith(fused.getRotated());
  chain.append.getResult().replaceAllUsesWith(fused.getResult());
  if (chain.values)
    chain.values.getResult().replaceAllUsesWith(fused.getValueResult());
  for (Operation *op :
       {chain.append.getOperation(), chain.values.getOperation(), chain.query.getOperation(),
        chain.key.getOperation(), chain.queryNorm.getOperation(), chain.keyNorm.getOperation()})
    if (op)
      op->erase();
}

namespace {
struct FuseGroupedAppend : mla::impl::MlaFuseGroupedAppendBase<FuseGroupedAppend> {
  using MlaFuseGroupedAppendBase::MlaFuseGroupedAppendBase;
  void runOnOperation() override {
    SmallVector<AppendOp> appends;
    getOperation().walk([&](AppendOp op) { appends.push_back(op); });
    llvm::SmallPtrSet<Operation *, 4> done;
    for (AppendOp append : appends) {
      if (done.contains(append))
        continue;
      Chain chain = findChain(append);
      if (!chain.query)
        continue;
      findNorms(chain, mlac::TileShapes::get(target));
      if (chain.values)
        done.insert(chain.values);
      fuse(chain);
    }
  }
};
} // namespace
