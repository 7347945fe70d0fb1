//===- RangeVersions.h - a kernel for each range of rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_RANGEVERSIONS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_RANGEVERSIONS_H

#include "Products/Product.h"

#include "mla/Analysis/ProductRanges.h"

namespace mlac::mla_to_tile {

/// Versions of the plan, each with what `launch` emits for the tiles that `rows` have. `moreThan`:
/// the step has taken care of so many rows already.
void emitRanges(StepLowering &step, mlir::Value rows, const ProductRanges &ranges, int64_t moreThan,
                llvm::function_ref<void(const RangeTiles &)> launch);

/// The same of a product, whose tiles may be of parts of the depth: `launch` launches one in tiles,
/// `read`, if it is given, what reads the product: parts' sums, or, without any, its result.
void emitRangesInParts(StepLowering &step, const Product &product, const ProductRanges &ranges,
                       int64_t moreThan,
                       llvm::function_ref<void(const Product &, const RangeTiles &)> launch,
                       llvm::function_ref<void(const PartialSums *)> read);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_RANGEVERSIONS_H
