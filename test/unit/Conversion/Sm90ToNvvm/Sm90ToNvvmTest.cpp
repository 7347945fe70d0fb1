//===- Sm90ToNvvmTest.cpp - lowered kernels compute what they say ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels go through convert-sm90-to-nvvm and run in the emulator; those that
// use tensor cores also go on to a cubin, where the machine has an assembler.
// Inputs are small integers, so that products and sums are exact.
//
//===----------------------------------------------------------------------===//

#include "Fixture.h"

#include <cmath>
#include <numeric>

using namespace mlac;
using namespace mlac::sm90test;

namespace {

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

struct GemmCase {
  int64_t warpgroups, split, n, k, vectorBytes;
  bool transpose;
  int64_t rows, columns; // of the result that exist
};

class Gemm : public Sm90ToNvvmTest, public ::testing::WithParamInterface<GemmCase> {};

// C[m, n] = A[m, :] * B, with B stored [n, k] (transposed) or [k, n].
constexpr const char *kGemm = R"(
sm90.kernel @gemm(%a: memref<?xbf16>, %b: memref<?xbf16>, %c: memref<?xf32>, %m: index, %n: index)
    attributes {warpgroups = $W$ : i32, shared_bytes = $BYTES$ : i64} {
  %c0 = arith.constant 0 : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [%m, $K$], strides: [$LDA$, 1]
      : memref<?xbf16> to memref<?x$K$xbf16, strided<[$LDA$, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [$OFFB$], sizes: BSIZES, strides: [$LDB$, 1]
      : memref<?xbf16> to memref<BTYPExbf16, strided<[$LDB$, 1], offset: $OFFB$>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [%m, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %sa = sm90.alloc offset 0 : !sm90.smem<64x$K$xbf16>
  %sb = sm90.alloc offset $OFFSET$ : !sm90.smem<$BR$x$BC$xbf16>
  sm90.copy %av[%c0, %c0] to %sa vector_bytes $V$
      : memref<?x$K$xbf16, strided<[$LDA$, 1]>>, !sm90.smem<64x$K$xbf16>
  sm90.copy %bv[%c0, %c0] to %sb vector_bytes $V$
      : memref<BTYPExbf16, strided<[$LDB$, 1], offset: $OFFB$>>, !sm90.smem<$BR$x$BC$xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.proxy_fence
  sm90.barrier
  %zero = arith.constant dense<0.0> : tensor<64x$N$xf32, #f$S$>
  sm90.wgmma_fence
  %p = sm90.wgmma %sa, %sb, %zero TRANSPOSE
      : !sm90.smem<64x$K$xbf16>, !sm90.smem<$BR$x$BC$xbf16> -> tensor<64x$N$xf32, #f$S$>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x$N$xf32, #f$S$>
  sm90.store %r, %cv[%c0, %c0] : tensor<64x$N$xf32, #f$S$>, memref<?x?xf32, strided<[?, 1]>>
  sm90.return
})";

std::string replace(std::string text, const std::string &from, const std::string &to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;)
    text.replace(at, from.size(), to);
  return text;
}

TEST_P(Gemm, EqualsTheProduct) {
  const GemmCase &p = GetParam();
  int64_t panels = (p.k + 63) / 64, bRows = p.transpose ? p.n : p.k,
          bColumns = p.transpose ? p.k : p.n;
  // Leading dimensions keep the promised alignment and no more.
  int64_t pad = p.vectorBytes / 2, lda = (p.k + pad - 1) / pad * pad + pad,
          ldb = (bColumns + pad - 1) / pad * pad + pad;
  int64_t bytes = 64 * 128 * panels + bRows * 128 * ((bColumns + 63) / 64);
  std::string text = kGemm;
  text = replace(text, "BSIZES", p.transpose ? "[%n, $K$]" : "[$K$, %n]");
  text = replace(text, "BTYPE", p.transpose ? "?x$K$" : "$K$x?");
  text = replace(text, "TRANSPOSE", p.transpose ? "transpose_rhs" : "");
  lower(fill(text, {{"W", p.warpgroups},
                    {"S", p.split},
                    {"N", p.n},
                    {"K", p.k},
                    {"V", p.vectorBytes},
                    {"LDA", lda},
                    {"LDB", ldb},
                    {"OFFB", pad},
                    {"OFFSET", 64 * 128 * panels},
                    {"BYTES", bytes},
                    {"BR", bRows},
                    {"BC", bColumns}}));
  if (HasFatalFailure())
    return;
  std::vector<Bf16> a = makeData(64 * lda, 1), b = makeData(bRows * ldb + pad, 2);
  std::vector<float> c(p.rows * p.columns, -1);
  run({Argument::buffer(a), Argument::buffer(b), Argument::buffer(c), Argument::index(p.rows),
       Argument::index(p.columns)});
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.columns; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum +=
            toFloat(a[i * lda + k]) * toFloat(b[pad + (p.transpose ? j * ldb + k : k * ldb + j)]);
      ASSERT_EQ(c[i * p.columns + j], sum) << i << ", " << j;
    }
  assemble();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Gemm,
    ::testing::Values(
        // K-major B: ragged edges, every vector width, splits, redundant groups.
        GemmCase{1, 1, 64, 64, 16, true, 64, 64}, GemmCase{1, 1, 64, 64, 2, true, 63, 61},
        GemmCase{1, 1, 8, 16, 4, true, 1, 1}, GemmCase{1, 1, 40, 48, 8, true, 17, 39},
        GemmCase{2, 2, 128, 80, 16, true, 64, 128}, GemmCase{2, 1, 72, 128, 16, true, 5, 70},
        GemmCase{1, 1, 256, 192, 16, true, 64, 255}, GemmCase{2, 2, 512, 64, 16, true, 64, 512},
        GemmCase{2, 2, 16, 576, 16, true, 64, 16},
        // MN-major B.
        GemmCase{1, 1, 64, 64, 16, false, 64, 64}, GemmCase{1, 1, 64, 16, 2, false, 64, 33},
        GemmCase{1, 1, 40, 32, 4, false, 9, 40}, GemmCase{2, 2, 256, 64, 16, false, 64, 250},
        GemmCase{2, 2, 512, 64, 16, false, 64, 512}, GemmCase{1, 1, 192, 128, 8, false, 64, 185},
        GemmCase{2, 1, 256, 80, 16, false, 64, 256}));

