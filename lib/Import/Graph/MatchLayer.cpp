//===- MatchLayer.cpp - multi-head latent attention in a graph's expressions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the output projection backwards:
//
//   y = W_O [sum_k softmax_k(scale q_h . k_h + mask) v_h]_h
//   v_h, first part of k_h = rows of W_UKV times the latent; last part of k_h = rope(k_pe)
//   q_h = rows of W_UQ (or W_Q) times the query's latent (or the hidden states), a part under rope
//   latent = norm(first rows of W_DKV x), k_pe = its last rows, query's latent = norm(W_DQ x)
//
// The channels of q_h and k_h may stand in any order, the same in both: a dot does not see it.
//
//===----------------------------------------------------------------------===//

#include "MatchLayer.h"

#include "Evaluate.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <map>

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::Twine;
using mlac::RopePairing;

static llvm::Error makeError(const Twine &message) { return llvm::createStringError(message); }

namespace {
/// One channel of a query or key: a row of a projection, or what rope makes of two of them,
/// rows[0] tables[0] + sign rows[1] tables[1].
struct Channel {
  uint32_t projection = 0;
  bool isRotated = false;
  uint32_t rows[2] = {};
  Expr tables[2] = {};
  double sign = 1;
};

/// A norm over rows 0 .. n-1 of a projection.
struct Norm {
  uint32_t projection;
  uint32_t weight;
  double epsilon, multiplier;
};

class Matcher {
public:
  Matcher(Expressions &expressions, const llvm::BitVector &weights)
      : expressions(expressions), weights(weights) {}
  llvm::Expected<Layer> match(uint32_t projection);

private:
  const Source &source(Expr expr) const { return expressions[expr]; }
  bool is(Expr expr, SourceKind kind) const { return source(expr).kind == kind; }
  /// Names the node that is not understood, where there is one below what was found.
  llvm::Error fail(const Twine &what, Expr got) const {
    const Source *opaque = findOpaque(expressions, got, /*crossesProjections=*/false);
    std::string cause =
        opaque ? " of " + Evaluator::describe(opaque->node) + ", " + opaque->reason.str() : "";
    if (source(got).kind == SourceKind::Opaque)
      cause.clear();
    return makeError(what + ", got " + describe(expressions, got) + cause);
  }

  llvm::Error matchHeads(ArrayRef<Expr> row);
  llvm::Error matchScores(Expr weights, VectorId &query, VectorId &key);
  llvm::Error matchKeys();
  llvm::Error matchQueries();
  llvm::Error matchRope();
  llvm::Expected<std::vector<int64_t>> matchRotations(ArrayRef<Channel> channels,
                                                      uint32_t firstRow);
  RopePair readPair(const Channel &channel) const;
  std::optional<int64_t> readFrequency(Expr table) const;
  std::optional<int64_t> readFrequency(const RopePair &pair) const;
  llvm::Expected<int64_t> matchPair(const Channel &first, Channel channel, uint32_t firstRow);
  llvm::Error keepPair(int64_t frequency, const RopePair &pair);
  llvm::Error matchDownProjections();
  llvm::Expected<Channel> matchChannel(Expr expr);
  llvm::Expected<Channel> matchRotated(Expr expr);
  std::optional<Expr> takeTable(Expr term, Expr &data) const;
  llvm::Expected<Norm> matchNorm(VectorId row);
  llvm::Error matchEpsilon(Expr inverse, VectorId row, uint32_t projection, double &epsilon);

  Expressions &expressions;
  const llvm::BitVector &weights;
  Layer layer;
  /// Of each head: its query and key, and the rows of its values.
  struct Head {
    std::vector<Channel> query, key;
    std::vector<Expr> values;
  };
  std::vector<Head> heads;
  uint32_t keyUp = 0, queryUp = 0, keyDown = 0; // sources of projections
};
} // namespace

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

