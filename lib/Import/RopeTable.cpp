//===- RopeTable.cpp - rotary frequencies of a model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/RopeTable.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace mlac;

double mlac::yarnTemperature(double scale, double mscale) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

double mlac::yarnMultiplier(const RopeParams &rope) {
  return rope.attentionMultiplier * yarnTemperature(rope.factor, rope.mscale) /
         yarnTemperature(rope.factor, rope.mscaleAllDim);
}

std::pair<double, double> mlac::yarnCorrectionRange(const RopeParams &rope, int64_t ropeDim) {
  // The (real-valued) dim whose wave turns `rotations` times over Lo positions.
  auto correctionDim = [&](double rotations) {
    return ropeDim * std::log(rope.originalMaxPositions / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  return {correctionDim(rope.betaFast), correctionDim(rope.betaSlow)};
}

/// theta^(2i/R) for i = 0 .. R/2-1, in f32.
static std::vector<float> computeWavelengths(double theta, int64_t ropeDim) {
  std::vector<float> result;
  for (int64_t i = 0; i < ropeDim; i += 2)
    result.push_back(std::pow(static_cast<float>(theta), static_cast<float>(i) / ropeDim));
  return result;
}

static std::vector<float> computePlain(const RopeParams &rope, int64_t ropeDim) {
  std::vector<float> result = computeWavelengths(rope.theta, ropeDim);
  for (float &value : result)
    value = 1.0f / value;
  return result;
}

static std::vector<float> computeYarn(const RopeParams &rope, int64_t ropeDim) {
  auto [realLow, realHigh] = yarnCorrectionRange(rope, ropeDim);
  double low = std::max(std::floor(realLow), 0.0);
  double high = std::min(std::ceil(realHigh), static_cast<double>(ropeDim - 1));
  if (low == high)
    high += 0.001; // keeps the ramp's slope finite
  float rampStart = low, rampWidth = high - low, factor = rope.factor;
  std::vector<float> result = computeWavelengths(rope.theta, ropeDim);
  for (auto [index, value] : llvm::enumerate(result)) {
    float ramp = std::clamp((static_cast<float>(index) - rampStart) / rampWidth, 0.0f, 1.0f);
    // The order of f32 operations is transformers': 1 - (1 - ramp), not ramp.
    float keep = 1.0f - ramp;
    float extrapolated = 1.0f / value, interpolated = 1.0f / (factor * value);
    value = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return result;
}

static std::vector<float> computeLongRope(const RopeParams &rope, int64_t ropeDim,
                                          const std::vector<double> &extension) {
  std::vector<float> result = computeWavelengths(rope.theta, ropeDim);
  for (auto [value, factor] : llvm::zip_equal(result, extension))
    value = 1.0f / (static_cast<float>(factor) * value);
  return result;
}

static double computeMultiplier(const ModelConfig &config) {
  const RopeParams &rope = config.rope;
  if (rope.cosSinMultiplier)
    return *rope.cosSinMultiplier;
  if (rope.kind == RopeKind::Yarn)
    return yarnMultiplier(rope);
  if (rope.kind == RopeKind::LongRope) {
    double extension = rope.extension.value_or(static_cast<double>(config.maxPositionEmbeddings) /
                                               rope.originalMaxPositions);
    if (extension > 1.0)
      return std::sqrt(1.0 + std::log(extension) /
                                 std::log(static_cast<double>(rope.originalMaxPositions)));
  }
  return 1.0;
}

RopeTable mlac::computeRopeTable(const ModelConfig &config) {
  const RopeParams &rope = config.rope;
  int64_t ropeDim = config.qkRopeHeadDim;
  RopeTable table;
  table.length = config.maxPositionEmbeddings;
  table.multiplier = computeMultiplier(config);
  switch (rope.kind) {
  case RopeKind::Plain:
    table.inverseFrequencies = computePlain(rope, ropeDim);
    break;
  case RopeKind::Yarn:
    table.inverseFrequencies = computeYarn(rope, ropeDim);
    table.length = static_cast<int64_t>(rope.originalMaxPositions * rope.factor);
    break;
  case RopeKind::LongRope:
    table.inverseFrequencies = computeLongRope(rope, ropeDim, rope.shortFactor);
    table.longInverseFrequencies = computeLongRope(rope, ropeDim, rope.longFactor);
    table.shortLength = rope.originalMaxPositions;
    break;
  }
  return table;
}

int64_t mlac::getSupportedLength(const ModelConfig &config) {
  int64_t length = computeRopeTable(config).length;
  if (config.rope.scaledFrom > 0)
    length = std::min(length, config.rope.scaledFrom);
  bool isDense = config.indexer && !config.isSparse();
  return isDense ? std::min(length, config.indexer->topk) : length;
}

double ModelConfig::softmaxScale() const {
  double scale = 1.0 / std::sqrt(static_cast<double>(qkHeadDim()));
  if (grouped)
    return grouped->scale.value_or(scale);
  if (rope.kind != RopeKind::Yarn)
    return scale;
  double temperature = yarnTemperature(rope.factor, rope.mscaleAllDim);
  return scale * temperature * temperature;
}
