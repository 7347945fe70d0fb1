//===- TurnsTest.cpp - products of codes, by turns ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel of codes times codes whose tiles are several products of 64 rows, with scales that lie in
// blocks of 64 rows, as PersistentProduct has them for deep products of many rows: there, tiles of
// four products would take the simulator minutes. Against plain loops; outputs start as NaN.
//
//===----------------------------------------------------------------------===//

#include "CodeRows.h"
#include "ScheduledStep.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

constexpr int64_t kColumns = 128, kDepth = 512, kBlocks = kDepth / kCodeGroup, kBlockRows = 64;

struct TurnsCase {
  std::string name;
  int64_t products, tokens;
};

/// `form` for each product, {0} its number.
std::string repeat(int64_t products, const char *form, const char *between = "") {
  std::string all;
  for (int64_t product = 0; product < products; ++product)
    all += (product ? between : "") + llvm::formatv(form, product).str();
  return all;
}

/// One program goes over all tiles.
std::string makeModule(const TurnsCase &test) {
  int64_t n = test.products;
  std::string sums = repeat(n, "tensor<64x128xf32>", ", ");
  return llvm::formatv(R"(
tile.plan @step {{
  %c1 = arith.constant 1 : index
  %rows = tile.dim "num_tokens"
  %many = arith.constant 1048576 : index
  %x = tile.buffer input "x" elements %many : memref<?xf8E4M3FN>
  %w = tile.buffer weight "w" shape [128, 512] : memref<?xf8E4M3FN>
  %y = tile.buffer output "output" elements %many : memref<?xbf16>
  %xs = tile.buffer input "xs" elements %many : memref<?xf32>
  %ws = tile.buffer weight "ws" shape [1, 4] : memref<?xf32>
  tile.launch @turns grid(%c1, %c1, %c1) args(%x, %w, %y, %rows, %xs, %ws)
      : memref<?xf8E4M3FN>, memref<?xf8E4M3FN>, memref<?xbf16>, index, memref<?xf32>, memref<?xf32>
  tile.return
}
tile.kernel @turns(%x: memref<?xf8E4M3FN>, %w: memref<?xf8E4M3FN> {{tile.invariant}, %y: memref<?xbf16>, %rows: index,
                   %xs: memref<?xf32>, %ws: memref<?xf32>) {{
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %c512 = arith.constant 512 : index
  %height = arith.constant {0} : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<?x512xf8E4M3FN, strided<[512, 1]>>
  %wv = memref.reinterpret_cast %w to offset: [0], sizes: [128, 512], strides: [512, 1]
      : memref<?xf8E4M3FN> to memref<128x512xf8E4M3FN, strided<[512, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xbf16> to memref<?x128xbf16, strided<[128, 1]>>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  scf.for %r0 = %c0 to %rows step %height {{
)",
                       n * kBlockRows)
             .str() +
         repeat(n, "    %to{0} = arith.constant {0} : index\n"
                   "    %down{0} = arith.muli %to{0}, %c64 : index\n"
                   "    %row{0} = arith.addi %r0, %down{0} : index\n"
                   "    %block{0} = arith.divui %row{0}, %c64 : index\n"
                   "    %first{0} = arith.muli %block{0}, %c4 : index\n") +
         llvm::formatv("    %acc:{0} = scf.for %k = %c0 to %c512 step %c128 iter_args(", n).str() +
         repeat(n, "%o{0} = %zero", ", ") + ") -> (" + sums +
         ") {\n      %group = arith.divui %k, %c128 : index\n" +
         repeat(n, "      %x{0} = tile.load %xv[%row{0}, %k] : memref<?x512xf8E4M3FN, strided<[512, "
                   "1]>> -> tensor<64x128xf8E4M3FN>\n") +
         R"(
      %wt = tile.load %wv[%c0, %k] : memref<128x512xf8E4M3FN, strided<[512, 1]>> -> tensor<128x128xf8E4M3FN>
      %scale = memref.load %ws[%group] : memref<?xf32>
      %b = tile.splat %scale : f32 -> tensor<64xf32>
)" + repeat(n, R"(
      %p{0} = tile.dot %x{0}, %wt, %zero transpose_rhs : tensor<64x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<64x128xf32>
      %h{0} = arith.addi %first{0}, %group : index
      %at{0} = arith.muli %h{0}, %c64 : index
      %av{0} = memref.reinterpret_cast %xs to offset: [%at{0}], sizes: [64], strides: [1]
          : memref<?xf32> to memref<64xf32, strided<[1], offset: ?>>
      %a{0} = tile.load %av{0}[%c0] : memref<64xf32, strided<[1], offset: ?>> -> tensor<64xf32>
      %m{0} = arith.mulf %a{0}, %b : tensor<64xf32>
      %f{0} = tile.broadcast %m{0} : tensor<64xf32> -> tensor<64x128xf32>
      %s{0} = math.fma %p{0}, %f{0}, %o{0} : tensor<64x128xf32>
)") + "      scf.yield " +
         repeat(n, "%s{0}", ", ") + " : " + sums + "\n    }\n" +
         repeat(n, R"(
    %z{0} = arith.truncf %acc#{0} : tensor<64x128xf32> to tensor<64x128xbf16>
    tile.store %z{0}, %yv[%row{0}, %c0] : tensor<64x128xbf16>, memref<?x128xbf16, strided<[128, 1]>>
)") + "  }\n  tile.return\n}\n";
}

struct Step : ScheduledStep {
  Step(const TurnsCase &test, MLIRContext &context) : test(test) {
    plan.dims["num_tokens"] = test.tokens;
    std::vector<float> unused;
    codes.resize(test.tokens * kDepth);
    weights.resize(kColumns * kDepth);
    for (int64_t row = 0; row < test.tokens; ++row)
      storeCodeRow(&codes[row * kDepth], kDepth, 0, false, 1, row, unused);
    for (int64_t row = 0; row < kColumns; ++row)
      storeCodeRow(&weights[row * kDepth], kDepth, 0, false, 1, 1000 + row, unused);
    // Of rows that a last tile has besides, too.
    int64_t tileRows = test.products * kBlockRows;
    int64_t blocks = (test.tokens + tileRows - 1) / tileRows * test.products;
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> factor(0.05f, 0.2f);
    scales.resize(blocks * kBlocks * kBlockRows);
    weightScales.resize(kBlocks);
    for (std::vector<float> *all : {&scales, &weightScales})
      for (float &scale : *all)
        scale = factor(engine);
    plan.buffers["x"] = codes;
    plan.buffers["w"] = weights;
    plan.buffers["xs"] = scales;
    plan.buffers["ws"] = weightScales;
    plan.buffers["output"] = Bits(test.tokens * kColumns, kNaN);
    isLowered = lowerByPipelines(context, makeModule(test));
  }
  double expect(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t k = 0; k < kDepth; ++k) {
      int64_t group = k / kCodeGroup,
              at = (row / kBlockRows * kBlocks + group) * kBlockRows + row % kBlockRows;
      sum += double(decode(codes[row * kDepth + k])) * decode(weights[column * kDepth + k]) *
             scales[at] * weightScales[group];
    }
    return sum;
  }

  TurnsCase test;
  Codes codes, weights;
  std::vector<float> scales, weightScales;
  bool isLowered = false;
};

class CodedTurns : public ::testing::TestWithParam<TurnsCase>, protected Context {};

TEST_P(CodedTurns, A47_GiveTheReferenceUnderEverySeed) {
  Step step(GetParam(), context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_EQ(step.schedules["turns"], "product");
  std::optional<Buffers> buffers = runUnderEverySeed(step.plan, *step.module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (int64_t row = 0; row < GetParam().tokens; ++row)
    for (int64_t column = 0; column < kColumns; ++column) {
      double expected = step.expect(row, column);
      ASSERT_NEAR(toFloat(output[row * kColumns + column]), expected,
                  std::abs(expected) / 240 + 0.002)
          << row << ", " << column;
    }
}

const TurnsCase kCases[] = {{"two_products", 2, 150}, {"four_products", 4, 300}, {"one_tile", 4, 5}};

INSTANTIATE_TEST_SUITE_P(Cases, CodedTurns, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

class CodedTurnsMutations : public ::testing::Test, protected Context {};

TEST_F(CodedTurnsMutations, A47_AreFound) {
  Step step({"turns", 4, 300}, context);
  ASSERT_TRUE(step.isLowered);
  // Eight products lie between the stores of two tiles: no order of events delays a copy so long.
  EXPECT_GE(step.countFoundMutations("turns"), 44u);
}

} // namespace
