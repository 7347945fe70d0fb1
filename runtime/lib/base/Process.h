//===- Process.h - parents and children -------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A child of fork() has its parent's memory, but none of its threads and no use of
// its CUDA contexts: what was made before must not be touched. Who makes such a thing
// keeps the process's epoch and compares it later.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PROCESS_H
#define MLAC_RUNTIME_PROCESS_H

#include <atomic>
#include <cstdint>

namespace mlac::runtime {

/// How many calls of fork() lie between this process and the one that loaded the
/// library. Counted in CApiSupport.cpp.
inline std::atomic<uint64_t> processEpoch = 0;

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PROCESS_H
