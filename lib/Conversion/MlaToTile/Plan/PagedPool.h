//===- PagedPool.h - ragged batches and paged pools in kernels ---*- C++ -*-===//
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

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PLAN_PAGEDPOOL_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PLAN_PAGEDPOOL_H

#include "CacheFormats.h"
#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// Consecutive rows of a ragged array.
struct RowRange {
  mlir::Value begin, count;
};

/// The rows starts[position] .. starts[position + 1].
RowRange loadRange(KernelBuilder &b, mlir::Value starts, mlir::Value position);

/// Arrays of the whole batch that say which keys a token sees; kernels take them as they stand.
struct TokenArrays {
  mlir::Value requests, starts, seqLens;

  static TokenArrays ofPlan(StepLowering &step);
  llvm::SmallVector<mlir::Value, 3> args() const { return {requests, starts, seqLens}; }
  static TokenArrays inKernel(mlir::ValueRange args) { return {args[0], args[1], args[2]}; }
  /// Keys of its request up to the token in `row`, its own among them; 0 for rows of padding, which
  /// lie outside of their request, the first one.
  mlir::Value countKeys(KernelBuilder &b, mlir::Value row) const;
};

/// Row `request` of the block table [B, maxBlocks].
mlir::Value blockTableRow(KernelBuilder &b, mlir::Value table, mlir::Value request,
                          mlir::Value maxBlocks);

/// From the number of a page's first row to the next page's, in the plan: rows that fit in between,
/// or, where pages have sections, those that a page has.
mlir::Value rowsPerPage(StepLowering &step, mlir::Value cache);

/// The plan's arguments of a kernel that touches the pool, and the pool's views
/// inside the kernel.
struct Pool {
  /// The whole pool as elements of one type.
  struct Memory {
    mlir::Type element;
    mlir::Value buffer, pageStride; // elements
  };
  mlir::Value pages;
  mlir::SmallVector<Memory, 3> memories; // one for each type of the format's fields
  mlir::Value layerScales;               // f32, of the row or its fields; null if there are none
  mlir::mla::CacheType type;

  /// Where a part lies in a page, in elements of its memory.
  struct Place {
    const Memory *memory;
    int64_t offset, rowStride;
  };
  Place find(mlac::cache::Part part) const;

  static Pool ofPlan(StepLowering &step, mlir::Value cache);
  llvm::SmallVector<mlir::Value> args() const;
  /// The same pool with the kernel's arguments, the first of which are `args`. Marks
  /// page strides with the divisibility that the runtime keeps.
  Pool inKernel(mlir::ValueRange args) const;

  /// Elements [first, first + width) of a field of all rows, [pages, page_size, width]:
  /// a tile wider than the view gets zeros, never the neighbouring elements. With
  /// a `stride` of 0 every column is element `first`.
  mlir::Value view(KernelBuilder &b, mlac::cache::Part part, mlir::OpFoldResult first,
                   int64_t width, int64_t stride = 1) const;
  /// Which of the layer's scales a part has, and that number.
  int64_t findLayerScale(mlac::cache::Part part) const;
  mlir::Value loadLayerScale(KernelBuilder &b, mlac::cache::Part part) const;
  /// The scales of codes of rows of one scale or of groups: the layer's [1], or those of groups,
  /// [pages, page_size, groups]; null if the format has none.
  mlir::Value viewScales(KernelBuilder &b) const;
  /// How many numbers rows have, in the plan: those of one page follow each other, those of the
  /// next begin rowsPerPage behind.
  mlir::Value countNumbers(StepLowering &step, mlir::Value cache) const;
  /// A field of all rows by their numbers: [count, width], or, where pages have sections,
  /// [pages, page_size, width].
  mlir::Value viewNumbered(KernelBuilder &b, mlac::cache::Part part, mlir::Value count) const;
  /// The scales of codes by the rows' numbers: the layer's [1], or those of groups in such views;
  /// or null.
  mlir::Value viewNumberedScales(KernelBuilder &b, mlir::Value count) const;
  /// The first element of a part of the row at `inPage` of `page`, from the pool's start.
  mlir::Value row(KernelBuilder &b, mlac::cache::Part part, mlir::Value page,
                  mlir::Value inPage) const;
  /// Where the row of a slot lies; somewhere, if the slot is outside of the pool.
  struct Slot {
    mlir::Value isInside, page, inPage;
  };
  Slot findSlot(KernelBuilder &b, mlir::Value slot) const;
  /// Elements of a part of a row.
  int64_t width(mlac::cache::Part part) const;
  /// The same in elements of memory, which are bytes where two elements are one.
  int64_t storedWidth(mlac::cache::Part part) const;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PLAN_PAGEDPOOL_H
