//===- Select.h - memory and numbers of a selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the ops of Sm90SelectOps.td, their lowering and the simulator have in common.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_UTILS_SELECT_H
#define MLA_DIALECT_SM90_UTILS_SELECT_H

#include <bit>
#include <cstdint>

namespace mlir::sm90 {

/// Bins of the histogram, and the bits of a key that number them.
inline constexpr int64_t kSelectBinBits = 11, kSelectBins = int64_t(1) << kSelectBinBits;
/// So many values or less are compared one with another, by a warp.
inline constexpr int64_t kSelectFew = 32;

/// Words of `work`: the histogram, then arrays of an element for each of at most 32 warps, the few
/// values, and single numbers.
enum SelectWord : int64_t {
  kSelectSums = kSelectBins,
  kSelectLow = kSelectSums + 32,
  kSelectHigh = kSelectLow + 32,
  kSelectFewKeys = kSelectHigh + 32,
  kSelectFound = kSelectFewKeys + kSelectFew, ///< four: bin, above, count, total
  kSelectThreshold = kSelectFound + 4,        ///< three: key, take, ties
  kSelectNumFew = kSelectThreshold + 4,
  kSelectCount, ///< candidates, or numbers of a row
  kSelectRange, ///< three: whether it is known where candidates lie, from and to where (bits)
  kSelectWorkWords = kSelectBins + 192,
};

/// A row of more values than this is sampled by more values of each thread.
inline constexpr int64_t kSelectLongRow = 262144;
inline constexpr int64_t kSelectSamples = 4, kSelectLongSamples = 16;
/// Samples lie in the row in runs of this many neighbours: a sector of memory.
inline constexpr int64_t kSelectRun = 8;

/// The rank in a sample of `samples` values that is reached by at least `rank` of `length` values
/// with near certainty: five standard deviations, and four for small numbers.
inline constexpr float kSelectDeviations = 5, kSelectMargin = 4;

/// Unsigned numbers in the order of values. NaN is 0, and both zeros are one.
inline uint32_t getSelectKey(float value) {
  if (value != value)
    return 0;
  uint32_t bits = std::bit_cast<uint32_t>(value == 0 ? 0.0f : value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_UTILS_SELECT_H
