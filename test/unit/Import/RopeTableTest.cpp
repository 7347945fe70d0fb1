//===- RopeTableTest.cpp - rotary frequencies ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/RopeTable.h"

#include "Configs.h"

#include <cmath>

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;

namespace {

/// transformers forms frequencies in f32 with its own power function: two
/// correct results differ by rounding in the power, the product and the sum.
constexpr float kFrequencyTolerance = 3e-7f;

void expectFrequencies(const std::vector<float> &actual,
                       const std::vector<float> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i] / expected[i], 1.0f, kFrequencyTolerance)
        << "pair " << i;
}

// Stored `inv_freq` buffers of modules of transformers 5.17.
const std::vector<float> kDeepSeekV3 = {1,
                                        0.749894202,
                                        0.562341332,
                                        0.421696514,
                                        0.316227764,
                                        0.237137362,
                                        0.177827939,
                                        0.133352146,
                                        0.100000001,
                                        0.0749894157,
                                        0.0562341288,
                                        0.0390069261,
                                        0.0268793609,
                                        0.0183781441,
                                        0.012447956,
                                        0.0083345091,
                                        0.00550000044,
                                        0.00356199732,
                                        0.00224936521,
                                        0.00137051346,
                                        0.000790569407,
                                        0.000414990413,
                                        0.00017782794,
                                        3.3338034e-05,
                                        2.49999994e-05,
                                        1.87473543e-05,
                                        1.40585325e-05,
                                        1.05424124e-05,
                                        7.90569447e-06,
                                        5.92843435e-06,
                                        4.44569832e-06,
                                        3.33380353e-06};
const std::vector<float> kDeepSeekV3Tiny = {1, 0.100000001, 0.00512499968,
                                            2.49999994e-05};
const std::vector<float> kPlain32 = {1,
                                     0.562341332,
                                     0.316227764,
                                     0.177827939,
                                     0.100000001,
                                     0.0562341288,
                                     0.0316227786,
                                     0.0177827943,
                                     0.00999999978,
                                     0.00562341325,
                                     0.00316227786,
                                     0.00177827943,
                                     0.00100000005,
                                     0.000562341302,
                                     0.000316227786,
                                     0.00017782794};

TEST(RopeTable, A19_YarnMatchesTransformers) {
  expectFrequencies(
      computeRopeTable(loadConfig("deepseek_v3")).inverseFrequencies,
      kDeepSeekV3);
  expectFrequencies(
      computeRopeTable(loadConfig("deepseek_v3_tiny")).inverseFrequencies,
      kDeepSeekV3Tiny);
}

TEST(RopeTable, PlainMatchesTransformers) {
  json config = readConfigJson("minicpm3_4b");
  config["rope_scaling"] = nullptr;
  expectFrequencies(
      computeRopeTable(parseOrFail(config.dump())).inverseFrequencies,
      kPlain32);
}

TEST(RopeTable, A19_YarnCheckValues) {
  EXPECT_NEAR(yarnTemperature(40, 0.707), 1.2608038, 5e-8);
  EXPECT_NEAR(yarnTemperature(40, 1), 1.3688879, 5e-8);
  EXPECT_NEAR(yarnTemperature(32, 1), 1.3465736, 5e-8);
  EXPECT_NEAR(yarnTemperature(64, 1), 1.4158883, 5e-8);
  EXPECT_EQ(yarnTemperature(1, 1), 1.0);

  ModelConfig v3 = loadConfig("deepseek_v3"),
              kimi = loadConfig("kimi_k2_instruct");
  EXPECT_NEAR(yarnCorrectionRange(v3.rope, 64).first, 10.472, 5e-4);
  EXPECT_NEAR(yarnCorrectionRange(v3.rope, 64).second, 22.513, 5e-4);
  EXPECT_NEAR(yarnCorrectionRange(kimi.rope, 64).first, 19.165, 5e-4);
}

TEST(RopeTable, MultiplierIsOneForEveryListedModel) {
  for (const char *name :
       {"deepseek_v2_lite", "deepseek_v2", "deepseek_v3", "deepseek_v32",
        "kimi_k2_instruct", "kimi_k2_0905", "minicpm3_4b", "glm_4_7_flash",
        "glm_5_2", "glm_5_3_flash", "longcat_flash"})
    EXPECT_EQ(computeRopeTable(loadConfig(name)).multiplier, 1.0f) << name;
}

TEST(RopeTable, YarnMultiplier) {
  json config = readConfigJson("deepseek_v3");
  config["rope_scaling"].erase("mscale_all_dim");
  EXPECT_FLOAT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier,
                  1.3688879f);
  config["rope_scaling"]["attn_factor"] = 2.0;
  EXPECT_FLOAT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier,
                  2 * 1.3688879f);
  config["rope_scaling"]["attention_factor"] = 1.0; // the multiplier itself
  EXPECT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier, 1.0f);
}

TEST(RopeTable, Length) {
  EXPECT_EQ(computeRopeTable(loadConfig("deepseek_v3")).length, 40 * 4096);
  EXPECT_EQ(computeRopeTable(loadConfig("kimi_k2_0905")).length, 64 * 4096);
  EXPECT_EQ(computeRopeTable(loadConfig("glm_5_2")).length, 1048576);
  EXPECT_EQ(computeRopeTable(loadConfig("minicpm3_4b")).length, 32768);
}

TEST(RopeTable, LongRopeDividesByTheFactors) {
  json config = readConfigJson("minicpm3_4b");
  config["rope_scaling"]["long_factor"][3] = 4.0;
  RopeTable table = computeRopeTable(parseOrFail(config.dump()));
  ASSERT_EQ(table.inverseFrequencies.size(), 16u);
  ASSERT_EQ(table.longInverseFrequencies.size(), 16u);
  EXPECT_EQ(table.shortLength, 32768);
  // 10000^(-6/32) / factor
  EXPECT_NEAR(table.inverseFrequencies[3] / (0.17782794 / 1.3025742769241333),
              1.0, kFrequencyTolerance);
  EXPECT_NEAR(table.longInverseFrequencies[3] / (0.17782794 / 4.0), 1.0,
              kFrequencyTolerance);
}

TEST(RopeTable, LongRopeMultiplierGrowsWithTheExtension) {
  json config = readConfigJson("minicpm3_4b");
  config["max_position_embeddings"] = 131072;
  // sqrt(1 + ln 4 / ln 32768)
  EXPECT_FLOAT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier,
                  1.0645813f);
}

// transformers takes the key where it is there.
TEST(RopeTable, A19_LongRopeMultiplierOfItsFactor) {
  json config = readConfigJson("minicpm3_4b");
  config["rope_scaling"]["factor"] = 4.0;
  EXPECT_FLOAT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier, 1.0645813f);
  config["max_position_embeddings"] = 131072;
  config["rope_scaling"]["factor"] = 1.0;
  EXPECT_EQ(computeRopeTable(parseOrFail(config.dump())).multiplier, 1);
  config["rope_scaling"]["factor"] = 0;
  EXPECT_EQ(errorOf(config.dump()), "rope_scaling.factor = 0: expected a number > 0");
}

TEST(RopeTable, NoRopeDimsMeansNoFrequencies) {
  RopeTable table = computeRopeTable(loadConfig("glm_5_3_flash"));
  EXPECT_TRUE(table.inverseFrequencies.empty());
  EXPECT_EQ(table.length, 131072);
}

} // namespace
