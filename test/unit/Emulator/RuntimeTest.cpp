//===- RuntimeTest.cpp - the CUDA device without a GPU ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime's CUDA device on the emulated driver: what it does with a package before
// a kernel runs, and packages made to harm whose plans are run. The emulator's kernels
// (TestKernels.mlir) are found by name; the packages' PTX is a stand-in.
//
// ctest sets MLAC_EMULATED_MODULE and the library's path (CMakeLists.txt). More cases
// of another sequence by hand:
//
//   MLAC_FUZZ_CASES=100000 MLAC_FUZZ_SEED=7 mlac-emulated-tests
//
//===----------------------------------------------------------------------===//

#include "../Runtime/PackageFuzzer.h"
#include "../Runtime/TestPackage.h"

#include <cstdlib>

using namespace mlac::test;

namespace {
/// In CI: some seconds.
constexpr int64_t kFuzzCases = 5000;

class EmulatedTest : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_OK(mla_device_open("cuda", 0, &device)); }
  void TearDown() override { EXPECT_EQ(mla_device_close(device), MLA_OK); }

  /// Makes an engine of the package and destroys it again.
  mla_status load(const fb::PackageT &content) {
    std::string bytes = pack(content);
    mla_package *package;
    mla_engine *engine = nullptr;
    EXPECT_EQ(mla_package_open_bytes(bytes.data(), bytes.size(), &package), MLA_OK)
        << mla_last_error();
    mla_status status = mla_engine_create(package, device, nullptr, &engine);
    EXPECT_EQ(mla_package_close(package), MLA_OK);
    if (status == MLA_OK)
      EXPECT_EQ(mla_engine_destroy(engine), MLA_OK);
    return status;
  }

  mla_device *device = nullptr;
};

fb::LaunchT &launchOf(fb::PackageT &package, size_t function, size_t step) {
  return *package.targets[0]->functions[function]->steps[step]->launch;
}
} // namespace

/// The driver reads as many parameters as the code declares: too few in the list would
/// be read from behind it, by the host.
TEST_F(EmulatedTest, ArgumentsAreCountedAgainstTheCode) {
  EXPECT_OK(load(makePtxPackage()));
  fb::PackageT none = makePtxPackage();
  launchOf(none, 2, 1).args.clear();
  expectStatus(load(none), MLA_CORRUPT,
               "function 'decode': launch 'attend' of kernel 'attend' passes 0 arguments, its "
               "code takes 10");
  fb::PackageT more = makePtxPackage();
  launchOf(more, 0, 0).args.push_back(launchOf(more, 0, 0).args[0]);
  expectStatus(load(more), MLA_CORRUPT,
               "function 'prepare': launch 'scale' of kernel 'scale' passes 5 arguments, its code "
               "takes 4");
  fb::PackageT wide = makePtxPackage();
  launchOf(wide, 0, 0).args[3] = launchOf(wide, 0, 0).args[2];
  expectStatus(load(wide), MLA_CORRUPT, "passes 8 bytes as argument 3, its code takes 4");
  // In loops as well.
  fb::PackageT looped = makePtxPackage();
  looped.targets[0]->functions[3]->steps[0]->loop->body[0]->launch->args.pop_back();
  expectStatus(load(looped), MLA_CORRUPT, "function 'chunked': launch 'chunk' of kernel 'chunk'");
}

/// Sealed again after any change: refused, or a run that ends with or without an error.
TEST_F(EmulatedTest, SealedPackagesRunOrAreRefused) {
  FuzzCounts counts = fuzzPackages(pack(makePtxPackage()), "", device, kFuzzCases, /*runs=*/true);
  EXPECT_GT(counts.runs, counts.engines / 8);
}

/// Of the compiler's own (fuzz_emulated.sh), with partitions of the work, chunks, tensor
/// maps and padded steps. Planned only: the kernels' loops have no end for some arguments.
TEST_F(EmulatedTest, MutantsOfACompiledPackageArePlannedOrRefused) {
  const char *path = std::getenv("MLAC_FUZZ_PACKAGE");
  if (!path)
    GTEST_SKIP() << "MLAC_FUZZ_PACKAGE is not set";
  auto package = fb::UnPackPackage(readFile(path).data());
  // Nearly all of the file is code, which the emulator does not look into.
  for (auto &code : package->targets[0]->code)
    code->bytes = makePtxPackage().targets[0]->code[0]->bytes;
  constexpr int64_t kCompiledCases = 2000; // five seconds
  fuzzPackages(pack(*package), "", device, kCompiledCases, /*runs=*/false);
}
