//===- CheckpointTest.cpp - folders of shards, scaled weights ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is bound and what is refused. That values are right shows in outputs
// (test/python/test_weights.py) and in ScaledMatrixTest.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include "nlohmann/json.hpp"

#include <filesystem>
#include <fstream>

using namespace mlac;
using namespace mlac::test;
using nlohmann::json;
namespace fs = std::filesystem;

static constexpr int64_t kRows = 4, kColumns = 6;
static constexpr const char *kMatrix = "kv_b_proj.weight";

/// The test package with a matrix beside its weight, which checkpoints have as codes with a
/// scale for 3 x 4 of them: a grid of [2, 2].
static fb::PackageT makeScaledPackage(int64_t ranks = 1) {
  fb::PackageT package = makePackage();
  auto &weight = *package.weights.emplace_back(std::make_unique<fb::TensorT>());
  weight.name = kMatrix;
  weight.dtype = fb::DataType::BF16;
  weight.shape = {kRows, kColumns};
  package.weight_scales = std::make_unique<fb::WeightScalesT>();
  package.weight_scales->rows = 3;
  package.weight_scales->columns = 4;
  package.model->tensor_parallel = ranks;
  package.model->config_json = R"({"quantization_config": {"a": 1, "b": [3, 4]}})";
  return package;
}

namespace {
struct StoredTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::vector<StoredTensor>;

/// A folder that is removed at the end of the test.
class Folder {
public:
  Folder() {
    path_ = ::testing::TempDir() + "mlac-checkpoint-XXXXXX";
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  const char *path() const { return path_.c_str(); }

  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }
  void writeShard(const std::string &name, const Tensors &tensors) const {
    json header;
    std::string data;
    for (const StoredTensor &tensor : tensors) {
      header[tensor.name] = {{"dtype", tensor.dtype},
                             {"shape", tensor.shape},
                             {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    write(name, safetensors(header.dump(), data));
  }
  void writeIndex(const json &map) const {
    write("model.safetensors.index.json", json{{"metadata", {}}, {"weight_map", map}}.dump());
  }

private:
  std::string path_;
};

std::string floats(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
}

StoredTensor plainW(const std::string &prefix = "") {
  return {prefix + "w", "F32", {kHidden}, floats(std::vector<float>(kHidden, 1))};
}
StoredTensor codes(const std::string &name, int64_t rows = kRows) {
  return {name, "F8_E4M3", {rows, kColumns}, std::string(rows * kColumns, '\x38')};
}
StoredTensor scales(const std::string &name, std::vector<int64_t> shape = {2, 2}) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return {name, "F32", shape, floats(std::vector<float>(count, 2))};
}

Tensors makeLayer(const std::string &prefix) {
  return {plainW(prefix), codes(prefix + kMatrix), scales(prefix + "kv_b_proj.weight_scale_inv")};
}

class CheckpointTest : public EngineTest {
protected:
  void SetUp() override { restart(makeScaledPackage()); }
  void restart(const fb::PackageT &package, int64_t layers = 2, int64_t rank = 0) {
    mla_engine_options options;
    mla_engine_options_init(&options);
    options.num_layers = layers;
    options.tensor_parallel_rank = rank;
    std::string bytes = pack(package);
    if (plan)
      stop();
    ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &this->package));
    ASSERT_OK(mla_device_open("cpu", 1, &device));
    ASSERT_OK(mla_engine_create(this->package, device, &options, &engine));
    ASSERT_OK(mla_plan_create(engine, &plan));
  }

