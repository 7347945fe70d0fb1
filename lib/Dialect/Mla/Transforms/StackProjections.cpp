//===- StackProjections.cpp - mla-stack-projections ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Projections of the same rows by weights that lie apart are one projection by all of them, whose
// columns they are slices of. Assumes nothing; afterwards no two that suit remain. Idea: the joint
// weights of queries, keys and values of Megatron-LM (Shoeybi et al., 2019).
//
//===----------------------------------------------------------------------===//

#include "KnownAt.h"

#include "mla/Analysis/ProductCost.h"
#include "mla/Dialect/Mla/IR/ModuleTarget.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASTACKPROJECTIONS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Rows of a result begin at so many bytes, as copies of tiles need.
static constexpr int64_t kRowBytes = 16;

/// The matrix [O, I] whose rows the weight has, in order; null where it has none such.
static Value findMatrix(Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  if (!type.hasStaticShape())
    return {};
  if (type.getRank() == 2)
    return weight;
  auto heads = weight.getDefiningOp<tensor::ExpandShapeOp>();
  return heads && heads.getSrcType().getRank() == 2 ? heads.getSrc() : Value();
}

static int64_t countRows(Value matrix) {
  return cast<RankedTensorType>(matrix.getType()).getDimSize(0);
}

/// Whether one of them leaves much of the machine idle by itself; else they are as well off side by
/// side, and what is behind one need not wait for the others.
static bool isAnyTooNarrow(ArrayRef<ProjectOp> stack, const mlac::TargetDescription &machine) {
  return llvm::any_of(stack, [&](ProjectOp project) {
    auto matrix = cast<RankedTensorType>(findMatrix(project.getWeight()).getType());
    return mlac::isTooNarrow({matrix.getDimSize(0), matrix.getDimSize(1)}, machine);
  });
}

/// Whether `value`, columns of wider rows, is read by nothing but what takes rows of any stride.
static bool mayBeStrided(Value value, const mlac::TileShapes &shapes) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, PartRowsOp>(user))
      return mayBeStrided(user->getResult(0), shapes);
    if (auto norm = dyn_cast<RmsNormOp>(user)) // by row
      return norm.getGamma() && norm.getType().getElementType() == getElementTypeOrSelf(value) &&
             shapes.canHoldRow(norm.getType().getShape().back());
    // Attention is to new tokens alone where it shares queries with an indexer.
    auto expanded = dyn_cast<ExpandedAttentionOp>(user);
    bool isQuery = expanded && llvm::is_contained({expanded.getQNope(), expanded.getQPe()}, value);
    return isQuery ||
           isa<tensor::DimOp, HeadProjectOp, RopeOp, NormRopeOp, GroupedAppendOp, IndexQueryOp>(
               user);
  });
}

static bool suits(ProjectOp project, const mlac::TileShapes &shapes) {
  Value matrix = findMatrix(project.getWeight());
  return matrix && !project.getRounded() && !shapes.getSwapped().empty() &&
         mayBeStrided(project.getResult(), shapes);
}

/// Whether both can be one product, `next` in the place of `first`.
static bool areAlike(ProjectOp first, ProjectOp next) {
  auto isCoded = [](ProjectOp project) {
    return !!findMatrix(project.getWeight()).getDefiningOp<ScaledWeightOp>();
  };
  auto elementOf = [](ProjectOp project) { return getElementTypeOrSelf(project.getType()); };
  return next.getInput() == first.getInput() && next->getBlock() == first->getBlock() &&
         static_cast<bool>(next.getBias()) == static_cast<bool>(first.getBias()) &&
         isCoded(next) == isCoded(first) && elementOf(next) == elementOf(first);
}

/// What the projection reads besides its input.
static SmallVector<Value, 2> getParameters(ProjectOp project) {
  SmallVector<Value, 2> parameters = {findMatrix(project.getWeight())};
  if (project.getBias())
    parameters.push_back(project.getBias());
  return parameters;
}

