//===- ImageTest.cpp - properties of CPU images ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

static constexpr const char *kExp = R"(
tile.kernel @exp(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [$M, 1024], strides: [1024, 1] : memref<?xf32> to memref<$Mx1024xf32, strided<[1024, 1]>>
  %a = tile.load %v[%c0, %c0] : memref<$Mx1024xf32, strided<[1024, 1]>> -> tensor<$Mx1024xf32>
  %b = math.exp %a : tensor<$Mx1024xf32>
  tile.store %b, %v[%c0, %c0] : tensor<$Mx1024xf32>, memref<$Mx1024xf32, strided<[1024, 1]>>
  tile.return
}
)";

TEST(CpuImage, IsDeterministic) {
  std::string text = substitute(kExp, {{"M", "2"}});
  auto first = KernelImage::compile(text, "x86-64-v3"),
       second = KernelImage::compile(text, "x86-64-v3");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->image().bytes, second->image().bytes);
  EXPECT_EQ(first->image().arch, "x86-64-v3");
  EXPECT_EQ(first->image().features, "avx2,bmi2,f16c,fma");
  ASSERT_EQ(first->image().kernels.size(), 1u);
  EXPECT_EQ(first->image().kernels[0].name, "exp");
}

TEST(CpuImage, ScratchIsLimited) {
  // A tile for the load and one for the store, 4 KiB a row.
  EXPECT_EQ(diagnosticsOf(substitute(kExp, {{"M", "512"}})), "");
  EXPECT_EQ(diagnosticsOf(substitute(kExp, {{"M", "513"}})),
            "kernel 'exp': needs 4202496 bytes of scratch, more than the limit of 4194304\n");
}

TEST(CpuImage, UnknownCpuIsRefused) {
  std::string error;
  EXPECT_TRUE(mlir::failed(resolveCpu("pentium", error)));
  EXPECT_EQ(error, "unknown CPU 'pentium', expected one of: x86-64-v3, x86-64-v4, native");
}
