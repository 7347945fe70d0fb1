//===- KernelAttrs.h - attributes that kernels carry down the levels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Discardable attributes by which one level tells those below what only it knows. They are
// named here once, as no level knows another. The dialects verify theirs
// (VerifyAttrs.h), so that a misspelt one is an error.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_KERNELATTRS_H
#define MLA_DIALECT_KERNELATTRS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tile {

/// On a kernel (unit): it lets the next kernel of the step begin while it runs; it waits
/// for the one before, before it touches what others write (tile.launch).
inline constexpr llvm::StringLiteral kTriggersDependentsAttr = "tile.triggers_dependents",
                                     kWaitsForDependencyAttr = "tile.waits_for_dependency";
/// On a kernel (unit): its tiles are rows that it only moves and computes element by element.
inline constexpr llvm::StringLiteral kRowKernelAttr = "tile.row_kernel";
/// On a kernel (i64): programs that are to fit on a multiprocessor side by side; 1: no second one.
inline constexpr llvm::StringLiteral kResidentProgramsAttr = "tile.resident_programs";
/// On a kernel (i64): CTAs of a cluster that may divide the loop over a product's depth, each a
/// part of it, and its results. The plan's grid counts CTAs where a schedule does so (it is above
/// 1).
inline constexpr llvm::StringLiteral kDepthClusterAttr = "tile.depth_cluster";
/// On a kernel (i64): rows of a request's query tile at most, where that is known when
/// compiling. Where that is more than a tile has, program x begins behind x tiles.
inline constexpr llvm::StringLiteral kMaxRowsAttr = "tile.max_rows";
/// On a kernel: how it is to be scheduled (ScheduleInterface).
inline constexpr llvm::StringLiteral kScheduleAttr = "tile.schedule";
/// On an arith.divf (unit): no error is allowed beyond rounding.
inline constexpr llvm::StringLiteral kCorrectlyRoundedAttr = "tile.correctly_rounded";
/// On a loop over programs (unit): its iterations may run at the same time.
inline constexpr llvm::StringLiteral kSideBySideAttr = "tile.side_by_side";
/// On an index argument of a kernel (i64): a number that divides it.
inline constexpr llvm::StringLiteral kDivisibilityAttr = "tile.divisibility";
/// On a kernel's buffer argument (unit): no kernel of the step writes it, so that it may
/// be read before a dependent launch's wait.
inline constexpr llvm::StringLiteral kInvariantAttr = "tile.invariant";
/// On a buffer argument of a kernel: the number (i64) of the argument that counts its
/// rows, a row being what the first stride of its views steps over.
inline constexpr llvm::StringLiteral kRowCountAttr = "tile.row_count";
/// On a buffer argument of a kernel with a loop over items (unit): memory (i32) of two
/// counters, zeros wherever a launch begins and ends, and of a number for each program, by
/// which programs may share the items otherwise than the loop says.
inline constexpr llvm::StringLiteral kItemCountersAttr = "tile.item_counters";

} // namespace mlir::tile

namespace mlir::sm90 {

/// On a loop (unit): it runs at least once.
inline constexpr llvm::StringLiteral kAtLeastOnceAttr = "sm90.at_least_once";
/// On a kernel (i64): bytes that an assembler may store of a thread's registers; none without.
inline constexpr llvm::StringLiteral kSpillBytesAttr = "sm90.spill_bytes";

} // namespace mlir::sm90

namespace mlac {

/// On a kernel's llvm.func, for whoever describes its launch: threads and bytes of shared
/// memory of a CTA (i64), what its tensor maps describe, and bytes of stack that a CPU
/// program takes for tiles (i64). And, for the assembler, what sm90.spill_bytes says.
inline constexpr llvm::StringLiteral kThreadsAttr = "mlac.threads",
                                     kSharedBytesAttr = "mlac.shared_bytes",
                                     kTensorMapsAttr = "mlac.tensor_maps",
                                     kScratchBytesAttr = "mlac.scratch_bytes",
                                     kSpillBytesAttr = "mlac.spill_bytes";

} // namespace mlac

#endif // MLA_DIALECT_KERNELATTRS_H
