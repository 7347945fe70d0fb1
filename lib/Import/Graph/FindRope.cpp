//===- FindRope.cpp - the rope before an attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindRope.h"

#include "TokenRows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>
#include <deque>
#include <limits>

using namespace mlac;
using namespace mlac::graph;
using namespace mlir;
using mlir::graph::NodeOp;

std::optional<StoredFrequency> mlac::graph::readFrequency(func::FuncOp function,
                                                          const Expressions &expressions,
                                                          const Source &angle) {
  if (angle.kind != SourceKind::Product || angle.operands.size() != 2 || angle.number != 1)
    return std::nullopt;
  std::optional<StoredFrequency> frequency;
  bool hasPosition = false;
  for (Expr each : angle.operands) {
    const Source &source = expressions[each];
    bool isArgument = source.kind == SourceKind::Argument;
    hasPosition |= source.kind == SourceKind::Position ||
                   (isArgument && function.getArgAttr(source.a, mlir::graph::kInputAttr));
    auto values =
        isArgument
            ? function.getArgAttrOfType<DenseElementsAttr>(source.a, mlir::graph::kValuesAttr)
            : DenseElementsAttr();
    if (values && values.getElementType().isF32() && each.index < values.getNumElements())
      frequency = {source.a, each.index, values.getValues<float>()[each.index]};
  }
  return hasPosition ? frequency : std::nullopt;
}

/// A product's factors and its number.
static std::pair<double, SmallVector<Expr>> getFactors(const Expressions &expressions, Expr x) {
  const Source &source = expressions[x];
  if (source.kind == SourceKind::Product)
    return {source.number, SmallVector<Expr>(source.operands)};
  return {1, {x}};
}

std::optional<Expr> RopeFinder::divide(Expr product, Expr factor) {
  auto [number, factors] = getFactors(expressions, product);
  auto [divisor, others] = getFactors(expressions, factor);
  for (Expr other : others) {
    auto found = llvm::find(factors, other);
    if (found == factors.end())
      return std::nullopt;
    factors.erase(found);
  }
  Expr rest = expressions.constant(number / divisor);
  for (Expr each : factors)
    rest = expressions.multiply(rest, each);
  return rest;
}

/// The tables of x cos - y sin, whose terms may stand in either order.
std::optional<RopeFinder::Pair> RopeFinder::readPair(Row turned, Row plain, const Turn &turn,
                                                     int64_t index) {
  std::pair<int64_t, int64_t> channels = turn.channels(index);
  const Source &sum = expressions[turned[turn.turnedChannels(index).first]];
  if (sum.kind != SourceKind::Sum || sum.operands.size() != 2)
    return std::nullopt;
  for (bool isSwapped : {false, true}) {
    std::optional<Expr> cos = divide(sum.operands[isSwapped], plain[channels.first]),
                        minusSin = divide(sum.operands[!isSwapped], plain[channels.second]);
    if (cos && minusSin)
      return Pair{*cos, expressions.negate(*minusSin)};
  }
  return std::nullopt;
}

/// Those of y cos + x sin.
std::optional<RopeFinder::Pair> RopeFinder::readSecond(Row turned, Row plain, const Turn &turn,
                                                       int64_t index) {
  auto [one, two] = turn.channels(index);
  const Source &sum = expressions[turned[turn.turnedChannels(index).second]];
  if (sum.kind != SourceKind::Sum || sum.operands.size() != 2)
    return std::nullopt;
  for (bool isSwapped : {false, true}) {
    std::optional<Expr> cos = divide(sum.operands[isSwapped], plain[two]),
                        sin = divide(sum.operands[!isSwapped], plain[one]);
    if (cos && sin)
      return Pair{*cos, *sin};
  }
  return std::nullopt;
}

/// Whether a table, whose numbers are not made of any, has `second` so many behind `first`.
bool RopeFinder::isRepeated(Expr second, Expr first, size_t count) {
  auto [secondFactor, own] = expressions.splitFactor(second);
  auto [factor, other] = expressions.splitFactor(first);
  SourceKind kind = expressions[own].kind;
  return secondFactor == factor && own.source == other.source && own.index == other.index + count &&
         (kind == SourceKind::Argument || kind == SourceKind::Opaque);
}

