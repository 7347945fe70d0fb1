//===- NarrowFloat.cpp - numbers of 8 and 16 bits ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/NarrowFloat.h"

#include <algorithm>
#include <cmath>

using namespace mlac::runtime;

static constexpr uint32_t kMantissaBits = 23, kExponentBias = 127;
static constexpr uint32_t kSignBit = 0x80000000, kInfinity = 0x7f800000, kQuietNan = 0x7fc00000;

/// `magnitude` (finite bits of an f32 without sign) rounded to `bits` mantissa bits
/// and an exponent of bias `bias`, in the place of the narrow number: subnormal
/// below 2^(1 - bias), not yet limited above.
static uint32_t roundMagnitude(uint32_t magnitude, uint32_t bits, uint32_t bias) {
  uint32_t lowestNormal = (kExponentBias + 1 - bias) << kMantissaBits;
  if (magnitude < lowestNormal) {
    // Adding 2^23 units of the smallest subnormal leaves its multiple in the mantissa,
    // rounded as the FPU rounds.
    float units = std::ldexp(1.0f, static_cast<int>(kMantissaBits + 1 - bias - bits));
    return std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + units) -
           std::bit_cast<uint32_t>(units);
  }
  uint32_t dropped = kMantissaBits - bits;
  uint32_t isOdd = (magnitude >> dropped) & 1;
  uint32_t rounded = (magnitude + (1u << (dropped - 1)) - 1 + isOdd) >> dropped;
  return rounded - ((kExponentBias - bias) << bits);
}

static constexpr uint32_t kE4m3Bits = 3, kE4m3Bias = 7;
static constexpr uint8_t kE4m3Nan = 0x7f, kE4m3Max = 0x7e;

uint8_t mlac::runtime::roundToE4m3(float value) {
  uint32_t wide = std::bit_cast<uint32_t>(value), magnitude = wide & ~kSignBit;
  auto sign = static_cast<uint8_t>((wide & kSignBit) >> 24);
  if (magnitude > kInfinity)
    return kE4m3Nan;
  uint32_t limit = std::bit_cast<uint32_t>(kMaxE4m3);
  uint32_t rounded = roundMagnitude(std::min(magnitude, limit), kE4m3Bits, kE4m3Bias);
  return sign | static_cast<uint8_t>(rounded);
}

float mlac::runtime::widenE4m3(uint8_t bits) {
  constexpr float kSmallestSubnormal = 0x1p-9f;
  uint32_t sign = uint32_t(bits & 0x80) << 24, magnitude = bits & 0x7f;
  uint32_t exponent = magnitude >> kE4m3Bits;
  if (magnitude > kE4m3Max)
    return std::bit_cast<float>(sign | kQuietNan);
  if (exponent == 0)
    return std::copysign(static_cast<float>(magnitude) * kSmallestSubnormal, sign ? -1.0f : 1.0f);
  uint32_t rebias = (kExponentBias - kE4m3Bias) << kMantissaBits;
  return std::bit_cast<float>(sign | ((magnitude << (kMantissaBits - kE4m3Bits)) + rebias));
}

static constexpr uint32_t kE2m1Bits = 1, kE2m1Bias = 1;
static constexpr uint8_t kE2m1Sign = 8, kE2m1Max = 7;

uint8_t mlac::runtime::roundToE2m1(float value) {
  uint32_t wide = std::bit_cast<uint32_t>(value), magnitude = wide & ~kSignBit;
  uint8_t sign = (wide & kSignBit) != 0 ? kE2m1Sign : 0;
  if (magnitude > kInfinity)
    return sign;
  uint32_t limit = std::bit_cast<uint32_t>(widenE2m1(kE2m1Max));
  return sign |
         static_cast<uint8_t>(roundMagnitude(std::min(magnitude, limit), kE2m1Bits, kE2m1Bias));
}

float mlac::runtime::widenE2m1(uint8_t bits) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  float magnitude = kMagnitudes[bits & kE2m1Max];
  return (bits & kE2m1Sign) != 0 ? -magnitude : magnitude;
}

uint16_t mlac::runtime::roundToBf16(float value) {
  constexpr uint32_t kDropped = 16, kHalfMinusOne = 0x7fff, kQuietBit = 0x00400000;
  uint32_t wide = std::bit_cast<uint32_t>(value);
  if ((wide & ~kSignBit) > kInfinity)
    return static_cast<uint16_t>((wide | kQuietBit) >> kDropped);
  return static_cast<uint16_t>((wide + kHalfMinusOne + ((wide >> kDropped) & 1)) >> kDropped);
}

static constexpr uint32_t kF16Bits = 10, kF16Bias = 15;
static constexpr uint16_t kF16Infinity = 0x7c00, kF16Nan = 0x7e00;

uint16_t mlac::runtime::roundToF16(float value) {
  uint32_t wide = std::bit_cast<uint32_t>(value), magnitude = wide & ~kSignBit;
  auto sign = static_cast<uint16_t>((wide & kSignBit) >> 16);
  if (magnitude > kInfinity)
    return sign | kF16Nan;
  uint32_t rounded = roundMagnitude(magnitude, kF16Bits, kF16Bias);
  return sign | static_cast<uint16_t>(std::min<uint32_t>(rounded, kF16Infinity));
}

float mlac::runtime::widenF16(uint16_t bits) {
  constexpr float kSmallestSubnormal = 0x1p-24f;
  uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude >> kF16Bits == 0)
    return std::copysign(static_cast<float>(magnitude) * kSmallestSubnormal, sign ? -1.0f : 1.0f);
  uint32_t rebias = (kExponentBias - kF16Bias) << kMantissaBits;
  uint32_t wide = magnitude << (kMantissaBits - kF16Bits);
  // Infinity and NaN keep their mantissa and take the largest exponent.
  return std::bit_cast<float>(sign |
                              (magnitude >= kF16Infinity ? wide | kInfinity : wide + rebias));
}

float mlac::runtime::widenE8m0(uint8_t bits) {
  constexpr uint8_t kNan = 0xff;
  if (bits == kNan)
    return std::bit_cast<float>(kQuietNan);
  return std::ldexp(1.0f, int32_t(bits) - int32_t(kExponentBias));
}
