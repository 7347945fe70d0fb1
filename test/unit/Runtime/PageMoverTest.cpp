//===- PageMoverTest.cpp - pages that move and are swapped ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copy-on-write, compaction and swapping by a package's own kernel (TestKernels.c). The
// test kernels sum all rows that a token may see, so a page that was not moved, or moved
// to the wrong place, shows in the output. Also run under sanitizers (scripts/sanitize).
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <atomic>
#include <random>
#include <thread>

using namespace mlac::test;

namespace {
constexpr int64_t kLayers = 2, kHostPages = 6;

struct alignas(16) Row {
  float values[kHidden];
};

class PageMoverTest : public EngineTest {
protected:
  void SetUp() override { startPages(0); }
  void startPages(int64_t padding) {
    mla_engine_options options = defaultOptions();
    options.num_layers = kLayers;
    options.page_padding_tokens = padding;
    start(options, makePagesPackage());
    ASSERT_OK(mla_engine_cache(engine, &cache));
    ASSERT_OK(mla_swap_create(engine, kHostPages, &swap));
  }
  void TearDown() override {
    if (swap)
      ASSERT_OK(mla_swap_destroy(swap));
    ASSERT_OK(mla_cache_check(cache));
    ASSERT_OK(mla_cache_destroy(cache));
    EngineTest::TearDown();
  }

  /// Appends rows of `value` in both layers and returns the last output, which is
  /// 2 + the sum of all rows so far in column 0.
  float step(mla_sequence sequence, int32_t count, float value) {
    EXPECT_EQ(planStep({sequence}, {count}), MLA_OK) << mla_last_error();
    std::vector<Row> hidden(static_cast<size_t>(count)), output(hidden.size());
    for (Row &row : hidden)
      std::fill_n(row.values, kHidden, value);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(mla_cache_poison(engine, layer), MLA_OK);
      EXPECT_EQ(mla_step_run(plan, layer, hidden.data(), output.data(), nullptr), MLA_OK)
          << mla_last_error();
    }
    return output.back().values[0];
  }

  mla_swap_stats swapStats() {
    mla_swap_stats stats{};
    EXPECT_EQ(mla_swap_get_stats(swap, &stats), MLA_OK);
    return stats;
  }

  mla_cache *cache = nullptr;
  mla_swap *swap = nullptr;
};
} // namespace

TEST_F(PageMoverTest, CopyOnWriteUsesTheKernel) {
  mla_sequence parent = newSequence(), child;
  EXPECT_EQ(step(parent, kPage + 2, 1), 2 + 6);
  ASSERT_OK(mla_cache_fork(cache, parent, kPage + 2, &child));
  EXPECT_EQ(step(child, 1, 100), 2 + 6 + 100);
  EXPECT_EQ(step(parent, 1, 10), 2 + 6 + 10);
}

TEST_F(PageMoverTest, CompactionMovesEveryLayer) {
  mla_sequence front = newSequence(), back = newSequence();
  step(front, 3 * kPage, 1);
  step(back, 2 * kPage + 1, 10);
  ASSERT_OK(mla_sequence_free(engine, front));
  int64_t moved = 0;
  ASSERT_OK(mla_cache_compact(cache, 2, nullptr, &moved));
  EXPECT_EQ(moved, 2);
  ASSERT_OK(mla_cache_compact(cache, INT64_MAX, nullptr, &moved));
  EXPECT_EQ(moved, 1);
  ASSERT_OK(mla_cache_compact(cache, INT64_MAX, nullptr, &moved));
  EXPECT_EQ(moved, 0);
  EXPECT_EQ(step(back, 1, 100), 2 + 90 + 100);
}

TEST_F(PageMoverTest, SwappedSequencesComeBack) {
  ASSERT_OK(mla_swap_destroy(swap));
  ASSERT_OK(mla_cache_destroy(cache));
  stop();
  startPages(/*padding=*/3);
  mla_sequence a = newSequence(), b = newSequence();
  step(a, 2 * kPage + 1, 1);
  uint64_t ticket = 0;
  int64_t tokens = 0, before = freePages();
  ASSERT_OK(mla_swap_out(swap, a, nullptr, &ticket));
  EXPECT_EQ(length(a), 0);
  EXPECT_EQ(freePages(), before + 3);
  ASSERT_OK(mla_swap_length(swap, ticket, &tokens));
  EXPECT_EQ(tokens, 2 * kPage + 1);
  EXPECT_EQ(swapStats().free_pages, kHostPages - 3);
  step(b, 4 * kPage, 1000); // writes over the pages
  ASSERT_OK(mla_swap_in(swap, ticket, a, nullptr));
  EXPECT_EQ(swapStats().free_pages, kHostPages);
  EXPECT_EQ(step(a, 1, 5), 2 + 9 + 5);
  expectStatus(mla_swap_in(swap, ticket, a, nullptr), MLA_INVALID_ARGUMENT,
               "is not in the swap space");
}

