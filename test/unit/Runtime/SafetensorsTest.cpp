//===- SafetensorsTest.cpp - reading and binding safetensors ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Safetensors.h"

#include "TestPackage.h"

#include <cstring>

using namespace mlac;
using namespace mlac::test;
using runtime::Safetensors;
using runtime::Status;

static Status open(const std::string &bytes) {
  TemporaryFile file(bytes);
  Safetensors reader;
  return reader.open(file.path());
}

static void refuse(const std::string &bytes, const char *text, mla_status code = MLA_CORRUPT) {
  Status status = open(bytes);
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

static const std::string kTwo = R"({"__metadata__":{"a":"b"},)"
                                R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                R"("y":{"dtype":"BF16","shape":[2,1],"data_offsets":[8,12]}})";

TEST(Safetensors, ReadsEntries) {
  TemporaryFile file(safetensors(kTwo, std::string(12, 'd')));
  Safetensors reader;
  Status status = reader.open(file.path());
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(reader.entries().size(), 2u);
  EXPECT_EQ(reader.entries().at("y").shape, (std::vector<int64_t>{2, 1}));
}

TEST(Safetensors, EveryTruncationIsCorrupt) {
  std::string bytes = safetensors(kTwo, std::string(12, 'd'));
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(open(bytes.substr(0, length)).code(), MLA_CORRUPT) << length;
}

TEST(Safetensors, BadHeadersAreRefused) {
  std::string data(8, 'd');
  refuse(std::string(8, '\xff') + "{}", "header of 18446744073709551615");
  refuse(safetensors("[]", ""), "no JSON object");
  refuse(safetensors("{\"x\":", ""), "no JSON object");
  refuse(safetensors(R"({"x":3})", data), "expected dtype, shape");
  auto entry = [&](const char *fields) {
    return safetensors(std::string(R"({"x":{)") + fields + "}}", data);
  };
  refuse(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])"),
         "outside the file's 8 data bytes");
  refuse(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "outside the file's");
  refuse(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "F32 [3] takes 12");
  refuse(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "shape holds -2");
  refuse(entry(R"("dtype":"F32","shape":[4611686018427387904,4],)"
               R"("data_offsets":[0,8])"),
         "overflows");
  refuse(entry(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "unknown dtype 'F31'",
         MLA_UNSUPPORTED);
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "tensors end at data byte 4");
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "a gap at data byte 4");
}

TEST(Safetensors, OverlapsAndRepetitionsAreRefused) {
  const char *kEntry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  std::string data(8, 'd');
  refuse(safetensors(std::string(R"({"x":)") + kEntry + R"(,"y":)" + kEntry + "}", data),
         "tensors overlap at data byte 0");
  refuse(safetensors(std::string(R"({"x":)") + kEntry + R"(,"x":)" + kEntry + "}", data),
         "'x' is listed twice");
}

TEST(Safetensors, MissingFileIsNotFound) {
  Safetensors reader;
  EXPECT_EQ(reader.open("/nonexistent.safetensors").code(), MLA_NOT_FOUND);
  Safetensors folder;
  EXPECT_EQ(folder.open("/tmp").code(), MLA_NOT_FOUND);
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

namespace {
class BindTest : public EngineTest {
protected:
  mla_status bind(const std::string &header, size_t bytes, uint32_t flags = 0) {
    TemporaryFile file(safetensors(header, std::string(bytes, '\0')));
    return mla_engine_bind_safetensors(engine, 0, file.path(), "layer.", flags);
  }
};
} // namespace

TEST_F(BindTest, WidensBf16) {
  EXPECT_EQ(bind(R"({"layer.w":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}})", 16), MLA_OK)
      << mla_last_error();
  // Bound again, so prepare must run again.
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {1}));
  alignas(16) float rows[kHidden] = {}, out[kHidden];
  expectStatus(mla_step_run(plan, 0, rows, out, nullptr), MLA_WRONG_STATE,
               "layer 0 is not prepared");
}

TEST_F(BindTest, MissingTensorIsNotFound) {
  expectStatus(bind(R"({"w":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})", 32),
               MLA_NOT_FOUND, "lacks tensor 'layer.w'");
}

