//===- OutputCodesTest.cpp - heads that are rotated and become codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inverse rotation and codes of groups of 128 columns in one pass, and products of groups of heads
// with codes (v4.md section 11), against sums in double over codes that are chosen in double. A
// unit matrix as the weight shows the codes themselves.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "base/NarrowFloat.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr int64_t kTokens = 3, kHeads = 4, kDim = 256, kGroups = 2, kRope = 64, kBlock = 128;
constexpr int64_t kDepth = kHeads / kGroups * kDim; // of a product
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string moduleOf(int64_t outputs, const std::string &block, const std::string &scales) {
  return substitute(R"(
!heads = tensor<?x$Nx$Dxbf16>
func.func @output(%x: !heads {mla.input = "x"}, %codes: tensor<$ROWSx$Kxf8E4M3FN> {mla.input = "codes"},
                  %scales: tensor<$SCALESxf32> {mla.input = "scales"}, %batch: !mla.batch)
    -> (tensor<?x$Gx$Jxbf16> {mla.output = "y"}) {
  %table = mla.rope_table <order = interleaved, dim = 64, theta = 1.0e4, length = 4096> : tensor<?x64xf32>
  %r = mla.rope %x, %table, %batch with <order = interleaved, dim = 64, theta = 1.0e4, length = 4096>
      offset $FIRST inverse {codes_group = 128 : i64} : !heads, tensor<?x64xf32>, !mla.batch
  %flat = tensor.collapse_shape %r [[0], [1, 2]] : !heads into tensor<?x$ALLxbf16>
  %c0 = arith.constant 0 : index
  %t = tensor.dim %flat, %c0 : tensor<?x$ALLxbf16>
  %rows = tensor.expand_shape %flat [[0], [1, 2]] output_shape [%t, $G, $K] : tensor<?x$ALLxbf16> into tensor<?x$Gx$Kxbf16>
  %w = mla.scaled_weight %codes, %scales block [$BLOCK]
      : tensor<$ROWSx$Kxf8E4M3FN>, tensor<$SCALESxf32> -> tensor<$ROWSx$Kxbf16>
  %ofGroups = tensor.expand_shape %w [[0, 1], [2]] output_shape [$G, $J, $K] : tensor<$ROWSx$Kxbf16> into tensor<$Gx$Jx$Kxbf16>
  %y = mla.head_project %rows, %ofGroups : tensor<?x$Gx$Kxbf16>, tensor<$Gx$Jx$Kxbf16> -> tensor<?x$Gx$Jxbf16>
  return %y : tensor<?x$Gx$Jxbf16>
})",
                    {{"N", std::to_string(kHeads)},
                     {"D", std::to_string(kDim)},
                     {"ALL", std::to_string(kHeads * kDim)},
                     {"FIRST", std::to_string(kDim - kRope)},
                     {"G", std::to_string(kGroups)},
                     {"K", std::to_string(kDepth)},
                     {"J", std::to_string(outputs)},
                     {"ROWS", std::to_string(kGroups * outputs)},
                     {"SCALES", scales},
                     {"BLOCK", block}});
}

/// cos and sin of 4096 positions.
std::vector<float> makeTable() {
  std::vector<float> table(4096 * kRope);
  for (int64_t p = 0; p < 4096; ++p)
    for (int64_t i = 0; i < kRope / 2; ++i) {
      double angle = double(p) * std::pow(1e4, -double(2 * i) / kRope);
      table[p * kRope + i] = static_cast<float>(std::cos(angle));
      table[p * kRope + kRope / 2 + i] = static_cast<float>(std::sin(angle));
    }
  return table;
}

struct Problem {
  std::vector<Bf16> x;
  std::vector<float> table = makeTable();
  std::vector<int64_t> positions = {0, 77, 4095};

  /// Heads of other sizes each; one group of zeros, one that is tiny.
  Problem() : x(kTokens * kHeads * kDim) {
    std::mt19937 random(38);
    for (size_t i = 0; i < x.size(); ++i) {
      double value = (random() % 2001 / 1000.0 - 1) * std::ldexp(1, int(i / kBlock) % 7 - 3);
      x[i] = Bf16(i / kBlock == 2 ? 0.0 : i / kBlock == 4 ? value * 0x1p-60 : value);
    }
  }

  /// Rotated back, f32 as kernels have it.
  std::vector<double> rotated() const {
    std::vector<double> rows(x.begin(), x.end());
    for (int64_t row = 0; row < kTokens * kHeads; ++row)
      for (int64_t i = 0; i < kRope / 2; ++i) {
        const float *angles = &table[positions[row / kHeads] * kRope];
        double cos = angles[i], sin = angles[kRope / 2 + i];
        double &a = rows[row * kDim + kDim - kRope + 2 * i], &b = (&a)[1];
        double first = a * cos + b * sin, second = b * cos - a * sin;
        a = first, b = second;
      }
    return rows;
  }

