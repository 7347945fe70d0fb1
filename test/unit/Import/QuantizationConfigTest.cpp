//===- QuantizationConfigTest.cpp - which weights a configuration means ---*- C++ -*-===//
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

json compressedTensors(const json &weights) {
  json numbers = {{"type", "float"}, {"num_bits", 8}, {"symmetric", true}, {"dynamic", false}};
  numbers.update(weights);
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", numbers},
              {"input_activations",
               {{"type", "float"}, {"num_bits", 8}, {"strategy", "token"}, {"dynamic", true}}}}}}}};
}

std::optional<WeightScales> scalesOf(const json &quantization, const ConfigOptions &options = {}) {
  json config = readConfigJson("deepseek_v3");
  config["quantization_config"] = quantization;
  llvm::Expected<ModelConfig> parsed = parseModelConfig(config.dump(), options);
  if (parsed)
    return parsed->weightScales;
  ADD_FAILURE() << llvm::toString(parsed.takeError());
  return std::nullopt;
}

TEST(QuantizationConfig, A14_StrategiesInTheirSpellings) {
  // As DeepSeek-V3 and V3.2 publish it.
  json fp8 = {{"activation_scheme", "dynamic"},
              {"fmt", "e4m3"},
              {"quant_method", "fp8"},
              {"weight_block_size", {128, 128}}};
  const WeightScales tensor{0, 0}, channel{1, 0}, block{128, 128};
  EXPECT_EQ(scalesOf(fp8), block);
  fp8["scale_fmt"] = "ue8m0";
  EXPECT_EQ(scalesOf(fp8), block);
  fp8["weight_block_size"] = {96, 40};
  EXPECT_EQ(scalesOf(fp8), (WeightScales{96, 40}));
  EXPECT_EQ(scalesOf({{"quant_method", "fp8"}, {"activation_scheme", "static"}}), tensor);
  EXPECT_EQ(scalesOf(compressedTensors({{"strategy", "tensor"}})), tensor);
  EXPECT_EQ(scalesOf(compressedTensors({{"strategy", "channel"}})), channel);
  EXPECT_EQ(scalesOf(compressedTensors({{"strategy", "block"}, {"block_structure", {128, 128}}})),
            block);
  EXPECT_EQ(scalesOf(compressedTensors({{"strategy", "block"}, {"block_structure", "128x128"}})),
            block);
  json weightsOnly = compressedTensors({{"strategy", "channel"}});
  weightsOnly["config_groups"]["group_0"]["input_activations"] = nullptr;
  EXPECT_EQ(scalesOf(weightsOnly), channel);
  EXPECT_EQ(scalesOf({{"quant_method", "fbgemm_fp8"}, {"activation_scale_ub", 1200.0}}), channel);
  EXPECT_EQ(scalesOf({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}), tensor);
  EXPECT_EQ(scalesOf({{"quant_method", "modelopt"}, {"quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"}}),
            channel);
  EXPECT_EQ(scalesOf(nullptr), std::nullopt);
  EXPECT_EQ(scalesOf(fp8, {.dequantisedWeights = true}), std::nullopt);
}

TEST(QuantizationConfig, A14_AttentionThatIsLeftOutHasNoScales) {
  json integers = compressedTensors({{"type", "int"}, {"num_bits", 4}});
  for (const char *pattern :
       {"re:.*self_attn.*", "re:model\\.layers\\.[0-9]+\\.self_attn\\.",
        "model.layers.*.self_attn*", "model.layers.*.self_attn", "self_attn",
        "re:model\\.layers\\.\\d+\\.self_attn", "re:.*?layers\\.[\\d]{1,2}?\\.self_attn.*",
        "re:(?:model|language_model)\\.\\w+\\.\\d\\d?\\.self_attn"}) {
    integers["ignore"] = {"lm_head", pattern};
    EXPECT_EQ(scalesOf(integers), std::nullopt) << pattern;
  }
  for (auto [method, key] :
       {std::pair("awq", "modules_to_not_convert"), std::pair("quark", "exclude"),
        std::pair("fp8", "ignored_layers"), std::pair("bitsandbytes", "llm_int8_skip_modules")})
    EXPECT_EQ(scalesOf({{"quant_method", method}, {key, {"self_attn"}}}), std::nullopt) << key;
  // Some of the attention, or a part of a name: the rest is quantised.
  for (const char *pattern :
       {"re:.*kv_b_proj", "model.layers.0.self_attn", "attn", "re:self_attn",
        "re:model\\.layers\\.\\d\\.self_attn", "re:(?!.*mlp).*", "re:.*\\bself_attn"}) {
    json floats = compressedTensors({{"strategy", "tensor"}});
    floats["ignore"] = {pattern};
    EXPECT_EQ(scalesOf(floats), (WeightScales{0, 0})) << pattern;
  }
}

TEST(QuantizationConfig, A14_AttentionThatIsNoTargetHasNoScales) {
  json integers = compressedTensors({{"type", "int"}, {"num_bits", 4}});
  json &targets = integers["config_groups"]["group_0"]["targets"];
  targets = {"re:.*\\.mlp\\.experts\\.\\d+\\.(gate|up|down)_proj$", "model.layers.3.mlp"};
  EXPECT_EQ(scalesOf(integers), std::nullopt);
  // One of them may be, or is not known not to be.
  json floats = compressedTensors({{"strategy", "tensor"}});
  for (const char *target : {"Linear", "re:.*_proj", "model.layers.3.self_attn.o_proj",
                             "re:.*(?<!gate)$", "re:.*mlp(", "re:.*attn"}) {
    floats["config_groups"]["group_0"]["targets"] = {"re:.*mlp.*", target};
    EXPECT_EQ(scalesOf(floats), (WeightScales{0, 0})) << target;
  }
}

