//===- Reference.cpp - an MLA layer in float64 ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reference.h"

#include "Checkpoint.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

using namespace mlac::run;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

/// YaRN's attention temperature g(scale, mscale).
static double temperature(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

/// theta^(2i / R) in f32, as transformers forms it.
static float wavelength(double theta, int64_t i, int64_t rope) {
  return std::pow(static_cast<float>(theta), static_cast<float>(2 * i) / static_cast<float>(rope));
}

/// Frequencies between extrapolation (fast pairs) and interpolation (slow).
static std::vector<float> yarnFrequencies(const json &fields, double theta, int64_t rope) {
  double factor = fields.at("factor");
  double trained = fields.at("original_max_position_embeddings");
  auto correction = [&](double rotations) {
    return rope * std::log(trained / (2 * M_PI * rotations)) / (2 * std::log(theta));
  };
  double low = std::max(std::floor(correction(fields.value("beta_fast", 32.0))), 0.0);
  double high = std::min(std::ceil(correction(fields.value("beta_slow", 1.0))), rope - 1.0);
  if (low == high)
    high += 0.001;
  std::vector<float> result;
  for (int64_t i = 0; i < rope / 2; ++i) {
    float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) /
                                static_cast<float>(high - low),
                            0.0f, 1.0f);
    float fast = 1.0f / wavelength(theta, i, rope);
    float slow = 1.0f / (static_cast<float>(factor) * wavelength(theta, i, rope));
    result.push_back(slow * ramp + fast * (1.0f - ramp));
  }
  return result;
}

static void readYarn(LayerSpec &spec, const json &fields, double theta) {
  double factor = fields.at("factor");
  double allDim = temperature(factor, fields.value("mscale_all_dim", 0.0));
  spec.inverseFrequencies = yarnFrequencies(fields, theta, spec.rope);
  spec.ropeMultiplier =
      fields.value("attn_factor", 1.0) * temperature(factor, fields.value("mscale", 1.0)) / allDim;
  if (fields.contains("attention_factor") && fields["attention_factor"].is_number())
    spec.ropeMultiplier = fields["attention_factor"];
  spec.softmaxScale *= allDim * allDim;
}

static void readLongRope(LayerSpec &spec, const json &fields, const json &config, double theta,
                         int64_t longestSequence) {
  double longest = config.at("max_position_embeddings");
  double trained = fields.value("original_max_position_embeddings", longest);
  std::vector<double> factors =
      fields.at(longestSequence > trained ? "long_factor" : "short_factor");
  for (int64_t i = 0; i < spec.rope / 2; ++i)
    spec.inverseFrequencies.push_back(
        1.0f / (static_cast<float>(factors.at(i)) * wavelength(theta, i, spec.rope)));
  double stretch = longest / trained;
  spec.ropeMultiplier = stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(trained)) : 1.0;
}

static void readRope(LayerSpec &spec, const json &config, int64_t longestSequence) {
  json fields = json::object();
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (config.contains(key) && config[key].is_object())
      fields.update(config[key]);
  if (config.at("model_type") == "kimi_linear") // positions rotate nothing
    return spec.inverseFrequencies.assign(spec.rope / 2, 0.0f);
  double theta = fields.value("rope_theta", config.value("rope_theta", 10000.0));
  std::string kind = fields.value("rope_type", fields.value("type", std::string("default")));
  spec.isInterleaved =
      config.value("rope_interleave", config.at("model_type").get<std::string>() != "minicpm3");
  // Without rope parts there is nothing to rotate, but the scale is corrected all the
  // same (mla.md section 4).
  if (kind == "yarn")
    return readYarn(spec, fields, theta);
  if (spec.rope == 0)
    return;
  if (kind == "longrope")
    return readLongRope(spec, fields, config, theta, longestSequence);
  if (kind != "default")
    throw std::runtime_error("the reference knows rope types default, yarn and longrope, got '" +
                             kind + "'");
  for (int64_t i = 0; i < spec.rope / 2; ++i)
    spec.inverseFrequencies.push_back(1.0f / wavelength(theta, i, spec.rope));
}

