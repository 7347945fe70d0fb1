//===- Rotation.cpp - rotary angles of a configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rotation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

using namespace mlac::run;
using nlohmann::json;

double mlac::run::yarnTemperature(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

/// theta^(2i / R) in f32.
static float wavelength(double theta, int64_t i, int64_t width) {
  return std::pow(static_cast<float>(theta), static_cast<float>(2 * i) / static_cast<float>(width));
}

/// Frequencies between extrapolation (fast pairs) and interpolation (slow).
static std::vector<float> yarnFrequencies(const json &keys, double theta, int64_t width) {
  double factor = keys.at("factor");
  double trained = keys.at("original_max_position_embeddings");
  auto correction = [&](double rotations) {
    return width * std::log(trained / (2 * M_PI * rotations)) / (2 * std::log(theta));
  };
  double low = correction(keys.value("beta_fast", 32.0));
  double high = correction(keys.value("beta_slow", 1.0));
  if (keys.value("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1.0);
  if (low == high)
    high += 0.001;
  std::vector<float> result;
  for (int64_t i = 0; i < width / 2; ++i) {
    float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) /
                                static_cast<float>(high - low),
                            0.0f, 1.0f);
    float fast = 1.0f / wavelength(theta, i, width);
    float slow = 1.0f / (static_cast<float>(factor) * wavelength(theta, i, width));
    result.push_back(slow * ramp + fast * (1.0f - ramp));
  }
  return result;
}

/// Slow pairs are divided by the factor, fast ones not, those between in part.
static std::vector<float> llama3Frequencies(const json &keys, double theta, int64_t width) {
  double factor = keys.at("factor"), low = keys.at("low_freq_factor"),
         high = keys.at("high_freq_factor"), trained = keys.at("original_max_position_embeddings");
  std::vector<float> result;
  for (int64_t i = 0; i < width / 2; ++i) {
    double plain = 1.0f / wavelength(theta, i, width), turns = trained * plain / (2 * M_PI);
    double keep = turns < low ? 0 : turns > high ? 1 : (turns - low) / (high - low);
    result.push_back(static_cast<float>((1 - keep) * plain / factor + keep * plain));
  }
  return result;
}

static void readYarn(Rotation &rotation, const json &keys, double theta, int64_t width) {
  double factor = keys.at("factor");
  rotation.inverseFrequencies = yarnFrequencies(keys, theta, width);
  rotation.multiplier = keys.value("attn_factor", 1.0) *
                        yarnTemperature(factor, keys.value("mscale", 1.0)) /
                        yarnTemperature(factor, keys.value("mscale_all_dim", 0.0));
  if (keys.contains("attention_factor") && keys["attention_factor"].is_number())
    rotation.multiplier = keys["attention_factor"];
}

static void readLongRope(Rotation &rotation, const json &keys, const json &config, double theta,
                         int64_t width, int64_t longestSequence) {
  double longest = config.at("max_position_embeddings");
  double trained = keys.value("original_max_position_embeddings",
                              config.value("original_max_position_embeddings", longest));
  std::vector<double> factors = keys.at(longestSequence > trained ? "long_factor" : "short_factor");
  for (int64_t i = 0; i < width / 2; ++i)
    rotation.inverseFrequencies.push_back(
        1.0f / (static_cast<float>(factors.at(i)) * wavelength(theta, i, width)));
  auto number = [&](const char *key, double otherwise) {
    return keys.contains(key) && keys[key].is_number() ? keys[key].get<double>() : otherwise;
  };
  double stretch = number("factor", longest / trained);
  double multiplier = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(trained)) : 1.0;
  rotation.multiplier = number("attention_factor", multiplier);
}

json mlac::run::readRopeKeys(const json &config) {
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (config.contains(key) && config[key].is_object() && !config[key].empty())
      return config[key];
  return json::object();
}

std::string mlac::run::readRopeKind(const json &keys) {
  std::string kind = keys.value("rope_type", keys.value("type", std::string("default")));
  return kind == "deepseek_yarn" ? "yarn" : kind;
}

static std::string list(const std::set<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

Rotation mlac::run::readRotation(const json &config, int64_t width, int64_t longestSequence,
                                 const std::set<std::string> &known) {
  Rotation rotation;
  json keys = readRopeKeys(config);
  double theta = keys.value("rope_theta", config.value("rope_theta", 10000.0));
  std::string kind = readRopeKind(keys);
  if (known.count(kind) == 0)
    throw std::runtime_error("the reference knows rope types " + list(known) + ", got '" + kind +
                             "'");
  if (kind == "yarn") {
    readYarn(rotation, keys, theta, width);
  } else if (kind == "longrope" && width > 0) {
    readLongRope(rotation, keys, config, theta, width, longestSequence);
  } else if (kind == "llama3") {
    rotation.inverseFrequencies = llama3Frequencies(keys, theta, width);
  } else {
    float factor = kind == "linear" ? keys.at("factor").get<float>() : 1.0f;
    for (int64_t i = 0; i < width / 2; ++i)
      rotation.inverseFrequencies.push_back(1.0f / (factor * wavelength(theta, i, width)));
  }
  return rotation;
}

void Rotation::apply(double *values, int64_t position) const {
  auto half = static_cast<int64_t>(inverseFrequencies.size());
  for (int64_t i = 0; i < half; ++i) {
    // The angle is formed in f32, as every serving system does.
    float angle = static_cast<float>(position) * inverseFrequencies[i];
    double cosine = std::cos(angle) * multiplier;
    double sine = std::sin(angle) * multiplier;
    double &first = values[isInterleaved ? 2 * i : i];
    double &second = values[isInterleaved ? 2 * i + 1 : i + half];
    double a = first, b = second;
    first = a * cosine - b * sine;
    second = a * sine + b * cosine;
  }
}
