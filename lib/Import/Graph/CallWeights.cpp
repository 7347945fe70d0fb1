//===- CallWeights.cpp - nodes that make weights of scores ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A softmax may be written by its parts: exponentials of scores, from which the largest of a row is
// taken, over their sum. And weights may be guarded against rows that see no key, which are not a
// number then: here, every token sees itself.
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac::graph;
using namespace mlir;

static bool isOfKeys(const Dim &dim) {
  return isAxis(dim, Axis::Keys) || isAxis(dim, Axis::KeysAndSink);
}

/// What is one number for all keys, of a dimension `dim` alone.
Results Call::overKeys(function_ref<Expr(Expr)> compute) {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  int64_t rank = self->dims.size();
  std::optional<int64_t> dim = dimension("dim", rank);
  if (auto over = integers("dim"); over && over->size() == 1)
    dim = over->front() < 0 ? over->front() + rank : over->front();
  if (!dim || *dim < 0 || *dim >= rank || !isOfKeys(self->dims[*dim]))
    return fail("it is not over the keys");
  Results result = unary(compute);
  Dims &dims = result->front().tensor->dims;
  dims[*dim] = {};
  if (!flag("keepdim", false))
    dims.erase(dims.begin() + *dim);
  return result;
}

/// `min` alone, where nothing is below.
Results Call::clampBelow() {
  std::optional<double> least = number("min");
  if (!least || has("max"))
    return fail("it bounds numbers otherwise than from below by a number");
  bool isKnown = true;
  Results result = unary([&](Expr x) {
    bool isLargest = expressions[x].kind == SourceKind::Largest;
    isKnown &= isLargest ? *least <= kMasked : *least <= 1 && expressions.isSumAboveOne(x);
    return x;
  });
  return isKnown ? result : fail("its numbers may be below " + printNumber(*least));
}

/// A softmax of rows that see a key has nothing else.
Results Call::replaceNaN() {
  ignore({"nan", "posinf", "neginf"});
  bool isKnown = true;
  Results result = unary([&](Expr x) {
    isKnown &= expressions[x].kind == SourceKind::Softmax;
    return x;
  });
  return isKnown ? result : fail("it replaces what is not a number in others than a softmax's");
}

/// Of numbers of keys, or of one for all of them: elsewhere, nothing here is followed.
Results Call::evaluateWeights(StringRef name, bool &isKnown) {
  Cell *self = cell("self");
  bool isNumbers = self && self->tensor && self->tensor->size() > 0;
  if (!isNumbers)
    return std::nullopt;
  Expr first = (*self->tensor)[0];
  bool hasKeys = llvm::any_of(self->tensor->dims, isOfKeys);
  bool isOfRow = expressions[first].kind == SourceKind::Largest ||
                 expressions.isFunction(first, Function::SumKeys);
  isKnown = hasKeys;
  ignore({"dtype"});
  if (hasKeys && name == "exp")
    return unary([&](Expr x) { return expressions.apply(Function::Exp, x); });
  if (hasKeys && name == "sum")
    return overKeys([&](Expr x) { return expressions.apply(Function::SumKeys, x); });
  if (hasKeys && name == "logsumexp")
    return overKeys(
        [&](Expr x) { return expressions.apply(Function::Log, expressions.sumExp(x)); });
  if (hasKeys && (name == "log_softmax" || name == "_log_softmax")) {
    ignore({"half_to_float"});
    if (!overKeys([](Expr x) { return x; }))
      return std::nullopt;
    return unary([&](Expr x) {
      Expr log = expressions.apply(Function::Log, expressions.sumExp(x));
      return expressions.add(x, expressions.negate(log));
    });
  }
  if (hasKeys && name == "nan_to_num")
    return replaceNaN();
  if (hasKeys && name == "isnan" && expressions[first].kind == SourceKind::Softmax)
    return unary([&](Expr) { return expressions.band({.isOutside = true}); });
  isKnown = isOfRow;
  if (isOfRow && (name == "clamp" || name == "clamp_min"))
    return clampBelow();
  if (isOfRow && name == "log")
    return unary([&](Expr x) { return expressions.apply(Function::Log, x); });
  isKnown = false;
  return std::nullopt;
}
