//===- MemoryTest.cpp - loads and stores on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
/// What unused entries of a block table hold: far outside every pool.
constexpr int32_t kGarbagePage = 2147480000;

class Memory : public testing::TestWithParam<std::string> {};

} // namespace

//===----------------------------------------------------------------------===//
// RoPE on strided views: pairs (2i, 2i + 1) in place
//===----------------------------------------------------------------------===//

constexpr const char *kRope = R"(
tile.kernel @rope(%x: memref<?xf32>, %table: memref<?xf32>, %positions: memref<?xi64>,
                  %rows: index, %length: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %p = tile.program_id 0
  %row = arith.muli %p, %c4 : index
  %even = memref.reinterpret_cast %x to offset: [8], sizes: [%rows, 16], strides: [48, 2] : memref<?xf32> to memref<?x16xf32, strided<[48, 2], offset: 8>>
  %odd = memref.reinterpret_cast %x to offset: [9], sizes: [%rows, 16], strides: [48, 2] : memref<?xf32> to memref<?x16xf32, strided<[48, 2], offset: 9>>
  %tv = memref.reinterpret_cast %table to offset: [0], sizes: [%length, 32], strides: [32, 1] : memref<?xf32> to memref<?x32xf32, strided<[32, 1]>>
  %pv = memref.reinterpret_cast %positions to offset: [0], sizes: [%rows], strides: [1] : memref<?xi64> to memref<?xi64, strided<[1]>>
  %a = tile.load %even[%row, %c0] : memref<?x16xf32, strided<[48, 2], offset: 8>> -> tensor<4x16xf32>
  %b = tile.load %odd[%row, %c0] : memref<?x16xf32, strided<[48, 2], offset: 9>> -> tensor<4x16xf32>
  %cos = tile.load_rows %tv[%pv at %row, %c0] : memref<?x32xf32, strided<[32, 1]>>, memref<?xi64, strided<[1]>> -> tensor<4x16xf32>
  %sin = tile.load_rows %tv[%pv at %row, %c16] : memref<?x32xf32, strided<[32, 1]>>, memref<?xi64, strided<[1]>> -> tensor<4x16xf32>
  %ac = arith.mulf %a, %cos : tensor<4x16xf32>
  %bs = arith.mulf %b, %sin : tensor<4x16xf32>
  %as = arith.mulf %a, %sin : tensor<4x16xf32>
  %bc = arith.mulf %b, %cos : tensor<4x16xf32>
  %e = arith.subf %ac, %bs : tensor<4x16xf32>
  %o = arith.addf %as, %bc : tensor<4x16xf32>
  tile.store %e, %even[%row, %c0] : tensor<4x16xf32>, memref<?x16xf32, strided<[48, 2], offset: 8>>
  tile.store %o, %odd[%row, %c0] : tensor<4x16xf32>, memref<?x16xf32, strided<[48, 2], offset: 9>>
  tile.return
}
)";

TEST_P(Memory, RopeOnStridedViewsInPlace) {
  auto image = KernelImage::compile(kRope, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t kRows = 6, kStride = 48, kOffset = 8, kPairs = 16, kLength = 40;
  auto x = randomVector<float>(kRows * kStride, 5), table = randomVector<float>(kLength * 32, 6);
  std::vector<int64_t> positions = {0, 39, 7, 7, 12, 1};
  std::vector<float> before = x;
  image->launch("rope", {x, table, positions, kRows, kLength}, {2});
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kStride; ++j) {
      int64_t at = i * kStride + j, pair = (j - kOffset) / 2;
      if (j < kOffset || pair >= kPairs) {
        ASSERT_EQ(x[at], before[at]);
        continue;
      }
      double cosine = table[positions[i] * 32 + pair], sine = table[positions[i] * 32 + 16 + pair];
      double a = before[i * kStride + kOffset + 2 * pair];
      double b = before[i * kStride + kOffset + 2 * pair + 1];
      ASSERT_NEAR(x[at], (j - kOffset) % 2 ? a * sine + b * cosine : a * cosine - b * sine, 1e-6);
    }
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

constexpr const char *kLoadRows = R"(
tile.kernel @gather(%x: memref<?xf32>, %list: memref<?xi32>, %y: memref<?xf32>, %rows: index,
                    %listed: index, %column: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %p = tile.program_id 0
  %first = arith.muli %p, %c4 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 20], strides: [20, 1] : memref<?xf32> to memref<?x20xf32, strided<[20, 1]>>
  %lv = memref.reinterpret_cast %list to offset: [0], sizes: [%listed], strides: [1] : memref<?xi32> to memref<?xi32, strided<[1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<?xf32> to memref<8x16xf32, strided<[16, 1]>>
  %t = tile.load_rows %xv[%lv at %first, %column] : memref<?x20xf32, strided<[20, 1]>>, memref<?xi32, strided<[1]>> -> tensor<4x16xf32>
  tile.store %t, %yv[%first, %c0] : tensor<4x16xf32>, memref<8x16xf32, strided<[16, 1]>>
  tile.return
}
)";

