//===- PackageFuzzTest.cpp - engines from damaged packages ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages with changed bytes behind a checksum that is right again: refused, or
// an engine whose steps are planned or refused. Kernel code is left as it is and not
// run: the process trusts it as it does a shared library; the emulator's tests run such
// plans (Emulator/RuntimeTest.cpp). More cases, of another sequence, by hand:
//
//   MLAC_FUZZ_CASES=100000 MLAC_FUZZ_SEED=7 mlac-runtime-tests --gtest_filter='PackageFuzz.*'
//
//===----------------------------------------------------------------------===//

#include "PackageFuzzer.h"

using namespace mlac::test;

/// In CI: a second.
static constexpr int64_t kFuzzCases = 5000;

TEST(PackageFuzz, SealedPackagesAreRefusedOrHarmless) {
  mla_device *device = nullptr;
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  fuzzPackages(pack(makePackage()), readFile(MLAC_TEST_KERNELS), device, kFuzzCases,
               /*runs=*/false);
  ASSERT_OK(mla_device_close(device));
}
