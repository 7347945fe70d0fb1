//===- ModelConfigErrorsTest.cpp - configurations that are refused ---*- C++ -*-===//
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

TEST(ModelConfigError, NotJson) {
  const std::string end = "not valid JSON: unexpected end of input";
  EXPECT_EQ(errorOf("").substr(0, end.size()), end);
  EXPECT_EQ(errorOf("{\"hidden_size\": 1"), end + "; expected '}'");
  EXPECT_EQ(errorOf(std::string(100000, '[')).substr(0, end.size()), end);
  EXPECT_EQ(errorOf("{\"rope_theta\": 1e999}"), "not valid JSON: number overflow parsing '1e999'");
  EXPECT_EQ(errorOf("[1]"), "expected a JSON object at top level, got array");
}

/// "line:column" of every problem.
std::vector<std::string> placesOf(llvm::StringRef text) {
  std::vector<std::string> places;
  llvm::handleAllErrors(parseModelConfig(text).takeError(), [&](const ConfigError &error) {
    for (const ConfigProblem &problem : error.problems)
      places.push_back(std::to_string(problem.place.line) + ":" +
                       std::to_string(problem.place.column));
  });
  return places;
}

TEST(ModelConfigError, PlacesAreThoseOfTheKeys) {
  using Places = std::vector<std::string>;
  EXPECT_EQ(placesOf("{\n \"model_type\": 3}"), Places{"2:2"});
  // The key, not a value or a member of something else that reads like it; the last of
  // several, which is what counts.
  EXPECT_EQ(placesOf("{\"a\": \"model_type\", \"b\": [{\"model_type\": 1}],\n"
                     "\"c\": {\"model_type\": 2}, \"d\": \"\\\"\",\n"
                     "\"model_type\": \"deepseek_v3\",\n  \"model_type\": 4}"),
            Places{"4:3"});
  // Missing: the object it is missing from.
  EXPECT_EQ(placesOf("\n{}"), Places{"1:1"});
  json config = readConfigJson("deepseek_v3");
  config["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 1e4}};
  config.erase("rope_scaling");
  std::string text = config.dump(1);
  size_t at = text.find("\"rope_parameters\"");
  std::string line = std::to_string(1 + std::count(text.begin(), text.begin() + at, '\n'));
  EXPECT_EQ(placesOf(text), (Places{line + ":2", line + ":2"})); // factor, original length
  EXPECT_EQ(placesOf("{\n\n  \"a\": 1,}"), Places{"3:10"});
}

TEST(ModelConfigError, UnknownModelTypeListsTheKnownOnes) {
  const std::string known =
      "\n  axk1, deepseek_v2, deepseek_v3, deepseek_v32, deepseek_v4, gemma2,"
      "\n  glm4_moe_lite, glm_moe_dsa, gpt_oss, kimi_k2, kimi_linear, llama,"
      "\n  longcat_flash, minicpm3, ministral, ministral3, mistral, mistral4, mixtral,"
      "\n  qwen2, qwen3, qwen3_moe, sarvam_mla, youtu";
  const std::string hint = " --like=TYPE reads it as one that is:" + known;
  EXPECT_EQ(errorWith({{"model_type", "bert"}}), "model_type = \"bert\": it is not known;" + hint);
  // Another version is another model.
  for (const char *other : {"deepseek_v5", "qwen2_moe", "llama4"})
    EXPECT_EQ(errorWith({{"model_type", other}}),
              "model_type = \"" + std::string(other) + "\": it is not known;" + hint);
  for (auto [written, meant] : {std::pair("lama", "llama"),
                                {"DeepSeek-V3", "deepseek_v3"},
                                {"qwen3moe", "qwen3_moe"},
                                {"gpt-oss", "gpt_oss"}})
    EXPECT_EQ(errorWith({{"model_type", written}}), "model_type = \"" + std::string(written) +
                                                        "\": it is not known, did you mean " +
                                                        meant + "?" + hint);
  EXPECT_EQ(errorOf("{}"), "model_type is missing: expected one of" + known);
  EXPECT_EQ(errorWith({{"model_type", 3}}), "model_type = 3: expected a string");
}

TEST(ModelConfigError, DimsOutOfRange) {
  for (const char *key : {"hidden_size", "num_attention_heads", "kv_lora_rank", "qk_nope_head_dim",
                          "v_head_dim", "q_lora_rank", "num_hidden_layers"}) {
    std::string limit = ": expected an integer from 1 to 1048576";
    EXPECT_EQ(errorWith({{key, 0}}), std::string(key) + " = 0" + limit);
    EXPECT_EQ(errorWith({{key, -128}}), std::string(key) + " = -128" + limit);
    EXPECT_EQ(errorWith({{key, 1048577}}), std::string(key) + " = 1048577" + limit);
    EXPECT_EQ(errorWith({{key, 18446744073709551615u}}),
              std::string(key) + " = 18446744073709551615" + limit);
    EXPECT_EQ(errorWith({{key, 1.5}}), std::string(key) + " = 1.5" + limit);
    EXPECT_EQ(errorWith({{key, "128"}}), std::string(key) + " = \"128\"" + limit);
  }
  EXPECT_EQ(errorWith({{"qk_rope_head_dim", -2}}),
            "qk_rope_head_dim = -2: expected an integer from 0 to 1048576");
  EXPECT_EQ(errorWith({{"max_position_embeddings", 0}}),
            "max_position_embeddings = 0: expected an integer from 1 to 2147483647");
}

TEST(ModelConfigError, MissingDims) {
  for (const char *key : {"hidden_size", "num_attention_heads", "kv_lora_rank", "qk_nope_head_dim"})
    EXPECT_EQ(errorWith({{key, nullptr}}),
              std::string(key) + " is missing: expected an integer from 1 to 1048576");
  EXPECT_EQ(errorWith({{"qk_rope_head_dim", nullptr}}),
            "qk_rope_head_dim is missing: expected an integer from 0 to 1048576");
}

TEST(ModelConfigError, OddRopeDim) {
  EXPECT_EQ(errorWith({{"qk_rope_head_dim", 63}}),
            "qk_rope_head_dim = 63: expected an even number, pairs are rotated");
}

TEST(ModelConfigError, HeadsNotDivisibleByTensorParallelDegree) {
  std::string text = readConfigText("deepseek_v3");
  EXPECT_EQ(errorOf(text, {.tensorParallel = 3}),
            "num_attention_heads = 128: expected a multiple of the "
            "tensor-parallel degree 3");
  EXPECT_EQ(errorOf(text, {.tensorParallel = 256}),
            "num_attention_heads = 128: expected a multiple of the "
            "tensor-parallel degree 256");
  EXPECT_EQ(errorOf(text, {.tensorParallel = 0}),
            "num_attention_heads = 128: tensor-parallel degree 0, expected at "
            "least 1");
}

TEST(ModelConfigError, UnknownRopeType) {
  json config = readConfigJson("deepseek_v3");
  config["rope_scaling"]["type"] = "linear";
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.type = \"linear\": known "
                                    "rope types are default, yarn, longrope");
  config["rope_scaling"].erase("type");
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.rope_type is missing: known "
                                    "rope types are default, yarn, longrope");
  config = withNewRopeFields("deepseek_v3");
  config["rope_parameters"]["rope_type"] = "llama3";
  EXPECT_EQ(errorOf(config.dump()), "rope_parameters.rope_type = \"llama3\": known rope types are "
                                    "default, yarn, longrope");
}