TEST_P(Memory, LoadRowsZeroFills) {
  auto image = KernelImage::compile(kLoadRows, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t kRows = 10, kColumns = 20;
  auto x = randomVector<float>(kRows * kColumns, 7);
  std::vector<int32_t> list = {9, -1, 0, 10, 3, kGarbagePage, 5};
  for (int64_t column : {0, 3, 4, 5, 19, 20, 30}) {
    std::vector<float> y(8 * 16, kNan);
    Guarded<float> guardedX(x);
    image->launch("gather", {guardedX, list, y, kRows, int64_t(6), column}, {2});
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t j = 0; j < 16; ++j) {
        bool exists = i < 6 && list[i] >= 0 && list[i] < kRows && column + j < kColumns;
        ASSERT_EQ(y[i * 16 + j], exists ? x[list[i] * kColumns + column + j] : 0.0f)
            << i << ", " << j << " from column " << column;
      }
  }
}

constexpr const char *kLoadPaged = R"(
tile.kernel @paged(%pool: memref<?xbf16>, %table: memref<?xi32>, %y: memref<?xbf16>, %pages: index,
                   %limit: index, %start: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %p = tile.program_id 0
  %step = arith.muli %p, %c16 : index
  %token = arith.addi %step, %start : index
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, $PAGE, 40], strides: [$STRIDE, 40, 1] : memref<?xbf16> to memref<?x$PAGEx40xbf16, strided<[$STRIDE, 40, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [48, 48], strides: [48, 1] : memref<?xbf16> to memref<48x48xbf16, strided<[48, 1]>>
  %t = tile.load_paged %pv[%table at %token, %c0] limit %limit : memref<?x$PAGEx40xbf16, strided<[$STRIDE, 40, 1]>>, memref<?xi32> -> tensor<16x48xbf16>
  tile.store %t, %yv[%step, %c0] : tensor<16x48xbf16>, memref<48x48xbf16, strided<[48, 1]>>
  tile.return
}
)";

TEST_P(Memory, C01_PagedLoadIgnoresWhatIsUnused) {
  constexpr int64_t kPages = 60, kColumns = 40, kPadding = 8;
  for (int64_t page : {1, 16, 64}) {
    int64_t stride = page * kColumns + kPadding;
    auto image = KernelImage::compile(substitute(kLoadPaged, {{"PAGE", std::to_string(page)},
                                                              {"STRIDE", std::to_string(stride)}}),
                                      GetParam());
    ASSERT_TRUE(image);
    for (int64_t limit : {0, 1, 15, 16, 17, 45}) {
      std::vector<Bf16> pool(kPages * stride, Bf16(kNan)), y(48 * 48, Bf16(kNan));
      // The table ends where the limit does: reading on ends the test.
      std::vector<int32_t> table((limit + page - 1) / page, kGarbagePage);
      auto values = randomVector<Bf16>(limit * kColumns, 8);
      for (int64_t t = 0; t < limit; ++t) {
        table[t / page] = (t / page * 7 + 3) % kPages;
        for (int64_t j = 0; j < kColumns; ++j)
          pool[table[t / page] * stride + t % page * kColumns + j] = values[t * kColumns + j];
      }
      Guarded<Bf16> guardedPool(pool);
      Guarded<int32_t> guardedTable(table);
      image->launch("paged", {guardedPool, guardedTable, y, kPages, limit, 0}, {3});
      for (int64_t t = 0; t < 48; ++t)
        for (int64_t j = 0; j < 48; ++j) {
          bool exists = t < limit && j < kColumns;
          ASSERT_EQ(double(y[t * 48 + j]), exists ? double(values[t * kColumns + j]) : 0.0)
              << "page size " << page << ", limit " << limit << ", token " << t << ", column " << j;
        }
    }
  }
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

constexpr const char *kStoreSlots = R"(
tile.kernel @append(%x: memref<?xf32>, %slots: memref<?xi64>, %pool: memref<?xf32>, %rows: index,
                    %pages: index) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c24 = arith.constant 24 : index
  %p = tile.program_id 0
  %first = arith.muli %p, %c4 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 16], strides: [16, 1] : memref<?xf32> to memref<?x16xf32, strided<[16, 1]>>
  %sv = memref.reinterpret_cast %slots to offset: [0], sizes: [%rows], strides: [1] : memref<?xi64> to memref<?xi64, strided<[1]>>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 4, 32], strides: [128, 32, 1] : memref<?xf32> to memref<?x4x32xf32, strided<[128, 32, 1]>>
  %t = tile.load %xv[%first, %c0] : memref<?x16xf32, strided<[16, 1]>> -> tensor<4x16xf32>
  tile.store_slots %t, %pv[%sv at %first, %c0] : tensor<4x16xf32>, memref<?x4x32xf32, strided<[128, 32, 1]>>, memref<?xi64, strided<[1]>>
  tile.store_slots %t, %pv[%sv at %first, %c24] : tensor<4x16xf32>, memref<?x4x32xf32, strided<[128, 32, 1]>>, memref<?xi64, strided<[1]>>
  tile.return
}
)";

