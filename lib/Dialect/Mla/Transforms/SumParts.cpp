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
/// What all projections have; a plain one has no gamma.
struct Projection {
  Operation *op = nullptr;
  Value input, weight, gamma, bias;

  static Projection of(Operation *op) {
    return llvm::TypeSwitch<Operation *, Projection>(op)
        .Case<LatentProjectOp, LatentAppendOp>([](auto typed) {
          return Projection{typed, typed.getInput(), typed.getWeight(), typed.getGamma(),
                            typed.getBias()};
        })
        .Case<ProjectOp>([](ProjectOp plain) {
          if (plain.getRounded()) // parts are summed in f32, and not rounded before
            return Projection();
          return Projection{plain, plain.getInput(), plain.getWeight(), {}, plain.getBias()};
        })
        .Default(Projection());
  }
  bool isLatent() const { return op && gamma; }
  int64_t columns() const { return cast<RankedTensorType>(weight.getType()).getDimSize(0); }
  int64_t depth() const { return cast<RankedTensorType>(weight.getType()).getDimSize(1); }
  /// Columns of the latent, and of what is behind it.
  int64_t width() const {
    return gamma ? cast<RankedTensorType>(gamma.getType()).getDimSize(0) : columns();
  }
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
  return !projection.bias && weight.hasStaticShape() && weight.getRank() == 2 &&
         isDense(projection.input) && isDense(projection.weight) &&
         shapes.canHoldRow(projection.width()) &&
         (projection.tail() == 0 || shapes.canHoldRow(projection.tail()));
}

/// Whether `other`, behind `first`, may take place there.
static bool canMoveTo(const Projection &first, Operation *other) {
  if (other->getBlock() != first.op->getBlock() || !first.op->isBeforeInBlock(other) ||
      !llvm::all_of(other->getOperands(), [&](Value value) { return isKnownAt(value, first.op); }))
    return false;
  // What sees no cache itself may pass what does.
  auto seesCache = [](Operation &op) {
    return llvm::any_of(op.getOperandTypes(), llvm::IsaPred<CacheType>);
  };
  auto behind = std::next(first.op->getIterator());
  return isa<ProjectOp>(other) ||
         llvm::none_of(llvm::make_range(behind, other->getIterator()), seesCache);
}

/// Whether the weight is stored as codes, which a product has all of or none.
static bool isCoded(Value weight) { return !!weight.getDefiningOp<ScaledWeightOp>(); }

/// Others of the same input that may take place at `first`, those with a norm in front.
static SmallVector<Projection> findSiblings(const Projection &first) {
  SmallVector<Projection> siblings;
  for (bool isLatent : {true, false})
    for (Operation &op : *first.op->getBlock()) {
      Projection other = Projection::of(&op);
      if (other.op && other.isLatent() == isLatent && other.input == first.input &&
          isCoded(other.weight) == isCoded(first.weight) && canMoveTo(first, &op))
        siblings.push_back(other);
    }
  return siblings;
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
      if (Projection::of(op).isLatent() && !isa<SumPartsOp>(op->getParentOp()))
        projections.push_back(op);
    });
    for (Operation *op : projections)
      if (!isa<SumPartsOp>(op->getParentOp())) // with another
        cut(Projection::of(op));
  }

private:
  int64_t chooseParts(const mlac::ProductShape &shape) const {
    return mlac::chooseDepthParts(shape, shapes(), machine);
  }
  const mlac::TileShapes &shapes() const { return mlac::TileShapes::get(target); }

  /// Whether `other` becomes part of the product: with a norm if several parts are left, else if
  /// its columns are too few for a product of their own.
  bool joins(const Projection &other, const mlac::ProductShape &product) const {
    if (!canCut(other, shapes()) || product.columns % mlac::SwappedTile::kColumns != 0)
      return false;
    int64_t joint = chooseParts({product.columns + other.columns(), product.depth});
    return joint > 1 &&
           (other.isLatent() || mlac::isTooNarrow({other.columns(), product.depth}, machine));
  }

  /// `first` alone, or with others, if that leads to several parts.
  void cut(const Projection &first) {
    if (!canCut(first, shapes()))
      return;
    SmallVector<Operation *> projections = {first.op};
    mlac::ProductShape product{first.columns(), first.depth()};
    bool hasPlain = false;
    for (const Projection &other : findSiblings(first)) {
      if (!joins(other, product))
        continue;
      projections.push_back(other.op);
      product.columns += other.columns();
      hasPlain |= !other.isLatent();
    }
    int64_t parts = chooseParts(product);
    if (hasPlain)
      parts = mlac::balanceDepthParts(product, parts, shapes(), machine);
    if (parts > 1)
      group(projections, parts);
  }

  mlac::TargetDescription machine;
};
} // namespace
