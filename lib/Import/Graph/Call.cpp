//===- Call.cpp - the arguments of a node ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;

bool Call::has(StringRef name) {
  Attribute argument = get(name);
  return argument && !isa<UnitAttr>(argument);
}

Cell *Call::cell(Attribute argument) {
  auto in = dyn_cast_or_null<InAttr>(argument);
  return in ? &evaluator.cellOf(node.getOperands()[in.getIndex()]) : nullptr;
}

Tensor *Call::tensor(Attribute argument, StringRef name) {
  Cell *found = cell(argument);
  if (found && found->fresh && found->fresh->made && !found->tensor) {
    Tensor tensor = *found->fresh->made;
    for (const FreshSlice &part : found->slices)
      tensor = slice(tensor, part.dim, part.start, part.count, part.step);
    found->tensor = std::move(tensor);
  }
  if (found && found->tensor)
    return &*found->tensor;
  fail("what its argument '" + name + "' holds is not followed");
  return nullptr;
}

/// Whether it has no numbers: a part of heads, of which nothing is left.
bool Call::isEmpty(Attribute argument) {
  auto in = dyn_cast_or_null<InAttr>(argument);
  auto type =
      in ? dyn_cast<RankedTensorType>(node.getOperands()[in.getIndex()].getType()) : nullptr;
  return type && llvm::is_contained(type.getShape(), 0);
}

std::optional<std::vector<Tensor>> Call::tensors(StringRef name) {
  auto list = dyn_cast_or_null<ArrayAttr>(get(name));
  std::vector<Tensor> result;
  if (!list || list.empty())
    return std::nullopt;
  for (Attribute item : list) {
    if (isEmpty(item))
      continue;
    Tensor *each = tensor(item, name);
    if (!each)
      return std::nullopt;
    result.push_back(*each);
  }
  return result.empty() ? std::nullopt : std::optional(std::move(result));
}

std::optional<int64_t> Call::integer(StringRef name, std::optional<int64_t> missing) {
  if (!has(name))
    return missing;
  auto value = dyn_cast<IntegerAttr>(get(name));
  return value ? std::optional(value.getInt()) : std::nullopt;
}

std::optional<SmallVector<int64_t>> Call::integers(StringRef name) {
  auto list = dyn_cast_or_null<ArrayAttr>(get(name));
  if (!list)
    return std::nullopt;
  SmallVector<int64_t> result;
  for (Attribute item : list) {
    auto value = dyn_cast<IntegerAttr>(item);
    if (!value)
      return std::nullopt;
    result.push_back(value.getInt());
  }
  return result;
}

/// A symbol's, or a number.
std::optional<Size> Call::size(Attribute argument) {
  if (auto value = dyn_cast_or_null<IntegerAttr>(argument))
    return Size{value.getInt()};
  Cell *symbol = cell(argument);
  return symbol ? symbol->size : std::nullopt;
}

std::optional<SmallVector<Size>> Call::sizes(StringRef name) {
  auto list = dyn_cast_or_null<ArrayAttr>(get(name));
  if (!list)
    return std::nullopt;
  SmallVector<Size> result;
  for (Attribute item : list) {
    std::optional<Size> each = size(item);
    if (!each)
      return std::nullopt;
    result.push_back(*each);
  }
  return result;
}

std::optional<double> Call::number(StringRef name) {
  Attribute argument = get(name);
  if (auto truth = dyn_cast_or_null<BoolAttr>(argument))
    return truth.getValue() ? 1 : 0;
  if (auto real = dyn_cast_or_null<FloatAttr>(argument))
    return real.getValueAsDouble();
  if (auto whole = dyn_cast_or_null<IntegerAttr>(argument))
    return static_cast<double>(whole.getInt());
  return std::nullopt;
}

bool Call::flag(StringRef name, bool missing) {
  auto value = dyn_cast_or_null<BoolAttr>(get(name));
  return value ? value.getValue() : missing;
}

std::optional<int64_t> Call::dimension(StringRef name, int64_t rank,
                                       std::optional<int64_t> missing) {
  std::optional<int64_t> dim = integer(name, missing);
  if (!dim || *dim < -rank || *dim >= rank)
    return std::nullopt;
  return *dim < 0 ? *dim + rank : *dim;
}

StringRef Call::findUnasked() {
  for (NamedAttribute argument : node.getArguments())
    if (!asked.contains(argument.getName()))
      return argument.getName();
  return "";
}

Results Call::evaluateKnown(StringRef name, bool &isKnown) {
  for (auto part :
       {&Call::evaluateShape, &Call::evaluateMemory, &Call::evaluateWeights, &Call::evaluateMask,
        &Call::evaluatePacked, &Call::evaluateMath, &Call::evaluateProduct}) {
    Results results = (this->*part)(name, isKnown);
    if (isKnown)
      return results;
  }
  return std::nullopt;
}

Results Call::evaluate(StringRef name) {
  bool isKnown = false, isWrite = false;
  Results results = evaluateKnown(name, isKnown);
  // Computes and then writes: "mul_".
  if (!isKnown && name.ends_with("_") && cell("self")) {
    isWrite = true;
    results = evaluateKnown(name.drop_back(), isKnown);
  }
  if (!isKnown)
    return fail("the operator is not one that is followed");
  if (!results)
    return fail("its arguments have a form that is not followed");
  if (StringRef unasked = findUnasked(); !unasked.empty())
    return fail("its argument '" + unasked + "' is not one that is followed");
  if (!isWrite)
    return results;
  if (results->size() != 1 || !results->front().tensor)
    return std::nullopt;
  return write(*cell("self"), *results->front().tensor);
}
