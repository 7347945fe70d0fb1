//===- MatchGroups.cpp - attention by groups of heads in a graph's expressions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the output projection backwards:
//
//   y = W_O [sum_s softmax_s(scale q_n . k_m + mask) v_m]_n, m = n / (N / Nkv)
//   q_n, k_m = rope(norm(rows of W_Q x, of W_K x)), v_m = rows of W_V x
//
// W_Q, W_K and W_V may be rows of one weight. The channels of q_n and k_m may stand in any order,
// the same in both: a dot does not see it. Rope turns a run of a head's channels, or none.
//
//===----------------------------------------------------------------------===//

#include "MatchParts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

namespace {
class Matcher : Parts {
public:
  using Parts::Parts;
  llvm::Expected<GroupedLayer> match(uint32_t projection);

private:
  /// The norm of one side's heads.
  struct Norm {
    std::optional<uint32_t> weight;
    double epsilon = 0;
  };

  llvm::Error countKvHeads();
  llvm::Expected<Norm> matchSide(StringRef side, std::vector<Channel> Head::*channels,
                                 int64_t headsOfRows, WeightRows &rows);
  llvm::Error matchHeadNorm(ArrayRef<Channel> channels, uint32_t firstRow, Norm &norm) const;
  llvm::Error matchRows(StringRef what, ArrayRef<Channel> channels, uint32_t firstRow) const;
  llvm::Error matchValues();
  llvm::Error matchRope();
  llvm::Error matchSinks();
  llvm::Error takeInput(StringRef side, uint32_t projection, int64_t firstRow, WeightRows &rows);

  GroupedLayer layer;
  std::vector<Head> heads;
};
} // namespace

static Weight getBias(const Source &projection) {
  return projection.c == 0 ? Weight() : Weight(projection.c - 1);
}

/// Heads of one group have one key.
llvm::Error Matcher::countKvHeads() {
  VectorId previous = heads.front().scores.key;
  layer.kvHeads = 1;
  for (const Head &head : heads)
    if (head.scores.key != previous) {
      previous = head.scores.key;
      ++layer.kvHeads;
    }
  int64_t group = layer.heads / layer.kvHeads;
  for (auto [h, head] : llvm::enumerate(heads)) {
    const Head &first = heads[h / group * group];
    if (layer.heads % layer.kvHeads != 0 || head.scores.key != first.scores.key)
      return makeError("its " + Twine(layer.heads) + " heads do not read " + Twine(layer.kvHeads) +
                       " keys in groups of one size");
    if (head.values != first.values)
      return makeError("head " + Twine(h) + " has the key of head " + Twine(h / group * group) +
                       ", and other values");
  }
  return llvm::Error::success();
}

/// All sides are projected from the same hidden states.
llvm::Error Matcher::takeInput(StringRef side, uint32_t projection, int64_t firstRow,
                               WeightRows &rows) {
  const Source &input = source({projection, 0});
  bool isFirst = layer.hiddenSize == 0;
  if (isFirst) {
    layer.hidden = input.a;
    layer.hiddenSize = expressions.vector(input.a).size();
    layer.inputProjection = projection;
  }
  if (input.a != layer.hidden)
    return makeError(side + " are not projected from the hidden states of the queries");
  rows.weight = input.b;
  rows.bias = getBias(input);
  rows.firstRow = firstRow;
  return llvm::Error::success();
}

/// The channels are each of the rows from `firstRow` on once, those under rope in pairs.
llvm::Error Matcher::matchRows(StringRef what, ArrayRef<Channel> channels,
                               uint32_t firstRow) const {
  std::vector<int> uses(channels.size(), 0);
  for (const Channel &channel : channels)
    for (size_t i = 0; i < channel.numRows(); ++i) {
      int64_t at = static_cast<int64_t>(channel.rows[i]) - firstRow;
      if (channel.projection != channels.front().projection || at < 0 ||
          at >= static_cast<int64_t>(uses.size()))
        return makeError(what + ": row " + Twine(channel.rows[i]) + " is none of the " +
                         Twine(uses.size()) + " rows of a projection from " + Twine(firstRow));
      // A pair's rows stand in both of its channels.
      uses[at] += channel.isRotated ? 1 : 2;
    }
  auto wrong = llvm::find_if(uses, [](int count) { return count != 2; });
  if (wrong != uses.end())
    return makeError(what + ": row " + Twine(firstRow + (wrong - uses.begin())) +
                     " of a projection is not read once");
  return llvm::Error::success();
}

