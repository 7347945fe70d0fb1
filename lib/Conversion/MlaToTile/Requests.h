//===- Requests.h - ragged batches and paged pools in kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How kernels find one request's rows, blocks and pages (mla.md sections 9, 11).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_REQUESTS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_REQUESTS_H

#include "StepLowering.h"

namespace mlac::mla_to_tile {

/// Consecutive rows of a ragged array.
struct RowRange {
  mlir::Value begin, count;
};

/// The rows starts[position] .. starts[position + 1].
RowRange loadRange(KernelBuilder &b, mlir::Value starts, mlir::Value position);

/// Row `request` of the block table [B, maxBlocks].
mlir::Value blockTableRow(KernelBuilder &b, mlir::Value table, mlir::Value request,
                          mlir::Value maxBlocks);

/// The plan's arguments of a kernel that touches the pool, and the pool's views
/// inside the kernel.
struct Pool {
  mlir::Value buffer, pages, pageStride;
  mlir::mla::CacheType type;

  static Pool ofPlan(StepLowering &step, mlir::Value cache);
  llvm::SmallVector<mlir::Value, 3> args() const { return {buffer, pages, pageStride}; }
  /// The same pool with the kernel's arguments, of which `args` are the first
  /// three. Marks the page stride with the divisibility that the runtime keeps.
  Pool inKernel(mlir::ValueRange args) const;

  /// Columns [column, column + width) of all rows, [pages, page_size, width]:
  /// a tile wider than the view gets zeros, never the neighbouring columns.
  mlir::Value view(KernelBuilder &b, int64_t column, int64_t width) const;
  mlir::Value latentView(KernelBuilder &b) const { return view(b, 0, type.getKvLoraRank()); }
  mlir::Value ropeView(KernelBuilder &b) const {
    return view(b, type.getKvLoraRank(), type.getQkRopeHeadDim());
  }
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_REQUESTS_H