// Name by name, as exporters write them.
TEST(QuantizationConfig, A14_AttentionThatIsListedHasNoScales) {
  auto scalesWith = [](json config, const std::string &place,
                       const std::vector<std::string> &projections) {
    std::vector<std::string> names = {"lm_head"};
    for (int64_t layer = 0; layer < config["num_hidden_layers"]; ++layer)
      for (const std::string &projection : projections)
        names.push_back(place + std::to_string(layer) + ".self_attn." + projection);
    json quantization = {{"quant_method", "awq"}, {"modules_to_not_convert", names}};
    config.erase("quantization_config");
    json whole = {
        {"model_type", "acme_vl"}, {"text_config", config}, {"quantization_config", quantization}};
    return parseOrFail(whole.dump()).weightScales;
  };
  json latents = readConfigJson("deepseek_v3"), heads = readConfigJson("llama3_1_8b");
  for (const char *place : {"model.layers.", "language_model.model.layers.",
                            "model.language_model.layers.", "language.model.layers."}) {
    EXPECT_EQ(scalesWith(latents, place,
                         {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"}),
              std::nullopt);
    EXPECT_EQ(scalesWith(heads, place, {"q_proj", "k_proj", "v_proj", "o_proj"}), std::nullopt);
  }
}

// As openai/gpt-oss-20b has it.
TEST(QuantizationConfig, A14_ExpertsAloneAreQuantised) {
  json config = readConfigJson("gpt_oss_20b");
  config["quantization_config"] = {
      {"quant_method", "mxfp4"},
      {"modules_to_not_convert",
       {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}};
  EXPECT_EQ(parseOrFail(config.dump()).weightScales, std::nullopt);
}

TEST(QuantizationConfig, A14_WholeModelsSayWhatPartsLeaveNull) {
  json config = readConfigJson("deepseek_v3");
  config["quantization_config"] = nullptr;
  json fp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  json whole = {{"model_type", "acme_vl"}, {"text_config", config}, {"quantization_config", fp8}};
  EXPECT_EQ(parseOrFail(whole.dump()).weightScales, (WeightScales{128, 128}));
}

TEST(QuantizationConfig, A14_OtherStrategiesAreNamed) {
  auto expect = [](const json &quantization, const std::string &text) {
    std::string message = errorWith({{"quantization_config", quantization}});
    EXPECT_EQ(message.substr(0, message.find("; the option dequantised-weights takes")),
              "quantization_config." + text);
  };
  const std::string methods = ": weights of this method are not supported, expected \"fp8\" or "
                              "\"compressed-tensors\" or \"fbgemm_fp8\" or \"modelopt\"";
  expect({{"quant_method", "awq"}, {"bits", 4}}, "quant_method = \"awq\"" + methods);
  expect({{"bits", 4}}, "quant_method is missing" + methods);
  expect({{"quant_method", "fp8"}, {"fmt", "e5m2"}},
         "fmt = \"e5m2\": codes of this format are not supported, expected \"e4m3\"");
  expect({{"quant_method", "fp8"}, {"activation_scheme", "row"}},
         "activation_scheme = \"row\": this scheme of quantised activations is not supported, "
         "expected \"dynamic\" or \"static\"");
  expect({{"quant_method", "fp8"}, {"weight_block_size", {128}}},
         "weight_block_size = [128]: expected a list of 2 integers from 1 to 1048576");
  expect({{"quant_method", "fp8"}, {"weight_block_size", {128, -1}}},
         "weight_block_size = [128,-1]: expected a list of 2 integers from 1 to 1048576");
  const std::string weights = "config_groups.group_0.weights.";
  expect(compressedTensors({{"type", "int"}}),
         weights + "type = \"int\": weights of this type are not supported, expected \"float\"");
  expect(compressedTensors({{"num_bits", 4}}),
         weights + "num_bits = 4: weights of this type are not supported, expected 8");
  expect(compressedTensors({{"strategy", "group"}}),
         weights + "strategy = \"group\": this strategy of weights is not supported, expected "
                   "\"tensor\" or \"channel\" or \"block\"");
  expect(compressedTensors({{"strategy", "tensor"}, {"symmetric", false}}),
         weights + "symmetric = false: weights quantised so are not supported, expected true");
  expect(compressedTensors({{"strategy", "block"}}),
         weights + "block_structure is missing: expected the rows and columns of a block, as "
                   "\"128x128\"");
  json activations = compressedTensors({{"strategy", "tensor"}});
  activations["config_groups"]["group_0"]["input_activations"]["type"] = "int";
  expect(activations, "config_groups.group_0.input_activations.type = \"int\": activations of this "
                      "type are not supported, expected \"float\"");
  json packed = compressedTensors({{"strategy", "tensor"}});
  packed["format"] = "pack-quantized";
  expect(packed, "format = \"pack-quantized\": weights stored in this format are not supported, "
                 "expected \"float-quantized\" or \"naive-quantized\"");
  json empty = packed;
  empty["format"] = "naive-quantized";
  empty["config_groups"] = json::object();
  expect(empty, "config_groups = {}: weights without a group are not supported, expected a group");
  expect({{"quant_method", "modelopt"}, {"quant_algo", "W4A16"}},
         "quant_algo = \"W4A16\": weights of this algorithm are not supported, expected \"FP8\" or "
         "\"FP8_PER_CHANNEL_PER_TOKEN\" or \"NVFP4\"");
  expect({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 32}},
         "group_size = 32: numbers of four bits in these groups are not supported, expected 16");
  EXPECT_EQ(errorWith({{"quantization_config", 8}}), "quantization_config = 8: expected an object");
}

} // namespace
