//===- Sm90Dialect.td - who does what when on Hopper ---------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90DIALECT_TD
#define MLA_DIALECT_SM90_IR_SM90DIALECT_TD

include "mlir/IR/OpBase.td"

def Sm90_Dialect : Dialect {
  let name = "sm90";
  let cppNamespace = "::mlir::sm90";
  let summary = "Who does it when: the program of one CTA's warpgroups on sm_90a";
  let description = [{
    A `sm90.kernel` is executed by all threads of a CTA: `warpgroups` groups of
    128 threads. Three kinds of values live in it:

    - *scalars and views* (`index`, `i32`, `f32`, `memref`): the same value in
      every thread. Control flow (`scf.for`, `scf.if`) depends on such values
      only, so a role's threads never diverge at an op of this dialect. (The one
      exception, `sm90.warp_any`, is the same in a warp and says what may depend
      on it.)
    - *shared-memory tiles* (`!sm90.smem`): a place in the CTA's shared memory.
    - *fragments*: tensors with an encoding that says which thread holds which
      element. Element-wise work on them is upstream `arith` and `math`.

    Phases of the IR (each pass checks what it needs):

    | after | holds |
    |---|---|
    | `convert-tile-to-sm90` | barriers are in place; `sm90.alloc` without offset; no `sm90.proxy_fence` |
    | `sm90-insert-proxy-fences` | generic writes are fenced before the async proxy (`wgmma`, `tma_store`) reads them |
    | `sm90-place-wgmma-fences` | `sm90.wgmma_fence` where needed; accumulators are waited for before use |
    | `sm90-allocate-shared-memory` | every `sm90.alloc` and `sm90.ring` has its offsets, the kernel has `shared_bytes` |

    `convert-sm90-to-nvvm` needs all four.

    A warp-specialised kernel consists of an entry (rings, tensor maps, scalars,
    executed by all threads) and of `sm90.role` regions that run side by side,
    each on its own warpgroups, and talk through rings only:

    ```mlir
    %ring = sm90.ring full_count 1 empty_count 4 : !sm90.ring<stages = 2, parts = 1, tiles = [...]>
    sm90.role "load" warpgroups 0 to 1 registers 40 { sm90.elect { acquire, expect, tma_load ... } }
    sm90.role "math" warpgroups 1 to 2 registers 232 { await, wgmma ..., release }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

#endif // MLA_DIALECT_SM90_IR_SM90DIALECT_TD
