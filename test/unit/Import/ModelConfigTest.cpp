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
