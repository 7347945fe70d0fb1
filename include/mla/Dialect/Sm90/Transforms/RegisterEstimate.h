//===- RegisterEstimate.h - registers that a role needs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bound from below that schedules and checks can use before ptxas has run: the
// fragments that live at the same time, by liveness over structured control
// flow, plus a measured constant for addresses, counters and temporaries. Op by
// op, an element-wise result takes the place of an operand that dies there.
//
// Registers of one thread, a tile of 64 rows over S warpgroups:
//
//   fragment [64, N], 32 bits    N / 2S
//   fragment [64, N], 16 bits    N / 4S
//   rows, partial                2
//   columns [N]                  N / 4
//   i1, constants, iota, broadcasts   0: predicates, immediates, or their source
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_TRANSFORMS_REGISTERESTIMATE_H
#define MLA_DIALECT_SM90_TRANSFORMS_REGISTERESTIMATE_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

namespace mlir::sm90 {

/// What a thread needs besides fragments. ptxas 13.0: a role whose accumulators
/// are 128 registers "needs a register target of 154" (C7602), and a kernel whose
/// 32 accumulators are all it holds gets 58.
inline constexpr int64_t kAddressRegisters = 26;

struct RegisterEstimate {
  int64_t fragments = 0;     ///< the most registers in fragments at one point
  Operation *peak = nullptr; ///< the first op behind which that is; null without fragments

  int64_t getTotal() const { return fragments + kAddressRegisters; }
};

/// Registers of a thread that a value of `type` takes; 0 if it is no tile.
int64_t getFragmentRegisters(Type type);

/// Of a program: the body of a role, or of a kernel (roles in it do not count).
RegisterEstimate estimateRegisters(Block &program);

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_TRANSFORMS_REGISTERESTIMATE_H
