//===- ConfigWarnings.cpp - what others read otherwise ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ConfigWarnings.h"

#include "ConfigDefaults.h"
#include "ConfigParts.h"
#include "JsonPlaces.h"

#include "mla/Import/RopeTable.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlac;
using nlohmann::json;

/// transformers 5.17 (modeling_rope_utils) takes mscale and mscale_all_dim where both are there and
/// not 0, and g(factor, 1) otherwise; the specification has a default for each. Scores have
/// g(factor, mscale_all_dim)^2 in both.
static std::optional<ConfigProblem>
compareTemperatures(llvm::StringRef text, const ConfigReader &rope, const RopeParams &params) {
  bool hasOne = rope.find("mscale") != nullptr, hasAll = rope.find("mscale_all_dim") != nullptr;
  bool areBoth = hasOne && hasAll && params.mscale > 0 && params.mscaleAllDim > 0;
  double here = yarnTemperature(params.factor, params.mscale) /
                yarnTemperature(params.factor, params.mscaleAllDim);
  double there = areBoth ? here : yarnTemperature(params.factor, 1.0);
  if (std::abs(here - there) <= std::numeric_limits<float>::epsilon())
    return std::nullopt;
  llvm::StringRef key = hasOne ? "mscale" : "mscale_all_dim";
  std::string rest =
      hasOne && hasAll ? "and mscale_all_dim = " + ConfigReader::print(*rope.find("mscale_all_dim"))
                       : "without " + std::string(hasOne ? "mscale_all_dim" : "mscale");
  std::string message = llvm::formatv(
      "{0} = {1} {2}: cosines and sines are times g(factor, {3}) / g(factor, {4}) = "
      "{5:f6} here, and times g(factor, 1.0) = {6:f6} in transformers 5.17, which takes "
      "both keys or none; give both (not 0), or attention_factor",
      rope.name(key), ConfigReader::print(*rope.find(key)), rest,
      ConfigReader::print(params.mscale), ConfigReader::print(params.mscaleAllDim), here, there);
  return ConfigProblem{std::move(message), findMember(text, rope.name(key))};
}

/// Also of a correction range that is not rounded, which is read as factors of longrope's.
static bool isYarn(const ConfigReader &rope, const RopeParams &params) {
  return params.isApplied && params.kind != RopeKind::Plain &&
         rope.string(rope.find("rope_type") ? "rope_type" : "type") == "yarn";
}

/// Sequences that end before the model's positions do: vLLM's max_model_len is as long, and
/// transformers 5.24, which says that the factor is another one, has no end.
static std::optional<ConfigProblem> compareLengths(llvm::StringRef text, const ConfigReader &rope,
                                                   const ModelConfig &config) {
  constexpr llvm::StringLiteral kKey = "factor";
  if (config.rope.kind != RopeKind::Yarn)
    return std::nullopt;
  int64_t length = computeRopeTable(config).length;
  if (length >= config.maxPositionEmbeddings)
    return std::nullopt;
  // DeepSeek-V4's may have fields for layers with entries, which alone are stretched.
  std::optional<ConfigReader> entries = config.sharedKeys ? rope.child("compress") : std::nullopt;
  const ConfigReader &own = entries ? *entries : rope;
  return ConfigProblem{
      llvm::formatv("{0} = {1}: times original_max_position_embeddings = {2} it is {3} tokens, at "
                    "which sequences end here and in vLLM, before max_position_embeddings = {4}; "
                    "in transformers 5.24 they go on",
                    own.name(kKey), ConfigReader::print(*own.find(kKey)),
                    config.rope.originalMaxPositions, length, config.maxPositionEmbeddings)
          .str(),
      findMember(text, own.name(kKey))};
}

static ConfigProblem warnOfPairs(llvm::StringRef text, const ConfigReader &root,
                                 llvm::StringRef key, bool isOfHalvesThere,
                                 const ModelConfig &config) {
  return {llvm::formatv("{0} = {1}: rope is over {2} here, as the key says, and over {3} in "
                        "transformers 5.17, whose {4} does not read it",
                        root.name(key), ConfigReader::print(*root.find(key)),
                        isOfHalvesThere ? "neighbours" : "halves",
                        isOfHalvesThere ? "halves" : "neighbours", config.modelType)
              .str(),
          findMember(text, root.name(key))};
}

/// Pairs of rope by a key that the type's class does not read.
static std::optional<ConfigProblem> comparePairs(llvm::StringRef text, const ConfigReader &root,
                                                 const ModelConfig &config) {
  constexpr llvm::StringLiteral kKey = "rope_interleave";
  constexpr llvm::StringLiteral kDeaf[] = {"deepseek_v2", "deepseek_v32", "glm_moe_dsa",
                                           "longcat_flash", "minicpm3"};
  bool isOfHalves = config.grouped || config.modelType == "minicpm3";
  RopePairing there = isOfHalves ? RopePairing::Half : RopePairing::Interleaved;
  bool isRead = !config.grouped && !llvm::is_contained(kDeaf, config.modelType);
  if (isRead || !root.find(kKey) || config.rope.pairing == there || config.qkRopeHeadDim == 0)
    return std::nullopt;
  return warnOfPairs(text, root, kKey, isOfHalves, config);
}

