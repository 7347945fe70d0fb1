//===- BenchMoves.h - how long pages take to move ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compaction and swapping of the pages of a batch, by the runtime's own calls: host work,
// lists and kernels together, as a program that calls them waits for them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_BENCHMOVES_H
#define MLA_RUN_BENCHMOVES_H

#include "Session.h"

namespace mlac::run {

struct MoveOptions {
  int64_t requests, tokens, iterations;
  uint64_t seed; // of what the pages hold
};

/// One object for each of move, swap out and swap in: what, pages, bytes (read and written
/// inside of the pool, else those that cross the bus), median_us. Empty where the package
/// cannot.
nlohmann::json measureMoves(const Session &session, const MoveOptions &options);

} // namespace mlac::run

#endif // MLA_RUN_BENCHMOVES_H
