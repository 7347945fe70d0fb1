//===- NumbersTest.cpp - bf16, random numbers and error measures ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Numbers.h"

#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace mlac::run;

TEST(Numbers, Bf16RoundsToNearestEven) {
  EXPECT_EQ(roundToBf16(1.0f), 0x3f80);
  EXPECT_EQ(roundToBf16(1.0f + 1.0f / 256), 0x3f80); // tie, even below
  EXPECT_EQ(roundToBf16(1.0f + 3.0f / 256), 0x3f82); // tie, even above
  EXPECT_EQ(roundToBf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_TRUE(std::isnan(widenBf16(roundToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(decode(encode({1.5f, -2.0f}, MLA_BF16), MLA_BF16), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(decode(encode({0.1f}, MLA_F32), MLA_F32), std::vector<float>{0.1f});
}

TEST(Numbers, RandomValuesHaveTheirDeviationAndRepeat) {
  std::vector<float> values = randomBf16(7, 100000, 0.5);
  double sum = 0, square = 0;
  for (float value : values) {
    sum += value;
    square += value * value;
    ASSERT_EQ(value, widenBf16(roundToBf16(value)));
  }
  EXPECT_NEAR(sum / values.size(), 0, 0.01);
  EXPECT_NEAR(std::sqrt(square / values.size()), 0.5, 0.01);
  EXPECT_EQ(values, randomBf16(7, 100000, 0.5));
  EXPECT_NE(values, randomBf16(8, 100000, 0.5));
}

TEST(Numbers, C18_ErrorMeasuresFollowTheirFormulas) {
  const float got[] = {1, 2, 4};
  const double reference[] = {1, 2, 3};
  ErrorMeasure errors;
  errors.addRow(got, reference, 3);
  EXPECT_DOUBLE_EQ(errors.relative(), std::sqrt(1.0 / 14));
  EXPECT_NEAR(errors.cosineDifference(), 1 - 2 * 17.0 / (21 + 14), 1e-15);
  EXPECT_DOUBLE_EQ(errors.wmape(), 1.0 / 6);
  EXPECT_FALSE(getTolerance(MLA_BF16).accepts(errors));
  EXPECT_NEAR(errors.cosine(), 17 / std::sqrt(21.0 * 14), 1e-15);
  EXPECT_DOUBLE_EQ(errors.meanSquaredError(), 1.0 / 3);
}

TEST(Numbers, C18_CosineAloneIgnoresTheSize) {
  const float got[] = {2, 4, 6}, opposite[] = {-1, -2, -3}, zero[] = {0, 0, 0};
  const double reference[] = {1, 2, 3};
  ErrorMeasure twice, turned, nothing;
  twice.addRow(got, reference, 3);
  EXPECT_DOUBLE_EQ(twice.cosine(), 1);
  EXPECT_NEAR(twice.cosineDifference(), 0.2, 1e-15);
  EXPECT_DOUBLE_EQ(twice.wmape(), 1);
  EXPECT_DOUBLE_EQ(twice.meanSquaredError(), 14.0 / 3);
  turned.addRow(opposite, reference, 3);
  EXPECT_DOUBLE_EQ(turned.cosine(), -1);
  nothing.addRow(zero, reference, 3);
  EXPECT_EQ(nothing.cosine(), 0);
}

TEST(Numbers, OneWrongRowAmongManyIsFound) {
  std::vector<float> row(64, 1.0f);
  std::vector<double> reference(64, 1.0);
  ErrorMeasure errors;
  for (int i = 0; i < 100000; ++i)
    errors.addRow(row.data(), reference.data(), row.size());
  EXPECT_TRUE(getTolerance(MLA_F32).accepts(errors));
  row.assign(64, -1.0f);
  errors.addRow(row.data(), reference.data(), row.size());
  EXPECT_LT(errors.wmape(), 0.01);
  EXPECT_FALSE(getTolerance(MLA_BF16).accepts(errors));
}

TEST(Numbers, NaNIsNeverWithinTolerance) {
  const float got[] = {std::numeric_limits<float>::quiet_NaN()};
  const double reference[] = {1};
  ErrorMeasure errors;
  errors.addRow(got, reference, 1);
  EXPECT_FALSE(getTolerance(MLA_BF16).accepts(errors));
  EXPECT_EQ(errors.countNonFiniteRows(), 1u);
}
