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

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCT_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCT_H

#include "StepLowering.h"

namespace mlac::mla_to_tile {

/// A batch of matrices in a buffer of the plan. Strides in elements.
struct Matrices {
  mlir::Value buffer;
  int64_t offset, batchStride, rowStride, columnStride;
};

struct Product {
  Matrices lhs, rhs = {}, out = {};
  std::optional<TensorRef> bias = std::nullopt;
  bool transposeRhs = true;
  int64_t batch = 1;
  mlir::Value rows;               // m, in the plan
  int64_t columns = 0, depth = 0; // n, k
};

/// `moreThan`: the step has taken care of up to so many rows already.
void emitProduct(StepLowering &step, const Product &product, int64_t moreThan = 0);

/// Sums of `count` parts of the depth, f32, each [limit, columns]: row t of part s is
/// row s · limit + t of `sums`, [count · limit, columns].
struct PartialSums {
  TensorRef sums;
  int64_t count, limit;
};

/// Into how many parts the depth of a product of few rows is cut so that it keeps
/// the machine busy; 1 if its columns do, or if it is not computed columns first.
int64_t chooseDepthParts(StepLowering &step, const Product &product);

/// The product, without bias and for at most `to.limit` rows, in parts of its depth.
void emitPartialSums(StepLowering &step, const Product &product, const PartialSums &to);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCT_H