LayerSpec mlac::run::readLayerSpec(const json &config, int64_t heads, int64_t longestSequence) {
  LayerSpec spec;
  spec.hidden = config.at("hidden_size");
  spec.heads = heads;
  if (config.contains("q_lora_rank") && config["q_lora_rank"].is_number())
    spec.queryRank = config["q_lora_rank"];
  if (!config.contains("kv_lora_rank"))
    throw std::runtime_error(
        "the reference knows layers with kv_lora_rank, not those of model_type " +
        config.at("model_type").dump() +
        ": mlac.reference has parts of others (docs/graphs.md, docs/v4.md)");
  spec.latentRank = config.at("kv_lora_rank");
  spec.nope = config.at("qk_nope_head_dim");
  spec.rope = config.at("qk_rope_head_dim");
  spec.value =
      config.value("v_head_dim", spec.hidden / config.at("num_attention_heads").get<int64_t>());
  spec.softmaxScale = 1 / std::sqrt(static_cast<double>(spec.nope + spec.rope));
  readRope(spec, config, longestSequence);
  if (config.at("model_type") == "longcat_flash") {
    spec.latentMultiplier = std::sqrt(static_cast<double>(spec.hidden) / spec.latentRank);
    if (spec.queryRank > 0)
      spec.queryMultiplier = std::sqrt(static_cast<double>(spec.hidden) / spec.queryRank);
  }
  return spec;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// Eight partial sums, so that the compiler can use vector registers without
/// being allowed to reorder.
template <typename T> static double dot(const T *a, const float *b, int64_t count) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  double total = 0;
  for (double sum : sums)
    total += sum;
  for (; i < count; ++i)
    total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return total;
}

/// y = W x + b with W [out, in] and the bias, if the model has one.
template <typename T>
static std::vector<double> project(const WeightMap &weights, const std::string &name, const T *x,
                                   int64_t in, int64_t out) {
  const std::vector<float> &weight = weights.at(name + ".weight");
  auto bias = weights.find(name + ".bias");
  std::vector<double> y(out);
  parallelFor(out, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      y[row] = dot(x, weight.data() + row * in, in) +
               (bias == weights.end() ? 0.0 : static_cast<double>(bias->second.at(row)));
  });
  return y;
}

static void normalise(double *x, const std::vector<float> &gamma, double epsilon,
                      double multiplier) {
  double square = 0;
  for (size_t i = 0; i < gamma.size(); ++i)
    square += x[i] * x[i];
  double factor = multiplier / std::sqrt(square / gamma.size() + epsilon);
  for (size_t i = 0; i < gamma.size(); ++i)
    x[i] *= factor * gamma[i];
}

