//===- FuseRows.cpp - mla-fuse-rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Norm and rotation of heads, norm, rotation and append of a row, and bias and append of gates are
// one operation each. Assumes nothing; afterwards no such chain remains that a program holds.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "KnownAt.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAFUSEROWS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Rows of which a program holds the pairs' first elements, their second ones, and the channels in
/// front of and behind them.
static bool canHold(RopeOp rope, const mlac::TileShapes &shapes) {
  int64_t columns = cast<RankedTensorType>(rope.getInput().getType()).getShape().back();
  int64_t half = rope.getRope().getDim() / 2, before = rope.getOffset().value_or(0);
  SmallVector<int64_t> widths = {half};
  for (int64_t rest : {before, columns - before - 2 * half})
    if (rest != 0)
      widths.push_back(rest);
  return !rope.getInverse() && !rope.getCodesGroup() && !hasTokenAngles(rope) &&
         rope.getTable().getType().getRank() == 2 &&
         rope.getTable().getType().getElementType().isF32() &&
         shapes.canHoldRow(llvm::ArrayRef(widths));
}

/// The norm of the rope's rows, if it has one multiplier and gives f32, which nothing rounds
/// between.
static RmsNormOp findNorm(RopeOp rope) {
  auto norm = findMaker<RmsNormOp>(rope.getInput());
  bool isWide = norm && cast<RankedTensorType>(norm.getType()).getElementType().isF32() &&
                norm.getMultiplier().isExactlyValue(1.0);
  return isWide ? norm : RmsNormOp();
}

static Attribute offsetOf(RopeOp rope) {
  return Builder(rope.getContext()).getI64IntegerAttr(rope.getOffset().value_or(0));
}

static void fuseAppend(AppendOp append, const mlac::TileShapes &shapes) {
  CacheType cache = append.getCache().getType();
  ArrayRef<CacheField> fields = cache.getFields();
  using mlac::cache::Part;
  if (fields.size() != 1 || fields[0].heads != 1 || !cache.isStoredByRow() || cache.getHadamard() ||
      (fields[0].part != Part::Latent && fields[0].part != Part::Index))
    return;
  auto rope = findMaker<RopeOp>(append.getRows().front());
  if (!rope || rope.getBatch() != append.getBatch() || !canHold(rope, shapes) ||
      cast<RankedTensorType>(rope.getInput().getType()).getRank() != 2)
    return;
  RmsNormOp norm = findNorm(rope);
  OpBuilder builder(append);
  auto fused = RopeAppendOp::create(
      builder, append.getLoc(), cache, norm ? norm.getInput() : rope.getInput(),
      norm ? norm.getGamma() : Value(), norm ? norm.getEpsAttr() : FloatAttr(), rope.getTable(),
      rope.getRopeAttr(), cast<IntegerAttr>(offsetOf(rope)), rope.getEveryAttr(), append.getCache(),
      append.getBatch());
  append.getResult().replaceAllUsesWith(fused.getResult());
  append.erase();
  rope.erase();
  if (norm)
    norm.erase();
}

static void fuseNorm(RopeOp rope, const mlac::TileShapes &shapes) {
  RmsNormOp norm = findNorm(rope);
  if (!norm || static_cast<int64_t>(rope.getEvery()) != 1 || !canHold(rope, shapes))
    return;
  OpBuilder builder(rope);
  auto fused = NormRopeOp::create(
      builder, rope.getLoc(), rope.getType(), norm.getInput(), norm.getGamma(), norm.getEpsAttr(),
      rope.getTable(), rope.getBatch(), rope.getRopeAttr(), cast<IntegerAttr>(offsetOf(rope)));
  rope.getResult().replaceAllUsesWith(fused.getResult());
  rope.erase();
  norm.erase();
}

/// Rows that a program holds, or blocks of them.
static bool canHoldBlocks(int64_t columns, const mlac::TileShapes &shapes) {
  return mlac::findRowBlock(shapes, columns) != 0;
}

