//===- CheckpointTensorsTest.cpp - weights of an attention layer ---*- C++
//-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CheckpointTensors.h"

#include "Configs.h"

using namespace mlac;
using namespace mlac::test;

namespace {

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

Shapes shapesOnRank(const ModelConfig &config) {
  Shapes result;
  for (const CheckpointTensor &tensor : getCheckpointTensors(config)) {
    TensorShape shape = tensor.shapeOnRank(config.tensorParallel);
    result.push_back({tensor.name, {shape.begin(), shape.end()}});
  }
  return result;
}

TEST(CheckpointTensors, A17_HeadsAreShardedAndTheRestReplicated) {
  EXPECT_EQ(shapesOnRank(loadConfig("deepseek_v3", {.tensorParallel = 8})),
            (Shapes{{"q_a_proj.weight", {1536, 7168}},
                    {"q_a_layernorm.weight", {1536}},
                    {"q_b_proj.weight", {3072, 1536}},
                    {"kv_a_proj_with_mqa.weight", {576, 7168}},
                    {"kv_a_layernorm.weight", {512}},
                    {"kv_b_proj.weight", {4096, 512}},
                    {"o_proj.weight", {7168, 2048}}}));
}

TEST(CheckpointTensors, A04_WithoutQueryRankOneProjection) {
  EXPECT_EQ(shapesOnRank(loadConfig("deepseek_v2_lite")),
            (Shapes{{"q_proj.weight", {3072, 2048}},
                    {"kv_a_proj_with_mqa.weight", {576, 2048}},
                    {"kv_a_layernorm.weight", {512}},
                    {"kv_b_proj.weight", {4096, 512}},
                    {"o_proj.weight", {2048, 2048}}}));
}

TEST(CheckpointTensors, AttentionBiasAddsThree) {
  nlohmann::json json = readConfigJson("glm_4_7_flash");
  json["attention_bias"] = true;
  Shapes shapes = shapesOnRank(parseOrFail(json.dump(), {.tensorParallel = 2}));
  auto has = [&](const char *name, std::vector<int64_t> shape) {
    return llvm::is_contained(shapes, std::pair(std::string(name), shape));
  };
  EXPECT_TRUE(has("q_a_proj.bias", {768}));
  EXPECT_TRUE(has("kv_a_proj_with_mqa.bias", {576}));
  EXPECT_TRUE(has("o_proj.bias", {2048}));
  EXPECT_EQ(shapes.size(), 10u); // none for q_b and kv_b
}

TEST(CheckpointTensors, IndexerTensors) {
  std::vector<CheckpointTensor> tensors =
      getIndexerTensors(loadConfig("deepseek_v32"));
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].name, "indexer.wq_b.weight");
  EXPECT_EQ(tensors[0].shape, (TensorShape{8192, 1536}));
  EXPECT_TRUE(getIndexerTensors(loadConfig("deepseek_v3")).empty());
}

/// The names and shapes a right checkpoint of `config` holds.
class Checkpoint {
public:
  explicit Checkpoint(const ModelConfig &config)
      : config(config), tensors(getCheckpointTensors(config)) {}

  TensorShape &shape(llvm::StringRef name) {
    return llvm::find_if(tensors,
                         [&](const CheckpointTensor &tensor) {
                           return tensor.name == name;
                         })
        ->shape;
  }
  void erase(llvm::StringRef name) {
    llvm::erase_if(tensors, [&](const CheckpointTensor &tensor) {
      return tensor.name == name;
    });
  }
  void add(const std::string &name, TensorShape shape) {
    tensors.push_back({name, shape, std::nullopt, ""});
  }

  std::string check() {
    std::vector<NamedShape> shapes;
    for (const CheckpointTensor &tensor : tensors)
      shapes.push_back({tensor.name, tensor.shape});
    return llvm::toString(checkCheckpointShapes(config, shapes));
  }

private:
  ModelConfig config;
  std::vector<CheckpointTensor> tensors;
};

const std::string kDims = "\nthe configuration has H = 7168, N = 128, Lq = "
                          "1536, Lkv = 512, P = 128, R = 64, V = 128";