bool RopeFinder::isTurned(Row turned, Row plain, const Turn &turn) {
  for (auto [index, pair] : llvm::enumerate(turn.pairs)) {
    std::optional<Pair> first = readPair(turned, plain, turn, index),
                        second = readSecond(turned, plain, turn, index);
    if (first != pair || !second)
      return false;
    auto isSecond = [&](Expr own, Expr other) {
      return turn.areRepeated ? isRepeated(own, other, turn.pairs.size()) : own == other;
    };
    if (!isSecond(second->cos, pair.cos) || !isSecond(second->sin, pair.sin))
      return false;
  }
  return turned.take_front(turn.first) == plain.take_front(turn.first) &&
         turned.drop_front(turn.first + turn.width) == plain.drop_front(turn.first + turn.width);
}

/// How `turned` came from `plain`, whose heads each stand for as many of its own.
std::optional<RopeFinder::Turn> RopeFinder::readTurn(const TurnedRows &turned, Row plain,
                                                     int64_t plainHeads) {
  int64_t channels = static_cast<int64_t>(turned.numbers.size()) / turned.heads;
  auto head = [&](Row rows, int64_t h) { return rows.slice(h * channels, channels); };
  Row row = head(turned.numbers, 0), before = head(plain, 0);
  Turn turn;
  while (turn.first < channels && row[turn.first] == before[turn.first])
    ++turn.first;
  int64_t end = channels;
  while (end > turn.first && row[end - 1] == before[end - 1])
    --end;
  turn.width = end - turn.first;
  if (turn.width == 0 || turn.width % 2 != 0)
    return std::nullopt;
  using enum RopePairing;
  for (auto [pairing, turnedPairing] :
       {std::pair(Half, Half), std::pair(Interleaved, Interleaved), std::pair(Interleaved, Half)}) {
    turn.pairing = pairing;
    turn.turnedPairing = turnedPairing;
    turn.pairs.clear();
    for (int64_t index = 0; index < turn.width / 2; ++index)
      if (std::optional<Pair> pair = readPair(row, before, turn, index))
        turn.pairs.push_back(*pair);
      else
        break;
    if (static_cast<int64_t>(turn.pairs.size()) != turn.width / 2)
      continue;
    std::optional<Pair> second = readSecond(row, before, turn, 0);
    turn.areRepeated = second && *second != turn.pairs.front();
    if (llvm::all_of(llvm::seq<int64_t>(turned.heads), [&](int64_t h) {
          return isTurned(head(turned.numbers, h), head(plain, h * plainHeads / turned.heads),
                          turn);
        }))
      return turn;
  }
  return std::nullopt;
}

/// How `turned` came from `value`, if it has as many channels, of the same element type.
std::optional<RopeFinder::Turn> RopeFinder::readTurnOf(const TurnedRows &turned, Value value) {
  Type element = cast<RankedTensorType>(turned.value.getType()).getElementType();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  const Cell &cell = evaluator[value];
  if (!type || type.getElementType() != element || !cell.tensor || cell.tensor->dims.size() != 4 ||
      !isChannels(cell.tensor->dims[1]) || !isAxis(cell.tensor->dims[2], Axis::Tokens) ||
      !isChannels(cell.tensor->dims[3]))
    return std::nullopt;
  int64_t heads = countChannels(cell.tensor->dims[1]);
  bool fits = turned.heads % heads == 0 &&
              cell.tensor->size() * (turned.heads / heads) == turned.numbers.size();
  return fits ? readTurn(turned, cell.tensor->values(), heads) : std::nullopt;
}

/// The nearest value that `turned` is under rope, under this one where it is known: one that it is
/// computed from or, where it is memory that rows were copied into, one in front of the attention.
std::optional<std::pair<Value, RopeFinder::Turn>> RopeFinder::findPlain(const TurnedRows &turned,
                                                                        const Turn *known) {
  llvm::SmallPtrSet<void *, 32> seen;
  std::optional<std::pair<Value, Turn>> found;
  auto isPlain = [&](Value value) {
    if (!seen.insert(value.getAsOpaquePointer()).second)
      return false;
    std::optional<Turn> turn = readTurnOf(turned, value);
    if (!turn)
      return false;
    turn->first += turned.firstChannel;
    if (known && *turn != *known)
      return false;
    found.emplace(value, std::move(*turn));
    return true;
  };
  for (std::deque<Value> next{turned.value}; !next.empty(); next.pop_front()) {
    Value value = next.front();
    auto maker = value.getDefiningOp<NodeOp>();
    if (maker && !seen.contains(value.getAsOpaquePointer()))
      llvm::append_range(next, maker.getOperands());
    if (isPlain(value))
      return found;
  }
  for (Operation *each = node->getPrevNode(); each; each = each->getPrevNode())
    if (llvm::any_of(each->getResults(), isPlain))
      return found;
  return std::nullopt;
}

