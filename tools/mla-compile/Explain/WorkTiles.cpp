//===- WorkTiles.cpp - what a launch computes on tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/WorkCounter.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::work;

void Counter::setTile(Value value, ArrayRef<int64_t> extent) {
  Known &known = at(value);
  known.kind = Known::Tile;
  known.extent.assign(extent.begin(), extent.end());
  known.attention = -1;
}

/// How much of a tile is real; all of it, unless it is known better.
static SmallVector<int64_t, 2> extentOf(const Known &known, Value value) {
  if (known.kind == Known::Tile)
    return known.extent;
  return SmallVector<int64_t, 2>(cast<RankedTensorType>(value.getType()).getShape());
}

bool Counter::runDot(tile::DotOp op) {
  SmallVector<int64_t, 2> lhs = extentOf(at(op.getLhs()), op.getLhs());
  SmallVector<int64_t, 2> rhs = extentOf(at(op.getRhs()), op.getRhs());
  if (op.getTransposeLhs())
    std::swap(lhs[0], lhs[1]);
  if (op.getTransposeRhs())
    std::swap(rhs[0], rhs[1]);
  flops += 2.0 * lhs[0] * rhs[1] * std::min(lhs[1], rhs[0]);
  setTile(op.getResult(), {lhs[0], rhs[1]});
  return true;
}

double Attention::flops() const {
  double pairs = 0;
  for (int64_t row = 0; row < (stored < 0 ? rows : std::min(stored, rows)); ++row) {
    int64_t seen = diagonal ? std::min(end, *diagonal + row + 1) : end;
    pairs += static_cast<double>(std::max<int64_t>(seen - begin, 0));
  }
  return 2 * pairs * width;
}

/// Rows [first, end) of keys, values or scales.
bool Counter::touchKeys(tile::AttendOp op, const View &view, Value table, int64_t first,
                        int64_t end) {
  if (op.isListed()) {
    touchLoosely(static_cast<double>((end - first) * view.sizes.back() * view.elementBytes), false);
    return true;
  }
  if (!table) {
    touchRows(view, first, end - first, 0, view.sizes[1], false);
    return !failure;
  }
  touchPaged(view, at(table).view, first, end, 0, view.sizes[2]);
  return !failure;
}

bool Counter::runAttend(tile::AttendOp op) {
  std::optional<int64_t> first = number(op.getFirst()), last = number(op.getLast()),
                         limit = number(op.getLimit());
  std::optional<int64_t> diagonal = op.getDiagonal() ? number(op.getDiagonal()) : 0;
  if (!first || !last || !limit || !diagonal)
    return fail(*op, "a range of keys that only the device knows");
  int64_t unit = op.getUnit(), begin = *first * unit, end = std::min(*last * unit, *limit);
  end = std::max(begin, end);
  SmallVector<int64_t, 2> queries = extentOf(at(op.getQueries()[0]), op.getQueries()[0]);
  double width = 0;
  for (auto [term, keys] : llvm::enumerate(op.getKeys())) {
    const View &view = at(keys).view;
    width += static_cast<double>(view.sizes.back());
    if (!touchKeys(op, view, op.getTable(), begin, end))
      return false;
  }
  double valueWidth = static_cast<double>(op.getOutputWidth());
  if (op.getValues()) {
    const View &view = at(op.getValues()).view;
    valueWidth = static_cast<double>(view.sizes.back());
    if (!touchKeys(op, view, op.getValueTable(), begin, end))
      return false;
  }
  if (op.getScales() && at(op.getScales()).view.sizes.size() > 1 &&
      !touchKeys(op, at(op.getScales()).view, op.getTable(), begin, end))
    return false;
  int before = -1;
  for (Value start : op.getStart())
    before = std::max(before, at(start).attention);
  attentions.push_back({begin, end, op.getDiagonal() ? diagonal : std::nullopt, width + valueWidth,
                        queries[0], before});
  setTile(op.getOutput(), {queries[0], op.getOutputWidth()});
  setTile(op.getReference(), {queries[0]});
  setTile(op.getSum(), {queries[0]});
  for (Value result : op.getResults())
    at(result).attention = static_cast<int>(attentions.size()) - 1;
  return true;
}

/// Also of tiles; by a tile of conditions element by element.
bool Counter::runSelect(arith::SelectOp op) {
  if (!op.getCondition().getType().isInteger(1))
    return runElementwise(*op);
  if (std::optional<int64_t> condition = number(op.getCondition()))
    at(op.getResult()) = at(*condition ? op.getTrueValue() : op.getFalseValue());
  else
    at(op.getResult()) = {};
  return true;
}

/// Of tiles of one shape: what is real in all of them.
bool Counter::runElementwise(Operation &op) {
  for (Value result : op.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type) {
      at(result) = {};
      continue;
    }
    SmallVector<int64_t, 2> extent(type.getShape());
    int attention = -1;
    for (Value operand : op.getOperands()) {
      attention = std::max(attention, at(operand).attention);
      auto other = dyn_cast<RankedTensorType>(operand.getType());
      if (!other || other.getShape() != type.getShape())
        continue;
      SmallVector<int64_t, 2> each = extentOf(at(operand), operand);
      for (size_t dim = 0; dim < extent.size(); ++dim)
        extent[dim] = std::min(extent[dim], each[dim]);
    }
    setTile(result, extent);
    at(result).attention = attention;
  }
  return true;
}
