//===- TokenRows.cpp - values with a row for each token ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenRows.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

/// One row for each token: batch and tokens in this order, then channels, and ones between.
static bool hasTokenRows(const Tensor &tensor) {
  if (tensor.dims.size() < 2 || !isChannels(tensor.dims.back()))
    return false;
  bool hasBatch = false, hasTokens = false;
  for (const Dim &dim : ArrayRef(tensor.dims).drop_back()) {
    if (dim.empty())
      continue;
    bool isBatch = isAxis(dim, Axis::Batch), isTokens = isAxis(dim, Axis::Tokens);
    if ((!isBatch && !isTokens) || hasTokens || (isBatch && hasBatch))
      return false;
    (isBatch ? hasBatch : hasTokens) = true;
  }
  return hasTokens;
}

static bool isSought(const Cell &cell, Type type, const RowQuery &query) {
  auto ranked = dyn_cast<RankedTensorType>(type);
  size_t count = query.numbers.size();
  if (!ranked || !cell.tensor || !isa<FloatType>(ranked.getElementType()) ||
      (query.element && ranked.getElementType() != query.element) || !hasTokenRows(*cell.tensor) ||
      cell.tensor->size() < count || (cell.tensor->size() > count && !query.mayBeWider))
    return false;
  return llvm::all_of(llvm::seq<size_t>(count),
                      [&](size_t i) { return (*cell.tensor)[i] == query.numbers[i]; });
}

Value mlac::graph::findTokenRows(func::FuncOp function, Evaluator &evaluator, NodeOp node,
                                 const RowQuery &query) {
  auto find = [&](ValueRange values) {
    auto found = llvm::find_if(
        values, [&](Value value) { return isSought(evaluator[value], value.getType(), query); });
    return found == values.end() ? Value() : *found;
  };
  for (Operation *each = node->getPrevNode(); each; each = each->getPrevNode())
    if (Value value = find(each->getResults()))
      return value;
  return find(function.getArguments());
}
