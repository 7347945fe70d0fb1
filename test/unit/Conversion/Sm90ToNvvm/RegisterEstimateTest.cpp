//===- RegisterEstimateTest.cpp - the estimate against the assembler ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products whose accumulator is all that they hold: the assembler gives them as
// few registers as wgmma allows, so the estimate's constant can be read off.
// ptxas 13.0 gives exactly the estimate.
//
//===----------------------------------------------------------------------===//

#include "Fixture.h"

#include "mla/Dialect/Sm90/Transforms/RegisterEstimate.h"

using namespace mlac;
using namespace mlac::sm90test;

namespace {

/// One granule of the register file, for other assemblers.
constexpr int64_t kTolerance = mlir::sm90::kRegisterGranule;

struct Product {
  int64_t columns;
  bool fragmentLhs;
};

class RegisterEstimate : public Sm90ToNvvmTest, public ::testing::WithParamInterface<Product> {};

TEST_P(RegisterEstimate, IsWhatTheAssemblerNeeds) {
  Product product = GetParam();
  std::string text = fill(R"(
!tile = !sm90.smem<64x64xbf16>
!keys = !sm90.smem<64x$columns$xbf16>
!queries = tensor<64x64xbf16, #f1>
!acc = tensor<64x$columns$xf32, #f1>
sm90.kernel @product(%out: memref<?xf32>, %n: index)
    attributes {warpgroups = 1 : i32, shared_bytes = 65536 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : !acc
  %a = sm90.alloc offset 0 : !tile
  %b = sm90.alloc offset 8192 : !keys
  %o = memref.reinterpret_cast %out to offset: [0], sizes: [64, $columns$], strides: [$columns$, 1]
      : memref<?xf32> to memref<64x$columns$xf32, strided<[$columns$, 1]>>
  %q = sm90.load_shared %a : !tile -> !queries
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (!acc) {
    sm90.barrier
    sm90.wgmma_fence
    %0 = sm90.wgmma LHS, %b, %acc : LHS_TYPE, !keys -> !acc
    sm90.wgmma_commit
    %1 = sm90.wgmma_wait 0, %0 : !acc
    scf.yield %1 : !acc
  } {sm90.at_least_once}
  sm90.store %r, %o[%c0, %c0] : !acc, memref<64x$columns$xf32, strided<[$columns$, 1]>>
  sm90.return
})",
                          {{"columns", product.columns}});
  auto replace = [&](const std::string &name, const std::string &by) {
    text.replace(text.find(name), name.size(), by);
  };
  replace("LHS_TYPE", product.fragmentLhs ? "!queries" : "!tile");
  replace("LHS", product.fragmentLhs ? "%q" : "%a");

  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(parsed);
  auto kernel = *parsed->getOps<mlir::sm90::KernelOp>().begin();
  mlir::sm90::RegisterEstimate estimate = mlir::sm90::estimateRegisters(kernel.getBody().front());
  EXPECT_EQ(estimate.fragments, product.columns / 2 + (product.fragmentLhs ? 64 / 4 : 0));

  lower(text);
  assemble();
  if (HasFatalFailure() || compiled.kernels[0].cubin.empty())
    return;
  int64_t registers = compiled.kernels[0].report.registers;
  EXPECT_GE(registers, estimate.getTotal());
  EXPECT_LE(registers, estimate.getTotal() + kTolerance);
}

INSTANTIATE_TEST_SUITE_P(, RegisterEstimate,
                         ::testing::Values(Product{8, false}, Product{64, false},
                                           Product{128, false}, Product{256, false},
                                           Product{64, true}, Product{256, true}));

} // namespace
