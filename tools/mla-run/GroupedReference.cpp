//===- GroupedReference.cpp - attention by groups of heads, in double ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupedReference.h"

#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

using namespace mlac::run;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Configuration
//===----------------------------------------------------------------------===//

namespace {
/// Which layers have `sliding_window`; of Listed (else all), Even and Late ones `layer_types` says
/// it, if it is there.
enum class Windows { None, All, Listed, Even, Late };

/// What transformers' class of the type does beyond its keys.
struct Traits {
  const char *type;
  Windows windows = Windows::None;
  int64_t window = 0;         // without the key
  bool asksForWindow = false; // by `use_sliding_window`
  bool hasInputBias = false;  // whatever `attention_bias` says, and none of the output
  bool hasNoBias = false;     // whatever it says
  bool normalisesHeads = false, hasSinks = false, hasSoftcap = false;
};

constexpr Traits kTraits[] = {
    {.type = "gemma2", .windows = Windows::Even, .window = 4096, .hasSoftcap = true},
    {.type = "gpt_oss", .windows = Windows::Even, .window = 128, .hasSinks = true},
    {.type = "llama"},
    {.type = "ministral", .windows = Windows::Listed, .window = 4096, .hasNoBias = true},
    {.type = "ministral3", .windows = Windows::All, .hasNoBias = true},
    {.type = "mistral", .windows = Windows::All, .window = 4096, .hasNoBias = true},
    {.type = "mixtral", .windows = Windows::All, .hasNoBias = true},
    {.type = "qwen2",
     .windows = Windows::Late,
     .window = 4096,
     .asksForWindow = true,
     .hasInputBias = true},
    {.type = "qwen3",
     .windows = Windows::Late,
     .window = 4096,
     .asksForWindow = true,
     .normalisesHeads = true},
    {.type = "qwen3_moe",
     .windows = Windows::All,
     .window = 4096,
     .asksForWindow = true,
     .normalisesHeads = true},
};
} // namespace

static const Traits *findTraits(const std::string &type) {
  const Traits *found = std::find_if(std::begin(kTraits), std::end(kTraits),
                                     [&](const Traits &traits) { return traits.type == type; });
  return found == std::end(kTraits) ? nullptr : found;
}

bool mlac::run::isGroupedType(const std::string &type) { return findTraits(type) != nullptr; }

/// The key's number; `otherwise` where it is absent or null.
template <typename T> static T readNumber(const json &config, const char *key, T otherwise) {
  return config.contains(key) && config[key].is_number() ? config[key].get<T>() : otherwise;
}

static bool isWindowed(const json &config, Windows windows, int64_t layer) {
  if (windows == Windows::None || windows == Windows::All)
    return windows == Windows::All;
  if (config.contains("layer_types") && config["layer_types"].is_array())
    return config["layer_types"].at(layer) == "sliding_attention";
  if (windows == Windows::Listed)
    return true;
  return windows == Windows::Even ? layer % 2 == 0
                                  : layer >= readNumber<int64_t>(config, "max_window_layers", 28);
}

static int64_t readWindow(const json &config, const Traits &traits, int64_t layer) {
  if (traits.asksForWindow && !config.value("use_sliding_window", false))
    return 0;
  int64_t window = config.contains("sliding_window")
                       ? readNumber<int64_t>(config, "sliding_window", 0) // 0: null
                       : traits.window;
  return isWindowed(config, traits.windows, layer) ? window : 0;
}

static void readHeads(GroupedSpec &spec, const json &config, const LayerFacts &facts) {
  int64_t heads = config.at("num_attention_heads");
  spec.hidden = config.at("hidden_size");
  spec.heads = facts.heads;
  spec.kvHeads = readNumber(config, "num_key_value_heads", heads) / facts.ranks;
  spec.columns = readNumber(config, "head_dim", spec.hidden / heads);
  spec.epsilon = config.value("rms_norm_eps", spec.epsilon);
}

static int64_t readRotatedColumns(const GroupedSpec &spec, const json &config) {
  double share = readNumber(config, "partial_rotary_factor", 1.0);
  share = readNumber(readRopeKeys(config), "partial_rotary_factor", share);
  return static_cast<int64_t>(static_cast<double>(spec.columns) * share);
}

