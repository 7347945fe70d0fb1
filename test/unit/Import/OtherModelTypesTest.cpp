//===- OtherModelTypesTest.cpp - models that are read as known ones ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Configs.h"

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;

namespace {

/// Models that read pictures, too, have the language model's keys in an object of their own.
TEST(ModelConfigParts, TheLanguageModelOfALargerOneIsRead) {
  json config = readConfigJson("deepseek_v3");
  const json quantization = {
      {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 128}}};
  config["quantization_config"] = quantization;
  for (const char *key : {"text_config", "language_config", "llm_config"}) {
    json whole = {{"model_type", "kimi_vl"}, {"vision_config", json::object()}, {key, config}};
    llvm::Expected<ModelConfig> model = parseModelConfig(whole.dump());
    ASSERT_TRUE(static_cast<bool>(model)) << llvm::toString(model.takeError());
    EXPECT_EQ(model->modelType, "deepseek_v3");
    EXPECT_EQ(model->numHeadsTotal, 128);
    EXPECT_TRUE(model->weightScales.has_value());
    // What a package says of its model is the part.
    EXPECT_EQ(json::parse(model->text), config);
    // All weights' codes may be said of the whole.
    whole[key].erase("quantization_config");
    whole["quantization_config"] = quantization;
    model = parseModelConfig(whole.dump());
    ASSERT_TRUE(static_cast<bool>(model)) << llvm::toString(model.takeError());
    EXPECT_TRUE(model->weightScales.has_value());
    EXPECT_EQ(json::parse(model->text), config);
  }
  json whole = {{"model_type", "kimi_vl"}, {"text_config", config}};
  whole["text_config"]["kv_lora_rank"] = "512";
  EXPECT_EQ(errorOf(whole.dump()),
            "text_config.kv_lora_rank = \"512\": expected an integer from 1 to 1048576");
  whole["text_config"] = nullptr;
  EXPECT_EQ(errorOf(whole.dump()).find("model_type = \"kimi_vl\": it is not known"), 0U);
}

TEST(ModelConfigLike, AnUnknownTypeIsReadAsAKnownOne) {
  json config = readConfigJson("minicpm3_4b");
  auto read = [&](const char *like) {
    ConfigOptions options;
    options.like = like;
    return parseModelConfig(config.dump(), options);
  };
  for (const char *own : {"minicpm9", ""}) {
    if (*own)
      config["model_type"] = own;
    else
      config.erase("model_type");
    llvm::Expected<ModelConfig> parsed = read("minicpm3");
    ASSERT_TRUE(static_cast<bool>(parsed)) << llvm::toString(parsed.takeError());
    EXPECT_EQ(parsed->modelType, "minicpm3");
    EXPECT_EQ(parsed->rope.pairing, RopePairing::Half); // what the type implies
  }
  config["model_type"] = "minicpm9";
  std::string unknown = llvm::toString(read("bert").takeError());
  EXPECT_NE(unknown.find(
                "model_type = \"minicpm9\": --like=bert is not known; expected one of\n  axk1, "),
            std::string::npos)
      << unknown;
  config["model_type"] = "deepseek_v3";
  std::string known = llvm::toString(read("minicpm3").takeError());
  EXPECT_NE(known.find("it is known, --like=minicpm3 is for others"), std::string::npos) << known;
}

// DeepSeek-VL2 tiny's, whose refusal says so.
TEST(ModelConfigLike, AKnownTypeWithoutItsLatentsIsReadAsOneOfHeads) {
  json config = {{"model_type", "deepseek_v2"},
                 {"use_mla", false},
                 {"hidden_size", 1280},
                 {"num_hidden_layers", 12},
                 {"num_attention_heads", 10},
                 {"num_key_value_heads", 10},
                 {"kv_lora_rank", nullptr},
                 {"q_lora_rank", nullptr},
                 {"qk_nope_head_dim", 0},
                 {"qk_rope_head_dim", 0},
                 {"v_head_dim", 0},
                 {"max_position_embeddings", 4096}};
  ConfigOptions options;
  options.like = "llama";
  ModelConfig model = parseOrFail(config.dump(), options);
  EXPECT_EQ(model.modelType, "llama");
  EXPECT_EQ(model.vHeadDim, 128);
  options.like = "minicpm3"; // has latents, too
  EXPECT_EQ(errorOf(config.dump(), options),
            "model_type = \"deepseek_v2\": it is known, --like=minicpm3 is for others");
  options.like = "llama";
  config["use_mla"] = true;
  EXPECT_EQ(errorOf(config.dump(), options),
            "model_type = \"deepseek_v2\": it is known, --like=llama is for others");
}

