//===- SumParts.cpp - mla-sum-parts ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Latent projections have too few columns for the programs that a machine's memory wants, so
// that two of the same rows become one product and its depth is cut. Assumes nothing; afterwards
// all that are cut stand in an mla.sum_parts. Idea: split-K, with a fixed order of sums.
//
//===----------------------------------------------------------------------===//

#include "KnownAt.h"

#include "mla/Analysis/ProductCost.h"
#include "mla/Dialect/Mla/IR/ModuleTarget.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASUMPARTS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

namespace {
/// What both latent projections have.
struct Projection {
  Operation *op = nullptr;
  Value input, weight, gamma, bias;

  template <typename Op> static Projection read(Op op) {
    return {op, op.getInput(), op.getWeight(), op.getGamma(), op.getBias()};
  }
  static Projection of(Operation *op) {
    return llvm::TypeSwitch<Operation *, Projection>(op)
        .Case<LatentProjectOp, LatentAppendOp>([](auto typed) { return read(typed); })
        .Default(Projection());
  }
  int64_t columns() const { return cast<RankedTensorType>(weight.getType()).getDimSize(0); }
  int64_t depth() const { return cast<RankedTensorType>(weight.getType()).getDimSize(1); }
  /// Columns of the latent, and of what is behind it.
  int64_t width() const { return cast<RankedTensorType>(gamma.getType()).getDimSize(0); }
  int64_t tail() const { return columns() - width(); }
};
} // namespace

/// Whether rows of `value` lie in memory as they are, not every other element of them.
static bool isDense(Value value) {
  if (auto slice = value.getDefiningOp<tensor::ExtractSliceOp>())
    return slice.hasUnitStride() && isDense(slice.getSource());
  return true;
}

/// Whether the product can be cut, and the kernel that adds parts up can hold its rows.
static bool canCut(const Projection &projection, const mlac::TileShapes &shapes) {
  auto weight = cast<RankedTensorType>(projection.weight.getType());
  return !projection.bias && weight.hasStaticShape() && isDense(projection.input) &&
         isDense(projection.weight) && shapes.canHoldRow(projection.width()) &&
         (projection.tail() == 0 || shapes.canHoldRow(projection.tail()));
}

/// Another projection of the same input, behind `first`, that may take place there: nothing
/// between them sees a cache.
static Projection findSibling(const Projection &first) {
  for (Operation *user : first.input.getUsers()) {
    Projection other = Projection::of(user);
    if (!other.op || user->getBlock() != first.op->getBlock() || !first.op->isBeforeInBlock(user) ||
        !llvm::all_of(user->getOperands(), [&](Value value) { return isKnownAt(value, first.op); }))
      continue;
    auto seesCache = [](Operation &between) {
      return llvm::any_of(between.getOperandTypes(), llvm::IsaPred<CacheType>);
    };
    auto behind = std::next(first.op->getIterator());
    if (llvm::none_of(llvm::make_range(behind, user->getIterator()), seesCache))
      return other;
  }
  return {};
}

static void group(ArrayRef<Operation *> projections, int64_t parts) {
  OpBuilder builder(projections.front());
  SmallVector<Value> made;
  for (Operation *op : projections)
    llvm::append_range(made, op->getResults());
  auto sum = SumPartsOp::create(builder, projections.front()->getLoc(), TypeRange(ValueRange(made)),
                                static_cast<uint64_t>(parts));
  for (auto [inner, result] : llvm::zip_equal(made, sum.getResults()))
    inner.replaceAllUsesWith(result);
  Block &body = sum.getBody().emplaceBlock();
  for (Operation *op : projections)
    op->moveBefore(&body, body.end());
  builder.setInsertionPointToEnd(&body);
  YieldOp::create(builder, sum.getLoc(), made);
}

namespace {
struct SumParts : mla::impl::MlaSumPartsBase<SumParts> {
  using MlaSumPartsBase::MlaSumPartsBase;

  void runOnOperation() override {
    machine = findMachine(getOperation(), target);
    SmallVector<Operation *> projections;
    getOperation().walk([&](Operation *op) {
      if (Projection::of(op).op && !isa<SumPartsOp>(op->getParentOp()))
        projections.push_back(op);
    });
    for (Operation *op : projections)
      if (!isa<SumPartsOp>(op->getParentOp())) // as the second of another
        cut(Projection::of(op));
  }

private:
  int64_t chooseParts(int64_t columns, int64_t depth) const {
    return mlac::chooseDepthParts({columns, depth}, mlac::TileShapes::get(target), machine);
  }

  /// `first` alone, or with another, if that leads to several parts.
  void cut(const Projection &first) {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    if (!canCut(first, shapes))
      return;
    Projection other = findSibling(first);
    bool areJoined =
        other.op && canCut(other, shapes) && first.columns() % mlac::SwappedTile::kColumns == 0;
    if (areJoined) {
      int64_t parts = chooseParts(first.columns() + other.columns(), first.depth());
      if (parts > 1)
        return group({first.op, other.op}, parts);
    }
    if (int64_t parts = chooseParts(first.columns(), first.depth()); parts > 1)
      group({first.op}, parts);
  }

  mlac::TargetDescription machine;
};
} // namespace
