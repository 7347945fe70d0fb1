//===- Reference.h - an MLA layer in float64 ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the packages are checked against where no stored outputs exist: plain
// loops in double over the expanded form, from the papers' formulas and the
// model's own config.json. Shares no code with the compiler or the runtime.
//
// Symbols: T new tokens, S tokens of the whole sequence, H hidden size, N heads
// on this rank, P/R/V nope, rope and value head dims, Lq/Lkv latent ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_REFERENCE_H
#define MLA_RUN_REFERENCE_H

#include "nlohmann/json.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace mlac::run {

struct LayerSpec {
  int64_t hidden = 0, heads = 0, queryRank = 0 /* 0: none */, latentRank = 0;
  int64_t nope = 0, rope = 0, value = 0;
  double softmaxScale = 0, epsilon = 1e-6;
  double queryMultiplier = 1, latentMultiplier = 1;
  bool isInterleaved = true;
  std::vector<float> inverseFrequencies; // R / 2
  double ropeMultiplier = 1;
  /// Projections, by name, whose activations are quantised: e4m3 with a scale for each 128 columns.
  std::set<std::string> quantised = {};

  /// Width of a cached row.
  int64_t rowWidth() const { return latentRank + rope; }
  int64_t queryInput() const { return queryRank > 0 ? queryRank : hidden; }
};

/// Reads a Hugging Face configuration. `heads` are those of one rank;
/// `longestSequence` chooses between longrope's two frequency lists. Throws on
/// what it does not know.
LayerSpec readLayerSpec(const nlohmann::json &config, int64_t heads, int64_t longestSequence);

/// Weights by their checkpoint names, [out, in], as bf16-exact floats.
using WeightMap = std::map<std::string, std::vector<float>>;

class Reference {
public:
  /// Throws when a weight is missing or has the wrong number of elements.
  Reference(const LayerSpec &spec, const WeightMap &weights);

  /// The cached rows [T, Lkv + R] of tokens at positions first, first + 1, …:
  /// normalised latent, then rotated key, pairs in the order of the input.
  std::vector<double> cachedRows(const float *hidden, int64_t tokens, int64_t first) const;

  /// Output [rows, H] of the queries at `positions` over the sequence's cached
  /// rows [S, Lkv + R]; a query sees the rows up to its own position.
  std::vector<double> attend(const std::vector<const float *> &hidden,
                             const std::vector<int64_t> &positions,
                             const std::vector<double> &rows) const;

private:
  const std::vector<float> &weight(const std::string &name, int64_t elements) const;
  /// y = W x + b, of x as codes where the projection takes it so.
  template <typename T>
  std::vector<double> multiply(const std::string &name, const T *x, int64_t in, int64_t out) const;
  std::vector<double> query(const float *hidden, int64_t position) const;
  void rotate(double *values, int64_t position) const;
  void attendHead(int64_t head, const std::vector<std::vector<double>> &queries,
                  const std::vector<int64_t> &positions, const std::vector<double> &rows,
                  std::vector<double> &attended) const;

  LayerSpec spec;
  const WeightMap &weights;
};

} // namespace mlac::run

#endif // MLA_RUN_REFERENCE_H
