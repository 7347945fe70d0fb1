//===- Bits.h - tile.set_bits and test_bits by the threads of a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_BITS_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_BITS_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/IRMapping.h"

namespace mlac {

/// Emits `setBits`; `values` are those of the new kernel, by those of the old.
void emitSetBits(mlir::OpBuilder &builder, mlir::tile::SetBitsOp setBits,
                 const mlir::IRMapping &values);

/// Emits `test`, whose result is of `type`, and adds it to `values`.
mlir::LogicalResult emitTestBits(mlir::OpBuilder &builder, mlir::tile::TestBitsOp test,
                                 mlir::Type type, mlir::IRMapping &values);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_BITS_H
