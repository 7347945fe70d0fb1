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

TEST(ProductCost, DeepProductsOfOneRowTileAreCut) {
  ProductShape output{7168, 16384, 1};
  RowTile tile = chooseRowTile(output, /*mayCut=*/true, kH200);
  EXPECT_EQ(tile.parts, 2);
  EXPECT_EQ(tile.columns, 112); // 128 programs
  // Columns first 112 programs copy the activations 112 times.
  double cut = predictRowTileCycles(output, tile, kH200);
  EXPECT_LT(cut / predictRowTileCycles(output, {64, 1}, kH200), 0.85);
  EXPECT_EQ(chooseRowTile(output, /*mayCut=*/false, kH200).parts, 1);
  // What another kernel costs is more than an eighth of this depth's copies.
  EXPECT_EQ(chooseRowTile({7168, 2048, 1}, /*mayCut=*/true, kH200).parts, 1);
}

TEST(ProductCost, RowTilesOfOneTurnAreWide) {
  RowTile tile = chooseRowTile({24576, 1536, 1}, /*mayCut=*/true, kH200);
  EXPECT_EQ(tile.columns, 192); // 128 programs
  EXPECT_EQ(tile.parts, 1);
  for (int64_t columns : {64, 128, 192, 320, 512})
    EXPECT_EQ(columns % chooseRowTile({columns, 512, 16}, false, kH200).columns, 0) << columns;
}

} // namespace