//===----------------------------------------------------------------------===//
// One block of attention over a paged cache
//===----------------------------------------------------------------------===//

struct AttentionCase {
  int64_t warpgroups, pageSize, token, limit;
};

class Attention : public Sm90ToNvvmTest, public ::testing::WithParamInterface<AttentionCase> {};

// S = Q K^T, P = exp2(S - max S), O = P V / sum P with V the first 128 columns
// of K; also LSE's parts. Q and K have 144 columns.
constexpr const char *kAttention = R"(
sm90.kernel @attention(%q: memref<?xbf16>, %pool: memref<?xbf16>, %table: memref<?xi32>,
                       %out: memref<?xf32>, %sums: memref<?xf32>, %rows: index, %pages: index,
                       %token: index, %limit: index, %scale: f32)
    attributes {warpgroups = $W$ : i32, shared_bytes = 58368 : i64} {
  %c0 = arith.constant 0 : index
  %qv = memref.reinterpret_cast %q to offset: [0], sizes: [%rows, 144], strides: [144, 1]
      : memref<?xbf16> to memref<?x144xbf16, strided<[144, 1]>>
  %kv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, $P$, 144], strides: [$PS$, 144, 1]
      : memref<?xbf16> to memref<?x$P$x144xbf16, strided<[$PS$, 144, 1]>>
  %ov = memref.reinterpret_cast %out to offset: [0], sizes: [%rows, 128], strides: [128, 1]
      : memref<?xf32> to memref<?x128xf32, strided<[128, 1]>>
  %lv = memref.reinterpret_cast %sums to offset: [0], sizes: [%rows], strides: [1]
      : memref<?xf32> to memref<?xf32, strided<[1]>>
  %sq = sm90.alloc offset 0 : !sm90.smem<64x144xbf16>
  %sk = sm90.alloc offset 24576 : !sm90.smem<64x144xbf16>
  %sp = sm90.alloc offset 49152 : !sm90.smem<64x64xbf16>
  sm90.copy %qv[%c0, %c0] to %sq vector_bytes 16
      : memref<?x144xbf16, strided<[144, 1]>>, !sm90.smem<64x144xbf16>
  sm90.copy_paged %kv[%table at %token, %c0] limit %limit to %sk vector_bytes 16
      : memref<?x$P$x144xbf16, strided<[$PS$, 144, 1]>>, memref<?xi32>, !sm90.smem<64x144xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.proxy_fence
  sm90.barrier
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #f$W$>
  sm90.wgmma_fence
  %s0 = sm90.wgmma %sq, %sk, %zero transpose_rhs
      : !sm90.smem<64x144xbf16>, !sm90.smem<64x144xbf16> -> tensor<64x64xf32, #f$W$>
  sm90.wgmma_commit
  %s1 = sm90.wgmma_wait 0, %s0 : tensor<64x64xf32, #f$W$>
  %sc = sm90.splat %scale : f32 -> tensor<64x64xf32, #f$W$>
  %s2 = arith.mulf %s1, %sc : tensor<64x64xf32, #f$W$>
  // Tokens at or above the limit are masked.
  %left = arith.subi %limit, %token : index
  %left32 = arith.index_cast %left : index to i32
  %bound = sm90.splat %left32 : i32 -> tensor<64x64xi32, #f$W$>
  %column = sm90.iota 1 : tensor<64x64xi32, #f$W$>
  %seen = arith.cmpi slt, %column, %bound : tensor<64x64xi32, #f$W$>
  %minf = arith.constant dense<0xFF800000> : tensor<64x64xf32, #f$W$>
  %s = arith.select %seen, %s2, %minf : tensor<64x64xi1, #f$W$>, tensor<64x64xf32, #f$W$>
  %scratch = sm90.alloc offset 57344 : !sm90.smem<2x64xf32, linear>
  %scratch2 = sm90.alloc offset 57856 : !sm90.smem<2x64xf32, linear>
  %m = sm90.reduce max %s SCRATCH1 : tensor<64x64xf32, #f$W$> -> tensor<64xf32, #sm90.rows>
  %mb = sm90.broadcast %m : tensor<64xf32, #sm90.rows> -> tensor<64x64xf32, #f$W$>
  %d = arith.subf %s, %mb : tensor<64x64xf32, #f$W$>
  %p = math.exp2 %d : tensor<64x64xf32, #f$W$>
  %l = sm90.reduce sum %p SCRATCH2 : tensor<64x64xf32, #f$W$> -> tensor<64xf32, #sm90.rows>
  %p16 = arith.truncf %p : tensor<64x64xf32, #f$W$> to tensor<64x64xbf16, #f$W$>
  sm90.store_shared %p16, %sp : tensor<64x64xbf16, #f$W$>, !sm90.smem<64x64xbf16>
  sm90.proxy_fence
  sm90.barrier
  %sv = sm90.slice %sk[0] : !sm90.smem<64x144xbf16> -> !sm90.smem<64x128xbf16>
  %zero2 = arith.constant dense<0.0> : tensor<64x128xf32, #f$W$>
  sm90.wgmma_fence
  %o0 = sm90.wgmma %sp, %sv, %zero2
      : !sm90.smem<64x64xbf16>, !sm90.smem<64x128xbf16> -> tensor<64x128xf32, #f$W$>
  sm90.wgmma_commit
  %o1 = sm90.wgmma_wait 0, %o0 : tensor<64x128xf32, #f$W$>
  %lb = sm90.broadcast %l : tensor<64xf32, #sm90.rows> -> tensor<64x128xf32, #f$W$>
  %o = arith.divf %o1, %lb : tensor<64x128xf32, #f$W$>
  sm90.store %o, %ov[%c0, %c0] paired : tensor<64x128xf32, #f$W$>, memref<?x128xf32, strided<[128, 1]>>
  sm90.store %l, %lv[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32, strided<[1]>>
  sm90.return
})";

