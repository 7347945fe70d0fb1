//===- ColumnRun.h - neighbouring columns of one thread ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels without products may have fragments whose threads hold runs of more columns than wgmma's
// (Layout.h), so that an access moves 16 bytes. Where two tiles are the first and the second
// elements of pairs in memory, one access moves both elements:
//
//     %a = tile.load of columns 0, 2, 4, ...   ->   %a, %b = sm90.load_pairs
//     %b = tile.load of columns 1, 3, 5, ...
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_COLUMNRUN_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_COLUMNRUN_H

#include "Common/ScheduleBuilder.h"

namespace mlac {

/// Loads and stores of a kernel that access the two elements of the same pairs, which lie together
/// and aligned.
class PairAccesses {
public:
  PairAccesses(mlir::tile::KernelOp kernel, const Placement &placement);

  /// The access to the second elements, behind `op` in its block; null: `op` accesses no first
  /// ones.
  mlir::Operation *getSecond(mlir::Operation *op) const { return seconds.lookup(op); }
  /// The access to the first ones, in front of `op`.
  mlir::Operation *getFirst(mlir::Operation *op) const { return firsts.lookup(op); }
  /// The most columns, up to `run`, of whose pairs one access moves all that a thread has.
  int64_t chooseRun(int64_t run) const;

private:
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> seconds, firsts;
};

/// Neighbouring columns that one thread may hold in a kernel: up to 16 bytes of 16-bit elements,
/// where no product needs the fragment's own order and every access that could be a pair could be
/// a run. Kernels that are not marked (tile.row_kernel) have wgmma's.
int64_t chooseColumnRun(mlir::tile::KernelOp kernel, const PairAccesses &pairs);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_COLUMNRUN_H