/// multiplier * function(position * frequency).
std::optional<StoredFrequency> RopeFinder::readAngle(Expr table, Function function,
                                                     double &multiplier) {
  auto [factor, rest] = expressions.splitFactor(table);
  const Source &outer = expressions[rest];
  if (outer.kind != SourceKind::Apply || outer.a != static_cast<uint32_t>(function))
    return std::nullopt;
  multiplier = factor;
  return readFrequency(this->function, expressions, expressions[outer.operands.front()]);
}

std::optional<FoundRope> RopeFinder::readFrequencies(const Turn &turn) {
  FoundRope rope;
  rope.info = {turn.pairing, turn.first, turn.width};
  for (auto [index, pair] : llvm::enumerate(turn.pairs)) {
    double multipliers[2];
    std::optional<StoredFrequency> cos = readAngle(pair.cos, Function::Cos, multipliers[0]),
                                   sin = readAngle(pair.sin, Function::Sin, multipliers[1]);
    if (!cos || !sin || cos->weight != sin->weight || cos->index != sin->index ||
        multipliers[0] != multipliers[1] || !(cos->value > 0) || !std::isfinite(cos->value))
      return std::nullopt;
    if (index > 0 && (cos->weight != rope.weight || multipliers[0] != rope.info.multiplier))
      return std::nullopt;
    rope.weight = cos->weight;
    rope.info.multiplier = multipliers[0];
    rope.info.frequencies.push_back(cos->value);
  }
  return rope;
}

std::optional<FoundRope> RopeFinder::findTables(const Turn &turn) {
  FoundRope rope;
  rope.info = {turn.pairing, turn.first, turn.width};
  rope.areRepeated = turn.areRepeated;
  auto find = [&](Expr Pair::*table) {
    auto numbers = llvm::map_to_vector(turn.pairs, [&](const Pair &pair) { return pair.*table; });
    return findTokenRows(function, evaluator, node, {.numbers = numbers, .mayBeWider = true});
  };
  rope.cos = find(&Pair::cos);
  rope.sin = find(&Pair::sin);
  return rope.cos && rope.sin ? std::optional(std::move(rope)) : std::nullopt;
}

/// Which pairs of channels are turned by it, a table does not say.
static bool haveOneTable(const RopeInfo &one, const RopeInfo &other) {
  return one.frequencies == other.frequencies && one.multiplier == other.multiplier;
}

std::optional<FoundRope> RopeFinder::find(const TurnedRows &query, const TurnedRows &key) {
  auto plainQuery = findPlain(query);
  auto plainKey = plainQuery ? findPlain(key, &plainQuery->second) : std::nullopt;
  if (!plainKey)
    return std::nullopt;
  std::optional<FoundRope> rope;
  if (!plainQuery->second.areRepeated)
    rope = readFrequencies(plainQuery->second);
  if (rope && table && !haveOneTable(*table, rope->info))
    rope.reset();
  if (rope)
    table = rope->info;
  else
    rope = findTables(plainQuery->second);
  if (!rope)
    return std::nullopt;
  rope->query = plainQuery->first;
  rope->key = plainKey->first;
  return rope;
}

/// Digits of a theta that a configuration may say; f32 frequencies know no more.
static constexpr int kThetaDigits = 6;
/// A few roundings of f32, which is what graphs raise theta to its powers in.
static constexpr double kFrequencyTolerance = 4 * std::numeric_limits<float>::epsilon();

static double roundToDigits(double value, int digits) {
  double unit = std::pow(10.0, std::floor(std::log10(value)) + 1 - digits);
  return unit < 1 ? std::round(value * std::round(1 / unit)) / std::round(1 / unit)
                  : std::round(value / unit) * unit;
}

std::optional<double> mlac::findTheta(const RopeInfo &rope) {
  size_t count = rope.frequencies.size();
  if (count < 2 || rope.multiplier != 1)
    return std::nullopt;
  // The last frequency is theta^-((count - 1) / count).
  double exponent = -static_cast<double>(count) / static_cast<double>(count - 1);
  double theta = std::pow(rope.frequencies.back(), exponent);
  if (!std::isfinite(theta) || theta <= 1)
    return std::nullopt;
  theta = roundToDigits(theta, kThetaDigits);
  for (auto [index, frequency] : llvm::enumerate(rope.frequencies)) {
    double power = static_cast<double>(index) / static_cast<double>(count);
    double expected = std::pow(theta, -power);
    // A power is off by its exponent times what the logarithm is.
    double most = kFrequencyTolerance * (1 + power * std::log(theta));
    if (std::abs(frequency - expected) > expected * most)
      return std::nullopt;
  }
  return theta;
}
