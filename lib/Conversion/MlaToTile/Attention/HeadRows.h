//===- HeadRows.h - keys and values of heads in a paged pool ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of grouped attention have in common, whatever a tile's rows are.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADROWS_H

#include "Plan/PagedPool.h"

namespace mlac::mla_to_tile {

/// Rows of all KV heads' keys or values: their pool, and from which argument on it comes.
struct HeadRows {
  Pool pool;
  unsigned firstArg = 0;
  int64_t columns = 0; // of a head

  /// Adds the pool's arguments to `planArgs`.
  static HeadRows add(StepLowering &step, mlir::mla::GroupedAttentionOp op,
                      mlir::TypedValue<mlir::mla::CacheType> cache, mlac::cache::Part part,
                      mlir::SmallVectorImpl<mlir::Value> &planArgs);
  /// The columns of KV head `head` (null: the only one) of all rows, in the kernel with the
  /// arguments `args`.
  mlir::Value view(KernelBuilder &b, mlir::ValueRange args, mlac::cache::Part part,
                   mlir::Value head) const;
  /// What codes of keys and of values are multiplied by, f32 [2]; null where rows are no codes.
  mlir::Value getScales(mlir::ValueRange args) const;
};

/// Whether queries that are rotated beside the append stay where attention alone reads them, so
/// that their rows lie where TMA can copy them, however wide heads are (StepLowering::alignedRows).
bool haveAlignedRows(mlir::Value query);

/// The start of a tile.attend whose rows have seen the score `sink` (f32 [rows], natural) of no
/// value, where `isIn` (i1 [rows]; null: everywhere) says so. Infinite ones stay finite, so that
/// nothing is inf − inf.
llvm::SmallVector<mlir::Value> startFromSink(KernelBuilder &b, mlir::Value sink, mlir::Value isIn,
                                             int64_t columns);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADROWS_H
