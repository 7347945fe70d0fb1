//===- CallMasks.cpp - nodes that say which keys a query sees ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask is made of positions that are compared, or of triangles of a matrix of one number; each
// says that the key's distance from the query has a bound. A window is two of them. What is added
// to scores, chosen among them or passed to attention as truth values gives the same mask.
//
// A sink is a score that is joined to those of the keys and left out behind the softmax.
//
//===----------------------------------------------------------------------===//

#include "Call.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlac::graph;
using namespace mlir;

/// A query's position times `query`, plus a key's times `key`, plus a number.
namespace {
struct Affine {
  double query = 0, key = 0, number = 0;
};
} // namespace

static std::optional<Affine> readAffine(const Expressions &expressions, Expr expr) {
  const Source &source = expressions[expr];
  if (source.kind == SourceKind::Constant)
    return Affine{.number = source.number};
  if (source.kind == SourceKind::Position)
    return Affine{.query = 1};
  if (source.kind == SourceKind::KeyPosition)
    return Affine{.key = 1};
  if (source.kind == SourceKind::Product && source.operands.size() == 1) {
    std::optional<Affine> x = readAffine(expressions, source.operands[0]);
    double factor = source.number;
    return x ? std::optional(Affine{factor * x->query, factor * x->key, factor * x->number})
             : std::nullopt;
  }
  if (source.kind != SourceKind::Sum)
    return std::nullopt;
  Affine sum;
  for (Expr operand : source.operands) {
    std::optional<Affine> term = readAffine(expressions, operand);
    if (!term)
      return std::nullopt;
    sum.query += term->query;
    sum.key += term->key;
    sum.number += term->number;
  }
  return sum;
}

/// Whether x >= y, or x > y, as a band.
static std::optional<Expr> compare(Expressions &expressions, Expr x, Expr y, bool isStrict) {
  std::optional<Affine> a = readAffine(expressions, x), b = readAffine(expressions, y);
  if (!a || !b)
    return std::nullopt;
  double query = a->query - b->query, key = a->key - b->key;
  double number = a->number - b->number - (isStrict ? 1 : 0);
  // Positions are whole numbers: x > y is x - 1 >= y, if the constant is one, too.
  bool isWhole = number == std::floor(number) && std::abs(number) < 1e9;
  // Positions are at least 0: what an encoder's mask asks of them.
  if (query >= 0 && key >= 0 && number >= 0)
    return expressions.band({});
  if (!isWhole || query != -key || std::abs(query) != 1)
    return std::nullopt;
  auto end = static_cast<int32_t>(number);
  return expressions.band(query > 0 ? KeyBand{.least = -end} : KeyBand{.most = end});
}

/// The same number of a key as of a query.
static std::optional<Expr> toKey(Expressions &expressions, Expr expr) {
  std::optional<Affine> affine = readAffine(expressions, expr);
  if (!affine || affine->key != 0)
    return std::nullopt;
  Expr scaled = expressions.scale(affine->query, expressions.keyPosition());
  Expr number = expressions.constant(affine->number);
  return affine->query == 0 ? number : expressions.add(scaled, number);
}

/// Numbers of tokens, behind all other dimensions, become those of keys.
static bool toKeys(Expressions &expressions, Tensor &tensor) {
  std::vector<Expr> values = tensor.values();
  for (Expr &value : values) {
    std::optional<Expr> ofKey = toKey(expressions, value);
    if (!ofKey)
      return false;
    value = *ofKey;
  }
  tensor = makeTensor(tensor.dims, std::move(values));
  tensor.dims.back().front().axis = Axis::Keys;
  return true;
}

void Call::fitKeys(const Tensor &matrix, Tensor &row) {
  size_t rank = row.dims.size();
  bool isRow = rank > 0 && isAxis(row.dims[rank - 1], Axis::Tokens) &&
               (rank < 2 || getSize(row.dims[rank - 2]).isOne());
  if (isRow && !matrix.dims.empty() && isAxis(matrix.dims.back(), Axis::Keys))
    toKeys(expressions, row);
}

bool Call::makeKeys(Tensor &left, Tensor &right, Dims &dims) {
  size_t rank = dims.size();
  if (rank < 2 || !isAxis(dims[rank - 1], Axis::Tokens) || !isAxis(dims[rank - 2], Axis::Tokens))
    return true;
  for (Tensor *operand : {&left, &right}) {
    if (operand->dims.empty() || !isAxis(operand->dims.back(), Axis::Tokens))
      continue;
    if (operand->dims.size() > 1 && isAxis(operand->dims[operand->dims.size() - 2], Axis::Tokens))
      return false;
    if (!toKeys(expressions, *operand))
      return false;
  }
  dims.back().front().axis = Axis::Keys;
  return true;
}

//===----------------------------------------------------------------------===//
// Truth values
//===----------------------------------------------------------------------===//

Results Call::comparePositions(StringRef name) {
  bool isStrict = name == "lt" || name == "gt", isSwapped = name == "le" || name == "lt";
  bool isKnown = true;
  Results result = binary([&](Expr x, Expr y) {
    if (isSwapped)
      std::swap(x, y);
    std::optional<Expr> band = compare(expressions, x, y, isStrict);
    isKnown &= band.has_value();
    return band.value_or(x);
  });
  return !result || isKnown ? result : fail("it compares other numbers than positions");
}

