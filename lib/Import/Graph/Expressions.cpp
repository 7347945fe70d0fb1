//===- Expressions.cpp - what a graph's numbers are made of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>

using namespace mlac::graph;

static uint64_t getBits(double value) { return llvm::bit_cast<uint64_t>(value); }

static void addOperands(llvm::FoldingSetNodeID &id, llvm::ArrayRef<Expr> operands) {
  for (Expr operand : operands) {
    id.AddInteger(operand.source);
    id.AddInteger(operand.index);
  }
}

void Source::Profile(llvm::FoldingSetNodeID &id) const {
  id.AddInteger(static_cast<unsigned>(kind));
  id.AddInteger(getBits(number));
  for (uint32_t field : {a, b, c})
    id.AddInteger(field);
  id.AddPointer(node);
  addOperands(id, operands);
}

void Expressions::Vector::Profile(llvm::FoldingSetNodeID &node) const { addOperands(node, values); }

Expressions::Expressions() { intern({.kind = SourceKind::Undefined}); }

template <typename T>
static llvm::ArrayRef<T> keep(llvm::BumpPtrAllocator &memory, llvm::ArrayRef<T> values) {
  T *copy = memory.Allocate<T>(values.size());
  llvm::copy(values, copy);
  return {copy, values.size()};
}

uint32_t Expressions::intern(Source source) {
  llvm::FoldingSetNodeID id;
  source.Profile(id);
  void *place = nullptr;
  if (Source *found = known.FindNodeOrInsertPos(id, place))
    return found->id;
  auto *made = new (memory.Allocate<Source>()) Source(source);
  made->operands = keep(memory, source.operands);
  made->id = sources.size();
  made->maker = maker;
  known.InsertNode(made, place);
  sources.push_back(made);
  return made->id;
}

VectorId Expressions::internVector(llvm::ArrayRef<Expr> values) {
  Vector probe;
  probe.values = values;
  llvm::FoldingSetNodeID id;
  probe.Profile(id);
  void *place = nullptr;
  if (Vector *found = knownVectors.FindNodeOrInsertPos(id, place))
    return found->id;
  auto *made = new (memory.Allocate<Vector>()) Vector;
  made->values = keep(memory, values);
  made->id = vectors.size();
  knownVectors.InsertNode(made, place);
  vectors.push_back(made);
  return made->id;
}