TEST_P(Attention, EqualsTheFormula) {
  const AttentionCase &c = GetParam();
  constexpr int64_t width = 144, valueWidth = 128, rows = 50, pages = 40;
  const float scale = 0.0625f;
  int64_t pageStride = c.pageSize * width + 16;
  std::string text = kAttention;
  for (const char *which : {"1", "2"})
    text =
        replace(text, std::string("SCRATCH") + which,
                c.warpgroups == 1 ? ""
                                  : std::string("scratch %scratch") + (*which == '1' ? "" : "2") +
                                        " : !sm90.smem<2x64xf32, linear>");
  lower(fill(text, {{"W", c.warpgroups}, {"P", c.pageSize}, {"PS", pageStride}}));
  if (HasFatalFailure())
    return;
  std::vector<Bf16> q = makeData(rows * width, 3), pool(pages * pageStride, kNaN);
  std::vector<Bf16> keys = makeData(c.limit * width, 4);
  // Pages lie backwards; unused rows are NaN, unused table entries absurd.
  std::vector<int32_t> table((c.limit + 64) / c.pageSize + 2, 0x7FFFFFF0);
  for (int64_t t = 0; t < c.limit; ++t) {
    table[t / c.pageSize] = pages - 1 - t / c.pageSize;
    std::copy_n(&keys[t * width], width,
                &pool[table[t / c.pageSize] * pageStride + t % c.pageSize * width]);
  }
  std::vector<float> out(rows * valueWidth, -1), sums(rows, -1);
  run({Argument::buffer(q), Argument::buffer(pool), Argument::buffer(table), Argument::buffer(out),
       Argument::buffer(sums), Argument::index(rows), Argument::index(pages),
       Argument::index(c.token), Argument::index(c.limit), Argument::f32(scale)});

  int64_t count = std::min<int64_t>(64, c.limit - c.token);
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<double> s(count);
    double top = -INFINITY, sum = 0;
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t d = 0; d < width; ++d)
        s[t] += toFloat(q[i * width + d]) * toFloat(keys[(c.token + t) * width + d]);
      top = std::max(top, s[t] *= scale);
    }
    for (double &value : s)
      sum += value = std::exp2(value - top);
    ASSERT_NEAR(sums[i], sum, 1e-5 * sum) << i;
    for (int64_t j = 0; j < valueWidth; ++j) {
      double o = 0;
      for (int64_t t = 0; t < count; ++t)
        o += s[t] * toFloat(keys[(c.token + t) * width + j]);
      // P is rounded to bf16: 2^-9 of values up to 4.
      ASSERT_NEAR(out[i * valueWidth + j], o / sum, 4.0 / 512) << i << ", " << j;
    }
  }
  assemble();
}

