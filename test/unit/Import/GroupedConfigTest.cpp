//===- GroupedConfigTest.cpp - configurations of groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Configs.h"

#include "mla/Import/CheckpointTensors.h"
#include "mla/Import/LayerKinds.h"
#include "mla/Import/RopeTable.h"

#include <cmath>

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;

namespace {

/// Llama 3.1 8B's, with other keys.
json makeConfig(const json &changes = json::object()) {
  json config = {{"model_type", "llama"},
                 {"hidden_size", 4096},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"max_position_embeddings", 131072},
                 {"rope_theta", 500000.0},
                 {"rms_norm_eps", 1e-5},
                 {"rope_scaling",
                  {{"rope_type", "llama3"},
                   {"factor", 8.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 8192}}}};
  config.update(changes);
  return config;
}

ModelConfig parse(const json &config, const ConfigOptions &options = {}) {
  llvm::Expected<ModelConfig> parsed = parseModelConfig(config.dump(), options);
  if (!parsed) {
    ADD_FAILURE() << llvm::toString(parsed.takeError());
    return {};
  }
  return std::move(*parsed);
}

std::string getErrors(const json &config, const ConfigOptions &options = {}) {
  llvm::Expected<ModelConfig> parsed = parseModelConfig(config.dump(), options);
  return parsed ? "" : llvm::toString(parsed.takeError());
}

TEST(GroupedConfig, DimsOfAHead) {
  ModelConfig config = parse(makeConfig(), {.tensorParallel = 4});
  ASSERT_TRUE(config.grouped);
  EXPECT_EQ(config.numHeads(), 8);
  EXPECT_EQ(config.numKvHeads(), 2);
  EXPECT_EQ(config.vHeadDim, 128);
  EXPECT_EQ(config.qkRopeHeadDim, 128);
  EXPECT_EQ(config.rope.pairing, RopePairing::Half);
  EXPECT_NEAR(config.softmaxScale(), 1 / std::sqrt(128.0), 1e-12);
  // More heads than fit the hidden size, of which a quarter is rotated; no KV heads: as many.
  config = parse(makeConfig({{"head_dim", 256},
                             {"num_key_value_heads", nullptr},
                             {"partial_rotary_factor", 0.25},
                             {"rope_scaling", nullptr}}));
  EXPECT_EQ(config.vHeadDim, 256);
  EXPECT_EQ(config.qkRopeHeadDim, 64);
  EXPECT_EQ(config.numKvHeads(), 32);
}

/// Frequencies as transformers 5 computes them in f32.
void expectFrequencies(const ModelConfig &config, std::vector<std::pair<size_t, double>> expected) {
  RopeTable table = computeRopeTable(config);
  for (auto [index, frequency] : expected) {
    ASSERT_LT(index, table.inverseFrequencies.size());
    EXPECT_NEAR(table.inverseFrequencies[index] / frequency, 1, 1e-6) << index;
    EXPECT_EQ(table.longInverseFrequencies[index], table.inverseFrequencies[index]);
  }
  EXPECT_EQ(table.length, config.maxPositionEmbeddings);
}

TEST(GroupedConfig, FrequenciesOfLlama3) {
  ModelConfig config = parse(makeConfig());
  expectFrequencies(config, {{0, 1.0},
                             {20, 1.656044088e-02},
                             {28, 3.211446106e-03},
                             {30, 1.371893683e-03},
                             {34, 1.785077911e-04},
                             {36, 7.784655463e-05},
                             {50, 4.411534519e-06},
                             {63, 3.068925878e-07}});
  EXPECT_EQ(computeRopeTable(config).multiplier, 1);
}

TEST(GroupedConfig, FrequenciesOfGptOss) {
  ModelConfig config = parse(makeConfig({{"model_type", "gpt_oss"},
                                         {"head_dim", 64},
                                         {"rope_theta", 150000},
                                         {"sliding_window", 128},
                                         {"rope_scaling",
                                          {{"rope_type", "yarn"},
                                           {"factor", 32.0},
                                           {"beta_fast", 32.0},
                                           {"beta_slow", 1.0},
                                           {"truncate", false},
                                           {"original_max_position_embeddings", 4096}}}}));
  expectFrequencies(config, {{0, 1.0},
                             {5, 1.553229839e-01},
                             {8, 5.081327260e-02},
                             {9, 3.170569614e-02},
                             {12, 6.794959307e-03},
                             {16, 4.564839182e-04},
                             {18, 3.830881178e-05},
                             {31, 3.023511397e-07}});
  EXPECT_NEAR(computeRopeTable(config).multiplier, 1.3465735902799727, 1e-6);
  // The factor is in the tables, whose product has its square; scores have none.
  EXPECT_NEAR(config.softmaxScale(), 0.125, 1e-12);
  EXPECT_TRUE(config.grouped->hasSinks && config.grouped->hasInputBias &&
              config.grouped->hasOutputBias);
}

