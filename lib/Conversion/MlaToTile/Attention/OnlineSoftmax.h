//===- OnlineSoftmax.h - softmax over blocks of keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The softmax state that a loop over blocks of keys carries, per row:
//
//     maxLog2   running maximum of the scores in base 2
//     sum       Σ 2^(score − maxLog2), of the unrounded numerators
//     output    Σ 2^(score − maxLog2) · value, not normalised
//
// Scores arrive unscaled, and the block's maximum is taken of them as they are:
// softmax scale and log2(e) are one positive factor c, folded into the exponent
// 2^(score · c − maxLog2). The
// maximum starts at a finite -1e30 and masked scores are -inf, so that no
// (-inf) - (-inf) occurs; a row that saw no key has sum 0 (mla.md section 14).
// Source: FlashAttention-2 (Dao, 2023), section 3.1.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H

#include "Plan/KernelBuilder.h"

namespace mlac::mla_to_tile {

class OnlineSoftmax {
public:
  OnlineSoftmax(KernelBuilder &b, int64_t rows, int64_t keys, int64_t columns, double scale)
      : b(b), rows(rows), keys(keys), columns(columns), scale(scale) {}

  /// The values a loop starts to carry: maxLog2, sum, output.
  llvm::SmallVector<mlir::Value> start();
  /// The same to go on from a partial: f32 [rows, columns] and its natural-log LSE. One
  /// with an infinite LSE is empty, whatever its output holds.
  llvm::SmallVector<mlir::Value> startFrom(mlir::Value output, mlir::Value lse);

  /// The state after one block of keys. `scores` [rows, keys] f32; `isSeen` i1,
  /// or null if all keys are seen; `values` [keys, columns].
  llvm::SmallVector<mlir::Value> advance(mlir::ValueRange state, mlir::Value scores,
                                         mlir::Value isSeen, mlir::Value values);

  /// Output times the reciprocal of the sum, 0 where the row is empty.
  mlir::Value output(mlir::ValueRange state);
  /// Natural-log LSE, -inf where the row is empty.
  mlir::Value lse(mlir::ValueRange state);

private:
  KernelBuilder &b;
  int64_t rows, keys, columns;
  double scale;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H
