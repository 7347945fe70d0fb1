//===- ConfigRefusals.cpp - attention that no known type has ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys that say another attention than a type has; computing the type's instead would be silently
// wrong. Of a known type they are those that some engine reads. What a type is only like (--like)
// may be anything, so that every key that another model reads for its attention must say nothing.
//
//===----------------------------------------------------------------------===//

#include "ConfigParts.h"

#include "mla/Import/RopeTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlac;
using nlohmann::json;

static void rejectMasks(const ConfigReader &root, const KnownAttention &known) {
  for (llvm::StringRef key : {"attn_logit_softcapping", "attn_logit_soft_cap", "logit_soft_cap"})
    if (root.find(key) && !known.hasSoftcap)
      root.error(key, "logit soft-capping is not supported, expected null");
  for (llvm::StringRef key : {"alibi", "use_alibi"})
    if (root.boolean(key).value_or(false))
      root.error(key, "ALiBi is not supported, expected false");
  // BigBird's key, and Phi-3-small's, which comes with others of its prefix.
  if (root.find("attention_type") && root.string("attention_type") == "block_sparse")
    root.error("attention_type", "block-sparse attention is not supported, expected null");
  if (root.find("blocksparse_block_size"))
    root.error("blocksparse_block_size", "block-sparse attention is not supported, expected null");
  if (root.boolean("is_encoder_decoder").value_or(false))
    root.error("is_encoder_decoder", "only decoders are supported, expected false");
  for (auto [key, isCausal] :
       {std::pair("is_causal", true), {"use_bidirectional_attention", false}})
    if (root.boolean(key).value_or(isCausal) != isCausal)
      root.error(key, "attention to later tokens is not supported, expected " +
                          std::string(isCausal ? "true" : "false"));
}

/// Windows of types that have none, by their key and by the kinds of layers.
static void rejectWindows(const ConfigReader &root, const KnownAttention &known) {
  bool isUsed = root.boolean("use_sliding_window").value_or(true);
  // Layers of a type that does not read the key would have them all the same.
  if (known.isLike && known.hasWindows && !known.areWindowsOptional && !isUsed &&
      root.find("sliding_window"))
    root.error("use_sliding_window", "layers of " + known.type.str() +
                                         " have windows whatever it says, expected sliding_window "
                                         "to be null, or true");
  if (known.hasWindows || !root.find("sliding_window") || !isUsed)
    return;
  if (!known.isGrouped)
    root.error("sliding_window", "sliding-window attention is not supported, expected null");
  else if (known.isLike) // Llama's own class does not read it
    root.error("sliding_window", "layers of " + known.type.str() +
                                     " have no windows (those of mistral have), expected null");
}

/// Latents that are made, or read, in another way.
static void rejectLatents(const ConfigReader &root, const KnownAttention &known) {
  if (known.isGrouped)
    return;
  if (!root.boolean("use_mla").value_or(true))
    root.error("use_mla", "the model has keys and values of heads, no latents: --like=llama reads "
                          "a configuration of such a model");
  if (known.rotates && root.boolean("mla_use_nope").value_or(false))
    root.error("mla_use_nope", "layers of " + known.type.str() +
                                   " rotate their keys, expected false (kimi_linear's do not)");
  if (!known.hasIndexer && root.find("index_topk"))
    root.error("index_topk", "layers of " + known.type.str() +
                                 " have no indexer, expected null (those of deepseek_v32 and "
                                 "glm_moe_dsa have)");
  for (llvm::StringRef key : {"mla_scale_q_lora", "mla_scale_kv_lora"})
    if (!known.scalesLatents && root.boolean(key).value_or(false))
      root.error(key, "latents of " + known.type.str() +
                          " are not multiplied, expected false (longcat_flash's are)");
}

/// transformers 5 has rope of each kind of layers as an object below the kind's name, as Gemma 3
/// does. Reading none of them would leave the default.
static void rejectRopeOfKinds(const ConfigReader &root, const KnownAttention &known) {
  const json *rope = root.find("rope_parameters");
  if (known.hasRopeOfKinds || !rope || !rope->is_object())
    return;
  for (const auto &[kind, value] : rope->items())
    if (value.is_object())
      return root.error("rope_parameters", "rope of each kind of layers ('" + kind +
                                               "') is not supported, expected one object with "
                                               "rope_type and rope_theta");
}