  mla_status bindFile(const Tensors &tensors, uint32_t flags = 0) {
    Folder folder;
    folder.writeShard("layer.safetensors", tensors);
    return mla_engine_bind_safetensors(
        engine, 0, (std::string(folder.path()) + "/layer.safetensors").c_str(), "", flags);
  }
  mla_status bindFolder(const Folder &folder, int64_t first = 0, int64_t count = 0,
                        int64_t attention = 0) {
    mla_checkpoint *checkpoint = nullptr;
    mla_status status = mla_checkpoint_open(folder.path(), &checkpoint);
    if (status != MLA_OK)
      return status;
    status = mla_engine_bind_checkpoint(engine, first, count, checkpoint, attention, 0, nullptr,
                                        nullptr);
    EXPECT_EQ(mla_checkpoint_close(checkpoint), MLA_OK);
    return status;
  }
  void expectUnbound(int64_t layer) {
    expectStatus(mla_engine_prepare(engine, layer), MLA_WRONG_STATE,
                 "weights are not bound: w, kv");
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Scaled weights
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, A11_CodesAndScalesAreBoundTogether) {
  EXPECT_OK(bindFile(makeLayer("")));
  EXPECT_OK(mla_engine_prepare(engine, 0));
  // Weights that a checkpoint leaves as they are.
  StoredTensor plain = {kMatrix, "BF16", {kRows, kColumns}, std::string(2 * kRows * kColumns, 0)};
  EXPECT_OK(bindFile({plainW(), plain}));
  // What activations would be scaled with.
  Tensors tensors = makeLayer("");
  tensors.push_back(scales("kv_b_proj.input_scale", {}));
  EXPECT_OK(bindFile(tensors));
}

TEST_F(CheckpointTest, B33_A14_NamesOfMatricesAndScales) {
  for (const char *matrix : {"weight", "qweight", "weight_packed"})
    for (const char *scale : {"weight_scale_inv", "weight_scale"})
      EXPECT_OK(bindFile({plainW(), codes(std::string("kv_b_proj.") + matrix),
                          scales(std::string("kv_b_proj.") + scale)}));
  expectStatus(bindFile({plainW(), codes("kv_b_proj.qweight"), codes(kMatrix),
                         scales("kv_b_proj.weight_scale")}),
               MLA_INVALID_ARGUMENT,
               "'kv_b_proj.weight' and 'kv_b_proj.qweight' are the same weight");
  Tensors both = makeLayer("");
  both.push_back(scales("kv_b_proj.weight_scale"));
  expectStatus(bindFile(both), MLA_INVALID_ARGUMENT, "are the same weight");
}

TEST_F(CheckpointTest, A11_WrongScalesNameTensorValueAndLimit) {
  expectStatus(bindFile({plainW(), codes(kMatrix)}), MLA_NOT_FOUND,
               "weight 'kv_b_proj.weight': is e4m3, and lacks its scales: "
               "'kv_b_proj.weight_scale_inv' or 'kv_b_proj.weight_scale'");
  expectStatus(bindFile({plainW(), scales("kv_b_proj.weight_scale")}), MLA_NOT_FOUND,
               "lacks tensor 'kv_b_proj.weight', whose scales 'kv_b_proj.weight_scale' are there");
  expectStatus(bindFile({plainW(), codes(kMatrix), scales("kv_b_proj.weight_scale", {2, 3})}),
               MLA_INVALID_ARGUMENT,
               "tensor 'kv_b_proj.weight_scale': expected shape [2, 2], scales of [4, 6] by block "
               "[3, 4], got [2, 3]");
  StoredTensor plain = {kMatrix, "BF16", {kRows, kColumns}, std::string(2 * kRows * kColumns, 0)};
  expectStatus(bindFile({plainW(), plain, scales("kv_b_proj.weight_scale")}), MLA_INVALID_ARGUMENT,
               "is bf16, expected e4m3 because of its scales 'kv_b_proj.weight_scale'");
  StoredTensor bytes = {"kv_b_proj.weight_scale", "U8", {2, 2}, std::string(4, 1)};
  expectStatus(bindFile({plainW(), codes(kMatrix), bytes}), MLA_INVALID_ARGUMENT,
               "expected dtype f32, bf16, f16 or F8_E8M0, got u8");
  StoredTensor packed = {
      "kv_b_proj.weight_packed", "I32", {kRows, kColumns}, std::string(4 * kRows * kColumns, 0)};
  expectStatus(bindFile({plainW(), packed}), MLA_INVALID_ARGUMENT,
               "expected dtype bf16 or e4m3, got i32");
  StoredTensor narrow = codes(kMatrix);
  narrow.dtype = "F8_E5M2";
  expectStatus(bindFile({plainW(), narrow}), MLA_INVALID_ARGUMENT, "got F8_E5M2");
  expectUnbound(0);
}

TEST_F(CheckpointTest, A11_NothingIsBoundBesideAWrongValue) {
  Tensors tensors = makeLayer("");
  tensors[1].bytes[2 * kColumns + 1] = '\x7f';
  expectStatus(bindFile(tensors), MLA_INVALID_ARGUMENT,
               "weight 'kv_b_proj.weight': element [2, 1] is NaN (code 127)");
  expectUnbound(0);
}

TEST_F(CheckpointTest, A14_PackagesWithoutScalesTakeNoCodes) {
  fb::PackageT package = makeScaledPackage();
  package.weight_scales.reset();
  restart(package);
  expectStatus(
      bindFile(makeLayer("")), MLA_INVALID_ARGUMENT,
      "expected dtype bf16, got e4m3: the package was compiled for weights without scales");
}

TEST_F(CheckpointTest, A11_A17_SharesMayBeginInsideOfABlock) {
  // Rows [4, 8) of 8 in blocks of 3.
  restart(makeScaledPackage(2), 1, 1);
  StoredTensor w = {"w", "F32", {2 * kHidden}, floats(std::vector<float>(2 * kHidden, 1))};
  Tensors whole = {w, codes(kMatrix, 8), scales("kv_b_proj.weight_scale", {3, 2})};
  EXPECT_OK(bindFile(whole));
  whole[2] = scales("kv_b_proj.weight_scale", {2, 2});
  expectStatus(bindFile(whole), MLA_INVALID_ARGUMENT, "expected shape [3, 2], scales of [8, 6]");
  whole[1].bytes[0] = '\x7f'; // the other rank's
  whole[2] = scales("kv_b_proj.weight_scale", {3, 2});
  EXPECT_OK(bindFile(whole));
}

TEST_F(CheckpointTest, A11_FromMemoryAllOrNothing) {
  std::vector<uint8_t> code(kRows * kColumns, 0x38);
  std::vector<float> scale(4, 1), w(kHidden, 1);
  int64_t matrix[] = {kRows, kColumns}, grid[] = {2, 2}, row[] = {kHidden};
  mla_tensor tensors[] = {{kMatrix, MLA_E4M3, 2, matrix, code.data()},
                          {"kv_b_proj.weight_scale", MLA_F32, 2, grid, scale.data()},
                          {"w", MLA_F32, 1, row, w.data()}};
  EXPECT_OK(mla_engine_bind_tensors(engine, 0, tensors, 2)); // any of the weights
  expectStatus(mla_engine_prepare(engine, 0), MLA_WRONG_STATE, "weights are not bound: w");
  EXPECT_OK(mla_engine_bind_tensors(engine, 0, tensors, 3));
  EXPECT_OK(mla_engine_prepare(engine, 0));
  EXPECT_OK(mla_engine_bind_tensors(engine, 0, nullptr, 0));

  scale[3] = -1;
  expectStatus(mla_engine_bind_tensors(engine, 1, tensors, 3), MLA_INVALID_ARGUMENT,
               "scale [1, 1] = -1, expected a finite number of at least 0");
  expectUnbound(1);
  tensors[2].name = "v";
  expectStatus(mla_engine_bind_tensors(engine, 1, tensors, 3), MLA_INVALID_ARGUMENT,
               "tensor 'v' is not a weight of the package");
  tensors[2].name = kMatrix;
  expectStatus(mla_engine_bind_tensors(engine, 1, tensors, 3), MLA_INVALID_ARGUMENT,
               "tensor 2: 'kv_b_proj.weight' is given twice");
  expectStatus(mla_engine_bind_weight(engine, 0, kMatrix, MLA_E4M3, matrix, 2, code.data()),
               MLA_INVALID_ARGUMENT, "codes are bound with their scales");
  tensors[0].rank = -1;
  expectStatus(mla_engine_bind_tensors(engine, 0, tensors, 1), MLA_INVALID_ARGUMENT, "rank is -1");
  expectStatus(mla_engine_bind_tensors(engine, 0, tensors, -1), MLA_INVALID_ARGUMENT,
               "num_tensors is -1");
  expectStatus(mla_engine_bind_tensors(engine, 0, nullptr, 1), MLA_INVALID_ARGUMENT,
               "tensors is null");
}

TEST_F(CheckpointTest, A49_Bf16IsBoundAsF16UpToItsLargest) {
  fb::PackageT package = makeScaledPackage();
  package.weights.back()->dtype = fb::DataType::F16;
  restart(package);
  std::vector<uint16_t> values(kRows * kColumns, 0x477f); // bf16 65280, the largest below 65504
  StoredTensor plain = {kMatrix,
                        "BF16",
                        {kRows, kColumns},
                        {reinterpret_cast<char *>(values.data()), 2 * values.size()}};
  EXPECT_OK(bindFile({plainW(), plain}));
  values[7] = 0xc780; // -65536
  plain.bytes = {reinterpret_cast<char *>(values.data()), 2 * values.size()};
  expectStatus(bindFile({plainW(), plain}), MLA_INVALID_ARGUMENT,
               "weight 'kv_b_proj.weight': element 7 = -65536.000000 is beyond the largest f16");
  int64_t shape[] = {kRows, kColumns};
  expectStatus(mla_engine_bind_weight(engine, 0, kMatrix, MLA_BF16, shape, 2, values.data()),
               MLA_INVALID_ARGUMENT, "is beyond the largest f16, 65504");
  plain = {kMatrix, "F32", {kRows, kColumns}, floats(std::vector<float>(kRows * kColumns))};
  expectStatus(bindFile({plainW(), plain}), MLA_INVALID_ARGUMENT,
               "expected dtype f16 or e4m3, got f32");
  Tensors wide = makeLayer("");
  wide[2].bytes = floats({1, 1, 1, 1e6f});
  expectStatus(bindFile(wide), MLA_INVALID_ARGUMENT,
               "element [3, 4] = 1 * 1e+06 is beyond the largest f16, 65504");
}

TEST_F(CheckpointTest, A11_PackagesWithUnknownScalesAreRefused) {
  fb::PackageT unknown = makeScaledPackage();
  unknown.weight_scales->codes = fb::DataType::I32;
  mla_package *opened;
  std::string bytes = pack(unknown);
  expectStatus(mla_package_open_bytes(bytes.data(), bytes.size(), &opened), MLA_UNSUPPORTED,
               "weight_scales: codes are of type");
  unknown = makeScaledPackage();
  unknown.weight_scales->rows = uint64_t(1) << 40;
  bytes = pack(unknown);
  expectStatus(mla_package_open_bytes(bytes.data(), bytes.size(), &opened), MLA_CORRUPT,
               "weight_scales: rows");
}

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

static std::string prefixOf(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".self_attn.";
}

/// Layers 0, 2 and 10, each spread over both shards.
static json writeModel(const Folder &folder) {
  Tensors shards[2];
  json map;
  for (int64_t layer : {0, 2, 10})
    for (const StoredTensor &tensor : makeLayer(prefixOf(layer))) {
      size_t shard = tensor.name.ends_with("w");
      shards[shard].push_back(tensor);
      map[tensor.name] = shard ? "b.safetensors" : "a.safetensors";
    }
  shards[0].push_back(plainW("model.embed_tokens."));
  map["model.embed_tokens.w"] = "a.safetensors";
  folder.writeShard("a.safetensors", shards[0]);
  folder.writeShard("b.safetensors", shards[1]);
  folder.writeIndex(map);
  return map;
}

TEST_F(CheckpointTest, LayersComeInTheOrderOfTheirNumbers) {
  Folder folder;
  writeModel(folder);
  mla_checkpoint *checkpoint;
  ASSERT_OK(mla_checkpoint_open(folder.path(), &checkpoint));
  const char *text;
  ASSERT_OK(mla_checkpoint_info(checkpoint, &text));
  EXPECT_EQ(json::parse(text)["attentions"], json({prefixOf(0), prefixOf(2), prefixOf(10)}));

  std::vector<int64_t> seen;
  auto record = [](void *user, int64_t done, int64_t total) {
    static_cast<std::vector<int64_t> *>(user)->push_back(100 * done + total);
  };
  EXPECT_OK(mla_engine_bind_checkpoint(engine, 0, 0, checkpoint, 1, 0, record, &seen));
  EXPECT_EQ(seen, (std::vector<int64_t>{104, 204, 304, 404}));
  EXPECT_OK(mla_engine_prepare(engine, 0));
  EXPECT_OK(mla_engine_prepare(engine, 1));
  expectStatus(mla_engine_bind_checkpoint(engine, 0, 2, checkpoint, 2, 0, nullptr, nullptr),
               MLA_NOT_FOUND, "attention 3 of");
  expectStatus(mla_engine_bind_checkpoint(engine, 1, 2, checkpoint, 0, 0, nullptr, nullptr),
               MLA_INVALID_ARGUMENT, "num_layers = 2, expected 0 to 1 from layer 1 on");
  expectStatus(mla_engine_bind_checkpoint(engine, 0, 1, checkpoint, 0, 2, nullptr, nullptr),
               MLA_INVALID_ARGUMENT, "unknown flags 2");

  mla_tensor tensor;
  ASSERT_OK(mla_checkpoint_tensor(checkpoint, (prefixOf(2) + kMatrix).c_str(), &tensor));
  EXPECT_EQ(tensor.name, prefixOf(2) + kMatrix);
  EXPECT_EQ(tensor.dtype, MLA_E4M3);
  EXPECT_EQ(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank),
            (std::vector<int64_t>{kRows, kColumns}));
  EXPECT_EQ(static_cast<const char *>(tensor.data)[kRows * kColumns - 1], '\x38');
  expectStatus(mla_checkpoint_tensor(checkpoint, "x", &tensor), MLA_NOT_FOUND, "has no tensor 'x'");
  ASSERT_OK(mla_checkpoint_close(checkpoint));
  expectStatus(mla_checkpoint_close(checkpoint), MLA_INVALID_ARGUMENT, "has been closed");
}

TEST_F(CheckpointTest, OneFileInsteadOfShards) {
  Folder folder;
  folder.writeShard("model.safetensors", makeLayer(prefixOf(0)));
  EXPECT_OK(bindFolder(folder, 1, 1));
  expectUnbound(0);
  EXPECT_OK(mla_engine_prepare(engine, 1));
  Folder empty;
  expectStatus(bindFolder(empty), MLA_NOT_FOUND,
               "has neither model.safetensors.index.json nor model.safetensors");
  expectStatus(mla_checkpoint_open("/nonexistent", nullptr), MLA_INVALID_ARGUMENT, "is null");
}

TEST_F(CheckpointTest, MissingShardsAndTensorsAreNamed) {
  Folder folder;
  json map = writeModel(folder);
  std::string lost = prefixOf(2) + "w";

  json absent = map;
  absent.erase(lost);
  folder.writeIndex(absent);
  expectStatus(bindFolder(folder), MLA_NOT_FOUND, ("lacks tensor '" + lost + "'").c_str());

  json elsewhere = map;
  elsewhere[lost] = "a.safetensors";
  folder.writeIndex(elsewhere);
  expectStatus(bindFolder(folder), MLA_CORRUPT,
               ("a.safetensors' lacks tensor '" + lost + "', which the index says").c_str());

  json missing = map;
  missing[lost] = "c.safetensors";
  folder.writeIndex(missing);
  expectStatus(bindFolder(folder), MLA_NOT_FOUND, ("shard of tensor '" + lost + "': ").c_str());
  EXPECT_NE(std::string(mla_last_error()).find("c.safetensors"), std::string::npos);

  folder.writeIndex(map);
  folder.write("b.safetensors", "short");
  expectStatus(bindFolder(folder), MLA_CORRUPT, "truncated: 5 bytes");
  expectUnbound(0);
  expectUnbound(1);
}

TEST_F(CheckpointTest, DamagedIndicesAreRefused) {
  Folder folder;
  json map = writeModel(folder);
  std::string text = json{{"weight_map", map}}.dump();
  for (size_t length = 0; length < text.size(); ++length) {
    folder.write("model.safetensors.index.json", text.substr(0, length));
    expectStatus(bindFolder(folder), MLA_CORRUPT,
                 "model.safetensors.index.json: is no JSON object");
  }
  auto refuse = [&](const std::string &index, const char *why) {
    folder.write("model.safetensors.index.json", index);
    expectStatus(bindFolder(folder), MLA_CORRUPT, why);
  };
  refuse("{}", "expected an object 'weight_map'");
  refuse(R"({"weight_map": {"a": 3}})",
         "tensor 'a': expected the name of a shard beside it, got 3");
  for (const char *path : {"../x", "/etc/passwd", "", "..", "a/b"})
    refuse(json{{"weight_map", {{"a", path}}}}.dump(), "expected the name of a shard beside it");
  folder.writeIndex(map);
  folder.write("config.json", "{");
  expectStatus(bindFolder(folder), MLA_CORRUPT, "config.json: is no JSON object");
}

TEST_F(CheckpointTest, NoLayerIsBoundBesideAWrongOne) {
  Folder folder;
  json map = writeModel(folder);
  Tensors wrong = makeLayer(prefixOf(2));
  wrong[1].bytes[0] = '\xff';
  folder.writeShard("c.safetensors", wrong);
  for (const StoredTensor &tensor : wrong)
    map[tensor.name] = "c.safetensors";
  folder.writeIndex(map);
  expectStatus(bindFolder(folder), MLA_INVALID_ARGUMENT,
               "attention 1: weight 'kv_b_proj.weight': element [0, 0] is NaN");
  expectUnbound(0);
  expectUnbound(1);
}

TEST_F(CheckpointTest, WhatLiesBesideWeightsIsIgnoredByName) {
  Folder folder;
  Tensors tensors = makeLayer(prefixOf(0));
  for (const char *name : {"rotary_emb.inv_freq", "k_scale", "v_scale", "indexer.wk.weight"})
    tensors.push_back(scales(prefixOf(0) + name));
  folder.writeShard("model.safetensors", tensors);
  EXPECT_OK(bindFolder(folder, 0, 1));
  tensors.push_back(scales(prefixOf(0) + "o_proj.bias", {4}));
  folder.writeShard("model.safetensors", tensors);
  expectStatus(bindFolder(folder, 0, 1), MLA_INVALID_ARGUMENT,
               "o_proj.bias' is not a weight of the package");
}

TEST_F(CheckpointTest, A17_BiasOfTheOutputIsOfNoRank) {
  restart(makeScaledPackage(2), 1, 1);
  StoredTensor w = {"w", "F32", {2 * kHidden}, floats(std::vector<float>(2 * kHidden, 1))};
  Tensors whole = {w, codes(kMatrix, 8), scales("kv_b_proj.weight_scale", {3, 2}),
                   scales("o_proj.bias", {4})};
  constexpr char kWhy[] = "tensor 'o_proj.bias' is not a weight of one of 2 ranks: add it once, to "
                          "the sum of their outputs";
  expectStatus(bindFile(whole), MLA_INVALID_ARGUMENT, kWhy);
  EXPECT_OK(bindFile(whole, MLA_ALLOW_EXTRA_TENSORS));
  float bias[4] = {};
  int64_t shape[] = {4};
  mla_tensor tensor = {"o_proj.bias", MLA_F32, 1, shape, bias};
  expectStatus(mla_engine_bind_tensors(engine, 0, &tensor, 1), MLA_INVALID_ARGUMENT, kWhy);
  // A model's folder has it for whoever adds it.
  Folder folder;
  for (StoredTensor &each : whole)
    each.name.insert(0, prefixOf(0));
  folder.writeShard("model.safetensors", whole);
  EXPECT_OK(bindFolder(folder));
}

TEST_F(CheckpointTest, A14_AnotherQuantisationIsAnotherModel) {
  Folder folder;
  folder.writeShard("model.safetensors", makeLayer(prefixOf(0)));
  folder.write("config.json", R"({"quantization_config": {"b": [3, 4], "a": 1}})");
  EXPECT_OK(bindFolder(folder, 0, 1));
  folder.write("config.json", R"({"quantization_config": {"b": [3, 5], "a": 1}})");
  expectStatus(bindFolder(folder, 0, 1), MLA_INVALID_ARGUMENT,
               R"(has quantization_config {"b":[3,5],"a":1}, the package was compiled for)");
  folder.write("config.json", R"({"quantization_config": null})");
  EXPECT_OK(bindFolder(folder, 0, 1));
}

TEST(QuantizeWeight, B34_WrongArgumentsAreNamed) {
  float values[4] = {1, 2, INFINITY, 4}, scales[4];
  uint8_t codes[4];
  expectStatus(mla_quantize_weight(values, 2, 2, 0, 0, codes, scales), MLA_INVALID_ARGUMENT,
               "value [1, 0] = inf, expected a finite number");
  expectStatus(mla_quantize_weight(values, 0, 2, 0, 0, codes, scales), MLA_INVALID_ARGUMENT,
               "a matrix of 0 x 2");
  expectStatus(mla_quantize_weight(values, 2, 2, 0, -1, codes, scales), MLA_INVALID_ARGUMENT,
               "blocks of 0 x -1");
  expectStatus(mla_quantize_weight(values, 2, 2, 0, 0, nullptr, scales), MLA_INVALID_ARGUMENT,
               "codes is null");
  values[2] = -448;
  EXPECT_OK(mla_quantize_weight(values, 2, 2, 1, 0, codes, scales));
  EXPECT_EQ(scales[1], 1.0f);
  EXPECT_EQ(codes[2], 0xfe);
}
