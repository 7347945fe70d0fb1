//===- BitsTest.cpp - numbers as bits of words, and back, on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "gtest/gtest.h"

#include <limits>

using namespace mlac::test;

namespace {

constexpr int64_t kWordBits = 32;
constexpr uint32_t kPoison = 0xA5A5A5A5;

class Bits : public testing::TestWithParam<std::string> {};

constexpr const char *kSetBits = R"(
tile.kernel @set_bits(%list: memref<?xi32>, %out: memref<?xi32>, %rows: index, %words: index, %pitch: index, %first: index) {
  %row = tile.program_id 0
  %l = memref.reinterpret_cast %list to offset: [3], sizes: [%rows, 50], strides: [53, 1] : memref<?xi32> to memref<?x50xi32, strided<[53, 1], offset: 3>>
  %o = memref.reinterpret_cast %out to offset: [1], sizes: [%rows, %words], strides: [%pitch, 1] : memref<?xi32> to memref<?x?xi32, strided<[?, 1], offset: 1>>
  tile.set_bits %l[%row] from %first to %o : memref<?x50xi32, strided<[53, 1], offset: 3>>, memref<?x?xi32, strided<[?, 1], offset: 1>>
  tile.return
}
)";

/// What a list may hold: numbers of bits, many of them twice, and such as no bit has.
int32_t drawNumber(std::mt19937 &random, int64_t first, int64_t bits) {
  constexpr int32_t least = std::numeric_limits<int32_t>::min(),
                    most = std::numeric_limits<int32_t>::max();
  const int64_t edges[] = {
      -1, -32, least, most, 0, 31, first - 1, first, first + bits - 1, first + bits, 2 * bits};
  uint32_t kind = random() % 4;
  if (kind == 0)
    return static_cast<int32_t>(edges[random() % std::size(edges)]);
  return static_cast<int32_t>(first + random() % (kind == 1 ? 8 : bits));
}

} // namespace

TEST_P(Bits, B06_AreThoseOfTheList) {
  auto image = KernelImage::compile(kSetBits, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t rows = 4, count = 50, listPitch = 53, listStart = 3;
  // Of the last case the bits end where numbers of 32 bits do.
  for (auto [words, first] : {std::pair<int64_t, int64_t>(1, 0),
                              {3, 0},
                              {40, 0},
                              {3, 77},
                              {40, 4096},
                              {3, (int64_t(1) << 31) - 3 * kWordBits}}) {
    std::mt19937 random(static_cast<unsigned>(words));
    int64_t pitch = words + 1; // a word between rows, which is no row's
    // What is between rows of the list would set bits.
    std::vector<int32_t> list(listStart + rows * listPitch);
    for (int32_t &number : list)
      number = drawNumber(random, first, kWordBits * words);
    std::vector<uint32_t> out(1 + rows * pitch, kPoison), expected = out;
    for (int64_t row = 0; row < rows; ++row) {
      uint32_t *own = &expected[1 + row * pitch];
      std::fill_n(own, words, 0);
      for (int64_t i = 0; i < count; ++i)
        if (int64_t number = list[listStart + row * listPitch + i] - first;
            number >= 0 && number < kWordBits * words)
          own[number / kWordBits] |= uint32_t(1) << number % kWordBits;
    }
    image->launch("set_bits", {list, out, rows, words, pitch, first}, {rows});
    EXPECT_EQ(out, expected) << words << " from " << first;
  }
}

/// One word and three: columns that are whole vectors, and of rows that are not there no bits.
TEST_P(Bits, B06_AreColumns) {
  const char *text = R"(
tile.kernel @test_bits(%x: memref<?xi32>, %y: memref<?xf32>, %z: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %av = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [3] : memref<?xi32> to memref<?xi32, strided<[3]>>
  %bv = memref.reinterpret_cast %x to offset: [1], sizes: [%n], strides: [3] : memref<?xi32> to memref<?xi32, strided<[3], offset: 1>>
  %cv = memref.reinterpret_cast %x to offset: [2], sizes: [%n], strides: [3] : memref<?xi32> to memref<?xi32, strided<[3], offset: 2>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [24, 32], strides: [32, 1] : memref<?xf32> to memref<24x32xf32, strided<[32, 1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [24, 96], strides: [96, 1] : memref<?xf32> to memref<24x96xf32, strided<[96, 1]>>
  %a = tile.load %av[%c0] : memref<?xi32, strided<[3]>> -> tensor<24xi32>
  %b = tile.load %bv[%c0] : memref<?xi32, strided<[3], offset: 1>> -> tensor<24xi32>
  %c = tile.load %cv[%c0] : memref<?xi32, strided<[3], offset: 2>> -> tensor<24xi32>
  %few = tile.test_bits %b : tensor<24xi32> -> tensor<24x32xi1>
  %many = tile.test_bits %a, %b, %c : tensor<24xi32>, tensor<24xi32>, tensor<24xi32> -> tensor<24x96xi1>
  %one = arith.constant dense<1.0> : tensor<24x32xf32>
  %none = arith.constant dense<0.0> : tensor<24x32xf32>
  %two = arith.constant dense<2.0> : tensor<24x96xf32>
  %zero = arith.constant dense<0.0> : tensor<24x96xf32>
  %r = arith.select %few, %one, %none : tensor<24x32xi1>, tensor<24x32xf32>
  %s = arith.select %many, %two, %zero : tensor<24x96xi1>, tensor<24x96xf32>
  tile.store %r, %yv[%c0, %c0] : tensor<24x32xf32>, memref<24x32xf32, strided<[32, 1]>>
  tile.store %s, %zv[%c0, %c0] : tensor<24x96xf32>, memref<24x96xf32, strided<[96, 1]>>
  tile.return
}
)";
  auto image = KernelImage::compile(text, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t rows = 24, there = 21, words = 3;
  std::mt19937 random(7);
  std::vector<uint32_t> x(there * words);
  for (uint32_t &word : x)
    word = random();
  x[0] = 0, x[1] = ~0u, x[3] = 1, x[4] = 1u << 31;
  std::vector<float> few(rows * kWordBits, 99.0f), many(rows * words * kWordBits, 99.0f);
  Guarded<uint32_t> guarded(x);
  image->launch("test_bits", {guarded, few, many, there}, {});
  auto bit = [&](int64_t row, int64_t word, int64_t place) {
    return row < there ? float(x[row * words + word] >> place & 1) : 0.0f;
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < kWordBits; ++j)
      ASSERT_EQ(few[row * kWordBits + j], bit(row, 1, j)) << row << ", " << j;
    for (int64_t j = 0; j < words * kWordBits; ++j)
      ASSERT_EQ(many[row * words * kWordBits + j], 2 * bit(row, j / kWordBits, j % kWordBits))
          << row << ", " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Bits, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