/// x or y is not (not x and not y).
Results Call::combineBands(bool isOr) {
  bool isKnown = true;
  Results result = binary([&](Expr x, Expr y) {
    if (isOr) {
      x = expressions.invert(x);
      y = expressions.invert(y);
    }
    std::optional<Expr> band = expressions.both(x, y);
    isKnown &= band.has_value();
    Expr found = band.value_or(x);
    return isOr ? expressions.invert(found) : found;
  });
  return !result || isKnown ? result
                            : fail("it combines other truth values than those of positions");
}

/// What a matrix [tokens, keys] of one number holds on one side of a diagonal, and 0 on the other.
Results Call::keepTriangle(bool isLower) {
  std::optional<int64_t> diagonal = integer("diagonal", 0);
  Cell *self = cell("self");
  if (!self || !diagonal || std::abs(*diagonal) > kOpenAbove / 2)
    return std::nullopt;
  if (self->fresh && !self->fresh->made && self->slices.empty()) {
    ArrayRef<Size> sizes = self->fresh->sizes;
    size_t rank = sizes.size();
    if (rank < 2 || sizes[rank - 1] != evaluator.tokens || sizes[rank - 2] != evaluator.tokens)
      return fail("it is no matrix of tokens and keys");
    Dims dims(rank);
    for (size_t i = 0; i + 2 < rank; ++i)
      if (!sizes[i].isOne())
        return fail("it is no matrix of tokens and keys");
    dims[rank - 2] = {Factor{Axis::Tokens, evaluator.tokens}};
    dims[rank - 1] = {Factor{Axis::Keys, evaluator.tokens}};
    self->tensor = makeTensor(std::move(dims), {self->fresh->fill});
    self->fresh.reset();
  }
  Tensor *matrix = tensor("self");
  size_t rank = matrix ? matrix->dims.size() : 0;
  if (rank < 2 || !isAxis(matrix->dims[rank - 1], Axis::Keys) ||
      !isAxis(matrix->dims[rank - 2], Axis::Tokens))
    return fail("it is no matrix of tokens and keys");
  auto end = static_cast<int32_t>(-*diagonal);
  Expr inside = expressions.band(isLower ? KeyBand{.least = end} : KeyBand{.most = end});
  bool isKnown = true;
  Results result = unary([&](Expr x) {
    std::optional<double> number = expressions.getConstant(x);
    std::optional<Expr> kept;
    if (number && *number <= kVanishing)
      kept = expressions.mask(expressions.invert(inside), *number);
    else
      kept = expressions.both(x, inside);
    isKnown &= kept.has_value();
    return kept.value_or(x);
  });
  return isKnown ? result : fail("it keeps a part of other numbers than a mask's");
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

std::optional<Expr> Call::makeMask(Expr condition, double depth) {
  return expressions.getBand(condition) ? std::optional(expressions.mask(condition, depth))
                                        : std::nullopt;
}

/// `yes` where the condition holds, else `no`, one of which is -inf, or 0 of weights.
std::optional<Expr> Call::choose(Expr condition, Expr yes, Expr no) {
  std::optional<KeyBand> band = expressions.getBand(condition);
  if (band && band->least == kOpenBelow && band->most == kOpenAbove)
    return band->isOutside ? no : yes;
  if (expressions.getConstant(yes) == 0.0 || expressions.getConstant(no) == 0.0) {
    bool isOfSeen = expressions.getConstant(no) == 0.0;
    Expr weights = isOfSeen ? yes : no;
    Expr seen = isOfSeen ? condition : expressions.invert(condition);
    if (std::optional<Expr> kept = band ? expressions.weighSeen(weights, seen) : std::nullopt)
      return kept;
    if (expressions[weights].kind == SourceKind::Softmax)
      fail("it takes weights of keys away behind a softmax that counted them: those that are left "
           "no longer sum to 1");
  }
  auto isMasked = [&](Expr x) {
    std::optional<double> number = expressions.getConstant(x);
    return number && *number <= kVanishing;
  };
  if (isMasked(yes)) {
    std::swap(yes, no);
    condition = expressions.invert(condition);
  }
  std::optional<double> depth = expressions.getConstant(no);
  std::optional<Expr> mask = depth ? makeMask(condition, *depth) : std::nullopt;
  if (!mask || !isMasked(no) || isMasked(yes))
    return std::nullopt;
  return expressions.add(yes, *mask);
}

/// Memory of one number that has a mask's sizes has its dimensions.
bool Call::fillFresh(Cell &self, const Tensor &mask) {
  if (!self.fresh || self.fresh->made || !self.slices.empty())
    return true;
  ArrayRef<Size> sizes = self.fresh->sizes;
  if (sizes.size() != mask.dims.size())
    return false;
  for (auto [size, dim] : llvm::zip_equal(sizes, mask.dims))
    if (size != getSize(dim))
      return false;
  self.tensor = makeTensor(mask.dims, std::vector<Expr>(mask.size(), self.fresh->fill));
  self.fresh.reset();
  return true;
}

Results Call::fillMasked() {
  Tensor *condition = tensor("mask");
  Cell *target = cell("self");
  if (!condition || !target || !fillFresh(*target, *condition))
    return std::nullopt;
  Tensor *self = tensor("self");
  std::optional<double> value = number("value");
  if (!value && has("value"))
    if (Tensor *scalar = tensor("value"); scalar && scalar->size() == 1)
      value = expressions.getConstant((*scalar)[0]);
  if (!self || !value)
    return std::nullopt;
  bool isKnown = true;
  Results result = combine(*self, *condition, [&](Expr x, Expr test) {
    std::optional<Expr> chosen = choose(test, expressions.constant(*value), x);
    isKnown &= chosen.has_value();
    return chosen.value_or(x);
  });
  return !result || isKnown ? result : fail("it fills other numbers than those that a mask hides");
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

/// Scores [..., tokens, keys] and [..., tokens, 1], whose numbers are those of all tokens.
Results Call::appendSink(const Tensor &scores, const Tensor &sink) {
  size_t rank = scores.dims.size();
  Tensor one = sink;
  for (size_t i = 0; i < rank; ++i) {
    if (one.dims[i] == scores.dims[i] || i + 1 == rank)
      continue;
    // A number repeated for each token, of which the graph says only how many there are.
    bool isRepeated = isChannels(one.dims[i]) && getSize(one.dims[i]) == getSize(scores.dims[i]);
    Tensor first = isRepeated ? slice(one, i, 0, 1, 1) : one;
    if (!isRepeated || broadcast(first, one.dims).values() != one.values())
      return fail("it joins scores with numbers of other dimensions");
    one = first;
  }
  Dims dims = scores.dims;
  one = broadcast(one, dims);
  std::vector<Expr> values;
  for (size_t i = 0; i < scores.size(); ++i)
    values.push_back(expressions.beside(scores[i], one[i]));
  dims.back().front().axis = Axis::KeysAndSink;
  return give(makeTensor(std::move(dims), std::move(values)));
}

/// All keys but the sink behind them.
Results Call::dropSink(const Tensor &self, int64_t dim) {
  bool isAllButLast = integer("start", 0) == 0 && integer("end") == -1 && integer("step", 1) == 1;
  std::vector<Expr> values = self.values();
  for (Expr &value : values) {
    SourceKind kind = expressions[value].kind;
    if (kind == SourceKind::Beside)
      value = expressions[value].operands[0];
    else if (kind != SourceKind::Softmax)
      isAllButLast = false;
  }
  if (!isAllButLast)
    return fail("it takes another part of scores with a sink than those of all keys");
  Dims dims = self.dims;
  dims[dim].front().axis = Axis::Keys;
  return give(makeTensor(std::move(dims), std::move(values)));
}

/// Over a row's keys: it is only ever taken off scores, before a softmax.
Results Call::largestScore(bool hasIndices) {
  Tensor *self = tensor("self");
  size_t rank = self ? self->dims.size() : 0;
  std::optional<int64_t> dim;
  if (hasIndices) {
    dim = dimension("dim", rank);
  } else if (auto over = integers("dim"); over && over->size() == 1) {
    dim = over->front() < 0 ? over->front() + static_cast<int64_t>(rank) : over->front();
  }
  if (!self || !dim || *dim < 0 || *dim >= static_cast<int64_t>(rank) ||
      (!isAxis(self->dims[*dim], Axis::Keys) && !isAxis(self->dims[*dim], Axis::KeysAndSink)))
    return fail("it is no largest number over keys");
  Results result = unary([&](Expr x) { return expressions.largest(x); });
  Dims &dims = result->front().tensor->dims;
  dims[*dim] = {};
  if (!flag("keepdim", false))
    dims.erase(dims.begin() + *dim);
  if (hasIndices)
    result->push_back(Cell());
  return result;
}

Results Call::evaluateMask(StringRef name, bool &isKnown) {
  isKnown = true;
  if (name == "le" || name == "lt" || name == "ge" || name == "gt")
    return comparePositions(name);
  if (name == "logical_and" || name == "bitwise_and" || name == "__and__")
    return combineBands(/*isOr=*/false);
  if (name == "logical_or" || name == "bitwise_or" || name == "__or__")
    return combineBands(/*isOr=*/true);
  if (name == "bitwise_not")
    return unary([&](Expr x) { return expressions.invert(x); });
  if (name == "tril" || name == "triu")
    return keepTriangle(name == "tril");
  if (name == "masked_fill")
    return fillMasked();
  if (name == "amax" || (name == "max" && has("dim")))
    return largestScore(name == "max");
  Cell *self = name == "eq" || name == "ne" ? cell("self") : nullptr;
  bool isOfBands = self && self->tensor && self->tensor->size() > 0 &&
                   expressions.getBand((*self->tensor)[0]) && number("other") == 0.0;
  if (isOfBands)
    return unary([&](Expr x) { return name == "eq" ? expressions.invert(x) : x; });
  isKnown = false;
  return std::nullopt;
}
