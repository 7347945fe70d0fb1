//===- Divider.h - many divisions by one number -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A division costs as much as the rest of a loop over requests. By a power of two, as nearly
// all sizes of pages and blocks are, it is a shift; by others a multiplication by 2^64 /
// divisor, rounded up, which is exact for numbers below 2^32 (Lemire, Kaser, Kurz: Faster
// remainder by direct computation, 2019).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DIVIDER_H
#define MLAC_RUNTIME_DIVIDER_H

#include <bit>
#include <cstdint>

namespace mlac::runtime {

class Divider {
public:
  /// `divisor`: at least 1.
  explicit Divider(int64_t divisor)
      : divisor(divisor), factor(UINT64_MAX / static_cast<uint64_t>(divisor) + 1),
        shift(std::has_single_bit(static_cast<uint64_t>(divisor))
                  ? std::countr_zero(static_cast<uint64_t>(divisor))
                  : -1) {}

  /// `value` / the divisor; `value` is not negative.
  int64_t operator()(int64_t value) const {
    if (shift >= 0)
      return value >> shift;
    if (((value | divisor) >> 32) != 0)
      return value / divisor;
    using Wide = unsigned __int128;
    return static_cast<int64_t>((static_cast<Wide>(value) * factor) >> 64);
  }
  /// The same, rounded up.
  int64_t up(int64_t value) const { return (*this)(value + divisor - 1); }

private:
  int64_t divisor;
  uint64_t factor; // not of powers of two
  int shift;       // of powers of two, else -1
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DIVIDER_H
