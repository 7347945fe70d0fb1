//===- CodedRows.cpp - activations that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/CodedRows.h"

#include "Products/CodedWeights.h"
#include "Rows/Codes.h"

#include "mla/Analysis/ProductCost.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// [T, N, K], heads side by side, as [T, N · K].
static TensorRef joinHeads(StepLowering &step, TensorRef rows) {
  if (rows.rank() == 2)
    return rows;
  int64_t width = rows.size(1) * rows.size(2);
  rows.sizes = {rows.sizes[0], step.plan().getIndexAttr(width)};
  rows.strides = {rows.strides[0], rows.strides[2]};
  return rows;
}

/// Rows of a block of scales: no tile of tokens that are columns has more of them, and a
/// warpgroup's 64 rows divide it.
static constexpr int64_t kScaleBlockRows = mlac::kProductTileRows;

TensorRef mlac::mla_to_tile::makeCodedRows(StepLowering &step, ArrayRef<OpFoldResult> sizes,
                                           int64_t group) {
  auto size = [&](int64_t value) -> OpFoldResult { return step.plan().getIndexAttr(value); };
  TensorRef codes = step.workspace(sizes, Float8E4M3FNType::get(step.plan().getContext()));
  int64_t width = codes.strides[0];
  // Products read scales of as many rows as their tiles have.
  OpFoldResult rows = sizes[0];
  int64_t blockRows = 0;
  if (auto shapes = step.shapes.getSwapped(); !shapes.empty()) {
    int64_t most = std::max(shapes.back().rows, mlac::kMostCodedRows);
    rows = step.multiply(step.ceilDiv(step.value(rows), most), most);
    blockRows = kScaleBlockRows;
  }
  TensorRef scales = step.workspace({rows, size(width / group)}, step.plan().getF32Type());
  codes.scales =
      CodeScales{scales.buffer, /*rows=*/1, group, ShapedType::kDynamic, width, blockRows};
  return codes;
}

LogicalResult mlac::mla_to_tile::checkReadByProducts(Operation *op, Value rows) {
  for (OpOperand &use : rows.getUses()) {
    Operation *user = use.getOwner();
    if (isa<tensor::DimOp>(user)) // reads no element
      continue;
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(user)) {
      if (failed(checkReadByProducts(op, user->getResult(0))))
        return failure();
      continue;
    }
    if (isa<mla::ProjectOp, mla::HeadProjectOp, mla::LatentProjectOp, mla::LatentAppendOp>(user) &&
        use.getOperandNumber() == 0)
      continue;
    auto diag = op->emitOpError("expected codes that are activations of projections only");
    diag.attachNote(user->getLoc()) << "also read here";
    return diag;
  }
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::CodedRowsOp op) {
  if (failed(checkReadByProducts(op, op.getResult())))
    return failure();
  TensorRef input = step.lookup(op.getInput());
  auto group = static_cast<int64_t>(op.getGroup());
  bool isSlice = input.rank() == 3 && input.strides[1] != input.size(2) * input.strides[2];
  if (isSlice && input.size(2) % group != 0)
    return op.emitOpError("expected rows that lie together in memory, or heads of whole groups of ")
           << group << " columns, got a slice of heads";
  TensorRef coded = makeCodedRows(step, input.sizes, group);
  if (isSlice) {
    emitQuantize(step, input, {coded, {.buffer = coded.scales->buffer}, group, coded.scales},
                 kActivationRule);
    step.setView(op.getResult(), coded);
    return success();
  }
  const CodeScales &scales = *coded.scales;
  // What emitQuantizeRows has of them, one scale a row: then blocks of rows are side by side.
  TensorRef scaleRows{.buffer = scales.buffer,
                      .sizes = {input.sizes[0], step.plan().getIndexAttr(1)},
                      .strides = {1, 1}};
  CodedTensor to{joinHeads(step, coded), scaleRows, group, scales};
  if (scales.countAcross() == 1)
    emitQuantizeRows(step, joinHeads(step, input), to, kActivationRule);
  else
    emitQuantize(step, joinHeads(step, input), to, kActivationRule);
  step.setView(op.getResult(), coded);
  return success();
}

LogicalResult mlac::mla_to_tile::checkCodedProduct(Operation *op, const Product &product) {
  const std::optional<CodeScales> &rows = product.lhs.scales;
  if (!rows)
    return success();
  if (!product.rhs.scales)
    return op->emitOpError("expected a weight of codes beside activations of codes");
  int64_t columns = product.rhs.scales->columns;
  bool areBlocks = rows->columns == kCodedDepth && columns == kCodedDepth,
       areRows = rows->countAcross() == 1 && columns == 0;
  if ((!areBlocks && !areRows) || !canMultiplyCodes(product))
    return op->emitOpError("expected activations and weights with scales of ")
           << kCodedDepth << " columns, or of whole rows, in whole tiles, got scales of "
           << rows->columns << " and " << columns << " columns and a weight of " << product.columns
           << " x " << product.depth;
  return success();
}
