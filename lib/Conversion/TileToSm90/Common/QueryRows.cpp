//===- QueryRows.cpp - tiles of queries, by TMA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/QueryRows.h"

#include "Common/Divisibility.h"
#include "Common/PagedTiles.h"

#include "mla/Dialect/Sm90/IR/HostValue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <optional>

using namespace mlir;
using namespace mlac;

namespace {
/// A view of rows in groups: the runs that the rows of a group's stride hold, and which is meant.
struct Runs {
  memref::ReinterpretCastOp view;
  Value run; // null: the only one
  int64_t start = 0, stride = 0, count = 1;
};

/// A view of one token's heads, of [tokens, heads, width] with the heads outermost in memory.
struct Heads {
  memref::ReinterpretCastOp view;
  Value token;  // which one
  Value tokens; // how many
  int64_t start = 0, width = 0;
};
} // namespace

static bool hasGroups(tile::LoadOp load) { return load.getView().getType().getRank() == 3; }

/// Takes `sum`, a value plus a constant, apart.
static OpFoldResult takeStart(OpFoldResult sum, int64_t &start) {
  auto value = dyn_cast<Value>(sum);
  auto add = value ? value.getDefiningOp<arith::AddIOp>() : arith::AddIOp();
  if (std::optional<int64_t> constant = add ? getConstantIntValue(add.getRhs()) : std::nullopt) {
    start = *constant;
    return add.getLhs();
  }
  return sum;
}

/// The positive constant that `value` is a multiple of by its definition.
static std::optional<int64_t> getFactor(OpFoldResult value, arith::MulIOp &product) {
  product = isa<Value>(value) ? cast<Value>(value).getDefiningOp<arith::MulIOp>() : arith::MulIOp();
  std::optional<int64_t> factor =
      product ? getConstantIntValue(product.getRhs()) : std::optional<int64_t>();
  return factor && *factor > 0 ? factor : std::nullopt;
}

static bool isStatic(ArrayRef<int64_t> strides) {
  return llvm::none_of(strides, ShapedType::isDynamic);
}

static memref::ReinterpretCastOp getViewOfArgument(tile::LoadOp load) {
  auto view = load.getView().getDefiningOp<memref::ReinterpretCastOp>();
  return view && sm90::isKernelArgument(view.getSource()) ? view : memref::ReinterpretCastOp();
}

static std::optional<Runs> matchRuns(tile::LoadOp load) {
  Runs runs;
  runs.view = getViewOfArgument(load);
  if (!runs.view || !sm90::isHostValue(runs.view.getMixedSizes()[0]) ||
      !llvm::all_of(runs.view.getMixedStrides(), sm90::isHostValue))
    return std::nullopt;
  auto strides = runs.view.getType().getStridesAndOffset().first;
  if (ShapedType::isDynamic(strides[0]) || strides.back() != 1)
    return std::nullopt;
  OpFoldResult offset = takeStart(runs.view.getMixedOffsets().front(), runs.start);
  if (std::optional<int64_t> constant = getConstantIntValue(offset)) {
    runs.start = *constant;
    runs.stride = strides[0];
    return runs;
  }
  arith::MulIOp product;
  std::optional<int64_t> stride = getFactor(offset, product);
  if (!stride || !isStatic(strides) || strides[0] % *stride != 0)
    return std::nullopt;
  runs.run = product.getLhs();
  runs.stride = *stride;
  runs.count = strides[0] / *stride;
  return runs;
}

/// `offset = token · width + start`, and heads are `tokens · width` apart.
static std::optional<Heads> matchHeads(tile::LoadOp load) {
  Heads heads;
  heads.view = getViewOfArgument(load);
  if (!heads.view || !heads.view.getType().hasStaticShape() ||
      heads.view.getType().getStridesAndOffset().first.back() != 1)
    return std::nullopt;
  OpFoldResult headStride = heads.view.getMixedStrides()[0];
  arith::MulIOp ofHead, ofToken;
  std::optional<int64_t> width = getFactor(headStride, ofHead);
  if (!width || !sm90::isHostValue(headStride) || *width < heads.view.getType().getDimSize(1) ||
      getFactor(takeStart(heads.view.getMixedOffsets().front(), heads.start), ofToken) != width)
    return std::nullopt;
  heads.width = *width;
  heads.tokens = ofHead.getLhs();
  heads.token = ofToken.getLhs();
  return heads;
}

/// Whether sums and products show that `number` divides `value`.
static bool isMultiple(Value value, int64_t number) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return *constant % number == 0;
  Operation *op = value.getDefiningOp();
  auto isOfOperand = [&](Value operand) { return isMultiple(operand, number); };
  if (isa_and_present<arith::AddIOp>(op))
    return llvm::all_of(op->getOperands(), isOfOperand);
  return number == 1 ||
         (isa_and_present<arith::MulIOp>(op) && llvm::any_of(op->getOperands(), isOfOperand));
}

