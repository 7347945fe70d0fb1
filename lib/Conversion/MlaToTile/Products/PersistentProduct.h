//===- PersistentProduct.h - products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As many programs as there are multiprocessors go over tiles of 128 rows, two
// products of 64 rows that share the weights' tile. Tiles are numbered so that those
// computed together are about a square, whose operands the L2 cache holds:
//
//     columns        0  1  2 ...
//     row tile 0     0  4  8        a strip of four row tiles (Tuning::stripTiles)
//              1     1  5  9
//              2     2  6 10
//              3     3  7 11 ...
//              4     next strip
//
//===----------------------------------------------------------------------===//

// Deep products of codes of many rows may have tiles of 256, four products, whose scales are copied
// ahead in blocks of 64 rows.
//
// Products of codes and codes are persistent for any number of rows: their weights arrive in half
// the time, and 64 rows of a tile are multiplied in it even if only one is there. Up to 64 rows are
// one product of a tile.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PERSISTENTPRODUCT_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PERSISTENTPRODUCT_H

#include "Products/Product.h"

#include "mla/Analysis/ProductRanges.h"

namespace mlac::mla_to_tile {

/// Launches `product` for any number of rows, in tiles that the cost model chooses
/// (ProductCost.h); the last turn may have narrower ones and a launch of its own. False
/// where the target or the operands do not suit it.
bool emitPersistentProduct(StepLowering &step, const Product &product);

/// The tiles of more than 64 rows, where the target and the operands suit such programs.
std::optional<ProductRanges> findProductRanges(StepLowering &step, const Product &product);
/// Whether codes times codes of 65 to 128 rows are faster in these tiles than with tokens as
/// columns, whose depth `cluster` CTAs divide.
bool hasFasterRange(StepLowering &step, const Product &product, const ProductRanges &ranges,
                    int64_t cluster);
/// Launches `product` in the tiles that its rows have. `moreThan`: the step has taken care of so
/// many rows already.
void emitProductRanges(StepLowering &step, const Product &product, const ProductRanges &ranges,
                       int64_t moreThan);

/// The same of a product whose rows a kernel reads (emitReadProduct), so that more than 128 rows
/// may be in parts of the depth, too.
std::optional<ProductRanges> findReadRanges(StepLowering &step, const Product &product);
void emitReadRanges(StepLowering &step, const Product &product, const ProductRanges &ranges,
                    int64_t moreThan, llvm::function_ref<void(const PartialSums *)> read);

/// Microseconds of so many rows in these tiles.
double predictProductRanges(StepLowering &step, const Product &product, const ProductRanges &ranges,
                            int64_t rows);
double predictReadRanges(StepLowering &step, const Product &product, const ProductRanges &ranges,
                         int64_t rows);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PERSISTENTPRODUCT_H
