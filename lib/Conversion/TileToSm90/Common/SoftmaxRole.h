//===- SoftmaxRole.h - what roles with a softmax share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pieces of warp-specialised attention kernels that do not depend on how the roles
// divide the work.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SOFTMAXROLE_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SOFTMAXROLE_H

#include "Common/AttentionLoop.h"
#include "Common/LazyCloner.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlac {

/// Whether every op of the kernel is one that roles can clone; `why` names one that is
/// not.
bool canCloneInRoles(mlir::tile::KernelOp kernel, std::string &why);

/// output = output · factor, unless every factor of the warp is 1 (the running
/// maximum seldom moves).
mlir::Value rescaleIfNeeded(mlir::ImplicitLocOpBuilder &b, mlir::Value output, mlir::Value factor);

/// Emits the counterpart of a store at the builder's place.
using StoreEmitter = llvm::function_ref<void(mlir::tile::StoreOp)>;

/// The stores of tiles of `rank` (0: of all) behind the loop over keys, under the
/// branches that enclose them and the conditions between the loop and `outer`: a tile
/// of rows that a request does not have.
void emitEpilogue(mlir::ImplicitLocOpBuilder &b, LazyCloner &cloner, SoftmaxLoop &loop,
                  mlir::Operation *outer, unsigned rank, StoreEmitter emitStore);

/// A store of the same tile from `firstColumn` on: by way of `scratch`, a shared tile, where
/// one is given and rows of the view are aligned for it, else by every thread for itself. Of tiles
/// whose columns are `inRuns` (Sm90CodeOps.td) always so.
void emitStore(mlir::ImplicitLocOpBuilder &b, LazyCloner &cloner, mlir::tile::StoreOp store,
               int64_t firstColumn, mlir::Value scratch, bool inRuns = false);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_SOFTMAXROLE_H
