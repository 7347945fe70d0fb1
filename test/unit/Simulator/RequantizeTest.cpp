//===- RequantizeTest.cpp - weights that become codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sm90 kernels of mla.requantize against plain loops: codes and scales are the same to the bit.
// Outputs and workspaces start as NaN.
//
//===----------------------------------------------------------------------===//

#include "CodeRows.h"
#include "ScheduledStep.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

struct RequantizeCase {
  std::string name;
  int64_t heads, rows, depth, blockRows, blockColumns;
  bool isTransposed;

  int64_t matrixRows() const { return heads * rows; }
  int64_t down() const { return blockRows ? llvm::divideCeil(matrixRows(), blockRows) : 1; }
  int64_t across() const { return blockColumns ? llvm::divideCeil(depth, blockColumns) : 1; }
};

std::string makeGraph(const RequantizeCase &test) {
  std::string weight =
      test.isTransposed
          ? llvm::formatv("tensor<{0}x{1}x{2}xbf16>", test.heads, test.depth, test.rows).str()
          : llvm::formatv("tensor<{0}x{1}x{2}xbf16>", test.heads, test.rows, test.depth).str();
  std::string codes = llvm::formatv("tensor<{0}x{1}xf8E4M3FN>", test.matrixRows(), test.depth),
              scales = llvm::formatv("tensor<{0}x{1}xf32>", test.down(), test.across());
  return llvm::formatv(
      R"(func.func @prepare(%w: {0} {{mla.weight = "w"}) -> ({1} {{mla.derived = "c"}, {2} {{mla.derived = "s"}) {{
  %c, %s = mla.requantize %w block [{3}, {4}] {5}: {0} -> {1}, {2}
  return %c, %s : {1}, {2}
})",
      weight, codes, scales, test.blockRows, test.blockColumns,
      test.isTransposed ? "transposed " : "");
}

class Requantize : public ::testing::TestWithParam<RequantizeCase>, protected Context {};

struct Step : ScheduledStep {
  Step(const RequantizeCase &test, MLIRContext &context) {
    plan.dims["num_sms"] = 3;
    Bits weight = makeRandom(test.matrixRows() * test.depth, 1);
    std::fill_n(weight.begin(), std::min<size_t>(weight.size(), 64), 0); // also zeros
    plan.buffers["w"] = weight;
    plan.buffers["c"] = Codes(test.matrixRows() * test.depth, 0x7F);
    plan.buffers["s"] = std::vector<float>(test.down() * test.across(), NAN);
    isLowered = lowerByPipelines(context, makeGraph(test));
  }
  bool isLowered = false;
};

TEST_P(Requantize, A12_GivesTheBitsOfTheReference) {
  const RequantizeCase &test = GetParam();
  Step step(test, context);
  ASSERT_TRUE(step.isLowered);
  std::optional<Buffers> buffers = runUnderEverySeed(step.plan, *step.module, {"c", "s"});
  ASSERT_TRUE(buffers);
  const auto &weight = std::get<Bits>(step.plan.buffers.at("w"));
  const auto &codes = std::get<Codes>((*buffers)["c"]);
  const auto &scales = std::get<std::vector<float>>((*buffers)["s"]);
  auto at = [&](int64_t row, int64_t column) {
    int64_t head = row / test.rows, inner = row % test.rows;
    int64_t index = test.isTransposed ? (head * test.depth + column) * test.rows + inner
                                      : row * test.depth + column;
    return toFloat(weight[index]);
  };
  auto blockOf = [&](int64_t row, int64_t column) {
    return (test.blockRows ? row / test.blockRows : 0) * test.across() +
           (test.blockColumns ? column / test.blockColumns : 0);
  };
  std::vector<float> most(test.down() * test.across(), 0);
  for (int64_t row = 0; row < test.matrixRows(); ++row)
    for (int64_t column = 0; column < test.depth; ++column) {
      float &peak = most[blockOf(row, column)];
      peak = std::max(peak, std::abs(at(row, column)));
    }
  for (auto [scale, peak] : llvm::zip_equal(scales, most))
    ASSERT_EQ(scale, std::max(peak / 448, 1e-12F));
  for (int64_t row = 0; row < test.matrixRows(); ++row)
    for (int64_t column = 0; column < test.depth; ++column) {
      float quotient = at(row, column) / scales[blockOf(row, column)];
      float got = decode(codes[row * test.depth + column]);
      // No other code is nearer.
      uint8_t code = codes[row * test.depth + column];
      for (int step : {-1, 1})
        if (int other = (code & 0x7F) + step; other >= 0 && other < 0x7F)
          ASSERT_LE(std::abs(quotient - got),
                    std::abs(quotient - decode(uint8_t(other | (code & 0x80)))))
              << row << ", " << column;
    }
}

const RequantizeCase kCases[] = {
    {"turned_blocks", 2, 256, 128, 128, 128, true},
    {"blocks_over_heads", 3, 64, 256, 128, 128, false},
    {"narrow_blocks", 1, 128, 256, 64, 128, false},
    {"channels", 2, 64, 384, 1, 0, false},
    {"rows_and_blocks", 2, 64, 256, 1, 128, false},
    {"turned_channels", 2, 128, 128, 1, 0, true},
    {"tensor", 2, 192, 128, 0, 0, false},
    {"rows_behind_the_last_block", 1, 192, 128, 128, 128, false},
};

INSTANTIATE_TEST_SUITE_P(Cases, Requantize, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

} // namespace
