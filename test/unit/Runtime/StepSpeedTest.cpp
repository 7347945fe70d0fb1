//===- StepSpeedTest.cpp - what planning a step costs -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints the numbers of docs/lab/bookkeeping.md: host time of a decode step of 512
// requests, all metadata and the partition of the attention included, and what is sent.
//
//===----------------------------------------------------------------------===//

#include "step/StepPlanner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <gtest/gtest.h>

using namespace mlac::runtime;

TEST(StepSpeed, DecodeOf512Requests) {
  constexpr int64_t kRequests = 512, kPage = 64;
  const WorkParams work = {
      /*keysPerBlock=*/64, /*rowsPerToken=*/128, /*rowsPerTile=*/128, 1.8, 2.7, 0};
  for (int64_t context : {4096, 65536}) {
    int64_t longest = context + 1024, pages = kRequests * longest / kPage;
    KVCache cache(pages, kPage, longest);
    StepPlanner planner({kRequests,
                         kRequests,
                         longest,
                         65536,
                         kPage,
                         pages,
                         kPage * 576,
                         longest,
                         /*numSms=*/132,
                         {work}});
    std::vector<mla_sequence> ids(kRequests);
    std::vector<int32_t> lens(kRequests, 1);
    for (int64_t i = 0; i < kRequests; ++i) {
      Sequence *sequence = nullptr;
      ASSERT_TRUE(cache.create(ids[i]).isOk());
      ASSERT_TRUE(cache.find(ids[i], sequence).isOk());
      sequence->length = context - i * 7 % kPage; // not all start a page together
      ASSERT_TRUE(cache.reserve(*sequence, sequence->length).isOk());
    }
    mla_batch batch = {sizeof batch, kRequests, ids.data(), lens.data(), 0};
    std::shared_ptr<Device> device;
    DeviceMirror mirror;
    std::vector<TableRows> rows = planner.makeRows();
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.create(device, planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
    FunctionInfo function{};
    function.work = work;
    std::vector<double> times, checks;
    DeviceMirror::Sent sent;
    for (int step = 0; step < 500; ++step) {
      auto begin = std::chrono::steady_clock::now();
      ASSERT_TRUE(planner.measure(cache, batch).isOk());
      ASSERT_TRUE(planner.measureFor({function}).isOk());
      planner.fill(cache, mirror, rows);
      std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      times.push_back(taken.count() * 1e6);
      ASSERT_TRUE(mirror.upload(nullptr, sent).isOk());
      size_t row; // as a run looks at its pages when another sequence has given one up
      begin = std::chrono::steady_clock::now();
      ASSERT_TRUE(rows[0].areHeld(cache, mirror, kRequests, row));
      taken = std::chrono::steady_clock::now() - begin;
      checks.push_back(taken.count() * 1e6);
    }
    std::sort(checks.begin(), checks.end());
    std::printf("their pages are looked at in %.1f us\n", checks[checks.size() / 2]);
    std::sort(times.begin(), times.end());
    std::printf("512 requests x %lld: %.1f us least, %.1f us median; last %lld bytes, %lld calls\n",
                (long long)context, times.front(), times[times.size() / 2], (long long)sent.bytes,
                (long long)sent.calls);
  }
}