void Reference::rotate(double *values, int64_t position) const {
  int64_t half = spec.rope / 2;
  for (int64_t i = 0; i < half; ++i) {
    // The angle is formed in f32, as every serving system does.
    float angle = static_cast<float>(position) * spec.inverseFrequencies[i];
    double cosine = std::cos(angle) * spec.ropeMultiplier;
    double sine = std::sin(angle) * spec.ropeMultiplier;
    double &first = values[spec.isInterleaved ? 2 * i : i];
    double &second = values[spec.isInterleaved ? 2 * i + 1 : i + half];
    double a = first, b = second;
    first = a * cosine - b * sine;
    second = a * sine + b * cosine;
  }
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

const std::vector<float> &Reference::weight(const std::string &name, int64_t elements) const {
  auto found = weights.find(name);
  if (found == weights.end())
    throw std::runtime_error("the reference needs the weight '" + name + "'");
  if (static_cast<int64_t>(found->second.size()) != elements)
    throw std::runtime_error("the reference expects " + std::to_string(elements) +
                             " elements in '" + name + "', got " +
                             std::to_string(found->second.size()));
  return found->second;
}

Reference::Reference(const LayerSpec &spec, const WeightMap &weights)
    : spec(spec), weights(weights) {
  int64_t queries = spec.heads * (spec.nope + spec.rope);
  if (spec.queryRank > 0) {
    weight("q_a_proj.weight", spec.queryRank * spec.hidden);
    weight("q_a_layernorm.weight", spec.queryRank);
  }
  weight(spec.queryRank > 0 ? "q_b_proj.weight" : "q_proj.weight", queries * spec.queryInput());
  weight("kv_a_proj_with_mqa.weight", spec.rowWidth() * spec.hidden);
  weight("kv_a_layernorm.weight", spec.latentRank);
  weight("kv_b_proj.weight", spec.heads * (spec.nope + spec.value) * spec.latentRank);
  weight("o_proj.weight", spec.hidden * spec.heads * spec.value);
}

/// What codes of the row, with a scale for each group of columns, stand for.
static std::vector<float> quantiseRow(std::vector<float> row) {
  constexpr int64_t kGroup = 128;
  auto columns = static_cast<int64_t>(row.size());
  std::vector<uint8_t> codes(row.size());
  std::vector<float> scales((row.size() + kGroup - 1) / kGroup);
  check(mla_quantize_weight(row.data(), 1, columns, 1, kGroup, codes.data(), scales.data()),
        "quantising activations");
  return dequantise(codes.data(), scales, 1, columns, {1, kGroup});
}

template <typename T>
std::vector<double> Reference::multiply(const std::string &name, const T *x, int64_t in,
                                        int64_t out) const {
  if (!spec.quantised.count(name))
    return project(weights, name, x, in, out);
  std::vector<float> row = quantiseRow(std::vector<float>(x, x + in));
  return project(weights, name, row.data(), in, out);
}

std::vector<double> Reference::cachedRows(const float *hidden, int64_t tokens,
                                          int64_t first) const {
  std::vector<double> rows;
  for (int64_t token = 0; token < tokens; ++token) {
    std::vector<double> row =
        multiply("kv_a_proj_with_mqa", hidden + token * spec.hidden, spec.hidden, spec.rowWidth());
    normalise(row.data(), weights.at("kv_a_layernorm.weight"), spec.epsilon, spec.latentMultiplier);
    rotate(row.data() + spec.latentRank, first + token);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

/// All heads' [P + R], rope part rotated.
std::vector<double> Reference::query(const float *hidden, int64_t position) const {
  int64_t width = spec.nope + spec.rope, count = spec.heads * width;
  std::vector<double> result;
  if (spec.queryRank > 0) {
    std::vector<double> latent = multiply("q_a_proj", hidden, spec.hidden, spec.queryRank);
    normalise(latent.data(), weights.at("q_a_layernorm.weight"), spec.epsilon,
              spec.queryMultiplier);
    result = multiply("q_b_proj", latent.data(), spec.queryRank, count);
  } else {
    result = multiply("q_proj", hidden, spec.hidden, count);
  }
  for (int64_t head = 0; head < spec.heads; ++head)
    rotate(result.data() + head * width + spec.nope, position);
  return result;
}

/// Softmax of one query's scores over its visible rows, in place.
static void softmax(std::vector<double> &scores) {
  double top = *std::max_element(scores.begin(), scores.end()), total = 0;
  for (double &score : scores)
    total += score = std::exp(score - top);
  for (double &score : scores)
    score /= total;
}

/// Writes attended[q, head, :] for every query. Keys and values are expanded
/// once per row and used by all queries.
void Reference::attendHead(int64_t head, const std::vector<std::vector<double>> &queries,
                           const std::vector<int64_t> &positions, const std::vector<double> &rows,
                           std::vector<double> &attended) const {
  int64_t width = spec.rowWidth(), visible = 0;
  for (int64_t position : positions)
    visible = std::max(visible, position + 1);
  const float *up =
      weights.at("kv_b_proj.weight").data() + head * (spec.nope + spec.value) * spec.latentRank;
  std::vector<double> keys(visible * spec.nope), values(visible * spec.value);
  for (int64_t row = 0; row < visible; ++row) {
    const double *latent = rows.data() + row * width;
    for (int64_t i = 0; i < spec.nope; ++i)
      keys[row * spec.nope + i] = dot(latent, up + i * spec.latentRank, spec.latentRank);
    for (int64_t i = 0; i < spec.value; ++i)
      values[row * spec.value + i] =
          dot(latent, up + (spec.nope + i) * spec.latentRank, spec.latentRank);
  }
  for (size_t q = 0; q < queries.size(); ++q) {
    const double *query = queries[q].data() + head * (spec.nope + spec.rope);
    std::vector<double> scores(positions[q] + 1);
    for (size_t row = 0; row < scores.size(); ++row) {
      double score = 0;
      for (int64_t i = 0; i < spec.nope; ++i)
        score += query[i] * keys[row * spec.nope + i];
      for (int64_t i = 0; i < spec.rope; ++i)
        score += query[spec.nope + i] * rows[row * width + spec.latentRank + i];
      scores[row] = score * spec.softmaxScale;
    }
    softmax(scores);
    double *out = attended.data() + (q * spec.heads + head) * spec.value;
    for (size_t row = 0; row < scores.size(); ++row)
      for (int64_t i = 0; i < spec.value; ++i)
        out[i] += scores[row] * values[row * spec.value + i];
  }
}

std::vector<double> Reference::attend(const std::vector<const float *> &hidden,
                                      const std::vector<int64_t> &positions,
                                      const std::vector<double> &rows) const {
  std::vector<std::vector<double>> queries;
  for (size_t q = 0; q < hidden.size(); ++q)
    queries.push_back(query(hidden[q], positions[q]));
  int64_t width = spec.heads * spec.value;
  std::vector<double> attended(hidden.size() * width);
  parallelFor(spec.heads, [&](size_t begin, size_t end) {
    for (size_t head = begin; head < end; ++head)
      attendHead(head, queries, positions, rows, attended);
  });
  std::vector<double> output;
  for (size_t q = 0; q < hidden.size(); ++q) {
    std::vector<double> row = multiply("o_proj", attended.data() + q * width, width, spec.hidden);
    output.insert(output.end(), row.begin(), row.end());
  }
  return output;
}