TEST(ModelConfigError, YarnWithoutFactorOrLength) {
  json config = readConfigJson("deepseek_v3");
  config["rope_scaling"].erase("factor");
  config["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(errorOf(config.dump()),
            "rope_scaling.factor is missing: yarn needs it, expected a number >= 1\n"
            "rope_scaling.original_max_position_embeddings is missing: expected an "
            "integer from 1 to 2147483647");
}

TEST(ModelConfigError, RopeNumbersOutOfRange) {
  auto withScaling = [](const char *key, const json &value) {
    json config = readConfigJson("deepseek_v3");
    config["rope_scaling"][key] = value;
    return errorOf(config.dump());
  };
  EXPECT_EQ(withScaling("factor", 0.5), "rope_scaling.factor = 0.5: expected a number >= 1");
  EXPECT_EQ(withScaling("factor", 1e9), "rope_scaling.factor = 1000000000.0: expected factor * "
                                        "original_max_position_embeddings <= 2147483647");
  EXPECT_EQ(withScaling("factor", "40"), "rope_scaling.factor = \"40\": expected a number >= 1");
  EXPECT_EQ(withScaling("beta_fast", 0), "rope_scaling.beta_fast = 0: expected a number > 0");
  EXPECT_EQ(withScaling("attention_factor", 1e39),
            "rope_scaling.attention_factor = 1e+39: expected a number <= 3.402823e+38, which f32 "
            "holds");
  EXPECT_EQ(withScaling("beta_slow", -1), "rope_scaling.beta_slow = -1: expected a number > 0");
  EXPECT_EQ(withScaling("truncate", false),
            "rope_scaling.truncate = false: only a rounded correction range is "
            "supported, expected true");
  EXPECT_EQ(withScaling("mscale_all_dim", -1),
            "rope_scaling.mscale_all_dim = -1: expected a number >= 0");
  EXPECT_EQ(errorWith({{"rope_theta", 1}}), "rope_theta = 1: expected a number > 1");
  EXPECT_EQ(errorWith({{"rope_scaling", "yarn"}}), "rope_scaling = \"yarn\": expected an object");
}

