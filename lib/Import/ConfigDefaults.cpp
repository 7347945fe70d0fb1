//===- ConfigDefaults.cpp - keys that a configuration lacks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compared with the classes by test/python/test_defaults.py.
//
//===----------------------------------------------------------------------===//

#include "ConfigDefaults.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;
using nlohmann::json;

namespace {
struct Defaults {
  llvm::StringLiteral modelType, keys;
};
} // namespace

/// Of transformers 5.17 (sarvam_mla's of 5.24), where they are not what all types have
/// (ModelConfig.cpp). Kimi K2's class is its own, a copy of DeepSeek-V3's.
static constexpr Defaults kDefaults[] = {
    {"axk1", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
    {"deepseek_v2", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
    {"deepseek_v3", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
    {"deepseek_v32", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
    {"gemma2", R"({"head_dim": 256, "num_key_value_heads": 4, "sliding_window": 4096,
                   "attn_logit_softcapping": 50.0, "query_pre_attn_scalar": 256})"},
    {"glm4_moe_lite", R"({"q_lora_rank": 768, "v_head_dim": 256, "rms_norm_eps": 1e-5})"},
    {"glm_moe_dsa", R"({"q_lora_rank": 2048, "v_head_dim": 256, "rms_norm_eps": 1e-5})"},
    {"gpt_oss", R"({"head_dim": 64, "num_key_value_heads": 8, "sliding_window": 128,
                    "attention_bias": true, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
                    "rope_parameters": {
                      "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                      "truncate": false, "original_max_position_embeddings": 4096}})"},
    {"kimi_k2", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
    {"longcat_flash", R"({"q_lora_rank": 1536, "v_head_dim": 128, "rms_norm_eps": 1e-5,
                          "rope_theta": 10000000.0})"},
    {"minicpm3", R"({"q_lora_rank": 768, "rms_norm_eps": 1e-5})"},
    {"ministral", R"({"num_key_value_heads": 8, "sliding_window": 4096})"},
    {"ministral3", R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5,
                       "rope_parameters": {
                         "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                         "original_max_position_embeddings": 16384, "beta_fast": 32.0,
                         "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "llama_4_scaling_beta": 0.1}})"},
    {"mistral", R"({"num_key_value_heads": 8, "sliding_window": 4096})"},
    {"mistral4", R"({"q_lora_rank": 1024, "v_head_dim": 128,
                     "rope_parameters": {
                       "rope_type": "yarn", "rope_theta": 10000.0, "factor": 128.0,
                       "original_max_position_embeddings": 8192, "beta_fast": 32.0,
                       "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                       "llama_4_scaling_beta": 0.1}})"},
    {"mixtral", R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0})"},
    {"qwen2", R"({"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28})"},
    {"qwen3", R"({"head_dim": 128, "num_key_value_heads": 32, "sliding_window": 4096,
                  "max_window_layers": 28})"},
    {"qwen3_moe", R"({"num_key_value_heads": 4, "sliding_window": 4096})"},
    {"sarvam_mla", R"({"v_head_dim": 128})"},
    {"youtu", R"({"q_lora_rank": 1536, "v_head_dim": 128})"},
};

static bool isThere(const json &object, const char *key) {
  auto it = object.find(key);
  return it != object.end() && !it->is_null();
}

/// Whether no place of the document has what `key` says.
static bool isLacking(const json &document, const std::string &key) {
  bool isScaled = isThere(document, "rope_scaling") && !document["rope_scaling"].empty();
  bool hasParameters = isThere(document, "rope_parameters");
  if (key == "rope_parameters")
    return !isScaled && !hasParameters;
  if (key != "rope_theta")
    return !document.contains(key);
  auto hasTheta = [&](const char *place) {
    return document[place].is_object() && isThere(document[place], "rope_theta");
  };
  return !isThere(document, "rope_theta") && !(isScaled && hasTheta("rope_scaling")) &&
         !(!isScaled && hasParameters && hasTheta("rope_parameters"));
}

std::vector<std::string> mlac::fillDefaults(json &document, llvm::StringRef modelType) {
  const Defaults *found =
      llvm::find_if(kDefaults, [&](const Defaults &known) { return known.modelType == modelType; });
  std::vector<std::string> added;
  if (found == std::end(kDefaults))
    return added;
  json defaults = json::parse(found->keys.begin(), found->keys.end());
  for (const auto &[key, value] : defaults.items())
    if (isLacking(document, key)) {
      document[key] = value;
      added.push_back(key);
    }
  return added;
}

void mlac::explainDefaults(llvm::ArrayRef<std::string> keys, llvm::StringRef path,
                           llvm::StringRef modelType, std::vector<KeyProblem> &problems) {
  for (KeyProblem &problem : problems) {
    llvm::StringRef key = problem.key;
    key.consume_front(path);
    std::string first = key.split('.').first.str();
    if (llvm::is_contained(keys, first))
      problem.message +=
          " (the file lacks " + first + ", this is " + modelType.str() + "'s default)";
  }
}
