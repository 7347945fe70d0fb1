//===- Limits.h - what a target's programs can hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Errors for sizes that no program of the step's target can hold. Each names the value, the
// limit, the target and, where there is one, what to ask for instead.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LIMITS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LIMITS_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// Attention on latents, whose output is as wide as these.
mlir::LogicalResult checkLatents(StepLowering &step, mlir::mla::AbsorbedAttentionOp op);
mlir::LogicalResult checkLatents(StepLowering &step, mlir::mla::SparseAttentionOp op);
/// Attention to values [..., V].
mlir::LogicalResult checkValues(StepLowering &step, mlir::Operation *op, mlir::Value values);

/// The error for rows that are not TileShapes::canHoldRow, with what the caller has.
mlir::LogicalResult refuseRow(StepLowering &step, mlir::Operation *op, const llvm::Twine &got);
/// Whether a program can hold a part of a row of `columns` (findRowBlock), or an error.
mlir::LogicalResult checkRowBlock(StepLowering &step, mlir::Operation *op, int64_t columns);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_LIMITS_H
