//===- Simple.h - one step after the other ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SIMPLE_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SIMPLE_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

namespace mlac {

/// Builds, before `kernel`, the sm90.kernel of the same name in the simple
/// schedule: no two kinds of work overlap. It handles every kernel whose tile
/// shapes the target can hold; an error at an op says which it cannot. The
/// given kernel is left as it is.
mlir::FailureOr<mlir::sm90::KernelOp> buildSimpleSchedule(mlir::tile::KernelOp kernel);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SIMPLE_SIMPLE_H
