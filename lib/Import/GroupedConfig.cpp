//===- GroupedConfig.cpp - reads configurations of groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Multi-head, grouped-query and multi-query attention of the models whose layers have q_proj,
// k_proj, v_proj and o_proj. Their layers may differ in one thing, the window, so that
// `--layer` says which one it is.
//
// Rope has three ways to stretch frequencies that the others' models do not know. Each divides
// the frequency of a pair by a number of its own, which is what longrope's factors are: they
// are passed on as those.
//
//===----------------------------------------------------------------------===//

#include "ConfigParts.h"

#include "mla/Dialect/Mla/IR/Softcap.h"
#include "mla/Import/RopeTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <numbers>

using namespace mlac;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

static int64_t readHeadDim(const ConfigReader &root, const ModelConfig &config) {
  if (root.find("head_dim"))
    return root.requireInteger("head_dim", 1, kMaxDim);
  if (!config.hiddenSize || !config.numHeadsTotal)
    return 0;
  if (config.hiddenSize % config.numHeadsTotal != 0)
    root.error("head_dim", llvm::formatv("hidden_size {0} is no multiple of num_attention_heads "
                                         "{1} to derive it",
                                         config.hiddenSize, config.numHeadsTotal)
                               .str());
  return config.hiddenSize / config.numHeadsTotal;
}

/// Channels of a head that are rotated, the first ones.
static int64_t readRotated(const ConfigReader &root, int64_t headDim) {
  // transformers 5 has the share of the head beside the other parameters of rope.
  std::optional<ConfigReader> rope = root.child("rope_parameters");
  std::optional<double> share = rope ? rope->number("partial_rotary_factor", 0) : std::nullopt;
  if (!share)
    share = root.number("partial_rotary_factor", 0);
  if (!share)
    share = 1;
  auto rotated = static_cast<int64_t>(static_cast<double>(headDim) * std::min(*share, 2.0));
  if (*share <= 1 && rotated % 2 == 0)
    return rotated;
  root.error(
      root.find("partial_rotary_factor") ? "partial_rotary_factor" : "head_dim",
      llvm::formatv("expected an even number of rotated channels up to head_dim {0}, got {1}",
                    headDim, rotated)
          .str());
  return 0;
}

static void readHeads(const ConfigReader &root, const ConfigOptions &options, ModelConfig &config) {
  config.numLayers = root.requireInteger("num_hidden_layers", 1, kMaxDim);
  config.hiddenSize = root.requireInteger("hidden_size", 1, kMaxDim);
  config.numHeadsTotal = root.requireInteger("num_attention_heads", 1, kMaxDim);
  GroupedParams &grouped = *config.grouped;
  grouped.kvHeadsTotal =
      root.integer("num_key_value_heads", 1, kMaxDim).value_or(config.numHeadsTotal);
  if (grouped.kvHeadsTotal && config.numHeadsTotal % grouped.kvHeadsTotal != 0)
    root.error(
        "num_key_value_heads",
        llvm::formatv("expected a divisor of num_attention_heads {0}", config.numHeadsTotal).str());
  if (options.tensorParallel >= 1 && grouped.kvHeadsTotal % options.tensorParallel != 0)
    root.error("num_key_value_heads",
               llvm::formatv("expected a multiple of the tensor-parallel degree {0}",
                             options.tensorParallel)
                   .str());
  config.vHeadDim = readHeadDim(root, config);
  config.qkRopeHeadDim = readRotated(root, config.vHeadDim);
  config.qkNopeHeadDim = config.vHeadDim - config.qkRopeHeadDim;
  config.maxPositionEmbeddings = root.requireInteger("max_position_embeddings", 1, kMaxPositions);
}

//===----------------------------------------------------------------------===//
// Masks and scores
//===----------------------------------------------------------------------===//

/// By the list of the layers' kinds; none without one.
static std::optional<bool> readWindowOfType(const ConfigReader &root, int64_t layer) {
  const json *types = root.find("layer_types");
  if (!types)
    return std::nullopt;
  if (!types->is_array() || static_cast<int64_t>(types->size()) <= layer) {
    std::string count = types->is_array() ? ", got " + std::to_string(types->size()) : "";
    root.error("layer_types",
               "expected a list with an element for each of num_hidden_layers" + count);
    return false;
  }
  const json &type = (*types)[static_cast<size_t>(layer)];
  if (type == "sliding_attention" || type == "full_attention")
    return type == "sliding_attention";
  root.error("layer_types", "layer " + std::to_string(layer) +
                                ": known types are full_attention, sliding_attention, got " +
                                ConfigReader::print(type));
  return false;
}

