//===- MatchLatents.cpp - multi-head latent attention in a graph's expressions ---*- C++ -*-===//
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

#include "MatchParts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

using namespace mlac::graph;
using llvm::ArrayRef;
using llvm::Twine;

namespace {
/// A norm over rows 0 .. n-1 of a projection.
struct Norm {
  uint32_t projection;
  uint32_t weight;
  double epsilon, multiplier;
};

class Matcher : Parts {
public:
  using Parts::Parts;
  llvm::Expected<LatentLayer> match(uint32_t projection);

private:
  llvm::Error takeHeads(ArrayRef<Expr> row);
  llvm::Error matchKeys();
  llvm::Error matchQueries();
  llvm::Error matchRope();
  llvm::Error matchDownProjections();
  llvm::Expected<Norm> matchNorm(VectorId row);

  LatentLayer layer;
  std::vector<Head> heads;
  uint32_t keyUp = 0, queryUp = 0, keyDown = 0; // sources of projections
};
} // namespace

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

llvm::Error Matcher::takeHeads(ArrayRef<Expr> row) {
  llvm::Expected<std::vector<Head>> found = matchHeads(row);
  if (!found)
    return found.takeError();
  heads = std::move(*found);
  const Scores &scores = heads.front().scores;
  if (scores.softcap != 0 || scores.sink)
    return makeError(scores.sink ? "its heads have sinks" : "its scores have a softcap");
  for (const Head &head : heads)
    for (const std::vector<Channel> *channels : {&head.query, &head.key})
      if (llvm::any_of(*channels, [](const Channel &channel) { return channel.root.has_value(); }))
        return makeError("its heads are normalised, expected rows of a projection");
  layer.scale = scores.scale;
  layer.mask = scores.mask;
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

llvm::Error Matcher::matchRope() {
  if (layer.rope % 2 != 0)
    return makeError("rope rotates " + Twine(layer.rope) + " channels, expected pairs");
  RopeParts rope(*this, layer.rope);
  for (auto [h, head] : llvm::enumerate(heads)) {
    uint32_t width = layer.nope + layer.rope;
    if (llvm::Error error = rope.matchHead(h, head, h * width + layer.nope, layer.latent))
      return error;
  }
  layer.pairing = rope.pairing;
  layer.ropePairs = std::move(rope.pairs);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Down-projections and norms
//===----------------------------------------------------------------------===//

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
  llvm::Expected<double> epsilon =
      matchEpsilon(inverse, norm.projection, /*firstRow=*/0, expressions.vector(row).size());
  if (!epsilon)
    return epsilon.takeError();
  norm.epsilon = *epsilon;
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
  layer.inputProjection = keyDown;
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

llvm::Expected<LatentLayer> Matcher::match(uint32_t projection) {
  const Source &output = source({projection, 0});
  layer.output = output.b;
  layer.outputBias = getBias(output);
  if (llvm::Error error = takeHeads(expressions.vector(output.a)))
    return std::move(error);
  for (auto part : {&Matcher::matchKeys, &Matcher::matchQueries, &Matcher::matchDownProjections,
                    &Matcher::matchRope})
    if (llvm::Error error = (this->*part)())
      return std::move(error);
  return layer;
}

llvm::Expected<LatentLayer> mlac::graph::matchLatents(Expressions &expressions, uint32_t projection,
                                                      const llvm::BitVector &weights) {
  return Matcher(expressions, weights).match(projection);
}