  /// What the codes of groups of 128 stand for, with scales that are powers of two.
  std::vector<double> coded() const {
    std::vector<double> rows = rotated();
    for (size_t first = 0; first < rows.size(); first += kBlock) {
      double largest = 1e-10;
      for (int64_t i = 0; i < kBlock; ++i)
        largest = std::max(largest, std::abs(rows[first + i]));
      double scale = std::exp2(std::ceil(std::log2(largest / 448)));
      for (int64_t i = 0; i < kBlock; ++i)
        rows[first + i] =
            double(widenE4m3(roundToE4m3(static_cast<float>(rows[first + i] / scale)))) * scale;
    }
    return rows;
  }
};

std::vector<Bf16> run(const Problem &problem, int64_t outputs, std::vector<uint8_t> codes,
                      std::vector<float> scales, const std::string &block,
                      const std::string &scaleShape) {
  auto steps = Steps::compile(moduleOf(outputs, block, scaleShape));
  if (!steps)
    return {};
  std::vector<Bf16> y(kTokens * kGroups * outputs, Bf16(kNan));
  std::vector<Bf16> x = problem.x;
  std::vector<float> table = problem.table;
  std::vector<int64_t> positions = problem.positions;
  steps->run("output", {{"num_tokens", kTokens}, {"rope_length", 4096}},
             {{"x", x},
              {"codes", codes},
              {"scales", scales},
              {"y", y},
              {"rope_table", table},
              {"positions", positions}});
  return y;
}

TEST(OutputCodes, V4_38_RotatedHeadsBecomeCodes) {
  Problem problem;
  std::vector<uint8_t> unit(kGroups * kDepth * kDepth, 0);
  for (int64_t g = 0; g < kGroups; ++g)
    for (int64_t i = 0; i < kDepth; ++i)
      unit[(g * kDepth + i) * kDepth + i] = roundToE4m3(1);
  int64_t across = kDepth / kBlock, down = kGroups * kDepth / kBlock;
  std::vector<Bf16> y = run(problem, kDepth, unit, std::vector<float>(down * across, 1), "128, 128",
                            std::to_string(down) + "x" + std::to_string(across));
  std::vector<double> expected = problem.coded(), exact = problem.rotated();
  ASSERT_EQ(y.size(), expected.size());
  int64_t others = 0;
  double dot = 0, squares = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    // Codes are exact in bf16. A rotation in f32 may fall to the other side of a code's bound.
    others += double(y[i]) != expected[i];
    dot += 2 * double(y[i]) * exact[i];
    squares += double(y[i]) * double(y[i]) + exact[i] * exact[i];
  }
  EXPECT_LE(others, 2);
  EXPECT_LT(1 - dot / squares, 5e-4);
}

/// Products of groups of heads with weights that have scales of blocks of `blockRows` rows.
static void multiplyGroupsOfHeads(int64_t blockRows) {
  constexpr int64_t outputs = 128, rows = kGroups * outputs;
  Problem problem;
  std::mt19937 random(39);
  std::vector<uint8_t> codes(rows * kDepth);
  for (uint8_t &code : codes)
    code = roundToE4m3(random() % 2001 / 1000.0F - 1);
  std::vector<float> scales(rows / blockRows * (kDepth / kBlock));
  for (float &scale : scales)
    scale = 0.25F + random() % 100 / 50.0F;
  std::vector<Bf16> y =
      run(problem, outputs, codes, scales, std::to_string(blockRows) + ", 128",
          std::to_string(rows / blockRows) + "x" + std::to_string(kDepth / kBlock));
  ASSERT_EQ(y.size(), size_t(kTokens * rows));
  std::vector<double> x = problem.coded();
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < kDepth; ++k) {
        double scale = scales[row / blockRows * (kDepth / kBlock) + k / kBlock];
        double term = x[t * kHeads * kDim + row / outputs * kDepth + k] *
                      double(widenE4m3(codes[row * kDepth + k])) * scale;
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(double(y[t * rows + row]), sum, 0x1p-8 * std::abs(sum) + 1e-4 * size)
          << "token " << t << ", row " << row;
    }
}

/// The recipes (1, 128, 128) and (1, 1, 128) of the specification.
TEST(OutputCodes, V4_39_GroupsOfHeadsAreMultipliedAsCodes) { multiplyGroupsOfHeads(kBlock); }
TEST(OutputCodes, V4_39_EachRowOfTheWeightMayHaveItsScales) { multiplyGroupsOfHeads(1); }

} // namespace