INSTANTIATE_TEST_SUITE_P(Pages, Attention,
                         ::testing::Values(AttentionCase{1, 64, 0, 64},
                                           AttentionCase{1, 64, 32, 65},
                                           AttentionCase{1, 16, 5, 70}, AttentionCase{2, 1, 3, 30},
                                           AttentionCase{2, 128, 100, 190},
                                           AttentionCase{2, 24, 64, 128}));

//===----------------------------------------------------------------------===//
// Fragments and global memory
//===----------------------------------------------------------------------===//

TEST_F(Sm90ToNvvmTest, LoadsStoresAndLoopsCarryFragments) {
  // y[r, c] = steps * (x[r, 2c] + gamma[c]) + r - c, over strided and broadcast
  // views; the loop and the branch carry fragments.
  lower(fill(R"(
sm90.kernel @loop(%x: memref<?xbf16>, %gamma: memref<?xbf16>, %y: memref<?xf32>, %rows: index,
                  %steps: index) attributes {warpgroups = 2 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 20], strides: [40, 2]
      : memref<?xbf16> to memref<?x20xbf16, strided<[40, 2]>>
  %gv = memref.reinterpret_cast %gamma to offset: [0], sizes: [%rows, 20], strides: [0, 1]
      : memref<?xbf16> to memref<?x20xbf16, strided<[0, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [%rows, 20], strides: [20, 1]
      : memref<?xf32> to memref<?x20xf32, strided<[20, 1]>>
  %a = sm90.load %xv[%c0, %c0] : memref<?x20xbf16, strided<[40, 2]>> -> tensor<64x24xbf16, #f1>
  %b = sm90.load %gv[%c0, %c0] paired : memref<?x20xbf16, strided<[0, 1]>> -> tensor<64x24xbf16, #f1>
  %af = arith.extf %a : tensor<64x24xbf16, #f1> to tensor<64x24xf32, #f1>
  %bf = arith.extf %b : tensor<64x24xbf16, #f1> to tensor<64x24xf32, #f1>
  %s = arith.addf %af, %bf : tensor<64x24xf32, #f1>
  %zero = arith.constant dense<0.0> : tensor<64x24xf32, #f1>
  %sum = scf.for %i = %c0 to %steps step %c1 iter_args(%acc = %zero) -> (tensor<64x24xf32, #f1>) {
    %next = arith.addf %acc, %s : tensor<64x24xf32, #f1>
    scf.yield %next : tensor<64x24xf32, #f1>
  }
  %r = sm90.iota 0 : tensor<64x24xi32, #f1>
  %c = sm90.iota 1 : tensor<64x24xi32, #f1>
  %d = arith.subi %r, %c : tensor<64x24xi32, #f1>
  %df = arith.sitofp %d : tensor<64x24xi32, #f1> to tensor<64x24xf32, #f1>
  %any = arith.cmpi sgt, %steps, %c0 : index
  %t = scf.if %any -> (tensor<64x24xf32, #f1>) {
    %u = arith.addf %sum, %df : tensor<64x24xf32, #f1>
    scf.yield %u : tensor<64x24xf32, #f1>
  } else {
    scf.yield %df : tensor<64x24xf32, #f1>
  }
  sm90.store %t, %yv[%c0, %c0] : tensor<64x24xf32, #f1>, memref<?x20xf32, strided<[20, 1]>>
  sm90.return
})",
             {}));
  constexpr int64_t rows = 37;
  std::vector<Bf16> x = makeData(rows * 40, 5), gamma = makeData(20, 6);
  for (int64_t steps : {0, 3}) {
    std::vector<float> y(rows * 20, -1);
    run({Argument::buffer(x), Argument::buffer(gamma), Argument::buffer(y), Argument::index(rows),
         Argument::index(steps)});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < 20; ++c)
        ASSERT_EQ(y[r * 20 + c],
                  steps * (toFloat(x[r * 40 + 2 * c]) + toFloat(gamma[c])) + float(r - c));
  }
  assemble();
}

