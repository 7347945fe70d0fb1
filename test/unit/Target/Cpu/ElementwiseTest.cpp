//===- ElementwiseTest.cpp - arithmetic and reductions on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace mlac::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Elementwise : public testing::TestWithParam<std::string> {};

constexpr const char *kUnary = R"(
tile.kernel @unary(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) {
  %c64 = arith.constant 64 : index
  %p = tile.program_id 0
  %at = arith.muli %p, %c64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %a = tile.load %xv[%at] : memref<?xf32, strided<[1]>> -> tensor<64xf32>
  %b = math.$OP %a : tensor<64xf32>
  tile.store %b, %yv[%at] : tensor<64xf32>, memref<?xf32, strided<[1]>>
  tile.return
}
)";

struct Unary {
  const char *name;
  std::function<double(double)> reference;
  std::vector<float> inputs;
};

std::vector<float> sweep(double low, double high, int count) {
  std::vector<float> values;
  for (int i = 0; i <= count; ++i)
    values.push_back(static_cast<float>(low + (high - low) * i / count));
  return values;
}

void checkUnary(const Unary &unary, const std::string &cpu) {
  auto image = KernelImage::compile(substitute(kUnary, {{"OP", unary.name}}), cpu);
  ASSERT_TRUE(image);
  std::vector<float> x = unary.inputs;
  for (float edge : {kInfinity, -kInfinity, kNan, 0.0f, -0.0f, -1.0f, 1.0f, 1e-40f, 3e38f, -3e38f})
    x.push_back(edge);
  std::vector<float> y(x.size(), 7.0f);
  int64_t n = x.size();
  image->launch("unary", {x, y, n}, {(n + 63) / 64});
  for (int64_t i = 0; i < n; ++i) {
    float expected = static_cast<float>(unary.reference(x[i]));
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(y[i])) << unary.name << " of " << x[i] << " gave " << y[i];
    else if (std::isinf(expected) || expected == 0)
      ASSERT_EQ(y[i], expected) << unary.name << " of " << x[i];
    else // the bound of VectorMath.h, and one subnormal
      ASSERT_NEAR(y[i], expected, 4e-7 * std::abs(expected) + 1.5e-45)
          << unary.name << " of " << x[i];
  }
}

} // namespace

TEST_P(Elementwise, ElementaryFunctionsAreAccurate) {
  std::vector<float> exponents = sweep(-160, 130, 20011), positive;
  for (float exponent : sweep(-149, 127, 20011))
    positive.push_back(std::exp2(exponent));
  for (float near : sweep(0.7, 1.5, 2000))
    positive.push_back(near);
  const Unary unaries[] = {
      {"exp2", [](double x) { return std::exp2(x); }, exponents},
      {"exp", [](double x) { return std::exp(x); }, exponents},
      {"log2", [](double x) { return std::log2(x); }, positive},
      {"log", [](double x) { return std::log(x); }, positive},
      {"sqrt", [](double x) { return std::sqrt(x); }, positive},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, positive},
      {"absf", [](double x) { return std::abs(x); }, exponents},
  };
  for (const Unary &unary : unaries)
    checkUnary(unary, GetParam());
}

//===----------------------------------------------------------------------===//
// RMSNorm: y = x / sqrt(mean(x^2) + eps) * gamma
//===----------------------------------------------------------------------===//

constexpr const char *kRmsNorm = R"(
tile.kernel @rms_norm(%x: memref<?x$T>, %g: memref<?x$T>, %y: memref<?x$T>, %rows: index, %eps: f32) {
  %c0 = arith.constant 0 : index
  %cm = arith.constant $M : index
  %p = tile.program_id 0
  %row = arith.muli %p, %cm : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, $N], strides: [$N, 1] : memref<?x$T> to memref<?x$Nx$T, strided<[$N, 1]>>
  %gv = memref.reinterpret_cast %g to offset: [0], sizes: [$M, $N], strides: [0, 1] : memref<?x$T> to memref<$Mx$Nx$T, strided<[0, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, $N], strides: [$N, 1] : memref<?x$T> to memref<?x$Nx$T, strided<[$N, 1]>>
  %a = tile.load %xv[%row, %c0] : memref<?x$Nx$T, strided<[$N, 1]>> -> tensor<$Mx$WIDTHx$T>
  %gt = tile.load %gv[%c0, %c0] : memref<$Mx$Nx$T, strided<[0, 1]>> -> tensor<$Mx$WIDTHx$T>
  $WIDEN
  %sq = arith.mulf %aw, %aw : tensor<$Mx$WIDTHxf32>
  %s = tile.reduce sum %sq : tensor<$Mx$WIDTHxf32> -> tensor<$Mxf32>
  %inv = arith.constant dense<$INVN> : tensor<$Mxf32>
  %mean = arith.mulf %s, %inv : tensor<$Mxf32>
  %epst = tile.splat %eps : f32 -> tensor<$Mxf32>
  %biased = arith.addf %mean, %epst : tensor<$Mxf32>
  %r = math.rsqrt %biased : tensor<$Mxf32>
  %rb = tile.broadcast %r : tensor<$Mxf32> -> tensor<$Mx$WIDTHxf32>
  %scaled = arith.mulf %aw, %rb : tensor<$Mx$WIDTHxf32>
  %out = arith.mulf %scaled, %gw : tensor<$Mx$WIDTHxf32>
  $NARROW
  tile.store %o, %yv[%row, %c0] : tensor<$Mx$WIDTHx$T>, memref<?x$Nx$T, strided<[$N, 1]>>
  tile.return
}
)";

