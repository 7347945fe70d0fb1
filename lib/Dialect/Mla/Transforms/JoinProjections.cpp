//===- JoinProjections.cpp - mla-join-projections ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two projections of one input by weights that are neighbouring rows of each head of one
// weight are one projection, whose result both are slices of. Assumes nothing; afterwards no
// such pair remains.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAJOINPROJECTIONS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Rows of heads of a weight [N, rows, I].
static constexpr unsigned kHeadRows = 1;

/// Whether `rows` may be a part of wider rows of heads: operands of what takes any strides.
static bool mayBeStrided(Value rows) {
  int64_t columns = cast<RankedTensorType>(rows.getType()).getShape().back();
  return llvm::all_of(rows.getUsers(), [&](Operation *user) {
    if (auto part = dyn_cast<PartRowsOp>(user)) // of the same memory
      return mayBeStrided(part.getResult());
    if (auto codes = dyn_cast<CodedRowsOp>(user)) // of one head each
      return columns % codes.getGroup() == 0;
    return isa<HeadProjectOp, RopeOp, ExpandedAttentionOp, AbsorbedAttentionOp>(user);
  });
}

static bool takesStrides(ProjectOp project) {
  return !project.getBias() && mayBeStrided(project.getResult());
}

/// Whether `other` has the rows of each head that follow `slice`'s.
static bool follows(tensor::ExtractSliceOp slice, tensor::ExtractSliceOp other) {
  SmallVector<int64_t> behind(slice.getStaticOffsets());
  behind[kHeadRows] += slice.getType().getDimSize(kHeadRows);
  return other.getType().getRank() == 3 && other.getStaticOffsets() == ArrayRef(behind) &&
         other.getType().getDimSize(0) == slice.getType().getDimSize(0) &&
         other.getType().getDimSize(2) == slice.getType().getDimSize(2);
}

/// The projection of the same input by the rows of each head that follow `op`'s.
static ProjectOp findNeighbour(ProjectOp op) {
  auto slice = op.getWeight().getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getType().getRank() != 3 || !takesStrides(op))
    return {};
  for (Operation *user : slice.getSource().getUsers()) {
    auto other = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!other || !follows(slice, other))
      continue;
    // New tokens and chunks of context may share the slices.
    for (Operation *sliceUser : other->getUsers()) {
      auto next = dyn_cast<ProjectOp>(sliceUser);
      if (next && next.getInput() == op.getInput() && next->getBlock() == op->getBlock() &&
          op->isBeforeInBlock(next) && takesStrides(next))
        return next;
    }
  }
  return {};
}

/// The rows of both, of each head; all of a weight need no slice.
static Value joinWeights(OpBuilder &builder, tensor::ExtractSliceOp slice, int64_t rows) {
  auto source = slice.getSourceType();
  SmallVector<int64_t> sizes(slice.getStaticSizes());
  sizes[kHeadRows] = rows;
  if (source.getShape() == ArrayRef(sizes))
    return slice.getSource();
  return tensor::ExtractSliceOp::create(builder, slice.getLoc(),
                                        RankedTensorType::get(sizes, source.getElementType()),
                                        slice.getSource(), ValueRange(), ValueRange(), ValueRange(),
                                        slice.getStaticOffsets(), sizes, slice.getStaticStrides());
}

/// Columns `first` on of each row of heads of `joined`, as wide as `result`.
static Value takeColumns(OpBuilder &builder, Value joined, int64_t first, Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, result.getLoc(), joined);
  sizes.back() = builder.getIndexAttr(type.getShape().back());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0));
  offsets.back() = builder.getIndexAttr(first);
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(builder, result.getLoc(), type, joined, offsets, sizes,
                                        strides);
}

static void join(ProjectOp op, ProjectOp next) {
  OpBuilder builder(op);
  auto slice = op.getWeight().getDefiningOp<tensor::ExtractSliceOp>();
  auto type = cast<RankedTensorType>(op.getResult().getType());
  int64_t first = type.getShape().back();
  int64_t second = cast<RankedTensorType>(next.getResult().getType()).getShape().back();
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = first + second;
  Value weight = joinWeights(builder, slice, first + second);
  auto joined = ProjectOp::create(builder, op.getLoc(), type.clone(shape), op.getInput(), weight,
                                  /*bias=*/Value());
  op.getResult().replaceAllUsesWith(takeColumns(builder, joined, 0, op.getResult()));
  next.getResult().replaceAllUsesWith(takeColumns(builder, joined, first, next.getResult()));
  next->erase();
  op->erase();
}

namespace {
struct MlaJoinProjections : mla::impl::MlaJoinProjectionsBase<MlaJoinProjections> {
  void runOnOperation() override {
    SmallVector<ProjectOp> projections;
    getOperation().walk([&](ProjectOp op) { projections.push_back(op); });
    llvm::DenseSet<Operation *> joined;
    for (ProjectOp op : projections)
      if (ProjectOp next = joined.contains(op) ? ProjectOp() : findNeighbour(op)) {
        joined.insert(next);
        join(op, next);
      }
  }
};
} // namespace
