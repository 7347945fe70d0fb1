//===- Sm90CodeOps.cpp - verifiers of ops on codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in Sm90CodeOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::sm90;

static LogicalResult verifyWarpgroup(Operation *op) {
  auto role = op->getParentOfType<RoleOp>();
  if (role && role.getWarpgroups() == 1)
    return success();
  return op->emitOpError("expected a role of one warpgroup around it");
}

LogicalResult LoadCodeScalesOp::verify() {
  return verifyPool(*this, getPool().getType(), getResult().getType()); // (C1)
}

int64_t TransformCodesOp::countColumns() {
  return std::min(getCodes().getType().getColumns(),
                  getTarget().getType().getColumns() - static_cast<int64_t>(getColumn()));
}

LogicalResult TransformCodesOp::verify() {
  SmemType codes = getCodes().getType(), target = getTarget().getType();
  Type element = target.getElementType();
  bool fits = codes.getLayout() == SmemLayout::Swizzle128 &&
              target.getLayout() == SmemLayout::Swizzle128 && codes.getRows() == kTileRows &&
              target.getRows() == kTileRows;
  if (!fits || !isa<Float8E4M3FNType>(codes.getElementType()) ||
      !(element.isBF16() || element.isF16())) // (C1)
    return emitOpError("expected swizzle128 codes of f8E4M3FN and a target of bf16 or f16, of ")
           << kTileRows << " rows, got " << codes << " and " << target;
  auto scales = dyn_cast<RankedTensorType>(getScale().getType());
  if (scales && (!isRows(scales) || !scales.getElementType().isF32())) // (C2)
    return emitOpError("expected a scale of each row as f32, got ") << scales;
  int64_t column = static_cast<int64_t>(getColumn());
  if (column % kPanelColumns != 0 || column >= target.getColumns()) // (C3)
    return emitOpError("expected a column that is a multiple of ")
           << kPanelColumns << " within the target's " << target.getColumns() << ", got " << column;
  return verifyWarpgroup(*this); // (C4)
}

static LogicalResult verifyParked(Operation *op, Type value, SmemType tile) {
  auto fragment = cast<RankedTensorType>(value);
  int64_t elements = kTileRows / kWarpgroupWarps * fragment.getDimSize(1);
  bool fits = fragment.getElementType().isF32() && getColumnSplit(fragment) == 1 &&
              tile.getLayout() == SmemLayout::Linear && tile.getElementType().isF32() &&
              tile.getRows() == kWarpgroupWarps && tile.getColumns() == elements;
  if (!fits) // (C1)
    return op->emitOpError("expected a whole fragment of f32 and a linear tile of f32 with ")
           << kWarpgroupWarps << " rows of " << elements << " elements, got " << value << " and "
           << tile;
  return verifyWarpgroup(op); // (C2)
}

LogicalResult ParkOp::verify() {
  return verifyParked(*this, getValue().getType(), getTarget().getType());
}

LogicalResult UnparkOp::verify() {
  return verifyParked(*this, getResult().getType(), getSource().getType());
}

#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.cpp.inc"