llvm::Error Matcher::matchHeadNorm(ArrayRef<Channel> channels, uint32_t firstRow,
                                   Norm &norm) const {
  const Channel &first = channels.front();
  bool isFirst = norm.epsilon == 0;
  if (!first.root && isFirst &&
      llvm::none_of(channels, [](const Channel &channel) { return channel.root.has_value(); }))
    return llvm::Error::success();
  for (const Channel &channel : channels) {
    bool fits = channel.root && channel.root == first.root && channel.gamma == first.gamma;
    for (size_t i = 0; fits && i < channel.numRows(); ++i)
      fits = channel.gammaIndex[i] == channel.rows[i] - firstRow;
    if (!fits)
      return makeError("row " + Twine(channel.rows[0]) + " is not under its head's norm");
  }
  llvm::Expected<double> epsilon =
      matchEpsilon(*first.root, first.projection, firstRow, channels.size());
  if (!epsilon)
    return epsilon.takeError();
  if (!isFirst && (norm.weight != first.gamma || norm.epsilon != *epsilon))
    return makeError("heads have different norms");
  norm = {first.gamma, *epsilon};
  return llvm::Error::success();
}

/// Queries or keys of all heads: rows of one projection, head by head.
llvm::Expected<Matcher::Norm> Matcher::matchSide(StringRef side,
                                                 std::vector<Channel> Head::*channels,
                                                 int64_t headsOfRows, WeightRows &rows) {
  int64_t share = layer.heads / headsOfRows;
  const std::vector<Channel> &front = heads.front().*channels;
  uint32_t first = front.front().rows[0];
  for (const Channel &channel : front)
    for (size_t i = 0; i < channel.numRows(); ++i)
      first = std::min(first, channel.rows[i]);
  uint32_t projection = front.front().projection;
  if (llvm::Error error = takeInput(side, projection, first, rows))
    return std::move(error);
  rows.rows = headsOfRows * layer.headDim;
  Norm norm;
  for (int64_t h = 0; h < headsOfRows; ++h) {
    const std::vector<Channel> &own = heads[h * share].*channels;
    auto at = static_cast<uint32_t>(first + h * layer.headDim);
    std::string what = (side + " of head " + Twine(h)).str();
    if (own.front().projection != projection)
      return makeError(what + " are of another projection than those of head 0");
    if (llvm::Error error = matchRows(what, own, at))
      return std::move(error);
    if (h > 0 && own.front().root.has_value() != (norm.epsilon != 0))
      return makeError(what + " are normalised otherwise than those of head 0");
    if (llvm::Error error = matchHeadNorm(own, at, norm))
      return makeError(what + ": " + llvm::toString(std::move(error)));
  }
  return norm;
}

llvm::Error Matcher::matchValues() {
  int64_t group = layer.heads / layer.kvHeads;
  Expr first = heads.front().values.front();
  if (!is(first, SourceKind::Linear))
    return fail("values: expected a row of a projection", first);
  uint32_t at = first.index;
  for (int64_t h = 0; h < layer.heads; h += group)
    for (Expr value : heads[h].values)
      if (value != Expr{first.source, at++})
        return fail("values: expected row " + Twine(at - 1) + " of the values' projection", value);
  layer.values.rows = layer.kvHeads * layer.value;
  return takeInput("values", first.source, first.index, layer.values);
}

