//===- PositionRows.h - rows of a pool by positions of a request ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// entry = position / page_size, below the entries; page = table[request, entry]
// row   = page * rows + position % page_size, page below the limit; -1 where anything is not there
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_POSITIONROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_POSITIONROWS_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

struct PositionRows {
  mlir::Value numRequests, table, maxBlocks, pageRows, pageLimit;
  int64_t pageSize;

  static PositionRows ofPlan(StepLowering &step, mlir::Value cache, mlir::Value batch);
  llvm::SmallVector<mlir::Value> args() const {
    return {numRequests, table, maxBlocks, pageRows, pageLimit};
  }
  PositionRows inKernel(mlir::ValueRange args) const {
    return {args[0], args[1], args[2], args[3], args[4], pageSize};
  }
  /// i32 tiles of a shape: of positions, and of the requests that they are in.
  mlir::Value find(KernelBuilder &b, mlir::Value positions, mlir::Value requests) const;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_POSITIONROWS_H