TEST_F(Sm90ToNvvmTest, WholeColumnsAreThereOrZero) {
  // y[r, c] = x[c, 64 + r] + l[c]: all rows are inside, only the first %columns columns.
  // What is behind them is NaN and must not be read.
  lower(fill(R"(
sm90.kernel @transpose(%x: memref<?xf32>, %l: memref<?xf32>, %y: memref<?xf32>, %columns: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [128, %columns], strides: [1, 128]
      : memref<?xf32> to memref<128x?xf32, strided<[1, 128]>>
  %lv = memref.reinterpret_cast %l to offset: [0], sizes: [64, %columns], strides: [0, 1]
      : memref<?xf32> to memref<64x?xf32, strided<[0, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 24], strides: [24, 1]
      : memref<?xf32> to memref<64x24xf32, strided<[24, 1]>>
  %a = sm90.load %xv[%c64, %c0] : memref<128x?xf32, strided<[1, 128]>> -> tensor<64x24xf32, #f1>
  %b = sm90.load %lv[%c0, %c0] : memref<64x?xf32, strided<[0, 1]>> -> tensor<64x24xf32, #f1>
  %s = arith.addf %a, %b : tensor<64x24xf32, #f1>
  sm90.store %s, %yv[%c0, %c0] : tensor<64x24xf32, #f1>, memref<64x24xf32, strided<[24, 1]>>
  sm90.return
})",
             {}));
  for (int64_t columns : {0, 1, 19, 24}) {
    std::vector<float> x(24 * 128, NAN), l(24, NAN), y(64 * 24, -1);
    for (int64_t c = 0; c < columns; ++c) {
      l[c] = 1000.0f * c;
      for (int64_t r = 0; r < 64; ++r)
        x[c * 128 + 64 + r] = static_cast<float>(r);
    }
    run({Argument::buffer(x), Argument::buffer(l), Argument::buffer(y), Argument::index(columns)});
    for (int64_t r = 0; r < 64; ++r)
      for (int64_t c = 0; c < 24; ++c)
        ASSERT_EQ(y[r * 24 + c], c < columns ? r + 1000.0f * c : 0.0f) << r << " " << c;
  }
  assemble();
}

