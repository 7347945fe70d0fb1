//===- IndexRowsTest.cpp - an indexer's rows at once, on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mla.index_append and mla.index_query against float64 (B38): a code times its scale is half a
// code's step from the row, and the scale is what the row's largest value asks for.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "base/DataType.h"
#include "base/NarrowFloat.h"
#include "package/CacheFormat.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr uint8_t kUntouched = 0xa5;
constexpr int64_t kLength = 16; // positions of the table
constexpr int64_t kWidth = 128;
constexpr double kAmaxFloor = 1e-4, kMaxCode = 448;

std::string text(int64_t number) { return std::to_string(number); }

/// Which channels of 128 are rotated.
struct Channels {
  const char *order;
  int64_t dim, offset;
};

const Channels kChannels[] = {{"half", 64, 0},
                              {"interleaved", 64, 0},
                              {"half", 32, 48},
                              {"interleaved", 64, 64},
                              {"half", 128, 0}};

std::string makeText(const char *pattern, const Channels &channels, bool isPower,
                     int64_t heads = 1) {
  return substitute(pattern, {{"ORDER", channels.order},
                              {"DIM", text(channels.dim)},
                              {"OFFSET", text(channels.offset)},
                              {"RULE", isPower ? "power_of_two" : "raw"},
                              {"HEADS", text(heads)}});
}

/// `row` rotated by the angles of a position (mla.rope).
std::vector<double> rotateRow(std::vector<double> row, const Channels &channels,
                              const std::vector<float> &table, int64_t position) {
  bool isInterleaved = std::string(channels.order) == "interleaved";
  const float *angles = &table[position * channels.dim];
  int64_t half = channels.dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    double cos = angles[i], sin = angles[half + i];
    double &first = row[channels.offset + (isInterleaved ? 2 * i : i)];
    double &second = row[channels.offset + (isInterleaved ? 2 * i + 1 : i + half)];
    double a = first, b = second;
    first = a * cos - b * sin;
    second = b * cos + a * sin;
  }
  return row;
}

void expectCodes(const uint8_t *codes, double scale, const std::vector<double> &row, bool isPower) {
  double most = kAmaxFloor;
  for (double value : row)
    most = std::max(most, std::abs(value));
  double wanted = most / kMaxCode;
  EXPECT_GE(scale, wanted * (1 - 1e-5));
  EXPECT_LE(scale, wanted * (isPower ? 2 : 1) * (1 + 1e-5));
  if (isPower)
    EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
  for (int64_t i = 0; i < kWidth; ++i)
    ASSERT_NEAR(double(widenE4m3(codes[i])) * scale, row[i],
                std::abs(row[i]) * (0x1p-4 + 1e-5) + scale * 0x1p-10)
        << "column " << i;
}

void checkKeys(const Channels &channels, bool isPower) {
  auto steps = Steps::compile(makeText(R"(
!cache = !mla.cache<page_size = 4, fields = [index: 128], element = bf16, rope_order = $ORDER, format = "index_k", scale_rule = $RULE>
#rope = #mla.rope<order = $ORDER, dim = $DIM, theta = 1.0e4, length = 16>
func.func @keys(%x: tensor<?x128xbf16> {mla.input = "x"}, %w: tensor<128xf32> {mla.weight = "w"}, %u: tensor<128xf32> {mla.weight = "u"},
                %batch: !mla.batch, %cache: !cache) -> !cache {
  %table = mla.rope_table #rope : tensor<?x$DIMxf32>
  %new = mla.index_append %x, %w, %u epsilon 1.0e-6 rope %table with #rope offset $OFFSET into %cache, %batch
      : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x$DIMxf32> into !cache, !mla.batch
  return %new : !cache
}
)",
                                       channels, isPower));
  ASSERT_TRUE(steps);
  CacheLayout layout;
  ASSERT_TRUE(CacheLayout::make("index_k", {MLA_BF16, {kWidth, 0}, 4, 0}, layout).isOk());
  std::vector<int64_t> slots = {9, -1, 15, 0, 4, -7, 3}, positions = {7, 0, 15, 3, 3, 1, 12};
  auto tokens = static_cast<int64_t>(slots.size());
  auto x = randomVector<Bf16>(tokens * kWidth, 1);
  for (Bf16 &value : x) // far from zero, so that a variance from squares would cancel
    value = Bf16(20 + double(value));
  auto weight = randomVector<float>(kWidth, 2), bias = randomVector<float>(kWidth, 3);
  auto table = randomVector<float>(kLength * channels.dim, 4);
  std::vector<uint8_t> pool(layout.poolBytes(4), kUntouched);
  steps->run("keys",
             {{"num_tokens", tokens},
              {"num_pages", 4},
              {"page_stride", layout.pageStride()},
              {"rope_length", kLength}},
             {{"x", x},
              {"w", weight},
              {"u", bias},
              {"rope_table", table},
              {"positions", positions},
              {"slot_mapping", slots},
              {"cache", pool}});
  int64_t untouched =
      16 - std::count_if(slots.begin(), slots.end(), [](int64_t s) { return s >= 0; });
  EXPECT_GE(std::count(pool.begin(), pool.end(), kUntouched), untouched * (kWidth + 4));
  for (int64_t t = 0; t < tokens; ++t) {
    if (slots[t] < 0)
      continue;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < kWidth; ++i)
      mean += double(x[t * kWidth + i]) / kWidth;
    for (int64_t i = 0; i < kWidth; ++i)
      variance += std::pow(double(x[t * kWidth + i]) - mean, 2) / kWidth;
    std::vector<double> row(kWidth);
    for (int64_t i = 0; i < kWidth; ++i)
      row[i] =
          weight[i] * (double(x[t * kWidth + i]) - mean) / std::sqrt(variance + 1e-6) + bias[i];
    float scale;
    std::memcpy(&scale, &pool[layout.offset(1, slots[t])], sizeof scale);
    SCOPED_TRACE("token " + text(t));
    expectCodes(&pool[layout.offset(0, slots[t])], scale,
                rotateRow(row, channels, table, positions[t]), isPower);
  }
}

