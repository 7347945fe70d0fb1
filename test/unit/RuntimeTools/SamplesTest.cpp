//===- SamplesTest.cpp - which requests a check compares ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlac::run;

/// The requests that are compared, of so many with so many contexts in turns.
static std::vector<size_t> choose(int64_t batch, int64_t contexts, int64_t samples) {
  CheckOptions options;
  options.batch = batch;
  for (int64_t i = 0; i < contexts; ++i)
    options.contexts.push_back(100 + i);
  options.samples = samples;
  std::vector<size_t> chosen;
  for (const Sample &sample : chooseSamples(makeRequests(options, 1), options))
    chosen.push_back(sample.request);
  return chosen;
}

TEST(Samples, AreSpreadOverTheBatch) {
  EXPECT_EQ(choose(64, 1, 4), (std::vector<size_t>{63, 47, 31, 15}));
  EXPECT_EQ(choose(6, 6, 3), (std::vector<size_t>{5, 3, 1}));
  // 64 is a multiple of the contexts.
  EXPECT_EQ(choose(64, 4, 4), (std::vector<size_t>{60, 45, 30, 15}));
}

TEST(Samples, AreDifferentAndOfAllContexts) {
  for (int64_t batch = 1; batch <= 20; ++batch)
    for (int64_t contexts = 1; contexts <= batch; ++contexts)
      for (int64_t samples = 1; samples <= batch + 1; ++samples) {
        std::set<size_t> requests, kinds;
        for (size_t request : choose(batch, contexts, samples)) {
          ASSERT_LT(request, size_t(batch));
          requests.insert(request);
          kinds.insert(request % contexts);
        }
        EXPECT_EQ(int64_t(requests.size()), std::min(batch, samples));
        EXPECT_EQ(int64_t(kinds.size()), std::min(contexts, samples))
            << batch << " requests, " << contexts << " contexts, " << samples << " samples";
      }
}
