//===- Ceilings.h - what the machine can do at most ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step's time says little without the machine's own limits, and those differ
// between machines and days: measure both in one run.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_CEILINGS_H
#define MLA_RUN_CEILINGS_H

#include <optional>
#include <string>

namespace mlac::run {

/// Nothing where it could not be measured; `notes` says why, and how.
struct Ceilings {
  std::optional<double> readBytesPerSecond;
  std::optional<double> flopsPerSecond;
  std::string notes;
};

/// Read stream over memory far larger than the caches; f32 FMA matrix products
/// that stay in a core's first cache.
Ceilings measureCpuCeilings(int64_t threads);

/// Read stream by a small kernel; bf16 8192^3 product by cuBLAS where its
/// library is found.
Ceilings measureCudaCeilings(int ordinal);

} // namespace mlac::run

#endif // MLA_RUN_CEILINGS_H
