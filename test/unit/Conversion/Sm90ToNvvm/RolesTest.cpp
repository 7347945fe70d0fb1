//===- RolesTest.cpp - fragments, tiles and barriers inside roles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulator runs roles one after the other, so that kernels with rings are
// only assembled.
//
//===----------------------------------------------------------------------===//

#include "Fixture.h"

using namespace mlac;
using namespace mlac::sm90test;

namespace {

class Roles : public Sm90ToNvvmTest {};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

struct OperandCase {
  const char *lhs;   // "registers", "transposed" or "stored"
  bool transposeRhs; // rhs stored [n, k]
  int64_t n, k;
};

class Operands : public Sm90ToNvvmTest, public ::testing::WithParamInterface<OperandCase> {};

// The second role (warpgroup 1) computes C = A B + C0 with A [64, k] in registers, in
// shared memory as [k, 64], or stored as [k, 64] by a transposing store.
constexpr const char *kOperands = R"(
sm90.kernel @operands(%a: memref<?xbf16>, %b: memref<?xbf16>, %c: memref<?xf32>)
    attributes {warpgroups = 2 : i32, shared_bytes = $BYTES$ : i64} {
  %c0 = arith.constant 0 : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [$AR$, $AC$], strides: [$AC$, 1]
      : memref<?xbf16> to memref<$AR$x$AC$xbf16, strided<[$AC$, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [0], sizes: [$BR$, $BC$], strides: [$BC$, 1]
      : memref<?xbf16> to memref<$BR$x$BC$xbf16, strided<[$BC$, 1]>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [64, $N$], strides: [$N$, 1]
      : memref<?xf32> to memref<64x$N$xf32, strided<[$N$, 1]>>
  %sa = sm90.alloc offset 0 : !sm90.smem<$AR$x$AC$xbf16>
  %sb = sm90.alloc offset $OFFSET$ : !sm90.smem<$BR$x$BC$xbf16>
  sm90.role "idle" warpgroups 0 to 1 {
  }
  sm90.role "math" warpgroups 1 to 2 registers 240 {
    sm90.copy %av[%c0, %c0] to %sa vector_bytes 16
        : memref<$AR$x$AC$xbf16, strided<[$AC$, 1]>>, !sm90.smem<$AR$x$AC$xbf16>
    sm90.copy %bv[%c0, %c0] to %sb vector_bytes 16
        : memref<$BR$x$BC$xbf16, strided<[$BC$, 1]>>, !sm90.smem<$BR$x$BC$xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.proxy_fence
    sm90.barrier
    %start = sm90.load %cv[%c0, %c0] : memref<64x$N$xf32, strided<[$N$, 1]>> -> tensor<64x$N$xf32, #f1>
    LHS
    sm90.wgmma_fence
    %p = sm90.wgmma %lhs, %sb, %start TRANSPOSE : LHSTYPE, !sm90.smem<$BR$x$BC$xbf16> -> tensor<64x$N$xf32, #f1>
    sm90.wgmma_commit
    %r = sm90.wgmma_wait 0, %p : tensor<64x$N$xf32, #f1>
    sm90.store %r, %cv[%c0, %c0] paired : tensor<64x$N$xf32, #f1>, memref<64x$N$xf32, strided<[$N$, 1]>>
  }
  sm90.return
})";

std::string replace(std::string text, const std::string &from, const std::string &to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;)
    text.replace(at, from.size(), to);
  return text;
}

