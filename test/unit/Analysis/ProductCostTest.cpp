//===- ProductCostTest.cpp - tiles of matrix products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductCost.h"

#include "gtest/gtest.h"

using namespace mlac;

namespace {

const TargetDescription kH200 = *findTargetDescription("h200");

TEST(ProductCost, WideTilesOfManyTurnsRunAtTheTensorRate) {
  ProductShape shape{7168, 16384, 1};
  double flops = 2.0 * 65536 * 7168 * 16384;
  double ideal = flops / (kH200.sm.tensorFlopsPerClock * static_cast<double>(kH200.numSms));
  double cycles = predictProductCycles(shape, 65536, {256, 0}, kH200);
  EXPECT_GT(cycles, ideal);
  EXPECT_LT(cycles, 1.05 * ideal);
  // 192 bytes of operands a clock more than L2 brings.
  EXPECT_GT(predictProductCycles(shape, 65536, {64, 0}, kH200), 1.5 * ideal);
}

TEST(ProductCost, NarrowTilesShortenTheLastTurn) {
  // 448 tiles: three turns and 52 tiles, which 104 narrow ones do in half a turn.
  ProductShape shape{7168, 16384, 1};
  double whole = predictProductCycles(shape, 2048, {256, 0}, kH200);
  double cut = predictProductCycles(shape, 2048, {256, 128}, kH200);
  EXPECT_NEAR(cut / whole, 3.57 / 4, 0.01);
  // 896 tiles leave 104: too many.
  EXPECT_EQ(predictProductCycles(shape, 4096, {256, 128}, kH200),
            predictProductCycles(shape, 4096, {256, 0}, kH200));
}

TEST(ProductCost, ChoosesByTheNumbersOfTiles) {
  ProductTiles output = chooseProductTiles({7168, 16384, 1}, kH200);
  EXPECT_EQ(output.columns, 256);
  EXPECT_EQ(output.tailColumns, 128);
  // 1536 columns are 96 tiles of 256 for 2048 rows, and 128 of 192: less than a turn each.
  EXPECT_EQ(chooseProductTiles({1536, 7168, 1}, kH200).columns, 192);
}

TEST(ProductCost, TilesOfABatchDivideItsColumns) {
  for (int64_t columns : {64, 128, 192, 320, 512})
    EXPECT_EQ(columns % chooseProductTiles({columns, 512, 16}, kH200).columns, 0) << columns;
}

ProductShape ofOperands(ProductOperands operands, ProductShape shape = {7168, 16384, 1}) {
  shape.operands = operands;
  if (operands == ProductOperands::Codes)
    shape.mostColumns = kMostCodedColumns;
  return shape;
}

TEST(ProductCost, A16_CodesRunAtTwiceTheRateOfTheTensorCores) {
  ProductShape shape = ofOperands(ProductOperands::Codes);
  ProductTiles tiles = chooseProductTiles(shape, kH200);
  EXPECT_EQ(tiles.columns, kMostCodedColumns);
  double flops = 2.0 * 65536 * 7168 * 16384;
  double ideal = flops / (2 * kH200.sm.tensorFlopsPerClock * static_cast<double>(kH200.numSms));
  double cycles = predictProductCycles(shape, 65536, tiles, kH200);
  // 64 bytes of operands a clock, of which L2 brings 56.5.
  EXPECT_NEAR(cycles / ideal, 64 / 56.5, 0.03);
  EXPECT_LT(cycles, 0.62 * predictProductCycles({7168, 16384, 1}, 65536, {256, 0}, kH200));
  shape.mostColumns = 64; // blocks of 64 rows
  EXPECT_EQ(chooseProductTiles(shape, kH200).columns, 64);
}

TEST(ProductCost, A16_FewRowsAreBoundByTheWeightsBytes) {
  for (int64_t rows : {1, 16, 64}) {
    double values = predictWeightCycles({7168, 16384, 1}, rows, kH200);
    double codes = predictWeightCycles(ofOperands(ProductOperands::CodedWeights), rows, kH200);
    EXPECT_LT(codes, 0.7 * values) << rows;
    EXPECT_GT(codes, 0.49 * values) << rows;
  }
  // 117 MB at 4.6 TB/s.
  double floor = 25.3 * 1e3 * kH200.sm.clockGhz;
  double codes = predictWeightCycles(ofOperands(ProductOperands::CodedWeights), 1, kH200);
  EXPECT_NEAR(codes, floor + kH200.sm.loadLatencyCycles, 0.02 * floor);
  // 128 rows of 2 bytes are copied to each of 112 programs; as codes half of that.
  ProductShape weights = ofOperands(ProductOperands::CodedWeights);
  ProductShape both = ofOperands(ProductOperands::Codes);
  EXPECT_GT(predictWeightCycles(weights, 128, kH200), 1.5 * codes);
  EXPECT_LT(predictWeightCycles(both, 128, kH200), 0.8 * predictWeightCycles(weights, 128, kH200));
}

TEST(ProductCost, A46_ManyRowsPayForWritingTheValues) {
  ProductShape weights = ofOperands(ProductOperands::CodedWeights);
  double values = predictWeightCycles({7168, 16384, 1}, 4096, kH200);
  double written = 5.0 * 7168 * 16384 / kH200.copyGbps + kH200.launchMicroseconds * 1e3;
  EXPECT_NEAR(predictWeightCycles(weights, 4096, kH200) - values, written * kH200.sm.clockGhz, 1);
  // What reads rows once to quantise them gains half of the product.
  double both = predictWeightCycles(ofOperands(ProductOperands::Codes), 4096, kH200);
  EXPECT_LT(both, 0.7 * values);
}

TEST(ProductCost, A16_CodesPayForDecodesAndNotForPromptsAlone) {
  ProductShape weights = ofOperands(ProductOperands::CodedWeights);
  int64_t decodes[] = {1, 16, 64, 128};
  EXPECT_LT(predictCodesShare(weights, decodes, kH200), 0.7);
  EXPECT_GT(predictCodesShare(weights, kH200.tuning.productRows, kH200), 1.1);
  EXPECT_LT(predictCodesShare(ofOperands(ProductOperands::Codes), kH200.tuning.productRows, kH200),
            0.8);
}

// Few tiles of few rows leave multiprocessors idle: CTAs of a cluster divide their depth.
TEST(ProductCost, A47_ClustersOfFewRows) {
  auto choose = [](ProductShape shape, int64_t rows, int64_t blockDepth = 64) {
    return chooseDepthCluster(shape, rows, blockDepth, kH200);
  };
  EXPECT_EQ(choose({2048, 5120}, 16), 2);       // 32 tiles; of clusters of four 30 run at once
  EXPECT_EQ(choose({1536, 7168}, 32), 4);       // 24 tiles
  EXPECT_EQ(choose({1536, 7168}, 16), 2);       // a CTA has no less than 8 of the tokens
  EXPECT_EQ(choose({7168, 16384}, 16), 1);      // 112 tiles
  EXPECT_EQ(choose({128, 5120, 32}, 16), 2);    // 64 of 32 heads
  EXPECT_EQ(choose({2048, 512}, 16), 1);        // sending takes longer
  EXPECT_EQ(choose({2048, 5120}, 16, 1024), 1); // five steps
  EXPECT_EQ(choose({2048, 5120}, 16, 768), 1);  // no whole number of steps
  ProductShape codes{3584, 5632, 1, ProductOperands::Codes};
  EXPECT_EQ(choose(codes, 128, 256), 2);
  EXPECT_EQ(countClusters(1, kH200), 132);
  EXPECT_EQ(countClusters(2, kH200), 66);
  EXPECT_EQ(countClusters(4, kH200), 30);
}

} // namespace
