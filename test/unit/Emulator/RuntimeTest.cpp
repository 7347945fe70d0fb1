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
#include <cstring>
#include <dlfcn.h>

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

namespace {
/// Two streams that wait for each other only where an event says so.
class ForkTest : public EmulatedTest {
protected:
  static void makeStreamsLazy(bool areLazy) {
    auto *set = reinterpret_cast<int (*)(int)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "mlacEmulatorLazyStreams"));
    ASSERT_NE(set, nullptr);
    set(areLazy);
  }

  /// Runs one decode of makeForkPackage on `stream`, the side stream being lazy or not.
  void check(int64_t limit, mla_stream *stream, bool isSideLazy) {
    std::string bytes = pack(makeForkPackage(limit));
    mla_package *package;
    mla_engine *engine;
    mla_plan *plan;
    mla_engine_options options;
    mla_engine_options_init(&options);
    options.max_num_requests = options.max_num_tokens = 2;
    ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
    ASSERT_OK(mla_engine_create(package, device, &options, &engine));
    std::vector<float> weight(kHidden, 1);
    int64_t shape[] = {kHidden};
    ASSERT_OK(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, weight.data()));
    ASSERT_OK(mla_engine_prepare(engine, 0));
    ASSERT_OK(mla_plan_create(engine, &plan));
    mla_sequence sequence;
    ASSERT_OK(mla_sequence_create(engine, &sequence));
    int32_t length = 1;
    mla_batch batch = {sizeof batch, 1, &sequence, &length, 0};
    makeStreamsLazy(isSideLazy);
    ASSERT_OK(mla_step_plan(plan, &batch, "decode", nullptr));
    makeStreamsLazy(false);
    ASSERT_OK(mla_engine_poison_workspace(engine));
    std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8}, got(kHidden);
    void *hidden, *output;
    ASSERT_OK(mla_device_malloc(device, sizeof(float) * kHidden, &hidden));
    ASSERT_OK(mla_device_malloc(device, sizeof(float) * kHidden, &output));
    ASSERT_OK(mla_device_upload(device, hidden, row.data(), sizeof(float) * kHidden));
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, stream));
    ASSERT_OK(mla_stream_synchronize(device, stream));
    std::memcpy(got.data(), output, sizeof(float) * kHidden); // the emulator's memory is the host's
    for (int64_t i = 0; i < kHidden; ++i)
      EXPECT_EQ(got[i], 5 * row[i]) << i;
    EXPECT_OK(mla_device_free(device, hidden));
    EXPECT_OK(mla_device_free(device, output));
    EXPECT_OK(mla_plan_destroy(plan));
    EXPECT_OK(mla_engine_destroy(engine));
    EXPECT_OK(mla_package_close(package));
  }
};
} // namespace

/// A side that ends late is waited for.
TEST_F(ForkTest, V4_41_WhatFollowsWaitsForTheSide) { check(/*limit=*/1, nullptr, true); }

/// A side that could begin at once waits for what is ahead of the fork.
TEST_F(ForkTest, V4_41_TheSideWaitsForWhatIsBefore) {
  mla_stream *stream;
  makeStreamsLazy(true);
  ASSERT_OK(mla_stream_create(device, &stream));
  makeStreamsLazy(false);
  check(/*limit=*/1, stream, false);
  check(/*limit=*/1, stream, true);
  EXPECT_OK(mla_stream_destroy(device, stream));
}

/// Above the threshold one stream has all launches, the main side's first.
TEST_F(ForkTest, V4_41_ManyTokensTakeOneStream) { check(/*limit=*/0, nullptr, true); }

/// A fork stands in a function's own list of steps.
TEST_F(ForkTest, V4_41_AForkInsideOfAStepIsRefused) {
  fb::PackageT nested = makeForkPackage(1);
  auto &steps = nested.targets[0]->functions[2]->steps;
  auto loop = std::make_unique<fb::StepT>();
  loop->loop = std::make_unique<fb::LoopT>();
  loop->loop->count = 1;
  loop->loop->body.push_back(std::move(steps[1]));
  steps[1] = std::move(loop);
  std::string bytes = pack(nested);
  mla_package *package;
  expectStatus(mla_package_open_bytes(bytes.data(), bytes.size(), &package), MLA_CORRUPT,
               "a fork is inside of another step");
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
