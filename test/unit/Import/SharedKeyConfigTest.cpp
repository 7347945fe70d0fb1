//===- SharedKeyConfigTest.cpp - configurations of DeepSeek-V4 --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Configs.h"

#include "mla/Import/RopeTable.h"

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;

namespace {
static ModelConfig readLayer(const json &config, int64_t layer) {
  ConfigOptions options;
  options.layer = layer;
  return llvm::cantFail(parseModelConfig(config.dump(), options));
}

TEST(SharedKeys, V4_46_KindsOfLayers) {
  json published = readConfigJson("deepseek_v4"), named = published;
  named.erase("compress_ratios");
  named["num_hidden_layers"] = 3;
  named["layer_types"] = {"sliding_attention", "compressed_sparse_attention",
                          "heavily_compressed_attention"};
  published["compress_ratios"][1] = nullptr;
  for (auto [layer, every] : {std::pair(0, 1), {1, 1}, {2, 4}, {3, 128}, {42, 4}, {43, 1}})
    EXPECT_EQ(readLayer(published, layer).sharedKeys->every, every) << layer;
  for (auto [layer, every] : {std::pair(0, 1), {1, 4}, {2, 128}, {3, 1}})
    EXPECT_EQ(readLayer(named, layer).sharedKeys->every, every) << layer;
}

TEST(SharedKeys, V4_04_RopeOfLayers) {
  json config = readConfigJson("deepseek_v4");
  ModelConfig window = readLayer(config, 0), entries = readLayer(config, 2);
  EXPECT_EQ(window.rope.kind, RopeKind::Plain);
  EXPECT_EQ(window.rope.theta, 1e4);
  EXPECT_EQ(entries.rope.kind, RopeKind::Yarn);
  EXPECT_EQ(entries.rope.theta, 1.6e5);
  // Nothing is scaled with the stretched frequencies.
  EXPECT_EQ(computeRopeTable(entries).multiplier, 1.0f);
  EXPECT_DOUBLE_EQ(entries.softmaxScale(), 1 / std::sqrt(512.0));
  auto [low, high] = yarnCorrectionRange(entries.rope, entries.qkRopeHeadDim);
  EXPECT_EQ(std::floor(low), 15);
  EXPECT_EQ(std::ceil(high), 25);
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"main", {{"rope_theta", 5e3}}},
                               {"compress", {{"rope_theta", 7e3}, {"rope_type", "default"}}}};
  EXPECT_EQ(readLayer(config, 0).rope.theta, 5e3);
  EXPECT_EQ(readLayer(config, 3).rope.theta, 7e3);
  EXPECT_EQ(readLayer(config, 3).rope.kind, RopeKind::Plain);
}

TEST(SharedKeysError, V4_46_NamesKeysAndLimits) {
  auto error = [](json changes, int64_t layer = 2) {
    json config = readConfigJson("deepseek_v4");
    config.merge_patch(changes);
    ConfigOptions options;
    options.layer = layer;
    llvm::Expected<ModelConfig> result = parseModelConfig(config.dump(), options);
    return result ? "" : llvm::toString(result.takeError());
  };
  EXPECT_EQ(
      error({{"compress_ratios", {0, 0, 4}}}),
      "compress_ratios = [0,0,4]: expected a list with an element for each of the 43 layers of "
      "num_hidden_layers, got 3");
  EXPECT_EQ(
      error({{"compress_ratios", {0, 0, 8}}, {"num_hidden_layers", 3}}),
      "compress_ratios = [0,0,8]: layers with entries of 8 tokens are not supported, expected "
      "0, 1, 4 or 128");
  EXPECT_EQ(error({{"compress_ratios", {0, 0, "4"}}, {"num_hidden_layers", 3}}),
            "compress_ratios = [0,0,\"4\"]: layer 2: expected an integer of at least 0");
  EXPECT_EQ(error({{"compress_ratios", nullptr}}),
            "compress_ratios is missing: expected it, or layer_types: a list of the layers' kinds");
  EXPECT_EQ(error({{"compress_ratios", nullptr},
                   {"num_hidden_layers", 1},
                   {"layer_types", {"full_attention"}}},
                  0),
            "layer_types = [\"full_attention\"]: layer 0: known types are sliding_attention, "
            "compressed_sparse_attention, heavily_compressed_attention, got \"full_attention\"");
  EXPECT_EQ(error({{"compress_rope_theta", nullptr}}),
            "compress_rope_theta is missing: layers with entries need it");
  EXPECT_EQ(error({{"o_groups", 7}}), "o_groups = 7: expected a divisor of num_attention_heads 64");
  EXPECT_EQ(error({{"num_key_value_heads", 2}}),
            "num_key_value_heads = 2: expected 1: keys are shared by all heads");
  EXPECT_EQ(error({{"qk_rope_head_dim", 512}}, 0),
            "qk_rope_head_dim = 512: expected less than head_dim 512");
  EXPECT_EQ(error({{"rope_scaling", {{"type", "longrope"}}}}),
            "rope_scaling.type = \"longrope\": expected default or yarn for this model type");
  EXPECT_EQ(error({{"sliding_window", nullptr}}),
            "sliding_window is missing: expected an integer from 1 to 2147483647");
  EXPECT_EQ(error(json::object(), -1), "num_hidden_layers = 43: --layer=-1, expected 0 to 43");
  EXPECT_EQ(error(json::object(), 44), "num_hidden_layers = 43: --layer=44, expected 0 to 43");
}

TEST(SharedKeysError, V4_43_RanksShareGroups) {
  ConfigOptions options;
  options.tensorParallel = 16;
  llvm::Expected<ModelConfig> result =
      parseModelConfig(readConfigJson("deepseek_v4").dump(), options);
  ASSERT_FALSE(result);
  EXPECT_EQ(llvm::toString(result.takeError()),
            "o_groups = 8: expected a multiple of the tensor-parallel degree 16");
}

} // namespace
