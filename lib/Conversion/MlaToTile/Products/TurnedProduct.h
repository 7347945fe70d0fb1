//===- TurnedProduct.h - weights of codes for many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Activations are 16-bit values, weights are codes. Of more rows than one tile has, the product is
// its transpose in tiles of 128 columns (rows of the weight) by as many tokens as suit: each of two
// warpgroups turns 64 x 128 codes into values in registers, which are the left operand:
//
//     sumᵀ[64 columns, tokens] += round(codes[64 columns, k .. k + 128] * scale) · xᵀ[k .., tokens]
//
// The values are those that `dequantiseWeights` would write. A scale of a row of the weight, or of
// all of it, comes behind the sum.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TURNEDPRODUCT_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TURNEDPRODUCT_H

#include "Products/Product.h"

namespace mlac::mla_to_tile {

/// Launches `product`, which has more than `moreThan` rows, so where that is faster than writing
/// values for all of the weight; `otherwise`, for more rows than it is given, where it is not or
/// the target or the operands do not suit it.
void emitTurnedProduct(StepLowering &step, const Product &product, int64_t moreThan,
                       llvm::function_ref<void(int64_t moreThan)> otherwise);
/// The same of a product whose rows a kernel reads, which `read` launches (PersistentProduct.h).
void emitReadTurned(StepLowering &step, const Product &product, int64_t moreThan,
                    llvm::function_ref<void(const PartialSums *)> read,
                    llvm::function_ref<void(int64_t moreThan)> otherwise);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TURNEDPRODUCT_H
