//===- ProductViews.h - operands of a product as whole matrices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of the batch is a place in one matrix: heads lie side by side in the rows of
// activations and one below the other in weights. So every operand is one view of a
// buffer that the host can describe to TMA.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCTVIEWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCTVIEWS_H

#include "Products/Product.h"

#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

namespace mlac::mla_to_tile {

class ProductViews {
public:
  explicit ProductViews(const Product &product) : p(product) {}

  /// Whether the operands can be addressed so in tiles of `columns` results and
  /// `depth`; rows first takes every product.
  bool fit(int64_t columns, int64_t depth) const;

  /// Where a part of the batch begins in a matrix of all.
  struct Place {
    mlir::Value view, row, column;
  };
  /// `columns` of each row of activations belong to part `batch`.
  Place placeTokens(KernelBuilder &b, mlir::Value buffer, const Matrices &m,
                    mlir::OpFoldResult rows, int64_t columns, mlir::Value batch) const;
  Place placeWeights(KernelBuilder &b, mlir::Value buffer, mlir::Value batch) const;

private:
  const Product &p;
};

/// A product's weights in its kernel; several, one behind the other, where it has others.
class WeightTiles {
public:
  using Value = mlir::Value;
  /// `others`: the kernel's buffers of these.
  WeightTiles(KernelBuilder &b, const Product &product, Value first, mlir::ValueRange others,
              Value batch);

  /// The tile at the product's `column`. `load` is given a place and the column there; of those it
  /// loads one is chosen.
  Value load(KernelBuilder &b, Value column,
             llvm::function_ref<Value(const ProductViews::Place &, Value)> load) const;

private:
  llvm::SmallVector<int64_t, 4> begins; // columns, of each of `places`
  llvm::SmallVector<ProductViews::Place, 4> places;
};

/// The biases' buffers: none, or one for each of the product's weights.
mlir::SmallVector<mlir::Value> getBiasBuffers(const Product &product);

/// Which of the product's columns a tile of sums has, and what they are in it; `ManyRows`: each is
/// loaded once for all of a row, which the schedules of few tokens do not know.
struct BiasPlace {
  mlir::Value column;
  enum Form { Columns, Rows, ManyRows } columns = Columns;
};
/// `sum` and the bias of its columns, all of which have the same one of `buffers`, those of
/// getBiasBuffers in the kernel.
mlir::Value addBias(KernelBuilder &b, const Product &product, mlir::ValueRange buffers,
                    mlir::Value sum, const BiasPlace &at);

/// Whether a tile of `rows` rows of activations may be read past the last one, into memory that
/// holds anything: results of such rows are not stored. A copy takes longer for rows that are not
/// there than for those that are: 72 rows of codes in a tile of 128, 7168 x 16384, 73 us for 46
/// (one H200, docs/lab/products.md). Memory of the caller has none behind it.
bool addRowsBehind(StepLowering &step, const Product &product, int64_t rows);

/// No kernel of the step writes the buffer: it may be read ahead of a dependency.
void markInvariant(mlir::Value argument);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCTVIEWS_H
