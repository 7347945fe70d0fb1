//===- ModelConfig.cpp - reads config.json ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which keys make up each part of a configuration, and what they must agree on.
// Every check collects its error and goes on, so that one run reports them all.
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ModelConfig.h"

#include "ConfigDefaults.h"
#include "ConfigParts.h"
#include "ConfigReader.h"
#include "JsonPlaces.h"
#include "QuantizationConfig.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

using namespace mlac;
using nlohmann::json;

namespace {

/// transformers' default epsilon of q_a_layernorm and kv_a_layernorm.
constexpr double kDefaultNormEps = 1e-6;

/// What a model type implies beyond its keys.
struct ModelType {
  llvm::StringLiteral name;
  RopePairing pairing = RopePairing::Interleaved;
  bool hasIndexer = false;
  RopePairing indexerPairing = RopePairing::Half;
  int64_t attentionsPerLayer = 1;
  /// Scales query and latent by sqrt(H / rank).
  bool scalesLatents = false;
  llvm::StringLiteral layersKey = "num_hidden_layers";
  /// Another key of the longest sequence; empty: none.
  llvm::StringLiteral positionsKey = "";
  /// Whether positions rotate the rope part.
  bool rotates = true;
  /// Keys are values too, of a window and of entries of several tokens (SharedKeyConfig.cpp).
  bool hasSharedKeys = false;
  /// Groups of heads share keys and values of their own (GroupedConfig.cpp).
  std::optional<GroupedType> grouped = std::nullopt;
};

using Biases = GroupedType::Biases;
using Windows = GroupedType::Windows;

constexpr ModelType kModelTypes[] = {
    {"axk1"},
    {"deepseek_v2"},
    {"deepseek_v3"},
    // DeepSeek's correction of 2025-11-17: the indexer's rope is half-split.
    {.name = "deepseek_v32", .hasIndexer = true},
    {.name = "deepseek_v4", .hasSharedKeys = true},
    {.name = "gemma2", .grouped = GroupedType{.hasSoftcap = true, .windows = Windows::EverySecond}},
    {"glm4_moe_lite"},
    {.name = "glm_moe_dsa", .hasIndexer = true, .indexerPairing = RopePairing::Interleaved},
    {.name = "gpt_oss", .grouped = GroupedType{.hasSinks = true, .windows = Windows::EverySecond}},
    {"kimi_k2"},
    // Its layers with latent attention; the others are a recurrence.
    {.name = "kimi_linear", .positionsKey = "model_max_length", .rotates = false},
    {.name = "llama", .grouped = GroupedType{}},
    {.name = "longcat_flash",
     .attentionsPerLayer = 2,
     .scalesLatents = true,
     .layersKey = "num_layers"},
    {.name = "minicpm3", .pairing = RopePairing::Half},
    {.name = "ministral",
     .grouped = GroupedType{.biases = Biases::None, .windows = Windows::ByList}},
    {.name = "ministral3", .grouped = GroupedType{.biases = Biases::None, .windows = Windows::All}},
    {.name = "mistral", .grouped = GroupedType{.biases = Biases::None, .windows = Windows::All}},
    {"mistral4"},
    {.name = "mixtral", .grouped = GroupedType{.biases = Biases::None, .windows = Windows::All}},
    {.name = "qwen2",
     .grouped = GroupedType{.biases = Biases::InputsOnly,
                            .windows = Windows::Late,
                            .isWindowOptional = true}},
    {.name = "qwen3",
     .grouped =
         GroupedType{.normalisesHeads = true, .windows = Windows::Late, .isWindowOptional = true}},
    {.name = "qwen3_moe",
     .grouped =
         GroupedType{.normalisesHeads = true, .windows = Windows::All, .isWindowOptional = true}},
    {"sarvam_mla"},
    {"youtu"},
};

} // namespace

static const ModelType *findModelType(llvm::StringRef name) {
  const ModelType *type =
      llvm::find_if(kModelTypes, [&](const ModelType &type) { return type.name == name; });
  return type == std::end(kModelTypes) ? nullptr : type;
}

