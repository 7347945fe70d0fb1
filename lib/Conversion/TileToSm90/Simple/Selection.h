//===- Selection.h - tile.top_k by the threads of a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SELECTION_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SELECTION_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/IRMapping.h"

namespace mlac {

/// The kernel's selection, or null.
mlir::tile::TopKOp findSelection(mlir::tile::KernelOp kernel);

/// Warpgroups that search a row of `topK` together.
int32_t getSelectionWarpgroups(mlir::tile::TopKOp topK);

/// Tells the assembler how many CTAs of `kernel`, which is `topK`, are to share a multiprocessor.
void setSelectionLimits(mlir::tile::TopKOp topK, mlir::sm90::KernelOp kernel);

/// Emits `topK`; `values` are those of the new kernel, by those of the old.
void emitSelection(mlir::OpBuilder &builder, mlir::tile::TopKOp topK,
                   const mlir::IRMapping &values);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SELECTION_H
