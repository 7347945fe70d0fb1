//===- CacheThreadTest.cpp - one writer a sequence, many readers -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads that write their own sequences of one cache, and threads that read all
// of them. `scripts/sanitize tsan` runs this under ThreadSanitizer.
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"

#include <atomic>
#include <thread>

namespace {
constexpr int kWriters = 3, kReaders = 3, kRounds = 400;
constexpr int32_t kTokens = 48;

class CacheThreadTest : public ::testing::Test {
protected:
  void SetUp() override {
    mla_cache_pool pools[] = {{"latent", 256, 4, 1, 0, 0}, {"window", 128, 4, 1, 9, 0}};
    mla_cache_options options = {sizeof options, 64, 2, pools, nullptr};
    ASSERT_EQ(mla_cache_create(&options, &cache), MLA_OK);
  }
  void TearDown() override {
    EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
    EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
  }

  /// A request's life: a prefix that others have too, steps, a fork, the end.
  void live(int seed) {
    mla_sequence id = 0, child = 0;
    std::vector<int32_t> tokens(kTokens, seed % 2);
    int64_t length = 0, published = 0;
    EXPECT_EQ(mla_cache_new_sequence(cache, &id), MLA_OK);
    EXPECT_EQ(mla_cache_match(cache, id, tokens.data(), kTokens, &length), MLA_OK);
    published = length;
    while (length < kTokens) {
      auto count = static_cast<int32_t>(std::min<int64_t>(5, kTokens - length));
      mla_cache_append_batch batch = {sizeof batch, 1, &id, &length, &count};
      mla_status status = mla_cache_append(cache, &batch, nullptr, 0);
      if (status == MLA_OUT_OF_PAGES)
        break;
      EXPECT_EQ(status, MLA_OK) << mla_last_error();
      length += count;
    }
    EXPECT_EQ(mla_cache_publish(cache, id, published, tokens.data() + published, length - published,
                                &published),
              MLA_OK)
        << mla_last_error();
    EXPECT_EQ(mla_cache_fork(cache, id, length, &child), MLA_OK) << mla_last_error();
    shared.store(child);
    mla_page_copy copies[64];
    int64_t count;
    (void)mla_cache_take_copies(cache, copies, 64, &count);
    EXPECT_EQ(mla_cache_free_sequence(cache, id), MLA_OK);
    EXPECT_EQ(mla_cache_free_sequence(cache, child), MLA_OK);
  }

  void read() {
    mla_cache_counters counters{};
    counters.struct_bytes = sizeof counters;
    while (!isDone.load()) {
      EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
      EXPECT_EQ(mla_cache_get_counters(cache, 1, &counters), MLA_OK);
      const char *text;
      EXPECT_EQ(mla_cache_dump(cache, &text), MLA_OK);
      // May have been freed since: then it is refused, and says so.
      int64_t count;
      int32_t pages[64];
      mla_status status = mla_cache_pages(cache, 0, shared.load(), pages, 64, &count);
      EXPECT_TRUE(status == MLA_OK || status == MLA_INVALID_ARGUMENT);
    }
  }

  mla_cache *cache = nullptr;
  std::atomic<mla_sequence> shared{0};
  std::atomic<bool> isDone{false};
};
} // namespace

TEST_F(CacheThreadTest, WritersAndReadersRunTogether) {
  std::vector<std::thread> readers, writers;
  for (int i = 0; i < kReaders; ++i)
    readers.emplace_back([&] { read(); });
  for (int i = 0; i < kWriters; ++i)
    writers.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round)
        live(i + round);
    });
  for (std::thread &writer : writers)
    writer.join();
  isDone = true;
  for (std::thread &reader : readers)
    reader.join();
}

/// Handles are closed under readers: they are refused from then on.
TEST_F(CacheThreadTest, ClosingUnderReaders) {
  mla_cache_pool pool = {"latent", 8, 4, 1, 0, 0};
  mla_cache_options options = {sizeof options, 64, 1, &pool, nullptr};
  for (int round = 0; round < 50; ++round) {
    mla_cache *other = nullptr;
    ASSERT_EQ(mla_cache_create(&options, &other), MLA_OK);
    std::thread reader([&] {
      mla_sequence id;
      while (mla_cache_new_sequence(other, &id) == MLA_OK)
        EXPECT_NE(mla_cache_free_sequence(other, id), MLA_INTERNAL);
    });
    std::this_thread::yield();
    EXPECT_EQ(mla_cache_destroy(other), MLA_OK);
    reader.join();
  }
}

/// Two writers of one sequence: appends at the same position cannot both win.
TEST_F(CacheThreadTest, OverlappingAppendsAreRefused) {
  mla_sequence id;
  ASSERT_EQ(mla_cache_new_sequence(cache, &id), MLA_OK);
  std::atomic<int> won{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int64_t position = 0; position < 60; ++position) {
        int32_t count = 1;
        mla_cache_append_batch batch = {sizeof batch, 1, &id, &position, &count};
        won += mla_cache_append(cache, &batch, nullptr, 0) == MLA_OK;
      }
    });
  for (std::thread &writer : writers)
    writer.join();
  int64_t length;
  ASSERT_EQ(mla_cache_length(cache, id, &length), MLA_OK);
  EXPECT_EQ(length, won.load());
}