/// All of them, in lines that a terminal holds.
static std::string printKnownTypes() {
  constexpr size_t kColumns = 80;
  std::string text, line;
  for (const ModelType &type : kModelTypes) {
    if (line.size() + type.name.size() > kColumns) {
      text += line;
      line.clear();
    }
    line += (line.empty() ? "\n  " : " ") + type.name.str();
    if (&type != std::end(kModelTypes) - 1)
      line += ",";
  }
  return text + line;
}

/// Asks for the known type that is written nearly so, with the same numbers (which versions differ
/// in), where there is one, and ends a part of a sentence.
static std::string suggestType(llvm::StringRef name) {
  auto digits = [](llvm::StringRef text) {
    std::string found;
    llvm::copy_if(text, std::back_inserter(found), llvm::isDigit);
    return found;
  };
  unsigned best = 1 + static_cast<unsigned>(name.size()) / 4; // one letter of four is another
  std::string suggested = ";";
  for (const ModelType &type : kModelTypes) {
    unsigned distance = name.edit_distance_insensitive(type.name, /*AllowReplacements=*/true, best);
    if (distance >= best || digits(name) != digits(type.name))
      continue;
    best = distance;
    suggested = ", did you mean " + type.name.str() + "?";
  }
  return suggested;
}

/// Whether a type with latents is asked for without any: its layers are then another type's.
static bool isWithoutLatents(const ConfigReader &root, const ModelType &own,
                             const ModelType *other) {
  const json *usesLatents = root.find("use_mla");
  return usesLatents && *usesLatents == false && !own.grouped && other && other->grouped;
}

/// The configuration's type; of one that is not known, or not said, the type that the caller
/// says it is like.
static const ModelType *readModelType(const ConfigReader &root, llvm::StringRef like) {
  const std::string expected = "expected one of" + printKnownTypes();
  if (!root.find("model_type") && like.empty()) {
    root.error("model_type", expected);
    return nullptr;
  }
  std::optional<std::string> name;
  if (root.find("model_type") && !(name = root.string("model_type")))
    return nullptr;
  const ModelType *own = name ? findModelType(*name) : nullptr, *other = findModelType(like);
  if (own && like.empty())
    return own;
  if (own && isWithoutLatents(root, *own, other))
    return other;
  if (own)
    root.error("model_type", "it is known, --like=" + like.str() + " is for others");
  else if (like.empty())
    root.error("model_type", "it is not known" + suggestType(*name) +
                                 " --like=TYPE reads it as one that is:" + printKnownTypes());
  else if (!other)
    root.error("model_type",
               "--like=" + like.str() + " is not known" + suggestType(like) + " " + expected);
  return own ? nullptr : other;
}

static KnownAttention describe(const ModelType &type, bool isLike) {
  KnownAttention known;
  known.type = type.name;
  known.isLike = isLike;
  known.isGrouped = type.grouped.has_value();
  known.hasWindows = type.hasSharedKeys || (type.grouped && type.grouped->windows != Windows::None);
  known.areWindowsOptional = type.grouped && type.grouped->isWindowOptional;
  known.hasSoftcap = type.grouped && type.grouped->hasSoftcap;
  known.normalisesHeads = type.grouped && type.grouped->normalisesHeads;
  known.hasInputBiases = type.grouped && type.grouped->biases == Biases::InputsOnly;
  known.hasIndexer = type.hasIndexer || type.hasSharedKeys;
  known.rotates = type.rotates;
  known.scalesLatents = type.scalesLatents;
  known.hasRopeOfKinds = type.hasSharedKeys;
  return known;
}

