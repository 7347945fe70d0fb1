//===- CallMath.cpp - nodes that compute number by number ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlac::graph;
using namespace mlir;

Results Call::unary(function_ref<Expr(Expr)> compute) {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  std::vector<Expr> values = self->values();
  for (Expr &value : values)
    value = compute(value);
  return give(makeTensor(self->dims, std::move(values)));
}

Results Call::combine(const Tensor &first, const Tensor &second,
                      function_ref<Expr(Expr, Expr)> compute) {
  Tensor left = first, right = second;
  fitKeys(first, right);
  fitKeys(second, left);
  auto dims = broadcastDims(left.dims, right.dims);
  auto isOpaque = [&](const Tensor &each) {
    return each.size() > 0 && expressions[each[0]].kind == SourceKind::Opaque;
  };
  if (!dims && (isOpaque(left) || isOpaque(right))) // whose dimensions are a guess
    return fail("what it computes with is not followed");
  if (!dims || !isSmall(*dims))
    return fail("the dimensions of its operands do not fit each other");
  if (!makeKeys(left, right, *dims))
    return fail("it compares tokens with tokens by other numbers than their positions");
  left = broadcast(left, *dims);
  right = broadcast(right, *dims);
  std::vector<Expr> values;
  values.reserve(left.size());
  for (size_t i = 0; i < left.size(); ++i)
    values.push_back(compute(left[i], right[i]));
  return give(makeTensor(std::move(*dims), std::move(values)));
}

Results Call::binary(function_ref<Expr(Expr, Expr)> compute) {
  Tensor *self = tensor("self");
  if (!self)
    return std::nullopt;
  if (std::optional<double> value = number("other"))
    return unary([&](Expr x) { return compute(x, expressions.constant(*value)); });
  Tensor *other = tensor("other");
  return other ? combine(*self, *other, compute) : std::nullopt;
}

/// Not truth values to numbers.
bool Call::addsNumbers() {
  auto isTruth = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && shaped.getElementType().isInteger(1);
  };
  return llvm::none_of(node->getOperandTypes(), isTruth);
}

Results Call::power() {
  std::optional<double> exponent = number("exponent");
  if (exponent == 2.0)
    return unary([&](Expr x) { return expressions.multiply(x, x); });
  if (exponent == 0.5)
    return unary([&](Expr x) { return expressions.apply(Function::Sqrt, x); });
  if (exponent == -0.5)
    return unary([&](Expr x) { return expressions.apply(Function::Rsqrt, x); });
  if (exponent == -1.0)
    return unary([&](Expr x) { return expressions.apply(Function::Reciprocal, x); });
  return std::nullopt;
}

/// Over the last dimension, of channels.
Results Call::mean() {
  ignore({"dtype"});
  Tensor *self = tensor("self");
  auto over = integers("dim");
  if (!self || !over || over->size() != 1 || self->dims.empty() || !isChannels(self->dims.back()))
    return std::nullopt;
  int64_t rank = self->dims.size(), width = countChannels(self->dims.back());
  if (over->front() != -1 && over->front() != rank - 1)
    return std::nullopt;
  std::vector<Expr> values = self->values(), result;
  for (size_t row = 0; row < values.size(); row += width)
    result.push_back(
        expressions.mean(expressions.internVector(ArrayRef(values).slice(row, width))));
  Dims dims = self->dims;
  dims.back() = {};
  if (!flag("keepdim", false))
    dims.pop_back();
  return give(makeTensor(std::move(dims), std::move(result)));
}

/// As pow, mean, add, rsqrt and mul write it.
std::vector<Expr> Call::normalise(ArrayRef<Expr> row, Expr epsilon) {
  std::vector<Expr> squares, result;
  for (Expr x : row)
    squares.push_back(expressions.multiply(x, x));
  Expr mean = expressions.mean(expressions.internVector(squares));
  Expr inverse = expressions.apply(Function::Rsqrt, expressions.add(mean, epsilon));
  for (Expr x : row)
    result.push_back(expressions.multiply(x, inverse));
  return result;
}

Results Call::rmsNorm() {
  Tensor *input = tensor("input");
  auto shape = sizes("normalized_shape");
  std::optional<double> epsilon = number("eps");
  if (!input || !shape || shape->size() != 1 || !epsilon || input->dims.empty() ||
      !isChannels(input->dims.back()) || getSize(input->dims.back()) != shape->front())
    return std::nullopt;
  size_t width = countChannels(input->dims.back());
  std::vector<Expr> values = input->values(), result;
  for (size_t row = 0; row < values.size(); row += width)
    llvm::append_range(
        result, normalise(ArrayRef(values).slice(row, width), expressions.constant(*epsilon)));
  Tensor normed = makeTensor(input->dims, std::move(result));
  if (!has("weight"))
    return give(normed);
  Tensor *weight = tensor("weight");
  return weight
             ? combine(normed, *weight, [&](Expr x, Expr y) { return expressions.multiply(x, y); })
             : std::nullopt;
}