uint32_t Expressions::opaque(mlir::Operation *node, uint32_t result, llvm::StringRef reason,
                             const Source *cause) {
  Source source{.kind = SourceKind::Opaque, .a = result};
  source.node = node;
  source.reason = reason;
  source.cause = cause && cause->cause ? cause->cause : cause;
  return intern(source);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

std::optional<double> Expressions::getConstant(Expr x) const {
  const Source &source = (*this)[x];
  return source.kind == SourceKind::Constant ? std::optional(source.number) : std::nullopt;
}

Expr Expressions::constant(double value) {
  return {intern({.kind = SourceKind::Constant, .number = value}), 0};
}

std::pair<double, Expr> Expressions::splitFactor(Expr x) {
  const Source &source = (*this)[x];
  if (source.kind != SourceKind::Product || source.number == 1)
    return {1, x};
  if (source.operands.size() == 1)
    return {source.number, source.operands.front()};
  return {source.number, internExpr(SourceKind::Product, source.operands, 1)};
}

/// 1 - a band, which holds 1 and 0, is the other keys.
std::optional<Expr> Expressions::subtractBand(std::optional<double> one, Expr term) {
  auto [factor, band] = splitFactor(term);
  return one == 1.0 && factor == -1 && getBand(band) ? std::optional(invert(band)) : std::nullopt;
}

Expr Expressions::add(Expr x, Expr y) {
  std::optional<double> first = getConstant(x), second = getConstant(y);
  if (first && second)
    return constant(*first + *second);
  if (first == 0.0)
    return y;
  if (second == 0.0)
    return x;
  if (std::optional<Expr> band = first ? subtractBand(first, y) : subtractBand(second, x))
    return *band;
  if (getMaskBand(x) && getMaskBand(y))
    if (std::optional<Expr> seen = both((*this)[x].operands[0], (*this)[y].operands[0]))
      return maskBoth(*seen, x, y);
  for (auto [sum, other] : {std::pair(x, y), std::pair(y, x)}) {
    if (std::optional<Expr> masked = addMask(sum, other))
      return *masked;
    std::optional<double> number = getConstant(other);
    if (number && *number > 0 && *number < kRoundedAway && isSumAboveOne(sum))
      return sum;
  }
  Expr terms[] = {std::min(x, y), std::max(x, y)};
  return internExpr(SourceKind::Sum, terms);
}

/// Keys that one of two masks hides are hidden as little as they are by the lesser one.
Expr Expressions::maskBoth(Expr seen, Expr first, Expr second) {
  double least = kMasked;
  for (Expr each : {first, second})
    if (double depth = (*this)[each].number; depth < 0)
      least = std::max(least, depth);
  return mask(seen, least);
}

/// A mask of scores that have one already is one of both, and scores need not be multiplied by 0
/// where they are hidden.
std::optional<Expr> Expressions::addMask(Expr scores, Expr other) {
  if (!getMaskBand(other))
    return std::nullopt;
  Expr band = (*this)[other].operands[0];
  const Source &source = (*this)[scores];
  if (source.kind == SourceKind::Product && source.operands.size() > 1)
    if (const Expr *factor = llvm::find(source.operands, band); factor != source.operands.end()) {
      Expr seen = constant(source.number);
      for (const Expr &each : source.operands)
        if (&each != factor)
          seen = multiply(seen, each);
      return add(seen, other);
    }
  if (source.kind != SourceKind::Sum)
    return std::nullopt;
  for (size_t i = 0; i < source.operands.size(); ++i) {
    Expr mask = source.operands[i];
    if (isLargest(mask)) // of all keys
      return add(add(source.operands[1 - i], other), mask);
    if (!getMaskBand(mask))
      continue;
    if (std::optional<Expr> seen = both((*this)[mask].operands[0], band))
      return add(source.operands[1 - i], maskBoth(*seen, mask, other));
  }
  return std::nullopt;
}

Expr Expressions::multiply(Expr x, Expr y) {
  const Source &first = (*this)[x], &second = (*this)[y];
  if (first.kind == SourceKind::Complex && second.kind == SourceKind::Complex) {
    Expr a = first.operands[0], b = first.operands[1], c = second.operands[0],
         d = second.operands[1];
    Expr real = add(multiply(a, c), negate(multiply(b, d)));
    return complex(real, add(multiply(a, d), multiply(b, c)));
  }
  if (first.kind == SourceKind::Complex)
    return complex(multiply(first.operands[0], y), multiply(first.operands[1], y));
  if (second.kind == SourceKind::Complex)
    return multiply(y, x);
  if (getBand(x) && getBand(y)) // of ones and zeros
    if (std::optional<Expr> seen = both(x, y))
      return *seen;
  for (auto [weights, band] : {std::pair(x, y), std::pair(y, x)})
    if (getBand(band))
      if (std::optional<Expr> seen = weighSeen(weights, band))
        return *seen;
  double factor = 1;
  llvm::SmallVector<Expr, 4> factors;
  for (Expr each : {x, y}) {
    const Source &source = (*this)[each];
    if (source.kind == SourceKind::Constant || source.kind == SourceKind::Product)
      factor *= source.number;
    if (source.kind == SourceKind::Product)
      llvm::append_range(factors, source.operands);
    else if (source.kind != SourceKind::Constant)
      factors.push_back(each);
  }
  divideBySums(factors);
  if (factors.empty())
    return constant(factor);
  if (factors.size() == 1 && factor == 1)
    return factors.front();
  if (factors.size() == 1 && factor <= kVanishing && std::isfinite(factor) &&
      getBand(factors.front()))
    return mask(invert(factors.front()), factor);
  llvm::sort(factors);
  return internExpr(SourceKind::Product, factors, factor);
}

Expr Expressions::apply(Function function, Expr x) {
  const Source &source = (*this)[x];
  std::optional<double> number = getConstant(x);
  auto isOf = [&](Function inner) {
    return source.kind == SourceKind::Apply && source.a == static_cast<uint32_t>(inner);
  };
  if (number && function == Function::Reciprocal)
    return constant(1 / *number);
  if (number && function == Function::Sqrt)
    return constant(std::sqrt(*number));
  if (number && function == Function::Rsqrt)
    return constant(1 / std::sqrt(*number));
  if (function == Function::Reciprocal && isOf(Function::Sqrt))
    return apply(Function::Rsqrt, source.operands.front());
  if (function == Function::Not && isOf(Function::Not))
    return source.operands.front();
  if (function == Function::Not && source.kind == SourceKind::Band)
    return invert(x);
  if (function == Function::Exp && source.kind == SourceKind::Sum)
    for (size_t i = 0; i < source.operands.size(); ++i) {
      auto [factor, log] = splitFactor(source.operands[i]);
      Expr scores = source.operands[1 - i];
      if (factor == -1 && log == apply(Function::Log, sumExp(scores)))
        return softmax(scores);
    }
  Source result{.kind = SourceKind::Apply, .a = static_cast<uint32_t>(function)};
  result.operands = x;
  return {intern(result), 0};
}

/// Takes the factor that all of a vector have out of it.
static double takeFactor(Expressions &expressions, llvm::SmallVectorImpl<Expr> &values) {
  double common = values.empty() ? 1 : expressions.splitFactor(values.front()).first;
  if (common == 1 || llvm::any_of(values, [&](Expr value) {
        return expressions.splitFactor(value).first != common;
      }))
    return 1;
  for (Expr &value : values)
    value = expressions.splitFactor(value).second;
  return common;
}

Expr Expressions::dot(llvm::ArrayRef<Expr> query, llvm::ArrayRef<Expr> key) {
  llvm::SmallVector<Expr> left(query), right(key);
  double factor = takeFactor(*this, left) * takeFactor(*this, right);
  Source source{.kind = SourceKind::Dot, .a = internVector(left), .b = internVector(right)};
  return scale(factor, {intern(source), 0});
}

/// What all scores of a row have in common does not matter: their largest, which is taken off them.
Expr Expressions::softmax(Expr score) {
  auto [factor, common] = splitFactor(score);
  const Source &sum = (*this)[common];
  if (sum.kind == SourceKind::Sum)
    for (size_t i = 0; i < sum.operands.size(); ++i)
      if (isLargest(sum.operands[i]))
        return softmax(scale(factor, sum.operands[1 - i]));
  return internExpr(SourceKind::Softmax, score);
}

bool Expressions::isFunction(Expr x, Function function) const {
  const Source &source = (*this)[x];
  return source.kind == SourceKind::Apply && source.a == static_cast<uint32_t>(function);
}

/// The largest of a row, times a number.
bool Expressions::isLargest(Expr x) {
  return (*this)[splitFactor(x).second].kind == SourceKind::Largest;
}

bool Expressions::isSumAboveOne(Expr x) {
  if (!isFunction(x, Function::SumKeys) || !isFunction((*this)[x].operands[0], Function::Exp))
    return false;
  const Source &scores = (*this)[(*this)[(*this)[x].operands[0]].operands[0]];
  if (scores.kind != SourceKind::Sum)
    return false;
  for (size_t i = 0; i < scores.operands.size(); ++i)
    if (scores.operands[i] == negate(largest(scores.operands[1 - i])))
      return true;
  return false;
}

/// Exponentials over their sum are a softmax, also where what they weigh is summed up before.
void Expressions::divideBySums(llvm::SmallVectorImpl<Expr> &factors) {
  for (Expr &divisor : factors) {
    if (!isFunction(divisor, Function::Reciprocal))
      continue;
    Expr sum = (*this)[divisor].operands[0];
    if (!isFunction(sum, Function::SumKeys))
      continue;
    Expr exponential = (*this)[sum].operands[0];
    if (!isFunction(exponential, Function::Exp))
      continue;
    Expr weights = softmax((*this)[exponential].operands[0]);
    for (Expr &factor : factors) {
      const Source &source = (*this)[factor];
      bool isWeighed = source.kind == SourceKind::Attend && source.operands[0] == exponential;
      if (factor != exponential && !isWeighed)
        continue;
      factor = isWeighed ? attend(weights, source.operands[1]) : weights;
      factors.erase(&divisor);
      return;
    }
  }
}

/// Whether scores have a mask that hides all keys outside of the band.
bool Expressions::isHidden(Expr scores, Expr band) {
  const Source &source = (*this)[splitFactor(scores).second];
  if (source.kind == SourceKind::Beside)
    return isHidden(source.operands[0], band);
  if (std::optional<KeyBand> seen = getMaskBand(scores))
    return both(source.operands[0], band) == source.operands[0];
  return source.kind == SourceKind::Sum &&
         llvm::any_of(source.operands, [&](Expr term) { return isHidden(term, band); });
}

std::optional<Expr> Expressions::weighSeen(Expr weights, Expr band) {
  const Source &source = (*this)[weights];
  if (isFunction(weights, Function::Exp))
    return apply(Function::Exp, add(source.operands[0], mask(band)));
  if (source.kind == SourceKind::Softmax && isHidden(source.operands[0], band))
    return weights;
  return std::nullopt;
}

Expr Expressions::beside(Expr score, Expr sink) {
  Expr operands[] = {score, sink};
  return internExpr(SourceKind::Beside, operands);
}

Expr Expressions::attend(Expr weights, Expr value) {
  Expr operands[] = {weights, value};
  return internExpr(SourceKind::Attend, operands);
}

Expr Expressions::complex(Expr real, Expr imaginary) {
  Expr operands[] = {real, imaginary};
  return internExpr(SourceKind::Complex, operands);
}

//===----------------------------------------------------------------------===//
// Bands of keys
//===----------------------------------------------------------------------===//

/// Where only one end is there, being outside is being inside of another band.
Expr Expressions::band(KeyBand band) {
  if (band.isOutside && band.most == kOpenAbove && band.least != kOpenBelow)
    band = {.most = band.least - 1};
  else if (band.isOutside && band.least == kOpenBelow && band.most != kOpenAbove)
    band = {.least = band.most + 1};
  return {intern({.kind = SourceKind::Band,
                  .a = static_cast<uint32_t>(band.least),
                  .b = static_cast<uint32_t>(band.most),
                  .c = band.isOutside}),
          0};
}

std::optional<KeyBand> Expressions::getBand(Expr x) const {
  const Source &source = (*this)[x];
  if (source.kind != SourceKind::Band)
    return std::nullopt;
  return KeyBand{static_cast<int32_t>(source.a), static_cast<int32_t>(source.b), source.c != 0};
}

std::optional<KeyBand> Expressions::getMaskBand(Expr x) const {
  const Source &source = (*this)[x];
  return source.kind == SourceKind::Mask ? getBand(source.operands.front()) : std::nullopt;
}

Expr Expressions::invert(Expr x) {
  std::optional<KeyBand> known = getBand(x);
  if (!known)
    return apply(Function::Not, x);
  known->isOutside = !known->isOutside;
  return band(*known);
}

std::optional<Expr> Expressions::both(Expr x, Expr y) {
  // Constants are what a mask of ones holds.
  if (getConstant(x) == 1.0)
    return y;
  if (getConstant(y) == 1.0)
    return x;
  std::optional<KeyBand> first = getBand(x), second = getBand(y);
  if (!first || !second || first->isOutside || second->isOutside)
    return std::nullopt;
  return band({std::max(first->least, second->least), std::min(first->most, second->most)});
}
