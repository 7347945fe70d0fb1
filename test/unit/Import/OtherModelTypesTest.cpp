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
  for (const char *key : {"text_config", "language_config"}) {
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

} // namespace