TEST(GroupedConfig, A19_FactorsOfUnroundedYarn) {
  json rope = {{"rope_type", "yarn"},   {"factor", 4.0},
               {"truncate", false},     {"mscale", 0.7},
               {"mscale_all_dim", 1.3}, {"original_max_position_embeddings", 4096}};
  auto multiplier = [&] {
    return computeRopeTable(parse(makeConfig({{"rope_scaling", rope}}))).multiplier;
  };
  // (0.07 ln 4 + 1) / (0.13 ln 4 + 1), as with a rounded range.
  EXPECT_NEAR(multiplier(), 0.9295235, 1e-6);
  rope["truncate"] = true;
  EXPECT_NEAR(multiplier(), 0.9295235, 1e-6);
  rope["truncate"] = false;
  rope["attn_factor"] = 2.0;
  EXPECT_NEAR(multiplier(), 2 * 0.9295235, 1e-6);
  rope["attention_factor"] = 0.5;
  EXPECT_NEAR(multiplier(), 0.5, 1e-6);
}

TEST(GroupedConfig, FrequenciesThatAreDivided) {
  ModelConfig config = parse(makeConfig({{"hidden_size", 2048},
                                         {"rope_theta", 10000},
                                         {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}));
  expectFrequencies(config, {{0, 0.25}, {1, 1.874735504e-01}, {31, 3.333803761e-05}});
}

int64_t getWindow(const json &changes, int64_t layer) {
  return parse(makeConfig(changes), {.layer = layer}).grouped->window;
}

TEST(GroupedConfig, WindowsOfLayers) {
  json mistral = {{"model_type", "mistral"}, {"sliding_window", 4096}};
  EXPECT_EQ(getWindow(mistral, 31), 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(getWindow(mistral, 0), 0);
  // Of ministral those of the list, all without one.
  json ministral = {{"model_type", "ministral"}, {"sliding_window", 64}};
  EXPECT_EQ(getWindow(ministral, 31), 64);
  ministral["layer_types"] = json::array();
  for (int i = 0; i < 32; ++i)
    ministral["layer_types"].push_back(i % 4 == 0 ? "full_attention" : "sliding_attention");
  EXPECT_EQ(getWindow(ministral, 4), 0);
  EXPECT_EQ(getWindow(ministral, 31), 64);
  json qwen = {{"model_type", "qwen2"}, {"sliding_window", 64}, {"max_window_layers", 28}};
  EXPECT_EQ(getWindow(qwen, 31), 0); // not used
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(getWindow(qwen, 27), 0);
  EXPECT_EQ(getWindow(qwen, 28), 64);
  json gemma = {{"model_type", "gemma2"}, {"sliding_window", 512}};
  EXPECT_EQ(getWindow(gemma, 0), 512);
  EXPECT_EQ(getWindow(gemma, 1), 0);
  json types = json::array();
  for (int i = 0; i < 32; ++i)
    types.push_back(i == 5 ? "sliding_attention" : "full_attention");
  gemma["layer_types"] = types;
  EXPECT_EQ(getWindow(gemma, 0), 0);
  EXPECT_EQ(getWindow(gemma, 5), 512);
  // All layers of qwen3_moe, whatever other models' keys say (transformers 5.17).
  json moe = qwen;
  moe["model_type"] = "qwen3_moe";
  moe["layer_types"] = types;
  EXPECT_EQ(getWindow(moe, 0), 64);
  EXPECT_EQ(getWindow(moe, 31), 64);
  moe["use_sliding_window"] = false;
  EXPECT_EQ(getWindow(moe, 0), 0);
  json mixtral = {{"model_type", "mixtral"}, {"sliding_window", 512}, {"layer_types", types}};
  EXPECT_EQ(getWindow(mixtral, 0), 512);
  // A key of other models' that llama has not.
  EXPECT_EQ(getWindow({{"sliding_window", 512}}, 0), 0);
}

TEST(GroupedConfig, WindowsWithoutTheirKeys) {
  const std::tuple<const char *, int64_t, int64_t> kFirstAndLast[] = {
      {"mistral", 4096, 4096}, {"mixtral", 0, 0},         {"qwen2", 0, 4096},
      {"qwen3", 0, 4096},      {"qwen3_moe", 4096, 4096}, {"gemma2", 4096, 0},
      {"gpt_oss", 128, 0},     {"ministral", 4096, 4096}, {"ministral3", 0, 0}};
  for (auto [type, first, last] : kFirstAndLast) {
    json config = {{"model_type", type}, {"use_sliding_window", true}};
    EXPECT_EQ(getWindow(config, 0), first) << type;
    EXPECT_EQ(getWindow(config, 31), last) << type;
  }
  // Null is no window, which layers that slide by their type cannot do.
  for (const char *type :
       {"ministral", "ministral3", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"})
    EXPECT_EQ(
        getWindow({{"model_type", type}, {"use_sliding_window", true}, {"sliding_window", nullptr}},
                  31),
        0)
        << type;
}

/// The kinds and the layers of each.
std::string listKinds(const json &config) {
  llvm::Expected<std::vector<LayerKind>> kinds = listLayerKinds(config.dump(), {});
  if (!kinds)
    return llvm::toString(kinds.takeError());
  std::string text;
  for (const LayerKind &kind : *kinds) {
    text += kind.name;
    for (int64_t layer : kind.layers)
      text += " " + std::to_string(layer);
    text += ";";
  }
  return text;
}

// A package of the first layer's kind alone would be wrong of the others.
TEST(GroupedConfig, LayersWithAndWithoutAWindowAreOfTwoKinds) {
  json four = {{"num_hidden_layers", 4}, {"sliding_window", 64}};
  auto list = [&](const json &changes) {
    json config = makeConfig(four);
    config.update(changes);
    return listKinds(config);
  };
  EXPECT_EQ(list({{"model_type", "gemma2"}}), "sliding_attention 0 2;full_attention 1 3;");
  EXPECT_EQ(list({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"max_window_layers", 3}}),
            "full_attention 0 1 2;sliding_attention 3;");
  EXPECT_EQ(list({{"model_type", "mistral"}}), "sliding_attention 0 1 2 3;");
  EXPECT_EQ(list(json::object()), "full_attention 0 1 2 3;");
  // Of every layer, not only of the first, something may be wrong.
  EXPECT_NE(list({{"model_type", "gemma2"},
                  {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}})
                .find("expected a list with an element for each of num_hidden_layers, got 3"),
            std::string::npos);
}

TEST(GroupedConfig, SequencesEndWhereMinistral3ScalesQueries) {
  json config = makeConfig({{"model_type", "ministral3"}});
  EXPECT_EQ(getSupportedLength(parse(config)), 131072); // llama3's rope has no such key
  config["rope_scaling"]["llama_4_scaling_beta"] = 0.1;
  EXPECT_EQ(getSupportedLength(parse(config)), 8192);
  config.erase("rope_scaling");
  config.erase("rope_theta");
  EXPECT_EQ(getSupportedLength(parse(config)), 16384); // its default
}

TEST(GroupedConfig, ScoresOfGemma2) {
  ModelConfig config = parse(makeConfig({{"model_type", "gemma2"},
                                         {"query_pre_attn_scalar", 224},
                                         {"attn_logit_softcapping", 50.0}}));
  EXPECT_EQ(config.grouped->softcap, 50);
  EXPECT_NEAR(config.softmaxScale(), 1 / std::sqrt(224.0), 1e-12);
}

std::string getNames(const ModelConfig &config) {
  std::string names;
  for (const CheckpointTensor &tensor : getStepTensors(config))
    names += tensor.name + " ";
  return names;
}

TEST(GroupedConfig, TensorsOfModels) {
  EXPECT_EQ(getNames(parse(makeConfig())),
            "q_proj.weight k_proj.weight v_proj.weight o_proj.weight ");
  EXPECT_EQ(getNames(parse(makeConfig({{"model_type", "qwen2"}}))),
            "q_proj.weight q_proj.bias k_proj.weight k_proj.bias v_proj.weight v_proj.bias "
            "o_proj.weight ");
  EXPECT_EQ(getNames(parse(makeConfig({{"model_type", "qwen3"}}))),
            "q_proj.weight k_proj.weight v_proj.weight q_norm.weight k_norm.weight "
            "o_proj.weight ");
  // Whoever adds the ranks' outputs adds the bias.
  std::string biased = "q_proj.weight q_proj.bias k_proj.weight k_proj.bias v_proj.weight "
                       "v_proj.bias sinks o_proj.weight ";
  json oss = makeConfig({{"model_type", "gpt_oss"}, {"head_dim", 128}});
  EXPECT_EQ(getNames(parse(oss)), biased + "o_proj.bias ");
  ModelConfig config = parse(oss, {.tensorParallel = 8});
  EXPECT_EQ(getNames(config), biased);
  std::vector<CheckpointTensor> tensors = getStepTensors(config);
  EXPECT_EQ(tensors[2].shapeOnRank(8), (TensorShape{128, 4096})); // k_proj
  EXPECT_EQ(tensors[6].shapeOnRank(8), (TensorShape{4}));         // sinks
  EXPECT_EQ(tensors[7].shapeOnRank(8), (TensorShape{4096, 512})); // o_proj
}

/// A configuration with nothing but what has to be there.
ModelConfig parseLeast(const char *type, const json &changes = json::object()) {
  json config = {{"model_type", type},
                 {"hidden_size", 4096},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 64},
                 {"max_position_embeddings", 131072}};
  config.update(changes);
  return parse(config);
}

TEST(GroupedConfig, KeysThatAFileLacksHaveTheTypesDefaults_E7) {
  ModelConfig llama = parseLeast("llama"), gemma = parseLeast("gemma2"),
              oss = parseLeast("gpt_oss"), qwen = parseLeast("qwen3"),
              mixtral = parseLeast("mixtral");
  EXPECT_EQ(llama.vHeadDim, 64);
  EXPECT_EQ(llama.grouped->kvHeadsTotal, 64);
  EXPECT_EQ(gemma.vHeadDim, 256);
  EXPECT_EQ(gemma.grouped->kvHeadsTotal, 4);
  EXPECT_EQ(gemma.grouped->softcap, 50);
  EXPECT_EQ(gemma.softmaxScale(), 1.0 / 16);
  EXPECT_EQ(parseLeast("gemma2", {{"head_dim", 64}}).softmaxScale(), 1.0 / 16);
  EXPECT_EQ(parseLeast("gemma2", {{"attn_logit_softcapping", nullptr}}).grouped->softcap, 0);
  EXPECT_EQ(oss.vHeadDim, 64);
  EXPECT_EQ(oss.rope.theta, 150000);
  EXPECT_NEAR(*oss.rope.cosSinMultiplier, 0.1 * std::log(32) + 1, 1e-12); // yarn by 32
  EXPECT_EQ(parseLeast("gpt_oss", {{"rope_parameters", {{"rope_type", "default"}}}}).rope.kind,
            RopeKind::Plain);
  EXPECT_EQ(qwen.vHeadDim, 128);
  EXPECT_EQ(qwen.grouped->kvHeadsTotal, 32);
  EXPECT_EQ(parseLeast("qwen3_moe").grouped->kvHeadsTotal, 4);
  EXPECT_EQ(mixtral.rope.theta, 1e6);
  EXPECT_EQ(mixtral.rmsNormEps, 1e-5);
  // What is in one of its places is not lacking; of two objects transformers reads rope_scaling.
  EXPECT_EQ(parseLeast("mixtral", {{"rope_theta", 10.0}}).rope.theta, 10);
  EXPECT_EQ(parseLeast("mixtral", {{"rope_parameters", {{"rope_theta", 10.0}}}}).rope.theta, 10);
  json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}};
  ModelConfig both =
      parseLeast("mixtral", {{"rope_parameters", {{"rope_theta", 10.0}}}, {"rope_scaling", yarn}});
  EXPECT_EQ(both.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(both.rope.theta, 1e6);
}

TEST(GroupedConfig, MistralsProjectionsHaveNoBiasWhateverItsKeysSay_E7) {
  for (const char *type : {"ministral", "ministral3", "mistral", "mixtral"})
    EXPECT_EQ(getNames(parse(makeConfig({{"model_type", type}, {"attention_bias", true}}))),
              "q_proj.weight k_proj.weight v_proj.weight o_proj.weight ");
}

TEST(GroupedConfigError, NamesKeysAndLimits) {
  const std::pair<json, const char *> kCases[] = {
      {{{"num_key_value_heads", 5}},
       "num_key_value_heads = 5: expected a divisor of num_attention_heads 32"},
      {{{"num_key_value_heads", 0}}, "num_key_value_heads = 0: expected an integer from 1"},
      {{{"num_attention_heads", 24}, {"num_key_value_heads", 24}},
       "head_dim is missing: hidden_size 4096 is no multiple of num_attention_heads 24"},
      {{{"partial_rotary_factor", 1.5}},
       "partial_rotary_factor = 1.5: expected an even number of rotated channels up to head_dim "
       "128, got 192"},
      {{{"head_dim", 9}}, "head_dim = 9: expected an even number of rotated channels"},
      {{{"rope_scaling", {{"rope_type", "llama3"}}}}, "rope_scaling.factor is missing: llama3"},
      {{{"rope_scaling", {{"rope_type", "dynamic"}}}},
       "rope_scaling.rope_type = \"dynamic\": known rope types are default, linear, llama3, "
       "longrope, yarn"},
      {{{"attn_logit_softcapping", 50.0}}, "logit soft-capping is not supported"},
      {{{"is_causal", false}}, "is_causal = false: attention to later tokens is not supported"},
      {{{"model_type", "gemma2"}, {"use_bidirectional_attention", true}},
       "use_bidirectional_attention = true: attention to later tokens is not supported"},
      {{{"model_type", "mistral"}, {"sliding_window", 0}},
       "sliding_window = 0: expected an integer from 1"},
      {{{"model_type", "gemma2"}, {"attn_logit_softcapping", 513}},
       "attn_logit_softcapping = 513: expected at most 512, or null for none"},
      {{{"model_type", "gemma2"}, {"attn_logit_softcapping", 512}}, ""},
      {{{"model_type", "gemma2"}, {"sliding_window", nullptr}},
       "sliding_window is missing: layer 0 is sliding_attention, which needs a window"},
      {{{"model_type", "qwen3"},
        {"use_sliding_window", false},
        {"layer_types", {"sliding_attention"}}},
       "use_sliding_window = false: layer 0 is sliding_attention, which needs a window"},
      {{{"model_type", "gemma2"}, {"sliding_window", 8}, {"layer_types", {"full_attention"}}}, ""},
      {{{"model_type", "gemma2"}, {"sliding_window", 8}, {"layer_types", {"chunked_attention"}}},
       "layer 0: known types are full_attention, sliding_attention, got \"chunked_attention\""},
      {{{"layer_types", {"sliding_attention"}}, {"sliding_window", 8}},
       "layer 0 is sliding_attention, and all layers of such models have no window, expected "
       "full_attention or no list"},
      {{{"layer_types", {"full_attention"}}}, ""},
      {{{"rope_scaling", nullptr},
        {"rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}}},
       "rope of each kind of layers ('full_attention') is not supported, expected one object"},
      {{{"clip_qkv", 8.0}}, "clip_qkv = 8.0: clipped queries, keys and values are not supported"}};
  for (const auto &[changes, message] : kCases) {
    std::string errors = getErrors(makeConfig(changes));
    if (*message == 0)
      EXPECT_EQ(errors, "");
    else
      EXPECT_NE(errors.find(message), std::string::npos) << errors;
  }
  EXPECT_NE(getErrors(makeConfig(), {.tensorParallel = 16})
                .find("num_key_value_heads = 8: expected a multiple of the tensor-parallel "
                      "degree 16"),
            std::string::npos);
  // No layer is out of none.
  EXPECT_EQ(getErrors(makeConfig({{"num_hidden_layers", nullptr}})),
            "num_hidden_layers is missing: expected an integer from 1 to 1048576");
  EXPECT_NE(getErrors(makeConfig(), {.layer = 32}).find("--layer=32, expected 0 to 31"),
            std::string::npos);
}

TEST(GroupedConfig, ProblemsOfDefaultsSayWhereTheyComeFrom) {
  json config = {{"model_type", "qwen2"},  {"hidden_size", 4096},
                 {"num_hidden_layers", 2}, {"num_attention_heads", 24},
                 {"head_dim", 128},        {"max_position_embeddings", 4096}};
  llvm::Expected<ModelConfig> parsed = parseModelConfig(config.dump());
  ASSERT_FALSE(parsed);
  EXPECT_EQ(llvm::toString(parsed.takeError()),
            "num_key_value_heads = 32: expected a divisor of num_attention_heads 24 (the file "
            "lacks num_key_value_heads, this is qwen2's default)");
}

} // namespace
