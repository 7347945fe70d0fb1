//===- BitsTest.cpp - numbers as bits of words, and back ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// sm90.set_bits and sm90.test_bits, run by the emulator against loops over the
// list and over the bits.
//
//===----------------------------------------------------------------------===//

#include "Fixture.h"

#include <limits>
#include <random>

using namespace mlac;
using namespace mlac::sm90test;

namespace {

constexpr int64_t kWordBits = 32;
constexpr uint32_t kPoison = 0xA5A5A5A5;

//===----------------------------------------------------------------------===//
// From numbers to bits
//===----------------------------------------------------------------------===//

struct ListCase {
  const char *name;
  int64_t warpgroups;
  int64_t count, pitch, offset; // of the list's rows: whether four numbers are loaded at once
  int64_t words, work;          // a row's, and as many at a time
  int64_t first = 0;            // the number of a row's first bit
};

constexpr const char *kSetBits = R"(
sm90.kernel @set_bits(%list: memref<?xi32>, %out: memref<?xi32>, %rows: index, %words: index, %pitch: index,
                      %first: index)
    attributes {warpgroups = $W$ : i32, shared_bytes = $BYTES$ : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %l = memref.reinterpret_cast %list to offset: [$OFFSET$], sizes: [%rows, $COUNT$], strides: [$PITCH$, 1]
      : memref<?xi32> to memref<?x$COUNT$xi32, strided<[$PITCH$, 1], offset: $OFFSET$>>
  %o = memref.reinterpret_cast %out to offset: [1], sizes: [%rows, %words], strides: [%pitch, 1]
      : memref<?xi32> to memref<?x?xi32, strided<[?, 1], offset: 1>>
  %work = sm90.alloc offset 0 : !sm90.smem<1x$WORK$xi32, linear>
  scf.for %row = %c0 to %rows step %c1 {
    sm90.set_bits %l[%row] from %first to %o work %work
        : memref<?x$COUNT$xi32, strided<[$PITCH$, 1], offset: $OFFSET$>>, memref<?x?xi32, strided<[?, 1], offset: 1>>,
          !sm90.smem<1x$WORK$xi32, linear>
    sm90.barrier
  }
  sm90.return
})";

/// What indexers select, and what a list may hold besides: nothing, twice the same, numbers of keys
/// that have no bit, and the ends of what has one.
int32_t drawNumber(std::mt19937 &random, int64_t first, int64_t bits) {
  constexpr int32_t least = std::numeric_limits<int32_t>::min(),
                    most = std::numeric_limits<int32_t>::max();
  const int64_t edges[] = {
      -1,           -1,        -32,        least,   most, 0, 31, first - 1, first, first + bits - 1,
      first + bits, bits + 31, first - 32, 2 * bits};
  uint32_t kind = random() % 4;
  if (kind == 0)
    return static_cast<int32_t>(edges[random() % std::size(edges)]);
  if (kind == 1) // of few, so that many come twice
    return static_cast<int32_t>(first + random() % 8);
  return static_cast<int32_t>(first + random() % std::max<int64_t>(bits, 1));
}

class SetBits : public Sm90ToNvvmTest, public ::testing::WithParamInterface<ListCase> {};

TEST_P(SetBits, AreThoseOfTheList) {
  const ListCase &c = GetParam();
  lower(fill(kSetBits, {{"W", c.warpgroups},
                        {"BYTES", 4 * c.work},
                        {"COUNT", c.count},
                        {"PITCH", c.pitch},
                        {"OFFSET", c.offset},
                        {"WORK", c.work}}));
  if (HasFatalFailure())
    return;
  // Rows of words have one between them, as there is one before the first.
  constexpr int64_t rows = 3;
  int64_t pitch = c.words + 1;
  std::mt19937 random(static_cast<unsigned>(c.count * 131 + c.words));
  // What is between rows of the list would set bits.
  std::vector<int32_t> list(c.offset + rows * c.pitch);
  for (int32_t &number : list)
    number = drawNumber(random, c.first, kWordBits * c.words);
  std::vector<uint32_t> out(1 + rows * pitch, kPoison), expected = out;
  for (int64_t row = 0; row < rows; ++row) {
    uint32_t *words = &expected[1 + row * pitch];
    std::fill_n(words, c.words, 0);
    for (int64_t i = 0; i < c.count; ++i)
      if (int64_t number = list[c.offset + row * c.pitch + i] - c.first;
          number >= 0 && number < kWordBits * c.words)
        words[number / kWordBits] |= uint32_t(1) << number % kWordBits;
  }
  run({Argument::buffer(list), Argument::buffer(out), Argument::index(rows),
       Argument::index(c.words), Argument::index(pitch), Argument::index(c.first)});
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], expected[i]) << i;
  assemble();
}

