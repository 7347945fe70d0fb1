//===- CodeRows.h - keys stored as codes, for simulated steps ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_CODEROWS_H
#define MLAC_TEST_UNIT_SIMULATOR_CODEROWS_H

#include "Kernels.h"

namespace mlac::test {

inline float decode(uint8_t code) {
  constexpr int bias = 7, mantissaBits = 3;
  int exponent = code >> mantissaBits & 15, mantissa = code & 7;
  float value = exponent ? std::ldexp(8 + mantissa, exponent - bias - mantissaBits)
                         : std::ldexp(mantissa, 1 - bias - mantissaBits);
  return code & 0x80 ? -value : value;
}

/// How many codes of an fp8_ds_mla row have one scale.
constexpr int64_t kCodeGroup = 128;
/// Bytes of such a row.
inline int64_t countGroupedRow(int64_t rank, int64_t rope) {
  return rank + rank / kCodeGroup * 4 + rope * 2;
}

/// A row of codes of numbers up to 7.5 times `scale`, or, grouped, times scales about 1/8 with RoPE
/// keys behind. Appends what it stands for, exactly, to `values`.
inline void storeCodeRow(uint8_t *row, int64_t rank, int64_t rope, bool isGrouped, float scale,
                         unsigned seed, std::vector<float> &values) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> magnitude(0, 0x4F), sign(0, 1);
  std::uniform_real_distribution<float> factor(0.1f, 0.15f);
  for (int64_t i = 0; i < rank + (isGrouped ? 0 : rope); ++i) {
    if (isGrouped && i % kCodeGroup == 0) {
      scale = factor(engine);
      memcpy(row + rank + i / kCodeGroup * 4, &scale, 4);
    }
    row[i] = magnitude(engine) | sign(engine) << 7;
    values.push_back(decode(row[i]) * scale);
  }
  if (!isGrouped)
    return;
  Bits keys = makeRandom(rope, seed);
  memcpy(row + rank + rank / kCodeGroup * 4, keys.data(), 2 * rope);
  for (uint16_t bits : keys)
    values.push_back(toFloat(bits));
}

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_CODEROWS_H
