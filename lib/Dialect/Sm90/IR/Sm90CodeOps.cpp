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
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t cluster = kernel ? kernel.getClusterSize() : 1;
  if (std::optional<int64_t> rank = getRank(); rank && (*rank < 0 || *rank >= cluster)) // (C3)
    return emitOpError("expected a rank of the cluster's ") << cluster << ", got " << *rank;
  return verifyParked(*this, getValue().getType(), getTarget().getType());
}

LogicalResult UnparkOp::verify() {
  return verifyParked(*this, getResult().getType(), getSource().getType());
}

//===----------------------------------------------------------------------===//
// Runs of four columns
//===----------------------------------------------------------------------===//

static constexpr int64_t kRunGroup = 16; // columns whose order changes among themselves

static bool isWholeFragment(Type type) {
  return isFragment(type) && getColumnSplit(cast<RankedTensorType>(type)) == 1;
}

/// Whether a fragment of i32 has the words of as many columns of codes.
static bool areWordsOf(Type words, int64_t columns) {
  auto type = cast<RankedTensorType>(words);
  return isWholeFragment(type) && type.getElementType().isInteger(32) && columns % kRunGroup == 0 &&
         type.getDimSize(1) == llvm::divideCeilSigned(columns, 2 * kRunGroup) * kColumnGroup;
}

static LogicalResult verifyCodes(Operation *op, SmemType codes) {
  bool fits = codes.getLayout() == SmemLayout::Swizzle128 && codes.getRows() == kTileRows &&
              isa<Float8E4M3FNType>(codes.getElementType());
  if (fits)
    return success();
  return op->emitOpError("expected a swizzle128 tile of ")
         << kTileRows << " rows of f8E4M3FN, got " << codes;
}

LogicalResult LoadCodeWordsOp::verify() {
  SmemType codes = getCodes().getType();
  if (failed(verifyCodes(*this, codes))) // (C1)
    return failure();
  auto column = static_cast<int64_t>(getColumn()), columns = static_cast<int64_t>(getColumns());
  if (column % (2 * kRunGroup) != 0 || column + columns > codes.getColumns() ||
      !areWordsOf(getResult().getType(), columns)) // (C2)
    return emitOpError("expected 8 words for each 32 columns, from a multiple of 32 on, within the "
                       "tile's ")
           << codes.getColumns() << ", got " << getResult().getType() << " of " << columns
           << " from " << column << " on";
  return verifyWarpgroup(*this); // (C3)
}

LogicalResult LoadCodeColumnsOp::verify() {
  SmemType codes = getCodes().getType();
  if (failed(verifyCodes(*this, codes))) // (C1)
    return failure();
  auto column = static_cast<int64_t>(getColumn());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (column % kTileRows != 0 || column + kTileRows > codes.getColumns() ||
      result.getDimSize(0) != kTileRows || !areWordsOf(result, kTileRows)) // (C2)
    return emitOpError(
               "expected a fragment [64, 16] of i32 of 64 columns from a multiple of 64 on, "
               "within the tile's ")
           << codes.getColumns() << ", got " << result << " from " << column << " on";
  return verifyWarpgroup(*this); // (C3)
}

LogicalResult ScaleCodesOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!isWholeFragment(result) || !result.getElementType().isF16() ||
      !areWordsOf(getWords().getType(), result.getDimSize(1))) // (C1)
    return emitOpError(
               "expected a whole fragment of f16 and 8 words for each 32 columns of it, got ")
           << result << " of " << getWords().getType();
  auto scales = dyn_cast<RankedTensorType>(getScale().getType());
  if (scales && (!isRows(scales) || !scales.getElementType().isF32())) // (C2)
    return emitOpError("expected a scale of each row as f32, got ") << scales;
  return success();
}

LogicalResult OrderRunsOp::verify() {
  SmemType source = getSource().getType(), result = getResult().getType();
  Type element = source.getElementType();
  bool fits = source.getLayout() == SmemLayout::Swizzle128 &&
              result.getLayout() == SmemLayout::Swizzle128 &&
              source.getRows() == result.getRows() && source.getColumns() == result.getColumns() &&
              result.getElementType().isF16() && (element.isBF16() || element.isF16());
  if (!fits) // (C1)
    return emitOpError("expected swizzle128 tiles of one shape, of bf16 or f16 and of f16, got ")
           << source << " and " << result;
  return verifyWarpgroup(*this); // (C2)
}

LogicalResult StoreRunsOp::verify() {
  auto value = cast<RankedTensorType>(getValue().getType());
  auto view = cast<MemRefType>(getView().getType());
  bool areInGroups = getTransposed() && view.getRank() == 3 && !view.isDynamicDim(1);
  if (!isWholeFragment(value) || (view.getRank() != 2 && !areInGroups) ||
      getOffsets().size() != 2 || view.getElementType() != value.getElementType()) // (C1)
    return emitOpError("expected a whole fragment, and a view and offsets of rank 2 of its element "
                       "type, got ")
           << value << ", " << view << " and " << getOffsets().size() << " offsets";
  if (!getTransposed() && value.getDimSize(1) % kRunGroup != 0) // (C2)
    return emitOpError("expected a multiple of ")
           << kRunGroup << " columns, got " << value.getDimSize(1);
  if (getTransposed() && getPaired()) // (C2)
    return emitOpError("expected a transposed store not to be paired");
  if (!getTransposed() && getPairs()) // (C2)
    return emitOpError("expected a store of pairs of rows to be transposed");
  return success();
}

#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.cpp.inc"