TEST_P(Operands, EqualTheProduct) {
  const OperandCase &p = GetParam();
  std::string form = p.lhs, tile = "!sm90.smem<$AR$x$AC$xbf16>",
              fragment = "tensor<64x$K$xbf16, #f1>";
  std::string transpose = p.transposeRhs ? " transpose_rhs" : "";
  std::string text = kOperands;
  if (form == "registers") {
    text = replace(text, "LHSTYPE", fragment);
    text =
        replace(text, "LHS\n", "%lhs = sm90.load_shared %sa : " + tile + " -> " + fragment + "\n");
  } else if (form == "transposed") {
    text = replace(text, "LHSTYPE", tile);
    text = replace(text, "%lhs,", "%sa,");
    text = replace(text, "LHS\n", "\n");
    transpose = "transpose_lhs" + transpose;
  } else {
    // From [64, k] through registers to [k, 64], at the end of shared memory.
    std::string stored = "!sm90.smem<$K$x64xbf16>";
    text = replace(text, "LHSTYPE", stored);
    text = replace(text, "LHS\n",
                   "%fragment = sm90.load_shared %sa : " + tile + " -> " + fragment +
                       "\n%lhs = sm90.alloc offset $STORED$ : " + stored +
                       "\nsm90.store_shared %fragment, %lhs transposed : " + fragment + ", " +
                       stored + "\nsm90.proxy_fence\nsm90.barrier\n");
    transpose = "transpose_lhs" + transpose;
  }
  text = replace(text, "TRANSPOSE", transpose);
  bool isReversed = form == "transposed";
  int64_t aRows = isReversed ? p.k : 64, aColumns = isReversed ? 64 : p.k;
  int64_t bRows = p.transposeRhs ? p.n : p.k, bColumns = p.transposeRhs ? p.k : p.n;
  auto getBytes = [](int64_t rows, int64_t columns) {
    return (rows * 128 * ((columns + 63) / 64) + 1023) / 1024 * 1024;
  };
  int64_t offset = getBytes(aRows, aColumns), stored = offset + getBytes(bRows, bColumns);
  lower(fill(text, {{"N", p.n},
                    {"K", p.k},
                    {"AR", aRows},
                    {"AC", aColumns},
                    {"BR", bRows},
                    {"BC", bColumns},
                    {"OFFSET", offset},
                    {"STORED", stored},
                    {"BYTES", stored + getBytes(p.k, 64)}}));
  if (HasFatalFailure())
    return;
  std::vector<Bf16> a = makeData(64 * p.k, 11), b = makeData(p.n * p.k, 12);
  std::vector<float> c(64 * p.n);
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = i % 7;
  std::vector<float> start = c;
  run({Argument::buffer(a), Argument::buffer(b), Argument::buffer(c)});
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = start[i * p.n + j];
      for (int64_t k = 0; k < p.k; ++k)
        sum += toFloat(a[isReversed ? k * 64 + i : i * p.k + k]) *
               toFloat(b[p.transposeRhs ? j * p.k + k : k * p.n + j]);
      ASSERT_EQ(c[i * p.n + j], sum) << i << ", " << j;
    }
  assemble();
}

INSTANTIATE_TEST_SUITE_P(Forms, Operands,
                         ::testing::Values(OperandCase{"registers", true, 64, 144},
                                           OperandCase{"registers", false, 128, 64},
                                           OperandCase{"registers", false, 256, 16},
                                           OperandCase{"transposed", true, 32, 64},
                                           OperandCase{"transposed", false, 64, 80},
                                           OperandCase{"stored", true, 16, 16},
                                           OperandCase{"stored", false, 192, 128}));

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

