//===- SoftmaxRole.cpp - what roles with a softmax share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/SoftmaxRole.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;

bool mlac::canCloneInRoles(tile::KernelOp kernel, std::string &why) {
  WalkResult walk = kernel.walk([&](Operation *op) {
    bool known =
        isa<tile::TileDialect, arith::ArithDialect, math::MathDialect, memref::MemRefDialect>(
            op->getDialect()) ||
        isa<scf::ForOp, scf::IfOp, scf::YieldOp>(op);
    if (auto branch = dyn_cast<scf::IfOp>(op))
      known = branch.getNumResults() == 0;
    bool isLoad = isa<tile::LoadOp, tile::LoadPagedOp>(op); // of any number of rows
    for (Value result : op->getResults())
      if (auto tile = dyn_cast<RankedTensorType>(result.getType()))
        known &= isLoad || tile.getDimSize(0) == sm90::kTileRows;
    if (!known)
      why = ("the kernel has a '" + op->getName().getStringRef() + "'").str();
    return known ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !walk.wasInterrupted();
}

Value mlac::rescaleIfNeeded(ImplicitLocOpBuilder &b, Value output, Value factor) {
  Value one = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(factor.getType()), b.getF32FloatAttr(1)));
  Value moved = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, factor, one);
  Value any = sm90::WarpAnyOp::create(b, b.getI1Type(), moved);
  auto branch = scf::IfOp::create(b, output.getType(), any, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value factors = sm90::BroadcastOp::create(b, output.getType(), factor);
  scf::YieldOp::create(b, arith::MulFOp::create(b, output, factors).getResult());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, output);
  return branch.getResult(0);
}

static bool isOfRank(tile::StoreOp store, unsigned rank) {
  return rank == 0 || cast<RankedTensorType>(store.getValue().getType()).getRank() == rank;
}

/// Whether rows of `value` may go through `scratch` to `view` from a column on. Of an odd number of
/// panels the second warpgroup's columns go on behind the view's: what is staged is not masked.
static bool canStage(tile::StoreOp store, Value value, Value scratch, Value view, Value column) {
  auto type = cast<RankedTensorType>(value.getType());
  auto viewType = cast<MemRefType>(view.getType());
  std::optional<int64_t> first = getConstantIntValue(column);
  unsigned columns = viewType.getRank() - 1;
  if (!scratch || type.getRank() != 2 || viewType.isDynamicDim(columns) || !first ||
      *first + type.getDimSize(1) > viewType.getDimSize(columns))
    return false;
  int64_t rowBytes = type.getDimSize(1) * type.getElementTypeBitWidth() / 8;
  int64_t passBytes = cast<sm90::SmemType>(scratch.getType()).getPanels() * sm90::kPanelRowBytes;
  return rowBytes % passBytes == 0 &&
         chooseVectorBytes(store.getView(), store.getOffsets().back()) == sm90::kChunkBytes;
}

void mlac::emitStore(ImplicitLocOpBuilder &b, LazyCloner &cloner, tile::StoreOp store,
                     int64_t firstColumn, Value scratch, bool inRuns) {
  Value value = cloner.get(store.getValue()), view = cloner.get(store.getView());
  SmallVector<Value> offsets = cloner.get(store.getOffsets());
  if (firstColumn != 0)
    offsets.back() = b.createOrFold<arith::AddIOp>(offsets.back(),
                                                   arith::ConstantIndexOp::create(b, firstColumn));
  if (inRuns && cast<RankedTensorType>(value.getType()).getRank() == 2) {
    bool paired = areRuns(store.getView(), store.getOffsets().back(), /*count=*/4);
    sm90::StoreRunsOp::create(b, value, view, offsets, paired, /*transposed=*/false,
                              /*pairs=*/false);
    return;
  }
  if (canStage(store, value, scratch, view, offsets.back())) {
    sm90::StoreStagedOp::create(b, value, scratch, view, offsets);
    return;
  }
  bool paired = offsets.size() == 2 && arePaired(store.getView(), store.getOffsets().back());
  sm90::StoreOp::create(b, value, view, offsets, paired, /*transposed=*/false);
}

/// The stores that follow `block`'s op `after`, or all of them.
static void emitStores(ImplicitLocOpBuilder &b, LazyCloner &cloner, Block &block, Operation *after,
                       unsigned rank, StoreEmitter emitStore) {
  auto findOurs = [&](tile::StoreOp store) {
    return isOfRank(store, rank) ? WalkResult::interrupt() : WalkResult::advance();
  };
  for (Operation &op : block.without_terminator()) {
    if (after && (&op == after || op.isBeforeInBlock(after)))
      continue;
    if (auto store = dyn_cast<tile::StoreOp>(op); store && isOfRank(store, rank))
      emitStore(store);
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch || !branch.walk(findOurs).wasInterrupted())
      continue;
    auto result =
        scf::IfOp::create(b, cloner.get(branch.getCondition()), !branch.getElseRegion().empty());
    for (auto [from, to] : llvm::zip_equal(branch->getRegions(), result->getRegions())) {
      if (from.empty())
        continue;
      OpBuilder::InsertionGuard guard(b);
      LazyCloner::Scope scope(cloner);
      b.setInsertionPointToStart(&to.front());
      emitStores(b, cloner, from.front(), nullptr, rank, emitStore);
    }
  }
}

void mlac::emitEpilogue(ImplicitLocOpBuilder &b, LazyCloner &cloner, SoftmaxLoop &loop,
                        Operation *outer, unsigned rank, StoreEmitter emitStore) {
  SmallVector<scf::IfOp> conditions;
  for (Operation *parent = loop.keys->getParentOp(); parent != outer;
       parent = parent->getParentOp())
    conditions.push_back(cast<scf::IfOp>(parent));
  OpBuilder::InsertionGuard guard(b);
  for (scf::IfOp condition : llvm::reverse(conditions)) {
    auto branch = scf::IfOp::create(b, cloner.get(condition.getCondition()), false);
    b.setInsertionPointToStart(branch.thenBlock());
  }
  LazyCloner::Scope scope(cloner);
  emitStores(b, cloner, *loop.keys->getBlock(), loop.keys, rank, emitStore);
}
