//===- ModelConfigTest.cpp - config.json to ModelConfig ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Configs.h"

#include "mla/Import/RopeTable.h"

#include <cmath>

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;

namespace {

//===----------------------------------------------------------------------===//
// The models
//===----------------------------------------------------------------------===//

struct ModelRow {
  const char *file, *modelType;
  int64_t hidden, layers, heads, qRank, kvRank, nope, rope, value;
  double theta;
  RopeKind kind;
  int64_t maxPositions;
  double eps, softmaxScale;
};

void PrintTo(const ModelRow &row, std::ostream *os) { *os << row.file; }

constexpr int64_t kNone = 0;

// Published configurations; the scale column was derived apart from this code.
const ModelRow kRows[] = {
    {"axk1", "axk1", 7168, 61, 64, 1536, 512, 128, 64, 128, 1e4, RopeKind::Plain, 32768, 1e-6,
     0.0721688},
    {"kimi_linear_48b", "kimi_linear", 2304, 27, 32, kNone, 512, 128, 64, 128, 1e4, RopeKind::Plain,
     1048576, 1e-5, 0.0721688},
    {"mistral4", "mistral4", 4096, 36, 32, 1024, 256, 64, 64, 128, 1e4, RopeKind::Yarn, 1048576,
     1e-6, 0.1949695},
    {"deepseek_v2_lite", "deepseek_v2", 2048, 27, 16, kNone, 512, 128, 64, 128, 1e4, RopeKind::Yarn,
     163840, 1e-6, 0.1147214},
    {"deepseek_v2", "deepseek_v2", 5120, 60, 128, 1536, 512, 128, 64, 128, 1e4, RopeKind::Yarn,
     163840, 1e-6, 0.1147214},
    {"deepseek_v3", "deepseek_v3", 7168, 61, 128, 1536, 512, 128, 64, 128, 1e4, RopeKind::Yarn,
     163840, 1e-6, 0.1352338},
    {"deepseek_v32", "deepseek_v32", 7168, 61, 128, 1536, 512, 128, 64, 128, 1e4, RopeKind::Yarn,
     163840, 1e-6, 0.1352338},
    {"kimi_k2_instruct", "kimi_k2", 7168, 61, 64, 1536, 512, 128, 64, 128, 5e4, RopeKind::Yarn,
     131072, 1e-6, 0.1308608},
    {"kimi_k2_0905", "kimi_k2", 7168, 61, 64, 1536, 512, 128, 64, 128, 5e4, RopeKind::Yarn, 262144,
     1e-6, 0.1446796},
    {"minicpm3_4b", "minicpm3", 2560, 62, 40, 768, 256, 64, 32, 64, 1e4, RopeKind::LongRope, 32768,
     1e-5, 0.1020621},
    {"glm_4_7_flash", "glm4_moe_lite", 2048, 47, 20, 768, 512, 192, 64, 256, 1e6, RopeKind::Plain,
     202752, 1e-5, 0.0625},
    {"glm_5_2", "glm_moe_dsa", 6144, 78, 64, 2048, 512, 192, 64, 256, 8e6, RopeKind::Plain, 1048576,
     1e-5, 0.0625},
    {"glm_5_3_flash", "glm4_moe_lite", 2048, 47, 20, 1536, 512, 256, 0, 256, 1e4, RopeKind::Plain,
     131072, 1e-5, 0.0625},
    {"longcat_flash", "longcat_flash", 6144, 28, 64, 1536, 512, 128, 64, 128, 1e7, RopeKind::Plain,
     131072, 1e-5, 0.0721688},
};

class Model : public testing::TestWithParam<ModelRow> {};

TEST_P(Model, HasTheListedParameters) {
  const ModelRow &row = GetParam();
  ModelConfig config = loadConfig(row.file);
  EXPECT_EQ(config.modelType, row.modelType);
  EXPECT_EQ(config.hiddenSize, row.hidden);
  EXPECT_EQ(config.numLayers, row.layers);
  EXPECT_EQ(config.numHeadsTotal, row.heads);
  EXPECT_EQ(config.qLoraRank.value_or(kNone), row.qRank);
  EXPECT_EQ(config.queryInputDim(), row.qRank ? row.qRank : row.hidden);
  EXPECT_EQ(config.kvLoraRank, row.kvRank);
  EXPECT_EQ(config.qkNopeHeadDim, row.nope);
  EXPECT_EQ(config.qkRopeHeadDim, row.rope);
  EXPECT_EQ(config.vHeadDim, row.value);
  EXPECT_EQ(config.latentDim(), row.kvRank + row.rope);
  EXPECT_EQ(config.rope.theta, row.theta);
  EXPECT_EQ(config.rope.kind, row.kind);
  EXPECT_EQ(config.maxPositionEmbeddings, row.maxPositions);
  EXPECT_EQ(config.rmsNormEps, row.eps);
  EXPECT_EQ(config.latentNormEps, 1e-6);
  EXPECT_FALSE(config.attentionBias);
  EXPECT_NEAR(config.softmaxScale(), row.softmaxScale,
              5e-8); // the column's last digit
}

TEST_P(Model, TakesTensorParallelDegreesThatDivideItsHeads) {
  const ModelRow &row = GetParam();
  ModelConfig config = loadConfig(row.file, {.tensorParallel = 4});
  EXPECT_EQ(config.numHeads(), row.heads / 4);
  EXPECT_EQ(config.numHeadsTotal, row.heads);
}

INSTANTIATE_TEST_SUITE_P(Table, Model, testing::ValuesIn(kRows),
                         [](const auto &info) { return std::string(info.param.file); });

TEST(ModelConfig, RopePairingFollowsTheModelType) {
  for (const ModelRow &row : kRows)
    EXPECT_EQ(loadConfig(row.file).rope.pairing, std::string(row.modelType) == "minicpm3"
                                                     ? RopePairing::Half
                                                     : RopePairing::Interleaved)
        << row.file;
}

TEST(ModelConfig, RopeInterleaveKeyDecides) {
  json config = readConfigJson("minicpm3_4b");
  config["rope_interleave"] = true;
  EXPECT_EQ(parseOrFail(config.dump()).rope.pairing, RopePairing::Interleaved);
  config = readConfigJson("deepseek_v3");
  config["rope_interleave"] = false;
  EXPECT_EQ(parseOrFail(config.dump()).rope.pairing, RopePairing::Half);
}

TEST(ModelConfig, KimiLinearRotatesNothing) {
  json config = readConfigJson("kimi_linear_48b");
  EXPECT_FALSE(parseOrFail(config.dump()).rope.isApplied);
  EXPECT_TRUE(loadConfig("deepseek_v3").rope.isApplied);
  config.erase("model_max_length");
  config["max_position_embeddings"] = 4096;
  EXPECT_EQ(parseOrFail(config.dump()).maxPositionEmbeddings, 4096);
  config["mla_use_nope"] = false;
  EXPECT_EQ(errorOf(config.dump()),
            "mla_use_nope = false: no model of this type rotates its keys, expected true");
}

TEST(ModelConfig, SequencesEndWhereQueriesAreScaled) {
  json config = readConfigJson("mistral4");
  EXPECT_EQ(getSupportedLength(parseOrFail(config.dump())), 8192);
  config["rope_parameters"]["llama_4_scaling_beta"] = 0;
  EXPECT_EQ(getSupportedLength(parseOrFail(config.dump())), 1048576);
  config["rope_parameters"].erase("llama_4_scaling_beta");
  EXPECT_EQ(getSupportedLength(parseOrFail(config.dump())), 1048576);
  // vLLM's configuration of Mistral Large 3.
  config = readConfigJson("deepseek_v3");
  config["llama_4_scaling"] = {{"original_max_position_embeddings", 8192}, {"beta", 0.1}};
  EXPECT_EQ(getSupportedLength(parseOrFail(config.dump())), 8192);
  config["llama_4_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(errorOf(config.dump()), "llama_4_scaling.original_max_position_embeddings is missing: "
                                    "expected an integer from 1 to 2147483647");
}

TEST(ModelConfig, DeepseekYarnIsYarn) {
  json config = readConfigJson("deepseek_v3");
  RopeParams yarn = parseOrFail(config.dump()).rope;
  config["rope_scaling"]["type"] = "deepseek_yarn";
  ModelConfig other = parseOrFail(config.dump());
  EXPECT_EQ(other.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(other.rope.factor, yarn.factor);
  EXPECT_EQ(other.softmaxScale(), loadConfig("deepseek_v3").softmaxScale());
}

TEST(ModelConfig, IndexerOfSparseModels) {
  ModelConfig v32 = loadConfig("deepseek_v32");
  ASSERT_TRUE(v32.indexer.has_value());
  EXPECT_EQ(v32.indexer->numHeads, 64);
  EXPECT_EQ(v32.indexer->headDim, 128);
  EXPECT_EQ(v32.indexer->topk, 2048);
  EXPECT_EQ(v32.indexer->pairing, RopePairing::Half);

  json glm = readConfigJson("glm_5_2");
  glm.erase("indexer_rope_interleave");
  ModelConfig glm5 = parseOrFail(glm.dump());
  ASSERT_TRUE(glm5.indexer.has_value());
  EXPECT_EQ(glm5.indexer->numHeads, 32);
  EXPECT_EQ(glm5.indexer->pairing, RopePairing::Interleaved);
  glm["indexer_rope_interleave"] = false;
  EXPECT_EQ(parseOrFail(glm.dump()).indexer->pairing, RopePairing::Half);

  EXPECT_FALSE(loadConfig("deepseek_v3").indexer.has_value());
}

TEST(ModelConfig, LongCatMultipliersAndSublayers) {
  ModelConfig config = loadConfig("longcat_flash");
  EXPECT_DOUBLE_EQ(config.queryMultiplier, 2.0);
  EXPECT_NEAR(config.latentMultiplier, 3.4641016, 5e-8);
  EXPECT_EQ(config.attentionsPerLayer, 2);

  json without = readConfigJson("longcat_flash");
  without["mla_scale_q_lora"] = false;
  without["mla_scale_kv_lora"] = false;
  config = parseOrFail(without.dump());
  EXPECT_EQ(config.queryMultiplier, 1.0);
  EXPECT_EQ(config.latentMultiplier, 1.0);
  EXPECT_EQ(loadConfig("deepseek_v3").latentMultiplier, 1.0);
}

TEST(ModelConfig, LongCatLayersUnderEitherKey) {
  json config = readConfigJson("longcat_flash");
  config["num_hidden_layers"] = config["num_layers"];
  config.erase("num_layers");
  EXPECT_EQ(parseOrFail(config.dump()).numLayers, 28);
}

TEST(ModelConfig, LatentNormEpsFromConfigIsAnOption) {
  EXPECT_EQ(loadConfig("glm_5_2", {.latentNormEpsFromConfig = true}).latentNormEps, 1e-5);
}

TEST(ModelConfig, DequantisedWeightsAreAnOption) {
  json config = readConfigJson("deepseek_v3");
  config["quantization_config"] = nullptr;
  EXPECT_EQ(parseOrFail(config.dump()).hiddenSize, 7168);
  config["quantization_config"] = {{"quant_method", "awq"}};
  llvm::Expected<ModelConfig> parsed =
      parseModelConfig(config.dump(), {.dequantisedWeights = true});
  ASSERT_TRUE(static_cast<bool>(parsed)) << llvm::toString(parsed.takeError());
  EXPECT_EQ(parsed->hiddenSize, 7168);
}

//===----------------------------------------------------------------------===//
// Old and new fields, missing and ignored keys
//===----------------------------------------------------------------------===//

json withNewRopeFields(llvm::StringRef name) {
  json config = readConfigJson(name);
  json fields = config["rope_scaling"];
  fields["rope_type"] = fields["type"];
  fields.erase("type");
  fields["rope_theta"] = config["rope_theta"];
  config["rope_parameters"] = fields;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  return config;
}

TEST(ModelConfig, OldAndNewRopeFieldsAgree) {
  for (const char *name : {"deepseek_v2_lite", "deepseek_v3", "kimi_k2_instruct"}) {
    ModelConfig oldFields = loadConfig(name),
                newFields = parseOrFail(withNewRopeFields(name).dump());
    EXPECT_EQ(newFields.rope.kind, RopeKind::Yarn);
    EXPECT_EQ(newFields.rope.theta, oldFields.rope.theta);
    EXPECT_EQ(newFields.rope.factor, oldFields.rope.factor);
    EXPECT_EQ(newFields.rope.betaFast, oldFields.rope.betaFast);
    EXPECT_EQ(newFields.rope.originalMaxPositions, oldFields.rope.originalMaxPositions);
    EXPECT_EQ(newFields.softmaxScale(), oldFields.softmaxScale());
  }
}

TEST(ModelConfig, TypeIsASynonymOfRopeType) {
  json config = readConfigJson("deepseek_v3");
  config["rope_scaling"]["rope_type"] = "yarn"; // both, agreeing
  EXPECT_EQ(parseOrFail(config.dump()).rope.kind, RopeKind::Yarn);
  config["rope_scaling"].erase("type");
  EXPECT_EQ(parseOrFail(config.dump()).rope.kind, RopeKind::Yarn);
  config = withNewRopeFields("deepseek_v3");
  config["rope_parameters"]["type"] = "yarn";
  config["rope_parameters"].erase("rope_type");
  EXPECT_EQ(parseOrFail(config.dump()).rope.kind, RopeKind::Yarn);
}

TEST(ModelConfig, ThetaBesideNewFieldsIsRead) {
  json config = withNewRopeFields("kimi_k2_0905");
  config["rope_parameters"].erase("rope_theta");
  config["rope_theta"] = 50000;
  EXPECT_EQ(parseOrFail(config.dump()).rope.theta, 5e4);
}

TEST(ModelConfig, IntegersAreNumbers) {
  json config = readConfigJson("deepseek_v3");
  config["rope_theta"] = 10000;
  config["rope_scaling"]["mscale"] = 1;
  config["rope_scaling"]["mscale_all_dim"] = 1;
  EXPECT_NEAR(parseOrFail(config.dump()).softmaxScale(), 0.1352338, 5e-8);
}

TEST(ModelConfig, AbsentMscaleAllDimLeavesTheScale) {
  json config = readConfigJson("deepseek_v3");
  config["rope_scaling"].erase("mscale_all_dim");
  EXPECT_DOUBLE_EQ(parseOrFail(config.dump()).softmaxScale(), 1 / std::sqrt(192.0));
}

TEST(ModelConfig, MissingValueDimIsDerivedOrTheTypesDefault) {
  json config = readConfigJson("minicpm3_4b");
  EXPECT_FALSE(config.contains("v_head_dim")); // an old configuration
  EXPECT_EQ(parseOrFail(config.dump()).vHeadDim, 64);
  config = readConfigJson("deepseek_v3");
  config.erase("v_head_dim");
  EXPECT_EQ(parseOrFail(config.dump()).vHeadDim, 128);
}

TEST(ModelConfig, MissingQueryRankIsTheTypesDefaultAndNullMeansNone) {
  json config = readConfigJson("deepseek_v2_lite");
  EXPECT_TRUE(config.at("q_lora_rank").is_null());
  EXPECT_FALSE(parseOrFail(config.dump()).qLoraRank.has_value());
  config.erase("q_lora_rank");
  EXPECT_EQ(parseOrFail(config.dump()).qLoraRank, 1536);
  config = readConfigJson("kimi_linear_48b");
  config.erase("q_lora_rank");
  EXPECT_FALSE(parseOrFail(config.dump()).qLoraRank.has_value());
}

TEST(ModelConfig, MissingRopeIsTheTypesDefault) {
  json config = readConfigJson("longcat_flash");
  config.erase("rope_theta");
  EXPECT_EQ(parseOrFail(config.dump()).rope.theta, 1e7);
  config = readConfigJson("mistral4");
  config.erase("rope_parameters");
  RopeParams rope = parseOrFail(config.dump()).rope;
  EXPECT_EQ(rope.kind, RopeKind::Yarn);
  EXPECT_EQ(rope.factor, 128);
  EXPECT_EQ(rope.scaledFrom, 8192);
}

TEST(ModelConfig, MisleadingAndUnknownKeysAreIgnored) {
  json config = readConfigJson("deepseek_v3");
  config["num_key_value_heads"] = 8;
  config["head_dim"] = 3;
  config["qk_head_dim"] = "whatever";
  config["made_up"] = {{"deep", {1, 2, 3}}};
  ModelConfig parsed = parseOrFail(config.dump()), plain = loadConfig("deepseek_v3");
  EXPECT_EQ(parsed.numHeads(), plain.numHeads());
  EXPECT_EQ(parsed.qkHeadDim(), 192);
  EXPECT_EQ(parsed.softmaxScale(), plain.softmaxScale());
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

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
      "\n  qwen2, qwen3, qwen3_moe, youtu";
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
  config["rope_scaling"]["long_factor"][15] = 0;
  EXPECT_NE(errorOf(config.dump()).find("...: expected a list of 16 positive numbers"),
            std::string::npos);
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
  EXPECT_EQ(errorWith({{"rope_interleave", "yes"}}),
            "rope_interleave = \"yes\": expected true or false");
}

TEST(ModelConfigError, AllAreReportedAtOnce) {
  EXPECT_EQ(errorWith({{"kv_lora_rank", 0}, {"v_head_dim", -1}, {"rope_theta", "x"}}),
            "kv_lora_rank = 0: expected an integer from 1 to 1048576\n"
            "v_head_dim = -1: expected an integer from 1 to 1048576\n"
            "rope_theta = \"x\": expected a number > 1");
}

//===----------------------------------------------------------------------===//
// Arbitrary text
//===----------------------------------------------------------------------===//

// Whatever the text, the answer is a configuration or an error.
TEST(ModelConfigError, DamagedTextNeverCrashes) {
  uint32_t state = 1; // a linear congruential generator (Numerical Recipes)
  auto next = [&] { return state = state * 1664525u + 1013904223u; };
  for (const ModelRow &row : kRows) {
    std::string text = readConfigText(row.file);
    for (size_t length = 0; length + 1 < text.size(); ++length)
      EXPECT_NE(errorOf(llvm::StringRef(text).take_front(length)), "");
    for (int round = 0; round < 500; ++round) {
      std::string damaged = text;
      for (int edit = 0; edit < 3; ++edit)
        damaged[next() % damaged.size()] = "0-9.eE\"{}[],:nul\xff"[next() % 18];
      llvm::consumeError(parseModelConfig(damaged).takeError());
    }
  }
}

} // namespace
