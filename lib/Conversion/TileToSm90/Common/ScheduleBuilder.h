//===- ScheduleBuilder.h - what all schedules share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From tile values to fragments and shared tiles, and what is known about the
// addresses of a load. A schedule decides when things happen; where values live
// and how wide accesses may be is the same for all of them.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SCHEDULEBUILDER_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SCHEDULEBUILDER_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace mlac {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// How a schedule converts the type of a value; an error at the op if it cannot.
using TileTypeConversion =
    llvm::function_ref<mlir::FailureOr<mlir::Type>(mlir::Operation *, mlir::Type)>;

/// Over how many warpgroups `columns` accumulator columns are split: the fewest
/// that leave each at most 256, in whole panels of 64 if possible, else in groups
/// of 8. 0 if there is no such number.
int64_t chooseColumnSplit(int64_t columns);

/// The fragment or row-vector type of a tile; other types are returned as they
/// are. An error at `op` names what the target cannot hold.
mlir::FailureOr<mlir::Type> convertTileType(mlir::Operation *op, mlir::Type type);

/// The shared tile of a tile that feeds a dot. An error as above.
mlir::FailureOr<mlir::sm90::SmemType> convertSharedType(mlir::Operation *op, mlir::Type type);

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// Which form(s) each tile of a kernel is needed in.
class Placement {
public:
  explicit Placement(mlir::tile::KernelOp kernel);

  /// Operand of a dot, or sliced for one: lives in shared memory.
  bool needsShared(mlir::Value tile) const { return shared.contains(tile); }
  /// Used by anything else: lives in registers.
  bool needsFragment(mlir::Value tile) const { return fragments.contains(tile); }

private:
  llvm::DenseSet<mlir::Value> shared;
  llvm::DenseSet<mlir::Value> fragments;
};

/// Warpgroups of the CTA: the widest split of any tile held in registers.
mlir::FailureOr<int32_t> chooseWarpgroups(mlir::tile::KernelOp kernel, const Placement &placement);

/// Checks what wgmma asks of a dot's shapes and element type.
mlir::LogicalResult verifyDot(mlir::tile::DotOp dot);

/// Checks that a slice is of columns of a load, and panel-aligned if shared.
mlir::LogicalResult verifySlice(mlir::tensor::ExtractSliceOp slice, const Placement &placement);

//===----------------------------------------------------------------------===//
// Element-wise ops
//===----------------------------------------------------------------------===//

mlir::sm90::ReduceKind convertReduceKind(mlir::tile::ReduceKind kind);

/// Clones `op`, which has no region and touches no tile memory, on the values
/// that `mapping` holds for its operands, and maps its results. tile ops become
/// their sm90 counterparts. An error at the op says if there is none.
mlir::LogicalResult cloneElementwise(mlir::OpBuilder &builder, mlir::Operation *op,
                                     mlir::IRMapping &mapping, TileTypeConversion convert);

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// Widest vector, in bytes, that may move columns of `view` from column
/// `column` on: 16, 8, 4 or one element.
int64_t chooseVectorBytes(mlir::Value view, mlir::OpFoldResult column);

/// Whether every `count` neighbouring elements of a row lie together and aligned.
bool areRuns(mlir::Value view, mlir::OpFoldResult column, int64_t count);

/// Whether pairs of columns may be moved as one (see sm90.load).
bool arePaired(mlir::Value view, mlir::OpFoldResult column);

/// The same of a view whose columns, `stride` elements apart, are the first of so many elements
/// that are moved with them (see sm90.load_pairs); `count` columns with all of theirs.
bool areRunsOf(int64_t stride, mlir::Value view, mlir::OpFoldResult column, int64_t count);

/// The kernel argument that a view looks at.
mlir::Value findBuffer(mlir::Value view);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SCHEDULEBUILDER_H
