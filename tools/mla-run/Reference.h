//===- Reference.h - what a layer computes, in double ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Straight loops in double, from the papers' formulas and the model's own config.json. Shares no
// code with the compiler or the runtime. One kind of layer a file: LatentReference.h,
// GroupedReference.h.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_REFERENCE_H
#define MLA_RUN_REFERENCE_H

#include "nlohmann/json.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mlac::run {

/// Weights by their checkpoint names, [out, in], as floats that the package's type holds.
using WeightMap = std::map<std::string, std::vector<float>>;

/// Projections, by name, whose activations are quantised: e4m3 with a scale for so many columns (0:
/// all of a token).
struct QuantisedProjections {
  std::set<std::string> names;
  int64_t columns = 128;
};

/// What a package says of a layer beside the configuration.
struct LayerFacts {
  int64_t heads = 0, ranks = 1; // heads of one rank
  int64_t layer = 0;            // its number, where a model's layers differ
  int64_t longestSequence = 0;  // chooses between longrope's two lists of frequencies
  QuantisedProjections quantised;
};

class Reference {
public:
  virtual ~Reference() = default;

  /// The cached rows [T, row] of tokens at positions first, first + 1, …: the fields of the cache
  /// beside each other, as a reader of the cache gets them if it rounds nothing.
  virtual std::vector<double> cachedRows(const float *hidden, int64_t tokens,
                                         int64_t first) const = 0;

  /// Output [rows, H] of the queries at `positions` over the sequence's cached rows [S, row]; a
  /// query sees no row behind its own position.
  virtual std::vector<double> attend(const std::vector<const float *> &hidden,
                                     const std::vector<int64_t> &positions,
                                     const std::vector<double> &rows) const = 0;
};

/// The reference of a Hugging Face configuration; `weights` outlive it. Throws on what it does not
/// know, and when a weight is missing or has the wrong number of elements.
std::unique_ptr<Reference> makeReference(const nlohmann::json &config, const LayerFacts &facts,
                                         const WeightMap &weights);

} // namespace mlac::run

#endif // MLA_RUN_REFERENCE_H
