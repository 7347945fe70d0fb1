//===- StackedProduct.cpp - products of the same rows as one ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//     columns    0 .. 4096          .. 5120        .. 6144
//     weight     queries'           keys'          values'
//
// No tile has columns of two weights. So many rows that wider tiles than then fit are faster are
// multiplied apart, each product to its own columns of the same memory.
//
//===----------------------------------------------------------------------===//

#include "Products/PersistentProduct.h"
#include "Products/TiledProduct.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

static constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

/// The rows for which times are compared: those of the ranges' ends, and many.
static SmallVector<int64_t> getComparedRows(const TargetDescription &machine) {
  SmallVector<int64_t> rows;
  for (int64_t count = kProductTileRows; count <= kMostRangeRows; count += kProductTileRows)
    rows.push_back(count);
  llvm::copy_if(machine.tuning.productRows, std::back_inserter(rows),
                [](int64_t count) { return count > kMostRangeRows; });
  return rows;
}

/// Up to how many rows the joint product is multiplied: the limit for which all compared rows
/// together take the least of the time that they take apart. Rows of one unit read all weights
/// once in either case.
static int64_t findMostStackedRows(StepLowering &step, const Product &joint,
                                   ArrayRef<Product> products) {
  std::optional<ProductRanges> ranges = findProductRanges(step, joint);
  SmallVector<ProductRanges> others;
  for (const Product &product : products)
    if (std::optional<ProductRanges> own = findProductRanges(step, product))
      others.push_back(*own);
  int64_t best = kRowsOfProduct;
  if (!ranges || others.size() != products.size())
    return best;
  double gain = 0, most = 0; // of all rows up to one
  SmallVector<int64_t> compared = getComparedRows(step.machine);
  for (int64_t rows : compared) {
    double apart = 0;
    for (auto [product, own] : llvm::zip_equal(products, others))
      apart += predictProductRanges(step, product, own, rows);
    gain += 1 - predictProductRanges(step, joint, *ranges, rows) / apart;
    if (gain > most) {
      most = gain;
      best = rows;
    }
  }
  bool isWorthwhile = most - gain > kWorthwhileKernel * static_cast<double>(compared.size());
  return isWorthwhile ? best : kAllRows;
}

void mlac::mla_to_tile::emitStackedProducts(StepLowering &step, ArrayRef<Product> products) {
  auto emitApart = [&](int64_t moreThan) {
    for (const Product &product : products)
      emitProduct(step, product, moreThan);
  };
  std::optional<Product> joint = joinProducts(products);
  if (!joint || !step.shapes.isProductPersistent || !canSwap(step, *joint))
    return emitApart(/*moreThan=*/0);
  int64_t most = findMostStackedRows(step, *joint, products);
  if (most == kAllRows)
    return emitProduct(step, *joint);
  step.versionByRows(
      joint->rows, most, [&] { emitProduct(step, *joint); }, [&] { emitApart(most); });
}