static void readDims(const ConfigReader &root, const ModelType &type, ModelConfig &config) {
  // LongCat counts layers in `num_layers`; transformers writes either key.
  llvm::StringRef layersKey =
      root.find(type.layersKey) ? llvm::StringRef(type.layersKey) : "num_hidden_layers";
  config.numLayers = root.requireInteger(layersKey, 1, kMaxDim);
  config.attentionsPerLayer = type.attentionsPerLayer;
  config.hiddenSize = root.requireInteger("hidden_size", 1, kMaxDim);
  config.numHeadsTotal = root.requireInteger("num_attention_heads", 1, kMaxDim);
  config.qLoraRank = root.integer("q_lora_rank", 1, kMaxDim);
  config.kvLoraRank = root.requireInteger("kv_lora_rank", 1, kMaxDim);
  config.qkNopeHeadDim = root.requireInteger("qk_nope_head_dim", 1, kMaxDim);
  config.qkRopeHeadDim = root.requireInteger("qk_rope_head_dim", 0, kMaxDim);
  if (config.qkRopeHeadDim % 2 != 0)
    root.error("qk_rope_head_dim", "expected an even number, pairs are rotated");
  bool hasOther = !type.positionsKey.empty() && root.find(type.positionsKey);
  config.maxPositionEmbeddings = root.requireInteger(
      hasOther ? llvm::StringRef(type.positionsKey) : "max_position_embeddings", 1, kMaxPositions);

  if (root.find("v_head_dim")) {
    config.vHeadDim = root.requireInteger("v_head_dim", 1, kMaxDim);
  } else if (config.hiddenSize && config.numHeadsTotal) {
    // Old MiniCPM3 configurations lack the key.
    config.vHeadDim = config.hiddenSize / config.numHeadsTotal;
    if (config.hiddenSize % config.numHeadsTotal != 0)
      root.error("v_head_dim", llvm::formatv("hidden_size {0} is no multiple of "
                                             "num_attention_heads {1} to derive it",
                                             config.hiddenSize, config.numHeadsTotal)
                                   .str());
  }
}

static void readTensorParallel(const ConfigReader &root, const ConfigOptions &options,
                               ModelConfig &config) {
  config.tensorParallel = options.tensorParallel;
  if (options.tensorParallel < 1)
    root.error(
        "num_attention_heads",
        llvm::formatv("tensor-parallel degree {0}, expected at least 1", options.tensorParallel)
            .str());
  else if (config.numHeadsTotal % options.tensorParallel != 0)
    root.error("num_attention_heads",
               llvm::formatv("expected a multiple of the tensor-parallel degree {0}",
                             options.tensorParallel)
                   .str());
}

/// The value of `get` in the new place, checked against the old one.
template <typename T>
static std::optional<T>
readEither(const ConfigReader &first, llvm::StringRef firstKey, const ConfigReader &second,
           llvm::StringRef secondKey,
           llvm::function_ref<std::optional<T>(const ConfigReader &, llvm::StringRef)> get) {
  std::optional<T> a = get(first, firstKey), b = get(second, secondKey);
  if (a && b && *a != *b)
    first.error(firstKey, "contradicts " + second.name(secondKey) + " = " +
                              ConfigReader::print(*second.find(secondKey)));
  return a ? a : b;
}

RopeFields mlac::findRopeFields(const ConfigReader &root) {
  const json *scaling = root.find("rope_scaling");
  if (scaling && !scaling->empty())
    return {root.child("rope_scaling"), true};
  return {root.child("rope_parameters"), false};
}

std::optional<RopeKind> mlac::readRopeKind(const ConfigReader &rope, bool typeRequired,
                                           llvm::StringRef known) {
  auto getString = [](const ConfigReader &reader, llvm::StringRef key) {
    return reader.string(key);
  };
  std::optional<std::string> type =
      readEither<std::string>(rope, "rope_type", rope, "type", getString);
  if (!type) {
    if (typeRequired && !rope.find("rope_type") && !rope.find("type"))
      rope.error("rope_type", known);
    return RopeKind::Plain;
  }
  if (*type == "default")
    return RopeKind::Plain;
  // vLLM's name of YaRN whose factor of cosines and sines is that of both mscales.
  if (*type == "yarn" || *type == "deepseek_yarn")
    return RopeKind::Yarn;
  if (*type == "longrope")
    return RopeKind::LongRope;
  rope.error(rope.find("rope_type") ? "rope_type" : "type", known);
  return std::nullopt;
}

