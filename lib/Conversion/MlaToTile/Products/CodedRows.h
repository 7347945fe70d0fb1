//===- CodedRows.h - activations that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor of activations that only products with weights of codes read is stored as codes and,
// in a workspace beside, f32 scales:
//
//     codes    [T, I]          e4m3, the heads of a token side by side
//     scales   [T, I / group]  f32, where products copy them by blocks of rows in such blocks
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDROWS_H

#include "Plan/Lowerings.h"

namespace mlac::mla_to_tile {

/// Memory of rows with the sizes `sizes`, [T, I] or [T, N, K], and of their scales.
TensorRef makeCodedRows(StepLowering &step, llvm::ArrayRef<mlir::OpFoldResult> sizes,
                        int64_t group);

/// Fails with what is expected where something else than products of `op`'s `rows` reads them.
mlir::LogicalResult checkReadByProducts(mlir::Operation *op, mlir::Value rows);
/// The same where `op`'s product has codes for activations and cannot be computed.
mlir::LogicalResult checkCodedProduct(mlir::Operation *op, const Product &product);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDROWS_H
