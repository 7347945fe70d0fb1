//===- Sm90Dialect.h - the Hopper level ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hardware's numbers that layouts are made of stand in Sm90Limits.h; the layouts
// themselves are described with the types in Sm90Types.td.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90DIALECT_H
#define MLA_DIALECT_SM90_IR_SM90DIALECT_H

#include "mla/Machine/Sm90Limits.h"

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
/// A tensor encoded with `#sm90.fragment`, `#sm90.rows`, `#sm90.partial` or
/// `#sm90.columns`.
bool isFragment(Type type);
bool isRows(Type type);
bool isPartial(Type type);
bool isColumns(Type type);
/// Over how many warpgroups the columns of a fragment are split.
int64_t getColumnSplit(Type fragment);
/// Columns of a panel of a swizzled tile.
int64_t getPanelColumns(Type element);
/// Contraction width of one wgmma of such elements: 32 bytes of each row.
int64_t getWgmmaDepth(Type element);
} // namespace mlir::sm90

#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Types.h.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Ops.h.inc"

namespace mlir::sm90 {
/// Whether a fragment of `columns` fits into `tile` from `column`, a multiple of 16, on.
bool endsWithin(int64_t column, int64_t columns, SmemType tile);
} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_IR_SM90DIALECT_H