TEST_F(Sm90ToNvvmTest, ListsTablesAndSlotsAreRespected) {
  // Gathers by list into registers and shared memory, and scatters by slots.
  lower(fill(R"(
sm90.kernel @gather(%x: memref<?xbf16>, %ids: memref<?xi64>, %slots: memref<?xi64>,
                    %table: memref<?xi32>, %pool: memref<?xbf16>, %paged: memref<?xbf16>,
                    %xrows: index, %count: index, %pages: index, %limit: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 8192 : i64} {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%xrows, 24], strides: [24, 1]
      : memref<?xbf16> to memref<?x24xbf16, strided<[24, 1]>>
  %idv = memref.reinterpret_cast %ids to offset: [1], sizes: [%count], strides: [1]
      : memref<?xi64> to memref<?xi64, strided<[1], offset: 1>>
  %sv = memref.reinterpret_cast %slots to offset: [0], sizes: [%count], strides: [1]
      : memref<?xi64> to memref<?xi64, strided<[1]>>
  %pv = memref.reinterpret_cast %pool to offset: [0], sizes: [%pages, 6, 20], strides: [128, 20, 1]
      : memref<?xbf16> to memref<?x6x20xbf16, strided<[128, 20, 1]>>
  %gv = memref.reinterpret_cast %paged to offset: [0], sizes: [%count, 24], strides: [24, 1]
      : memref<?xbf16> to memref<?x24xbf16, strided<[24, 1]>>
  %a = sm90.load_rows %xv[%idv at %c2, %c2] : memref<?x24xbf16, strided<[24, 1]>>,
      memref<?xi64, strided<[1], offset: 1>> -> tensor<64x24xbf16, #f1>
  sm90.store_slots %a, %pv[%sv at %c0, %c0] paired : tensor<64x24xbf16, #f1>,
      memref<?x6x20xbf16, strided<[128, 20, 1]>>, memref<?xi64, strided<[1]>>
  sm90.barrier
  %b = sm90.load_paged %pv[%table at %c0, %c0] limit %limit : memref<?x6x20xbf16, strided<[128, 20, 1]>>,
      memref<?xi32> -> tensor<64x24xbf16, #f1>
  sm90.store %b, %gv[%c0, %c0] : tensor<64x24xbf16, #f1>, memref<?x24xbf16, strided<[24, 1]>>
  sm90.return
})",
             {}));
  constexpr int64_t xRows = 30, count = 40, pages = 5, limit = 23;
  std::vector<Bf16> x = makeData(xRows * 24, 7), pool(pages * 128, kNaN), paged(count * 24, kNaN);
  std::vector<int64_t> ids(count + 1), slots(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i + 1] = i * 7 % 35 - 2; // some negative, some past the end
    slots[i] = i % 11 == 3 ? -1 : i;
  }
  std::vector<int32_t> table{3, 1, 4, 0, 99999};
  run({Argument::buffer(x), Argument::buffer(ids), Argument::buffer(slots), Argument::buffer(table),
       Argument::buffer(pool), Argument::buffer(paged), Argument::index(xRows),
       Argument::index(count), Argument::index(pages), Argument::index(limit)});
  // What gather position i holds, by the ops' descriptions.
  auto gathered = [&](int64_t i, int64_t j) -> float {
    if (2 + i >= count)
      return 0;
    int64_t id = ids[1 + 2 + i];
    return id < 0 || id >= xRows || j + 2 >= 24 ? 0 : toFloat(x[id * 24 + j + 2]);
  };
  std::vector<Bf16> expected(pages * 128, kNaN);
  for (int64_t i = 0; i < count; ++i)
    if (slots[i] >= 0 && slots[i] < pages * 6)
      for (int64_t j = 0; j < 20; ++j)
        expected[slots[i] / 6 * 128 + slots[i] % 6 * 20 + j] = toBf16(gathered(i, j));
  EXPECT_EQ(pool, expected);
  for (int64_t t = 0; t < count; ++t)
    for (int64_t j = 0; j < 24; ++j) {
      Bf16 want = t < limit && j < 20 ? expected[table[t / 6] * 128 + t % 6 * 20 + j] : 0;
      ASSERT_EQ(paged[t * 24 + j], want) << t << ", " << j;
    }
  assemble();
}