/// Splits a product of a projection's row and a table's number.
std::optional<Expr> Matcher::takeTable(Expr term, Expr &data) const {
  const Source &product = source(term);
  if (product.kind != SourceKind::Product || product.operands.size() < 2)
    return std::nullopt;
  auto row =
      llvm::find_if(product.operands, [&](Expr factor) { return is(factor, SourceKind::Linear); });
  if (row == product.operands.end() || product.operands.size() != 2)
    return std::nullopt;
  data = *row;
  return product.operands[row == product.operands.begin() ? 1 : 0];
}

/// x cos - y sin, or y cos + x sin, whose terms are told apart by its partner (matchRotations).
llvm::Expected<Channel> Matcher::matchRotated(Expr expr) {
  Channel channel{.isRotated = true};
  ArrayRef<Expr> terms = source(expr).operands;
  double signs[2];
  Expr rows[2];
  for (size_t i = 0; i < 2; ++i) {
    auto [factor, rest] = expressions.splitFactor(terms[i]);
    std::optional<Expr> table = takeTable(rest, rows[i]);
    if (!table)
      return fail("expected two rows under rope", terms[i]);
    // The tables may have a factor, which is theirs: YaRN's.
    channel.tables[i] = expressions.scale(std::abs(factor), *table);
    channel.rows[i] = rows[i].index;
    signs[i] = factor < 0 ? -1 : 1;
  }
  if (rows[0].source != rows[1].source || signs[0] + signs[1] < 0)
    return fail("expected two rows of a projection under rope", expr);
  channel.projection = rows[0].source;
  channel.sign = signs[0] * signs[1];
  if (signs[0] < 0) {
    std::swap(channel.rows[0], channel.rows[1]);
    std::swap(channel.tables[0], channel.tables[1]);
  }
  return channel;
}