void mlac::readYarn(const ConfigReader &rope, RopeParams &params, bool isRounded) {
  if (!rope.find("factor"))
    rope.error("factor", "yarn needs it, expected a number >= 1");
  params.factor = rope.number("factor", 1).value_or(1.0);
  params.originalMaxPositions =
      rope.requireInteger("original_max_position_embeddings", 1, kMaxPositions);
  params.betaFast = rope.number("beta_fast", 0, /*open=*/true).value_or(params.betaFast);
  params.betaSlow = rope.number("beta_slow", 0, /*open=*/true).value_or(params.betaSlow);
  params.mscale = rope.number("mscale", 0).value_or(params.mscale);
  params.mscaleAllDim = rope.number("mscale_all_dim", 0).value_or(params.mscaleAllDim);
  params.attentionMultiplier =
      rope.number("attn_factor", 0, /*open=*/true).value_or(params.attentionMultiplier);
  if (isRounded && !rope.boolean("truncate").value_or(true))
    rope.error("truncate", "only a rounded correction range is supported, "
                           "expected true");
  if (params.originalMaxPositions * params.factor > static_cast<double>(kMaxPositions))
    rope.error("factor", llvm::formatv("expected factor * original_max_position_embeddings <= {0}",
                                       kMaxPositions)
                             .str());
}

static void readLongRope(const ConfigReader &root, const ConfigReader &rope,
                         const ModelConfig &config, RopeParams &params) {
  int64_t pairs = config.qkRopeHeadDim / 2;
  params.shortFactor = rope.positiveNumbers("short_factor", pairs);
  params.longFactor = rope.positiveNumbers("long_factor", pairs);
  constexpr llvm::StringLiteral kKey = "original_max_position_embeddings";
  // 2, because the multiplier divides by ln Lo.
  std::optional<int64_t> length = rope.integer(kKey, 2, kMaxPositions);
  if (!length)
    length = root.integer(kKey, 2, kMaxPositions);
  params.originalMaxPositions = length.value_or(config.maxPositionEmbeddings);
  params.extension = rope.number("factor", 0, /*open=*/true);
}

/// Llama 4's scale of queries, 1 + beta ln(1 + floor(p / Lo)), which is 1 below Lo.
static void readScaledFrom(const ConfigReader &fields, llvm::StringRef key, RopeParams &params) {
  if (fields.find(key) && fields.number(key, 0).value_or(0.0) > 0)
    params.scaledFrom = fields.requireInteger("original_max_position_embeddings", 1, kMaxPositions);
}

void mlac::readQueryScaling(const ConfigReader &root, const std::optional<ConfigReader> &rope,
                            RopeParams &params) {
  if (rope)
    readScaledFrom(*rope, "llama_4_scaling_beta", params);
  // vLLM's object for Mistral Large 3, which is a deepseek_v3.
  if (std::optional<ConfigReader> scaling = root.child("llama_4_scaling"))
    readScaledFrom(*scaling, "beta", params);
}

/// Whether positions rotate anything.
static void readRotation(const ConfigReader &root, const ModelType &type, ModelConfig &config) {
  config.rope.isApplied = type.rotates;
  if (!type.rotates && !root.boolean("mla_use_nope").value_or(true))
    root.error("mla_use_nope", "no model of this type rotates its keys, expected true");
}