TEST_F(Sm90ToNvvmTest, GapsOfListsAreFound) {
  lower(fill(R"(
sm90.kernel @gaps(%ids: memref<?xi32>, %y: memref<?xf32>, %rows: index, %count: index,
                  %blocks: index)
    attributes {warpgroups = 1 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %list = memref.reinterpret_cast %ids to offset: [0], sizes: [%count], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %n = arith.index_cast %rows : index to i32
  scf.for %block = %c0 to %blocks step %c1 {
    %first = arith.muli %block, %c64 : index
    %gap = sm90.has_gap %list[%first for 64] below %n : memref<?xi32, strided<[1]>>
    %yes = arith.constant 1.0 : f32
    %no = arith.constant 0.0 : f32
    %found = arith.select %gap, %yes, %no : f32
    %all = sm90.splat %found : f32 -> tensor<64xf32, #sm90.rows>
    sm90.store %all, %y[%first] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  }
  sm90.return
})",
             {}));
  // Each block has one gap, at an end or in the middle, or none; the last one has too few entries.
  const std::vector<std::pair<int64_t, int32_t>> gaps = {{-1, 0},         {0, -1},         {63, 20},
                                                         {31, INT32_MAX}, {32, INT32_MIN}, {-1, 0}};
  constexpr int64_t xRows = 20;
  auto blocks = static_cast<int64_t>(gaps.size()) + 1, count = blocks * 64 - 1;
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i)
    ids[i] = i * 7 % xRows;
  for (auto [block, gap] : llvm::enumerate(gaps))
    if (gap.first >= 0)
      ids[block * 64 + gap.first] = gap.second;
  std::vector<float> y(blocks * 64, -1);
  run({Argument::buffer(ids), Argument::buffer(y), Argument::index(xRows), Argument::index(count),
       Argument::index(blocks)});
  for (int64_t i = 0; i < blocks * 64; ++i) {
    bool hasGap = i / 64 == blocks - 1 || gaps[i / 64].first >= 0;
    ASSERT_EQ(y[i], hasGap ? 1 : 0) << i;
  }
}

TEST_F(Sm90ToNvvmTest, RowsAreCopiedByList) {
  // Copies rows by list, column stride 2 and element by element; a product with
  // the identity brings them back.
  lower(fill(R"(
sm90.kernel @rows(%x: memref<?xbf16>, %ids: memref<?xi32>, %eye: memref<?xbf16>,
                  %y: memref<?xf32>, %xrows: index, %count: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 16384 : i64} {
  %c0 = arith.constant 0 : index
  %xv = memref.reinterpret_cast %x to offset: [0], sizes: [%xrows, 30], strides: [64, 2]
      : memref<?xbf16> to memref<?x30xbf16, strided<[64, 2]>>
  %idv = memref.reinterpret_cast %ids to offset: [0], sizes: [%count], strides: [1]
      : memref<?xi32> to memref<?xi32, strided<[1]>>
  %ev = memref.reinterpret_cast %eye to offset: [0], sizes: [32, 32], strides: [32, 1]
      : memref<?xbf16> to memref<32x32xbf16, strided<[32, 1]>>
  %yv = memref.reinterpret_cast %y to offset: [0], sizes: [64, 32], strides: [32, 1]
      : memref<?xf32> to memref<64x32xf32, strided<[32, 1]>>
  %sx = sm90.alloc offset 0 : !sm90.smem<64x32xbf16>
  %se = sm90.alloc offset 8192 : !sm90.smem<32x32xbf16>
  sm90.copy_rows %xv[%idv at %c0, %c0] to %sx vector_bytes 2
      : memref<?x30xbf16, strided<[64, 2]>>, memref<?xi32, strided<[1]>>, !sm90.smem<64x32xbf16>
  sm90.copy %ev[%c0, %c0] to %se vector_bytes 16
      : memref<32x32xbf16, strided<[32, 1]>>, !sm90.smem<32x32xbf16>
  sm90.copy_commit
  sm90.copy_wait 0
  sm90.proxy_fence
  sm90.barrier
  %zero = arith.constant dense<0.0> : tensor<64x32xf32, #f1>
  sm90.wgmma_fence
  %p = sm90.wgmma %sx, %se, %zero : !sm90.smem<64x32xbf16>, !sm90.smem<32x32xbf16>
      -> tensor<64x32xf32, #f1>
  sm90.wgmma_commit
  %r = sm90.wgmma_wait 0, %p : tensor<64x32xf32, #f1>
  sm90.store %r, %yv[%c0, %c0] paired : tensor<64x32xf32, #f1>, memref<64x32xf32, strided<[32, 1]>>
  sm90.return
})",
             {}));
  constexpr int64_t xRows = 20, count = 50;
  std::vector<Bf16> x = makeData(xRows * 64, 8), eye(32 * 32, 0);
  for (int64_t i = 0; i < 32; ++i)
    eye[i * 33] = toBf16(1);
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i)
    ids[i] = i * 3 % 25 - 2;
  std::vector<float> y(64 * 32, -1);
  run({Argument::buffer(x), Argument::buffer(ids), Argument::buffer(eye), Argument::buffer(y),
       Argument::index(xRows), Argument::index(count)});
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 32; ++j) {
      bool inside = i < count && ids[i] >= 0 && ids[i] < xRows && j < 30;
      ASSERT_EQ(y[i * 32 + j], inside ? toFloat(x[ids[i] * 64 + 2 * j]) : 0) << i << ", " << j;
    }
  assemble();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

