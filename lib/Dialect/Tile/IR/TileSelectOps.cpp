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

LogicalResult SetBitsOp::verify() {
  Type word = Builder(getContext()).getI32Type();
  auto list = cast<MemRefType>(getList().getType()), out = cast<MemRefType>(getOut().getType());
  if (!isRows(list, 2, word) || list.isDynamicDim(1)) // (C1)
    return emitOpError(
               "expected a list [rows, K] of i32 with a static K and a column stride of 1, got ")
           << list;
  if (!isRows(out, 2, word)) // (C1)
    return emitOpError("expected out [rows, words] of i32 with a column stride of 1, got ") << out;
  return success();
}

LogicalResult TestBitsOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (result.getRank() != 2 || !result.getElementType().isInteger(1)) // (C1)
    return emitOpError("expected a result [M, N] of i1, got ") << result;
  auto expected = RankedTensorType::get({result.getDimSize(0)}, IntegerType::get(getContext(), 32));
  for (Value word : getWords())
    if (word.getType() != expected) // (C1)
      return emitOpError("expected words of type ") << expected << ", got " << word.getType();
  auto count = static_cast<int64_t>(getWords().size());
  if (result.getDimSize(1) != AttendOp::kWordKeys * count) // (C1)
    return emitOpError("expected ")
           << AttendOp::kWordKeys << " columns for each of " << count << " words, got " << result;
  return success();
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
