//===- TileDialect.h - block programs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_TILEDIALECT_H
#define MLA_DIALECT_TILE_IR_TILEDIALECT_H

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Real.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::tile {
/// The type of a vector with a number for each row of an f32 tile `type`; null for others.
Type getRowType(Type type);
} // namespace mlir::tile

#include "mla/Dialect/Tile/IR/TileAttrInterfaces.h.inc"
#include "mla/Dialect/Tile/IR/TileDialect.h.inc"
#include "mla/Dialect/Tile/IR/TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Tile/IR/TileAttrs.h.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Tile/IR/TileOps.h.inc"

#endif // MLA_DIALECT_TILE_IR_TILEDIALECT_H