void mlac::readRope(const ConfigReader &root, RopePairing pairing, ModelConfig &config) {
  RopeParams &params = config.rope;
  params.pairing = pairing;
  if (std::optional<bool> interleave = root.boolean("rope_interleave"))
    params.pairing = *interleave ? RopePairing::Interleaved : RopePairing::Half;

  auto getTheta = [](const ConfigReader &reader, llvm::StringRef key) {
    return reader.number(key, 1, /*open=*/true);
  };
  auto [fields, isScaling] = findRopeFields(root);
  params.theta = (fields ? readEither<double>(*fields, "rope_theta", root, "rope_theta", getTheta)
                         : getTheta(root, "rope_theta"))
                     .value_or(kDefaultTheta);
  readQueryScaling(root, fields, params);
  // Without rotary dims, scaling still sets the softmax scale under YaRN.
  if (!fields)
    return;
  std::optional<RopeKind> kind = readRopeKind(*fields, /*typeRequired=*/isScaling,
                                              config.grouped ? kGroupedRopeTypes : kRopeTypes);
  if (!kind || !params.isApplied)
    return;
  params.kind = *kind;
  if (params.kind != RopeKind::Plain)
    params.cosSinMultiplier = fields->number("attention_factor", 0.0, /*open=*/true);
  if (params.kind == RopeKind::Yarn)
    readYarn(*fields, params);
  else if (params.kind == RopeKind::LongRope)
    readLongRope(root, *fields, config, params);
}

/// Whether some layers use what an earlier one selected (sparse.md section 1): by a list of kinds,
/// by a pattern of letters, or every layer but one of `index_topk_freq`.
static bool sharesSelections(const ConfigReader &root) {
  if (const nlohmann::json *types = root.find("indexer_types"); types && types->is_array())
    return llvm::any_of(*types, [](const nlohmann::json &kind) { return kind == "shared"; });
  if (const nlohmann::json *pattern = root.find("index_topk_pattern");
      pattern && pattern->is_string())
    return pattern->get_ref<const std::string &>().find('S') != std::string::npos;
  return root.integer("index_topk_freq", 1, kMaxDim).value_or(1) > 1;
}

static void readIndexer(const ConfigReader &root, const ModelType &type,
                        const ConfigOptions &options, ModelConfig &config) {
  if (!type.hasIndexer) {
    if (options.indexer != IndexerUse::Full)
      root.error("model_type", "models of this type have no indexer: --indexer does not apply");
    return;
  }
  IndexerParams indexer;
  indexer.numHeads = root.requireInteger("index_n_heads", 1, kMaxDim);
  indexer.headDim = root.requireInteger("index_head_dim", 1, kMaxDim);
  indexer.topk = root.requireInteger("index_topk", 1, kMaxPositions);
  indexer.pairing = type.indexerPairing;
  if (std::optional<bool> interleave = root.boolean("indexer_rope_interleave"))
    indexer.pairing = *interleave ? RopePairing::Interleaved : RopePairing::Half;
  if (indexer.headDim && indexer.headDim < config.qkRopeHeadDim)
    root.error("index_head_dim",
               llvm::formatv("expected at least qk_rope_head_dim {0}", config.qkRopeHeadDim).str());
  if (!root.find("q_lora_rank"))
    root.error("q_lora_rank", "the indexer reads the query latent, expected a positive integer");
  indexer.use = options.indexer;
  indexer.isShared = sharesSelections(root);
  config.indexer = indexer;
}

static void readNorms(const ConfigReader &root, const ConfigOptions &options, ModelConfig &config) {
  config.rmsNormEps = root.number("rms_norm_eps", 0, /*open=*/true).value_or(kDefaultNormEps);
  bool hasOneEps = options.latentNormEpsFromConfig || config.sharedKeys || config.grouped;
  config.latentNormEps = hasOneEps ? config.rmsNormEps : kDefaultNormEps;
  config.attentionBias = root.boolean("attention_bias").value_or(false);
}

/// LongCat's sqrt(H / rank) factors; both can be switched off by their keys.
static void readMultipliers(const ConfigReader &root, const ModelType &type, ModelConfig &config) {
  if (!type.scalesLatents)
    return;
  double hidden = config.hiddenSize;
  if (root.boolean("mla_scale_q_lora").value_or(true) && config.qLoraRank)
    config.queryMultiplier = std::sqrt(hidden / *config.qLoraRank);
  if (root.boolean("mla_scale_kv_lora").value_or(true) && config.kvLoraRank)
    config.latentMultiplier = std::sqrt(hidden / config.kvLoraRank);
}