/// The errors of a configuration of an unknown type with other keys, read as one of `like`.
std::string readLike(const char *like, const char *base, const json &changes) {
  json config = readConfigJson(base);
  config["model_type"] = "acme";
  config.update(changes);
  ConfigOptions options;
  options.like = like;
  llvm::Expected<ModelConfig> parsed = parseModelConfig(config.dump(), options);
  return parsed ? "" : llvm::toString(parsed.takeError());
}

// Another type's class may read any key: those of other attention must say nothing.
TEST(ModelConfigLike, A42_KeysOfOtherAttentionAreErrors) {
  auto llama = [](const json &changes) { return readLike("llama", "llama3_1_8b", changes); };
  EXPECT_EQ(llama({{"use_qk_norm", true}}),
            "use_qk_norm = true: a norm of heads: that is not what layers of llama have, expected "
            "false (qwen3 has it)");
  EXPECT_EQ(llama({{"attention_multiplier", 0.0078125}}),
            "attention_multiplier = 0.0078125: scores of such layers are times 0.0883883, expected "
            "0.0883883");
  EXPECT_EQ(llama({{"query_pre_attn_scalar", 256}}),
            "query_pre_attn_scalar = 256: scores of such layers are times 0.0883883, expected 128");
  EXPECT_EQ(llama({{"sliding_window", 512}}),
            "sliding_window = 512: layers of llama have no windows (those of mistral have), "
            "expected null");
  EXPECT_EQ(llama({{"no_rope_layers", {1, 1, 0, 1}}}),
            "no_rope_layers = [1,1,0,1]: positions rotate queries and keys in all of such layers, "
            "expected a list of ones");
  EXPECT_EQ(llama({{"position_embedding_type", "nope"}}),
            "position_embedding_type = \"nope\": positions of such layers rotate queries and keys, "
            "expected rope");
  EXPECT_EQ(llama({{"rotary_dim", 64}}), "rotary_dim = 64: 128 channels of such layers are rotated "
                                         "(partial_rotary_factor says how many), expected 128");
  EXPECT_EQ(llama({{"qkv_bias", true}}),
            "qkv_bias = true: biases of queries, keys and values alone: that is not what layers of "
            "llama have, expected false (qwen2 has them)");
  EXPECT_EQ(llama({{"use_bias", true}}),
            "use_bias = true: attention_bias says it of such layers, expected false");
  EXPECT_EQ(
      llama({{"attention_chunk_size", 8192}}),
      "attention_chunk_size = 8192: attention within chunks: that is not what layers of llama "
      "have, expected null");
  EXPECT_EQ(readLike("mistral", "mistral_7b",
                     {{"sliding_window", 8}, {"layer_types", {"full_attention"}}}),
            "layer_types = [\"full_attention\"]: layer 0 is full_attention, and all layers of such "
            "models have a window of 8, expected sliding_attention or no list");
  EXPECT_EQ(
      readLike("mistral", "mistral_7b", {{"sliding_window", 8}, {"use_sliding_window", false}}),
      "use_sliding_window = false: layers of mistral have windows whatever it says, expected "
      "sliding_window to be null, or true");
  EXPECT_EQ(readLike("deepseek_v3", "deepseek_v3", {{"attn_output_gate", true}}),
            "attn_output_gate = true: a gate of the output: that is not what layers of deepseek_v3 "
            "have, expected null");
  EXPECT_EQ(readLike("deepseek_v3", "deepseek_v3", {{"param_sink_number", 128}}),
            "param_sink_number = 128: sinks: that is not what layers of deepseek_v3 have, expected "
            "null");
  EXPECT_EQ(llama({{"no_rope_layers", json::array()}, {"no_rope_layer_interval", 4}}),
            "no_rope_layer_interval = 4: positions rotate queries and keys in all of such layers, "
            "expected null");
}

