//===- StepWork.cpp - what a step must do at the least ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   latents          every key, or index_topk of them; the cheaper of both forms if every one
//   shared keys      sliding_window tokens, and entries that stand for r tokens each: all, or
//   index_topk heads' keys      every key, or sliding_window an indexer       a product of its
//   heads with every index key
//
//===----------------------------------------------------------------------===//

#include "StepWork.h"

#include "GroupedReference.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlac::run;
using nlohmann::json;

static constexpr double kAll = std::numeric_limits<double>::infinity();

namespace {
/// What a token attends to.
struct Visible {
  double window = kAll;   // of tokens
  double selected = kAll; // of tokens, or of entries where there are any
  double ofEntry = 0;     // tokens that an entry stands for; 0: there are none
};

/// Pairs of queries and keys.
struct Pairs {
  double tokens = 0, entries = 0, index = 0;
};
} // namespace

static const json *findPool(const Session &session, const std::string &name) {
  for (const json &pool : session.info.at("pools"))
    if (pool.at("name") == name)
      return &pool;
  return nullptr;
}

/// Whether heads have keys and values of their own; the cache's two fields, then.
static const json *findHeadFields(const Session &session) {
  const json *cache = findPool(session, "cache");
  bool hasHeads = cache && cache->at("format").get<std::string>().rfind("kv_nhd", 0) == 0;
  return hasHeads ? &cache->at("fields") : nullptr;
}

/// A module of the user's has none: its tokens attend to every key, for all that is known.
static bool hasConfig(const Session &session) {
  const json &model = session.info.at("model");
  return model.contains("config") && model.at("config") != "";
}

static Visible findVisible(const Session &session) {
  Visible visible;
  if (!hasConfig(session))
    return visible;
  if (std::optional<int64_t> selected = session.selectedKeys())
    visible.selected = static_cast<double>(*selected);
  const json &model = session.info.at("model");
  std::string type = model.at("model_type");
  if (type == "deepseek_v4") {
    visible.window = session.modelConfig().at("sliding_window");
    if (const json *entries = findPool(session, "entries"))
      visible.ofEntry = entries->at("tokens_per_row");
  } else if (isGroupedType(type)) {
    GroupedSpec spec = readGroupedSpec(session.modelConfig(), {.layer = session.layerNumber()});
    if (spec.window > 0)
      visible.window = static_cast<double>(spec.window);
  }
  return visible;
}

static Pairs countPairs(const Visible &visible, const BenchPoint &point, bool hasIndex) {
  Pairs pairs;
  for (int64_t i = 1; i <= point.query; ++i) {
    auto seen = static_cast<double>(point.context + i);
    double entries = visible.ofEntry > 0 ? std::floor(seen / visible.ofEntry) : 0;
    pairs.tokens += std::min(
        seen, visible.ofEntry > 0 ? visible.window : std::min(visible.window, visible.selected));
    pairs.entries += std::min(entries, visible.selected);
    if (hasIndex)
      pairs.index += visible.ofEntry > 0 ? entries : seen;
  }
  auto batch = static_cast<double>(point.batch);
  return {batch * pairs.tokens, batch * pairs.entries, batch * pairs.index};
}

namespace {
struct WeightWork {
  double bytes = 0, elements = 0; // elements that each token is multiplied by
};
} // namespace

static double countElements(const json &tensor) {
  double count = 1;
  for (const json &size : tensor.at("shape"))
    count *= size.get<double>();
  return count;
}

/// The up-projection of latents is a part of either form of attention.
static WeightWork countWeights(const Session &session) {
  WeightWork work;
  for (const json &tensor : session.info.at("weights")) {
    double count = countElements(tensor);
    std::string type = tensor.at("dtype"), name = tensor.at("name");
    double bytes = type == "f32" ? 4 : type == "bf16" || type == "f16" ? 2 : 1;
    work.bytes += bytes * count;
    bool isMatrix = tensor.at("shape").size() > 1 && type != "f32";
    if (isMatrix && name.find("kv_b_proj") == std::string::npos)
      work.elements += count;
  }
  return work;
}

/// Of a pool, rows that tokens attend to are read once, however many do.
static double countRowBytes(const Session &session, const std::string &name, double attended,
                            const BenchPoint &point) {
  const json *pool = findPool(session, name);
  if (!pool)
    return 0;
  double tokens =
      static_cast<double>(point.batch) * static_cast<double>(point.context + point.query);
  double rows = std::floor(tokens / pool->at("tokens_per_row").get<double>());
  return std::min(rows, attended) * pool->at("row_bytes").get<double>();
}

/// Multiplications of attention, and of the latents' up-projection in a layer.
static double countAttention(const Session &session, const BenchPoint &point,
                             const Visible &visible, const Pairs &pairs, bool isLayer) {
  const json &model = session.info.at("model");
  double heads = session.heads, latent = model.at("kv_lora_rank");
  double nope = model.at("qk_nope_head_dim"), rope = model.at("qk_rope_head_dim");
  double value = model.at("v_head_dim"), both = pairs.tokens + pairs.entries;
  std::string type = model.at("model_type");
  if (type == "deepseek_v4") // keys are the values
    return heads * 2 * latent * both;
  if (const json *fields = findHeadFields(session))
    return heads * both *
           (fields->at(0).at("columns").get<double>() + fields->at(1).at("columns").get<double>());
  double tokens = point.batch * point.query;
  double keys = point.batch * (point.context + point.query);
  double onLatents = heads * (2 * latent + rope) * both;
  if (!isLayer)
    return onLatents;
  double up = heads * latent * (nope + value);
  double absorbed = tokens * up + onLatents;
  double expanded = keys * up + heads * (nope + rope + value) * both;
  return visible.selected == kAll ? std::min(expanded, absorbed) : absorbed;
}

static double countIndex(const Session &session, const Pairs &pairs) {
  const json *index = findPool(session, "index");
  if (!index || !hasConfig(session))
    return 0;
  double columns = index->at("fields").at(0).at("columns");
  return session.modelConfig().at("index_n_heads").get<double>() * columns * pairs.index;
}

StepWork mlac::run::countWork(const Session &session, const BenchPoint &point, bool isLayer) {
  Visible visible = findVisible(session);
  Pairs pairs = countPairs(visible, point, findPool(session, "index") != nullptr);
  double tokens = point.batch * point.query;
  double bytes = countRowBytes(session, "cache", pairs.tokens, point) +
                 countRowBytes(session, "entries", pairs.entries, point);
  double products = countAttention(session, point, visible, pairs, isLayer);
  auto perElement = static_cast<double>(elementBytes(session.activation));
  if (!isLayer) {
    const json &model = session.info.at("model");
    double latent = model.at("kv_lora_rank"), rope = model.at("qk_rope_head_dim");
    return {bytes + perElement * tokens * session.heads * (2 * latent + rope), 2 * products};
  }
  WeightWork weights = countWeights(session);
  bytes += weights.bytes + countRowBytes(session, "index", pairs.index, point) +
           perElement * 2 * tokens * session.hidden;
  products += weights.elements * tokens + countIndex(session, pairs);
  return {bytes, 2 * products};
}