TEST_F(Roles, PartialSumsAndRowVectorsInSharedMemory) {
  // Sums of rows through a partial and a linear tile; rows above 100 are negated
  // in the warps that have one.
  lower(fill(R"(
sm90.kernel @partial(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>)
    attributes {warpgroups = 2 : i32, shared_bytes = 256 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 40], strides: [40, 1]
      : memref<?xf32> to memref<64x40xf32, strided<[40, 1]>>
  %zv = memref.reinterpret_cast %z to offset: [0], sizes: [60, 40], strides: [40, 1]
      : memref<?xf32> to memref<60x40xf32, strided<[40, 1]>>
  %tile = sm90.alloc offset 0 : !sm90.smem<1x64xf32, linear>
  sm90.role "sums" warpgroups 1 to 2 {
    %a = sm90.load %xv[%c0, %c0] : memref<64x40xf32, strided<[40, 1]>> -> tensor<64x40xf32, #f1>
    %zero = arith.constant dense<0.0> : tensor<64x4xf32, #sm90.partial>
    %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %zero) -> (tensor<64x4xf32, #sm90.partial>) {
      %s = sm90.reduce sum %a : tensor<64x40xf32, #f1> -> tensor<64x4xf32, #sm90.partial>
      %next = arith.addf %acc, %s : tensor<64x4xf32, #sm90.partial>
      scf.yield %next : tensor<64x4xf32, #sm90.partial>
    } {sm90.at_least_once}
    %lane = sm90.iota 1 : tensor<64x4xi32, #sm90.partial>
    %lanef = arith.sitofp %lane : tensor<64x4xi32, #sm90.partial> to tensor<64x4xf32, #sm90.partial>
    %row = sm90.iota 0 : tensor<64xi32, #sm90.rows>
    %rowf = arith.sitofp %row : tensor<64xi32, #sm90.rows> to tensor<64xf32, #sm90.rows>
    %rowp = sm90.broadcast %rowf : tensor<64xf32, #sm90.rows> -> tensor<64x4xf32, #sm90.partial>
    %t0 = arith.addf %sum, %lanef : tensor<64x4xf32, #sm90.partial>
    %t1 = arith.addf %t0, %rowp : tensor<64x4xf32, #sm90.partial>
    %r = sm90.reduce sum %t1 : tensor<64x4xf32, #sm90.partial> -> tensor<64xf32, #sm90.rows>
    sm90.store_shared %r, %tile : tensor<64xf32, #sm90.rows>, !sm90.smem<1x64xf32, linear>
    sm90.barrier
    %s = sm90.load_shared %tile : !sm90.smem<1x64xf32, linear> -> tensor<64xf32, #sm90.rows>
    sm90.store %s, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
    %limit = arith.constant dense<100.0> : tensor<64xf32, #sm90.rows>
    %isBig = arith.cmpf ogt, %s, %limit : tensor<64xf32, #sm90.rows>
    %any = sm90.warp_any %isBig : tensor<64xi1, #sm90.rows>
    %b = scf.if %any -> (tensor<64x40xf32, #f1>) {
      %n = arith.negf %a : tensor<64x40xf32, #f1>
      scf.yield %n : tensor<64x40xf32, #f1>
    } else {
      scf.yield %a : tensor<64x40xf32, #f1>
    }
    sm90.store %b, %zv[%c0, %c0] : tensor<64x40xf32, #f1>, memref<60x40xf32, strided<[40, 1]>>
  }
  sm90.return
})",
             {}));
  std::vector<float> x(64 * 40), y(64, -1), z(60 * 40, -1);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i / 40 == 37 ? 9 : int(i * 5 % 7) - 3;
  run({Argument::buffer(x), Argument::buffer(y), Argument::buffer(z)});
  std::vector<float> sums(64);
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 40; ++j)
      sums[i] += 3 * x[i * 40 + j];
    sums[i] += 0 + 1 + 2 + 3 + 4 * i;
    EXPECT_EQ(y[i], sums[i]) << i;
  }
  for (int64_t i = 0; i < 60; ++i) {
    bool any = std::any_of(&sums[i / 16 * 16], &sums[i / 16 * 16] + 16,
                           [](float sum) { return sum > 100; });
    for (int64_t j = 0; j < 40; ++j)
      EXPECT_EQ(z[i * 40 + j], any ? -x[i * 40 + j] : x[i * 40 + j]) << i << ", " << j;
  }
  assemble();
}

TEST_F(Roles, ColumnsAndTransposedStores) {
  // y[j, i] = x[i, j] - max_i x[i, j] + j, only 40 of 48 columns of x exist; m the
  // maxima.
  lower(fill(R"(
sm90.kernel @columns(%x: memref<?xbf16>, %y: memref<?xbf16>, %m: memref<?xf32>, %rows: index)
    attributes {warpgroups = 3 : i32, shared_bytes = 1024 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 40], strides: [40, 1]
      : memref<?xbf16> to memref<64x40xbf16, strided<[40, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [40, %rows], strides: [%rows, 1]
      : memref<?xbf16> to memref<40x?xbf16, strided<[?, 1]>>
  %mv = memref.reinterpret_cast %m to offset: [0], sizes: [40], strides: [1]
      : memref<?xf32> to memref<40xf32, strided<[1]>>
  %scratch = sm90.alloc offset 0 : !sm90.smem<4x48xf32, linear>
  sm90.role "columns" warpgroups 2 to 3 {
    %a = sm90.load %xv[%c0, %c0] : memref<64x40xbf16, strided<[40, 1]>> -> tensor<64x48xbf16, #f1>
    %f = arith.extf %a : tensor<64x48xbf16, #f1> to tensor<64x48xf32, #f1>
    %max = sm90.reduce max %f dim 0 scratch %scratch : !sm90.smem<4x48xf32, linear>
        : tensor<64x48xf32, #f1> -> tensor<48xf32, #sm90.columns>
    sm90.store %max, %mv[%c0] : tensor<48xf32, #sm90.columns>, memref<40xf32, strided<[1]>>
    %j = sm90.iota 0 : tensor<48xi32, #sm90.columns>
    %jf = arith.sitofp %j : tensor<48xi32, #sm90.columns> to tensor<48xf32, #sm90.columns>
    %shift = arith.subf %jf, %max : tensor<48xf32, #sm90.columns>
    %all = sm90.broadcast %shift : tensor<48xf32, #sm90.columns> -> tensor<64x48xf32, #f1>
    %r = arith.addf %f, %all : tensor<64x48xf32, #f1>
    %n = arith.truncf %r : tensor<64x48xf32, #f1> to tensor<64x48xbf16, #f1>
    sm90.store %n, %yv[%c0, %c0] transposed : tensor<64x48xbf16, #f1>, memref<40x?xbf16, strided<[?, 1]>>
  }
  sm90.return
})",
             {}));
  constexpr int64_t rows = 51;
  std::vector<Bf16> x = makeData(64 * 40, 13), y(40 * rows + 64, kNaN);
  std::vector<float> m(40 + 8, -1);
  run({Argument::buffer(x), Argument::buffer(y), Argument::buffer(m), Argument::index(rows)});
  for (int64_t j = 0; j < 40; ++j) {
    float top = -INFINITY;
    for (int64_t i = 0; i < 64; ++i)
      top = std::max(top, toFloat(x[i * 40 + j]));
    EXPECT_EQ(m[j], top) << j;
    for (int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(toFloat(y[j * rows + i]), toFloat(x[i * 40 + j]) - top + j) << i << ", " << j;
  }
  for (size_t i = 40 * rows; i < y.size(); ++i)
    EXPECT_EQ(y[i], kNaN);
  EXPECT_EQ(m[40], -1);
  assemble();
}