template <typename T>
static void checkRmsNorm(const std::string &cpu, int64_t width, int64_t tileWidth,
                         double tolerance) {
  bool isF32 = sizeof(T) == 4;
  auto convert = [&](const std::string &name, const std::string &to, const std::string &from) {
    // f32 needs no conversion: add -0, which changes nothing.
    if (isF32)
      return "%z" + to + " = arith.constant dense<-0.0> : tensor<$Mx$WIDTHxf32>\n  %" + to +
             " = arith.addf %" + from + ", %z" + to + " : tensor<$Mx$WIDTHxf32>\n  ";
    bool widens = name == "extf";
    return "%" + to + " = arith." + name + " %" + from + " : tensor<$Mx$WIDTHx" +
           (widens ? "bf16> to tensor<$Mx$WIDTHxf32>\n  " : "f32> to tensor<$Mx$WIDTHxbf16>\n  ");
  };
  std::string text =
      substitute(kRmsNorm, {{"WIDEN", convert("extf", "aw", "a") + convert("extf", "gw", "gt")},
                            {"NARROW", convert("truncf", "o", "out")}});
  char inverse[32];
  snprintf(inverse, sizeof(inverse), "%.9e", 1.0 / width);
  text = substitute(text, {{"T", isF32 ? "f32" : "bf16"},
                           {"M", "4"},
                           {"N", std::to_string(width)},
                           {"WIDTH", std::to_string(tileWidth)},
                           {"INVN", inverse}});
  auto image = KernelImage::compile(text, cpu);
  ASSERT_TRUE(image);
  int64_t rows = 7;
  auto x = randomVector<T>(rows * width, 3), gamma = randomVector<T>(width, 4);
  std::vector<T> y(rows * width, T(kNan));
  image->launch("rms_norm", {x, gamma, y, rows, 1e-6f}, {(rows + 3) / 4});
  for (int64_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < width; ++j)
      squares += double(x[i * width + j]) * double(x[i * width + j]);
    double scale = 1 / std::sqrt(squares / width + 1e-6);
    for (int64_t j = 0; j < width; ++j) {
      double expected = double(x[i * width + j]) * scale * double(gamma[j]);
      ASSERT_NEAR(double(y[i * width + j]), expected, tolerance * std::abs(expected));
    }
  }
}

