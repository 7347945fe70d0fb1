//===- NarrowFloat.h - numbers of 8 and 16 bits -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions between f32 and e4m3 ("fn": bias 7, +-448 the largest, no infinity,
// NaN 0x7F and 0xFF), e2m1, e8m0, bf16 and f16. To narrower: round to nearest, ties to
// even. e4m3 and e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6) saturate, as cvt.rn.satfinite does; the others
// overflow to infinity.
// Every widening is exact.
//
// Example: 0.4453125 * 1000 = 445.3 is 448 = 0x7E in e4m3, whose neighbours are 416
// and (were it there) 480.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_NARROWFLOAT_H
#define MLAC_RUNTIME_NARROWFLOAT_H

#include <bit>
#include <cstdint>

namespace mlac::runtime {

inline constexpr float kMaxE4m3 = 448.0f;

/// Every NaN becomes 0x7F, as cvt.rn.satfinite makes it (measured on an H200).
uint8_t roundToE4m3(float value);
float widenE4m3(uint8_t bits);

/// Four bits. NaN becomes a zero.
uint8_t roundToE2m1(float value);
float widenE2m1(uint8_t bits);

/// NaN stays NaN (made quiet).
uint16_t roundToBf16(float value);
inline float widenBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
uint16_t roundToF16(float value);
float widenF16(uint16_t bits);

/// The smallest power of two that is not below `value` (> 0, normal).
inline float roundUpToPowerOf2(float value) {
  constexpr uint32_t kMantissa = 0x007fffff;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + kMantissa) & ~kMantissa);
}

/// 2^(bits - 127); 255 is NaN.
float widenE8m0(uint8_t bits);
/// Of a power of two that is a normal f32.
inline uint8_t encodeE8m0(float power) { return std::bit_cast<uint32_t>(power) >> 23; }

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_NARROWFLOAT_H