// Maxima of columns, which all warps hold, to a row of shared memory, and a vote of all threads.
TEST_F(Roles, ColumnsAreStoredAndVotedOn) {
  for (int64_t beyond : {-1, 0, 13, 63}) {
    lower(fill(R"(
sm90.kernel @columns(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xi32>)
    attributes {warpgroups = 2 : i32, shared_bytes = 1280 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 64], strides: [64, 1]
      : memref<?xf32> to memref<64x64xf32, strided<[64, 1]>>
  %scratch = sm90.alloc offset 0 : !sm90.smem<4x64xf32, linear>
  %row = sm90.alloc offset 1024 : !sm90.smem<1x64xf32, linear>
  sm90.role "idle" warpgroups 0 to 1 {
  }
  sm90.role "math" warpgroups 1 to 2 {
    %t = sm90.load %xv[%c0, %c0] : memref<64x64xf32, strided<[64, 1]>> -> tensor<64x64xf32, #f1>
    %m = sm90.reduce max %t dim 0 scratch %scratch : !sm90.smem<4x64xf32, linear>
        : tensor<64x64xf32, #f1> -> tensor<64xf32, #sm90.columns>
    sm90.store_shared %m, %row : tensor<64xf32, #sm90.columns>, !sm90.smem<1x64xf32, linear>
    %limit = arith.constant dense<100.0> : tensor<64x64xf32, #f1>
    %isBig = arith.cmpf ugt, %t, %limit : tensor<64x64xf32, #f1>
    %any = sm90.role_any %isBig : tensor<64x64xi1, #f1>
    %word = arith.extui %any : i1 to i32
    %votes = sm90.splat %word : i32 -> tensor<64xi32, #sm90.rows>
    sm90.store %votes, %z[%c0] : tensor<64xi32, #sm90.rows>, memref<?xi32>
    %rows = sm90.load_shared %row : !sm90.smem<1x64xf32, linear> -> tensor<64xf32, #sm90.rows>
    sm90.store %rows, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  }
  sm90.return
})",
               {}));
    std::vector<float> x(64 * 64), y(64, -1);
    std::vector<int32_t> z(64, -1);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<int64_t>(i / 64) == beyond && i % 64 == 17 ? 1000 : int(i * 5 % 7) - 3;
    run({Argument::buffer(x), Argument::buffer(y), Argument::buffer(z)});
    for (int64_t j = 0; j < 64; ++j) {
      float most = x[j];
      for (int64_t i = 0; i < 64; ++i)
        most = std::max(most, x[i * 64 + j]);
      EXPECT_EQ(y[j], most) << beyond << ", " << j;
    }
    for (int32_t vote : z)
      EXPECT_EQ(vote, beyond >= 0) << beyond;
  }
  assemble();
}

