//===- TileShapesTest.cpp - widths of tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/TileShapes.h"

#include <gtest/gtest.h>

using namespace mlac;

namespace {

constexpr bool kCodes = true, kValues = false;

/// Halves of whole panels of 64 columns, of codes 128, for 33 and more rows, or any number.
TEST(TileShapes, C03_LatentsOfManyRowsAreHalvesOfPanels) {
  const TileShapes &shapes = TileShapes::get(TileTarget::Sm90);
  for (int64_t rows : {0, 33, 128}) {
    EXPECT_EQ(shapes.latentWidth(512, rows, kValues), 512);
    EXPECT_EQ(shapes.latentWidth(384, rows, kValues), 384);
    EXPECT_EQ(shapes.latentWidth(320, rows, kValues), 384);
    EXPECT_EQ(shapes.latentWidth(192, rows, kValues), 256);
    EXPECT_EQ(shapes.latentWidth(128, rows, kValues), 128);
    EXPECT_EQ(shapes.latentWidth(512, rows, kCodes), 512);
    EXPECT_EQ(shapes.latentWidth(384, rows, kCodes), 512);
    EXPECT_EQ(shapes.latentWidth(256, rows, kCodes), 256);
    EXPECT_EQ(shapes.latentWidth(128, rows, kCodes), 256);
  }
}

TEST(TileShapes, C03_LatentsOfFewRowsAreWholePanels) {
  const TileShapes &shapes = TileShapes::get(TileTarget::Sm90);
  for (int64_t rows : {1, 16, 32}) {
    EXPECT_EQ(shapes.latentWidth(192, rows, kValues), 192);
    EXPECT_EQ(shapes.latentWidth(100, rows, kValues), 128);
    EXPECT_EQ(shapes.latentWidth(192, rows, kCodes), 256);
    EXPECT_EQ(shapes.latentWidth(384, rows, kCodes), 384);
    EXPECT_EQ(shapes.latentWidth(128, rows, kCodes), 128);
  }
}

TEST(TileShapes, C03_NarrowLatentsAndThoseOfOtherTargetsArePadded) {
  EXPECT_EQ(TileShapes::get(TileTarget::Sm90).latentWidth(40, 128, kCodes), 48);
  EXPECT_EQ(TileShapes::get(TileTarget::Sm90).latentWidth(64, 128, kValues), 64);
  EXPECT_EQ(TileShapes::get(TileTarget::Cpu).latentWidth(200, 128, kCodes), 208);
}

} // namespace
