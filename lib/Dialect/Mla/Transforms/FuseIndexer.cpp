//===- FuseIndexer.cpp - mla-fuse-indexer ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys: norm, rotation and append are one operation. Queries: rotation, quantisation and the
// heads' weights are. Assumes nothing; afterwards no such chain remains that a program holds.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "KnownAt.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAFUSEINDEXER
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Rows of which a program holds the pairs' first elements, their second ones, and the channels in
/// front of and behind them as tiles.
static bool canHold(RopeOp rope, const mlac::TileShapes &shapes) {
  int64_t half = rope.getRope().getDim() / 2, before = rope.getOffset().value_or(0);
  int64_t columns = cast<RankedTensorType>(rope.getInput().getType()).getShape().back();
  int64_t widths[] = {half, before, columns - before - 2 * half};
  return !rope.getInverse() && !hasTokenAngles(rope) &&
         static_cast<int64_t>(rope.getEvery()) == 1 && rope.getTable().getType().getRank() == 2 &&
         rope.getInput().getType() == rope.getType() && llvm::all_of(widths, [&](int64_t width) {
           return width % mlac::kWidthMultiple == 0 && width <= shapes.columns;
         });
}

static void fuseKeys(AppendOp append, const mlac::TileShapes &shapes) {
  CacheType cache = append.getCache().getType();
  if (append.getRows().size() != 1 || cache.getIndexWidth() == 0 || cache.getHadamard() ||
      cache.getLayout().scaleGroup != cache.getIndexWidth() ||
      mlac::cache::isPacked(cache.getLayout()))
    return;
  auto rope = findMaker<RopeOp>(append.getRows().front());
  auto norm = rope ? findMaker<LayerNormOp>(rope.getInput()) : LayerNormOp();
  if (!norm || rope.getBatch() != append.getBatch() || !canHold(rope, shapes))
    return;
  OpBuilder builder(append);
  auto fused = IndexAppendOp::create(builder, append.getLoc(), cache, norm.getInput(),
                                     norm.getWeight(), norm.getBias(), norm.getEpsilonAttr(),
                                     rope.getTable(), rope.getRopeAttr(),
                                     builder.getI64IntegerAttr(rope.getOffset().value_or(0)),
                                     append.getCache(), append.getBatch());
  append.getResult().replaceAllUsesWith(fused.getResult());
  append.erase();
  rope.erase();
  norm.erase();
}

static void fuseQueries(IndexWeightsOp weights, const mlac::TileShapes &shapes) {
  auto quantize = weights.getScales() ? findMaker<QuantizeOp>(weights.getScales()) : QuantizeOp();
  auto rope = quantize ? findMaker<RopeOp>(quantize.getInput()) : RopeOp();
  auto type = rope ? cast<RankedTensorType>(rope.getType()) : RankedTensorType();
  if (!rope || type.getRank() != 3 ||
      quantize.getGroup() != static_cast<uint64_t>(type.getDimSize(2)) || !canHold(rope, shapes))
    return;
  // The codes' users stand behind the weights or are not known to.
  for (Operation *user : quantize.getQuantized().getUsers())
    if (user->getBlock() != weights->getBlock() || !weights->isBeforeInBlock(user))
      return;
  OpBuilder builder(weights);
  auto fused = IndexQueryOp::create(
      builder, weights.getLoc(), quantize.getQuantized().getType(), weights.getType(),
      rope.getInput(), weights.getInput(), weights.getFactorAttr(), rope.getTable(),
      rope.getBatch(), rope.getRopeAttr(), builder.getI64IntegerAttr(rope.getOffset().value_or(0)),
      quantize.getRuleAttr(), quantize.getScaleFloorAttr(), quantize.getAmaxFloorAttr());
  quantize.getQuantized().replaceAllUsesWith(fused.getCodes());
  weights.getResult().replaceAllUsesWith(fused.getWeights());
  weights.erase();
  quantize.erase();
  rope.erase();
}

namespace {
struct FuseIndexer : mla::impl::MlaFuseIndexerBase<FuseIndexer> {
  using MlaFuseIndexerBase::MlaFuseIndexerBase;

  void runOnOperation() override {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    SmallVector<AppendOp> appends;
    SmallVector<IndexWeightsOp> weights;
    getOperation().walk([&](AppendOp op) { appends.push_back(op); });
    getOperation().walk([&](IndexWeightsOp op) { weights.push_back(op); });
    for (AppendOp op : appends)
      fuseKeys(op, shapes);
    for (IndexWeightsOp op : weights)
      fuseQueries(op, shapes);
  }
};
} // namespace
