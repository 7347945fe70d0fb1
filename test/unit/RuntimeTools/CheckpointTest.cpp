//===- CheckpointTest.cpp - tensors that references compute with ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"
#include "Check.h"

#include "gtest/gtest.h"
#include <cstring>
#include <fstream>

using namespace mlac::run;

/// A file in the test's temporary folder: header length, header, data.
static std::string writeFile(const std::string &header, const std::string &data,
                             uint64_t headerBytes) {
  std::string path = ::testing::TempDir() + "mla_run_" +
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char *>(&headerBytes), 8);
  stream << header << data;
  return path;
}

static Checkpoint write(const std::string &header, const std::string &data) {
  return Checkpoint(writeFile(header, data, header.size()));
}

TEST(Checkpoint, ReadsNumbersOfEveryWidth) {
  std::string data("\x80\x3f\x00\x00\x00\x40\x00\x44", 8); // bf16 1, f32 2, f16 4
  Checkpoint file =
      write(R"({"__metadata__":{"k":"v"},"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)"
            R"("y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
            R"("z":{"dtype":"F16","shape":[1],"data_offsets":[6,8]}})",
            data);
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(file.read("x"), std::vector<float>{1.0f});
  EXPECT_EQ(file.read("y"), std::vector<float>{2.0f});
  EXPECT_EQ(file.read("z"), std::vector<float>{4.0f});
  EXPECT_FALSE(file.find("w"));
  EXPECT_THROW(file.read("w"), std::runtime_error);
  EXPECT_THROW(Checkpoint("/nonexistent/file"), std::runtime_error);
}

TEST(Checkpoint, B33_ReadsCodesTimesScalesUnderAnyName) {
  // Codes of 1 and -2, in blocks of one row.
  std::string data("\x38\x38\xc0\xc0\0\0\x80\x3f\0\0\0\x40", 12);
  for (const char *name : {"weight", "qweight", "weight_packed"})
    for (const char *scale : {"weight_scale", "weight_scale_inv"}) {
      Checkpoint file =
          write(R"({"a.)" + std::string(name) +
                    R"(":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},"a.)" + scale +
                    R"(":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}})",
                data);
      EXPECT_EQ(file.readWeight("a.weight", {1, 0}), (std::vector<float>{1, 1, -4, -4}));
      EXPECT_THROW(file.readWeight("a.weight", {0, 0}), std::runtime_error); // one scale
      EXPECT_THROW(file.readWeight("a.weight", {}), std::runtime_error);     // codes are no numbers
    }
}

TEST(Checkpoint, DamageIsNamed) {
  for (const char *header :
       {"[1", R"({"x":3})", R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})"})
    EXPECT_THROW(write(header, "abcd"), std::runtime_error) << header;
}

TEST(Checkpoint, FindsTheAttentionModule) {
  Checkpoint golden(std::string(MLAC_GOLDEN) + "/deepseek_v3_tiny_attention.safetensors");
  ModuleNames names = findModule(golden, "layers.0.self_attn");
  EXPECT_EQ(names.weights, "layers.0.self_attn/weights/");
  EXPECT_EQ(names.input, "layers.0.self_attn/hidden_states");
  EXPECT_EQ(names.output, "layers.0.self_attn/output.0");
  EXPECT_THROW(findModule(golden, "layers.7.self_attn"), std::runtime_error);
}
