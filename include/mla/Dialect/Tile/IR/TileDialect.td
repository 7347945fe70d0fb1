//===- TileDialect.td - block programs -----------------------*- tablegen -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_TILEDIALECT_TD
#define MLA_DIALECT_TILE_IR_TILEDIALECT_TD

include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mlir::tile";
  let summary = "How one CTA computes it: block programs over tiles";
  let description = [{
    Two kinds of top-level op live here.

    `tile.kernel` is the program of one CTA (on the CPU: of one task of a
    parallel loop). Its arguments are flat global buffers (`memref<?xT>`) and
    scalars (`index`, `f32`). Inside, *views* of the buffers are made with
    `memref.reinterpret_cast`, so that every layout decision (row stride,
    interleaved or half-split RoPE pairs, a row vector broadcast with stride 0)
    is a stride. Tiles are builtin static-shaped tensors of rank 1 or 2;
    element-wise work on them is upstream `arith` and `math`, control flow is
    `scf`, column slices of loaded tiles are `tensor.extract_slice` with static
    offsets, columns side by side `tensor.concat`. There are no threads, no barriers and no shared memory here.

    `tile.plan` is the host side of one package function: which kernels run
    with which grid and arguments. It is data in the end: only named buffers
    and dims, `index` arithmetic from `arith`, `scf.for`, `scf.if` and
    `tile.launch` are allowed in it.

    Numbers: `arith.truncf` to f8E4M3FN saturates to ±448 on every target (it is
    `cvt.rn.satfinite`); `arith.divf` may be off by 2 ulp on a GPU unless it is marked
    `tile.correctly_rounded`.

    A module may say `tile.machine = #tile.machine<"h200">`: whose rates and measured numbers
    decide on tiles and schedules. `convert-mla-to-tile` writes it.

    Attributes of this dialect on other ops, on kernels and on their arguments are those of
    `mla/Dialect/KernelAttrs.h`; any other is an error.

    Bounds: a tile load yields zero for every element outside the view's sizes,
    a store drops it. That is the only masking mechanism for ragged shapes; tile
    shapes themselves are padded to what a target likes, and no multiple-of-N
    assumption reaches the user.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

#endif // MLA_DIALECT_TILE_IR_TILEDIALECT_TD
