//===- Limits.h - what an sm_90a multiprocessor offers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The hardware constants that sizes, budgets and verifiers are checked against,
// each with its source. [CUDA] is the CUDA C++ Programming Guide 13.0, appendix
// "Compute Capabilities", table "Technical Specifications per Compute
// Capability", column 9.0. [PTX] is the PTX ISA 9.0 manual.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TARGET_NVPTX_LIMITS_H
#define MLA_TARGET_NVPTX_LIMITS_H

#include <cstdint>

namespace mlac::sm90 {

/// Architecture name with the `a` suffix that wgmma and setmaxnreg need
/// ([PTX] "wgmma.mma_async": requires sm_90a).
inline constexpr const char *kChip = "sm_90a";

/// PTX ISA version 8.8: the newest that the CUDA 12.9 assemblers read too, and
/// new enough for copies to `.shared::cta` (8.6).
inline constexpr const char *kPtxFeatures = "+ptx88";
inline constexpr const char *kPtxVersion = "8.8";

/// 227 KiB: the shared memory one CTA may use [CUDA].
inline constexpr int64_t kSharedBytesPerCta = 232448;
/// 48 KiB: more dynamic shared memory than this needs the function attribute
/// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES at launch [CUDA].
inline constexpr int64_t kSharedBytesWithoutOptIn = 49152;
/// 32-bit registers of one multiprocessor and of one CTA [CUDA].
inline constexpr int64_t kRegistersPerSm = 65536;
/// Registers one thread can address [CUDA].
inline constexpr int64_t kRegistersPerThread = 255;
/// Registers are handed out to warps in units of 8 per thread [CUDA occupancy
/// calculator: allocation unit 256 per warp].
inline constexpr int64_t kRegisterGranule = 8;
/// Threads of one CTA [CUDA].
inline constexpr int64_t kThreadsPerCta = 1024;
inline constexpr int64_t kThreadsPerWarp = 32;
/// Four warps with consecutive, 4-aligned ranks form a warpgroup ([PTX] "wgmma").
inline constexpr int64_t kWarpsPerWarpgroup = 4;
inline constexpr int64_t kThreadsPerWarpgroup = kThreadsPerWarp * kWarpsPerWarpgroup;
/// Named barriers of one CTA, barrier 0 included ([PTX] "bar, barrier").
inline constexpr int64_t kNamedBarriers = 16;
/// Multiprocessors of an H200 SXM (NVIDIA H200 data sheet; cuDeviceGetAttribute
/// on one gives the same). Only cost estimates use it, never correctness.
inline constexpr int64_t kH200Multiprocessors = 132;

/// Rows of every wgmma accumulator, and bounds of its column count ([PTX]
/// "wgmma.mma_async", shapes .m64nNk16 with N a multiple of 8 in [8, 256]).
inline constexpr int64_t kWgmmaRows = 64;
inline constexpr int64_t kWgmmaColumnGranule = 8;
inline constexpr int64_t kWgmmaMaxColumns = 256;
/// Contraction width of one 16-bit wgmma: 32 bytes of each row ([PTX] same).
inline constexpr int64_t kWgmmaDepth16Bit = 16;

/// A 128-byte swizzled shared tile: rows of 128 bytes in groups of 8 rows,
/// which repeat every 1024 bytes ([PTX] "Shared memory matrix layout").
inline constexpr int64_t kSwizzleRowBytes = 128;
inline constexpr int64_t kSwizzleGroupRows = 8;
inline constexpr int64_t kSwizzleGroupBytes = kSwizzleRowBytes * kSwizzleGroupRows;
/// Alignment that swizzled tiles need, and so the dynamic shared memory.
inline constexpr int64_t kSharedAlignment = kSwizzleGroupBytes;

} // namespace mlac::sm90

#endif // MLA_TARGET_NVPTX_LIMITS_H
