//===- DenseRows.cpp - tiles of one head's rows, by TMA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/DenseRows.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

/// `value` as a sum of values times constants.
static void addTerms(Value value, int64_t factor, SmallVectorImpl<std::pair<Value, int64_t>> &terms,
                     int64_t &constant) {
  if (std::optional<int64_t> number = getConstantIntValue(value)) {
    constant += factor * *number;
    return;
  }
  if (auto sum = value.getDefiningOp<arith::AddIOp>()) {
    addTerms(sum.getLhs(), factor, terms, constant);
    return addTerms(sum.getRhs(), factor, terms, constant);
  }
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (std::optional<int64_t> number =
          product ? getConstantIntValue(product.getRhs()) : std::nullopt)
    return addTerms(product.getLhs(), factor * *number, terms, constant);
  terms.push_back({value, factor});
}

std::string DenseRows::matchOffset(Value offset) {
  SmallVector<std::pair<Value, int64_t>> terms;
  addTerms(offset, 1, terms, column);
  for (auto [value, factor] : terms) {
    if (factor == rowStride) {
      firstRows.push_back(value);
    } else if (!head && factor > 0 && factor < rowStride) {
      head = value;
      headStride = factor;
    } else {
      return "a view whose start is not a row and a head";
    }
  }
  if (column < 0 || column + width > rowStride)
    return "a view of columns " + std::to_string(column) + " to " + std::to_string(column + width) +
           " of " + std::to_string(rowStride);
  return "";
}

std::string DenseRows::checkAlignment() const {
  int64_t bytes = getElementType().getIntOrFloatBitWidth() / 8;
  for (int64_t number : {rowStride, headStride, column})
    if (number * bytes % sm90::kTmaAlignment != 0)
      return "TMA cannot copy a view with a stride or start of " + std::to_string(number * bytes) +
             " bytes, not a multiple of " + std::to_string(sm90::kTmaAlignment);
  return "";
}

std::optional<DenseRows> DenseRows::match(tile::LoadOp load, std::string &why) {
  std::optional<DenseRows> result = match(load.getView(), why);
  if (result)
    result->offsets = SmallVector<Value, 2>(load.getOffsets());
  return result;
}

std::optional<DenseRows> DenseRows::match(Value memory, std::string &why) {
  DenseRows result;
  result.memory = memory;
  auto view = memory.getDefiningOp<memref::ReinterpretCastOp>();
  auto buffer = view ? dyn_cast<BlockArgument>(view.getSource()) : BlockArgument();
  auto kernel =
      buffer ? dyn_cast<tile::KernelOp>(buffer.getOwner()->getParentOp()) : tile::KernelOp();
  auto count =
      kernel ? kernel.getArgAttrOfType<IntegerAttr>(buffer.getArgNumber(), tile::kRowCountAttr)
             : IntegerAttr();
  why = "a view of a buffer whose rows nobody counts";
  if (!count)
    return std::nullopt;
  auto strides = view.getType().getStridesAndOffset().first;
  auto sizes = view.getMixedSizes();
  std::optional<int64_t> width = getConstantIntValue(sizes.back());
  why = "a view that is not rows of a fixed width";
  if (strides.size() != 2 || ShapedType::isDynamic(strides[0]) || strides[1] != 1 || !width ||
      !isa<Value>(sizes[0]))
    return std::nullopt;
  result.buffer = buffer;
  result.allRows = kernel.getBody().getArgument(count.getInt());
  result.width = *width;
  result.rowStride = strides[0];
  result.rowCount = cast<Value>(sizes[0]);
  OpFoldResult offset = view.getMixedOffsets().front();
  if (auto value = dyn_cast<Value>(offset))
    why = result.matchOffset(value);
  else
    result.column = *getConstantIntValue(offset), why = "";
  if (why.empty())
    why = result.checkAlignment();
  if (!why.empty())
    return std::nullopt;
  return result;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Value DenseRows::createMap(OpBuilder &builder, LazyCloner &entry, int64_t rows) const {
  auto number = [&](int64_t value) { return OpFoldResult(builder.getIndexAttr(value)); };
  SmallVector<OpFoldResult> sizes = {entry.get(allRows), number(width)};
  SmallVector<OpFoldResult> strides = {number(rowStride), number(1)};
  if (head) {
    // As many as end within a row, beside whatever else it has.
    sizes.insert(sizes.begin(), number((rowStride - column - width) / headStride + 1));
    strides.insert(strides.begin(), number(headStride));
  }
  Value view = memref::ReinterpretCastOp::create(builder, memory.getLoc(), entry.get(buffer),
                                                 number(column), sizes, strides);
  auto type =
      sm90::TensorMapType::get(builder.getContext(), rows, sm90::kPanelColumns, getElementType());
  return sm90::TensorMapOp::create(builder, memory.getLoc(), type, view);
}

SmallVector<Value> DenseRows::getCoordinates(OpBuilder &builder, LazyCloner &cloner) const {
  Value row = cloner.get(offsets[0]);
  for (Value first : firstRows)
    row = arith::AddIOp::create(builder, memory.getLoc(), row, cloner.get(first));
  SmallVector<Value> coordinates = {row, cloner.get(offsets[1])};
  if (head)
    coordinates.insert(coordinates.begin(), cloner.get(head));
  return coordinates;
}
