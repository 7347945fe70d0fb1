//===- MatrixTest.cpp - dots on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace mlac::test;

namespace {

struct Problem {
  int64_t m, n, k;
};

template <typename T>
void checkGemm(KernelImage &image, const GemmTile &tile, const Problem &p, bool transposed) {
  auto a = randomVector<T>(p.m * p.k, 1), b = randomVector<T>(p.n * p.k, 2);
  std::vector<float> c(p.m * p.n + 16, std::numeric_limits<float>::quiet_NaN());
  Guarded<T> guardedA(a), guardedB(b);
  image.launch("gemm", {guardedA, guardedB, c, p.m, p.n, p.k},
               {(p.m + tile.m - 1) / tile.m, (p.n + tile.n - 1) / tile.n});
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double expected = 0, size = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        double product =
            double(a[i * p.k + l]) * double(transposed ? b[j * p.k + l] : b[l * p.n + j]);
        expected += product;
        size += std::abs(product);
      }
      // Rounding of f32 sums: far below one unit per addition.
      ASSERT_NEAR(c[i * p.n + j], expected, 1e-6 * size + 1e-30)
          << "tile " << tile.m << "x" << tile.n << "x" << tile.k
          << (transposed ? " transposed, " : ", ") << sizeof(T) << " bytes, problem " << p.m << "x"
          << p.n << "x" << p.k << " at " << i << ", " << j;
    }
  for (size_t i = p.m * p.n; i < c.size(); ++i)
    ASSERT_TRUE(std::isnan(c[i])) << "written past the end";
}

class Matrix : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Matrix, GemmIsRightForRaggedSizes) {
  const GemmTile tiles[] = {{1, 16, 64}, {4, 32, 32}, {8, 48, 64}, {16, 64, 128}, {3, 40, 24}};
  const Problem problems[] = {{1, 1, 1}, {1, 130, 257}, {17, 65, 100}, {16, 64, 128}, {5, 33, 31}};
  for (const GemmTile &tile : tiles)
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

INSTANTIATE_TEST_SUITE_P(Cpus, Matrix, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
