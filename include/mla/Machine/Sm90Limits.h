//===- Sm90Limits.h - what an sm_90a multiprocessor offers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only home of the hardware's numbers that layouts, budgets and verifiers
// are made of, each with its source; it needs no MLIR. [CUDA] is the CUDA C++
// Programming Guide 13.0, appendix "Compute Capabilities", table "Technical
// Specifications per Compute Capability", column 9.0. [PTX] is the PTX ISA 9.0
// manual.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_MACHINE_SM90LIMITS_H
#define MLA_MACHINE_SM90LIMITS_H

#include <cstdint>

namespace mlir::sm90 {

/// Four warps of 32 threads with consecutive, 4-aligned ranks form a warpgroup
/// ([PTX] "wgmma").
inline constexpr int64_t kWarpgroupThreads = 128;
/// Threads of one CTA [CUDA], and so its warpgroups.
inline constexpr int64_t kMaxThreads = 1024;
inline constexpr int64_t kMaxWarpgroups = kMaxThreads / kWarpgroupThreads;
/// 227 KiB: the shared memory one CTA may use [CUDA].
inline constexpr int64_t kMaxSharedBytes = 232448;
/// What two CTAs of a multiprocessor may have each: half of its 228 KiB, less the 1 KiB
/// that the system takes of each [CUDA].
inline constexpr int64_t kHalfSharedBytes = (228 * 1024) / 2 - 1024;

/// Rows of every wgmma accumulator, the granule and the bound of its column
/// count ([PTX] "wgmma.mma_async", shapes .m64nNk16 with N a multiple of 8 in
/// [8, 256]).
inline constexpr int64_t kTileRows = 64;
inline constexpr int64_t kColumnGroup = 8;
inline constexpr int64_t kMaxWgmmaColumns = 256;
/// Contraction width of one 16-bit wgmma: 32 bytes of each row ([PTX] same).
inline constexpr int64_t kWgmmaDepth = 16;

/// The 128-byte swizzle: bytes of a panel's row, rows of its atom, and the atom's
/// size, which is also the alignment of a tile ([PTX] "Shared memory matrix
/// layout").
inline constexpr int64_t kPanelRowBytes = 128;
inline constexpr int64_t kSwizzleRows = 8;
inline constexpr int64_t kSwizzleAtomBytes = kPanelRowBytes * kSwizzleRows;
/// Columns of a panel of 16-bit elements, and of one of codes of 8 bits.
inline constexpr int64_t kPanelColumns = kPanelRowBytes / 2;
inline constexpr int64_t kCodePanelColumns = kPanelRowBytes;

/// Registers of one multiprocessor [CUDA]; of one thread ([PTX] "setmaxnreg":
/// multiples of 8 from 24 to 256, a thread cannot use the 256th), as budgets.
inline constexpr int64_t kRegisterFile = 65536;
inline constexpr int64_t kRegisterGranule = 8;
inline constexpr int64_t kMinRoleRegisters = 24;
inline constexpr int64_t kMaxRoleRegisters = 240;
/// Warps of a warpgroup, and lanes that share a fragment row.
inline constexpr int64_t kWarpgroupWarps = 4;
inline constexpr int64_t kQuadLanes = 4;
/// An mbarrier object, and the bound of its transaction count ([PTX] "mbarrier").
inline constexpr int64_t kBarrierBytes = 8;
inline constexpr int64_t kMaxTransactionBytes = (1 << 20) - 1;
/// Rows of a TMA box ([PTX] "Tensors", boxDim; CUDA driver API,
/// cuTensorMapEncodeTiled), and what its strides and addresses are multiples of.
inline constexpr int64_t kMaxBoxRows = 256;
inline constexpr int64_t kTmaAlignment = 16;
/// CTAs of a cluster; more than 8 need an opt-in at the launch [CUDA].
inline constexpr int64_t kMaxCluster = 16;

} // namespace mlir::sm90

#endif // MLA_MACHINE_SM90LIMITS_H
