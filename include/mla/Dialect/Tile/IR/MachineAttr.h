//===- MachineAttr.h - the machine that a module is scheduled for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_IR_MACHINEATTR_H
#define MLA_DIALECT_TILE_IR_MACHINEATTR_H

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Machine/TargetDescription.h"

namespace mlir::tile {

/// On a module, a #tile.machine: whose rates and measured numbers decide on tiles and
/// schedules.
inline constexpr llvm::StringLiteral kMachineAttr = "tile.machine";

/// The attribute of `machine`, whose name must be known: says what differs from that.
MachineAttr makeMachineAttr(MLIRContext *context, const mlac::TargetDescription &machine);

/// The machine of the module around `op`: that of its kMachineAttr, or the one that is
/// taken where nobody names any.
mlac::TargetDescription getMachine(Operation *op);

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_IR_MACHINEATTR_H
