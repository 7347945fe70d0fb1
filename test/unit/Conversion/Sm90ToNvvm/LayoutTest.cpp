//===- LayoutTest.cpp - what is written is what wgmma reads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Proves Layout.h against the PTX manual's description of matrix descriptors and
// of the 128-byte swizzle, written down here once more.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir::sm90;

namespace {

constexpr int64_t kBase = 3 * 1024; // any multiple of 1024

int64_t swizzle(int64_t address) { return address ^ (address >> 7 & 7) << 4; }

/// Address of element (row, column) of a tile as the copies and stores write it.
int64_t getWritten(int64_t row, int64_t column, int64_t rows) {
  return kBase + getSwizzledChunkByte(row, column / 8, rows) + column % 8 * 2;
}

int64_t field(uint64_t descriptor, int low) { return int64_t(descriptor >> low & 0x3FFF) << 4; }

TEST(Layout, TileIsABijection) {
  for (int64_t rows : {8, 64, 256}) {
    std::set<int64_t> seen;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < 128; ++column)
        EXPECT_TRUE(seen.insert(getWritten(row, column, rows)).second);
    EXPECT_EQ(*seen.rbegin(), kBase + rows * 256 - 2);
  }
}

// A, and B stored [N, K]: (mn, k) is element (row, column) of the tile.
TEST(Layout, KMajorDescriptorReadsWhatIsWritten) {
  for (int64_t rows : {8, 64, 192, 256})
    for (int64_t step = 0; step < 9; ++step) {
      uint64_t descriptor = kKMajorDescriptor;
      EXPECT_EQ(descriptor >> 62, 1u);
      int64_t start = kBase + getKMajorStepBytes(step, rows * kPanelRowBytes);
      for (int64_t mn = 0; mn < rows; ++mn)
        for (int64_t k = 0; k < 16; ++k)
          EXPECT_EQ(swizzle(start + mn / 8 * field(descriptor, 32) + mn % 8 * 128 + k * 2),
                    getWritten(mn, 16 * step + k, rows));
    }
}

// B stored [K, N]: (n, k) is element (column, row) of the tile.
TEST(Layout, MNMajorDescriptorReadsWhatIsWritten) {
  for (int64_t rows : {16, 64, 128})
    for (int64_t step = 0; step < rows / 16; ++step) {
      uint64_t descriptor = getMNMajorDescriptor(rows * kPanelRowBytes);
      EXPECT_EQ(descriptor >> 62, 1u);
      int64_t start = kBase + getMNMajorStepBytes(step);
      for (int64_t n = 0; n < 256; ++n)
        for (int64_t k = 0; k < 16; ++k)
          EXPECT_EQ(swizzle(start + n / 64 * field(descriptor, 16) + k / 8 * field(descriptor, 32) +
                            k % 8 * 128 + n % 64 * 2),
                    getWritten(16 * step + k, n, rows));
    }
}

// The constants that ran right on an H200: K-major, and MN-major with 64 rows.
TEST(Layout, DescriptorsEqualThoseOfThePrototype) {
  EXPECT_EQ(kKMajorDescriptor, uint64_t(1) << 62 | uint64_t(64) << 32 | 1 << 16);
  EXPECT_EQ(getMNMajorDescriptor(8192), uint64_t(1) << 62 | uint64_t(64) << 32 | 512 << 16);
  EXPECT_EQ(getKMajorStepBytes(1, 8192) >> 4, 2);
  EXPECT_EQ(getKMajorStepBytes(4, 8192) >> 4, 512);
  EXPECT_EQ(getMNMajorStepBytes(1) >> 4, 128);
}

TEST(Layout, FragmentCoversTheTileOnce) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t thread = 0; thread < 128; ++thread)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t h : {0, 1})
        for (int64_t i : {0, 1})
          EXPECT_TRUE(
              seen.insert({getFragmentRow(thread, h), getFragmentColumn(thread) + 8 * j + i})
                  .second);
  EXPECT_EQ(seen.size(), 64u * 24);
  EXPECT_EQ(seen.rbegin()->first, 63);
  // Named in the PTX manual's figure: thread 5 starts at row 1, column 2.
  EXPECT_EQ(getFragmentRow<int64_t>(5, 0), 1);
  EXPECT_EQ(getFragmentColumn<int64_t>(5), 2);
  EXPECT_EQ(getFragmentRow<int64_t>(37, 1), 25);
}

} // namespace
