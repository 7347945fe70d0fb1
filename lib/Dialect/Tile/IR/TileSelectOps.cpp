//===- TileSelectOps.cpp - verifiers of selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in TileSelectOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::tile;

/// Rows of neighbouring elements of `type`.
static bool isRows(MemRefType view, int64_t rank, Type element) {
  int64_t offset;
  SmallVector<int64_t> strides;
  return view.getRank() == rank && view.getElementType() == element &&
         succeeded(view.getStridesAndOffset(strides, offset)) && strides.back() == 1;
}

LogicalResult TopKOp::verify() {
  Builder builder(getContext());
  auto values = cast<MemRefType>(getValues().getType()), out = cast<MemRefType>(getOut().getType());
  if (!isRows(values, 2, builder.getF32Type())) // (C1)
    return emitOpError("expected values [rows, columns] of f32 with a column stride of 1, got ")
           << values;
  if (!isRows(out, 2, builder.getI32Type()) || out.isDynamicDim(1)) // (C1)
    return emitOpError(
               "expected out [rows, K] of i32 with a static K and a column stride of 1, got ")
           << out;
  if (getCount() < 1 || getCount() > kMostSelected) // (C1)
    return emitOpError("expected K from 1 to ") << kMostSelected << ", got " << getCount();
  if (getLongest() && static_cast<int64_t>(*getLongest()) <= 0) // (C3)
    return emitOpError("expected longest to be positive, got ")
           << static_cast<int64_t>(*getLongest());
  if (!getSlice() != !getLists() || !getSlice() != !getSlices() || !getSlice() != !getCounters())
    return emitOpError("expected a slice, lists and counters together"); // (C2)
  if (!getLists())
    return success();
  auto lists = cast<MemRefType>(getLists().getType());
  if (!isRows(lists, 3, builder.getF32Type()) || lists.getDimSize(1) != 2 ||
      lists.isDynamicDim(2) || lists.getDimSize(2) <= getCount()) // (C2)
    return emitOpError("expected lists [rows, 2, capacity] of f32 with a static capacity above ")
           << getCount() << ", got " << lists;
  return success();
}
