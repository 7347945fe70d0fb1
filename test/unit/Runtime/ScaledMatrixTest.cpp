//===- ScaledMatrixTest.cpp - codes with scales -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/ScaledMatrix.h"

#include "base/NarrowFloat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlac::runtime;

namespace {
/// A matrix of random codes without NaN, and random scales.
struct Random {
  int64_t rows, columns;
  ScaleBlock block;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Random(int64_t rows, int64_t columns, ScaleBlock block)
      : rows(rows), columns(columns), block(block), codes(rows * columns) {
    std::mt19937 generator(rows * 1000 + columns);
    for (uint8_t &code : codes)
      do
        code = static_cast<uint8_t>(generator());
      while ((code & 0x7f) == 0x7f);
    auto [down, across] = block.grid(rows, columns);
    scales.resize(down * across);
    for (float &scale : scales)
      scale =
          std::ldexp(1.0f + static_cast<float>(generator() % 1000) / 1000, -int(generator() % 12));
  }

  ScaledMatrix whole() const {
    return {codes.data(), scales.data(), rows, columns, block, 0, 0, rows, columns};
  }
  /// From the definition: one division an element.
  float value(int64_t row, int64_t column) const {
    int64_t down = block.rows ? row / block.rows : 0;
    int64_t across = block.columns ? column / block.columns : 0;
    return widenE4m3(codes[row * columns + column]) *
           scales[down * block.grid(rows, columns)[1] + across];
  }
};

const ScaleBlock kBlocks[] = {{128, 128}, {0, 0}, {1, 0}, {3, 5}, {0, 1}, {7, 0}};
} // namespace

TEST(ScaledMatrix, A11_EveryPartIsItsElementsTimesTheirScales) {
  for (const ScaleBlock &block : kBlocks)
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{300, 260}, {11, 17}, {1, 1}}) {
      Random matrix(rows, columns, block);
      // Edges that are no multiples of a block: the share of a rank.
      for (auto [row, column] : {std::pair<int64_t, int64_t>{0, 0}, {rows / 3, columns / 2}}) {
        ScaledMatrix part = matrix.whole();
        part.firstRow = row, part.firstColumn = column;
        part.numRows = rows - row, part.numColumns = columns - column;
        ASSERT_TRUE(checkValues(part, MLA_BF16).isOk());
        std::vector<float> wide(part.numRows * part.numColumns);
        std::vector<uint16_t> bf16(wide.size()), f16(wide.size());
        dequantise(part, MLA_F32, wide.data());
        dequantise(part, MLA_BF16, bf16.data());
        dequantise(part, MLA_F16, f16.data());
        for (int64_t i = 0; i < part.numRows; ++i)
          for (int64_t j = 0; j < part.numColumns; ++j) {
            float expected = matrix.value(row + i, column + j);
            ASSERT_EQ(wide[i * part.numColumns + j], expected) << i << " " << j;
            ASSERT_EQ(bf16[i * part.numColumns + j], roundToBf16(expected));
            ASSERT_EQ(f16[i * part.numColumns + j], roundToF16(expected));
          }
      }
    }
}

TEST(ScaledMatrix, GridsHaveRaggedEdges) {
  EXPECT_EQ((ScaleBlock{128, 128}.grid(576, 7168)), (std::array<int64_t, 2>{5, 56}));
  EXPECT_EQ((ScaleBlock{1, 0}.grid(576, 7168)), (std::array<int64_t, 2>{576, 1}));
  EXPECT_EQ((ScaleBlock{0, 0}.grid(576, 7168)), (std::array<int64_t, 2>{1, 1}));
}

static void refuse(const ScaledMatrix &matrix, mla_dtype type, const std::string &text) {
  Status status = checkValues(matrix, type);
  EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}

TEST(ScaledMatrix, A11_WrongValuesNameTheirPlaceAndLimit) {
  Random random(5, 6, {2, 4});
  for (uint8_t nan : {uint8_t(0x7f), uint8_t(0xff)}) {
    Random matrix = random;
    matrix.codes[3 * 6 + 5] = nan;
    refuse(matrix.whole(), MLA_F32,
           "element [3, 5] is NaN (code " + std::to_string(nan) +
               "), expected a number of at most 448");
    ScaledMatrix part = matrix.whole(); // whose elements are others
    part.numRows = 3;
    EXPECT_TRUE(checkValues(part, MLA_F32).isOk());
  }
  for (float scale : {-1.0f, std::nanf(""), INFINITY}) {
    Random matrix = random;
    matrix.scales[3] = scale;
    refuse(matrix.whole(), MLA_F32, "scale [1, 1] = ");
  }
  Random matrix = random;
  matrix.codes[2 * 6 + 4] = 0x7e;
  matrix.scales[3] = 200;
  refuse(matrix.whole(), MLA_F16, "element [2, 4] = 448 * 200 is beyond the largest f16, 65504");
  EXPECT_TRUE(checkValues(matrix.whole(), MLA_BF16).isOk());
  matrix.scales[3] = 1e37f;
  refuse(matrix.whole(), MLA_F32, "is beyond the largest f32, 3.40282e+38");
  // 0 * a large scale is a number: only what the codes make of a scale counts.
  for (int64_t row = 2; row < 4; ++row)
    matrix.codes[row * 6 + 4] = matrix.codes[row * 6 + 5] = 0;
  EXPECT_TRUE(checkValues(matrix.whole(), MLA_F16).isOk());
}

TEST(ScaledMatrix, B34_QuantisesWithTheLargestMagnitudeOfABlock) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (const ScaleBlock &block : kBlocks) {
    constexpr int64_t kRows = 150, kColumns = 140;
    Random matrix(kRows, kColumns, block);
    std::vector<float> values(kRows * kColumns);
    for (float &value : values)
      value = normal(generator);
    quantise(values.data(), kRows, kColumns, block, matrix.codes.data(), matrix.scales.data());
    std::vector<float> largest(matrix.scales.size());
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) {
        int64_t scale = (block.rows ? i / block.rows : 0) * block.grid(kRows, kColumns)[1] +
                        (block.columns ? j / block.columns : 0);
        float value = values[i * kColumns + j];
        largest[scale] = std::max(largest[scale], std::fabs(value));
        // Half a unit in the last place of three mantissa bits, or of the smallest number.
        float allowed = std::max(std::fabs(value) / 16, matrix.scales[scale] * 0x1p-10f) * 1.0001f;
        ASSERT_NEAR(matrix.value(i, j), value, allowed);
      }
    for (size_t i = 0; i < largest.size(); ++i)
      ASSERT_EQ(matrix.scales[i], largest[i] / 448);
  }
}

TEST(ScaledMatrix, B34_NothingIsDividedByZero) {
  std::vector<float> values(12);
  std::vector<uint8_t> codes(12, 0xff);
  std::vector<float> scales(3, -1);
  quantise(values.data(), 3, 4, {0, 0}, codes.data(), scales.data());
  EXPECT_EQ(codes, std::vector<uint8_t>(12));
  EXPECT_EQ(scales[0], 1e-10f / 448);
  quantise(values.data(), 3, 4, {1, 0}, codes.data(), scales.data());
  EXPECT_EQ(codes, std::vector<uint8_t>(12));
  EXPECT_EQ(scales, std::vector<float>(3, 1e-12f));
}
