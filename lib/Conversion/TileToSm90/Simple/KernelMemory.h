//===- KernelMemory.h - memory that a kernel shares with itself and others ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_KERNELMEMORY_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_KERNELMEMORY_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/ADT/DenseSet.h"

namespace mlac {

/// The arguments stored to whose memory the kernel also loads from.
///
/// With one warpgroup, a kernel whose input and output are bound to the same
/// memory as two arguments loads and stores an element in the same warp, in
/// program order. More warpgroups load narrow tiles redundantly, so there every
/// pair of arguments that may be the same memory counts as one buffer.
llvm::DenseSet<mlir::Value> findReusedBuffers(mlir::tile::KernelOp kernel, int32_t warpgroups);

/// The first op of the kernel's own block that accesses a tile's memory, or whose
/// regions do: a dependent kernel waits before it. Scalars before it are metadata,
/// which is there when the kernel before this one begins. Null: the kernel never waits.
mlir::Operation *findWaitingOp(mlir::tile::KernelOp kernel);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_KERNELMEMORY_H