// Rows of four numbers, one copy each, of a list; a column of them for each row.
TEST_F(Roles, RowsOfALinearTileComeByColumns) {
  lower(fill(R"(
sm90.kernel @scales(%x: memref<?xf32>, %list: memref<?xi32>, %y: memref<?xf32>)
    attributes {warpgroups = 2 : i32, shared_bytes = 1024 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [4], sizes: [100, 4], strides: [12, 1]
      : memref<?xf32> to memref<100x4xf32, strided<[12, 1], offset: 4>>
  %tile = sm90.alloc offset 0 : !sm90.smem<64x4xf32, linear>
  sm90.role "copy" warpgroups 1 to 2 {
    sm90.copy_rows %xv[%list at %c0, %c0] to %tile vector_bytes 16
        : memref<100x4xf32, strided<[12, 1], offset: 4>>, memref<?xi32>, !sm90.smem<64x4xf32, linear>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    %s = sm90.load_shared %tile column 3 : !sm90.smem<64x4xf32, linear> -> tensor<64xf32, #sm90.rows>
    sm90.store %s, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  }
  sm90.return
})",
             {}));
  std::vector<float> x(1204), y(64, -1);
  std::vector<int32_t> list(64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 1 + i;
  for (int32_t i = 0; i < 64; ++i)
    list[i] = i % 9 == 5 ? -1 : i * 37 % 100;
  run({Argument::buffer(x), Argument::buffer(list), Argument::buffer(y)});
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(y[i], list[i] < 0 ? 0 : x[4 + 12 * list[i] + 3]) << i;
  assemble();
}

// A linear row of 24 elements: each thread has those of its columns.
TEST_F(Roles, A47_ColumnsComeFromALinearTile) {
  lower(fill(R"(
sm90.kernel @scales(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {warpgroups = 2 : i32, shared_bytes = 1024 : i64} {
  %c0 = arith.constant 0 : index
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 24], strides: [24, 1]
      : memref<?xf32> to memref<64x24xf32, strided<[24, 1]>>
  %tile = sm90.alloc offset 256 : !sm90.smem<1x24xf32, linear>
  sm90.role "read" warpgroups 1 to 2 {
    %a = sm90.load %x[%c0] : memref<?xf32> -> tensor<24xf32, #sm90.columns>
    sm90.store_shared %a, %tile : tensor<24xf32, #sm90.columns>, !sm90.smem<1x24xf32, linear>
    sm90.barrier
    %s = sm90.load_shared %tile : !sm90.smem<1x24xf32, linear> -> tensor<24xf32, #sm90.columns>
    %all = sm90.broadcast %s : tensor<24xf32, #sm90.columns> -> tensor<64x24xf32, #f1>
    sm90.store %all, %yv[%c0, %c0] : tensor<64x24xf32, #f1>, memref<64x24xf32, strided<[24, 1]>>
  }
  sm90.return
})",
             {}));
  std::vector<float> x(24), y(64 * 24, -1);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 1 + i;
  run({Argument::buffer(x), Argument::buffer(y)});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], x[i % 24]) << i;
  assemble();
}

TEST_F(Roles, LastRowsOfATileBecomeZero) {
  for (int64_t first : {-3, 0, 13, 64, 70}) {
    lower(fill(R"(
sm90.kernel @zero(%x: memref<?xbf16>, %y: memref<?xbf16>, %first: index)
    attributes {warpgroups = 3 : i32, shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [64, 96], strides: [96, 1]
      : memref<?xbf16> to memref<64x96xbf16, strided<[96, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 96], strides: [96, 1]
      : memref<?xbf16> to memref<64x96xbf16, strided<[96, 1]>>
  %tile = sm90.alloc offset 0 : !sm90.smem<64x96xbf16>
  sm90.role "zero" warpgroups 1 to 3 {
    sm90.copy %xv[%c0, %c0] to %tile vector_bytes 16
        : memref<64x96xbf16, strided<[96, 1]>>, !sm90.smem<64x96xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    sm90.zero_rows %tile from %first : !sm90.smem<64x96xbf16>
    sm90.barrier
    %t = sm90.load_shared %tile : !sm90.smem<64x96xbf16> -> tensor<64x96xbf16, #f1>
    sm90.store %t, %yv[%c0, %c0] paired : tensor<64x96xbf16, #f1>, memref<64x96xbf16, strided<[96, 1]>>
  }
  sm90.return
})",
               {}));
    std::vector<Bf16> x = makeData(64 * 96, 14), y(64 * 96, kNaN);
    run({Argument::buffer(x), Argument::buffer(y), Argument::index(first)});
    for (int64_t i = 0; i < 64 * 96; ++i)
      ASSERT_EQ(y[i], i / 96 >= first ? 0 : x[i]) << first << ": " << i / 96 << ", " << i % 96;
  }
  assemble();
}