static bool hasWindow(const ConfigReader &root, GroupedType::Windows windows, int64_t layer) {
  using Windows = GroupedType::Windows;
  if (windows == Windows::All)
    return true;
  if (std::optional<bool> byType = readWindowOfType(root, layer))
    return *byType;
  if (windows == Windows::ByList)
    return true;
  if (windows == Windows::EverySecond)
    return layer % 2 == 0;
  return layer >= root.integer("max_window_layers", 0, kMaxDim).value_or(kMaxDim);
}

/// Of types whose class does not read the list: Llama's, which vLLM reads, and those that are only
/// like one.
static void checkWindowOfType(const ConfigReader &root, const GroupedType &type,
                              const ConfigOptions &options, int64_t window) {
  using Windows = GroupedType::Windows;
  bool isLike = type.windows == Windows::All && !options.like.empty();
  if (type.windows != Windows::None && !isLike)
    return;
  int64_t layer = options.layer;
  std::optional<bool> isSliding = readWindowOfType(root, layer);
  if (isSliding && *isSliding != (window > 0))
    root.error(
        "layer_types",
        llvm::formatv("layer {0} is {1}, and all layers of such models have {2}, expected "
                      "{3} or no list",
                      layer, *isSliding ? "sliding_attention" : "full_attention",
                      window > 0 ? llvm::formatv("a window of {0}", window).str() : "no window",
                      window > 0 ? "sliding_attention" : "full_attention")
            .str());
}

/// 0: none.
static int64_t readWindow(const ConfigReader &root, const GroupedType &type, int64_t layer) {
  using Windows = GroupedType::Windows;
  if (type.windows == Windows::None)
    return 0;
  bool isOff = type.isWindowOptional && !root.boolean("use_sliding_window").value_or(false);
  int64_t window = 0;
  if (!isOff)
    window = root.integer("sliding_window", 1, kMaxPositions).value_or(0);
  if (!hasWindow(root, type.windows, layer))
    return 0;
  // Without a window no layer is late; others are what a list or the type says.
  bool isListed = type.windows == Windows::Late || type.windows == Windows::ByList;
  bool needsWindow = type.windows == Windows::EverySecond || (isListed && root.find("layer_types"));
  if (window == 0 && needsWindow)
    root.error(isOff ? "use_sliding_window" : "sliding_window",
               llvm::formatv("layer {0} is sliding_attention, which needs a window", layer).str());
  return window;
}

static void readScores(const ConfigReader &root, const GroupedType &type,
                       const ConfigOptions &options, ModelConfig &config) {
  GroupedParams &grouped = *config.grouped;
  if (config.numLayers == 0) {
    // Its own error is said.
  } else if (options.layer < 0 || options.layer >= config.numLayers) {
    root.error(
        "num_hidden_layers",
        llvm::formatv("--layer={0}, expected 0 to {1}", options.layer, config.numLayers - 1).str());
  } else {
    grouped.window = readWindow(root, type, options.layer);
    checkWindowOfType(root, type, options, grouped.window);
  }
  grouped.hasSinks = type.hasSinks;
  if (!type.hasSoftcap)
    return;
  grouped.softcap = root.number("attn_logit_softcapping", 0, /*open=*/true).value_or(0);
  if (grouped.softcap > mlir::mla::kMaxSoftcap)
    root.error(
        "attn_logit_softcapping",
        llvm::formatv("expected at most {0:f0}, or null for none", mlir::mla::kMaxSoftcap).str());
  if (std::optional<double> scalar = root.number("query_pre_attn_scalar", 0, /*open=*/true))
    grouped.scale = 1 / std::sqrt(*scalar);
}

//===----------------------------------------------------------------------===//
// Rope
//===----------------------------------------------------------------------===//

/// Frequencies between those as they are and those divided by `factor`, by their wavelengths
/// (Llama 3.1).
static double stretchByWavelength(double wavelength, double factor, double low, double high,
                                  double trained) {
  double turns = trained / (2 * std::numbers::pi * wavelength);
  double share = high == low ? (turns >= high) : std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return 1 / ((1 - share) / factor + share);
}

