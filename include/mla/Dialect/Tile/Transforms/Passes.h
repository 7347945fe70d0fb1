//===- Passes.h - passes on block programs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_TRANSFORMS_PASSES_H
#define MLA_DIALECT_TILE_TRANSFORMS_PASSES_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tile {

/// On a kernel: rows of a request's query tile at most (i64), where that is known
/// when compiling. Where that is more than a tile has, program x begins behind x tiles.
inline constexpr llvm::StringLiteral kMaxRowsAttr = "tile.max_rows";

/// On a kernel's buffer argument: no kernel of the step writes it, so that it may be
/// read before a dependent launch's wait.
inline constexpr llvm::StringLiteral kInvariantAttr = "tile.invariant";

/// On a kernel: how it is to be scheduled, `{kind = "...", parameters}`, the kind for
/// few rows, and the one whose CTAs run several programs.
inline constexpr llvm::StringLiteral kScheduleAttr = "tile.schedule", kStreamKind = "stream",
                                     kPingPongKind = "pingpong";
/// On a buffer argument of a kernel with a loop over items: memory (i32) of two counters,
/// zeros wherever a launch begins and ends, and of a number for each program, by which
/// programs may share the items otherwise than the loop says.
inline constexpr llvm::StringLiteral kItemCountersAttr = "tile.item_counters";
/// On a loop over programs: its iterations may run at the same time.
inline constexpr llvm::StringLiteral kSideBySideAttr = "tile.side_by_side";
/// Its parameter for tile-lazy-rescale (f64).
inline constexpr llvm::StringLiteral kLazyThresholdKey = "lazy_threshold";

#define GEN_PASS_DECL
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_TRANSFORMS_PASSES_H