TEST_F(Sm90ToNvvmTest, FunctionsHaveTheirMeaning) {
  lower(fill(R"(
sm90.kernel @functions(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %x0 = sm90.load %x[%c0] : memref<?xf32> -> tensor<64xf32, #sm90.rows>
  %a = math.exp %x0 : tensor<64xf32, #sm90.rows>
  %b = math.log %a : tensor<64xf32, #sm90.rows>
  %c = math.rsqrt %a : tensor<64xf32, #sm90.rows>
  %d = math.sqrt %a : tensor<64xf32, #sm90.rows>
  %e = arith.mulf %c, %d : tensor<64xf32, #sm90.rows>
  %f = math.log2 %a : tensor<64xf32, #sm90.rows>
  %g = arith.divf %f, %b : tensor<64xf32, #sm90.rows>
  %h = math.absf %x0 : tensor<64xf32, #sm90.rows>
  %i = arith.addf %e, %g : tensor<64xf32, #sm90.rows>
  %j = arith.addf %i, %h : tensor<64xf32, #sm90.rows>
  sm90.store %j, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
})",
             {}));
  std::vector<float> x(64), y(64, -1);
  for (int64_t i = 0; i < 64; ++i)
    x[i] = i < 32 ? -0.25f * (i + 1) : 0.25f * (i - 31);
  run({Argument::buffer(x), Argument::buffer(y)});
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_NEAR(y[i], 1 + 1 / std::log(2.0) + std::fabs(x[i]), 1e-5);
  assemble();
}

TEST_F(Sm90ToNvvmTest, GroupsOfRowsHaveTheirSum) {
  for (int64_t size : {2, 4, 8, 16}) {
    lower(fill(R"(
sm90.kernel @groups(%x: memref<?xf32>, %y: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %a = sm90.load %x[%c0] : memref<?xf32> -> tensor<64xf32, #sm90.rows>
  %b = sm90.sum_groups %a of $SIZE$ : tensor<64xf32, #sm90.rows>
  sm90.store %b, %y[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32>
  sm90.return
})",
               {{"SIZE", size}}));
    std::vector<float> x(64), y(64, -1);
    std::iota(x.begin(), x.end(), 3.0f);
    run({Argument::buffer(x), Argument::buffer(y)});
    for (int64_t i = 0; i < 64; ++i)
      EXPECT_EQ(y[i], std::accumulate(&x[i / size * size], &x[i / size * size] + size, 0.0f)) << i;
  }
  assemble();
}

TEST_F(Sm90ToNvvmTest, ScalarsComeFromMemory) {
  lower(fill(R"(
sm90.kernel @scalars(%lens: memref<?xi32>, %y: memref<?xf32>)
    attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
  %c0 = arith.constant 0 : index
  %pid = sm90.program_id 1
  %len = memref.load %lens[%pid] : memref<?xi32>
  %n = arith.index_cast %len : i32 to index
  %yv = memref.reinterpret_cast %y to offset: [%pid], sizes: [%n], strides: [1]
      : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
  %one = arith.constant dense<1.0> : tensor<64xf32, #sm90.rows>
  sm90.store %one, %yv[%c0] : tensor<64xf32, #sm90.rows>, memref<?xf32, strided<[1], offset: ?>>
  sm90.return
})",
             {}));
  std::vector<int32_t> lens{60, 5, 60};
  std::vector<float> y(64, 0), expected(64, 0);
  auto functions = module->getOps<mlir::LLVM::LLVMFuncOp>();
  Emulator emulator(*functions.begin());
  EXPECT_EQ(emulator.run({Argument::buffer(lens), Argument::buffer(y)}, {0, 1, 0}), "");
  std::fill_n(expected.begin() + 1, 5, 1.0f);
  EXPECT_EQ(y, expected);
  assemble();
}

} // namespace
