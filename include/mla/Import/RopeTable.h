//===- RopeTable.h - rotary frequencies of a model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rotary frequencies, as transformers forms them: in f32, so that angles at
// long positions agree (they are good to 1.3e-7 relative, which is 1.5e-3 in a
// cosine at position 131071). A runtime multiplies them by the position, in f32
// again, and scales cos and sin by `multiplier`.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_ROPETABLE_H
#define MLA_IMPORT_ROPETABLE_H

#include "mla/Import/ModelConfig.h"

#include <utility>

namespace mlac {

struct RopeTable {
  /// R/2 frequencies; empty when R = 0.
  std::vector<float> inverseFrequencies;
  /// LongRoPE only: the frequencies of an engine whose longest sequence exceeds
  /// `shortLength`; empty otherwise.
  std::vector<float> longInverseFrequencies;
  int64_t shortLength = 0;
  float multiplier = 1.0f;
  /// Positions at or above this are refused.
  int64_t length = 0;
};

/// YaRN's attention temperature: 1 for scale <= 1, else 0.1 mscale ln(scale)
/// + 1.
double yarnTemperature(double scale, double mscale);

/// What YaRN's cosines and sines are times, unless `cosSinMultiplier` says it.
double yarnMultiplier(const RopeParams &rope);

/// YaRN's correction range: the (real-valued) dims that turn `beta_fast` and
/// `beta_slow` times over the trained length.
std::pair<double, double> yarnCorrectionRange(const RopeParams &rope, int64_t ropeDim);

RopeTable computeRopeTable(const ModelConfig &config);

/// Tokens of the longest sequence: the table's length, for a model whose indexer is not used
/// at most `index_topk`, up to which dense attention equals its own, and for one that scales
/// queries by their position those that it does not scale.
int64_t getSupportedLength(const ModelConfig &config);

} // namespace mlac

#endif // MLA_IMPORT_ROPETABLE_H
