//===- MatrixTest.cpp - dots on the CPU ---*- C++ -*-===//
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

/// C[m, n] = A[m, k] B, with B [n, k] (transposed) or [k, n].
constexpr const char *kGemm = R"(
tile.kernel @gemm(%a: memref<?x$T>, %b: memref<?x$T>, %c: memref<?xf32>,
                  %m: index, %n: index, %k: index) {
  %c0 = arith.constant 0 : index
  %ck = arith.constant $TK : index
  %cm = arith.constant $TM : index
  %cn = arith.constant $TN : index
  %p0 = tile.program_id 0
  %p1 = tile.program_id 1
  %row = arith.muli %p0, %cm : index
  %col = arith.muli %p1, %cn : index
  %av = memref.reinterpret_cast %a to offset: [0], sizes: [%m, %k], strides: [%k, 1]
      : memref<?x$T> to memref<?x?x$T, strided<[?, 1]>>
  %bv = memref.reinterpret_cast %b to offset: [0], sizes: [$BSIZES], strides: [$BSTRIDE, 1]
      : memref<?x$T> to memref<?x?x$T, strided<[?, 1]>>
  %cv = memref.reinterpret_cast %c to offset: [0], sizes: [%m, %n], strides: [%n, 1]
      : memref<?xf32> to memref<?x?xf32, strided<[?, 1]>>
  %zero = arith.constant dense<0.0> : tensor<$TMx$TNxf32>
  %r = scf.for %i = %c0 to %k step %ck iter_args(%acc = %zero) -> (tensor<$TMx$TNxf32>) {
    %x = tile.load %av[%row, %i] : memref<?x?x$T, strided<[?, 1]>> -> tensor<$TMx$TKx$T>
    %y = tile.load %bv[$BOFFSETS] : memref<?x?x$T, strided<[?, 1]>> -> tensor<$BTILEx$T>
    %d = tile.dot %x, %y, %acc $TRANSPOSE
        : tensor<$TMx$TKx$T>, tensor<$BTILEx$T> -> tensor<$TMx$TNxf32>
    scf.yield %d : tensor<$TMx$TNxf32>
  }
  tile.store %r, %cv[%row, %col] : tensor<$TMx$TNxf32>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}
)";

struct Tile {
  int64_t m, n, k;
};
struct Problem {
  int64_t m, n, k;
};

std::string gemmText(const std::string &type, const Tile &tile, bool transposed) {
  std::string tm = std::to_string(tile.m), tn = std::to_string(tile.n), tk = std::to_string(tile.k);
  return substitute(kGemm, {{"T", type},
                            {"TM", tm},
                            {"TN", tn},
                            {"TK", tk},
                            {"BSIZES", transposed ? "%n, %k" : "%k, %n"},
                            {"BSTRIDE", transposed ? "%k" : "%n"},
                            {"BOFFSETS", transposed ? "%col, %i" : "%i, %col"},
                            {"BTILE", transposed ? tn + "x" + tk : tk + "x" + tn},
                            {"TRANSPOSE", transposed ? "transpose_rhs" : ""}});
}

template <typename T>
void checkGemm(KernelImage &image, const Tile &tile, const Problem &p, bool transposed) {
  auto a = randomVector<T>(p.m * p.k, 1), b = randomVector<T>(p.n * p.k, 2);
  std::vector<float> c(p.m * p.n + 16, std::numeric_limits<float>::quiet_NaN());
  image.launch("gemm", {a, b, c, p.m, p.n, p.k},
               {(p.m + tile.m - 1) / tile.m, (p.n + tile.n - 1) / tile.n});
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double expected = 0, size = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        double product = double(a[i * p.k + l]) *
                         double(transposed ? b[j * p.k + l] : b[l * p.n + j]);
        expected += product;
        size += std::abs(product);
      }
      // Rounding of f32 sums: far below one unit per addition.
      ASSERT_NEAR(c[i * p.n + j], expected, 1e-6 * size + 1e-30)
          << "tile " << tile.m << "x" << tile.n << "x" << tile.k << (transposed ? " transposed, " : ", ") << sizeof(T)
          << " bytes, problem " << p.m << "x" << p.n << "x" << p.k << " at " << i << ", " << j;
    }
  for (size_t i = p.m * p.n; i < c.size(); ++i)
    ASSERT_TRUE(std::isnan(c[i])) << "written past the end";
}

class Matrix : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Matrix, GemmIsRightForRaggedSizes) {
  const Tile tiles[] = {{1, 16, 64}, {4, 32, 32}, {8, 48, 64}, {16, 64, 128}, {3, 40, 24}};
  const Problem problems[] = {{1, 1, 1}, {1, 130, 257}, {17, 65, 100}, {16, 64, 128}, {5, 33, 31}};
  for (const Tile &tile : tiles)
    for (bool transposed : {false, true}) {
      auto wide = KernelImage::compile(gemmText("f32", tile, transposed), GetParam());
      auto narrow = KernelImage::compile(gemmText("bf16", tile, transposed), GetParam());
      ASSERT_TRUE(wide && narrow);
      for (const Problem &problem : problems) {
        checkGemm<float>(*wide, tile, problem, transposed);
        checkGemm<Bf16>(*narrow, tile, problem, transposed);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Matrix, testing::ValuesIn(runnableCpus()), [](const auto &info) {
  return info.param.substr(info.param.size() - 2);
});
