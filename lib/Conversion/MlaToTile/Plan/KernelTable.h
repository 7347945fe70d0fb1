//===- KernelTable.h - the kernels of a module, each once ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Steps share most of their kernels. Two kernels are one if their text is,
// whatever their parameters were called; so nothing that shapes a kernel can be
// forgotten in a key.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_KERNELTABLE_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_KERNELTABLE_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlac::mla_to_tile {

class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module) : module(module), symbols(module) {}

  /// Where new kernels are put: the end of the module.
  mlir::ModuleOp getModule() { return module; }

  /// Takes a detached kernel. Returns it, named after its `sym_name` and put
  /// into the module, or the equal kernel that was there before.
  mlir::tile::KernelOp insert(mlir::tile::KernelOp kernel);

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::StringMap<mlir::tile::KernelOp> byText;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_KERNELTABLE_H
