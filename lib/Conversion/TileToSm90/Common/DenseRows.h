//===- DenseRows.h - tiles of one head's rows, by TMA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A view of one head's rows of one request starts where only the kernel knows:
//
//     offset = first row · row stride  [+ head · head stride]  + column
//
// A tensor map is made by the host, so it covers the rows of all requests, and what
// is dynamic becomes coordinates: [heads, rows of all requests, width], head and
// row stride in that order. Columns behind a head's width read as 0. Rows behind the
// request's end are the next request's, or 0 behind the last.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEROWS_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEROWS_H

#include "Common/LazyCloner.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include <optional>
#include <string>

namespace mlac {

class DenseRows {
public:
  /// The rows of `memory`, a view, or nothing and in `why` what does not fit.
  static std::optional<DenseRows> match(mlir::Value memory, std::string &why);
  /// Those that `load` loads, whose coordinates can be asked for.
  static std::optional<DenseRows> match(mlir::tile::LoadOp load, std::string &why);

  /// A map whose boxes have `rows` rows. At the kernel's entry.
  mlir::Value createMap(mlir::OpBuilder &builder, LazyCloner &entry, int64_t rows) const;
  /// Where the tile starts in the map, at the place that `cloner` is at.
  mlir::SmallVector<mlir::Value> getCoordinates(mlir::OpBuilder &builder, LazyCloner &cloner) const;
  /// Rows of the request, a value of the tile kernel.
  mlir::Value getRowCount() const { return rowCount; }

private:
  std::string matchOffset(mlir::Value offset);
  std::string checkAlignment() const;

  mlir::Type getElementType() const {
    return mlir::cast<mlir::MemRefType>(memory.getType()).getElementType();
  }

  mlir::Value memory;
  mlir::SmallVector<mlir::Value, 2> offsets; // of the load
  mlir::BlockArgument buffer, allRows;
  int64_t width = 0, rowStride = 0, headStride = 0, column = 0; // headStride 0: no heads
  mlir::Value rowCount, head;
  mlir::SmallVector<mlir::Value, 2> firstRows; // their sum
};

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEROWS_H
