//===- Sm90Dialect.h - the Hopper level ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hardware's numbers that layouts are made of stand here; the layouts
// themselves are described with the types in Sm90Types.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90DIALECT_H
#define MLA_DIALECT_SM90_IR_SM90DIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h.inc"
#include "mla/Dialect/Sm90/IR/Sm90Enums.h.inc"

namespace mlir::sm90 {
/// Threads of a warpgroup, and rows of a wgmma tile (PTX ISA, wgmma.mma_async: M = 64).
inline constexpr int64_t kWarpgroupThreads = 128;
inline constexpr int64_t kTileRows = 64;
/// Widest N of one wgmma, and K of one with 16-bit elements (PTX ISA, wgmma.mma_async shapes).
inline constexpr int64_t kMaxWgmmaColumns = 256;
inline constexpr int64_t kWgmmaDepth = 16;
/// Accumulator columns come in groups of 8.
inline constexpr int64_t kColumnGroup = 8;
/// The 128-byte swizzle: bytes of a panel's row, rows of its atom, and the atom's size, which
/// is also the alignment of a tile (PTX ISA, "Shared memory matrix layout").
inline constexpr int64_t kPanelRowBytes = 128;
inline constexpr int64_t kSwizzleRows = 8;
inline constexpr int64_t kSwizzleAtomBytes = kPanelRowBytes * kSwizzleRows;
/// Columns of a panel of 16-bit elements.
inline constexpr int64_t kPanelColumns = 64;
/// 227 KiB: the shared memory one CTA may use on sm_90 (CUDA C++ Programming Guide).
inline constexpr int64_t kMaxSharedBytes = 232448;
/// Most threads of a CTA are 1024.
inline constexpr int64_t kMaxWarpgroups = 8;

/// A tensor encoded with `#sm90.fragment` / with `#sm90.rows`.
bool isFragment(Type type);
bool isRows(Type type);
/// Over how many warpgroups the columns of a fragment are split.
int64_t getColumnSplit(Type fragment);
} // namespace mlir::sm90

#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Types.h.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Ops.h.inc"

#endif // MLA_DIALECT_SM90_IR_SM90DIALECT_H
