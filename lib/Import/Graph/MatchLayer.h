//===- MatchLayer.h - multi-head latent attention in a graph's expressions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_MATCHLAYER_H
#define MLA_LIB_IMPORT_GRAPH_MATCHLAYER_H

#include "Expressions.h"

#include "mla/Import/ModelConfig.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/Error.h"

namespace mlac::graph {

/// What the factors of rope are read from: both tables' numbers, for each pair.
struct RopePair {
  Expr cos, sin;
  bool operator==(const RopePair &) const = default;
};

/// A weight of the graph, by the number of its argument.
using Weight = std::optional<uint32_t>;

/// One attention, from the hidden states to the output projection. Symbols as in ModelConfig.h.
struct Layer {
  VectorId hidden = 0;
  uint32_t latentProjection = 0; ///< the source that reads the hidden states
  int64_t hiddenSize = 0, heads = 0, nope = 0, rope = 0, value = 0, latent = 0;
  std::optional<int64_t> queryLatent;

  Weight queryDown, queryNorm, queryUp, keyDown, keyNorm, keyUp, output;
  Weight queryDownBias, keyDownBias, outputBias;

  std::optional<double> queryEpsilon;
  double keyEpsilon = 0;
  double queryMultiplier = 1, latentMultiplier = 1;
  double scale = 0;
  RopePairing pairing = RopePairing::Interleaved;
  std::vector<RopePair> ropePairs; ///< R/2, in the order of their frequencies
  /// What is added to the scores; none: nothing is.
  std::optional<Expr> mask;
};

/// Whether the numbers that a projection reads are sums over keys.
bool readsAttention(const Expressions &expressions, uint32_t projection);

/// The attention whose output projection is the source `projection`; `weights` says which of the
/// graph's arguments are weights. The error says what differs from multi-head latent attention.
llvm::Expected<Layer> matchLayer(Expressions &expressions, uint32_t projection,
                                 const llvm::BitVector &weights);

/// A number in words, for errors.
std::string describe(const Expressions &expressions, Expr expr);

/// The first numbers below a row that a node gives which is not understood; null without.
const Source *findOpaque(const Expressions &expressions, llvm::ArrayRef<Expr> row,
                         bool crossesProjections = true);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_MATCHLAYER_H
