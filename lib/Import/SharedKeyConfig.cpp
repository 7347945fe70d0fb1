//===- SharedKeyConfig.cpp - reads a DeepSeek-V4 configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Its layers are of three kinds, by the tokens of their entries (v4.md section 1):
//
//     0, 1   a window alone
//     4      entries of 4 tokens and of the 4 before, of which an indexer selects
//     128    entries of 128 tokens, all of them
//
// Published configurations list them as `compress_ratios`, those of transformers as names of kinds
// in `layer_types`, with `compress_rates` of each. Layers behind the last are those that
// predict several tokens, of a window alone.
//
//===----------------------------------------------------------------------===//

#include "ConfigParts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

using namespace mlac;
using nlohmann::json;

static constexpr int64_t kNone = 1, kSelected = 4, kAll = 128;

namespace {
/// What transformers calls layers with entries of `every` tokens.
struct Kind {
  int64_t every;
  llvm::StringLiteral name;
};
} // namespace

static constexpr Kind kKinds[] = {{kNone, "sliding_attention"},
                                  {kSelected, "compressed_sparse_attention"},
                                  {kAll, "heavily_compressed_attention"}};

/// Tokens of an entry; 1: none.
static int64_t checkEvery(const ConfigReader &place, llvm::StringRef key, int64_t every) {
  if (every == 0 || every == 1)
    return 1;
  if (every != kSelected && every != kAll)
    place.error(key, llvm::formatv("layers with entries of {0} tokens are not supported, expected "
                                   "0, 1, {1} or {2}",
                                   every, kSelected, kAll)
                         .str());
  return every;
}

/// The element of layer `layer` of a list, or null with an error.
static const json *findInList(const ConfigReader &root, llvm::StringRef key, int64_t layer,
                              int64_t layers) {
  const json &list = *root.find(key);
  if (list.is_array() && static_cast<int64_t>(list.size()) >= layers)
    return &list[static_cast<size_t>(layer)];
  root.error(key,
             llvm::formatv("expected a list with an element for each of the {0} layers of "
                           "num_hidden_layers{1}",
                           layers, list.is_array() ? ", got " + std::to_string(list.size()) : "")
                 .str());
  return nullptr;
}

static int64_t readEveryOfType(const ConfigReader &root, int64_t layer, int64_t layers) {
  const json *type = findInList(root, "layer_types", layer, layers);
  if (!type)
    return 1;
  std::string name = type->is_string() ? type->get<std::string>() : type->dump();
  const Kind *kind = llvm::find_if(kKinds, [&](const Kind &known) { return known.name == name; });
  if (kind == std::end(kKinds)) {
    llvm::SmallVector<llvm::StringRef, std::size(kKinds)> names;
    for (const Kind &known : kKinds)
      names.push_back(known.name);
    root.error("layer_types", "layer " + std::to_string(layer) + ": known types are " +
                                  llvm::join(names, ", ") + ", got " + ConfigReader::print(*type));
    return kNone;
  }
  if (kind->every == kNone)
    return kNone;
  std::optional<ConfigReader> rates = root.child("compress_rates");
  if (!rates)
    return kind->every;
  std::optional<int64_t> rate = rates->integer(name, 0, kMaxDim);
  return rate ? checkEvery(*rates, name, *rate) : kind->every;
}

/// Tokens of the layer's entries.
static int64_t readEvery(const ConfigReader &root, int64_t layer, int64_t layers) {
  if (layer >= layers) // of those that predict several tokens
    return 1;
  if (root.find("compress_ratios")) {
    const json *ratio = findInList(root, "compress_ratios", layer, layers);
    if (!ratio || ratio->is_null())
      return 1;
    if (ratio->is_number_unsigned() && *ratio <= kMaxDim)
      return checkEvery(root, "compress_ratios", ratio->get<int64_t>());
    root.error("compress_ratios",
               "layer " + std::to_string(layer) + ": expected an integer of at least 0");
    return 1;
  }
  if (root.find("layer_types"))
    return readEveryOfType(root, layer, layers);
  root.error("compress_ratios", "expected it, or layer_types: a list of the layers' kinds");
  return 1;
}

/// Layers with entries have a theta of their own, and are the only ones that are stretched;
/// nothing is scaled with them.
static void readSharedRope(const ConfigReader &root, bool hasEntries, ModelConfig &config) {
  RopeParams &params = config.rope;
  params.pairing = RopePairing::Interleaved;
  auto [all, isScaling] = findRopeFields(root);
  bool isByKind = all && all->find("main") && all->find("compress");
  std::optional<ConfigReader> own =
      isByKind ? all->child(hasEntries ? "compress" : "main") : std::nullopt;
  std::optional<double> theta = own ? own->number("rope_theta", 1, /*open=*/true) : std::nullopt;
  if (!theta)
    theta = root.number(hasEntries ? "compress_rope_theta" : "rope_theta", 1, /*open=*/true);
  if (!theta && hasEntries)
    root.error("compress_rope_theta", "layers with entries need it");
  params.theta = theta.value_or(kDefaultTheta);
  if (!hasEntries)
    return;
  std::optional<ConfigReader> fields = own ? own : all;
  std::optional<RopeKind> kind =
      fields ? readRopeKind(*fields, /*typeRequired=*/isScaling) : RopeKind::Plain;
  params.kind = kind.value_or(RopeKind::Plain);
  if (params.kind == RopeKind::LongRope)
    fields->error(fields->find("rope_type") ? "rope_type" : "type",
                  "expected default or yarn for this model type");
  if (params.kind != RopeKind::Yarn)
    return;
  readYarn(*fields, params);
  params.mscale = params.mscaleAllDim = 0;
  params.cosSinMultiplier = 1;
}