/// What is refused has changed nothing.
TEST_F(PageMoverTest, FullSpacesRefuse) {
  mla_sequence a = newSequence(), b = newSequence(), c = newSequence();
  step(a, 4 * kPage, 1);
  step(b, 3 * kPage, 2);
  uint64_t first = 0, second = 0;
  ASSERT_OK(mla_swap_out(swap, a, nullptr, &first));
  EXPECT_EQ(mla_swap_out(swap, b, nullptr, &second), MLA_OUT_OF_PAGES);
  EXPECT_EQ(length(b), 3 * kPage);
  EXPECT_EQ(swapStats().num_tickets, 1);
  step(c, 6 * kPage, 3);
  EXPECT_EQ(mla_swap_in(swap, first, a, nullptr), MLA_OUT_OF_PAGES);
  EXPECT_EQ(length(a), 0);
  expectStatus(mla_swap_in(swap, first, b, nullptr), MLA_INVALID_ARGUMENT,
               "expected an empty sequence");
  ASSERT_OK(mla_sequence_free(engine, c));
  ASSERT_OK(mla_swap_in(swap, first, a, nullptr));
  EXPECT_EQ(step(a, 1, 0), 2 + 16);
}

TEST_F(PageMoverTest, SpacesOutliveTheirEngine) {
  mla_sequence a = newSequence();
  step(a, kPage, 1);
  uint64_t ticket = 0;
  ASSERT_OK(mla_swap_out(swap, a, nullptr, &ticket));
  stop();
  engine = nullptr;
  expectStatus(mla_swap_in(swap, ticket, a, nullptr), MLA_INVALID_ARGUMENT,
               "engine has been destroyed");
  ASSERT_OK(mla_swap_destroy(swap));
  ASSERT_OK(mla_cache_destroy(cache));
  startPages(0);
}

/// By the device's own copies then, of runs of neighbours.
TEST_F(PageMoverTest, PackagesWithoutTheFunctionsSwapToo) {
  for (int64_t padding : {0, 3}) {
    ASSERT_OK(mla_swap_destroy(swap));
    ASSERT_OK(mla_cache_destroy(cache));
    stop();
    mla_engine_options options = defaultOptions();
    options.num_layers = kLayers;
    options.page_padding_tokens = padding;
    start(options);
    ASSERT_OK(mla_engine_cache(engine, &cache));
    ASSERT_OK(mla_swap_create(engine, kHostPages, &swap));
    mla_sequence a = newSequence(), b = newSequence();
    step(a, 2 * kPage + 1, 1);
    uint64_t ticket = 0;
    ASSERT_OK(mla_swap_out(swap, a, nullptr, &ticket));
    EXPECT_EQ(swapStats().free_pages, kHostPages - 3);
    step(b, 4 * kPage, 1000); // writes over the pages
    ASSERT_OK(mla_swap_in(swap, ticket, a, nullptr));
    EXPECT_EQ(step(a, 1, 5), 2 + 9 + 5);
  }
}

/// Random steps, forks, swaps and compactions against the sums they must give.
TEST_F(PageMoverTest, RandomMovesKeepEveryRow) {
  struct Tracked {
    mla_sequence id;
    float sum = 0;
    int64_t tokens = 0;
    uint64_t ticket = 0;
  };
  std::mt19937 random(11);
  std::vector<Tracked> all;
  for (int i = 0; i < 3; ++i)
    all.push_back({newSequence()});
  for (int turn = 0; turn < 400; ++turn) {
    Tracked &one = all[random() % all.size()];
    switch (random() % 5) {
    case 0:
      if (one.ticket)
        break;
      if (mla_swap_out(swap, one.id, nullptr, &one.ticket) == MLA_OUT_OF_PAGES)
        one.ticket = 0;
      break;
    case 1:
      if (one.ticket && mla_swap_in(swap, one.ticket, one.id, nullptr) == MLA_OK)
        one.ticket = 0;
      break;
    case 2:
      ASSERT_OK(mla_cache_compact(cache, random() % 3, nullptr, nullptr));
      break;
    default:
      if (one.ticket || freePages() < 2)
        break;
      if (one.tokens > 3 * kPage) {
        ASSERT_OK(mla_sequence_truncate(engine, one.id, 0));
        one.sum = 0, one.tokens = 0;
      }
      auto value = static_cast<float>(random() % 8);
      one.sum += value, ++one.tokens;
      ASSERT_EQ(step(one.id, 1, value), 2 + one.sum) << "turn " << turn;
    }
    ASSERT_OK(mla_cache_check(cache));
  }
}

/// Counters and lengths are read, and handles looked up, while pages move.
TEST_F(PageMoverTest, ReadersRunBesideMoves) {
  mla_sequence front = newSequence(), back = newSequence();
  step(front, kPage, 1);
  step(back, 2 * kPage, 1);
  std::atomic<bool> isDone{false};
  std::thread reader([&] {
    mla_cache_counters counters{};
    counters.struct_bytes = sizeof counters;
    while (!isDone) {
      EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
      EXPECT_EQ(mla_cache_get_counters(cache, 0, &counters), MLA_OK);
      mla_swap_stats stats{};
      EXPECT_EQ(mla_swap_get_stats(swap, &stats), MLA_OK);
    }
  });
  std::thread other([&] {
    uint64_t ticket;
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(mla_swap_out(swap, front, nullptr, &ticket), MLA_OK);
      EXPECT_EQ(mla_swap_in(swap, ticket, front, nullptr), MLA_OK);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(mla_cache_compact(cache, INT64_MAX, nullptr, nullptr), MLA_OK);
    uint64_t ticket;
    EXPECT_EQ(mla_swap_out(swap, back, nullptr, &ticket), MLA_OK);
    EXPECT_EQ(mla_swap_in(swap, ticket, back, nullptr), MLA_OK);
  }
  other.join();
  isDone = true;
  reader.join();
  EXPECT_EQ(step(back, 1, 5), 2 + 8 + 5);
  EXPECT_EQ(step(front, 1, 5), 2 + 4 + 5);
}