TEST_P(Elementwise, RmsNormMatches) {
  checkRmsNorm<float>(GetParam(), 512, 512, 1e-6);
  checkRmsNorm<float>(GetParam(), 100, 112, 1e-6);
  checkRmsNorm<Bf16>(GetParam(), 1536, 1536, 0x1p-8);
  checkRmsNorm<Bf16>(GetParam(), 100, 112, 0x1p-8);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

TEST_P(Elementwise, ReductionsPropagateNan) {
  const char *text = R"(
tile.kernel @reduce(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [3, 37], strides: [37, 1] : memref<?xf32> to memref<3x37xf32, strided<[37, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [3], strides: [1] : memref<?xf32> to memref<3xf32, strided<[1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [3], strides: [1] : memref<?xf32> to memref<3xf32, strided<[1]>>
  %a = tile.load %xv[%c0, %c0] : memref<3x37xf32, strided<[37, 1]>> -> tensor<3x37xf32>
  %s = tile.reduce sum %a : tensor<3x37xf32> -> tensor<3xf32>
  %m = tile.reduce max %a : tensor<3x37xf32> -> tensor<3xf32>
  tile.store %s, %yv[%c0] : tensor<3xf32>, memref<3xf32, strided<[1]>>
  tile.store %m, %zv[%c0] : tensor<3xf32>, memref<3xf32, strided<[1]>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  std::vector<float> x(3 * 37, -2.0f), sums(3), maxima(3);
  x[37 + 36] = kNan;
  x[2 * 37 + 5] = -1.0f;
  image->launch("reduce", {x, sums, maxima}, {});
  EXPECT_EQ(sums[0], -74.0f);
  EXPECT_EQ(maxima[0], -2.0f);
  EXPECT_TRUE(std::isnan(sums[1]));
  EXPECT_TRUE(std::isnan(maxima[1]));
  EXPECT_EQ(sums[2], -73.0f);
  EXPECT_EQ(maxima[2], -1.0f);
}

TEST_P(Elementwise, SumsOfGroupsAreInEachElement) {
  const char *text = R"(
tile.kernel @groups(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [24], strides: [1] : memref<?xf32> to memref<24xf32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [24], strides: [1] : memref<?xf32> to memref<24xf32, strided<[1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [24], strides: [1] : memref<?xf32> to memref<24xf32, strided<[1]>>
  %a = tile.load %xv[%c0] : memref<24xf32, strided<[1]>> -> tensor<24xf32>
  %twice = arith.addf %a, %a : tensor<24xf32>
  %two = tile.sum_groups %twice of 2 : tensor<24xf32>
  %eight = tile.sum_groups %a of 8 : tensor<24xf32>
  tile.store %two, %yv[%c0] : tensor<24xf32>, memref<24xf32, strided<[1]>>
  tile.store %eight, %zv[%c0] : tensor<24xf32>, memref<24xf32, strided<[1]>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  std::vector<float> x(24), two(24), eight(24);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * i % 17);
  x[9] = kNan;
  image->launch("groups", {x, two, eight}, {});
  auto expect = [&](float value, size_t size, size_t i, float factor) {
    float sum = 0;
    for (size_t j = i / size * size; j < i / size * size + size; ++j)
      sum += factor * x[j];
    EXPECT_TRUE(std::isnan(sum) ? std::isnan(value) : value == sum) << size << ", " << i;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    expect(two[i], 2, i, 2);
    expect(eight[i], 8, i, 1);
  }
}

/// Over columns, spread over rows again, and stored as columns.
TEST_P(Elementwise, ColumnsReduceBroadcastAndTranspose) {
  const char *text = R"(
tile.kernel @columns(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [5, 37], strides: [37, 1] : memref<?xf32> to memref<5x37xf32, strided<[37, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [37, 7], strides: [7, 1] : memref<?xf32> to memref<37x7xf32, strided<[7, 1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [37], strides: [1] : memref<?xf32> to memref<37xf32, strided<[1]>>
  %a = tile.load %xv[%c0, %c0] : memref<5x37xf32, strided<[37, 1]>> -> tensor<8x37xf32>
  %s = tile.reduce sum %a dim 0 : tensor<8x37xf32> -> tensor<37xf32>
  %m = tile.reduce max %a dim 0 : tensor<8x37xf32> -> tensor<37xf32>
  %b = tile.broadcast %m dim 0 : tensor<37xf32> -> tensor<8x37xf32>
  %d = arith.subf %a, %b : tensor<8x37xf32>
  tile.store %s, %zv[%c0] : tensor<37xf32>, memref<37xf32, strided<[1]>>
  tile.store %d, %yv[%c0, %c1] transposed : tensor<8x37xf32>, memref<37x7xf32, strided<[7, 1]>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  std::vector<float> x(5 * 37), y(37 * 7, 99.0f), z(37);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 7 % 31);
  image->launch("columns", {x, y, z}, {});
  for (int column = 0; column < 37; ++column) {
    float sum = 0, maximum = 0; // of the rows outside the view
    for (int row = 0; row < 5; ++row) {
      sum += x[row * 37 + column];
      maximum = std::max(maximum, x[row * 37 + column]);
    }
    EXPECT_EQ(z[column], sum) << column;
    EXPECT_EQ(y[column * 7], 99.0f); // before the offset
    for (int row = 0; row < 6; ++row)
      EXPECT_EQ(y[column * 7 + 1 + row], (row < 5 ? x[row * 37 + column] : 0.0f) - maximum)
          << column << ", " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Elementwise, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
