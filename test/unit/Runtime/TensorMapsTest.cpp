//===- TensorMapsTest.cpp - TMA descriptors of a launch ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/TensorMaps.h"

#include <gtest/gtest.h>

#include <functional>

using namespace mlac::runtime;
using fb::ScaledArg;

namespace {
/// A paged pool: [argument 1, 64, 576] of bf16, pages argument 2 apart, from column 512.
fb::TensorMapT makePool() {
  fb::TensorMapT map;
  map.argument = 0;
  map.offset = std::make_unique<ScaledArg>(512, -1);
  map.sizes = {ScaledArg(1, 1), ScaledArg(64, -1), ScaledArg(64, -1)};
  map.strides = {ScaledArg(1, 2), ScaledArg(576, -1), ScaledArg(1, -1)};
  map.box = {1, 64, 64};
  return map;
}

Status make(const fb::TensorMapT &description, TensorMap &map, mla_dtype dtype = MLA_BF16,
            std::vector<uint64_t> args = {0, 100, 64 * 576}) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreateTensorMap(builder, &description));
  return makeTensorMap(*flatbuffers::GetRoot<fb::TensorMap>(builder.GetBufferPointer()), dtype,
                       args, map);
}

void refuse(const char *text, const std::function<void(fb::TensorMapT &)> &change,
            mla_dtype dtype = MLA_BF16) {
  fb::TensorMapT description = makePool();
  change(description);
  TensorMap map;
  Status status = make(description, map, dtype);
  EXPECT_EQ(status.code(), MLA_CORRUPT) << text;
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}
} // namespace

TEST(TensorMaps, ArgumentsGiveSizesAndStrides) {
  TensorMap map;
  Status status = make(makePool(), map);
  ASSERT_TRUE(status.isOk()) << status.message();
  EXPECT_EQ(map.rank, 3u);
  EXPECT_EQ(map.byteOffset, 1024);
  // Innermost first.
  EXPECT_EQ(map.sizes[0], 64u);
  EXPECT_EQ(map.sizes[1], 64u);
  EXPECT_EQ(map.sizes[2], 100u);
  EXPECT_EQ(map.strideBytes[0], 1152u);
  EXPECT_EQ(map.strideBytes[1], 64u * 1152);
  EXPECT_EQ(map.box[0], 64u);
  EXPECT_EQ(map.box[2], 1u);
}

TEST(TensorMaps, ProductsOfArguments) {
  fb::TensorMapT description = makePool();
  description.sizes[0] = ScaledArg(128, 1); // tokens · heads
  TensorMap map;
  ASSERT_TRUE(make(description, map).isOk());
  EXPECT_EQ(map.sizes[2], 12800u);
}

TEST(TensorMaps, EmptyTensorsHaveAMap) {
  TensorMap map;
  ASSERT_TRUE(make(makePool(), map, MLA_BF16, {0, 0, 64 * 576}).isOk());
  EXPECT_EQ(map.sizes[2], 1u);
}

TEST(TensorMaps, WhatTmaCannotDoIsRefused) {
  refuse("starts at element 4, expected a multiple of 16 bytes",
         [](auto &m) { *m.offset = ScaledArg(4, -1); });
  refuse("starts at element -1", [](auto &m) { *m.offset = ScaledArg(-8, -1); });
  refuse("has a stride of 575 elements, expected a multiple of 16 bytes",
         [](auto &m) { m.strides[1] = ScaledArg(575, -1); });
  refuse("has a stride of 549755813888 elements",
         [](auto &m) { m.strides[0] = ScaledArg(int64_t(1) << 39, -1); });
  refuse("has size 4294967297",
         [](auto &m) { m.sizes[0] = ScaledArg((int64_t(1) << 32) + 1, -1); });
  refuse("has size -1", [](auto &m) { m.sizes[0] = ScaledArg(int64_t(1) << 62, 1); }); // overflow
  refuse("has boxes of 256 bytes in a row, expected a multiple of 16 up to 128",
         [](auto &m) { m.box[2] = 128; });
  refuse(
      "has boxes of 256 bytes in a row", [](auto &) {}, MLA_F32);
  refuse("has boxes of 24 bytes in a row", [](auto &m) { m.box[2] = 12; });
}