llvm::Error Matcher::matchRope() {
  const Head &front = heads.front();
  layer.rope = llvm::count_if(front.key, [](const Channel &channel) { return channel.isRotated; });
  if (layer.rope % 2 != 0)
    return makeError("rope rotates " + Twine(layer.rope) + " channels, expected pairs");
  uint32_t least = UINT32_MAX;
  for (const Channel &channel : front.key)
    if (channel.isRotated)
      least = std::min(least, std::min(channel.rows[0], channel.rows[1]));
  layer.ropeOffset = layer.rope > 0 ? least - layer.key.firstRow : 0;
  RopeParts rope(*this, layer.rope);
  int64_t group = layer.heads / layer.kvHeads;
  for (auto [h, head] : llvm::enumerate(heads)) {
    int64_t queryRow = layer.query.firstRow + h * layer.headDim;
    int64_t keyRow = layer.key.firstRow + h / group * layer.headDim;
    for (auto [query, key] : llvm::zip_equal(head.query, head.key))
      if (query.isRotated != key.isRotated ||
          (!query.isRotated && query.rows[0] - queryRow != key.rows[0] - keyRow))
        return makeError("row " + Twine(query.rows[0]) + " of head " + Twine(h) +
                         "'s query meets another row of its key");
    if (llvm::Error error =
            rope.matchHead(h, head, queryRow + layer.ropeOffset, keyRow + layer.ropeOffset))
      return error;
  }
  layer.pairing = rope.pairing;
  layer.ropePairs = std::move(rope.pairs);
  return llvm::Error::success();
}

/// A number of one weight for each head.
llvm::Error Matcher::matchSinks() {
  for (auto [h, head] : llvm::enumerate(heads)) {
    if (!head.scores.sink)
      return llvm::Error::success();
    const Source &sink = source(*head.scores.sink);
    if (sink.kind != SourceKind::Argument || !weights.test(sink.a) ||
        head.scores.sink->index != h || (h > 0 && layer.sinks != sink.a))
      return fail("expected element " + Twine(h) + " of a weight as the sink of head " + Twine(h),
                  *head.scores.sink);
    layer.sinks = sink.a;
  }
  return llvm::Error::success();
}

llvm::Expected<GroupedLayer> Matcher::match(uint32_t projection) {
  const Source &output = source({projection, 0});
  layer.output = output.b;
  layer.outputBias = getBias(output);
  llvm::Expected<std::vector<Head>> found = matchHeads(expressions.vector(output.a));
  if (!found)
    return found.takeError();
  heads = std::move(*found);
  const Head &front = heads.front();
  layer.heads = heads.size();
  layer.headDim = front.key.size();
  layer.value = front.values.size();
  layer.scale = front.scores.scale;
  layer.softcap = front.scores.softcap;
  layer.mask = front.scores.mask;
  for (const Head &head : heads)
    if (head.query.size() != front.key.size() || head.key.size() != front.key.size() ||
        head.values.size() != front.values.size())
      return makeError("heads have different numbers of channels");
  if (llvm::Error error = countKvHeads())
    return std::move(error);
  llvm::Expected<Norm> query = matchSide("queries", &Head::query, layer.heads, layer.query);
  if (!query)
    return query.takeError();
  llvm::Expected<Norm> key = matchSide("keys", &Head::key, layer.kvHeads, layer.key);
  if (!key)
    return key.takeError();
  layer.queryNorm = query->weight;
  layer.queryEpsilon = query->epsilon;
  layer.keyNorm = key->weight;
  layer.keyEpsilon = key->epsilon;
  for (auto part : {&Matcher::matchValues, &Matcher::matchRope, &Matcher::matchSinks})
    if (llvm::Error error = (this->*part)())
      return std::move(error);
  return layer;
}

llvm::Expected<GroupedLayer> mlac::graph::matchGroups(Expressions &expressions, uint32_t projection,
                                                      const llvm::BitVector &weights) {
  return Matcher(expressions, weights).match(projection);
}
