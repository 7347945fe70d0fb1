//===- StepSpeedTest.cpp - what planning a step costs -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the numbers of docs/lab/bookkeeping.md: host time of a decode step of 512
// requests, all metadata and the partition of the attention included, and what is sent. The
// limit is checked where MLAC_CHECK_SPEED is set: an idle machine, optimised.
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlac::runtime;

namespace {
constexpr int64_t kRequests = 512, kPage = 64;

/// Partials cost nothing, so that most borders of parts cut a request.
constexpr WorkParams kPlain = {
    /*keysPerBlock=*/64, /*rowsPerToken=*/128, /*rowsPerTile=*/128, 1.8, 2.7, 0};
/// As a package of DeepSeek-V3 with all heads for sm_90a has it.
constexpr WorkParams kV3 = {
    64, 128, 64, 3.05, 1.72, 0, 0.0739, {{{4, 64, 16}, {16, 1, 2}, {INT32_MAX, 1, 2}}}, 3};

StepLimits limitsFor(int64_t longest, const WorkParams &work) {
  int64_t pages = kRequests * longest / kPage;
  return {kRequests, kRequests,   longest, 65536,          kPage,
          pages,     kPage * 576, longest, /*numSms=*/132, {work}};
}

/// Host times of decode steps, all metadata and the partition included.
class DecodeSteps {
public:
  /// Lengths up to a page, or up to all of it, below `context`.
  DecodeSteps(int64_t context, const WorkParams &work, bool isRagged)
      : longest(context + 1024), cache(kRequests * longest / kPage, kPage, longest),
        planner(limitsFor(longest, work)), rows(planner.makeRows()) {
    function.work = work;
    for (int64_t i = 0; i < kRequests; ++i) {
      Sequence *sequence = nullptr;
      EXPECT_TRUE(cache.create(ids[i]).isOk());
      EXPECT_TRUE(cache.find(ids[i], sequence).isOk());
      sequence->length = context - (isRagged ? i * 7919 % context : i * 7 % kPage);
      EXPECT_TRUE(cache.reserve(*sequence, sequence->length).isOk());
    }
    EXPECT_TRUE(openCpuDevice(1, device).isOk());
    EXPECT_TRUE(mirror.create(device, planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
  }

  /// Microseconds of the next step.
  double plan() {
    mla_batch batch = {sizeof batch, kRequests, ids.data(), lens.data(), 0};
    double taken = time([&] {
      EXPECT_TRUE(planner.measure(cache, batch).isOk());
      EXPECT_TRUE(planner.measureFor({function}).isOk());
      planner.fill(cache, mirror, rows);
    });
    EXPECT_TRUE(mirror.upload(nullptr, sent).isOk());
    return taken;
  }
  /// Microseconds of looking at the rows, as a run does when another sequence has given up a page.
  double look() {
    size_t row;
    return time([&] { EXPECT_TRUE(rows[0].areHeld(cache, mirror, kRequests, row)); });
  }

  DeviceMirror::Sent sent; // of the last step

private:
  template <typename Function> static double time(Function function) {
    auto begin = std::chrono::steady_clock::now();
    function();
    std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    return taken.count();
  }

  int64_t longest;
  KVCache cache;
  StepPlanner planner;
  std::vector<TableRows> rows;
  std::vector<mla_sequence> ids = std::vector<mla_sequence>(kRequests);
  std::vector<int32_t> lens = std::vector<int32_t>(kRequests, 1);
  std::shared_ptr<Device> device;
  DeviceMirror mirror;
  FunctionInfo function{};
};
} // namespace

TEST(StepSpeed, DecodeOf512Requests) {
  constexpr int kSteps = 500;
  for (const WorkParams &work : {kPlain, kV3})
    for (bool isRagged : {false, true})
      for (int64_t context : {4096, 65536}) {
        DecodeSteps steps(context, work, isRagged);
        std::vector<double> times, looks;
        for (int step = 0; step < kSteps; ++step) {
          times.push_back(steps.plan());
          looks.push_back(steps.look());
        }
        std::ranges::sort(times);
        std::ranges::sort(looks);
        std::printf(
            "512 requests x %s%lld, partials %s: %.1f us least, %.1f us median, rows looked "
            "at in %.1f us; last %lld bytes, %lld calls\n",
            isRagged ? "1.." : "", (long long)context, work.partialCost > 0 ? "cost" : "free",
            times.front(), times[kSteps / 2], looks[kSteps / 2], (long long)steps.sent.bytes,
            (long long)steps.sent.calls);
        if (std::getenv("MLAC_CHECK_SPEED"))
          EXPECT_LT(times.front(), 20);
      }
}
