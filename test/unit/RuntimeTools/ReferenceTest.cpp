//===- ReferenceTest.cpp - the float64 reference of mla-run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference is checked against layers computed elsewhere, so that packages
// may be checked against it where no stored outputs exist.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "GroupedReference.h"
#include "LatentReference.h"
#include "Numbers.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlac::run;

namespace {
struct Layer {
  explicit Layer(const std::string &name)
      : file(std::string(MLAC_GOLDEN) + "/" + name + ".safetensors"), names(findModule(file, "")),
        config(nlohmann::json::parse(file.metadata().at("config"))) {
    for (const char *name : {"q_a_proj", "q_a_layernorm", "q_b_proj", "q_proj", "k_proj", "v_proj",
                             "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"})
      if (std::string weight = name + std::string(".weight"); file.find(names.weights + weight))
        weights[weight] = file.read(names.weights + weight);
  }

  Checkpoint file;
  ModuleNames names;
  nlohmann::json config;
  WeightMap weights;
};
} // namespace

static LayerFacts ofHeads(int64_t heads, int64_t longestSequence) {
  LayerFacts facts;
  facts.heads = heads;
  facts.longestSequence = longestSequence;
  return facts;
}

/// Every row of a golden layer as one call over the whole sequence.
static ErrorMeasure compareAllRows(const std::string &name) {
  Layer layer(name);
  std::unique_ptr<Reference> reference = makeReference(
      layer.config, ofHeads(layer.config.at("num_attention_heads"), 128), layer.weights);
  std::vector<int64_t> shape = layer.file.shape(layer.names.input);
  std::vector<float> inputs = layer.file.read(layer.names.input);
  std::vector<float> outputs = layer.file.read(layer.names.output);
  ErrorMeasure errors;
  for (int64_t sequence = 0; sequence < shape[0]; ++sequence) {
    const float *hidden = inputs.data() + sequence * shape[1] * shape[2];
    std::vector<const float *> queries;
    std::vector<int64_t> positions;
    for (int64_t token = 0; token < shape[1]; ++token) {
      queries.push_back(hidden + token * shape[2]);
      positions.push_back(token);
    }
    std::vector<double> rows = reference->cachedRows(hidden, shape[1], 0);
    std::vector<double> got = reference->attend(queries, positions, rows);
    for (int64_t token = 0; token < shape[1]; ++token) {
      const float *stored = outputs.data() + (sequence * shape[1] + token) * shape[2];
      std::vector<double> expected(stored, stored + shape[2]);
      std::vector<float> row(got.begin() + token * shape[2], got.begin() + (token + 1) * shape[2]);
      errors.addRow(row.data(), expected.data(), shape[2]);
    }
  }
  return errors;
}

/// The correction is the scale's, not the rotation's.
TEST(Reference, YarnCorrectsTheScaleWithoutRopeParts) {
  nlohmann::json config = Layer("deepseek_v3_tiny_attention").config;
  LatentSpec with = readLatentSpec(config, ofHeads(4, 128));
  double nope = config.at("qk_nope_head_dim"), rope = config.at("qk_rope_head_dim");
  config["qk_rope_head_dim"] = 0;
  LatentSpec without = readLatentSpec(config, ofHeads(4, 128));
  EXPECT_TRUE(without.rotation.inverseFrequencies.empty());
  EXPECT_NEAR(without.softmaxScale * std::sqrt(nope), with.softmaxScale * std::sqrt(nope + rope),
              1e-12);
  EXPECT_GT(without.softmaxScale * std::sqrt(nope), 1.5); // (0.1 ln 40 + 1)^2 = 1.87
}

/// The outputs of a sequence's last token, of the golden layer of groups of heads.
static std::vector<double> attendLast(const GroupedSpec &spec, const WeightMap &weights,
                                      const std::vector<float> &hidden) {
  GroupedReference reference(spec, weights);
  auto tokens = static_cast<int64_t>(hidden.size()) / spec.hidden;
  std::vector<double> rows = reference.cachedRows(hidden.data(), tokens, 0);
  return reference.attend({hidden.data() + (tokens - 1) * spec.hidden}, {tokens - 1}, rows);
}

