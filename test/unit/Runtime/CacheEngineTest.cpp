//===- CacheEngineTest.cpp - an engine's cache, shared ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forks and prefixes under steps: the test kernels sum all rows that a token may
// see, so a wrong or uncopied page shows in the output.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <atomic>
#include <thread>
#include <unistd.h>

using namespace mlac::test;

namespace {
struct alignas(16) Row {
  float values[kHidden];
};

class CacheEngineTest : public EngineTest {
protected:
  void SetUp() override {
    mla_engine_options options = defaultOptions();
    options.num_layers = 2;
    start(options);
    ASSERT_OK(mla_engine_cache(engine, &cache));
  }
  void TearDown() override {
    ASSERT_OK(mla_cache_check(cache));
    ASSERT_OK(mla_cache_destroy(cache));
    EngineTest::TearDown();
  }

  /// Appends rows of `value` in both layers and returns the last output, which
  /// is 2 + the sum of all rows so far in column 0.
  float step(mla_sequence sequence, int32_t count, float value) {
    EXPECT_EQ(planStep({sequence}, {count}), MLA_OK) << mla_last_error();
    std::vector<Row> hidden(static_cast<size_t>(count)), output(hidden.size());
    for (Row &row : hidden)
      std::fill_n(row.values, kHidden, value);
    for (int64_t layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(mla_cache_poison(engine, layer), MLA_OK);
      EXPECT_EQ(mla_step_run(plan, layer, hidden.data(), output.data(), nullptr), MLA_OK)
          << mla_last_error();
    }
    return output.back().values[0];
  }

  mla_cache *cache = nullptr;
};
} // namespace

TEST_F(CacheEngineTest, StepsCopySharedPages) {
  mla_sequence parent = newSequence(), child;
  EXPECT_EQ(step(parent, kPage + 2, 1), 2 + 6);
  ASSERT_OK(mla_cache_fork(cache, parent, kPage + 2, &child));
  EXPECT_EQ(step(child, 1, 100), 2 + 6 + 100);
  EXPECT_EQ(step(parent, 1, 10), 2 + 6 + 10);
  EXPECT_EQ(step(child, 1, 100), 2 + 6 + 200);
  mla_cache_counters counters{};
  counters.struct_bytes = sizeof counters;
  ASSERT_OK(mla_cache_get_counters(cache, 0, &counters));
  EXPECT_EQ(counters.copied_pages, 1);
  EXPECT_EQ(counters.shared_pages, 1);
}

TEST_F(CacheEngineTest, PrefixesAreComputedOnce) {
  std::vector<int32_t> tokens(2 * kPage + 1, 7);
  mla_sequence a = newSequence(), b = newSequence();
  EXPECT_EQ(step(a, 2 * kPage + 1, 1), 2 + 2 * kPage + 1);
  int64_t published, matched;
  ASSERT_OK(mla_cache_publish(cache, a, 0, tokens.data(), 2 * kPage + 1, &published));
  EXPECT_EQ(published, 2 * kPage);
  ASSERT_OK(mla_sequence_free(engine, a));
  EXPECT_EQ(freePages(), 12);
  ASSERT_OK(mla_cache_match(cache, b, tokens.data(), 2 * kPage + 1, &matched));
  EXPECT_EQ(matched, 2 * kPage);
  EXPECT_EQ(length(b), 2 * kPage);
  EXPECT_EQ(step(b, 1, 5), 2 + 2 * kPage + 5);
}

/// A step may take all pages, cached ones too; out of pages changes nothing.
TEST_F(CacheEngineTest, StepsEvictCachedPages) {
  std::vector<int32_t> tokens(2 * kPage, 7);
  mla_sequence a = newSequence(), b = newSequence();
  step(a, 2 * kPage, 1);
  ASSERT_OK(mla_cache_publish(cache, a, 0, tokens.data(), 2 * kPage, nullptr));
  ASSERT_OK(mla_sequence_free(engine, a));
  EXPECT_EQ(step(b, 32, 1), 2 + 32);
  EXPECT_EQ(step(b, 16, 1), 2 + 48);
  mla_cache_counters counters{};
  counters.struct_bytes = sizeof counters;
  ASSERT_OK(mla_cache_get_counters(cache, 0, &counters));
  EXPECT_EQ(counters.evicted_pages, 2);
  EXPECT_EQ(planStep({b}, {1}), MLA_OUT_OF_PAGES);
  EXPECT_EQ(length(b), 48);
}

