//===- PackageFuzzer.cpp - mutated packages ---------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackageFuzzer.h"

#include "PackageTrailer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace mlac::test;

static int64_t readNumber(const char *variable, int64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}

//===----------------------------------------------------------------------===//
// Mutants
//===----------------------------------------------------------------------===//

namespace {
class Mutator {
public:
  /// Bytes [keptBegin, keptEnd) of the file never change.
  Mutator(std::string file, size_t keptBegin, size_t keptEnd, uint32_t seed)
      : file(std::move(file)), keptBegin(keptBegin), keptEnd(keptEnd), random(seed) {}

  std::string next() {
    std::string mutant = file;
    for (uint32_t change = random() % 3 + 1; change > 0; --change)
      random() % 8 ? changeWord(mutant) : copyWords(mutant);
    if (random() % 64 == 0)
      mutant.resize(random() % mutant.size());
    fb::appendTrailer(mutant);
    return mutant;
  }

private:
  bool isKept(size_t begin, size_t bytes) const {
    return begin + bytes > keptBegin && begin < keptEnd;
  }
  void changeWord(std::string &mutant) {
    size_t at = random() % (mutant.size() - sizeof(uint32_t));
    // Small numbers pass more checks than random ones, extreme ones find overflows.
    uint64_t values[] = {random() % 16, random() % 16, random(), uint64_t(1) << random() % 32};
    auto value = static_cast<uint32_t>(values[random() % std::size(values)]);
    if (!isKept(at, sizeof value))
      std::memcpy(&mutant[at], &value, random() % 2 ? sizeof value : 1);
  }
  /// One table over another: steps, arguments and buffers of other functions.
  void copyWords(std::string &mutant) {
    size_t bytes = sizeof(uint32_t) * (random() % 16 + 1);
    size_t from = random() % (mutant.size() - bytes) & ~size_t(3);
    size_t to = random() % (mutant.size() - bytes) & ~size_t(3);
    if (!isKept(to, bytes))
      std::memmove(&mutant[to], &mutant[from], bytes);
  }

  std::string file;
  size_t keptBegin, keptEnd;
  std::mt19937 random;
};

//===----------------------------------------------------------------------===//
// What is done with them
//===----------------------------------------------------------------------===//

mla_engine_options smallOptions() {
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = 4;
  options.max_num_tokens = 32;
  options.max_seq_len = 16;
  options.num_pages = 12;
  options.workspace_tokens = 64; // a page of 16 for each request
  return options;
}

/// Runs the planned step on buffers that are large enough for any that is right.
bool runPlan(mla_device *device, mla_engine *engine, mla_plan *plan) {
  constexpr size_t kBytes = 1 << 12;
  void *hidden = nullptr, *output = nullptr;
  EXPECT_EQ(mla_device_malloc(device, kBytes, &hidden), MLA_OK);
  EXPECT_EQ(mla_device_malloc(device, kBytes, &output), MLA_OK);
  float weight[kHidden] = {};
  int64_t shape[] = {kHidden};
  (void)mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, weight);
  (void)mla_engine_prepare(engine, 0);
  mla_binding bindings[] = {{"hidden", hidden, kBytes}, {"output", output, kBytes}};
  mla_binding chunks = {"lse", output, kBytes};
  bool hasRun = mla_step_run_bound(plan, 0, bindings, 2, nullptr) == MLA_OK ||
                mla_step_run_bound(plan, 0, &chunks, 1, nullptr) == MLA_OK;
  EXPECT_EQ(mla_device_free(device, hidden), MLA_OK);
  EXPECT_EQ(mla_device_free(device, output), MLA_OK);
  return hasRun;
}

/// By name where the package has it, and padded.
bool planStep(mla_plan *plan, const mla_batch &batch, const char *function, bool isPadded) {
  mla_step_shape shape = {sizeof shape, 4, 32, 8, 16, 2, 4};
  return (isPadded ? mla_step_plan_padded(plan, &batch, function, &shape, nullptr)
                   : mla_step_plan(plan, &batch, function, nullptr)) == MLA_OK;
}

/// Makes an engine, and plans steps of every function that the package has left.
void tryEngine(mla_package *package, mla_device *device, bool runs, FuzzCounts &counts) {
  mla_engine *engine = nullptr;
  mla_plan *plan = nullptr;
  mla_sequence sequence = 0;
  mla_engine_options options = smallOptions();
  const char *json = "";
  EXPECT_EQ(mla_package_info(package, &json), MLA_OK);
  if (mla_engine_create(package, device, &options, &engine) != MLA_OK)
    return;
  ++counts.engines;
  EXPECT_EQ(mla_sequence_create(engine, &sequence), MLA_OK);
  if (mla_plan_create(engine, &plan) == MLA_OK) {
    for (int32_t tokens : {3, 1, 0}) {
      mla_batch batch = {sizeof batch, 1, &sequence, &tokens, 0};
      const char *functions[] = {nullptr, "chunked", "prefill", "step"};
      for (const char *function : functions)
        for (bool isPadded : {false, true}) {
          bool isPlanned = planStep(plan, batch, function, isPadded);
          counts.plans += isPlanned;
          counts.runs += isPlanned && runs && runPlan(device, engine, plan);
        }
    }
    EXPECT_EQ(mla_plan_destroy(plan), MLA_OK);
  }
  EXPECT_EQ(mla_engine_destroy(engine), MLA_OK);
}
} // namespace

FuzzCounts mlac::test::fuzzPackages(std::string file, const std::string &code, mla_device *device,
                                    int64_t cases, bool runs) {
  auto seed = static_cast<uint32_t>(readNumber("MLAC_FUZZ_SEED", 4));
  cases = readNumber("MLAC_FUZZ_CASES", cases);
  file.resize(file.size() - fb::kTrailerBytes);
  size_t kept = code.empty() ? 0 : file.find(code);
  EXPECT_NE(kept, std::string::npos);
  Mutator mutator(file, kept, kept + code.size(), seed);
  FuzzCounts counts;
  double longest = 0;
  for (int64_t i = 0; i < cases; ++i) {
    std::string mutant = mutator.next();
    double begin = cpuSeconds();
    mla_package *package = nullptr;
    if (mla_package_open_bytes(mutant.data(), mutant.size(), &package) == MLA_OK) {
      tryEngine(package, device, runs, counts);
      EXPECT_EQ(mla_package_close(package), MLA_OK);
    } else {
      EXPECT_STRNE(mla_last_error(), "") << i;
    }
    double seconds = cpuSeconds() - begin;
    EXPECT_LT(seconds, kMostSeconds) << "case " << i << " of seed " << seed;
    longest = std::max(longest, seconds);
  }
  std::printf("seed %u: %lld mutants, %lld engines, %lld plans, %lld runs; the longest took "
              "%.0f ms\n",
              seed, (long long)cases, (long long)counts.engines, (long long)counts.plans,
              (long long)counts.runs, longest * 1e3);
  EXPECT_GT(counts.engines, 0); // names may say anything
  return counts;
}
