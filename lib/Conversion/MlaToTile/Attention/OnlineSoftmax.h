//===- OnlineSoftmax.h - before and behind attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile.attend leaves, per row, numbers that are relative to a reference in base 2:
//
//     reference  not above the maximum of the scores by construction
//     sum        Σ 2^(score − reference), of the unrounded numerators
//     output     Σ 2^(score − reference) · value, not normalised
//
// A row that saw no key has sum 0 (mla.md section 14). Here is what it starts from and
// what becomes of its results.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H

#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

namespace mlac::mla_to_tile {

/// The start of a tile.attend that goes on from a partial: f32 [rows, columns] and its
/// natural-log LSE. One with an infinite LSE is empty, whatever its output holds.
llvm::SmallVector<mlir::Value> startFromPartial(KernelBuilder &b, mlir::Value output,
                                                mlir::Value lse);

/// Output times the reciprocal of the sum, 0 where the row is empty.
mlir::Value normaliseOutput(KernelBuilder &b, mlir::tile::AttendOp attend);
/// Natural-log LSE, -inf where the row is empty.
mlir::Value attendedLse(KernelBuilder &b, mlir::tile::AttendOp attend);

/// The maximum of the scores, natural, -inf where the row is empty. Precondition: `exact`.
mlir::Value attendedMaximum(KernelBuilder &b, mlir::tile::AttendOp attend);
/// What a row's output is multiplied by for a key with the score `sink` and no value:
/// 1 / (1 + exp(sink - lse)), finite for empty rows, whose output is 0.
mlir::Value sinkFactor(KernelBuilder &b, mlir::Value sink, mlir::Value lse);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_ONLINESOFTMAX_H