INSTANTIATE_TEST_SUITE_P(
    B06, SetBits,
    ::testing::Values(
        ListCase{"Fours", 1, 64, 64, 0, 40, 64}, ListCase{"FoursOfWiderRows", 1, 12, 20, 8, 40, 64},
        // Rows that are no multiple of four, begin at none or are no multiple apart.
        ListCase{"Ones", 1, 51, 51, 0, 40, 64}, ListCase{"OnesByPitch", 1, 64, 66, 0, 40, 64},
        ListCase{"OnesByOffset", 1, 64, 64, 2, 40, 64},
        // More words than fit at a time: whole passes, and a last one of one word and of three.
        ListCase{"TwoPasses", 1, 200, 200, 0, 128, 64},
        ListCase{"ThreePasses", 1, 201, 201, 0, 131, 64},
        ListCase{"LastOfOne", 1, 512, 512, 0, 129, 128},
        // Fewer words than threads and more, by one warpgroup and by two.
        ListCase{"OneWord", 1, 8, 8, 0, 1, 64}, ListCase{"ManyWords", 2, 700, 700, 0, 600, 1024},
        ListCase{"FullWork", 2, 2048, 2048, 0, 1024, 1024}, ListCase{"NoWord", 1, 8, 8, 0, 0, 64},
        // From within a word on, by fours and by ones, in two passes; and as far as numbers go.
        ListCase{"FromWithinAWord", 1, 64, 64, 0, 40, 64, 77},
        ListCase{"OnesFrom", 1, 51, 51, 0, 128, 64, 4095},
        ListCase{"FromTheLast", 1, 64, 64, 0, 40, 64, (int64_t(1) << 31) - 40 * kWordBits}),
    [](const auto &info) { return std::string(info.param.name); });

//===----------------------------------------------------------------------===//
// From bits to a mask
//===----------------------------------------------------------------------===//

/// Every bit of one word and of three, into columns of which the last thread of four has some.
TEST_F(Sm90ToNvvmTest, B06_BitsAreColumns) {
  for (int64_t count : {1, 2, 3, 4}) {
    std::string loads, words, types;
    for (int64_t i = 0; i < count; ++i) {
      std::string name = "%w" + std::to_string(i), at = "%c" + std::to_string(i);
      loads += "  " + at + " = arith.constant " + std::to_string(i * 64) + " : index\n  " + name +
               " = sm90.load %x[" + at + "] : memref<?xi32> -> tensor<64xi32, #sm90.rows>\n";
      words += (i ? ", " : "") + name;
      types += std::string(i ? ", " : "") + "tensor<64xi32, #sm90.rows>";
    }
    lower(fill("sm90.kernel @test_bits(%x: memref<?xi32>, %y: memref<?xf32>)\n"
               "    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {\n" +
                   loads + "  %bits = sm90.test_bits " + words + " : " + types + R"(
      -> tensor<64x$N$xi1, #f1>
  %zero = arith.constant 0 : index
  %one = arith.constant dense<1.0> : tensor<64x$N$xf32, #f1>
  %none = arith.constant dense<0.0> : tensor<64x$N$xf32, #f1>
  %r = arith.select %bits, %one, %none : tensor<64x$N$xi1, #f1>, tensor<64x$N$xf32, #f1>
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [64, $N$], strides: [$N$, 1]
      : memref<?xf32> to memref<64x$N$xf32, strided<[$N$, 1]>>
  sm90.store %r, %v[%zero, %zero] : tensor<64x$N$xf32, #f1>, memref<64x$N$xf32, strided<[$N$, 1]>>
  sm90.return
})",
               {{"N", count * kWordBits}}));
    if (HasFatalFailure())
      return;
    std::mt19937 random(static_cast<unsigned>(count));
    std::vector<uint32_t> x(count * 64);
    for (uint32_t &word : x)
      word = random();
    x[0] = 0, x[1] = ~0u, x[2] = 1, x[3] = 1u << 31;
    int64_t columns = count * kWordBits;
    std::vector<float> y(64 * columns, -1);
    run({Argument::buffer(x), Argument::buffer(y)});
    for (int64_t i = 0; i < 64; ++i)
      for (int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(y[i * columns + j], float(x[j / kWordBits * 64 + i] >> j % kWordBits & 1))
            << count << ": " << i << ", " << j;
  }
  assemble();
}

} // namespace