TEST(IndexRows, B38_KeysAtOnceAreThoseOfFloat64) {
  for (const Channels &channels : kChannels)
    for (bool isPower : {true, false}) {
      SCOPED_TRACE(channels.order + text(channels.dim));
      checkKeys(channels, isPower);
    }
}

void checkQueries(const Channels &channels, bool isPower, int64_t heads) {
  auto steps = Steps::compile(makeText(R"(
#rope = #mla.rope<order = $ORDER, dim = $DIM, theta = 1.0e4, length = 16>
func.func @queries(%q: tensor<?x$HEADSx128xbf16> {mla.input = "q"}, %x: tensor<?x$HEADSxbf16> {mla.input = "x"}, %batch: !mla.batch)
    -> (tensor<?x$HEADSx128xf8E4M3FN> {mla.output = "codes"}, tensor<?x$HEADSxf32> {mla.output = "w"}) {
  %table = mla.rope_table #rope : tensor<?x$DIMxf32>
  %c, %w = mla.index_query %q, %x factor 0.125 rope %table, %batch with #rope offset $OFFSET rule <$RULE> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x$HEADSx128xbf16>, tensor<?x$HEADSxbf16> rope tensor<?x$DIMxf32>, !mla.batch
      -> tensor<?x$HEADSx128xf8E4M3FN>, tensor<?x$HEADSxf32>
  return %c, %w : tensor<?x$HEADSx128xf8E4M3FN>, tensor<?x$HEADSxf32>
}
)",
                                       channels, isPower, heads));
  ASSERT_TRUE(steps);
  std::vector<int64_t> positions = {7, 0, 15};
  int64_t rows = 3 * heads;
  auto q = randomVector<Bf16>(rows * kWidth, 5);
  for (int64_t i = 0; i < rows * kWidth; ++i) // rows of all sizes, some below the floor
    q[i] = Bf16(std::ldexp(double(q[i]), int(i / kWidth % 40) - 20));
  std::vector<Bf16> x(rows, Bf16(8.0)); // the scale itself, times a power of two
  auto table = randomVector<float>(kLength * channels.dim, 7);
  std::vector<uint8_t> codes(rows * kWidth, kUntouched);
  std::vector<float> weights(rows, NAN);
  steps->run("queries", {{"num_tokens", 3}, {"rope_length", kLength}},
             {{"q", q},
              {"x", x},
              {"rope_table", table},
              {"positions", positions},
              {"codes", codes},
              {"w", weights}});
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> row(kWidth);
    for (int64_t i = 0; i < kWidth; ++i)
      row[i] = double(q[r * kWidth + i]);
    SCOPED_TRACE("row " + text(r));
    expectCodes(&codes[r * kWidth], weights[r],
                rotateRow(row, channels, table, positions[r / heads]), isPower);
  }
}

TEST(IndexRows, B38_QueriesAtOnceAreThoseOfFloat64) {
  for (const Channels &channels : kChannels)
    for (bool isPower : {true, false}) {
      SCOPED_TRACE(channels.order + text(channels.dim));
      checkQueries(channels, isPower, isPower ? 64 : 5);
    }
}

} // namespace