TEST(CheckpointTensors, RightShapesPass) {
  for (const char *name :
       {"deepseek_v3", "deepseek_v2_lite", "minicpm3_4b", "glm_5_3_flash"})
    EXPECT_EQ(Checkpoint(loadConfig(name)).check(), "");
}

TEST(CheckpointTensors, A05_WrongShapesListAllDims) {
  struct Case {
    const char *name;
    TensorShape wrong;
    const char *message;
  };
  const Case cases[] = {
      {"kv_b_proj.weight",
       {32767, 512},
       "tensor kv_b_proj.weight has shape [32767, 512], expected [N(P+V), Lkv] "
       "= [32768, 512]"},
      {"q_b_proj.weight",
       {1536, 24576},
       "tensor q_b_proj.weight has shape [1536, 24576], expected [N(P+R), Lq] "
       "= [24576, 1536]"},
      {"kv_a_proj_with_mqa.weight",
       {512, 7168},
       "tensor kv_a_proj_with_mqa.weight has shape [512, 7168], expected "
       "[Lkv+R, H] = [576, 7168]"},
      {"o_proj.weight",
       {7168},
       "tensor o_proj.weight has shape [7168], expected [H, NV] = [7168, "
       "16384]"},
  };
  for (const Case &test : cases) {
    Checkpoint checkpoint(loadConfig("deepseek_v3"));
    checkpoint.shape(test.name) = test.wrong;
    EXPECT_EQ(checkpoint.check(), test.message + kDims);
  }
}

TEST(CheckpointTensors, IndexersAreMandatory_B31) {
  ModelConfig config = loadConfig("deepseek_v32");
  Checkpoint checkpoint(config);
  for (const CheckpointTensor &tensor : getIndexerTensors(config))
    checkpoint.add(tensor.name, tensor.shape);
  EXPECT_EQ(checkpoint.check(), "");
  checkpoint.erase("indexer.wk.weight");
  EXPECT_EQ(checkpoint.check(),
            "tensor indexer.wk.weight is missing, expected [Di, H] = [128, 7168]" + kDims);
  // A layer that takes another's selection has none.
  EXPECT_EQ(Checkpoint(loadConfig("deepseek_v32", {.indexer = IndexerUse::Shared})).check(), "");
}

TEST(CheckpointTensors, MissingAndUnexpectedTensors) {
  Checkpoint checkpoint(loadConfig("deepseek_v3"));
  checkpoint.erase("q_a_layernorm.weight");
  checkpoint.add("q_proj.weight", {24576, 7168});
  checkpoint.add("rotary_emb.inv_freq", {32});
  EXPECT_EQ(checkpoint.check(),
            "tensor q_a_layernorm.weight is missing, expected [Lq] = [1536]\n"
            "tensor q_proj.weight of shape [24576, 7168] does not belong to "
            "the attention of model type deepseek_v3" +
                kDims);
}

TEST(CheckpointTensors, A14_B33_CodesHaveOtherNamesAndScales) {
  ModelConfig config = loadConfig("deepseek_v3");
  auto addScaled = [](Checkpoint &checkpoint) {
    for (const char *name : {"kv_b_proj", "q_b_proj"}) {
      TensorShape shape = checkpoint.shape((name + llvm::Twine(".weight")).str());
      checkpoint.erase((name + llvm::Twine(".weight")).str());
      checkpoint.add((name + llvm::Twine(".weight_packed")).str(), shape);
      checkpoint.add((name + llvm::Twine(".weight_scale")).str(), {shape[0], 1});
    }
    checkpoint.add("o_proj.weight_scale_inv", {56, 128});
    checkpoint.add("o_proj.input_scale", {1});
  };
  config.weightScales = WeightScales{1, 0};
  Checkpoint scaled(config);
  addScaled(scaled);
  EXPECT_EQ(scaled.check(), "");
  scaled.add("x_proj.weight_scale", {1});
  EXPECT_EQ(scaled.check().substr(0, 39), "tensor x_proj.weight_scale of shape [1]");
  config.weightScales.reset(); // codes would be taken for numbers
  Checkpoint plain(config);
  addScaled(plain);
  EXPECT_EQ(plain.check().substr(0, 40), "tensor kv_b_proj.weight_scale of shape [");
}

} // namespace