static void readEntryIndexer(const ConfigReader &root, const ConfigOptions &options,
                             ModelConfig &config) {
  if (!config.sharedKeys->selectsEntries()) {
    if (options.indexer != IndexerUse::Full)
      root.error("model_type", "layer " + std::to_string(options.layer) +
                                   " has no indexer: --indexer does not apply");
    return;
  }
  IndexerParams indexer;
  indexer.numHeads = root.requireInteger("index_n_heads", 1, kMaxDim);
  indexer.headDim = root.requireInteger("index_head_dim", 1, kMaxDim);
  indexer.topk = root.requireInteger("index_topk", 1, kMaxPositions);
  indexer.pairing = RopePairing::Interleaved;
  indexer.use = options.indexer;
  if (indexer.headDim && indexer.headDim < config.qkRopeHeadDim)
    root.error("index_head_dim",
               llvm::formatv("expected at least qk_rope_head_dim {0}", config.qkRopeHeadDim).str());
  if (options.indexer == IndexerUse::None)
    root.error("index_topk", "--indexer=none is for models whose dense attention is the same up to "
                             "so many tokens");
  config.indexer = indexer;
}

/// Heads and groups of them.
static void readHeads(const ConfigReader &root, const ConfigOptions &options, ModelConfig &config) {
  config.numHeadsTotal = root.requireInteger("num_attention_heads", 1, kMaxDim);
  if (root.integer("num_key_value_heads", 1, kMaxDim).value_or(1) != 1)
    root.error("num_key_value_heads", "expected 1: keys are shared by all heads");
  SharedKeyParams &shared = *config.sharedKeys;
  shared.outputGroups = root.requireInteger("o_groups", 1, kMaxDim);
  shared.outputRank = root.requireInteger("o_lora_rank", 1, kMaxDim);
  if (shared.outputGroups && config.numHeadsTotal % shared.outputGroups != 0)
    root.error(
        "o_groups",
        llvm::formatv("expected a divisor of num_attention_heads {0}", config.numHeadsTotal).str());
  if (options.tensorParallel >= 1 && shared.outputGroups % options.tensorParallel != 0)
    root.error("o_groups", llvm::formatv("expected a multiple of the tensor-parallel degree {0}",
                                         options.tensorParallel)
                               .str());
}

static void readWidths(const ConfigReader &root, ModelConfig &config) {
  config.hiddenSize = root.requireInteger("hidden_size", 1, kMaxDim);
  config.qLoraRank = root.requireInteger("q_lora_rank", 1, kMaxDim);
  config.kvLoraRank = config.vHeadDim = root.requireInteger("head_dim", 1, kMaxDim);
  config.qkRopeHeadDim = root.requireInteger("qk_rope_head_dim", 2, kMaxDim);
  if (config.qkRopeHeadDim % 2 != 0)
    root.error("qk_rope_head_dim", "expected an even number, pairs are rotated");
  if (config.kvLoraRank && config.qkRopeHeadDim >= config.kvLoraRank)
    root.error("qk_rope_head_dim",
               llvm::formatv("expected less than head_dim {0}", config.kvLoraRank).str());
  config.qkNopeHeadDim = config.kvLoraRank - config.qkRopeHeadDim;
  config.maxPositionEmbeddings = root.requireInteger("max_position_embeddings", 1, kMaxPositions);
}

void mlac::readSharedKeys(const ConfigReader &root, const ConfigOptions &options,
                          ModelConfig &config) {
  SharedKeyParams &shared = config.sharedKeys.emplace();
  config.numLayers = root.requireInteger("num_hidden_layers", 1, kMaxDim);
  // Those that predict several tokens come behind the others.
  int64_t last =
      config.numLayers - 1 + root.integer("num_nextn_predict_layers", 0, kMaxDim).value_or(1);
  if (options.layer < 0 || options.layer > last)
    root.error("num_hidden_layers",
               llvm::formatv("--layer={0}, expected 0 to {1}", options.layer, last).str());
  else
    shared.every = readEvery(root, options.layer, config.numLayers);
  readWidths(root, config);
  readHeads(root, options, config);
  shared.window = root.requireInteger("sliding_window", 1, kMaxPositions);
  readSharedRope(root, shared.hasEntries(), config);
  readEntryIndexer(root, options, config);
}

llvm::StringRef mlac::nameSharedKeys(const SharedKeyParams &shared) {
  return llvm::find_if(kKinds, [&](const Kind &known) { return known.every == shared.every; })
      ->name;
}
