//===- SafetensorsTest.cpp - mla-run's reader of safetensors files ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Safetensors.h"
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

static std::string getError(const std::string &header, const std::string &data,
                            std::optional<uint64_t> headerBytes = std::nullopt) {
  try {
    Safetensors file(writeFile(header, data, headerBytes.value_or(header.size())));
    (void)file.read("x");
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

TEST(Safetensors, ReadsBf16AndF32) {
  std::string data("\x80\x3f\x00\x00\x00\x40", 6); // bf16 1, then f32 2
  std::string header =
      R"({"__metadata__":{"k":"v"},"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)"
      R"("y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})";
  Safetensors file(writeFile(header, data, header.size()));
  EXPECT_EQ(file.metadata().at("k"), "v");
  EXPECT_EQ(file.read("x"), std::vector<float>{1.0f});
  EXPECT_EQ(file.read("y"), std::vector<float>{2.0f});
}

TEST(Safetensors, DamageIsNamed) {
  EXPECT_NE(getError("{}", "", 99).find("its header of 99 bytes exceeds the file of 10"),
            std::string::npos);
  EXPECT_NE(getError("[1", "").find("no JSON object"), std::string::npos);
  EXPECT_NE(getError("{}", "").find("has no tensor 'x'"), std::string::npos);
  EXPECT_NE(getError(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "ab")
                .find("tensor 'x' lies outside the data of 2 bytes"),
            std::string::npos);
  EXPECT_NE(getError(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd")
                .find("its shape [2] of F32 does not take the 4 bytes stored"),
            std::string::npos);
  EXPECT_NE(getError(R"({"x":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "abcd")
                .find("expected BF16 or F32, got I8"),
            std::string::npos);
  for (const char *shape : {"[-1,-1]", "[1099511627776,1099511627776]"})
    EXPECT_NE(getError(R"({"x":{"dtype":"F32","shape":)" + std::string(shape) +
                           R"(,"data_offsets":[0,4]}})",
                       "abcd")
                  .find("does not take the 4 bytes stored"),
              std::string::npos);
  for (const char *tensor : {"3", "[]", R"({"dtype":"F32","shape":[1]})",
                             R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})",
                             R"({"dtype":"F32","shape":[1],"data_offsets":"all"})"})
    EXPECT_NE(getError(R"({"x":)" + std::string(tensor) + "}", "abcd")
                  .find("tensor 'x' lacks a dtype, a shape or data_offsets of the right kind"),
              std::string::npos)
        << tensor;
  EXPECT_NE(getError(R"({"__metadata__":{"a":1}})", "").find("__metadata__ holds not only strings"),
            std::string::npos);
  EXPECT_THROW(Safetensors("/nonexistent/file"), std::runtime_error);
}

TEST(Safetensors, FindsTheAttentionModule) {
  Safetensors golden(std::string(MLAC_GOLDEN) + "/deepseek_v3_tiny_attention.safetensors");
  ModuleNames names = findModule(golden, "layers.0.self_attn");
  EXPECT_EQ(names.weights, "layers.0.self_attn/weights/");
  EXPECT_EQ(names.input, "layers.0.self_attn/hidden_states");
  EXPECT_EQ(names.output, "layers.0.self_attn/output.0");
  EXPECT_THROW(findModule(golden, "layers.7.self_attn"), std::runtime_error);
}