/// The same of an indexer's, which no class reads.
static std::optional<ConfigProblem>
compareIndexerPairs(llvm::StringRef text, const ConfigReader &root, const ModelConfig &config) {
  constexpr llvm::StringLiteral kKey = "indexer_rope_interleave";
  bool isOfHalves = config.modelType == "deepseek_v32";
  RopePairing there = isOfHalves ? RopePairing::Half : RopePairing::Interleaved;
  if (!config.indexer || !root.find(kKey) || config.indexer->pairing == there)
    return std::nullopt;
  return warnOfPairs(text, root, kKey, isOfHalves, config);
}

/// The rotated part of heads, which vLLM's layers of groups of heads read.
static std::optional<ConfigProblem> compareShares(llvm::StringRef text, const ConfigReader &root,
                                                  const ModelConfig &config) {
  constexpr llvm::StringLiteral kKey = "partial_rotary_factor";
  if (!config.grouped || config.qkNopeHeadDim == 0)
    return std::nullopt;
  std::optional<ConfigReader> rope = root.child("rope_parameters");
  const ConfigReader &place = rope && rope->find(kKey) ? *rope : root;
  return ConfigProblem{
      llvm::formatv("{0} = {1}: the first {2} of {3} channels are rotated here, as the key says, "
                    "and all of them in transformers 5.17, whose {4} does not read it",
                    place.name(kKey), ConfigReader::print(*place.find(kKey)), config.qkRopeHeadDim,
                    config.vHeadDim, config.modelType)
          .str(),
      findMember(text, place.name(kKey))};
}

/// Windows of a type whose class has them in all layers, whatever these keys say, which vLLM reads.
static std::optional<ConfigProblem> compareWindows(llvm::StringRef text, const ConfigReader &root,
                                                   const ModelConfig &config) {
  constexpr llvm::StringLiteral kDeaf[] = {"ministral3", "mistral", "mixtral"};
  if (!llvm::is_contained(kDeaf, config.modelType) || config.grouped->window == 0)
    return std::nullopt;
  auto warn = [&](llvm::StringRef key, llvm::StringRef rest) -> std::optional<ConfigProblem> {
    return ConfigProblem{
        llvm::formatv("{0} = {1}: all layers have a window of {2} here and in transformers 5.17, "
                      "whose {3} does not read it; {4}",
                      root.name(key), ConfigReader::print(*root.find(key)), config.grouped->window,
                      config.modelType, rest)
            .str(),
        findMember(text, root.name(key))};
  };
  constexpr llvm::StringLiteral kUse = "use_sliding_window", kTypes = "layer_types";
  if (const json *use = root.find(kUse); use && *use == false)
    return warn(kUse, "with \"sliding_window\": null none has");
  const json *types = root.find(kTypes);
  if (types && llvm::any_of(*types, [](const json &type) { return type == "full_attention"; }))
    return warn(kTypes, "layers of ministral have them as it says");
  return std::nullopt;
}

/// Defaults of a type that another one is only like: its own class may have others.
static std::optional<ConfigProblem> findGuesses(const json &model, const ModelConfig &config) {
  json filled = model;
  std::string guesses;
  for (const std::string &key : fillDefaults(filled, config.modelType)) {
    bool isOfWindow = key == "sliding_window" || key == "max_window_layers";
    if (isOfWindow && config.grouped && config.grouped->window == 0)
      continue;
    guesses += (guesses.empty() ? "" : ", ") + key + " = " + ConfigReader::print(filled[key]);
  }
  if (guesses.empty())
    return std::nullopt;
  return ConfigProblem{
      llvm::formatv("the file lacks what --like={0} takes from that type's defaults, which the "
                    "model's own may differ from: {1}",
                    config.parsing.like, guesses)
          .str(),
      {}};
}

std::vector<ConfigProblem> mlac::findConfigWarnings(llvm::StringRef text,
                                                    const ModelConfig &config) {
  json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  std::vector<KeyProblem> errors; // parsing has said them
  llvm::StringRef part = findLanguageModel(document);
  const json &model = part.empty() ? document : document.at(part.str());
  ConfigReader root(model, part.empty() ? "" : part.str() + ".", errors);
  std::vector<std::optional<ConfigProblem>> found;
  auto [rope, isScaling] = findRopeFields(root);
  if (rope)
    found.push_back(compareLengths(text, *rope, config));
  // DeepSeek-V4's pairs and factors are what they are whatever the file says. What a type is only
  // like has a class of its own.
  bool isFixed = config.sharedKeys.has_value();
  if (rope && !isFixed && isYarn(*rope, config.rope) && !rope->find("attention_factor"))
    found.push_back(compareTemperatures(text, *rope, config.rope));
  if (!isFixed && config.parsing.like.empty()) {
    found.push_back(comparePairs(text, root, config));
    found.push_back(compareIndexerPairs(text, root, config));
    found.push_back(compareShares(text, root, config));
    found.push_back(compareWindows(text, root, config));
  } else if (!isFixed) {
    found.push_back(findGuesses(model, config));
  }
  std::vector<ConfigProblem> warnings;
  for (std::optional<ConfigProblem> &warning : found)
    if (warning)
      warnings.push_back(std::move(*warning));
  return warnings;
}
