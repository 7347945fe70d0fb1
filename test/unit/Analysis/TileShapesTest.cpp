//===- TileShapesTest.cpp - widths of tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/TileShapes.h"

#include <gtest/gtest.h>

#include <vector>

using namespace mlac;

namespace {

struct Width {
  int64_t latent, ofValues, ofCodes; // what a tile has for it
};

void expectWidths(const std::vector<int64_t> &rowCounts, const std::vector<Width> &widths) {
  const TileShapes &shapes = TileShapes::get(TileTarget::Sm90);
  for (int64_t rows : rowCounts)
    for (const Width &width : widths) {
      EXPECT_EQ(shapes.latentWidth(width.latent, rows, false), width.ofValues) << width.latent;
      EXPECT_EQ(shapes.latentWidth(width.latent, rows, true), width.ofCodes) << width.latent;
    }
}

/// Halves of whole panels of 64 columns, of codes 128, for 33 and more rows, or any number.
TEST(TileShapes, C03_LatentsOfManyRowsAreHalvesOfPanels) {
  expectWidths({0, 33, 128}, {{512, 512, 512},
                              {384, 384, 512},
                              {320, 384, 512},
                              {256, 256, 256},
                              {192, 256, 256},
                              {128, 128, 256}});
}

TEST(TileShapes, C03_LatentsOfFewRowsAreWholePanels) {
  expectWidths({1, 16, 32}, {{384, 384, 384}, {192, 192, 256}, {128, 128, 128}, {100, 128, 128}});
}

TEST(TileShapes, C03_NarrowLatentsAndThoseOfOtherTargetsArePadded) {
  expectWidths({0, 1, 128}, {{40, 48, 48}, {64, 64, 64}});
  EXPECT_EQ(TileShapes::get(TileTarget::Cpu).latentWidth(200, 128, true), 208);
}

} // namespace
