//===- HeadWeights.h - a weight's rows, head by head ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_HEADWEIGHTS_H
#define MLAC_LIB_IMPORT_HEADWEIGHTS_H

#include "mlir/IR/Builders.h"

namespace mlac {

/// The [heads, rows, in] view of a weight [heads * rows, in].
mlir::Value splitHeads(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value weight,
                       int64_t heads, int64_t rows);
/// Rows [first, first + count) of every head of a [heads, rows, in] weight, or of every token of
/// heads' channels [tokens, heads, channels] these channels.
mlir::Value sliceRows(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value heads, int64_t dim,
                      int64_t first, int64_t count);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_HEADWEIGHTS_H