/// Steps mind the watermark: only those that bring new sequences.
TEST_F(CacheEngineTest, NewSequencesLeaveTheWatermark) {
  mla_sequence running = newSequence(), waiting = newSequence();
  step(running, 7 * kPage, 1);
  ASSERT_OK(mla_cache_set_watermark(cache, 0, 5));
  EXPECT_EQ(planStep({waiting}, {1}), MLA_OUT_OF_PAGES);
  EXPECT_EQ(planStep({running, waiting}, {1, 1}), MLA_OUT_OF_PAGES);
  EXPECT_EQ(planStep({running, waiting}, {4 * kPage, 0}), MLA_OK);
  EXPECT_EQ(freePages(), 1);
  ASSERT_OK(mla_cache_set_watermark(cache, 0, 0));
  EXPECT_EQ(planStep({waiting}, {1}), MLA_OK);
}

TEST_F(CacheEngineTest, EnginesCopyTheirOwnPages) {
  int64_t count;
  mla_page_copy copy;
  expectStatus(mla_cache_take_copies(cache, &copy, 1, &count), MLA_INVALID_ARGUMENT,
               "the engine copies the pages");
}

TEST_F(CacheEngineTest, OutlivedHandlesRefuse) {
  mla_sequence sequence = newSequence();
  stop();
  engine = nullptr;
  expectStatus(mla_cache_check(cache), MLA_INVALID_ARGUMENT, "engine has been destroyed");
  expectStatus(mla_cache_free_sequence(cache, sequence), MLA_INVALID_ARGUMENT,
               "engine has been destroyed");
  ASSERT_OK(mla_cache_destroy(cache));
  start(defaultOptions());
  ASSERT_OK(mla_engine_cache(engine, &cache));
}

/// Sequences and the bytes of both layers come back in another engine.
TEST_F(CacheEngineTest, SnapshotsHoldTheBytes) {
  mla_sequence a = newSequence(), child;
  EXPECT_EQ(step(a, kPage + 2, 1), 2 + 6);
  ASSERT_OK(mla_cache_fork(cache, a, kPage + 2, &child));
  ASSERT_OK(mla_sequence_reserve(engine, child, kPage + 3)); // a copy to be made
  std::string path = testing::TempDir() + "mlac-engine-" + std::to_string(getpid());
  ASSERT_OK(mla_cache_save(cache, path.c_str()));
  ASSERT_OK(mla_cache_destroy(cache));
  stop();
  mla_engine_options options = defaultOptions();
  options.num_layers = 2;
  options.page_padding_tokens = 1; // where pages lie is not part of a snapshot
  start(options);
  ASSERT_OK(mla_engine_cache(engine, &cache));
  ASSERT_OK(mla_cache_poison(engine, 0));
  ASSERT_OK(mla_cache_poison(engine, 1));
  ASSERT_OK(mla_cache_restore(cache, path.c_str()));
  mla_sequence ids[2];
  int64_t count;
  ASSERT_OK(mla_cache_sequences(cache, ids, 2, &count));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(step(ids[0], 1, 10), 2 + 6 + 10);
  EXPECT_EQ(step(ids[1], 1, 20), 2 + 6 + 20);
  // Another number of layers is another cache.
  stop();
  ASSERT_OK(mla_cache_destroy(cache));
  start(defaultOptions());
  ASSERT_OK(mla_engine_cache(engine, &cache));
  expectStatus(mla_cache_restore(cache, path.c_str()), MLA_INVALID_ARGUMENT,
               "the number of layers is '2', here it is '1'");
  std::remove(path.c_str());
}

/// The cache is read while the engine plans and runs.
TEST_F(CacheEngineTest, ReadersRunBesideSteps) {
  mla_sequence sequence = newSequence();
  std::atomic<bool> isDone{false};
  std::thread reader([&] {
    mla_cache_counters counters{};
    counters.struct_bytes = sizeof counters;
    int64_t length, last = 0;
    while (!isDone) {
      EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
      EXPECT_EQ(mla_cache_get_counters(cache, 0, &counters), MLA_OK);
      EXPECT_EQ(mla_cache_length(cache, sequence, &length), MLA_OK);
      EXPECT_GE(length, last);
      last = length;
    }
  });
  for (int i = 0; i < 40; ++i)
    step(sequence, 1, 1);
  isDone = true;
  reader.join();
}
