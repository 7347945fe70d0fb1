//===- NarrowFloatTest.cpp - numbers of 8 and 16 bits -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference rounds by comparing with the two neighbours in a list of all values,
// written from the format's definition (paged-cache.md section 3).
//
//===----------------------------------------------------------------------===//

#include "base/NarrowFloat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace mlac::runtime;

/// sign * 2^(max(e, 1) - bias - bits) * mantissa: the definition, in double.
static double valueOf(unsigned magnitude, unsigned bits, int bias) {
  int exponent = static_cast<int>(magnitude >> bits);
  unsigned mantissa = magnitude & ((1u << bits) - 1);
  return std::ldexp(exponent ? mantissa + (1u << bits) : mantissa,
                    std::max(exponent, 1) - bias - static_cast<int>(bits));
}

/// Index of the value nearest to `x` >= 0 in an ascending list, ties to even index.
static unsigned nearest(const std::vector<double> &values, double x) {
  auto above = std::lower_bound(values.begin(), values.end(), x);
  if (above == values.begin())
    return 0;
  if (above == values.end())
    return static_cast<unsigned>(values.size() - 1);
  auto index = static_cast<unsigned>(above - values.begin());
  double up = *above - x, down = x - values[index - 1];
  return up < down || (up == down && index % 2 == 0) ? index : index - 1;
}

static std::vector<double> allMagnitudes(unsigned count, unsigned bits, int bias) {
  std::vector<double> values;
  for (unsigned i = 0; i < count; ++i)
    values.push_back(valueOf(i, bits, bias));
  return values;
}

/// Calls check(x) with every exponent of f32, each with mantissas at, just below and
/// just above every tie and every value of `bits` mantissa bits; both signs.
template <typename Check> static void forEachNearTie(unsigned bits, Check check) {
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t step = 0; step < (2u << bits); ++step)
      for (int32_t offset = -2; offset <= 2; ++offset) {
        uint32_t word = (exponent << 23) + (step << (22 - bits)) + static_cast<uint32_t>(offset);
        check(std::bit_cast<float>(word & 0x7fffffff));
        check(std::bit_cast<float>(word | 0x80000000));
      }
}

TEST(NarrowFloat, EveryE4m3ByteIsItsDefinition) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    float value = widenE4m3(static_cast<uint8_t>(byte));
    EXPECT_EQ(std::signbit(value), byte >= 128);
    if ((byte & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(value));
    else
      EXPECT_EQ(std::fabs(value), valueOf(byte & 0x7f, 3, 7));
    EXPECT_EQ(roundToE4m3(value), byte == 0xff ? 0x7f : byte);
    // Exact to both 16-bit types.
    if (!std::isnan(value)) {
      EXPECT_EQ(widenBf16(roundToBf16(value)), value);
      EXPECT_EQ(widenF16(roundToF16(value)), value);
    }
  }
}

TEST(NarrowFloat, E4m3RoundsToNearestEvenAndSaturates) {
  std::vector<double> values = allMagnitudes(0x7f, 3, 7); // up to 448
  forEachNearTie(3, [&](float x) {
    uint8_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x))
      ASSERT_EQ(roundToE4m3(x), 0x7f);
    else
      ASSERT_EQ(roundToE4m3(x), sign | nearest(values, std::fabs(double(x)))) << x;
  });
  EXPECT_EQ(roundToE4m3(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(roundToE4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(roundToE4m3(464.0f), 0x7e); // the tie to what would be 480
}

TEST(NarrowFloat, SixteenBitTypesRoundToNearestEven) {
  std::vector<double> halves = allMagnitudes(0x7c00, 10, 15),
                      bfloats = allMagnitudes(0x7f80, 7, 127);
  forEachNearTie(7, [&](float x) {
    double magnitude = std::fabs(double(x));
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(widenBf16(roundToBf16(x))) && std::isnan(widenF16(roundToF16(x))));
      return;
    }
    // Half an ulp above the largest number is infinity.
    double largestHalf = 65520, largestBf16 = 0x1.ffp127;
    ASSERT_EQ(roundToF16(x) & 0x7fff,
              magnitude >= largestHalf ? 0x7c00 : nearest(halves, magnitude))
        << x;
    ASSERT_EQ(roundToBf16(x) & 0x7fff,
              magnitude >= largestBf16 ? 0x7f80 : nearest(bfloats, magnitude))
        << x;
    ASSERT_EQ(std::signbit(x), roundToF16(x) >= 0x8000);
  });
  for (unsigned bits = 0; bits < 0x7c00; ++bits)
    ASSERT_EQ(widenF16(static_cast<uint16_t>(bits)), halves[bits]);
}

TEST(NarrowFloat, PowersOfTwo) {
  EXPECT_EQ(roundUpToPowerOf2(1.0f), 1.0f);
  EXPECT_EQ(roundUpToPowerOf2(std::nextafter(1.0f, 2.0f)), 2.0f);
  // log2 in f32 would round this to 24.
  EXPECT_EQ(roundUpToPowerOf2(std::nextafter(0x1p24f, 0x1p25f)), 0x1p25f);
  for (int exponent = -126; exponent < 127; ++exponent) {
    float power = std::ldexp(1.0f, exponent);
    ASSERT_EQ(roundUpToPowerOf2(power), power);
    ASSERT_EQ(widenE8m0(encodeE8m0(power)), power);
  }
  EXPECT_EQ(widenE8m0(0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(widenE8m0(255)));
}
