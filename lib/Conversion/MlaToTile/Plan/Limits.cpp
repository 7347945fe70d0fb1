//===- Limits.cpp - what a target's programs can hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/Limits.h"

#include "Rows/RowKernel.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

LogicalResult mlac::mla_to_tile::checkLatents(StepLowering &step, mla::AbsorbedAttentionOp op) {
  mla::CacheType cache = op.getCache().getType();
  bool isDecoded = op.getBatch().getType().getQueryLen() == 1 && !cache.isQuantized();
  int64_t width = cache.getKvLoraRank(), values = step.shapes.maxAccumulatorColumns,
          limit = isDecoded ? step.shapes.maxDecodedLatent : values;
  if (width <= limit)
    return success();
  return op.emitOpError("expected a kv_lora_rank of at most ")
         << limit << " in the absorbed form on " << step.machine.chip << ", got " << width
         << "; the expanded form (--form=expanded) takes any, with a v_head_dim of at most "
         << values;
}

LogicalResult mlac::mla_to_tile::checkLatents(StepLowering &step, mla::SparseAttentionOp op) {
  int64_t width = op.getLatentWidth(), limit = step.shapes.maxAccumulatorColumns;
  if (width <= limit)
    return success();
  return op.emitOpError("expected selected keys with latents of at most ")
         << limit << " columns (kv_lora_rank) on " << step.machine.chip << ", got " << width;
}

LogicalResult mlac::mla_to_tile::checkValues(StepLowering &step, Operation *op, Value values) {
  int64_t width = cast<RankedTensorType>(values.getType()).getShape().back(),
          limit = step.shapes.maxAccumulatorColumns;
  if (width <= limit)
    return success();
  return op->emitOpError("expected values of at most ")
         << limit << " columns (v_head_dim) on " << step.machine.chip << ", got " << width;
}

/// Only passes for another target make operations of whole rows where programs hold none.
static LogicalResult refuseTarget(StepLowering &step, Operation *op) {
  return op->emitOpError("needs programs that hold whole rows, which ")
         << step.machine.chip
         << " has none of: a module whose passes ran for another target is compiled for that one";
}

LogicalResult mlac::mla_to_tile::refuseRow(StepLowering &step, Operation *op, const Twine &got) {
  if (!step.shapes.isRowCountFixed)
    return refuseTarget(step, op);
  return op->emitOpError("expected rows of at most ")
         << step.shapes.rows << " equal parts of a multiple of " << TileShapes::kRowGroup
         << " columns, at most " << TileShapes::kMostRowColumns << ", on " << step.machine.chip
         << ", got " << got;
}

LogicalResult mlac::mla_to_tile::checkRowBlock(StepLowering &step, Operation *op, int64_t columns) {
  if (findRowBlock(step, columns) != 0)
    return success();
  if (!step.shapes.isRowCountFixed)
    return refuseTarget(step, op);
  return op->emitOpError("expected rows of a multiple of ")
         << kWidthMultiple << " columns on " << step.machine.chip << ", got " << columns;
}