llvm::Expected<Channel> Matcher::matchChannel(Expr expr) {
  if (is(expr, SourceKind::Linear))
    return Channel{.projection = expr.source, .rows = {expr.index, 0}};
  if (is(expr, SourceKind::Sum) && source(expr).operands.size() == 2)
    return matchRotated(expr);
  return fail("expected a row of a projection, under rope or not", expr);
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

llvm::Error Matcher::matchScores(Expr weights, VectorId &query, VectorId &key) {
  Expr score = source(weights).operands.front();
  std::optional<Expr> mask;
  if (is(score, SourceKind::Sum)) {
    ArrayRef<Expr> terms = source(score).operands;
    bool isFirst = is(expressions.splitFactor(terms[0]).second, SourceKind::Dot);
    score = terms[isFirst ? 0 : 1];
    mask = terms[isFirst ? 1 : 0];
  }
  auto [scale, dot] = expressions.splitFactor(score);
  if (!is(dot, SourceKind::Dot))
    return fail("expected scores of queries and keys", dot);
  if (!heads.empty() && (scale != layer.scale || mask != layer.mask))
    return makeError("head " + Twine(heads.size()) + " has another scale or mask than head 0");
  layer.scale = scale;
  layer.mask = mask;
  query = source(dot).a;
  key = source(dot).b;
  return llvm::Error::success();
}

llvm::Error Matcher::matchHeads(ArrayRef<Expr> row) {
  for (size_t first = 0; first < row.size();) {
    Expr weights = source(row[first]).operands.front();
    Head head;
    size_t end = first;
    for (; end < row.size() && source(row[end]).operands.front() == weights; ++end)
      head.values.push_back(source(row[end]).operands.back());
    VectorId query = 0, key = 0;
    if (llvm::Error error = matchScores(weights, query, key))
      return error;
    for (auto [vector, channels] : {std::pair(query, &head.query), std::pair(key, &head.key)})
      for (Expr expr : expressions.vector(vector)) {
        llvm::Expected<Channel> channel = matchChannel(expr);
        if (!channel)
          return channel.takeError();
        channels->push_back(*channel);
      }
    heads.push_back(std::move(head));
    first = end;
  }
  layer.heads = heads.size();
  layer.value = heads.front().values.size();
  for (const Channel &channel : heads.front().key)
    (channel.isRotated ? layer.rope : layer.nope) += 1;
  return llvm::Error::success();
}

/// Keys without rope and values are rows of one projection, head by head.
llvm::Error Matcher::matchKeys() {
  for (auto [h, head] : llvm::enumerate(heads)) {
    uint32_t first = h * (layer.nope + layer.value), at = first;
    for (const Channel &channel : head.key) {
      if (channel.isRotated)
        continue;
      if (h == 0 && at == 0)
        keyUp = channel.projection;
      if (channel.projection != keyUp || channel.rows[0] != at)
        return makeError("row " + Twine(at) + " of the keys' up-projection is not where head " +
                         Twine(h) + " expects it");
      ++at;
    }
    for (Expr value : head.values)
      if (value != Expr{keyUp, at++})
        return fail("expected row " + Twine(at - 1) + " of the up-projection of keys and values",
                    value);
    if (at != first + layer.nope + layer.value || head.key.size() != heads[0].key.size())
      return makeError("head " + Twine(h) + " has another number of channels than head 0");
  }
  return llvm::Error::success();
}

/// Queries: the same places, rows of one projection in the order [nope | rope] of each head.
llvm::Error Matcher::matchQueries() {
  for (auto [h, head] : llvm::enumerate(heads)) {
    uint32_t at = h * (layer.nope + layer.rope);
    for (auto [query, key] : llvm::zip_equal(head.query, head.key)) {
      if (h == 0 && at == 0)
        queryUp = query.projection;
      if (query.isRotated != key.isRotated || query.projection != queryUp)
        return makeError("head " + Twine(h) + "'s query is not made as its key is");
      if (!query.isRotated && query.rows[0] != at++)
        return makeError("row " + Twine(at - 1) + " of the queries' projection is not where head " +
                         Twine(h) + " expects it");
    }
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

/// Which of the frequencies a table's number is of: its place in the table, or in the weight that
/// the angle is a multiple of.
std::optional<int64_t> Matcher::readFrequency(Expr table) const {
  const Source &read = source(table);
  if (read.kind == SourceKind::Argument)
    return table.index;
  for (Expr operand : read.operands)
    if (const Source &inner = source(operand);
        inner.kind != SourceKind::Argument || weights.test(inner.a))
      if (std::optional<int64_t> frequency = readFrequency(operand))
        return frequency;
  return std::nullopt;
}

/// The tables' numbers of a channel. Tables of all channels repeat their first half; those of
/// complex numbers hold a pair's cosine and sine side by side.
RopePair Matcher::readPair(const Channel &channel) const {
  RopePair pair{channel.tables[0], channel.tables[1]};
  if (pair.cos.source == pair.sin.source)
    return pair;
  for (Expr *table : {&pair.cos, &pair.sin})
    if (is(*table, SourceKind::Argument))
      table->index %= layer.rope / 2;
  return pair;
}

/// One frequency of both tables.
std::optional<int64_t> Matcher::readFrequency(const RopePair &pair) const {
  if (pair.cos.source == pair.sin.source) {
    bool isComplex = pair.cos.index % 2 == 0 && pair.sin.index == pair.cos.index + 1;
    return isComplex ? std::optional<int64_t>(pair.cos.index / 2) : std::nullopt;
  }
  std::optional<int64_t> cos = readFrequency(pair.cos), sin = readFrequency(pair.sin);
  return cos == sin ? cos : std::nullopt;
}

/// Keeps the tables of a frequency: the same for all heads, and all frequencies' from one input.
llvm::Error Matcher::keepPair(int64_t frequency, const RopePair &pair) {
  layer.ropePairs.resize(layer.rope / 2);
  RopePair &known = layer.ropePairs[frequency];
  if (known != RopePair{} && known != pair)
    return makeError("queries and keys are rotated by different tables");
  known = pair;
  for (const RopePair &other : layer.ropePairs)
    if (other != RopePair{} && is(pair.cos, SourceKind::Argument) &&
        (other.cos.source != pair.cos.source || other.sin.source != pair.sin.source))
      return makeError("pairs are rotated by different tables");
  return llvm::Error::success();
}

/// The frequency of a channel's pair, whose rows must lie where it says. `first` is the pair's
/// channel x cos - y sin, `channel` that or y cos + x sin.
llvm::Expected<int64_t> Matcher::matchPair(const Channel &first, Channel channel,
                                           uint32_t firstRow) {
  int64_t pairs = layer.rope / 2;
  std::string rows =
      "rows " + std::to_string(first.rows[0]) + " and " + std::to_string(first.rows[1]);
  if (channel.sign > 0 && channel.rows[0] != first.rows[1]) {
    std::swap(channel.rows[0], channel.rows[1]);
    std::swap(channel.tables[0], channel.tables[1]);
  }
  RopePair pair = readPair(first);
  std::optional<int64_t> frequency = readFrequency(pair);
  if (readPair(channel) != pair || !frequency || *frequency >= pairs)
    return makeError("the pair of " + rows + " is rotated by tables of several frequencies");
  auto lies = [&](RopePairing pairing) {
    bool isHalf = pairing == RopePairing::Half;
    return first.rows[0] == firstRow + *frequency * (isHalf ? 1 : 2) &&
           first.rows[1] == first.rows[0] + (isHalf ? pairs : 1);
  };
  if (layer.ropePairs.empty())
    layer.pairing = lies(RopePairing::Half) ? RopePairing::Half : RopePairing::Interleaved;
  if (!lies(layer.pairing))
    return makeError("rope rotates " + rows + " by frequency " + Twine(*frequency) +
                     ", expected pairs of neighbours or of halves from row " + Twine(firstRow));
  if (llvm::Error error = keepPair(*frequency, pair))
    return std::move(error);
  return *frequency;
}

/// What rope makes at each channel, by number: twice the frequency, plus 1 at y cos + x sin.
llvm::Expected<std::vector<int64_t>> Matcher::matchRotations(ArrayRef<Channel> channels,
                                                             uint32_t firstRow) {
  std::map<std::pair<uint32_t, uint32_t>, const Channel *> firsts;
  for (const Channel &channel : channels)
    if (channel.isRotated && channel.sign < 0)
      firsts[std::minmax(channel.rows[0], channel.rows[1])] = &channel;
  std::vector<int64_t> codes;
  for (const Channel &channel : channels) {
    if (!channel.isRotated)
      continue;
    auto first = firsts.find(std::minmax(channel.rows[0], channel.rows[1]));
    if (first == firsts.end())
      return makeError("rows " + Twine(channel.rows[0]) + " and " + Twine(channel.rows[1]) +
                       " are not rotated as a pair");
    llvm::Expected<int64_t> frequency = matchPair(*first->second, channel, firstRow);
    if (!frequency)
      return frequency.takeError();
    codes.push_back(2 * *frequency + (channel.sign > 0));
  }
  std::vector<int64_t> sorted = codes;
  llvm::sort(sorted);
  for (auto [index, code] : llvm::enumerate(sorted))
    if (code != static_cast<int64_t>(index))
      return makeError("rope does not rotate every pair once");
  return codes;
}

llvm::Error Matcher::matchRope() {
  if (layer.rope % 2 != 0)
    return makeError("rope rotates " + Twine(layer.rope) + " channels, expected pairs");
  for (auto [h, head] : llvm::enumerate(heads)) {
    uint32_t width = layer.nope + layer.rope;
    llvm::Expected<std::vector<int64_t>> query = matchRotations(head.query, h * width + layer.nope);
    if (!query)
      return makeError("queries: " + llvm::toString(query.takeError()));
    llvm::Expected<std::vector<int64_t>> key = matchRotations(head.key, layer.latent);
    if (!key)
      return makeError("keys: " + llvm::toString(key.takeError()));
    if (*query != *key)
      return makeError("the rotated channels of head " + Twine(h) +
                       "'s query and key do not stand in one order");
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Down-projections and norms
//===----------------------------------------------------------------------===//

/// 1 / sqrt(mean of the rows' squares + epsilon).
llvm::Error Matcher::matchEpsilon(Expr inverse, VectorId row, uint32_t projection,
                                  double &epsilon) {
  const Source &sum = source(source(inverse).operands.front());
  if (sum.kind != SourceKind::Sum)
    return fail("expected a mean of squares and an epsilon", source(inverse).operands.front());
  bool isFirst = is(sum.operands[0], SourceKind::Mean);
  Expr mean = sum.operands[isFirst ? 0 : 1];
  std::optional<double> constant = expressions.getConstant(sum.operands[isFirst ? 1 : 0]);
  if (!is(mean, SourceKind::Mean) || !constant || *constant <= 0)
    return fail("expected a mean of squares and an epsilon", inverse);
  epsilon = *constant;
  ArrayRef<Expr> squares = expressions.vector(source(mean).a);
  bool fits = squares.size() == expressions.vector(row).size();
  for (uint32_t i = 0; fits && i < squares.size(); ++i)
    fits = squares[i] == expressions.multiply({projection, i}, {projection, i});
  return fits ? llvm::Error::success()
              : fail("expected the mean of the squares of the rows that are scaled", mean);
}

llvm::Expected<Norm> Matcher::matchNorm(VectorId row) {
  Norm norm{};
  Expr inverse;
  for (auto [index, expr] : llvm::enumerate(expressions.vector(row))) {
    auto [factor, rest] = expressions.splitFactor(expr);
    std::optional<Expr> data, weight, root;
    for (Expr each : source(rest).operands) {
      SourceKind kind = source(each).kind;
      (kind == SourceKind::Linear ? data : kind == SourceKind::Argument ? weight : root) = each;
    }
    bool isNorm = is(rest, SourceKind::Product) && source(rest).operands.size() == 3 && data &&
                  weight && root && is(*root, SourceKind::Apply) &&
                  source(*root).a == static_cast<uint32_t>(Function::Rsqrt);
    if (!isNorm || data->index != index || weight->index != index ||
        !weights.test(source(*weight).a))
      return fail("expected a norm of a projection's first rows", expr);
    if (index == 0) {
      norm = {data->source, source(*weight).a, 0, factor};
      inverse = *root;
    }
    if (data->source != norm.projection || source(*weight).a != norm.weight || *root != inverse ||
        factor != norm.multiplier)
      return fail("expected one norm of one projection", expr);
  }
  if (llvm::Error error = matchEpsilon(inverse, row, norm.projection, norm.epsilon))
    return std::move(error);
  return norm;
}

static Weight getBias(const Source &projection) {
  return projection.c == 0 ? Weight() : Weight(projection.c - 1);
}

llvm::Error Matcher::matchDownProjections() {
  const Source &up = source({keyUp, 0}), &queries = source({queryUp, 0});
  if (up.c || queries.c)
    return makeError("an up-projection has a bias");
  layer.keyUp = up.b;
  layer.queryUp = queries.b;
  llvm::Expected<Norm> latent = matchNorm(up.a);
  if (!latent)
    return makeError("latent: " + llvm::toString(latent.takeError()));
  layer.latent = expressions.vector(up.a).size();
  layer.keyNorm = latent->weight;
  layer.keyEpsilon = latent->epsilon;
  layer.latentMultiplier = latent->multiplier;
  keyDown = latent->projection;
  const Source &down = source({keyDown, 0});
  layer.keyDown = down.b;
  layer.keyDownBias = getBias(down);
  layer.latentProjection = keyDown;
  layer.hidden = down.a;
  layer.hiddenSize = expressions.vector(down.a).size();
  for (const Head &head : heads)
    for (const Channel &channel : head.key)
      if (channel.isRotated && channel.projection != keyDown)
        return makeError("the keys' rotated channels are not rows of the latent's projection");
  if (queries.a == layer.hidden)
    return llvm::Error::success();
  llvm::Expected<Norm> query = matchNorm(queries.a);
  if (!query)
    return makeError("query: " + llvm::toString(query.takeError()));
  const Source &queryDown = source({query->projection, 0});
  if (queryDown.a != layer.hidden)
    return makeError("queries and keys are not projected from the same hidden states");
  layer.queryLatent = expressions.vector(queries.a).size();
  layer.queryDown = queryDown.b;
  layer.queryDownBias = getBias(queryDown);
  layer.queryNorm = query->weight;
  layer.queryEpsilon = query->epsilon;
  layer.queryMultiplier = query->multiplier;
  return llvm::Error::success();
}

llvm::Expected<Layer> Matcher::match(uint32_t projection) {
  const Source &output = source({projection, 0});
  ArrayRef<Expr> row = expressions.vector(output.a);
  layer.output = output.b;
  layer.outputBias = getBias(output);
  for (Expr expr : row)
    if (!is(expr, SourceKind::Attend))
      return fail("expected sums over keys", expr);
  for (auto part : {&Matcher::matchKeys, &Matcher::matchQueries, &Matcher::matchDownProjections,
                    &Matcher::matchRope}) {
    if (heads.empty())
      if (llvm::Error error = matchHeads(row))
        return std::move(error);
    if (llvm::Error error = (this->*part)())
      return std::move(error);
  }
  return layer;
}

llvm::Expected<Layer> mlac::graph::matchLayer(Expressions &expressions, uint32_t projection,
                                              const llvm::BitVector &weights) {
  return Matcher(expressions, weights).match(projection);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

bool mlac::graph::readsAttention(const Expressions &expressions, uint32_t projection) {
  ArrayRef<Expr> row = expressions.vector(expressions[{projection, 0}].a);
  return llvm::any_of(row, [&](Expr expr) { return expressions[expr].kind == SourceKind::Attend; });
}

std::string mlac::graph::describe(const Expressions &expressions, Expr expr) {
  const Source &source = expressions[expr];
  switch (source.kind) {
  case SourceKind::Undefined:
    return "memory that nothing was written to";
  case SourceKind::Argument:
    return "an input or weight as it stands";
  case SourceKind::Linear:
    return "row " + std::to_string(expr.index) + " of a projection";
  case SourceKind::Opaque: {
    const Source &root = source.cause ? *source.cause : source;
    return Evaluator::describe(root.node) + ": " + root.reason.str();
  }
  case SourceKind::Constant:
    return "a constant";
  case SourceKind::Sum:
    return "a sum";
  case SourceKind::Product:
    return "a product";
  case SourceKind::Apply:
    return "a function of a number";
  case SourceKind::Mean:
    return "a mean";
  case SourceKind::Dot:
    return "a product of a query and a key";
  case SourceKind::Softmax:
    return "a softmax";
  case SourceKind::Attend:
    return "a sum over keys";
  case SourceKind::Complex:
    return "a complex number";
  case SourceKind::Position:
    return "a token's position";
  case SourceKind::Causal:
    return "a causal mask";
  }
  llvm_unreachable("unknown source");
}

const Source *mlac::graph::findOpaque(const Expressions &expressions, ArrayRef<Expr> row,
                                      bool crossesProjections) {
  llvm::DenseSet<uint32_t> seen;
  llvm::SmallVector<Expr> left(llvm::reverse(row));
  while (!left.empty()) {
    Expr expr = left.pop_back_val();
    if (!seen.insert(expr.source).second)
      continue;
    const Source &source = expressions[expr];
    if (source.kind == SourceKind::Opaque)
      return source.cause ? source.cause : &source;
    llvm::append_range(left, source.operands);
    if ((source.kind == SourceKind::Linear && crossesProjections) ||
        source.kind == SourceKind::Mean || source.kind == SourceKind::Dot)
      llvm::append_range(left, expressions.vector(source.a));
    if (source.kind == SourceKind::Dot)
      llvm::append_range(left, expressions.vector(source.b));
  }
  return nullptr;
}
