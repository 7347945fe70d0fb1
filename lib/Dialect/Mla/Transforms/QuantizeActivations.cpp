//===- QuantizeActivations.cpp - mla-quantize-activations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Activations that products multiply with codes become codes themselves, once for all of these
// products: where a latent's norm makes them, if nothing else reads the latent, else from the
// tensor. Assumes weights as mla-keep-codes leaves them; afterwards codes are multiplied by codes
// only.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAQUANTIZEACTIVATIONS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// The codes that `weight` is a view of; null if it has values.
static ScaledWeightOp findCodes(Value weight) {
  while (Operation *op = weight.getDefiningOp()) {
    if (auto scaled = dyn_cast<ScaledWeightOp>(op))
      return scaled;
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(op))
      break;
    weight = op->getOperand(0);
  }
  return {};
}

/// Whether the rows are codes already: the pass has run before.
static bool areCodes(Value rows) {
  while (Operation *op = rows.getDefiningOp()) {
    if (auto latent = dyn_cast<LatentProjectOp>(op))
      return rows == latent.getLatent() && latent.getCodesGroup().has_value();
    if (auto rope = dyn_cast<RopeOp>(op))
      return rope.getCodesGroup().has_value();
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
      return isa<CodedRowsOp>(op);
    rows = op->getOperand(0);
  }
  return false;
}

/// The activations that a product multiplies with codes and that are none yet; null for other
/// operations.
static OpOperand *findActivations(Operation *op) {
  return llvm::TypeSwitch<Operation *, OpOperand *>(op)
      .Case<ProjectOp, HeadProjectOp, LatentProjectOp, LatentAppendOp>(
          [](auto product) -> OpOperand * {
            bool isValues = findCodes(product.getWeight()) && !areCodes(product.getInput());
            return isValues ? &product.getInputMutable() : nullptr;
          })
      .Default([](Operation *) -> OpOperand * { return nullptr; });
}

/// Columns that a sum of `op` is over.
static int64_t countColumns(Operation *op, Value rows) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(rows.getType()).getShape();
  if (isa<HeadProjectOp>(op))
    return shape.back();
  int64_t width = 1;
  for (int64_t size : shape.drop_front())
    width *= size;
  return width;
}

/// Whether one operation reads elements; others may ask for sizes.
static bool hasOneReader(Value rows) {
  return llvm::count_if(rows.getUsers(),
                        [](Operation *user) { return !isa<tensor::DimOp>(user); }) == 1;
}

/// What rotates `rows`, which nothing else reads, behind views of all of them.
static RopeOp findRotation(Value rows) {
  while (Operation *op = rows.getDefiningOp()) {
    if (auto rope = dyn_cast<RopeOp>(op))
      return rope;
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op) ||
        !hasOneReader(op->getOperand(0)))
      break;
    rows = op->getOperand(0);
  }
  return {};
}

namespace {
struct QuantizeActivations : mla::impl::MlaQuantizeActivationsBase<QuantizeActivations> {
  using MlaQuantizeActivationsBase::MlaQuantizeActivationsBase;

  void runOnOperation() override {
    llvm::MapVector<Value, SmallVector<OpOperand *>> uses;
    WalkResult walk = getOperation().walk([&](Operation *op) {
      OpOperand *activations = findActivations(op);
      if (!activations)
        return WalkResult::advance();
      if (failed(check(op, activations->get())))
        return WalkResult::interrupt();
      uses[activations->get()].push_back(activations);
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    for (auto &[value, operands] : uses)
      quantise(value, operands);
  }

private:
  /// Whether a sum of a group has one scale of the weight.
  LogicalResult check(Operation *op, Value rows) const {
    auto scaled = findCodes(findWeight(op));
    if (scaled.getBlock()[1] != group)
      return op->emitOpError("expected weights with scales of ")
             << group.getValue() << " columns beside activations in groups of as many"
             << (group == 0 ? " (0: all)" : "") << ", got block " << scaled.getBlockAttr();
    if (group != 0 && countColumns(op, rows) % group != 0)
      return op->emitOpError("expected activations in whole groups of ")
             << group.getValue() << " columns, got " << rows.getType();
    return success();
  }

  /// Whether the groups are of heads, and all that is rotated lies in one.
  bool canHaveCodes(RopeOp rope) const {
    auto type = cast<RankedTensorType>(rope.getType());
    int64_t first = rope.getOffset().value_or(0), last = first + rope.getRope().getDim() - 1;
    return type.getRank() == 3 && type.getShape().back() % group == 0 &&
           first / group == last / group && static_cast<int64_t>(rope.getEvery()) == 1 &&
           !hasTokenAngles(rope);
  }

  static Value findWeight(Operation *op) {
    return llvm::TypeSwitch<Operation *, Value>(op)
        .Case<ProjectOp, HeadProjectOp, LatentProjectOp, LatentAppendOp>(
            [](auto product) -> Value { return product.getWeight(); });
  }

  /// All columns of the rows, heads side by side, have one scale.
  static int64_t countRowColumns(Value rows) {
    int64_t width = 1;
    for (int64_t size : cast<RankedTensorType>(rows.getType()).getShape().drop_front())
      width *= size;
    return width;
  }

  void quantise(Value rows, ArrayRef<OpOperand *> operands) {
    auto latent = rows.getDefiningOp<LatentProjectOp>();
    bool isOfProducts = rows.hasNUses(operands.size());
    bool isFused = isOfProducts && group != 0; // kernels of latents know groups that they hold
    if (latent && rows == latent.getLatent() && isFused)
      return latent.setCodesGroup(group);
    if (RopeOp rope = isFused ? findRotation(rows) : RopeOp(); rope && canHaveCodes(rope))
      return rope.setCodesGroup(group);
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfterValue(rows);
    int64_t columns = group == 0 ? countRowColumns(rows) : int64_t(group);
    Value coded =
        CodedRowsOp::create(builder, rows.getLoc(), rows, builder.getI64IntegerAttr(columns));
    for (OpOperand *operand : operands)
      operand->set(coded);
  }
};
} // namespace
