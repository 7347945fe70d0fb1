//===- TileAttrs.cpp - what attributes of the tile dialect hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"
#include "mla/Dialect/Tile/IR/PlanAttrs.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Dialect/VerifyAttrs.h"

using namespace mlir;
using namespace mlir::tile;
using mlac::AttrPlace;

/// Kernels keep theirs from level to level.
static constexpr StringLiteral kKernels = "tile.kernel sm90.kernel";
static constexpr mlac::AttrContent kIndexContent = {
    "an integer", mlac::isOf<IntegerAttr>}; // of an argument: C3 of tile.kernel

static constexpr mlac::LentAttr kAttrs[] = {
    {kTriggersDependentsAttr, AttrPlace::Op, kKernels, mlac::kUnitContent},
    {kWaitsForDependencyAttr, AttrPlace::Op, kKernels, mlac::kUnitContent},
    {kRowKernelAttr, AttrPlace::Op, kKernels, mlac::kUnitContent},
    {kResidentProgramsAttr, AttrPlace::Op, kKernels, mlac::kCountContent},
    {kDepthClusterAttr, AttrPlace::Op, kKernels, mlac::kCountContent},
    {kMaxRowsAttr, AttrPlace::Op, kKernels, mlac::kCountContent},
    {kScheduleAttr,
     AttrPlace::Op,
     kKernels,
     {"a schedule, as #tile.simple", mlac::isOf<ScheduleInterface>}},
    {kDecodeThresholdAttr, AttrPlace::Op, "tile.plan", mlac::kCountContent},
    {kDecodesOfAttr, AttrPlace::Op, "tile.plan", mlac::kStringContent},
    {kOptionalChunksAttr, AttrPlace::Op, "tile.plan", mlac::kUnitContent},
    {kMachineAttr,
     AttrPlace::Op,
     "builtin.module",
     {"a machine, as #tile.machine<\"h200\">", mlac::isOf<MachineAttr>}},
    {kCorrectlyRoundedAttr, AttrPlace::Op, "arith.divf llvm.fdiv", mlac::kUnitContent},
    {kSideBySideAttr, AttrPlace::Op, "scf.for", mlac::kUnitContent},
    {kDivisibilityAttr, AttrPlace::Argument, kKernels, mlac::kCountContent},
    {kInvariantAttr, AttrPlace::Argument, kKernels, mlac::kUnitContent},
    {kRowCountAttr, AttrPlace::Argument, kKernels, kIndexContent},
    {kItemCountersAttr, AttrPlace::Argument, kKernels, mlac::kUnitContent},
};

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return mlac::verifyLentAttr(op, attribute, AttrPlace::Op, kAttrs);
}

LogicalResult TileDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned,
                                                    NamedAttribute attribute) {
  return mlac::verifyLentAttr(op, attribute, AttrPlace::Argument, kAttrs);
}
