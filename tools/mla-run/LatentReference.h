//===- LatentReference.h - multi-head latent attention, in double ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The expanded form. Cached rows are [Lkv + R]: a normalised latent, then a rotated key, pairs in
// the order of the input.
//
// Symbols: T new tokens, S tokens of the whole sequence, H hidden size, N heads
// on this rank, P/R/V nope, rope and value head dims, Lq/Lkv latent ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_LATENTREFERENCE_H
#define MLA_RUN_LATENTREFERENCE_H

#include "Reference.h"
#include "ReferenceMath.h"
#include "Rotation.h"

namespace mlac::run {

struct LatentSpec {
  int64_t hidden = 0, heads = 0, queryRank = 0 /* 0: none */, latentRank = 0;
  int64_t nope = 0, rope = 0, value = 0;
  double softmaxScale = 0, epsilon = 1e-6;
  double queryMultiplier = 1, latentMultiplier = 1;
  Rotation rotation;
  QuantisedProjections quantised;

  /// Width of a cached row.
  int64_t rowWidth() const { return latentRank + rope; }
  int64_t queryInput() const { return queryRank > 0 ? queryRank : hidden; }
};

/// Throws on what it does not know.
LatentSpec readLatentSpec(const nlohmann::json &config, const LayerFacts &facts);

class LatentReference : public Reference {
public:
  /// Throws when a weight is missing or has the wrong number of elements.
  LatentReference(const LatentSpec &spec, const WeightMap &weights);

  std::vector<double> cachedRows(const float *hidden, int64_t tokens, int64_t first) const override;
  std::vector<double> attend(const std::vector<const float *> &hidden,
                             const std::vector<int64_t> &positions,
                             const std::vector<double> &rows) const override;

private:
  std::vector<double> query(const float *hidden, int64_t position) const;
  void attendHead(int64_t head, const std::vector<std::vector<double>> &queries,
                  const std::vector<int64_t> &positions, const std::vector<double> &rows,
                  std::vector<double> &attended) const;

  LatentSpec spec;
  Projections weights;
};

} // namespace mlac::run

#endif // MLA_RUN_LATENTREFERENCE_H