void mlac::rejectOtherAttention(const ConfigReader &root, const KnownAttention &known) {
  rejectMasks(root, known);
  rejectWindows(root, known);
  rejectLatents(root, known);
  rejectRopeOfKinds(root, known);
  if (root.find("clip_qkv"))
    root.error("clip_qkv", "clipped queries, keys and values are not supported, expected null");
}

//===----------------------------------------------------------------------===//
// Of a type that is only like a known one
//===----------------------------------------------------------------------===//

namespace {

/// A key that says something of attention where it is neither absent, null, false nor 0.
struct OtherKey {
  llvm::StringLiteral name, meaning;
};

} // namespace

static constexpr OtherKey kOtherKeys[] = {
    {"add_full_attention_sink_bias", "sinks"},
    {"add_swa_attention_sink_bias", "sinks"},
    {"attention_chunk_size", "attention within chunks"},
    {"attention_sink", "sinks"},
    {"attention_value_scale", "a factor of values"},
    {"attn_output_gate", "a gate of the output"},
    {"attn_temperature_tuning", "queries that are scaled by their positions"},
    {"index_kpool", "keys that are selected in groups"},
    {"num_kv_shared_layers", "layers that read another one's cache"},
    {"param_sink_number", "sinks"},
    {"rope_local_base_freq", "another rope in layers with windows"},
    {"rope_ratio", "a factor of rope_theta"},
    {"scale_attn_by_inverse_layer_idx", "scores that are divided by the layer's number"},
    {"use_cla", "layers that read another one's cache"},
};
/// Norms of the heads' queries and keys.
static constexpr llvm::StringLiteral kHeadNorms[] = {"qk_layernorm", "qk_norm", "use_qk_layernorm",
                                                     "use_qk_norm"};
/// What scores are times, and what its inverse root is.
static constexpr llvm::StringLiteral kScales[] = {"attention_multiplier", "attention_scale",
                                                  "attn_scale", "softmax_scale"};
static constexpr llvm::StringLiteral kInverseScale = "query_pre_attn_scalar";
/// Biases of projections that no type's own keys say.
static constexpr llvm::StringLiteral kInputBiases[] = {"add_qkv_bias", "qkv_bias", "use_qkv_bias"};
static constexpr llvm::StringLiteral kAllBiases[] = {"attn_bias", "use_bias"};

/// Types of transformers whose attention is another one by their class alone: no key says it.
static constexpr OtherKey kOtherTypes[] = {
    {"cohere2", "layers without a window rotate nothing"},
    {"cohere2_moe", "layers without a window rotate nothing"},
    {"eurobert", "tokens attend to later ones"},
    {"nanochat", "heads are normalised without weights"},
    {"nomic_bert", "tokens attend to later ones"},
};
/// Those of latents, whose graphs mlac.cached does not take.
static constexpr OtherKey kOtherTypesOfLatents[] = {
    {"axk2", "a gate of the output, in one projection with queries"},
    {"bailing_hybrid", "a gate of the output"},
    {"dots3_note_text", "a norm of rope keys, and a gate of the output"},
    {"glm5_next", "keys that are selected in groups"},
    {"glm5_next_text", "keys that are selected in groups"},
    {"hy_v4", "sinks, and a gate of the output"},
    {"hy_v4_vl_text", "sinks, and a gate of the output"},
    {"mistral_large4_text", "learnt frequencies, and queries that are scaled by their positions"},
};
/// Those that rotate pairs of neighbours.
static constexpr llvm::StringLiteral kTypesOfNeighbours[] = {"cohere", "ernie4_5", "ernie4_5_moe",
                                                             "glm",    "glm4",     "helium"};

static bool saysSomething(const json &value) {
  return !(value.is_null() || value == false || value == 0 ||
           (value.is_structured() && value.empty()));
}

static std::string printNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.6g", number);
  return text;
}

static void rejectOtherScale(const ConfigReader &root, const ModelConfig &config) {
  constexpr double kTolerance = 1e-6; // of files that round it
  double scale = config.softmaxScale();
  auto check = [&](llvm::StringRef key, std::optional<double> said, double own) {
    if (said && std::abs(*said - own) > kTolerance * own)
      root.error(key, "scores of such layers are times " + printNumber(scale) + ", expected " +
                          printNumber(own));
  };
  for (llvm::StringRef key : kScales)
    check(key, root.number(key, 0, /*open=*/true), scale);
  check(kInverseScale, root.number(kInverseScale, 0, /*open=*/true), 1 / (scale * scale));
}

