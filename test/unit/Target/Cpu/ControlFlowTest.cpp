//===- ControlFlowTest.cpp - tiles carried by loops and branches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Carried tiles are updated in place where the analysis allows it; these kernels
// are wrong if it allows too much.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

using namespace mlac::test;

namespace {

class ControlFlow : public testing::TestWithParam<std::string> {};

/// A kernel over two 2x16 tiles a and b in %x (rows 0-1 and 2-3), which stores
/// the two results of `body` back.
std::string twoTiles(const std::string &body) {
  return R"(
tile.kernel @f(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [4, 16], strides: [16, 1] : memref<?xf32> to memref<4x16xf32, strided<[16, 1]>>
  %a0 = tile.load %v[%c0, %c0] : memref<4x16xf32, strided<[16, 1]>> -> !t
  %b0 = tile.load %v[%c2, %c0] : memref<4x16xf32, strided<[16, 1]>> -> !t
)" + body +
         R"(
  tile.store %ra, %v[%c0, %c0] : !t, memref<4x16xf32, strided<[16, 1]>>
  tile.store %rb, %v[%c2, %c0] : !t, memref<4x16xf32, strided<[16, 1]>>
  tile.return
}
)";
}

using Step = void (*)(float &a, float &b, int64_t i);

void check(const std::string &cpu, const std::string &body, int64_t count, Step step) {
  auto image = KernelImage::compile("!t = tensor<2x16xf32>\n" + twoTiles(body), cpu);
  ASSERT_TRUE(image);
  auto x = randomVector<float>(64, 11), expected = x;
  for (int64_t i = 0; i < count; ++i)
    for (int e = 0; e < 32; ++e)
      step(expected[e], expected[32 + e], i);
  image->launch("f", {x, count}, {});
  for (int e = 0; e < 64; ++e)
    ASSERT_FLOAT_EQ(x[e], expected[e]) << e;
}

} // namespace

TEST_P(ControlFlow, CarriedTilesMaySwap) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    scf.yield %b, %a : !t, !t
  })",
        3, [](float &a, float &b, int64_t) { std::swap(a, b); });
}

TEST_P(ControlFlow, CarriedTilesMayReadEachOther) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    %s = arith.addf %a, %b : !t
    %d = arith.subf %a, %b : !t
    scf.yield %s, %d : !t, !t
  })",
        4, [](float &a, float &b, int64_t) {
          float sum = a + b;
          b = a - b;
          a = sum;
        });
}

TEST_P(ControlFlow, OldValueUsedAfterNewOne) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    %next = arith.maximumf %a, %b : !t
    %delta = arith.subf %a, %next : !t
    %e = math.exp2 %delta : !t
    %r = arith.mulf %e, %b : !t
    scf.yield %next, %r : !t, !t
  })",
        3, [](float &a, float &b, int64_t) {
          float next = std::max(a, b);
          b *= std::exp2(a - next);
          a = next;
        });
}

TEST_P(ControlFlow, BranchesUpdateInPlace) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    %odd = arith.remsi %i, %c2 : index
    %is_odd = arith.cmpi eq, %odd, %c1 : index
    %na, %nb = scf.if %is_odd -> (!t, !t) {
      %s = arith.addf %a, %b : !t
      scf.yield %s, %b : !t, !t
    } else {
      %s = arith.subf %b, %a : !t
      scf.yield %a, %s : !t, !t
    }
    scf.yield %na, %nb : !t, !t
  })",
        5, [](float &a, float &b, int64_t i) {
          if (i % 2)
            a += b;
          else
            b -= a;
        });
}

TEST_P(ControlFlow, NestedLoopsKeepOuterValues) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    %in = scf.for %j = %c0 to %c2 step %c1 iter_args(%s = %a) -> (!t) {
      %u = arith.addf %s, %b : !t
      scf.yield %u : !t
    }
    %w = arith.subf %in, %a : !t
    scf.yield %in, %w : !t, !t
  })",
        3, [](float &a, float &b, int64_t) {
          float inner = a + b + b;
          b = inner - a;
          a = inner;
        });
}

TEST_P(ControlFlow, LoopWithoutIterationsKeepsItsInit) {
  check(GetParam(), R"(
  %ra, %rb = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a0, %b = %b0) -> (!t, !t) {
    %s = arith.addf %a, %b : !t
    scf.yield %s, %a : !t, !t
  })",
        0, [](float &, float &, int64_t) {});
}

INSTANTIATE_TEST_SUITE_P(Cpus, ControlFlow, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