char ConfigError::ID;

void ConfigError::log(llvm::raw_ostream &os) const {
  llvm::interleave(
      problems, os, [&](const ConfigProblem &problem) { os << problem.message; }, "\n");
}

static llvm::Error makeError(llvm::StringRef text, llvm::ArrayRef<KeyProblem> errors) {
  std::vector<ConfigProblem> problems;
  for (const KeyProblem &error : errors)
    problems.push_back({error.message, findMember(text, error.key)});
  return llvm::make_error<ConfigError>(std::move(problems));
}

llvm::StringRef mlac::findLanguageModel(const json &document) {
  if (!document.contains("num_attention_heads"))
    for (const char *key : {"text_config", "language_config", "llm_config"})
      if (auto part = document.find(key); part != document.end() && part->is_object())
        return key;
  return "";
}

/// Makes the document that part, with what the whole says of all weights. The paths, for errors, of
/// the part's keys and of those of weights.
static std::pair<std::string, std::string> takeLanguageModel(json &document, llvm::StringRef key) {
  constexpr const char *kWeights = "quantization_config";
  std::string path = key.str() + ".", weightsPath = path;
  json part = document.at(key.str());
  if (document.contains(kWeights) && part.value(kWeights, json()).is_null()) {
    part[kWeights] = document[kWeights];
    weightsPath = "";
  }
  document = std::move(part);
  return {path, weightsPath};
}

llvm::Expected<ModelConfig> mlac::parseModelConfig(llvm::StringRef text,
                                                   const ConfigOptions &options) {
  json document = json::parse(text.begin(), text.end(), nullptr,
                              /*allow_exceptions=*/false);
  if (document.is_discarded())
    return llvm::make_error<ConfigError>(std::vector{findSyntaxError(text)});
  if (!document.is_object())
    return llvm::make_error<ConfigError>(std::vector<ConfigProblem>{
        {llvm::formatv("expected a JSON object at top level, got {0}", document.type_name()).str(),
         {}}});

  llvm::StringRef part = findLanguageModel(document);
  std::string path, weightsPath;
  if (!part.empty())
    std::tie(path, weightsPath) = takeLanguageModel(document, part);
  std::vector<KeyProblem> errors;
  ConfigReader root(document, path, errors), weights(document, weightsPath, errors);
  ModelConfig config;
  // Who reads the package knows no parts.
  config.text = part.empty() ? text.str() : document.dump();
  config.parsing = options;
  if (const ModelType *type = readModelType(root, options.like)) {
    config.modelType = type->name.str();
    std::vector<std::string> defaults = fillDefaults(document, type->name);
    // Who reads the package has no defaults of its own.
    if (!defaults.empty())
      config.text = document.dump();
    KnownAttention known = describe(*type, /*isLike=*/!options.like.empty());
    rejectOtherAttention(root, known);
    if (!type->hasSharedKeys && !type->grouped && options.layer != 0)
      root.error("model_type", "the layers of this type are all alike: --layer does not apply");
    if (type->hasSharedKeys)
      readSharedKeys(root, options, config);
    else if (type->grouped)
      readGrouped(root, *type->grouped, options, config);
    else
      readDims(root, *type, config);
    readTensorParallel(root, options, config);
    if (!type->hasSharedKeys && !type->grouped) {
      readRotation(root, *type, config);
      readRope(root, type->pairing, config);
    }
    if (!type->hasSharedKeys)
      readIndexer(root, *type, options, config);
    readNorms(root, options, config);
    readMultipliers(root, *type, config);
    // What is missing or wrong would be said of keys that it makes wrong, too.
    if (known.isLike && errors.empty())
      rejectUnlike(root, known, config);
    if (!options.dequantisedWeights)
      readQuantization(weights, config);
    explainDefaults(defaults, path, type->name, errors);
  }
  if (!errors.empty())
    return makeError(text, errors);
  return config;
}