static double distance(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

static double norm(const std::vector<double> &a) {
  return distance(a, std::vector<double>(a.size()));
}

namespace {
struct GroupedLayerTest : ::testing::Test {
  Layer layer{"llama_gqa"};
  GroupedSpec spec = readGroupedSpec(layer.config, ofHeads(8, 128));
  std::vector<float> hidden = layer.file.read(layer.names.input);
  std::vector<double> plain = attendLast(spec, layer.weights, hidden);
};
} // namespace

/// A window is what the sequence would be without the tokens in front of it, by distances alone.
TEST_F(GroupedLayerTest, WindowsForgetWhatLiesBehindThem) {
  spec.window = 40;
  EXPECT_LT(distance(attendLast(spec, layer.weights, hidden), plain), 1e-12);
  spec.window = 7;
  std::vector<double> got = attendLast(spec, layer.weights, hidden);
  EXPECT_GT(distance(got, plain), 1e-3);
  spec.window = 0;
  std::vector<float> end(hidden.end() - 7 * spec.hidden, hidden.end());
  EXPECT_LT(distance(attendLast(spec, layer.weights, end), got), 1e-5); // angles are f32
}

TEST_F(GroupedLayerTest, SinksTakeTheirShare) {
  spec.hasSinks = true;
  layer.weights["sinks"] = std::vector<float>(8, -1e30f);
  EXPECT_LT(distance(attendLast(spec, layer.weights, hidden), plain), 1e-12);
  layer.weights["sinks"] = std::vector<float>(8, 100.0f); // far above every score
  EXPECT_LT(norm(attendLast(spec, layer.weights, hidden)), 1e-12);
}

TEST_F(GroupedLayerTest, SoftcapsBoundScores) {
  spec.softcap = 1e6;
  EXPECT_LT(distance(attendLast(spec, layer.weights, hidden), plain), 1e-8);
  spec.softcap = 1e-9; // all scores are one: the mean of the values, as of a scale of 0
  std::vector<double> capped = attendLast(spec, layer.weights, hidden);
  spec.softcap = 0;
  spec.scale = 0;
  EXPECT_LT(distance(attendLast(spec, layer.weights, hidden), capped), 1e-8);
}

/// Rows of any length are the same behind a norm of heads.
TEST_F(GroupedLayerTest, NormsOfHeadsForgetLengths) {
  spec.normalisesHeads = true;
  layer.weights["q_norm.weight"] = layer.weights["k_norm.weight"] =
      std::vector<float>(static_cast<size_t>(spec.columns), 1.0f);
  std::vector<double> normal = attendLast(spec, layer.weights, hidden);
  EXPECT_GT(distance(normal, plain), 1e-3);
  for (float &value : layer.weights["q_proj.weight"])
    value *= 1024;
  spec.epsilon = 0;
  std::vector<double> scaled = attendLast(spec, layer.weights, hidden);
  EXPECT_LT(distance(scaled, normal) / norm(normal), 1e-4);
}

TEST_F(GroupedLayerTest, MissingAndUnknownWeightsAreNamed) {
  auto refuse = [&](const WeightMap &weights, const std::string &name) {
    try {
      GroupedReference reference(spec, weights);
      ADD_FAILURE() << "expected an error that names " << name;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find("'" + name + "'"), std::string::npos)
          << error.what();
    }
  };
  WeightMap more = layer.weights;
  more["q_proj.bias"] = std::vector<float>(384);
  refuse(more, "q_proj.bias");
  spec.hasInputBias = true;
  refuse(layer.weights, "q_proj.bias");
}

/// Llama 3.1's: fast pairs as they are, slow ones at an eighth, and between those in order.
TEST(Reference, LlamaStretchesSlowPairs) {
  nlohmann::json config = {{"rope_theta", 500000.0},
                           {"rope_scaling",
                            {{"rope_type", "llama3"},
                             {"factor", 8.0},
                             {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0},
                             {"original_max_position_embeddings", 8192}}}};
  Rotation rotation = readRotation(config, 128, 100, {"llama3"});
  ASSERT_EQ(rotation.inverseFrequencies.size(), 64u);
  double before = 2;
  for (int i = 0; i < 64; ++i) {
    double plain = std::pow(500000.0, -i / 64.0), turns = 8192 * plain / (2 * M_PI);
    double kept = rotation.inverseFrequencies[i] / plain;
    EXPECT_LT(rotation.inverseFrequencies[i], before);
    before = rotation.inverseFrequencies[i];
    if (turns >= 4)
      EXPECT_NEAR(kept, 1, 1e-6);
    else if (turns <= 1)
      EXPECT_NEAR(kept, 0.125, 1e-6);
    else
      EXPECT_NEAR(kept, 0.125 + 0.875 * (turns - 1) / 3, 1e-5);
  }
}