TEST_P(Memory, StoreSlotsSkipsAndDrops) {
  auto image = KernelImage::compile(kStoreSlots, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t kRows = 6, kPages = 3, kPoolColumns = 32;
  auto x = randomVector<float>(kRows * 16, 9);
  // The last slot but one is the first that does not exist.
  std::vector<int64_t> slots = {5, -1, 0, kPages * 4, 11, -1};
  std::vector<float> pool(kPages * 4 * kPoolColumns, 77.0f), expected = pool;
  image->launch("append", {x, slots, pool, kRows, kPages}, {2});
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < 16 && slots[i] >= 0 && slots[i] < kPages * 4; ++j) {
      expected[slots[i] * kPoolColumns + j] = x[i * 16 + j];
      if (24 + j < kPoolColumns)
        expected[slots[i] * kPoolColumns + 24 + j] = x[i * 16 + j];
    }
  EXPECT_EQ(pool, expected);
}

/// A tile that is read again after a store to the same rows keeps its values.
TEST_P(Memory, LoadsOutliveStores) {
  const char *text = R"(
tile.kernel @swap(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [2, 16], strides: [16, 1] : memref<?xf32> to memref<2x16xf32, strided<[16, 1]>>
  %a = tile.load %v[%c0, %c0] : memref<2x16xf32, strided<[16, 1]>> -> tensor<1x16xf32>
  %b = tile.load %v[%c1, %c0] : memref<2x16xf32, strided<[16, 1]>> -> tensor<1x16xf32>
  tile.store %b, %v[%c0, %c0] : tensor<1x16xf32>, memref<2x16xf32, strided<[16, 1]>>
  tile.store %a, %v[%c1, %c0] : tensor<1x16xf32>, memref<2x16xf32, strided<[16, 1]>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  auto x = randomVector<float>(32, 10), before = x;
  image->launch("swap", {x}, {});
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(x[i], before[16 + i]);
    EXPECT_EQ(x[16 + i], before[i]);
  }
}

/// Row vectors with a stride, as the LSE of one head has: [tokens, heads].
TEST_P(Memory, VectorsMayBeStrided) {
  const char *text = R"(
tile.kernel @negate(%x: memref<?xf32>, %n: index) {
  %c4 = arith.constant 4 : index
  %p = tile.program_id 0
  %first = arith.muli %p, %c4 : index
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [%n], strides: [3] : memref<?xf32> to memref<?xf32, strided<[3], offset: 1>>
  %a = tile.load %v[%first] : memref<?xf32, strided<[3], offset: 1>> -> tensor<4xf32>
  %b = arith.negf %a : tensor<4xf32>
  tile.store %b, %v[%first] : tensor<4xf32>, memref<?xf32, strided<[3], offset: 1>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  auto x = randomVector<float>(30, 16), before = x;
  image->launch("negate", {x, 6}, {2});
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(x[i], i % 3 == 1 && i / 3 < 6 ? -before[i] : before[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Cpus, Memory, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