static void fuseBias(AppendOp append, const mlac::TileShapes &shapes) {
  CacheType cache = append.getCache().getType();
  if (append.getRows().size() != 2 || cache.isQuantized() || !cache.getElement().isF32())
    return;
  Value values = append.getRows()[0];
  auto add = findMaker<AddPositionBiasOp>(append.getRows()[1]);
  if (!add || add.getBatch() != append.getBatch() ||
      !canHoldBlocks(add.getBias().getType().getDimSize(1), shapes) ||
      !cast<RankedTensorType>(add.getBias().getType()).getElementType().isF32() ||
      cast<RankedTensorType>(values.getType()).getRank() != 2)
    return;
  OpBuilder builder(append);
  auto fused = BiasAppendOp::create(builder, append.getLoc(), cache, values, add.getInput(),
                                    add.getBias(), append.getCache(), append.getBatch());
  append.getResult().replaceAllUsesWith(fused.getResult());
  append.erase();
  add.erase();
}

/// The pool as the step gets it: which rows it has where does not depend on what is written to
/// them.
static Value findPool(Value cache) {
  while (Operation *writer = cache.getDefiningOp()) {
    Value before;
    for (Value operand : writer->getOperands())
      if (operand.getType() == cache.getType())
        before = operand;
    if (!before || writer->getNumRegions() != 0)
      break;
    cache = before;
  }
  return cache;
}

/// Where lists of keys begin: ahead of all that is computed, where the pool is the step's.
static Operation *findListPlace(ConvertIndicesOp convert, Value pool, Value batch) {
  bool isOfStep = isa<BlockArgument>(pool) && isa<BlockArgument>(batch) &&
                  pool.getParentBlock() == convert->getBlock();
  if (!isOfStep)
    return convert;
  for (Operation &op : *convert->getBlock())
    if (!op.hasTrait<OpTrait::ConstantLike>())
      return &op;
  return convert;
}

/// Keys that a token sees, as rows of a pool: one kernel that looks them up as it lists them.
static void fuseSeen(ConvertIndicesOp convert, const mlac::TileShapes &shapes) {
  auto seen = findMaker<SeenKeysOp>(convert.getPositions());
  if (!seen || convert.getPrefillRequests() || convert.getWorkspace() || seen.getCache() ||
      seen.getBatch() != convert.getBatch() || seen->getBlock() != convert->getBlock() ||
      !canHoldBlocks(cast<RankedTensorType>(convert.getType()).getDimSize(1), shapes))
    return;
  Value pool = findPool(convert.getCache());
  Operation *place = findListPlace(convert, pool, seen.getBatch());
  if (place == convert.getOperation())
    pool = convert.getCache();
  // The count's users stand behind the list.
  for (Operation *user : seen.getCount().getUsers()) {
    Operation *here = convert->getBlock()->findAncestorOpInBlock(*user);
    if (!here || !place->isBeforeInBlock(here))
      return;
  }
  OpBuilder builder(place);
  auto fused =
      SeenKeysOp::create(builder, convert.getLoc(), seen.getCount().getType(), convert.getType(),
                         seen.getBatch(), seen.getWindowAttr(), seen.getEveryAttr(), pool);
  seen.getCount().replaceAllUsesWith(fused.getCount());
  convert.getResult().replaceAllUsesWith(fused.getKeys());
  convert.erase();
  seen.erase();
}

namespace {
struct FuseRows : mla::impl::MlaFuseRowsBase<FuseRows> {
  using MlaFuseRowsBase::MlaFuseRowsBase;

  void runOnOperation() override {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    SmallVector<AppendOp> appends;
    getOperation().walk([&](AppendOp op) { appends.push_back(op); });
    for (AppendOp op : appends)
      op.getRows().size() == 1 ? fuseAppend(op, shapes) : fuseBias(op, shapes);
    SmallVector<RopeOp> ropes;
    getOperation().walk([&](RopeOp op) { ropes.push_back(op); });
    for (RopeOp op : ropes)
      fuseNorm(op, shapes);
    SmallVector<ConvertIndicesOp> conversions;
    getOperation().walk([&](ConvertIndicesOp op) { conversions.push_back(op); });
    for (ConvertIndicesOp op : conversions)
      fuseSeen(op, shapes);
  }
};
} // namespace