/// gpt-oss leaves the range between fast and slow pairs as it is: no pair of it is either.
TEST(Reference, YarnRoundsItsRangeUnlessItIsTold) {
  nlohmann::json config = {{"rope_theta", 150000.0},
                           {"rope_scaling",
                            {{"rope_type", "yarn"},
                             {"factor", 32.0},
                             {"truncate", false},
                             {"original_max_position_embeddings", 4096}}}};
  Rotation exact = readRotation(config, 64, 100, {"yarn"});
  config["rope_scaling"]["truncate"] = true;
  Rotation rounded = readRotation(config, 64, 100, {"yarn"});
  // 64 ln(4096 / (2 pi 32)) / (2 ln 150000) = 8.09, and with one turn 17.40.
  auto keep = [](const Rotation &rotation, int i) {
    double plain = std::pow(150000.0, -i / 32.0);
    return (rotation.inverseFrequencies[i] / plain - 1 / 32.0) / (1 - 1 / 32.0);
  };
  EXPECT_NEAR(keep(exact, 10), 1 - (10 - 8.0926) / (17.3981 - 8.0926), 1e-3);
  EXPECT_NEAR(keep(rounded, 10), 1 - (10 - 8.0) / (18.0 - 8.0), 1e-3);
  EXPECT_NEAR(exact.multiplier, 0.1 * std::log(32.0) + 1, 1e-12);
}

class GoldenLayer : public ::testing::TestWithParam<const char *> {};

TEST_P(GoldenLayer, ReferenceAgreesToF32Rounding) {
  ErrorMeasure errors = compareAllRows(GetParam());
  EXPECT_GT(errors.rows(), 0u);
  // Stored outputs and this comparison are f32 (6e-8); the tables are formed
  // in f32 too, whose last bit may differ between libraries.
  EXPECT_LT(errors.relative(), 1e-6);
  EXPECT_LT(errors.worstRow(), 5e-6);
}

INSTANTIATE_TEST_SUITE_P(Reference, GoldenLayer,
                         ::testing::Values("deepseek_v3_tiny_attention", "deepseek_v3_attention",
                                           "deepseek_v2_lite_attention", "minicpm3_attention",
                                           "minicpm3_sdpa", "llama_gqa"),
                         [](const auto &info) { return std::string(info.param); });

TEST(Reference, MissingAndMisshapenWeightsAreNamed) {
  Layer layer("deepseek_v3_tiny_attention");
  LatentSpec spec = readLatentSpec(layer.config, ofHeads(4, 128));
  WeightMap weights = layer.weights;
  weights.erase("o_proj.weight");
  EXPECT_THROW(
      {
        try {
          LatentReference reference(spec, weights);
        } catch (const std::runtime_error &error) {
          EXPECT_NE(std::string(error.what()).find("'o_proj.weight'"), std::string::npos);
          throw;
        }
      },
      std::runtime_error);
  weights = layer.weights;
  weights["kv_b_proj.weight"].pop_back();
  EXPECT_THROW(LatentReference(spec, weights), std::runtime_error);
}

TEST(Reference, UnknownRopeTypeIsRefused) {
  Layer layer("deepseek_v3_tiny_attention");
  layer.config["rope_parameters"]["rope_type"] = "spiral";
  EXPECT_THROW(readLatentSpec(layer.config, ofHeads(4, 128)), std::runtime_error);
}

TEST(Reference, LongRopeChoosesItsFactorsByTheLongestSequence) {
  Layer layer("minicpm3_attention");
  layer.config["rope_parameters"] = {{"rope_type", "longrope"},
                                     {"rope_theta", 10000.0},
                                     {"original_max_position_embeddings", 100},
                                     {"short_factor", std::vector<double>(16, 1.0)},
                                     {"long_factor", std::vector<double>(16, 2.0)}};
  layer.config["max_position_embeddings"] = 100;
  LatentSpec shorter = readLatentSpec(layer.config, ofHeads(40, 100));
  LatentSpec longer = readLatentSpec(layer.config, ofHeads(40, 101));
  EXPECT_EQ(shorter.rotation.inverseFrequencies[0], 1.0f);
  EXPECT_EQ(longer.rotation.inverseFrequencies[0], 0.5f);
  EXPECT_EQ(shorter.rotation.multiplier, 1.0); // max position = trained length
}

TEST(Reference, LongCatScalesQueryAndLatent) {
  nlohmann::json config = {{"model_type", "longcat_flash"}, {"hidden_size", 6144},
                           {"num_attention_heads", 64},     {"q_lora_rank", 1536},
                           {"kv_lora_rank", 512},           {"qk_nope_head_dim", 128},
                           {"qk_rope_head_dim", 64},        {"v_head_dim", 128}};
  LatentSpec spec = readLatentSpec(config, ofHeads(64, 128));
  EXPECT_DOUBLE_EQ(spec.queryMultiplier, 2.0);
  EXPECT_NEAR(spec.latentMultiplier, 3.4641016, 1e-7);
  EXPECT_TRUE(spec.rotation.isInterleaved);
}