// Classes of transformers that differ in what no key says.
TEST(ModelConfigLike, A42_TypesOfOtherAttentionAreErrors) {
  auto qwen = [](const json &changes) { return readLike("qwen2", "qwen2_5_7b", changes); };
  EXPECT_EQ(qwen({{"model_type", "glm4"}}),
            "rope_interleave is missing: layers of glm4 rotate pairs of neighbours, which no key "
            "of their class says, expected true");
  EXPECT_EQ(qwen({{"model_type", "glm4"}, {"rope_interleave", true}}), "");
  EXPECT_EQ(readLike("mistral", "mistral_7b", {{"model_type", "cohere2"}}),
            "model_type = \"cohere2\": layers without a window rotate nothing, which layers of "
            "mistral do not (mlac.cached takes such a model's graph)");
  EXPECT_EQ(readLike("llama", "llama3_1_8b", {{"model_type", nullptr}}), "");
}

TEST(ModelConfigLike, A42_LatentTypesOfOtherAttentionAreErrors) {
  EXPECT_EQ(readLike("deepseek_v32", "deepseek_v32", {{"model_type", "axk2"}}),
            "model_type = \"axk2\": a gate of the output, in one projection with queries: that is "
            "not what layers of deepseek_v32 have");
  EXPECT_EQ(readLike("glm_moe_dsa", "glm_5_2", {{"model_type", "hy_v4"}}),
            "model_type = \"hy_v4\": sinks, and a gate of the output: that is not what layers of "
            "glm_moe_dsa have");
  EXPECT_EQ(readLike("glm_moe_dsa", "glm_5_2", {{"model_type", "glm6"}, {"index_kpool", 16}}),
            "index_kpool = 16: keys that are selected in groups: that is not what layers of "
            "glm_moe_dsa have, expected null");
  for (const char *type : {"bailing_hybrid", "dots3_note_text", "glm5_next", "glm5_next_text",
                           "hy_v4_vl_text", "mistral_large4_text"})
    EXPECT_EQ(readLike("deepseek_v3", "deepseek_v3", {{"model_type", type}})
                  .find("model_type = \"" + std::string(type) + "\": "),
              0U);
  EXPECT_EQ(readLike("deepseek_v3", "deepseek_v3", {{"model_type", "sarvam_mla"}}),
            "model_type = \"sarvam_mla\": it is known, --like=deepseek_v3 is for others");
}

TEST(ModelConfigLike, A42_KeysThatSayTheSame) {
  EXPECT_EQ(readLike("llama", "llama3_1_8b",
                     {{"use_qk_norm", false},
                      {"attention_multiplier", 0.08838834764831845},
                      {"query_pre_attn_scalar", 128},
                      {"sliding_window", nullptr},
                      {"no_rope_layers", {1, 1}},
                      {"no_rope_layer_interval", 4},
                      {"position_embedding_type", "rope"},
                      {"rotary_dim", 128},
                      {"rope_ratio", 1},
                      {"rotary_pct", 1.0},
                      {"num_kv_shared_layers", 0},
                      {"use_bias", false}}),
            "");
  EXPECT_EQ(readLike("mistral", "mistral_7b",
                     {{"sliding_window", 8}, {"layer_types", {"sliding_attention"}}}),
            "");
  EXPECT_EQ(readLike("mistral", "mistral_7b",
                     {{"sliding_window", nullptr}, {"use_sliding_window", false}}),
            "");
  EXPECT_EQ(readLike("qwen2", "qwen2_5_7b", {{"use_sliding_window", false}}), "");
  EXPECT_EQ(readLike("qwen3", "qwen3_8b", {{"use_qk_norm", true}}), "");
  EXPECT_EQ(readLike("qwen2", "qwen2_5_7b", {{"qkv_bias", true}}), "");
  EXPECT_EQ(readLike("deepseek_v3", "deepseek_v3", {{"use_qk_norm", true}}), "");
  // A known type is what its class reads.
  json config = readConfigJson("llama3_1_8b");
  config["use_qk_norm"] = true;
  parseOrFail(config.dump());
}

} // namespace