/// Whether rows in groups are boxes of whole groups.
static bool canCopyGroups(tile::LoadOp load) {
  std::optional<Runs> runs = matchRuns(load);
  if (!runs)
    return false;
  MemRefType type = runs->view.getType();
  int64_t bytes = type.getElementTypeBitWidth() / 8, group = type.getDimSize(1);
  auto isAligned = [&](OpFoldResult number) {
    return getKnownDivisor(number) * bytes % sm90::kTmaAlignment == 0;
  };
  auto isWhole = [&](int64_t number) { return number * bytes % sm90::kTmaAlignment == 0; };
  // Boxes start at groups.
  bool startsGroup = isMultiple(load.getOffsets().front(), group);
  SmallVector<OpFoldResult> strides = runs->view.getMixedStrides();
  strides.pop_back();
  return startsGroup && isWhole(runs->start) && isWhole(runs->stride) &&
         llvm::all_of(strides, isAligned) && group <= load.getType().getDimSize(0);
}

static bool canCopyHeads(Heads heads) {
  int64_t bytes = heads.view.getType().getElementTypeBitWidth() / 8;
  return heads.start * bytes % sm90::kTmaAlignment == 0 &&
         heads.width * bytes % sm90::kTmaAlignment == 0;
}

bool QueryRows::canCopy(tile::LoadOp load) {
  if (hasGroups(load))
    return canCopyGroups(load);
  if (std::optional<Heads> heads = matchHeads(load))
    return canCopyHeads(*heads);
  return canMapView(load.getView());
}

bool QueryRows::canFill(tile::LoadOp load) {
  bool isFilled = !hasGroups(load) ||
                  load.getType().getDimSize(0) % load.getView().getType().getDimSize(1) == 0;
  return isFilled && canCopy(load);
}

/// Maps `view` at the kernel's entry with other sizes and strides.
static Value createMap(OpBuilder &builder, LazyCloner &entry, memref::ReinterpretCastOp view,
                       int64_t start, ArrayRef<OpFoldResult> sizes, ArrayRef<OpFoldResult> strides,
                       int64_t rows, int64_t columns) {
  auto inEntry = [&](ArrayRef<OpFoldResult> numbers) {
    return llvm::map_to_vector(numbers, [&](OpFoldResult number) {
      auto value = dyn_cast<Value>(number);
      return value ? OpFoldResult(entry.get(value)) : number;
    });
  };
  Value mapped = memref::ReinterpretCastOp::create(
      builder, view.getLoc(), entry.get(view.getSource()), builder.getIndexAttr(start),
      inEntry(sizes), inEntry(strides));
  auto type = sm90::TensorMapType::get(builder.getContext(), rows, columns,
                                       view.getType().getElementType());
  return sm90::TensorMapOp::create(builder, view.getLoc(), type, mapped);
}

QueryRows::QueryRows(OpBuilder &builder, LazyCloner &entry, tile::LoadOp load, int64_t rows,
                     int64_t columns)
    : load(load), boxRows(rows) {
  auto number = [&](int64_t value) { return OpFoldResult(builder.getIndexAttr(value)); };
  if (hasGroups(load)) {
    Runs runs = *matchRuns(load);
    MemRefType type = runs.view.getType();
    SmallVector<OpFoldResult> sizes = runs.view.getMixedSizes(),
                              strides = runs.view.getMixedStrides();
    sizes.insert(sizes.begin() + 1, number(runs.count));
    strides.insert(strides.begin() + 1, number(runs.stride));
    boxRows = rows / type.getDimSize(1) * type.getDimSize(1);
    // With groups a box has one dimension too many for several panels.
    map = createMap(builder, entry, runs.view, runs.start, sizes, strides, boxRows,
                    sm90::getPanelColumns(type.getElementType()));
    return;
  }
  std::optional<Heads> heads = matchHeads(load);
  if (!heads) {
    map = createTensorMap(builder, entry, load.getView(), rows, columns);
    return;
  }
  SmallVector<OpFoldResult> sizes = heads->view.getMixedSizes(),
                            strides = heads->view.getMixedStrides();
  sizes.insert(sizes.begin(), OpFoldResult(heads->tokens));
  strides.insert(strides.begin(), number(heads->width));
  map = createMap(builder, entry, heads->view, heads->start, sizes, strides, rows, columns);
}

SmallVector<Value> QueryRows::getCoordinates(OpBuilder &builder, LazyCloner &cloner) const {
  SmallVector<Value> offsets = cloner.get(load.getOffsets());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, load.getLoc(), value);
  };
  if (hasGroups(load)) {
    int64_t group = load.getView().getType().getDimSize(1);
    Value token = arith::DivUIOp::create(builder, load.getLoc(), offsets[0], constant(group));
    Runs runs = *matchRuns(load);
    return {token, runs.run ? cloner.get(runs.run) : constant(0), constant(0), offsets[1]};
  }
  if (std::optional<Heads> heads = matchHeads(load))
    offsets.insert(offsets.begin(), cloner.get(heads->token));
  return offsets;
}
