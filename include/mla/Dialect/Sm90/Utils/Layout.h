//===- Layout.h - who holds what, and where it lies ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only home of fragment, swizzle and descriptor arithmetic. Formulas are
// templates over the integer type: with `int64_t` they are what tests and cost
// models evaluate, with a wrapper around an SSA value they emit the same
// formula as IR. So the code that runs on the device is the one that the host
// tests prove against the PTX manual's layouts.
//
// An `Int` needs + * / % ^ with itself and with int64_t on the right. All
// quantities are non-negative.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_UTILS_LAYOUT_H
#define MLA_DIALECT_SM90_UTILS_LAYOUT_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include <cstdint>

namespace mlir::sm90 {

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//
//
// The accumulator of wgmma.mma_async.m64nNk16 (PTX ISA, "Register fragments for
// wgmma.mma_async.m64nNk16", matrix D). Register 4j + 2h + i of thread t:
//
//              columns 8j ..              8j+7
//   row 16w     | t0 t0 | t1 t1 | t2 t2 | t3 t3 |  h = 0   (lane = 4 * (row % 8) + pair)
//   row 16w+1   | t4 t4 | t5 t5 | t6 t6 | t7 t7 |
//     ...
//   row 16w+8   | t0 t0 | t1 t1 | t2 t2 | t3 t3 |  h = 1
//     ...
//
// w is the warp within the warpgroup, i = 0, 1 picks the element of a pair.

/// Rows of a fragment that one thread holds.
inline constexpr int64_t kFragmentRows = 2;
/// Rows of a fragment that one warp holds.
inline constexpr int64_t kWarpRows = kTileRows / kWarpgroupWarps;
/// Row of half `h` of thread `thread` (0 to 127 within its warpgroup).
template <class Int> Int getFragmentRow(Int thread, int64_t h) {
  return thread / 32 * 16 + thread % 32 / 4 + h * 8;
}
/// First column of thread `thread` within its warpgroup's part; its register
/// 4j + 2h + i holds column 8j + i to the right of it.
template <class Int> Int getFragmentColumn(Int thread) { return thread % 4 * 2; }
/// Register of column group `j`, half `h`, element `i`.
constexpr int64_t getFragmentRegister(int64_t j, int64_t h, int64_t i) { return 4 * j + 2 * h + i; }

// Kernels whose fragments meet no wgmma may exchange columns, so that a thread holds
// runs of more neighbours and its accesses are wider (`sm90.column_run`). With runs of
// V, lane q of four holds columns q * V .. q * V + V - 1 of every 4 * V; registers keep
// their order, so that arithmetic does not see it.
//
//   V = 2   t0 t0 | t1 t1 | t2 t2 | t3 t3 |       registers of t0: columns 0 1, 8 9, ...
//   V = 8   t0 x 8 | t1 x 8 | t2 x 8 | t3 x 8 |                    columns 0 .. 7, 32 ...

/// Name of the kernel attribute that holds V.
inline constexpr llvm::StringLiteral kColumnRunAttr = "sm90.column_run";
/// Its values: from a fragment's own pairs to 16 bytes of 2-byte elements.
inline constexpr int64_t kColumnRuns[] = {2, 4, 8};

/// Column of register 4j + 2h + i, to the right of the thread's first.
constexpr int64_t getRunColumn(int64_t j, int64_t i, int64_t run) {
  int64_t pairs = run / 2;
  return j / pairs * (4 * run) + j % pairs * 2 + i;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// Bytes of the unit that the swizzle moves.
inline constexpr int64_t kChunkBytes = 16;
/// Chunks of a panel's row.
inline constexpr int64_t kPanelChunks = kPanelRowBytes / kChunkBytes;

/// Byte of chunk `chunk` (16 bytes of a row, counted over the whole tile) in row
/// `row` of a swizzle128 tile with `rows` rows. The panel is 8 chunks wide; in
/// it the chunk's position is exchanged by the row. Tiles start at multiples of
/// 1024 bytes, so row % 8 equals address bits 7 to 9, which is what the hardware
/// applies to bits 4 to 6 (PTX ISA, "128-Byte swizzle").
template <class Int> Int getSwizzledChunkByte(Int row, Int chunk, int64_t rows) {
  return chunk / kPanelChunks * (rows * kPanelRowBytes) + row * kPanelRowBytes +
         (chunk % kPanelChunks ^ row % kSwizzleRows) * kChunkBytes;
}

//===----------------------------------------------------------------------===//
// wgmma descriptors
//===----------------------------------------------------------------------===//
//
// PTX ISA, "Matrix Descriptor Format" (wgmma):
//
//   bits 13-0   start address     (address & 0x3FFFF) >> 4
//   bits 29-16  leading offset    bytes >> 4
//   bits 45-32  stride offset     bytes >> 4
//   bits 51-49  base offset       0: tiles start at multiples of 1024 bytes
//   bits 63-62  swizzle mode      1: 128 bytes
//
// Where element (m or n, k) of an operand lies, before the swizzle, with E the
// element's size (2) and tiles of R rows:
//
//   role                       rows of the tile  byte
//   K-major (A; B as [N, K])   m or n            n / 8 * stride + n % 8 * 128 + k * E
//   MN-major (B as [K, N])     k                 n / 64 * leading + k / 8 * stride
//                                                + k % 8 * 128 + n % 64 * E
//
// Stride is 1024 bytes in both. The leading offset is unused in K-major form
// (one instruction reads 32 bytes of each row, within one panel) and is the
// panel's size in MN-major form. Measured right on an H200 by the prototypes.

/// The constant bits of the descriptor of a K-major operand.
constexpr uint64_t kKMajorDescriptor =
    uint64_t(1) << 62 | uint64_t(kSwizzleAtomBytes >> 4) << 32 | uint64_t(1) << 16;
/// The constant bits of the descriptor of an MN-major operand whose panels have
/// `panelBytes` bytes.
constexpr uint64_t getMNMajorDescriptor(int64_t panelBytes) {
  return uint64_t(1) << 62 | uint64_t(kSwizzleAtomBytes >> 4) << 32 |
         uint64_t(panelBytes >> 4) << 16;
}
/// Bits of a shared-memory address that a descriptor can express.
inline constexpr int64_t kDescriptorAddressMask = 0x3FFFF;
/// Descriptors count in units of 16 bytes.
inline constexpr int64_t kDescriptorUnit = 16;

/// Bytes from the start of a K-major tile to step `step` along K, 32 bytes of each row.
constexpr int64_t getKMajorStepBytes(int64_t step, int64_t panelBytes) {
  constexpr int64_t stepsPerPanel = kPanelColumns / kWgmmaDepth;
  return step / stepsPerPanel * panelBytes +
         step % stepsPerPanel * (kPanelRowBytes / stepsPerPanel);
}
/// Bytes from the start of an MN-major tile to step `step` of 16 rows of K.
constexpr int64_t getMNMajorStepBytes(int64_t step) {
  return step * (kWgmmaDepth * kPanelRowBytes);
}

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_UTILS_LAYOUT_H
