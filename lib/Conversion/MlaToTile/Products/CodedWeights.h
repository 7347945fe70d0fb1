//===- CodedWeights.h - products with weights that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes are multiplied as they are, and f32 sums by the scales: of each 128 of the depth where a
// block is as long, else once behind all of it.
//
//     sum   += (codes[columns, k .. k + 128] · x) * scale[columns / rows, k / 128]
//     sum    = (codes · x) * scale[columns]                        of rows, or of the tensor
//
// Activations that are codes, too, have a scale for each row and 128 of the depth:
//
//     sum   += (codes[columns, k .. k + 128] · x[rows, k .. k + 128]) * (scale[columns / rows, k /
//     128] * xScale[rows, k / 128])
//
// or one for each row, where the weight has no blocks; these sums are scaled every 128 of the
// depth, too, since accumulators of codes have fewer bits than f32.
//
// A tile's columns of the product (rows of the weight) lie in one block: 64, or 128 where blocks
// have as many.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDWEIGHTS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDWEIGHTS_H

#include "Products/Product.h"

namespace mlac::mla_to_tile {

/// Of the depth that is multiplied before its sum is scaled: a block's columns.
inline constexpr int64_t kCodedDepth = 128;

/// Whether tiles of so many of the product's columns have one scale each for 128 of the depth.
bool canMultiplyCodes(const Product &product, int64_t tileColumns = SwappedTile::kColumns);

/// Whether a tile's codes can be turned into values of another type in registers: 64 of the
/// product's columns have one scale for 128 of the depth, or only scales behind the sum.
bool canTurnCodes(const Product &product);

/// What kernels of such products are called behind "linear_".
inline llvm::StringRef getCodesPrefix(const Product &product) {
  return product.lhs.scales ? "coded_" : product.rhs.scales ? "codes_" : "";
}

/// The buffers of a product's scales: of activations, then of weights, as its kernels get them
/// behind all others.
llvm::SmallVector<mlir::Value> getScaleBuffers(const Product &product);

/// The scales of a product's weights, in its kernel.
class ScaleTiles {
public:
  using Value = mlir::Value;
  /// `buffers`: those of getScaleBuffers in the kernel, which multiplies `tokens` rows.
  /// `weightsAreRows`: of the sums, else they are their columns.
  ScaleTiles(KernelBuilder &b, const Product &product, mlir::ValueRange buffers,
             mlir::OpFoldResult tokens, Value batch, bool weightsAreRows);

  /// Where a sum lies in the product, and 128 of the depth; the row (of tokens) is asked for where
  /// activations are codes.
  struct Place {
    Value row, column, k;
  };
  /// `sum` and the product of 128 of the depth from `k` on, which `multiply` adds to its argument.
  Value accumulate(KernelBuilder &b, const Place &at, Value sum,
                   llvm::function_ref<Value(Value)> multiply) const;
  /// Values of the type `element` for codes of 64 columns and 128 of the depth (canTurnCodes),
  /// scaled where their scale is that of a block of the depth; else the codes.
  Value turn(KernelBuilder &b, Value column, Value k, Value codes, mlir::Type element) const;
  /// Scales of the shape of `sum`.
  Value tile(KernelBuilder &b, Value column, Value k, Value sum) const;
  /// The sum over all of the depth, scaled.
  Value finish(KernelBuilder &b, Value column, Value sum) const;

private:
  struct Source {
    int64_t from; // columns of the product
    CodeScales scales;
    Value buffer;
    int64_t row; // of the matrix, that of the first column
  };
  bool isOfBlocks() const { return sources.front().scales.columns != 0; }
  /// Each row of the weight, which is a column of the product, has its own.
  bool hasScalesOfRows() const {
    return llvm::any_of(sources, [](const Source &source) { return source.scales.rows == 1; });
  }
  void addSource(int64_t from, const Matrices &weights, Value buffer);
  Value load(KernelBuilder &b, const Source &source, Value column, Value k) const;
  template <typename Load> Value choose(KernelBuilder &b, Value column, Load load) const;
  Value loadTokens(KernelBuilder &b, Value row, Value group, int64_t count) const;
  Value factor(KernelBuilder &b, const Place &at, Value sum) const;

  llvm::SmallVector<Source, 4> sources;
  std::optional<CodeScales> rowScales;
  Value rowBuffer;
  mlir::OpFoldResult tokens;
  Value batchRow;   // of the matrix, that of this part of the batch
  Value batchGroup; // of the rows' groups, that of this part's columns; null: the first
  bool weightsAreRows;
};

/// The product with values in the activations' type, which a kernel for each weight writes to a
/// workspace.
Product dequantiseWeights(StepLowering &step, const Product &product);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_CODEDWEIGHTS_H