/// The softmax that is 0 where all keys are masked: as long as a token sees itself, the softmax.
/// Else scores that are -inf where a key is not seen, or that mask alone.
Results Call::where() {
  auto operand = [&](StringRef name) -> std::optional<Tensor> {
    if (std::optional<double> value = number(name))
      return makeTensor({}, {expressions.constant(*value)});
    Tensor *found = tensor(name);
    return found ? std::optional(*found) : std::nullopt;
  };
  Tensor *condition = tensor("condition");
  std::optional<Tensor> self = operand("self"), other = operand("other");
  if (!condition || !self || !other)
    return std::nullopt;
  if (condition->size() > 0 && expressions.getBand((*condition)[0])) {
    bool isMask = true;
    Results paired =
        combine(*self, *other, [&](Expr x, Expr y) { return expressions.complex(x, y); });
    if (!paired)
      return std::nullopt;
    Results chosen = combine(*condition, *paired->front().tensor, [&](Expr test, Expr pair) {
      std::optional<Expr> value =
          choose(test, expressions[pair].operands[0], expressions[pair].operands[1]);
      isMask &= value.has_value();
      return value.value_or(pair);
    });
    return isMask ? chosen : fail("it chooses between numbers by the key, none of which is -inf");
  }
  auto isSafe = [&](Expr test, Expr zero, Expr weight) {
    const Source &softmax = expressions[weight];
    if (softmax.kind != SourceKind::Softmax || expressions.getConstant(zero) != 0.0)
      return false;
    Expr masked = expressions.apply(Function::IsMinusInfinity, softmax.operands.front());
    Expr any = expressions.apply(Function::AnyKey, expressions.apply(Function::Not, masked));
    return test == expressions.apply(Function::Not, any);
  };
  auto dims = broadcastDims(condition->dims, other->dims);
  if (!dims || *dims != other->dims || !broadcastDims(self->dims, other->dims))
    return std::nullopt;
  Tensor test = broadcast(*condition, *dims), zero = broadcast(*self, *dims);
  for (size_t i = 0; i < other->size(); ++i)
    if (!isSafe(test[i], zero[i], (*other)[i]))
      return fail("it chooses between numbers otherwise than a softmax over masked keys does");
  return give(*other);
}

/// Whether any key, or all, are so. A query is a key of its own: what is so of the token itself is
/// so of any, and what is not, is not of all.
Results Call::anyKey(bool isAll) {
  bool isKnown = true;
  Results result = overKeys([&](Expr x) {
    std::optional<KeyBand> band = expressions.getBand(x);
    if (!band) {
      isKnown &= !isAll;
      return expressions.apply(Function::AnyKey, x);
    }
    bool isOfItself = (band->least <= 0 && band->most >= 0) != band->isOutside;
    isKnown &= isOfItself != isAll;
    return expressions.band({.isOutside = isAll});
  });
  return isKnown ? result : fail("whether it is so of the keys depends on how many there are");
}

Results Call::evaluateMath(StringRef name, bool &isKnown) {
  isKnown = true;
  if (name == "add" || name == "sub") {
    if (!addsNumbers())
      return fail("it adds truth values, which are 1 and 0 then, and no mask");
    double alpha = number("alpha").value_or(1), factor = name == "add" ? alpha : -alpha;
    return binary([&](Expr x, Expr y) { return expressions.add(x, expressions.scale(factor, y)); });
  }
  if (name == "rsub" && !has("alpha"))
    return binary([&](Expr x, Expr y) { return expressions.add(y, expressions.negate(x)); });
  if (name == "mul")
    return binary([&](Expr x, Expr y) { return expressions.multiply(x, y); });
  if (name == "div" && !has("rounding_mode"))
    return binary([&](Expr x, Expr y) {
      return expressions.multiply(x, expressions.apply(Function::Reciprocal, y));
    });
  if (name == "neg")
    return unary([&](Expr x) { return expressions.negate(x); });
  if (name == "pow")
    return power();
  if (name == "square")
    return unary([&](Expr x) { return expressions.multiply(x, x); });
  if (name == "mean")
    return mean();
  if (name == "rms_norm")
    return rmsNorm();
  if (name == "where")
    return where();
  if (name == "any" || name == "all")
    return anyKey(name == "all");
  if (name == "eq" && number("other") == -std::numeric_limits<double>::infinity())
    return unary([&](Expr x) { return expressions.apply(Function::IsMinusInfinity, x); });
  auto function = llvm::StringSwitch<std::optional<Function>>(name)
                      .Case("rsqrt", Function::Rsqrt)
                      .Case("sqrt", Function::Sqrt)
                      .Case("reciprocal", Function::Reciprocal)
                      .Case("cos", Function::Cos)
                      .Case("sin", Function::Sin)
                      .Case("tanh", Function::Tanh)
                      .Case("logical_not", Function::Not)
                      .Default(std::nullopt);
  isKnown = function.has_value();
  return function ? unary([&](Expr x) { return expressions.apply(*function, x); }) : std::nullopt;
}
