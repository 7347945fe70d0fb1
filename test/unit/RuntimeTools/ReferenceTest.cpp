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

#include "Reference.h"
#include "Check.h"
#include "Numbers.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlac::run;

namespace {
struct Layer {
  explicit Layer(const std::string &name)
      : file(std::string(MLAC_GOLDEN) + "/" + name + "_attention.safetensors"),
        names(findModule(file, "")), config(nlohmann::json::parse(file.metadata().at("config"))) {
    for (const char *name : {"q_a_proj", "q_a_layernorm", "q_b_proj", "q_proj",
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

/// Every row of a golden layer as one call over the whole sequence.
static ErrorMeasure compareAllRows(const std::string &name) {
  Layer layer(name);
  LayerSpec spec = readLayerSpec(layer.config, layer.config.at("num_attention_heads"), 128);
  Reference reference(spec, layer.weights);
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
    std::vector<double> rows = reference.cachedRows(hidden, shape[1], 0);
    std::vector<double> got = reference.attend(queries, positions, rows);
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
  nlohmann::json config = Layer("deepseek_v3_tiny").config;
  LayerSpec with = readLayerSpec(config, 4, 128);
  double nope = config.at("qk_nope_head_dim"), rope = config.at("qk_rope_head_dim");
  config["qk_rope_head_dim"] = 0;
  LayerSpec without = readLayerSpec(config, 4, 128);
  EXPECT_TRUE(without.inverseFrequencies.empty());
  EXPECT_NEAR(without.softmaxScale * std::sqrt(nope), with.softmaxScale * std::sqrt(nope + rope),
              1e-12);
  EXPECT_GT(without.softmaxScale * std::sqrt(nope), 1.5); // (0.1 ln 40 + 1)^2 = 1.87
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
                         ::testing::Values("deepseek_v3_tiny", "deepseek_v3", "deepseek_v2_lite",
                                           "minicpm3"),
                         [](const auto &info) { return std::string(info.param); });

TEST(Reference, MissingAndMisshapenWeightsAreNamed) {
  Layer layer("deepseek_v3_tiny");
  LayerSpec spec = readLayerSpec(layer.config, 4, 128);
  WeightMap weights = layer.weights;
  weights.erase("o_proj.weight");
  EXPECT_THROW(
      {
        try {
          Reference reference(spec, weights);
        } catch (const std::runtime_error &error) {
          EXPECT_NE(std::string(error.what()).find("'o_proj.weight'"), std::string::npos);
          throw;
        }
      },
      std::runtime_error);
  weights = layer.weights;
  weights["kv_b_proj.weight"].pop_back();
  EXPECT_THROW(Reference(spec, weights), std::runtime_error);
}

TEST(Reference, UnknownRopeTypeIsRefused) {
  Layer layer("deepseek_v3_tiny");
  layer.config["rope_parameters"]["rope_type"] = "spiral";
  EXPECT_THROW(readLayerSpec(layer.config, 4, 128), std::runtime_error);
}

TEST(Reference, LongRopeChoosesItsFactorsByTheLongestSequence) {
  Layer layer("minicpm3");
  layer.config["rope_parameters"] = {{"rope_type", "longrope"},
                                     {"rope_theta", 10000.0},
                                     {"original_max_position_embeddings", 100},
                                     {"short_factor", std::vector<double>(16, 1.0)},
                                     {"long_factor", std::vector<double>(16, 2.0)}};
  layer.config["max_position_embeddings"] = 100;
  LayerSpec shorter = readLayerSpec(layer.config, 40, 100);
  LayerSpec longer = readLayerSpec(layer.config, 40, 101);
  EXPECT_EQ(shorter.inverseFrequencies[0], 1.0f);
  EXPECT_EQ(longer.inverseFrequencies[0], 0.5f);
  EXPECT_EQ(shorter.ropeMultiplier, 1.0); // max position = trained length
}

TEST(Reference, LongCatScalesQueryAndLatent) {
  nlohmann::json config = {{"model_type", "longcat_flash"}, {"hidden_size", 6144},
                           {"num_attention_heads", 64},     {"q_lora_rank", 1536},
                           {"kv_lora_rank", 512},           {"qk_nope_head_dim", 128},
                           {"qk_rope_head_dim", 64},        {"v_head_dim", 128}};
  LayerSpec spec = readLayerSpec(config, 64, 128);
  EXPECT_DOUBLE_EQ(spec.queryMultiplier, 2.0);
  EXPECT_NEAR(spec.latentMultiplier, 3.4641016, 1e-7);
  EXPECT_TRUE(spec.isInterleaved);
}
