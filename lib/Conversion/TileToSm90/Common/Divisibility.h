//===- Divisibility.h - what an index is a multiple of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DIVISIBILITY_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DIVISIBILITY_H

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Value.h"

namespace mlac {

/// The largest power of two, at most `kMaxDivisor`, known to divide an index
/// value. 0 is divisible by everything.
inline constexpr int64_t kMaxDivisor = 128;
int64_t getKnownDivisor(mlir::OpFoldResult value);
int64_t getKnownDivisor(int64_t value);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DIVISIBILITY_H
