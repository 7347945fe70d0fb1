//===- PackageFuzzer.h - mutated packages -----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes words of a package, cuts it, copies parts of it over others, seals it again,
// and makes engines and plans of what is still accepted. Each case is refused with a
// message or harmless, and takes a bounded time. The sequence of cases follows from one
// seed, which is printed; MLAC_FUZZ_SEED and MLAC_FUZZ_CASES change it and its length.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_RUNTIME_PACKAGEFUZZER_H
#define MLAC_TEST_UNIT_RUNTIME_PACKAGEFUZZER_H

#include "TestPackage.h"

#include <ctime>

namespace mlac::test {

/// The process's time, which does not depend on what else the machine does.
inline double cpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// What one case may take: opening, planning and running.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr double kMostSeconds = 10;
#else
inline constexpr double kMostSeconds = 1;
#endif
#else
inline constexpr double kMostSeconds = 1;
#endif

/// How many mutants came how far.
struct FuzzCounts {
  int64_t engines = 0, plans = 0, runs = 0;
};

/// `file`: a package. `code`: bytes of it that are left as they are (machine code that the
/// process would run). With `runs`, steps that were planned are run.
FuzzCounts fuzzPackages(std::string file, const std::string &code, mla_device *device,
                        int64_t cases, bool runs);

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_RUNTIME_PACKAGEFUZZER_H
