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
// run: the process trusts it as it does a shared library. More cases by hand:
//
//   MLAC_FUZZ_CASES=100000 mlac-runtime-tests --gtest_filter='PackageFuzz.*'
//
//===----------------------------------------------------------------------===//

#include "PackageTrailer.h"
#include "TestPackage.h"

#include <cstdlib>
#include <cstring>
#include <random>

using namespace mlac::test;

/// In CI: a second.
static constexpr int64_t kFuzzCases = 2000;

static mla_engine_options smallOptions() {
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = 4;
  options.max_num_tokens = 32;
  options.max_seq_len = 16;
  options.num_pages = 12;
  options.workspace_tokens = 64;
  return options;
}

/// Makes an engine, and plans steps of every function that the package has left.
static bool tryEngine(mla_package *package, mla_device *device) {
  mla_engine *engine = nullptr;
  mla_plan *plan = nullptr;
  mla_sequence sequence = 0;
  mla_engine_options options = smallOptions();
  const char *json = "";
  EXPECT_EQ(mla_package_info(package, &json), MLA_OK);
  if (mla_engine_create(package, device, &options, &engine) != MLA_OK)
    return false;
  EXPECT_EQ(mla_sequence_create(engine, &sequence), MLA_OK);
  if (mla_plan_create(engine, &plan) == MLA_OK) {
    for (int32_t tokens : {3, 1, 0}) {
      mla_batch batch = {sizeof batch, 1, &sequence, &tokens, 0};
      for (const char *function : {static_cast<const char *>(nullptr), "chunked"})
        (void)mla_step_plan(plan, &batch, function, nullptr);
    }
    EXPECT_EQ(mla_plan_destroy(plan), MLA_OK);
  }
  EXPECT_EQ(mla_engine_destroy(engine), MLA_OK);
  return true;
}

TEST(PackageFuzz, SealedPackagesAreRefusedOrHarmless) {
  const char *text = std::getenv("MLAC_FUZZ_CASES");
  int64_t cases = text ? std::atoll(text) : kFuzzCases, engines = 0;
  std::string bytes = pack(makePackage());
  std::string body = bytes.substr(0, bytes.size() - fb::kTrailerBytes);
  std::string code = readFile(MLAC_TEST_KERNELS);
  size_t codeBegin = body.find(code), codeEnd = codeBegin + code.size();
  ASSERT_NE(codeBegin, std::string::npos);
  mla_device *device = nullptr;
  ASSERT_OK(mla_device_open("cpu", 1, &device));
  std::mt19937 random(4);
  for (int64_t i = 0; i < cases; ++i) {
    std::string damaged = body;
    for (uint32_t change = random() % 3 + 1; change > 0; --change) {
      size_t at = random() % (damaged.size() - sizeof(uint32_t));
      if (at + sizeof(uint32_t) > codeBegin && at < codeEnd)
        continue;
      // Small numbers pass more checks than random bytes.
      uint32_t value = random() % 2 ? random() % 16 : static_cast<uint32_t>(random());
      std::memcpy(&damaged[at], &value, random() % 2 ? sizeof value : 1);
    }
    if (random() % 64 == 0)
      damaged.resize(random() % damaged.size());
    fb::appendTrailer(damaged);
    mla_package *package = nullptr;
    if (mla_package_open_bytes(damaged.data(), damaged.size(), &package) != MLA_OK) {
      EXPECT_STRNE(mla_last_error(), "") << i;
      continue;
    }
    engines += tryEngine(package, device);
    ASSERT_OK(mla_package_close(package));
  }
  EXPECT_GT(engines, 0); // names and kernel code may say anything
  ASSERT_OK(mla_device_close(device));
}
