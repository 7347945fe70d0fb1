//===- ProductRangesTest.cpp - tiles of products by their rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ProductRanges.h"

#include "gtest/gtest.h"

using namespace mlac;

namespace {

const TargetDescription kH200 = *findTargetDescription("h200");
// Of models, and of none; latents, outputs, groups of heads.
const ProductShape kShapes[] = {{24576, 1536}, {7168, 16384},  {2112, 7168},    {1536, 4096},
                                {4096, 8192},  {5120, 768},    {3584, 5632},    {64, 64},
                                {11520, 1408}, {192, 448, 20}, {512, 128, 128}, {320, 512, 16}};

TEST(ProductRanges, AscendAndDiffer) {
  for (const ProductShape &shape : kShapes) {
    ProductRanges ranges = chooseProductRanges(shape, /*mayCut=*/true, kH200);
    EXPECT_LE(ranges.tiles.size(), 5u); // a tail's and three more
    for (size_t i = 0; i < ranges.ranges.size(); ++i) {
      EXPECT_LT(ranges.ranges[i].number, ranges.tiles.size());
      if (i != 0) {
        EXPECT_LT(ranges.ranges[i - 1].mostRows, ranges.ranges[i].mostRows);
        EXPECT_NE(ranges.ranges[i - 1].number, ranges.ranges[i].number);
      }
    }
    ProductTiles many = chooseProductTiles(shape, kH200);
    RangeTiles expected{kProductTileRows, many.columns, many.tailColumns};
    EXPECT_EQ(ranges.find(1 << 20), expected);
  }
}

TEST(ProductRanges, DivideBatchesAndCutWhereTheyMay) {
  for (const ProductShape &shape : kShapes)
    for (bool mayCut : {false, true})
      for (int64_t rows = 65; rows <= 1100; ++rows) {
        RangeTiles tiles = chooseProductRanges(shape, mayCut, kH200).find(rows);
        ASSERT_TRUE(shape.batch == 1 || shape.columns % tiles.columns == 0) << rows;
        ASSERT_TRUE(tiles.parts == 1 || (mayCut && rows <= kProductTileRows)) << rows;
        ASSERT_TRUE(tiles.parts == 1 || shape.depth % (tiles.parts * kProductDepth) == 0) << rows;
        rows += rows > 130 ? 60 : 0;
      }
}

// 256 rows are 32 tiles of 128 x 256, and 128 of 64 x 128.
TEST(ProductRanges, LeaveFewMultiprocessorsIdle) {
  ProductShape output{4096, 8192};
  ProductRanges ranges = chooseProductRanges(output, /*mayCut=*/true, kH200);
  for (int64_t rows : {96, 128, 256}) {
    RangeTiles tiles = ranges.find(rows);
    double chosen = predictRangeMicroseconds(output, rows, tiles, kH200);
    EXPECT_LT(chosen, 0.85 * predictRangeMicroseconds(output, rows, ranges.tiles.front(), kH200))
        << rows;
  }
  EXPECT_EQ(ranges.find(256).rows, 64);
}

// No kernel of their own for shapes whose tiles are many: 128 heads of 128 columns.
TEST(ProductRanges, AreFewWhereTilesAreMany) {
  EXPECT_TRUE(chooseProductRanges({128, 512, 128}, /*mayCut=*/false, kH200).ranges.empty());
}

TEST(ProductRanges, RowsThatDoNotExistCostTime) {
  ProductShape output{6144, 8192};
  RangeTiles tiles{kProductTileRows, 64};
  EXPECT_GT(predictRangeMicroseconds(output, 65, tiles, kH200),
            1.2 * predictRangeMicroseconds(output, 128, tiles, kH200));
}

// What one H100 took (docs/lab/products.md), us: the model is for the same multiprocessors.
TEST(ProductRanges, PredictWhatWasMeasured) {
  struct Measured {
    ProductShape shape;
    int64_t rows;
    RangeTiles tiles;
    double us;
  };
  const Measured all[] = {
      {{1536, 4096}, 256, {64, 64}, 12.1},     {{1536, 4096}, 512, {64, 128}, 14.7},
      {{1536, 4096}, 768, {64, 192}, 20.0},    {{4096, 8192}, 256, {64, 128}, 31.8},
      {{4096, 8192}, 512, {128, 128}, 44.0},   {{4096, 8192}, 1024, {128, 256}, 92.1},
      {{2048, 5120}, 256, {64, 64}, 14.4},     {{2048, 5120}, 1024, {128, 128}, 29.9},
      {{3584, 5632}, 320, {64, 192}, 29.4},    {{6144, 8192}, 512, {128, 192}, 70.1},
      {{6144, 8192}, 1024, {128, 192}, 138.5}, {{2112, 7168}, 768, {128, 128}, 38.7},
  };
  for (const Measured &one : all)
    EXPECT_NEAR(predictRangeMicroseconds(one.shape, one.rows, one.tiles, kH200) / one.us, 1, 0.12)
        << one.shape.columns << " x " << one.shape.depth << ", " << one.rows;
}

// One turn more of tiles of codes, 56 steps: 1024 rows less 512 of 2112 x 7168 on one H200, us.
TEST(ProductRanges, A16_PredictTurnsOfCodes) {
  ProductShape down{2112, 7168, 1, ProductOperands::Codes};
  for (auto [columns, us] : {std::pair<int64_t, double>(64, 23.0), {128, 28.4}}) {
    RangeTiles tiles{kProductTileRows, columns};
    double turn = predictRangeMicroseconds(down, 1024, tiles, kH200) -
                  predictRangeMicroseconds(down, 512, tiles, kH200);
    EXPECT_NEAR(turn / us, 1, 0.05) << columns;
  }
}

// A product whose rows another kernel reads may have more than 128 rows in parts, but no tile of
// two weights, nor sums that the L2 cache does not hold beside the operands.
TEST(ProductRanges, CutMoreRowsThatAreRead) {
  for (ProductOperands operands : {ProductOperands::Values, ProductOperands::Codes}) {
    ProductShape down{2112, 7168, 1, operands};
    if (operands == ProductOperands::Codes)
      down.mostColumns = kMostCodedColumns;
    down.weightColumns = 1536;
    ProductShape read = down;
    read.isRead = true;
    ProductRanges plain = chooseProductRanges(down, /*mayCut=*/true, kH200),
                  cut = chooseProductRanges(read, /*mayCut=*/true, kH200);
    EXPECT_GT(cut.find(200).parts, 1);
    const RangeTiles whole{kProductTileRows, 64};
    EXPECT_LT(predictRangeMicroseconds(read, 200, cut.find(200), kH200),
              predictRangeMicroseconds(down, 200, whole, kH200));
    for (const RangeTiles &tiles : cut.tiles)
      EXPECT_EQ(1536 % tiles.columns, 0);
    for (int64_t rows = 65; rows <= 4096; ++rows) {
      ASSERT_TRUE(rows <= kProductTileRows || plain.find(rows).parts == 1) << rows;
      ASSERT_TRUE(cut.find(rows).parts == 1 ||
                  rows * 2112 * cut.find(rows).parts * 4 <= kH200.l2Bytes / 2)
          << rows;
    }
  }
}

TEST(ProductRanges, A46_CutTurnedCodesThatAreRead) {
  ProductShape down{2112, 7168, 1, ProductOperands::CodedWeights};
  EXPECT_EQ(chooseTurnedRanges(down, kH200).find(200).parts, 1);
  down.isRead = true;
  ProductRanges ranges = chooseTurnedRanges(down, kH200);
  EXPECT_GT(ranges.find(200).parts, 1);
  EXPECT_GE(findMostTurnedRows(down, ranges, kH200), 256);
}

// The same for weights of codes that are turned in registers.
TEST(ProductRanges, A46_PredictWhatTurnedCodesTook) {
  struct Measured {
    int64_t columns, depth, rows, tileRows;
    double us;
  };
  const Measured all[] = {
      {7168, 16384, 192, 128, 118},   {7168, 16384, 192, 192, 142},  {7168, 16384, 256, 256, 176},
      {7168, 16384, 512, 128, 248},   {7168, 16384, 512, 256, 186},  {7168, 16384, 1024, 256, 374},
      {7168, 16384, 4096, 256, 1572}, {24576, 1536, 192, 192, 33.2}, {24576, 1536, 1024, 256, 115},
      {24576, 1536, 4096, 256, 502},  {7168, 2048, 384, 192, 22.3},
  };
  for (const Measured &one : all) {
    ProductShape shape{one.columns, one.depth, 1, ProductOperands::CodedWeights};
    RangeTiles tiles{one.tileRows, kTurnedColumns};
    EXPECT_NEAR(predictRangeMicroseconds(shape, one.rows, tiles, kH200) / one.us, 1, 0.15)
        << one.columns << " x " << one.depth << ", " << one.rows;
  }
}

// Where few tiles leave most of the machine idle, and where all of it is busy, values are written
// for all of a weight; between them its codes are turned.
TEST(ProductRanges, A46_TurnCodesWhereThatIsFaster) {
  auto findMost = [](ProductShape shape) {
    shape.operands = ProductOperands::CodedWeights;
    ProductRanges ranges = chooseTurnedRanges(shape, kH200);
    for (const RangeTiles &tiles : ranges.tiles)
      EXPECT_TRUE(tiles.columns == kTurnedColumns && tiles.rows >= kLeastTurnedRows);
    return findMostTurnedRows(shape, ranges, kH200);
  };
  EXPECT_EQ(findMost({2112, 7168}), 0);
  EXPECT_GE(findMost({7168, 16384}), 1024);
  EXPECT_LT(findMost({7168, 16384}), 8192);
  EXPECT_GE(findMost({24576, 1536}), 1024);
}

// Products of codes that leave multiprocessors idle, or whose last turn does.
TEST(ProductRanges, A47_ClustersDivideTheDepthOfCodes) {
  ProductShape output{7168, 16384, 1, ProductOperands::Codes, kMostCodedColumns};
  ProductRanges ranges = chooseProductRanges(output, /*mayCut=*/false, kH200);
  const RangeTiles pair{kProductTileRows, kMostCodedColumns, /*tailColumns=*/0, /*parts=*/1,
                        /*cluster=*/2};
  EXPECT_EQ(ranges.find(112), pair);      // 56 tiles
  EXPECT_EQ(ranges.find(256).cluster, 1); // 112
  EXPECT_EQ(ranges.find(384), pair);      // 168: two turns, 2.6 of half as many steps
  EXPECT_EQ(ranges.find(1 << 20).cluster, 1);
  output.isRead = true; // a kernel adds up parts
  for (const RangeTiles &tiles : chooseProductRanges(output, /*mayCut=*/true, kH200).tiles)
    EXPECT_EQ(tiles.cluster, 1);
  for (const ProductShape &values : kShapes)
    for (const RangeTiles &tiles : chooseProductRanges(values, /*mayCut=*/true, kH200).tiles)
      EXPECT_EQ(tiles.cluster, 1);
}

// One H200, us with 3.5 of quantising: 128 x 128 in clusters, and tokens as columns.
TEST(ProductRanges, A47_PredictWhatClustersTook) {
  struct Measured {
    int64_t columns, depth, rows, cluster;
    double us;
  };
  const Measured all[] = {{7168, 16384, 128, 2, 42.5}, {7168, 16384, 384, 2, 101},
                          {6144, 8192, 128, 2, 21.9},  {4096, 8192, 256, 2, 22.2},
                          {2048, 5120, 128, 4, 11.8},  {3584, 5632, 256, 2, 16.8},
                          {7168, 16384, 256, 1, 64.6}};
  for (const Measured &one : all) {
    ProductShape shape{one.columns, one.depth, 1, ProductOperands::Codes, kMostCodedColumns};
    RangeTiles tiles{kProductTileRows, kMostCodedColumns, 0, 1, one.cluster};
    double predicted = predictRangeMicroseconds(shape, one.rows, tiles, kH200) + 3.5;
    EXPECT_NEAR(predicted / one.us, 1, 0.2)
        << one.columns << " x " << one.depth << ", " << one.rows;
  }
  const Measured columns[] = {{7168, 16384, 128, 1, 48},  {6144, 8192, 128, 1, 25.1},
                              {4096, 8192, 128, 2, 16.9}, {2048, 5120, 128, 2, 12.1},
                              {3584, 5632, 128, 2, 13.2}};
  for (const Measured &one : columns) {
    ProductShape shape{one.columns, one.depth, 1, ProductOperands::Codes, kMostCodedColumns};
    double predicted = predictTokensAsColumns(shape, one.rows, one.cluster, kH200) + 3.5;
    EXPECT_NEAR(predicted / one.us, 1, 0.2) << one.columns << " x " << one.depth;
  }
}

} // namespace
