//===- MatchLayer.h - attention in a graph's expressions ---*- C++ -*-===//
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

/// Rows of one projection: its weight's from `firstRow` on.
struct WeightRows {
  uint32_t weight = 0;
  Weight bias = {};
  int64_t firstRow = 0, rows = 0;
};

/// One attention, from the hidden states to the output projection: what all kinds have.
struct Layer {
  VectorId hidden = 0;
  uint32_t inputProjection = 0; ///< a source that reads the hidden states
  int64_t hiddenSize = 0, heads = 0, rope = 0, value = 0;
  Weight output, outputBias;
  double scale = 0;
  RopePairing pairing = RopePairing::Interleaved;
  std::vector<RopePair> ropePairs; ///< R/2, in the order of their frequencies
  /// What is added to the scores; none: nothing is.
  std::optional<Expr> mask;
};

/// Multi-head latent attention. Symbols as in ModelConfig.h.
struct LatentLayer : Layer {
  int64_t nope = 0, latent = 0;
  std::optional<int64_t> queryLatent;

  Weight queryDown, queryNorm, queryUp, keyDown, keyNorm, keyUp;
  Weight queryDownBias, keyDownBias;

  std::optional<double> queryEpsilon;
  double keyEpsilon = 0;
  double queryMultiplier = 1, latentMultiplier = 1;
};

/// Attention by groups of heads.
struct GroupedLayer : Layer {
  int64_t kvHeads = 0, headDim = 0;
  int64_t ropeOffset = 0; ///< of the first rotated channel in its head
  WeightRows query, key, values;
  Weight queryNorm, keyNorm; ///< of heads
  double queryEpsilon = 0, keyEpsilon = 0;
  double softcap = 0; ///< 0: none
  Weight sinks;
};

/// Whether the numbers that a projection reads are sums over keys.
bool readsAttention(const Expressions &expressions, uint32_t projection);

/// The attention whose output projection is the source `projection`; `weights` says which of the
/// graph's arguments are weights. The error says what differs from that kind of attention.
llvm::Expected<LatentLayer> matchLatents(Expressions &expressions, uint32_t projection,
                                         const llvm::BitVector &weights);
llvm::Expected<GroupedLayer> matchGroups(Expressions &expressions, uint32_t projection,
                                         const llvm::BitVector &weights);

/// A number in words, for errors.
std::string describe(const Expressions &expressions, Expr expr);

/// The first numbers below a row that a node gives which is not understood; null without.
const Source *findOpaque(const Expressions &expressions, llvm::ArrayRef<Expr> row,
                         bool crossesProjections = true);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_MATCHLAYER_H