//===----------------------------------------------------------------------===//
// A pipeline
//===----------------------------------------------------------------------===//

/// Opcodes of a cubin's instructions. An instruction of sm_90 is 16 bytes, its
/// opcode the low 12 bits (nvdisasm shows the words beside the names).
std::vector<unsigned> getOpcodes(llvm::ArrayRef<char> cubin) {
  std::vector<unsigned> opcodes;
  for (size_t at = 0; at + 16 <= cubin.size(); at += 16)
    opcodes.push_back((uint8_t(cubin[at]) | uint8_t(cubin[at + 1]) << 8) & 0xFFF);
  return opcodes;
}

TEST_F(Roles, PipelineAssemblesCleanly) {
  // Keys come by TMA through a ring; one warpgroup scores them with queries in
  // registers and passes weights through a signal ring to one that multiplies
  // them with the keys; 256 columns of accumulator at 168 registers.
  lower(fill(R"(
!keys = !sm90.ring<stages = 2, parts = 1, tiles = [!sm90.smem<64x256xbf16>]>
!weights = !sm90.ring<stages = 1, parts = 1, tiles = [!sm90.smem<64x64xbf16>]>
sm90.kernel @pipeline(%q: memref<?xbf16>, %k: memref<?xbf16>, %out: memref<?xf32>, %n: index, %scale: f32)
    attributes {warpgroups = 3 : i32, shared_bytes = 107520 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %rows = arith.muli %n, %c64 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [64, 256], strides: [256, 1]
      : memref<?xbf16> to memref<64x256xbf16, strided<[256, 1]>>
  %kv = memref.reinterpret_cast %k to offset: [0], sizes: [%rows, 256], strides: [256, 1]
      : memref<?xbf16> to memref<?x256xbf16, strided<[256, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [64, 256], strides: [256, 1]
      : memref<?xf32> to memref<64x256xf32, strided<[256, 1]>>
  %map = sm90.tensor_map %kv : memref<?x256xbf16, strided<[256, 1]>> -> !sm90.tensor_map<64x64xbf16>
  %qtile = sm90.alloc offset 73728 : !sm90.smem<64x256xbf16>
  %keys = sm90.ring "keys" full_count 1 empty_count 8 offset 0 barrier_offset 106496 : !keys
  %weights = sm90.ring "weights" full_count 4 empty_count 4 offset 65536 barrier_offset 106528 : !weights
  sm90.role "load" warpgroups 0 to 1 registers 24 {
    sm90.elect {
      %s0 = sm90.stage_start
      %s = scf.for %i = %c0 to %n step %c1 iter_args(%st = %s0) -> (!sm90.stage) {
        sm90.acquire %keys[%st] : !keys
        %t = sm90.stage_tile %keys[%st] tile 0 : !keys -> !sm90.smem<64x256xbf16>
        sm90.expect %keys[%st] part 0 bytes 32768 : !keys
        %row = arith.muli %i, %c64 : index
        sm90.tma_load %map[%row, %c0] to %t signals %keys[%st] part 0
            : !sm90.tensor_map<64x64xbf16>, !sm90.smem<64x256xbf16>, !keys
        %next = sm90.stage_next %st of %keys : !keys
        scf.yield %next : !sm90.stage
      }
    }
  }
  sm90.role "scores" warpgroups 1 to 2 registers 240 {
    sm90.copy %qv[%c0, %c0] to %qtile vector_bytes 16
        : memref<64x256xbf16, strided<[256, 1]>>, !sm90.smem<64x256xbf16>
    sm90.copy_commit
    sm90.copy_wait 0
    sm90.barrier
    %a = sm90.load_shared %qtile : !sm90.smem<64x256xbf16> -> tensor<64x256xbf16, #f1>
    %s0 = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #f1>
    %sc = sm90.splat %scale : f32 -> tensor<64x64xf32, #f1>
    %ks, %ws = scf.for %i = %c0 to %n step %c1 iter_args(%ks = %s0, %ws = %s0) -> (!sm90.stage, !sm90.stage) {
      sm90.await %keys[%ks] part 0 : !keys
      %t = sm90.stage_tile %keys[%ks] tile 0 : !keys -> !sm90.smem<64x256xbf16>
      sm90.wgmma_fence
      %p0 = sm90.wgmma %a, %t, %zero transpose_rhs : tensor<64x256xbf16, #f1>, !sm90.smem<64x256xbf16> -> tensor<64x64xf32, #f1>
      sm90.wgmma_commit
      %p1 = sm90.wgmma_wait 0, %p0 : tensor<64x64xf32, #f1>
      sm90.release %keys[%ks] : !keys
      %scaled = arith.mulf %p1, %sc : tensor<64x64xf32, #f1>
      %w = math.exp2 %scaled : tensor<64x64xf32, #f1>
      %w16 = arith.truncf %w : tensor<64x64xf32, #f1> to tensor<64x64xbf16, #f1>
      sm90.acquire %weights[%ws] : !weights
      %wt = sm90.stage_tile %weights[%ws] tile 0 : !weights -> !sm90.smem<64x64xbf16>
      sm90.store_shared %w16, %wt : tensor<64x64xbf16, #f1>, !sm90.smem<64x64xbf16>
      sm90.proxy_fence
      sm90.publish %weights[%ws] part 0 : !weights
      %kn = sm90.stage_next %ks of %keys : !keys
      %wn = sm90.stage_next %ws of %weights : !weights
      scf.yield %kn, %wn : !sm90.stage, !sm90.stage
    } {sm90.at_least_once}
  }
  sm90.role "values" warpgroups 2 to 3 registers 240 {
    %s0 = sm90.stage_start
    %zero = arith.constant dense<0.0> : tensor<64x256xf32, #f1>
    %ks, %ws, %o = scf.for %i = %c0 to %n step %c1 iter_args(%ks = %s0, %ws = %s0, %acc = %zero) -> (!sm90.stage, !sm90.stage, tensor<64x256xf32, #f1>) {
      sm90.await %weights[%ws] part 0 : !weights
      %wt = sm90.stage_tile %weights[%ws] tile 0 : !weights -> !sm90.smem<64x64xbf16>
      %t = sm90.stage_tile %keys[%ks] tile 0 : !keys -> !sm90.smem<64x256xbf16>
      sm90.wgmma_fence
      %p0 = sm90.wgmma %wt, %t, %acc : !sm90.smem<64x64xbf16>, !sm90.smem<64x256xbf16> -> tensor<64x256xf32, #f1>
      sm90.wgmma_commit
      %p1 = sm90.wgmma_wait 0, %p0 : tensor<64x256xf32, #f1>
      sm90.release %keys[%ks] : !keys
      sm90.release %weights[%ws] : !weights
      %kn = sm90.stage_next %ks of %keys : !keys
      %wn = sm90.stage_next %ws of %weights : !weights
      scf.yield %kn, %wn, %p1 : !sm90.stage, !sm90.stage, tensor<64x256xf32, #f1>
    } {sm90.at_least_once}
    sm90.store %o, %ov[%c0, %c0] paired : tensor<64x256xf32, #f1>, memref<64x256xf32, strided<[256, 1]>>
  }
  sm90.return
})",
             {}));
  assemble();
  if (HasFatalFailure())
    return;
  const CompiledKernel &kernel = compiled.kernels[0];
  for (const char *part : {"cp.async.bulk.tensor.2d.shared::cta", "mbarrier.try_wait",
                           "setmaxnreg.inc.sync.aligned.u32 \t240", "stmatrix", "ldmatrix",
                           "wgmma.mma_async.sync.aligned.m64n256k16"})
    EXPECT_NE(kernel.ptx.find(part), std::string::npos) << part;
  if (kernel.cubin.empty())
    return;
  EXPECT_EQ(kernel.report.registers, 168u); // 65536 / 384
  // HGMMA with lhs in shared memory and in registers, UTMALDG.
  constexpr unsigned sharedProduct = 0x9F0, registerProduct = 0xDF0, load = 0x5B4;
  std::vector<unsigned> opcodes = getOpcodes(kernel.cubin);
  EXPECT_EQ(llvm::count(opcodes, sharedProduct), 64 / 16);
  EXPECT_EQ(llvm::count(opcodes, registerProduct), 256 / 16);
  EXPECT_EQ(llvm::count(opcodes, load), 256 / 64);
}

} // namespace
