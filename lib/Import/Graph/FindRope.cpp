//===- FindRope.cpp - the rope before an attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindRope.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>
#include <deque>

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
std::optional<RopeFinder::Pair> RopeFinder::readPair(Row turned, Row plain,
                                                     std::pair<int64_t, int64_t> channels) {
  const Source &sum = expressions[turned[channels.first]];
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

bool RopeFinder::isTurned(Row turned, Row plain, const Turn &turn) {
  for (auto [index, pair] : llvm::enumerate(turn.pairs)) {
    auto [one, two] = turn.channels(index);
    Expr x = plain[one], y = plain[two];
    auto times = [&](Expr a, Expr b) { return expressions.multiply(a, b); };
    if (turned[one] !=
            expressions.add(times(x, pair.cos), expressions.negate(times(y, pair.sin))) ||
        turned[two] != expressions.add(times(y, pair.cos), times(x, pair.sin)))
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
  for (RopePairing pairing : {RopePairing::Half, RopePairing::Interleaved}) {
    turn.pairing = pairing;
    turn.pairs.clear();
    for (int64_t index = 0; index < turn.width / 2; ++index)
      if (std::optional<Pair> pair = readPair(row, before, turn.channels(index)))
        turn.pairs.push_back(*pair);
      else
        break;
    bool isWhole = static_cast<int64_t>(turn.pairs.size()) == turn.width / 2;
    if (isWhole && llvm::all_of(llvm::seq<int64_t>(turned.heads), [&](int64_t h) {
          return isTurned(head(turned.numbers, h), head(plain, h * plainHeads / turned.heads),
                          turn);
        }))
      return turn;
  }
  return std::nullopt;
}

/// The nearest value before `turned`, of its element type, that it is under rope.
std::optional<std::pair<Value, RopeFinder::Turn>> RopeFinder::findPlain(const TurnedRows &turned) {
  Type element = cast<RankedTensorType>(turned.value.getType()).getElementType();
  llvm::SmallPtrSet<void *, 32> seen;
  for (std::deque<Value> next{turned.value}; !next.empty(); next.pop_front()) {
    Value value = next.front();
    auto node = value.getDefiningOp<NodeOp>();
    if (!seen.insert(value.getAsOpaquePointer()).second)
      continue;
    if (node)
      llvm::append_range(next, node.getOperands());
    auto type = dyn_cast<RankedTensorType>(value.getType());
    const Cell &cell = evaluator[value];
    if (!type || type.getElementType() != element || !cell.tensor ||
        cell.tensor->dims.size() != 4 || !isChannels(cell.tensor->dims[1]) ||
        !isAxis(cell.tensor->dims[2], Axis::Tokens) || !isChannels(cell.tensor->dims[3]))
      continue;
    int64_t heads = countChannels(cell.tensor->dims[1]);
    bool fits = turned.heads % heads == 0 &&
                cell.tensor->size() * (turned.heads / heads) == turned.numbers.size();
    if (!fits)
      continue;
    if (std::optional<Turn> turn = readTurn(turned, cell.tensor->values(), heads))
      return std::pair(value, std::move(*turn));
  }
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

std::optional<FoundRope> RopeFinder::describe(const Turn &turn) {
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

std::optional<FoundRope> RopeFinder::find(const TurnedRows &query, const TurnedRows &key) {
  auto plainQuery = findPlain(query);
  auto plainKey = plainQuery ? findPlain(key) : std::nullopt;
  if (!plainKey || plainKey->second != plainQuery->second)
    return std::nullopt;
  std::optional<FoundRope> rope = describe(plainQuery->second);
  if (!rope)
    return std::nullopt;
  rope->query = plainQuery->first;
  rope->key = plainKey->first;
  return rope;
}