TEST(ModelConfigError, ContradictingRopeFields) {
  json config = withNewRopeFields("deepseek_v3");
  config["rope_theta"] = 50000;
  EXPECT_EQ(errorOf(config.dump()),
            "rope_parameters.rope_theta = 10000: contradicts rope_theta = 50000");
  config = readConfigJson("deepseek_v3");
  config["rope_scaling"]["rope_type"] = "default";
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.rope_type = \"default\": "
                                    "contradicts rope_scaling.type = \"yarn\"");
}

TEST(ModelConfigError, LongRopeFactorLists) {
  json config = readConfigJson("minicpm3_4b");
  config["rope_scaling"]["short_factor"] = {1.0, 2.0};
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.short_factor = [1.0,2.0]: "
                                    "expected a list of 16 positive numbers "
                                    "(qk_rope_head_dim / 2)");
  config = readConfigJson("minicpm3_4b");
  for (double factor : {0.0, 1e-39, 1e39}) {
    config["rope_scaling"]["long_factor"][15] = factor;
    EXPECT_NE(errorOf(config.dump()).find("...: expected a list of 16 positive numbers"),
              std::string::npos)
        << factor;
  }
  config["rope_scaling"].erase("long_factor");
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.long_factor is missing: expected a list of 16 "
                                    "positive numbers (qk_rope_head_dim / 2)");
}

TEST(ModelConfigError, ValueDimNotDerivable) {
  json config = readConfigJson("minicpm3_4b");
  config["hidden_size"] = 2561;
  EXPECT_EQ(errorOf(config.dump()), "v_head_dim is missing: hidden_size 2561 is no multiple of "
                                    "num_attention_heads 40 to derive it");
}

TEST(ModelConfigError, IndexerFields) {
  EXPECT_EQ(errorWith({{"index_topk", nullptr}}, "deepseek_v32"),
            "index_topk is missing: expected an integer from 1 to 2147483647");
  EXPECT_EQ(errorWith({{"index_n_heads", 0}}, "deepseek_v32"),
            "index_n_heads = 0: expected an integer from 1 to 1048576");
  EXPECT_EQ(errorWith({{"index_head_dim", 32}}, "deepseek_v32"),
            "index_head_dim = 32: expected at least qk_rope_head_dim 64");
  EXPECT_EQ(errorWith({{"q_lora_rank", nullptr}}, "deepseek_v32"),
            "q_lora_rank is missing: the indexer reads the query latent, "
            "expected a positive integer");
}

