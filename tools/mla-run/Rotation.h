//===- Rotation.h - rotary angles of a configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Frequencies as transformers forms them, in f32: of the types default, linear, llama3, longrope
// and yarn, from the old keys (`rope_theta`, `rope_scaling`) and the new (`rope_parameters`).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_ROTATION_H
#define MLA_RUN_ROTATION_H

#include "nlohmann/json.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace mlac::run {

struct Rotation {
  bool isInterleaved = true;
  std::vector<float> inverseFrequencies; // one for each pair of channels
  double multiplier = 1;                 // of cosines and sines

  /// Rotates the first channels of `values`, as many as there are in the pairs.
  void apply(double *values, int64_t position) const;
};

/// The keys of rope, wherever they stand.
nlohmann::json readRopeKeys(const nlohmann::json &config);

/// Its type, as transformers names it.
std::string readRopeKind(const nlohmann::json &keys);

/// YaRN's attention temperature g(scale, mscale).
double yarnTemperature(double scale, double mscale);

/// Of `width` channels. Throws for types other than `known`.
Rotation readRotation(const nlohmann::json &config, int64_t width, int64_t longestSequence,
                      const std::set<std::string> &known);

} // namespace mlac::run

#endif // MLA_RUN_ROTATION_H
