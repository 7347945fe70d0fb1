//===- Rows.h - rows of scores that are hard to select from ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows for tests of top-k, and what is to be selected from them by a stable sort.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SELECT_ROWS_H
#define MLAC_TEST_UNIT_SELECT_ROWS_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace mlac::test {

enum class RowKind {
  Gaussian,
  HalfZeros, // of both signs
  AllEqual,
  MostlyNan, // 99.5%, some infinities of both signs
  HalfMinusInf,
  Rising,
  Falling,
  Bf16, // Gaussian, rounded: many ties
  Subnormal,
};
constexpr RowKind kRowKinds[] = {RowKind::Gaussian,  RowKind::HalfZeros,    RowKind::AllEqual,
                                 RowKind::MostlyNan, RowKind::HalfMinusInf, RowKind::Rising,
                                 RowKind::Falling,   RowKind::Bf16,         RowKind::Subnormal};

inline float makeScore(RowKind kind, int64_t i, std::mt19937 &random) {
  std::normal_distribution<float> normal;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  uint32_t drawn = random();
  switch (kind) {
  case RowKind::Gaussian:
    return normal(random);
  case RowKind::HalfZeros:
    return drawn % 2 ? normal(random) : (drawn % 4 ? 0.0f : -0.0f);
  case RowKind::AllEqual:
    return 0.25f;
  case RowKind::MostlyNan:
    if (drawn % 200)
      return std::bit_cast<float>(drawn % 3 ? 0x7FC00000u : 0xFF812345u);
    return drawn % 3 == 0 ? infinity : drawn % 3 == 1 ? -infinity : normal(random);
  case RowKind::HalfMinusInf:
    return drawn % 2 ? -infinity : normal(random);
  case RowKind::Rising:
    return static_cast<float>(i);
  case RowKind::Falling:
    return static_cast<float>(-i);
  case RowKind::Bf16:
    return std::bit_cast<float>(std::bit_cast<uint32_t>(normal(random)) & 0xFFFF0000u);
  case RowKind::Subnormal:
    return std::bit_cast<float>((drawn & 0x80000000u) | drawn % 5000);
  }
  return 0;
}

inline std::vector<float> makeScores(RowKind kind, int64_t count, unsigned seed) {
  std::mt19937 random(seed * 16 + static_cast<unsigned>(kind));
  std::vector<float> scores(count);
  for (int64_t i = 0; i < count; ++i)
    scores[i] = makeScore(kind, i, random);
  return scores;
}

/// What is to be selected from the first `length` of `scores`.
inline std::vector<int32_t> sortedTopK(const float *scores, int64_t length, int64_t k) {
  std::vector<int32_t> order(length);
  std::iota(order.begin(), order.end(), 0);
  // NaN is below every number, and zeros are equal as floats.
  auto isBefore = [&](int32_t a, int32_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b]))
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  };
  std::stable_sort(order.begin(), order.end(), isBefore);
  order.resize(std::min(length, k));
  std::sort(order.begin(), order.end());
  order.resize(k, -1);
  return order;
}

/// Lengths around K, and up to all of a row.
inline std::vector<int64_t> interestingLengths(int64_t k, int64_t columns) {
  std::vector<int64_t> lengths = {0, 1, k - 1, k, k + 1, 2 * k, 2 * k + 77, columns - 1, columns};
  std::erase_if(lengths, [&](int64_t length) { return length > columns; });
  return lengths;
}

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SELECT_ROWS_H
