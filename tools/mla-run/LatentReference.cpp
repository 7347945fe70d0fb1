//===- LatentReference.cpp - multi-head latent attention, in double ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LatentReference.h"

#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

using namespace mlac::run;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

/// Angles, and what YaRN makes of the scale.
static void readRope(LatentSpec &spec, const json &config, int64_t longestSequence) {
  auto type = config.at("model_type").get<std::string>();
  if (type == "kimi_linear") // positions rotate nothing
    return spec.rotation.inverseFrequencies.assign(spec.rope / 2, 0.0f);
  // Without rope parts there is nothing to rotate, but the scale is corrected all the
  // same (mla.md section 4).
  spec.rotation = readRotation(config, spec.rope, longestSequence, {"default", "longrope", "yarn"});
  spec.rotation.isInterleaved = config.value("rope_interleave", type != "minicpm3");
  json keys = readRopeKeys(config);
  if (readRopeKind(keys) == "yarn") {
    double allDim = yarnTemperature(keys.at("factor"), keys.value("mscale_all_dim", 0.0));
    spec.softmaxScale *= allDim * allDim;
  }
}

LatentSpec mlac::run::readLatentSpec(const json &config, const LayerFacts &facts) {
  LatentSpec spec;
  spec.hidden = config.at("hidden_size");
  spec.heads = facts.heads;
  spec.quantised = facts.quantised;
  if (config.contains("q_lora_rank") && config["q_lora_rank"].is_number())
    spec.queryRank = config["q_lora_rank"];
  spec.latentRank = config.at("kv_lora_rank");
  spec.nope = config.at("qk_nope_head_dim");
  spec.rope = config.at("qk_rope_head_dim");
  spec.value =
      config.value("v_head_dim", spec.hidden / config.at("num_attention_heads").get<int64_t>());
  spec.softmaxScale = 1 / std::sqrt(static_cast<double>(spec.nope + spec.rope));
  readRope(spec, config, facts.longestSequence);
  if (config.at("model_type") == "longcat_flash") {
    spec.latentMultiplier = std::sqrt(static_cast<double>(spec.hidden) / spec.latentRank);
    if (spec.queryRank > 0)
      spec.queryMultiplier = std::sqrt(static_cast<double>(spec.hidden) / spec.queryRank);
  }
  return spec;
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

LatentReference::LatentReference(const LatentSpec &spec, const WeightMap &map)
    : spec(spec), weights(map, spec.quantised) {
  int64_t queries = spec.heads * (spec.nope + spec.rope);
  if (spec.queryRank > 0) {
    weights.require("q_a_proj.weight", spec.queryRank * spec.hidden);
    weights.require("q_a_layernorm.weight", spec.queryRank);
  }
  weights.require(spec.queryRank > 0 ? "q_b_proj.weight" : "q_proj.weight",
                  queries * spec.queryInput());
  weights.require("kv_a_proj_with_mqa.weight", spec.rowWidth() * spec.hidden);
  weights.require("kv_a_layernorm.weight", spec.latentRank);
  weights.require("kv_b_proj.weight", spec.heads * (spec.nope + spec.value) * spec.latentRank);
  weights.require("o_proj.weight", spec.hidden * spec.heads * spec.value);
}

std::vector<double> LatentReference::cachedRows(const float *hidden, int64_t tokens,
                                                int64_t first) const {
  std::vector<double> rows;
  for (int64_t token = 0; token < tokens; ++token) {
    std::vector<double> row = weights.multiply("kv_a_proj_with_mqa", hidden + token * spec.hidden,
                                               spec.hidden, spec.rowWidth());
    normalise(row.data(), weights.get("kv_a_layernorm.weight"), spec.epsilon,
              spec.latentMultiplier);
    spec.rotation.apply(row.data() + spec.latentRank, first + token);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

/// All heads' [P + R], rope part rotated.
std::vector<double> LatentReference::query(const float *hidden, int64_t position) const {
  int64_t width = spec.nope + spec.rope, count = spec.heads * width;
  std::vector<double> result;
  if (spec.queryRank > 0) {
    std::vector<double> latent = weights.multiply("q_a_proj", hidden, spec.hidden, spec.queryRank);
    normalise(latent.data(), weights.get("q_a_layernorm.weight"), spec.epsilon,
              spec.queryMultiplier);
    result = weights.multiply("q_b_proj", latent.data(), spec.queryRank, count);
  } else {
    result = weights.multiply("q_proj", hidden, spec.hidden, count);
  }
  for (int64_t head = 0; head < spec.heads; ++head)
    spec.rotation.apply(result.data() + head * width + spec.nope, position);
  return result;
}

/// Writes attended[q, head, :] for every query. Keys and values are expanded
/// once per row and used by all queries.
void LatentReference::attendHead(int64_t head, const std::vector<std::vector<double>> &queries,
                                 const std::vector<int64_t> &positions,
                                 const std::vector<double> &rows,
                                 std::vector<double> &attended) const {
  int64_t width = spec.rowWidth(), visible = 0;
  for (int64_t position : positions)
    visible = std::max(visible, position + 1);
  const float *up =
      weights.get("kv_b_proj.weight").data() + head * (spec.nope + spec.value) * spec.latentRank;
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

std::vector<double> LatentReference::attend(const std::vector<const float *> &hidden,
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
    std::vector<double> row =
        weights.multiply("o_proj", attended.data() + q * width, width, spec.hidden);
    output.insert(output.end(), row.begin(), row.end());
  }
  return output;
}
