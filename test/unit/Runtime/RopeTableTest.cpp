//===- RopeTableTest.cpp - cos and sin by position --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/RopeTable.h"

#include "TestPackage.h"

#include <cmath>

using namespace mlac;
using namespace mlac::test;

namespace {
std::vector<float> rows(const fb::RopeSpecT &spec, int64_t maxSeqLen, int64_t first, int64_t last) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreateRopeSpec(builder, &spec));
  auto *rope = flatbuffers::GetRoot<fb::RopeSpec>(builder.GetBufferPointer());
  std::vector<float> table((last - first) * 4);
  runtime::fillRopeRows(*rope, maxSeqLen, first, last, table.data());
  return table;
}
} // namespace

TEST(RopeTable, AngleIsFormedInSinglePrecision) {
  fb::RopeSpecT spec;
  spec.inv_freq = {1.0f, 0.1f};
  spec.multiplier = 2.0f;
  std::vector<float> row = rows(spec, 64, 12345, 12346);
  float angle = 12345.0f * 0.1f;
  EXPECT_FLOAT_EQ(row[0], 2 * std::cos(12345.0));
  EXPECT_FLOAT_EQ(row[1], 2 * std::cos(static_cast<double>(angle)));
  EXPECT_FLOAT_EQ(row[2], 2 * std::sin(12345.0));
  EXPECT_FLOAT_EQ(row[3], 2 * std::sin(static_cast<double>(angle)));
}

TEST(RopeTable, LongFrequenciesBeyondTheShortLength) {
  fb::RopeSpecT spec;
  spec.inv_freq = {1.0f, 1.0f};
  spec.inv_freq_long = {0.5f, 0.5f};
  spec.short_length = 32;
  spec.multiplier = 1.0f;
  EXPECT_FLOAT_EQ(rows(spec, 32, 1, 2)[0], std::cos(1.0));
  EXPECT_FLOAT_EQ(rows(spec, 33, 1, 2)[0], std::cos(0.5));
}
