//===- CallPacked.cpp - nodes that tell packed sequences apart ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row of tokens may hold several sequences, which a graph tells apart by positions that do not
// follow each other: the number of such places up to a token is that of its sequence, and a query
// sees the keys of its own alone. Here, a row is one sequence: caches have one for each. So
// positions differ by 1, no place is counted, and all keys are of the query's sequence. What an
// input says of a token's position, taken by the number of its sequence and its own, is that.
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac::graph;
using namespace mlir;

/// The graph's own, or an input of whole numbers.
bool Call::arePositions(Expr x) const {
  const Source &source = expressions[x];
  if (source.kind != SourceKind::Argument)
    return source.kind == SourceKind::Position;
  func::FuncOp function = evaluator.function;
  return function.getArgAttr(source.a, mlir::graph::kInputAttr) &&
         getElementTypeOrSelf(function.getArgumentTypes()[source.a]).isInteger();
}

/// Of each position and the one before it, and of the first one and that number less 1.
Results Call::difference() {
  Tensor *self = tensor("self"), *before = has("prepend") ? tensor("prepend") : nullptr;
  auto dim = self ? dimension("dim", self->dims.size(), -1) : std::nullopt;
  bool isOfTokens = dim && before && integer("n", 1) == 1 && !has("append") &&
                    isAxis(self->dims[*dim], Axis::Tokens) && self->size() == 1 &&
                    before->size() == 1 && arePositions((*self)[0]);
  if (!isOfTokens)
    return fail("it is no difference of a token's position and the one before it");
  Expr first = expressions.apply(Function::FirstToken, (*self)[0]);
  if ((*before)[0] != expressions.add(first, expressions.constant(-1)))
    return fail("the number before the first position is not that less 1");
  return unary([&](Expr) { return expressions.constant(1); });
}

/// Of zeros.
Results Call::runningSum() {
  ignore({"dtype"});
  get("dim");
  bool isKnown = true;
  Results result = unary([&](Expr x) {
    isKnown &= expressions.getConstant(x) == 0.0;
    return x;
  });
  return isKnown ? result : fail("it sums up other numbers than zeros");
}

/// The number that all of memory holds, of so many dimensions.
std::optional<Expr> Call::getFill(const Cell &self, size_t &rank) const {
  if (self.fresh && !self.fresh->made && self.slices.empty()) {
    rank = self.fresh->sizes.size();
    return self.fresh->fill;
  }
  if (!self.tensor || self.tensor->size() != 1)
    return std::nullopt;
  rank = self.tensor->dims.size();
  return (*self.tensor)[0];
}

/// Whether a number that a mask's memory was filled with is another than 0.
Results Call::truthOf(const Cell &self) {
  size_t rank = 0;
  std::optional<Expr> fill = getFill(self, rank);
  std::optional<double> number = fill ? expressions.getConstant(*fill) : std::nullopt;
  if (!number)
    return fail("it casts to a type of other numbers");
  Expr truth = expressions.constant(*number != 0);
  if (self.tensor)
    return give(makeTensor(self.tensor->dims, {truth}));
  Cell result;
  result.fresh = std::make_shared<Fresh>(Fresh{self.fresh->sizes, truth, {}});
  return give(result);
}

bool Call::isOfSequences(Expr x) const {
  const Source &source = expressions[x];
  return source.kind == SourceKind::Opaque && source.reason == kOfSequences;
}

/// Whether positions of a batch's tokens are taken by each sequence's number and each token's.
/// Other inputs of whole numbers (tokens, their types) are told from positions by their names.
bool Call::areRowsOf(const Tensor &self, ArrayRef<Tensor> indices) const {
  bool isOfTokens = self.dims.size() == 2 && self.size() == 1 && arePositions(self[0]) &&
                    isAxis(self.dims[1], Axis::Tokens);
  if (isOfTokens && expressions[self[0]].kind == SourceKind::Argument) {
    func::FuncOp function = evaluator.function;
    auto name =
        function.getArgAttrOfType<StringAttr>(expressions[self[0]].a, mlir::graph::kInputAttr);
    isOfTokens = name && name.getValue().contains("pos");
  }
  if (!isOfTokens || indices.size() != 2 || indices[0].size() != 1 || indices[1].size() != 1)
    return false;
  bool isOne = getSize(self.dims[0]).isOne() && expressions.getConstant(indices[0][0]) == 0.0;
  bool isBatch = isAxis(self.dims[0], Axis::Batch) && isOfSequences(indices[0][0]);
  return (isOne || isBatch) && expressions[indices[1][0]].kind == SourceKind::Position;
}

/// Out of a tensor that holds one number, by indices of each dimension, or out of positions.
Results Call::gather() {
  Cell *self = cell("self");
  size_t rank = 0;
  std::optional<Expr> fill = self ? getFill(*self, rank) : std::nullopt;
  auto indices = fill ? tensors("indices") : std::nullopt;
  bool isOfRows = indices && self->tensor && areRowsOf(*self->tensor, *indices);
  if (isOfRows)
    fill = expressions.position();
  else if (!indices || indices->size() != rank || !expressions.getConstant(*fill))
    return fail("it takes numbers of a tensor that holds more than one");
  std::optional<Dims> dims = Dims();
  for (const Tensor &each : *indices)
    dims = dims && each.size() == 1 ? broadcastDims(*dims, each.dims) : std::nullopt;
  return give(dims ? std::optional(broadcast(makeTensor({}, {*fill}), *dims)) : std::nullopt,
              "the dimensions of its indices do not fit each other");
}

/// `eq` or `ne`.
Results Call::compareConstants(StringRef name) {
  return binary([&](Expr x, Expr y) {
    bool isEqual = expressions.getConstant(x) == expressions.getConstant(y);
    return expressions.constant(isEqual == (name == "eq"));
  });
}

Results Call::evaluatePacked(StringRef name, bool &isKnown) {
  isKnown = true;
  if (name == "diff")
    return difference();
  if (name == "cumsum")
    return runningSum();
  if (name == "index")
    return gather();
  auto isConstant = [&](StringRef argument) {
    Cell *found = cell(argument);
    return number(argument) || (found && found->tensor && found->tensor->size() > 0 &&
                                llvm::all_of(found->tensor->values(), [&](Expr x) {
                                  return expressions.getConstant(x).has_value();
                                }));
  };
  if ((name == "eq" || name == "ne") && isConstant("self") && isConstant("other"))
    return compareConstants(name);
  isKnown = false;
  return std::nullopt;
}
