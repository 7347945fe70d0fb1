//===- Passes.h - passes on block programs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_TRANSFORMS_PASSES_H
#define MLA_DIALECT_TILE_TRANSFORMS_PASSES_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tile {

#define GEN_PASS_DECL
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_TRANSFORMS_PASSES_H