/// What each pair's frequency is divided by; empty where the kind is another one.
static std::vector<double> readStretches(const ConfigReader &rope, const std::string &kind,
                                         int64_t rotated, RopeParams &params) {
  std::vector<double> stretches;
  auto forPairs = [&](llvm::function_ref<double(int64_t, double)> stretch) {
    for (int64_t pair = 0; pair < rotated / 2; ++pair)
      stretches.push_back(
          stretch(pair, std::pow(params.theta, 2.0 * static_cast<double>(pair) / rotated)));
  };
  auto require = [&](llvm::StringRef key, int64_t least) {
    if (!rope.find(key))
      rope.error(key, kind + " needs it");
    return rope.number(key, least, /*open=*/least == 0).value_or(1);
  };
  if (kind == "linear") {
    double factor = require("factor", 1);
    forPairs([&](int64_t, double) { return factor; });
  } else if (kind == "llama3") {
    double factor = require("factor", 1), low = require("low_freq_factor", 0),
           high = require("high_freq_factor", 0);
    auto trained = static_cast<double>(
        rope.requireInteger("original_max_position_embeddings", 1, kMaxPositions));
    if (high < low)
      rope.error("high_freq_factor", "expected at least low_freq_factor");
    forPairs([&](int64_t, double wavelength) {
      return stretchByWavelength(wavelength, factor, low, high, trained);
    });
  }
  return stretches;
}

/// YaRN whose correction range is not rounded to whole pairs (gpt-oss).
static std::vector<double> readUnroundedYarn(const ConfigReader &rope, int64_t rotated,
                                             RopeParams &params) {
  readYarn(rope, params, /*isRounded=*/false);
  auto [low, high] = yarnCorrectionRange(params, rotated);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotated - 1));
  if (low == high)
    high += 0.001; // keeps the ramp's slope finite
  std::vector<double> stretches;
  for (int64_t pair = 0; pair < rotated / 2; ++pair) {
    double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    stretches.push_back(1 / (ramp / params.factor + (1 - ramp)));
  }
  return stretches;
}

static void readStretchedRope(const ConfigReader &root, ModelConfig &config) {
  std::optional<ConfigReader> fields = findRopeFields(root).fields;
  llvm::StringRef key = fields && fields->find("rope_type") ? "rope_type" : "type";
  std::string kind = fields && fields->find(key) ? fields->string(key).value_or("") : "";
  RopeParams &params = config.rope;
  bool isUnrounded =
      kind == "yarn" && fields->find("truncate") && !fields->boolean("truncate").value_or(true);
  if (!isUnrounded && kind != "linear" && kind != "llama3")
    return readRope(root, RopePairing::Half, config);
  bool isInterleaved = root.boolean("rope_interleave").value_or(false);
  params.pairing = isInterleaved ? RopePairing::Interleaved : RopePairing::Half;
  std::optional<double> theta = fields->number("rope_theta", 1, /*open=*/true);
  params.theta = theta ? *theta : root.number("rope_theta", 1, true).value_or(kDefaultTheta);
  readQueryScaling(root, fields, params);
  double multiplier = 1;
  if (isUnrounded) {
    params.shortFactor = readUnroundedYarn(*fields, config.qkRopeHeadDim, params);
    multiplier =
        fields->number("attention_factor", 0, /*open=*/true).value_or(yarnMultiplier(params));
  } else {
    params.shortFactor = readStretches(*fields, kind, config.qkRopeHeadDim, params);
  }
  params.longFactor = params.shortFactor;
  params.kind = RopeKind::LongRope;
  params.originalMaxPositions = config.maxPositionEmbeddings;
  params.cosSinMultiplier = multiplier;
}

void mlac::readGrouped(const ConfigReader &root, const GroupedType &type,
                       const ConfigOptions &options, ModelConfig &config) {
  GroupedParams &grouped = config.grouped.emplace();
  using Biases = GroupedType::Biases;
  bool isByKey = type.biases == Biases::ByKey;
  grouped.hasOutputBias = isByKey && root.boolean("attention_bias").value_or(false);
  grouped.hasInputBias = type.biases == Biases::InputsOnly || grouped.hasOutputBias;
  grouped.normalisesHeads = type.normalisesHeads;
  readHeads(root, options, config);
  readScores(root, type, options, config);
  readStretchedRope(root, config);
}
