//===- QueryRows.cpp - tiles of queries, by TMA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/QueryRows.h"

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
} // namespace

static bool hasGroups(tile::LoadOp load) { return load.getView().getType().getRank() == 3; }

static std::optional<Runs> matchRuns(tile::LoadOp load) {
  Runs runs;
  runs.view = load.getView().getDefiningOp<memref::ReinterpretCastOp>();
  if (!runs.view || !sm90::isKernelArgument(runs.view.getSource()) ||
      !sm90::isHostValue(runs.view.getMixedSizes()[0]))
    return std::nullopt;
  auto strides = runs.view.getType().getStridesAndOffset().first;
  if (llvm::any_of(strides, ShapedType::isDynamic) || strides.back() != 1)
    return std::nullopt;
  OpFoldResult offset = runs.view.getMixedOffsets().front();
  if (auto value = dyn_cast<Value>(offset))
    if (auto sum = value.getDefiningOp<arith::AddIOp>())
      if (std::optional<int64_t> start = getConstantIntValue(sum.getRhs())) {
        runs.start = *start;
        offset = sum.getLhs();
      }
  auto value = dyn_cast<Value>(offset);
  if (!value) {
    runs.start = *getConstantIntValue(offset);
    runs.stride = strides[0];
    return runs;
  }
  auto product = value.getDefiningOp<arith::MulIOp>();
  std::optional<int64_t> stride =
      product ? getConstantIntValue(product.getRhs()) : std::optional<int64_t>();
  if (!stride || *stride <= 0 || strides[0] % *stride != 0)
    return std::nullopt;
  runs.run = product.getLhs();
  runs.stride = *stride;
  runs.count = strides[0] / *stride;
  return runs;
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

bool QueryRows::canCopy(tile::LoadOp load) {
  if (!hasGroups(load))
    return canMapView(load.getView());
  std::optional<Runs> runs = matchRuns(load);
  if (!runs)
    return false;
  MemRefType type = runs->view.getType();
  int64_t bytes = type.getElementTypeBitWidth() / 8, group = type.getDimSize(1);
  auto isAligned = [&](int64_t number) { return number * bytes % sm90::kTmaAlignment == 0; };
  // Boxes start at groups.
  bool startsGroup = isMultiple(load.getOffsets().front(), group);
  auto strides = type.getStridesAndOffset().first;
  return startsGroup && isAligned(runs->start) && isAligned(runs->stride) &&
         isAligned(strides[0]) && isAligned(strides[1]) && group <= load.getType().getDimSize(0);
}

QueryRows::QueryRows(OpBuilder &builder, LazyCloner &entry, tile::LoadOp load, int64_t rows,
                     int64_t columns)
    : load(load), boxRows(rows) {
  if (!hasGroups(load)) {
    map = createTensorMap(builder, entry, load.getView(), rows, columns);
    return;
  }
  Runs runs = *matchRuns(load);
  MemRefType type = runs.view.getType();
  auto strides = type.getStridesAndOffset().first;
  boxRows = rows / type.getDimSize(1) * type.getDimSize(1);
  auto number = [&](int64_t value) { return OpFoldResult(builder.getIndexAttr(value)); };
  OpFoldResult groups = runs.view.getMixedSizes()[0];
  if (auto value = dyn_cast<Value>(groups))
    groups = entry.get(value);
  SmallVector<OpFoldResult> sizes = {groups, number(runs.count), number(type.getDimSize(1)),
                                     number(type.getDimSize(2))};
  SmallVector<OpFoldResult> newStrides = {number(strides[0]), number(runs.stride),
                                          number(strides[1]), number(1)};
  Value view =
      memref::ReinterpretCastOp::create(builder, load.getLoc(), entry.get(runs.view.getSource()),
                                        number(runs.start), sizes, newStrides);
  auto mapType =
      sm90::TensorMapType::get(builder.getContext(), boxRows, columns, type.getElementType());
  map = sm90::TensorMapOp::create(builder, load.getLoc(), mapType, view);
}

SmallVector<Value> QueryRows::getCoordinates(OpBuilder &builder, LazyCloner &cloner) const {
  SmallVector<Value> offsets = cloner.get(load.getOffsets());
  if (!hasGroups(load))
    return offsets;
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, load.getLoc(), value);
  };
  int64_t group = load.getView().getType().getDimSize(1);
  Value token = arith::DivUIOp::create(builder, load.getLoc(), offsets[0], constant(group));
  Runs runs = *matchRuns(load);
  return {token, runs.run ? cloner.get(runs.run) : constant(0), constant(0), offsets[1]};
}
