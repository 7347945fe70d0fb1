//===- Passes.td - conversions between mlac's levels ---------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_CONVERSION_PASSES
#define MLA_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// TileToCpu
//===----------------------------------------------------------------------===//

def ConvertTileToCpu : Pass<"convert-tile-to-cpu", "::mlir::ModuleOp"> {
  let summary = "lowers tile kernels to vectorised x86-64 functions";
  let description = [{
    Replaces every `tile.kernel` by an `llvm.func` of the same name with the CPU
    kernel ABI

        void NAME(const uint64_t *args, int64_t pid0, int64_t pid1, int64_t pid2)

    where `args[i]` is a pointer, an int64, or the bits of an f32 in the low 32.
    The functions are re-entrant and keep their tiles in stack scratch.

    Before:
    ```mlir
    tile.kernel @scale(%x: memref<?xf32>, %rows: index, %s: f32) {
      %c0 = arith.constant 0 : index
      %pid = tile.program_id 0
      %v = memref.reinterpret_cast %x to offset: [0], sizes: [%rows, 64], strides: [64, 1]
          : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
      %t = tile.load %v[%pid, %c0] : memref<?x64xf32, strided<[64, 1]>> -> tensor<1x64xf32>
      %sv = tile.splat %s : f32 -> tensor<1x64xf32>
      %r = arith.mulf %t, %sv : tensor<1x64xf32>
      tile.store %r, %v[%pid, %c0] : tensor<1x64xf32>, memref<?x64xf32, strided<[64, 1]>>
      tile.return
    }
    ```
    After: `llvm.func @scale(!llvm.ptr, i64, i64, i64) attributes
    {mlac.scratch_bytes = 256 : i64}` whose body is `scf` loops over rows and
    chunks of `lanes` columns, with `arith`, `math` and `vector` operations on
    vectors and `llvm` loads and stores.

    Chains of element-wise operations are evaluated in one loop nest at their
    consumer. Loads that are wholly inside their view are read in place; others
    are copied to scratch with zero fill. Accumulators carried by loops are
    updated in place. Dots become register blocks with f32 accumulation; the
    order of summation over K depends on `lanes`. exp, exp2, log and log2 are
    polynomials with a relative error of at most 4e-7; NaN propagates, and exp of
    -inf is 0.

    Precondition: every view is a `memref.reinterpret_cast` of a kernel argument
    or the argument itself. `tile.plan` operations are erased: what runs on the
    host must have been taken from the module before.
    Guarantee: no `tile` operation and no tensor remains.
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", "8",
           "f32 elements of one vector register: 8 (AVX2) or 16 (AVX-512)">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
  ];
}

//===----------------------------------------------------------------------===//
// Sm90ToNvvm
//===----------------------------------------------------------------------===//

def ConvertSm90ToNvvm : Pass<"convert-sm90-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "lowers sm90 kernels to functions of the llvm and nvvm dialects";
  let description = [{
    Replaces every `sm90.kernel` by an `llvm.func` of the same name with the
    CUDA kernel ABI: a global pointer for each memref, i64 for each index, f32.
    Every thread of the CTA runs it; fragments become the registers that
    `#sm90.fragment` and `#sm90.rows` give to one thread, and dynamic shared
    memory is the module's `@mlac_shared`. The function carries `mlac.threads`
    and `mlac.shared_bytes`, what a launch needs.

    Before:
    ```mlir
    sm90.kernel @scale(%x: memref<?xf32>, %n: index, %s: f32)
        attributes {warpgroups = 1 : i32, shared_bytes = 0 : i64} {
      %c0 = arith.constant 0 : index
      %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n, 8], strides: [8, 1]
          : memref<?xf32> to memref<?x8xf32, strided<[8, 1]>>
      %t = sm90.load %v[%c0, %c0] : memref<?x8xf32, strided<[8, 1]>>
          -> tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      %k = sm90.splat %s : f32 -> tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      %r = arith.mulf %t, %k : tensor<64x8xf32, #sm90.fragment<column_split = 1>>
      sm90.store %r, %v[%c0, %c0] : tensor<64x8xf32, #sm90.fragment<column_split = 1>>,
          memref<?x8xf32, strided<[8, 1]>>
      sm90.return
    }
    ```
    After: `llvm.func @scale(!llvm.ptr<1>, i64, f32) attributes {nvvm.kernel,
    nvvm.maxntid = array<i32: 128>, mlac.threads = 128, ...}` that loads four
    elements, multiplies and stores them, each half under its row's bound.

    Preconditions: `sm90-allocate-shared-memory` and `sm90-insert-proxy-fences`
    have run. Guarantee: no `sm90`, `memref` or tensor remains in these
    functions; `scf`, scalar `arith` and `math` do. Numerics: additions and
    products on tiles may contract to FMA; exp, log, rsqrt and division use the
    hardware's approximations (error bounds: Elementwise.cpp).
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
  ];
}

def ConvertNvvmKernelToLlvm : Pass<"convert-nvvm-kernel-to-llvm", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "lowers what remains of scf, arith and math in a GPU kernel";
  let description = [{
    Works on one `llvm.func` with `nvvm.kernel` (others are left alone), so that
    kernels are converted in parallel. After it the function is what
    `mlac::compileKernels` takes: llvm, and nvvm ops that LLVM has intrinsics
    for; nvvm ops that are PTX text have become inline assembly.

    Before: `scf.for`, `arith.addi ... : index`, `nvvm.wgmma.mma_async`.
    After: `llvm.cond_br`, `llvm.add ... : i64`, `llvm.inline_asm`.
    Numerics do not change.
  }];
  let dependentDialects = [
    "::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
  ];
}

#endif // MLA_CONVERSION_PASSES