GroupedSpec mlac::run::readGroupedSpec(const json &config, const LayerFacts &facts) {
  const Traits &traits = *findTraits(config.at("model_type"));
  GroupedSpec spec;
  spec.quantised = facts.quantised;
  readHeads(spec, config, facts);
  bool hasBias = !traits.hasNoBias && config.value("attention_bias", traits.hasSinks);
  spec.hasInputBias = traits.hasInputBias || hasBias;
  // One bias for the sum over ranks, which whoever reduces adds.
  spec.hasOutputBias = !traits.hasInputBias && hasBias && facts.ranks == 1;
  spec.normalisesHeads = traits.normalisesHeads;
  spec.hasSinks = traits.hasSinks;
  spec.window = readWindow(config, traits, facts.layer);
  double scaledBy = static_cast<double>(spec.columns);
  if (traits.hasSoftcap) {
    spec.softcap = readNumber(config, "attn_logit_softcapping", 0.0);
    scaledBy = readNumber(config, "query_pre_attn_scalar", scaledBy);
  }
  spec.scale = 1 / std::sqrt(scaledBy);
  spec.rotation = readRotation(config, readRotatedColumns(spec, config), facts.longestSequence,
                               {"default", "linear", "llama3", "longrope", "yarn"});
  spec.rotation.isInterleaved = config.value("rope_interleave", false);
  return spec;
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

GroupedReference::GroupedReference(const GroupedSpec &spec, const WeightMap &map)
    : spec(spec), weights(map, spec.quantised) {
  std::set<std::string> names;
  auto require = [&](const std::string &name, int64_t elements) {
    weights.require(name, elements);
    names.insert(name);
  };
  int64_t queries = spec.heads * spec.columns, keys = spec.kvHeads * spec.columns;
  auto requireInput = [&](const std::string &name, int64_t rows) {
    require(name + ".weight", rows * spec.hidden);
    if (spec.hasInputBias)
      require(name + ".bias", rows);
  };
  requireInput("q_proj", queries);
  requireInput("k_proj", keys);
  requireInput("v_proj", keys);
  require("o_proj.weight", spec.hidden * queries);
  if (spec.hasOutputBias)
    require("o_proj.bias", spec.hidden);
  if (spec.normalisesHeads)
    for (const char *name : {"q_norm.weight", "k_norm.weight"})
      require(name, spec.columns);
  if (spec.hasSinks)
    require("sinks", spec.heads);
  weights.requireOnly(names);
}

std::vector<double> GroupedReference::makeHeads(const std::string &projection,
                                                const std::string &norm, const float *hidden,
                                                int64_t heads, int64_t first,
                                                int64_t tokens) const {
  std::vector<double> rows =
      weights.multiply(projection, hidden, spec.hidden, heads * spec.columns, tokens);
  for (int64_t row = 0; row < tokens * heads; ++row) {
    double *values = rows.data() + row * spec.columns;
    if (spec.normalisesHeads)
      normalise(values, weights.get(norm), spec.epsilon);
    spec.rotation.apply(values, first + row / heads);
  }
  return rows;
}

std::vector<double> GroupedReference::cachedRows(const float *hidden, int64_t tokens,
                                                 int64_t first) const {
  int64_t width = spec.kvHeads * spec.columns;
  std::vector<double> keys =
      makeHeads("k_proj", "k_norm.weight", hidden, spec.kvHeads, first, tokens);
  std::vector<double> values = weights.multiply("v_proj", hidden, spec.hidden, width, tokens);
  std::vector<double> rows;
  for (int64_t token = 0; token < tokens; ++token)
    for (const std::vector<double> *part : {&keys, &values})
      rows.insert(rows.end(), part->begin() + token * width, part->begin() + (token + 1) * width);
  return rows;
}

/// Adds the weighted sum of the values that one head's query sees to attended[D].
void GroupedReference::attendHead(int64_t head, const std::vector<double> &query, int64_t position,
                                  const std::vector<double> &rows, double *attended) const {
  int64_t width = spec.rowWidth(), kvHead = head / (spec.heads / spec.kvHeads);
  int64_t begin = spec.window > 0 ? std::max<int64_t>(position + 1 - spec.window, 0) : 0;
  const double *keys = rows.data() + kvHead * spec.columns;
  const double *values = keys + spec.kvHeads * spec.columns;
  std::vector<double> scores;
  for (int64_t row = begin; row <= position; ++row) {
    double score =
        spec.scale * dot(query.data() + head * spec.columns, keys + row * width, spec.columns);
    scores.push_back(spec.softcap > 0 ? spec.softcap * std::tanh(score / spec.softcap) : score);
  }
  softmax(scores, spec.hasSinks ? std::optional<double>(weights.get("sinks")[head]) : std::nullopt);
  for (int64_t row = begin; row <= position; ++row)
    for (int64_t i = 0; i < spec.columns; ++i)
      attended[i] += scores[row - begin] * values[row * width + i];
}

std::vector<double> GroupedReference::attend(const std::vector<const float *> &hidden,
                                             const std::vector<int64_t> &positions,
                                             const std::vector<double> &rows) const {
  int64_t width = spec.heads * spec.columns;
  std::vector<double> output;
  for (size_t q = 0; q < hidden.size(); ++q) {
    std::vector<double> query =
        makeHeads("q_proj", "q_norm.weight", hidden[q], spec.heads, positions[q], /*tokens=*/1);
    std::vector<double> attended(width);
    parallelFor(spec.heads, [&](size_t begin, size_t end) {
      for (size_t head = begin; head < end; ++head)
        attendHead(head, query, positions[q], rows, attended.data() + head * spec.columns);
    });
    std::vector<double> row = weights.multiply("o_proj", attended.data(), width, spec.hidden);
    output.insert(output.end(), row.begin(), row.end());
  }
  return output;
}