TEST_F(BindTest, ExtraTensorsNeedTheFlag) {
  const char *kHeader = R"({"layer.w":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},)"
                        R"("layer.v":{"dtype":"F32","shape":[1],"data_offsets":[32,36]},)"
                        R"("other":{"dtype":"F32","shape":[1],"data_offsets":[36,40]}})";
  expectStatus(bind(kHeader, 40), MLA_INVALID_ARGUMENT, "'layer.v'");
  EXPECT_EQ(bind(kHeader, 40, MLA_ALLOW_EXTRA_TENSORS), MLA_OK);
  expectStatus(bind(kHeader, 40, 8), MLA_INVALID_ARGUMENT, "unknown flags 8");
}

TEST_F(BindTest, WrongShapeAndTypeNameBoth) {
  expectStatus(bind(R"({"layer.w":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}})", 32),
               MLA_INVALID_ARGUMENT, "expected shape [8], got [4, 2]");
  expectStatus(bind(R"({"layer.w":{"dtype":"F64","shape":[8],"data_offsets":[0,64]}})", 64),
               MLA_INVALID_ARGUMENT, "expected dtype f32, got F64");
}

TEST_F(BindTest, FromMemoryNamesExpectedAndGot) {
  std::vector<float> data(16);
  int64_t shape[] = {8}, wrong[] = {9};
  expectStatus(mla_engine_bind_weight(engine, 0, "v", MLA_F32, shape, 1, data.data()),
               MLA_NOT_FOUND, "unknown weight 'v', the package has: w");
  expectStatus(mla_engine_bind_weight(engine, 0, "w", MLA_F32, wrong, 1, data.data()),
               MLA_INVALID_ARGUMENT, "expected shape [8], got [9]");
  expectStatus(mla_engine_bind_weight(engine, 0, "w", MLA_I32, shape, 1, data.data()),
               MLA_INVALID_ARGUMENT, "expected dtype f32, got i32");
  expectStatus(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1,
                                      reinterpret_cast<char *>(data.data()) + 2),
               MLA_INVALID_ARGUMENT, "not aligned to its element size 4");
  expectStatus(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, nullptr),
               MLA_INVALID_ARGUMENT, "data is null");
  expectStatus(mla_engine_bind_weight(engine, 1, "w", MLA_F32, shape, 1, data.data()),
               MLA_INVALID_ARGUMENT, "layer 1, expected 0 to 0");
}

TEST(BindShards, CutsTheRanksShare) {
  // Expected [8], the file holds [16]: rank 1 of 2 takes the second half.
  fb::PackageT description = makePackage();
  description.model->tensor_parallel = 2;
  std::string bytes = pack(description);
  mla_package *package;
  mla_device *device;
  mla_engine *engine;
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.tensor_parallel_rank = 1;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  ASSERT_OK(mla_engine_create(package, device, &options, &engine));
  std::vector<float> values(16);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  TemporaryFile file(safetensors(R"({"w":{"dtype":"F32","shape":[16],"data_offsets":[0,64]}})",
                                 std::string(reinterpret_cast<char *>(values.data()), 64)));
  ASSERT_OK(mla_engine_bind_safetensors(engine, 0, file.path(), nullptr, 0));
  ASSERT_OK(mla_engine_prepare(engine, 0));
  mla_plan *plan;
  mla_sequence sequence;
  ASSERT_OK(mla_plan_create(engine, &plan));
  ASSERT_OK(mla_sequence_create(engine, &sequence));
  int32_t queryLen = 1;
  mla_batch batch = {sizeof batch, 1, &sequence, &queryLen, 0};
  ASSERT_OK(mla_step_plan(plan, &batch, nullptr, nullptr));
  alignas(16) float hidden[kHidden] = {}, output[kHidden];
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  EXPECT_EQ(output[0], 16.0f); // 2 * values[8]
  EXPECT_EQ(output[7], 30.0f);
  mla_plan_destroy(plan);
  mla_engine_destroy(engine);
  mla_device_close(device);
  mla_package_close(package);
}