/// Layers whose positions rotate nothing, or fewer channels.
static void rejectOtherRope(const ConfigReader &root, const ModelConfig &config) {
  constexpr llvm::StringLiteral kEmbedding = "position_embedding_type", kLayers = "no_rope_layers",
                                kInterval = "no_rope_layer_interval";
  if (root.find(kEmbedding))
    if (std::optional<std::string> kind = root.string(kEmbedding);
        kind && !llvm::StringRef(*kind).contains("rope") &&
        !llvm::StringRef(*kind).contains("rotary"))
      root.error(kEmbedding, "positions of such layers rotate queries and keys, expected rope");
  // 0 and false are of layers without rope.
  const json *layers = root.find(kLayers);
  if (layers && layers->is_array() &&
      llvm::any_of(*layers, [](const json &layer) { return layer == 0 || layer == false; }))
    root.error(kLayers, "positions rotate queries and keys in all of such layers, expected a list "
                        "of ones");
  // Where no list says which.
  if (root.find(kInterval) && (!layers || layers->empty()))
    root.error(kInterval, "positions rotate queries and keys in all of such layers, expected null");
  if (root.find("rotary_dim") &&
      root.integer("rotary_dim", 0, kMaxDim).value_or(config.qkRopeHeadDim) != config.qkRopeHeadDim)
    root.error("rotary_dim", llvm::formatv("{0} channels of such layers are rotated "
                                           "(partial_rotary_factor says how many), expected {0}",
                                           config.qkRopeHeadDim)
                                 .str());
  if (std::optional<double> share = root.number("rotary_pct", 0); share && *share != 1)
    root.error("rotary_pct", "such layers do not read it, expected 1 (partial_rotary_factor says "
                             "it of them)");
}

/// What no key says, by the name of the type.
static void rejectOtherTypes(const ConfigReader &root, const KnownAttention &known) {
  std::optional<std::string> own = root.find("model_type") ? root.string("model_type") : "";
  for (const OtherKey &type : kOtherTypes)
    if (type.name == *own)
      root.error("model_type", type.meaning.str() + ", which layers of " + known.type.str() +
                                   " do not (mlac.cached takes such a model's graph)");
  for (const OtherKey &type : kOtherTypesOfLatents)
    if (!known.isGrouped && type.name == *own)
      root.error("model_type",
                 type.meaning.str() + ": that is not what layers of " + known.type.str() + " have");
  if (known.isGrouped && llvm::is_contained(kTypesOfNeighbours, *own) &&
      !root.find("rope_interleave"))
    root.error("rope_interleave", "layers of " + *own +
                                      " rotate pairs of neighbours, which no key of their class "
                                      "says, expected true");
}

void mlac::rejectUnlike(const ConfigReader &root, const KnownAttention &known,
                        const ModelConfig &config) {
  std::string without = " is not what layers of " + known.type.str() + " have, expected ";
  for (const OtherKey &key : kOtherKeys)
    if (const json *value = root.find(key.name);
        value && saysSomething(*value) && !(key.name == "rope_ratio" && *value == 1))
      root.error(key.name, key.meaning.str() + ": that" + without + "null");
  // Of latent attention the keys speak of the latents' norms, which all types have.
  for (llvm::StringRef key : kHeadNorms)
    if (known.isGrouped &&
        root.boolean(key).value_or(known.normalisesHeads) != known.normalisesHeads)
      root.error(key, known.normalisesHeads
                          ? "heads of " + known.type.str() + " are normalised, expected true"
                          : "a norm of heads: that" + without + "false (qwen3 has it)");
  for (llvm::StringRef key : kInputBiases)
    if (root.boolean(key).value_or(known.hasInputBiases) != known.hasInputBiases)
      root.error(key, known.hasInputBiases ? "queries, keys and values of " + known.type.str() +
                                                 " have biases, expected true"
                                           : "biases of queries, keys and values alone: that" +
                                                 without + "false (qwen2 has them)");
  for (llvm::StringRef key : kAllBiases)
    if (root.boolean(key).value_or(false) && !config.attentionBias)
      root.error(key, "attention_bias says it of such layers, expected false");
  rejectOtherTypes(root, known);
  rejectOtherScale(root, config);
  rejectOtherRope(root, config);
}
