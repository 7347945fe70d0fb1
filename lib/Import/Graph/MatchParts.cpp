//===- MatchParts.cpp - what attention of all kinds is made of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatchParts.h"

#include "Evaluate.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::Twine;

llvm::Error mlac::graph::makeError(const Twine &message) {
  return llvm::createStringError(message);
}

llvm::Error Parts::fail(const Twine &what, Expr got) const {
  const Source *opaque = findOpaque(expressions, got, /*crossesProjections=*/false);
  std::string cause =
      opaque ? " of " + Evaluator::describe(opaque->node) + ", " + opaque->reason.str() : "";
  if (source(got).kind == SourceKind::Opaque)
    cause.clear();
  return makeError(what + ", got " + describe(expressions, got) + cause);
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

/// 1 / sqrt(a mean plus a number).
bool Parts::isNormRoot(const Source &root) const {
  if (root.kind != SourceKind::Apply || root.a != static_cast<uint32_t>(Function::Rsqrt))
    return false;
  const Source &sum = source(root.operands.front());
  return sum.kind == SourceKind::Sum &&
         llvm::any_of(sum.operands, [&](Expr term) { return is(term, SourceKind::Mean); });
}

/// Takes a row of a projection out of a term: the row alone, or a product of it with those of a
/// norm's two factors and of rope's table that there are.
bool Parts::readRow(Expr term, Channel &channel, size_t index, std::optional<Expr> &table) const {
  std::optional<Expr> row, root, gamma;
  ArrayRef<Expr> factors =
      is(term, SourceKind::Product) ? source(term).operands : ArrayRef<Expr>(term);
  for (Expr factor : factors) {
    const Source &each = source(factor);
    bool isRoot = isNormRoot(each);
    bool isGamma = each.kind == SourceKind::Argument && weights.test(each.a);
    std::optional<Expr> &place = each.kind == SourceKind::Linear ? row
                                 : isRoot                        ? root
                                 : isGamma                       ? gamma
                                                                 : table;
    if (place)
      return false;
    place = factor;
  }
  if (!row || root.has_value() != gamma.has_value())
    return false;
  uint32_t norm = gamma ? source(*gamma).a : 0;
  if (index > 0 &&
      (row->source != channel.projection || root != channel.root || norm != channel.gamma))
    return false;
  channel.projection = row->source;
  channel.rows[index] = row->index;
  channel.root = root;
  channel.gamma = norm;
  channel.gammaIndex[index] = gamma ? gamma->index : 0;
  return true;
}

/// x cos - y sin, or y cos + x sin, whose terms are told apart by its partner (RopeParts::match).
llvm::Expected<Channel> Parts::matchRotated(Expr expr) const {
  Channel channel{.isRotated = true};
  ArrayRef<Expr> terms = source(expr).operands;
  double signs[2];
  for (size_t i = 0; i < 2; ++i) {
    auto [factor, rest] = expressions.splitFactor(terms[i]);
    std::optional<Expr> table;
    if (!readRow(rest, channel, i, table) || !table)
      return fail("expected two rows of a projection under rope", terms[i]);
    // The tables may have a factor, which is theirs: YaRN's.
    channel.tables[i] = expressions.scale(std::abs(factor), *table);
    signs[i] = factor < 0 ? -1 : 1;
  }
  if (signs[0] + signs[1] < 0)
    return fail("expected two rows of a projection under rope", expr);
  channel.sign = signs[0] * signs[1];
  if (signs[0] < 0) {
    std::swap(channel.rows[0], channel.rows[1]);
    std::swap(channel.tables[0], channel.tables[1]);
    std::swap(channel.gammaIndex[0], channel.gammaIndex[1]);
  }
  return channel;
}

llvm::Expected<Channel> Parts::matchChannel(Expr expr) const {
  if (is(expr, SourceKind::Sum) && source(expr).operands.size() == 2)
    return matchRotated(expr);
  Channel channel;
  std::optional<Expr> table;
  bool isScaled = is(expr, SourceKind::Product) && source(expr).number != 1;
  if (isScaled || !readRow(expr, channel, 0, table) || table)
    return fail("expected a row of a projection, under rope or not", expr);
  return channel;
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// Scores and a mask that are scaled together are scaled scores and a mask: hidden scores stay so
/// under the scale of heads of up to 1024 channels.
static constexpr double kLeastMaskScale = 1.0 / 32;

/// A softcap is a bound of scores, and so of what hides a key beside any of them.
llvm::Error Parts::checkDepth(const Scores &scores, double factor) const {
  double depth = 0;
  if (scores.mask && is(*scores.mask, SourceKind::Mask))
    depth = source(*scores.mask).number * factor;
  bool isHidden = scores.softcap > 0 && depth + 2 * scores.softcap <= kVanishing;
  if (depth == 0 || isHidden)
    return llvm::Error::success();
  const Source &mask = source(*scores.mask);
  std::string maker = mask.maker ? " of " + Evaluator::describe(mask.maker) : "";
  return makeError("the mask" + maker + " hides keys by " + printNumber(mask.number) +
                   ", which may not hide them from scores that nothing bounds: " +
                   printNumber(kMasked) + " or less does, or -inf");
}

llvm::Expected<Scores> Parts::matchScores(Expr weights) const {
  Scores scores;
  Expr score = source(weights).operands.front();
  if (is(score, SourceKind::Beside)) {
    scores.sink = source(score).operands[1];
    score = source(score).operands[0];
  }
  auto isCapped = [&](Expr expr) {
    return is(expr, SourceKind::Apply) && source(expr).a == static_cast<uint32_t>(Function::Tanh);
  };
  auto [common, sum] = expressions.splitFactor(score);
  bool isMasked = is(sum, SourceKind::Sum) && llvm::any_of(source(sum).operands, [&](Expr term) {
                    return expressions.getMaskBand(term).has_value();
                  });
  if (isMasked && common >= kLeastMaskScale)
    score = sum;
  else
    common = 1;
  if (is(score, SourceKind::Sum)) {
    ArrayRef<Expr> terms = source(score).operands;
    Expr first = expressions.splitFactor(terms[0]).second;
    // Neither is a score where something else is added: the error is not to name the mask.
    bool isFirst = is(first, SourceKind::Dot) || isCapped(first) ||
                   expressions.getMaskBand(terms[1]).has_value();
    score = terms[isFirst ? 0 : 1];
    scores.mask = terms[isFirst ? 1 : 0];
  }
  auto [scale, dot] = expressions.splitFactor(score);
  scale *= common;
  if (isCapped(dot)) {
    scores.softcap = scale;
    std::tie(scale, dot) = expressions.splitFactor(source(dot).operands.front());
    scale *= scores.softcap;
  }
  if (!is(dot, SourceKind::Dot))
    return fail("expected scores of queries and keys", dot);
  if (llvm::Error error = checkDepth(scores, common))
    return std::move(error);
  scores.scale = scale;
  scores.query = source(dot).a;
  scores.key = source(dot).b;
  return scores;
}

llvm::Expected<std::vector<Head>> Parts::matchHeads(ArrayRef<Expr> row) const {
  std::vector<Head> heads;
  for (Expr expr : row)
    if (!is(expr, SourceKind::Attend))
      return fail("expected sums over keys", expr);
  for (size_t first = 0; first < row.size();) {
    Expr weights = source(row[first]).operands.front();
    Head head;
    size_t end = first;
    for (; end < row.size() && source(row[end]).operands.front() == weights; ++end)
      head.values.push_back(source(row[end]).operands.back());
    llvm::Expected<Scores> scores = matchScores(weights);
    if (!scores)
      return scores.takeError();
    head.scores = *scores;
    const Scores &known = heads.empty() ? *scores : heads.front().scores;
    if (scores->scale != known.scale || scores->mask != known.mask ||
        scores->softcap != known.softcap || scores->sink.has_value() != known.sink.has_value())
      return makeError("head " + Twine(heads.size()) +
                       " has another scale, softcap, mask or sink than head 0");
    for (auto [vector, channels] :
         {std::pair(scores->query, &head.query), std::pair(scores->key, &head.key)})
      for (Expr expr : expressions.vector(vector)) {
        llvm::Expected<Channel> channel = matchChannel(expr);
        if (!channel)
          return channel.takeError();
        channels->push_back(*channel);
      }
    heads.push_back(std::move(head));
    first = end;
  }
  return heads;
}

llvm::Expected<double> Parts::matchEpsilon(Expr inverse, uint32_t projection, uint32_t firstRow,
                                           size_t count) const {
  const Source &sum = source(source(inverse).operands.front());
  if (sum.kind != SourceKind::Sum)
    return fail("expected a mean of squares and an epsilon", source(inverse).operands.front());
  bool isFirst = is(sum.operands[0], SourceKind::Mean);
  Expr mean = sum.operands[isFirst ? 0 : 1];
  std::optional<double> constant = expressions.getConstant(sum.operands[isFirst ? 1 : 0]);
  if (!is(mean, SourceKind::Mean) || !constant || *constant <= 0)
    return fail("expected a mean of squares and an epsilon", inverse);
  ArrayRef<Expr> squares = expressions.vector(source(mean).a);
  bool fits = squares.size() == count;
  for (uint32_t i = 0; fits && i < squares.size(); ++i) {
    Expr row{projection, firstRow + i};
    fits = squares[i] == expressions.multiply(row, row);
  }
  if (!fits)
    return fail("expected the mean of the squares of the rows that are scaled", mean);
  return *constant;
}