TEST(ModelConfigError, LayersThatAreAlike) {
  ConfigOptions options;
  options.layer = 1;
  llvm::Expected<ModelConfig> result =
      parseModelConfig(readConfigJson("deepseek_v3").dump(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(llvm::toString(result.takeError()),
            "model_type = \"deepseek_v3\": the layers of this type are all alike: --layer does not "
            "apply");
}

TEST(ModelConfigError, A42_UnsupportedAttention) {
  EXPECT_EQ(errorWith({{"sliding_window", 4096}}),
            "sliding_window = 4096: sliding-window attention is not supported, "
            "expected null");
  EXPECT_EQ(errorWith({{"attn_logit_softcapping", 50.0}}),
            "attn_logit_softcapping = 50.0: logit soft-capping is not "
            "supported, expected null");
  EXPECT_EQ(errorWith({{"alibi", true}}), "alibi = true: ALiBi is not supported, expected false");
  EXPECT_EQ(errorWith({{"attention_type", "block_sparse"}}),
            "attention_type = \"block_sparse\": block-sparse attention is not supported, "
            "expected null");
  EXPECT_EQ(errorWith({{"blocksparse_block_size", 64}}),
            "blocksparse_block_size = 64: block-sparse attention is not supported, expected null");
  EXPECT_EQ(errorWith({{"is_encoder_decoder", true}}),
            "is_encoder_decoder = true: only decoders are supported, expected false");
  json config = readConfigJson("deepseek_v3");
  config.update({{"sliding_window", 4096}, {"use_sliding_window", false}});
  parseOrFail(config.dump());
}

// Of known types: keys that other types of latent attention read.
TEST(ModelConfigError, A42_LatentsOfOtherTypes) {
  EXPECT_EQ(errorWith({{"use_mla", false}}),
            "use_mla = false: the model has keys and values of heads, no latents: --like=llama "
            "reads a configuration of such a model");
  EXPECT_EQ(errorWith({{"mla_use_nope", true}}),
            "mla_use_nope = true: layers of deepseek_v3 rotate their keys, expected false "
            "(kimi_linear's do not)");
  EXPECT_EQ(errorWith({{"index_topk", 2048}}),
            "index_topk = 2048: layers of deepseek_v3 have no indexer, expected null (those of "
            "deepseek_v32 and glm_moe_dsa have)");
  EXPECT_EQ(errorWith({{"mla_scale_kv_lora", true}}),
            "mla_scale_kv_lora = true: latents of deepseek_v3 are not multiplied, expected false "
            "(longcat_flash's are)");
  json config = readConfigJson("deepseek_v3");
  config.update({{"use_mla", true}, {"mla_use_nope", false}, {"mla_scale_q_lora", false}});
  parseOrFail(config.dump());
}

TEST(ModelConfigError, WrongKinds) {
  EXPECT_EQ(errorWith({{"attention_bias", 1}}), "attention_bias = 1: expected true or false");
  EXPECT_EQ(errorWith({{"rms_norm_eps", 0}}), "rms_norm_eps = 0: expected a number > 0");
  EXPECT_EQ(errorWith({{"rms_norm_eps", 1e39}}),
            "rms_norm_eps = 1e+39: expected a number <= 3.402823e+38, which f32 holds");
  EXPECT_EQ(errorWith({{"rope_interleave", "yes"}}),
            "rope_interleave = \"yes\": expected true or false");
}

TEST(ModelConfigError, AllAreReportedAtOnce) {
  EXPECT_EQ(errorWith({{"kv_lora_rank", 0}, {"v_head_dim", -1}, {"rope_theta", "x"}}),
            "kv_lora_rank = 0: expected an integer from 1 to 1048576\n"
            "v_head_dim = -1: expected an integer from 1 to 1048576\n"
            "rope_theta = \"x\": expected a number > 1");
}

} // namespace
