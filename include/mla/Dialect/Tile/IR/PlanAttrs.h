//===- PlanAttrs.h - optional attributes of tile.plan ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_PLANATTRS_H
#define MLA_DIALECT_TILE_IR_PLANATTRS_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

namespace mlir::tile {

/// i64, at least 1: asks the runtime to split the step's batch into decodes, the
/// requests in front whose queries have at most so many tokens, and prefills behind
/// them. Only then, and in a plan for its decodes, there are the sizes and metadata of the owner
/// Parts (runtime/schema/StepSizes.def); chunks of context are those of prefills and a tile.work
/// partitions the decodes.
inline constexpr llvm::StringLiteral kDecodeThresholdAttr = "tile.decode_threshold";

/// A string: the plan with a decode threshold whose batches without prefills this one takes.
inline constexpr llvm::StringLiteral kDecodesOfAttr = "tile.decodes_of";

/// A unit: the runtime makes no chunks of context where the engine's workspace holds none, or the
/// step is padded; without it, it refuses context then.
inline constexpr llvm::StringLiteral kOptionalChunksAttr = "tile.optional_chunks";

/// The value of kDecodeThresholdAttr, or 0 without it.
inline int64_t getDecodeThreshold(PlanOp plan) {
  auto threshold = plan->getAttrOfType<IntegerAttr>(kDecodeThresholdAttr);
  return threshold ? threshold.getInt() : 0;
}

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_IR_PLANATTRS_H