/// `first` and those behind it, in order, as far as their columns are whole tiles but for the last.
static SmallVector<ProjectOp> findStack(ProjectOp first, const mlac::TileShapes &shapes) {
  SmallVector<ProjectOp> stack = {first};
  for (Operation *op = first->getNextNode(); op; op = op->getNextNode()) {
    auto next = dyn_cast<ProjectOp>(op);
    bool isWhole =
        countRows(findMatrix(stack.back().getWeight())) % mlac::SwappedTile::kColumns == 0;
    if (next && isWhole && suits(next, shapes) && areAlike(first, next) &&
        llvm::all_of(getParameters(next), [&](Value value) { return isKnownAt(value, first); }))
      stack.push_back(next);
  }
  return stack;
}

/// Weights, or biases, of the projections as one.
static Value stackValues(OpBuilder &builder, Location loc, ArrayRef<Value> values) {
  return tensor::ConcatOp::create(builder, loc, /*dim=*/0, values);
}

/// Columns `first` on of `all`, in the shape of `result`.
static Value takeColumns(OpBuilder &builder, Value all, int64_t first, Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  Location loc = result.getLoc();
  int64_t columns = 1;
  for (int64_t size : type.getShape().drop_front())
    columns *= size;
  SmallVector<OpFoldResult> offsets = {builder.getIndexAttr(0), builder.getIndexAttr(first)},
                            strides(2, builder.getIndexAttr(1)),
                            sizes = tensor::getMixedSizes(builder, loc, all);
  sizes.back() = builder.getIndexAttr(columns);
  auto flat = RankedTensorType::get({type.getDimSize(0), columns}, type.getElementType());
  Value slice = tensor::ExtractSliceOp::create(builder, loc, flat, all, offsets, sizes, strides);
  if (type.getRank() == 2)
    return slice;
  SmallVector<OpFoldResult> shape = {sizes.front()};
  for (int64_t size : type.getShape().drop_front())
    shape.push_back(builder.getIndexAttr(size));
  return tensor::ExpandShapeOp::create(builder, loc, type, slice,
                                       ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
}

static void join(ArrayRef<ProjectOp> stack, int64_t columns) {
  ProjectOp first = stack.front();
  OpBuilder builder(first);
  SmallVector<Location> locs;
  SmallVector<Value> weights, biases;
  for (ProjectOp project : stack) {
    locs.push_back(project.getLoc());
    weights.push_back(findMatrix(project.getWeight()));
    if (project.getBias())
      biases.push_back(project.getBias());
  }
  Location loc = builder.getFusedLoc(locs);
  Value weight = stackValues(builder, loc, weights);
  Value bias = biases.empty() ? Value() : stackValues(builder, loc, biases);
  auto type = cast<RankedTensorType>(first.getType());
  auto all = ProjectOp::create(
      builder, loc, RankedTensorType::get({type.getDimSize(0), columns}, type.getElementType()),
      first.getInput(), weight, bias);
  int64_t from = 0;
  for (ProjectOp project : stack) {
    int64_t own = countRows(findMatrix(project.getWeight()));
    project.getResult().replaceAllUsesWith(takeColumns(builder, all, from, project.getResult()));
    from += own;
  }
  for (ProjectOp project : stack)
    project->erase();
}

namespace {
struct StackProjections : mla::impl::MlaStackProjectionsBase<StackProjections> {
  using MlaStackProjectionsBase::MlaStackProjectionsBase;

  void runOnOperation() override {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    mlac::TargetDescription machine = findMachine(getOperation(), target);
    SmallVector<ProjectOp> projections;
    getOperation().walk([&](ProjectOp op) {
      if (suits(op, shapes) && !isa<SumPartsOp>(op->getParentOp()))
        projections.push_back(op);
    });
    llvm::DenseSet<Operation *> done;
    for (ProjectOp first : projections) {
      if (done.contains(first))
        continue;
      SmallVector<ProjectOp> stack = findStack(first, shapes);
      int64_t columns = 0;
      for (ProjectOp project : stack)
        columns += countRows(findMatrix(project.getWeight()));
      int64_t bits = columns * getElementTypeOrSelf(first.getType()).getIntOrFloatBitWidth();
      if (stack.size() == 1 || bits % (8 * kRowBytes) != 0 || !isAnyTooNarrow(stack, machine))
        continue;
      done.insert(stack.begin(), stack.end());
      join(stack, columns);
    }
  }
};
} // namespace
