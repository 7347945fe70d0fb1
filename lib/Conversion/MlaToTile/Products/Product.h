//===- Product.h - batched matrix products as kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//     out[b, m, n] = Σ_k lhs[b, m, k] · rhs[b, n, k]  (or rhs[b, k, n])  + bias[n]
//
// is launched in one of two forms, versioned by the number of rows m:
//
//     rows first      a program computes a tile [rows, columns] of `out`, looping over k
//     columns first   the transpose, for few rows: tiles of 64 columns of `out` (rows of
//                     the weight) by all rows, so that a matrix unit with 64 rows is not
//                     fed with padding; a program goes over several such tiles
//
// Columns first, a part of the batch is a place in one matrix (heads lie side by
// side in rows or columns), so that every operand is one view of a whole buffer.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCT_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCT_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// A batch of matrices in a buffer of the plan. Strides in elements.
struct Matrices {
  mlir::Value buffer;
  int64_t offset, batchStride, rowStride, columnStride;
  std::optional<CodeScales> scales = std::nullopt; // of codes
};

struct Product {
  Matrices lhs, rhs = {}, out = {};
  std::optional<TensorRef> bias = std::nullopt;
  bool transposeRhs = true;
  int64_t batch = 1;
  mlir::Value rows;               // m, in the plan
  int64_t columns = 0, depth = 0; // n, k
  /// Columns from `from` on, up to the next ones', have other weights, and another bias if any.
  struct Others {
    int64_t from;
    Matrices rhs;
    std::optional<TensorRef> bias = std::nullopt;
  };
  mlir::SmallVector<Others, 3> others = {};
};

/// `moreThan`: the step has taken care of up to so many rows already.
void emitProduct(StepLowering &step, const Product &product, int64_t moreThan = 0);

/// Sums of `count` parts of the depth, f32, side by side in each row of `sums`,
/// [rows, count · columns].
struct PartialSums {
  TensorRef sums;
  int64_t count;

  /// The parts as a batch of results of `columns` each.
  Matrices matrices(int64_t columns) const {
    return {sums.buffer, sums.offset, columns, sums.strides[0], 1};
  }
};

/// Memory for parts of `product`, of at most `limit` rows.
PartialSums makePartialSums(StepLowering &step, const Product &product, int64_t parts,
                            mlir::OpFoldResult limit);

/// Whether there is a kernel that adds up parts of rows of so many columns; the kernel,
/// which writes the result of `product`.
bool canSumParts(StepLowering &step, int64_t columns);
void emitSumParts(StepLowering &step, const Product &product, const PartialSums &sums);

/// Whether few rows of the product are computed columns first.
bool canSwap(StepLowering &step, const Product &product);

/// Products of the same rows with a weight each, whose results lie side by side: as one up to as
/// many rows as that takes no longer.
void emitStackedProducts(StepLowering &step, mlir::ArrayRef<Product> products);

/// Products of the same rows as one, the columns of each behind those of the one before; none where
/// they do not suit.
std::optional<Product> joinProducts(mlir::ArrayRef<Product> products);

/// Whether the product of few rows can be computed in so many parts of its depth.
bool canSumDepth(StepLowering &step, const Product &product, int64_t parts);

/// The product, without bias and for as many rows as `to` has, in parts of its depth.
void emitPartialSums(StepLowering &step, const Product &product, const PartialSums &to);

/// More rows than a unit multiplies write larger sums, and so have fewer parts, by programs of
/// their own. Of at most 64 rows, and of more; how many parts these have, 0 where they have no such
/// programs.
void emitPartialSumsOfFew(StepLowering &step, const Product &product, const PartialSums &to);
int64_t findPartsOfMany(StepLowering &step, const Product &product);
void emitPartialSumsOfMany(StepLowering &step, const Product &product, const PartialSums &to);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_PRODUCT_H
