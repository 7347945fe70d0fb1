//===- JoinPartials.h - joining partials by their LSE ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rules of mla.md section 8: infinite LSEs are empty partials, whose output may
// be uninitialised and is therefore only ever used behind a select on the
// weight being 0; NaN propagates.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_JOINPARTIALS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_JOINPARTIALS_H

#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

namespace mlac::mla_to_tile {

using mlac::KernelBuilder;

/// Any infinite LSE counts as -inf: an empty partial.
mlir::Value unifyEmpty(KernelBuilder &b, mlir::Value lse);

/// -inf in place of LSEs whose `position` (i32) is not below `count`.
mlir::Value maskLse(KernelBuilder &b, mlir::Value lse, mlir::Value position, mlir::Value count);

/// The value that is subtracted from LSEs: their maximum, or 0 if all are empty,
/// so that no (-inf) - (-inf) occurs.
mlir::Value referenceOf(KernelBuilder &b, mlir::Value maximum);

/// reference + ln(sum), -inf where nothing was summed.
mlir::Value joinedLse(KernelBuilder &b, mlir::Value reference, mlir::Value sum);

/// output · factor per row, 0 where the partial's `weight` is 0 whatever the
/// output holds.
mlir::Value weigh(KernelBuilder &b, mlir::Value output, mlir::Value weight, mlir::Value factor);

/// Divides by the weights' sum, which is 0 where there was nothing: 0 / 1. A NaN
/// sum is not equal to 0 and propagates.
mlir::Value normalise(KernelBuilder &b, mlir::Value output, mlir::Value sum);

/// What is known of a row when all of its partials are joined.
struct Joined {
  mlir::Value output;         // [rows, columns]
  mlir::Value reference, sum; // [rows], of the LSE
};

/// Of each row, what some of its partials add up to.
struct JoinState {
  mlir::Value maximum, sum; // of the LSEs; of exp(LSE - maximum)
  mlir::Value output;       // sum of exp(LSE - maximum) · output
};

/// Of no partials, and of one.
JoinState joinNone(KernelBuilder &b, int64_t rows, int64_t columns);
JoinState joinOne(KernelBuilder &b, mlir::Value lse, mlir::Value output);

/// The partials of some rows: tiles of the `i`-th one, from views of its first
/// `rows` rows.
struct Partials {
  mlir::Value count, rows;
  llvm::function_ref<mlir::Value(mlir::Value i, mlir::Value rows)> lse;    // [rows]
  llvm::function_ref<mlir::Value(mlir::Value i, mlir::Value rows)> output; // [rows, columns], f32
};

/// Joins the partials from the `first`-th on to `state`: in ascending order, in one
/// pass, `pieces` at a time, so that the loads of their LSEs and outputs are under way
/// together; what is there is rescaled when a larger LSE comes.
JoinState joinInTurns(KernelBuilder &b, const JoinState &state, mlir::Value first, int64_t pieces,
                      const Partials &partials);

Joined finishJoin(KernelBuilder &b, const JoinState &state);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_JOINPARTIALS_H
