//===- StalePlanTest.cpp - plans that outlive their pages -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A filled plan reads and writes pages by their indices. When its sequences have
// given one up it may be another's: such a run is refused. A plan whose sequences
// have all its pages still runs, whatever else has happened.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <map>
#include <random>

using namespace mlac::test;

namespace {
struct alignas(16) Row {
  float values[kHidden];
};

class StalePlanTest : public EngineTest {
protected:
  void SetUp() override {
    start(defaultOptions(), makePagesPackage());
    ASSERT_OK(mla_engine_cache(engine, &cache));
    ASSERT_OK(mla_plan_create(engine, &other));
  }
  void TearDown() override {
    ASSERT_OK(mla_plan_destroy(other));
    ASSERT_OK(mla_cache_check(cache));
    ASSERT_OK(mla_cache_destroy(cache));
    EngineTest::TearDown();
  }

  /// Runs a plan on rows of ones.
  mla_status run(mla_plan *which) {
    std::vector<Row> hidden(32), output(32);
    for (Row &row : hidden)
      std::fill_n(row.values, kHidden, 1.0f);
    return mla_step_run(which, 0, hidden.data(), output.data(), nullptr);
  }
  void expectRefused(mla_sequence sequence, const char *why) {
    std::string text = "sequence " + std::to_string(sequence) + why;
    expectStatus(run(plan), MLA_WRONG_STATE, text.c_str());
    expectStatus(run(plan), MLA_WRONG_STATE, text.c_str()); // not only the first time
  }
  mla_status planOther(mla_sequence sequence, int32_t tokens) {
    mla_batch batch = {sizeof batch, 1, &sequence, &tokens, 0};
    return mla_step_plan(other, &batch, nullptr, nullptr);
  }

  static constexpr const char *kFreed = " has been freed";
  static constexpr const char *kLost = " no longer has the pages that the plan was filled for";
  mla_cache *cache = nullptr;
  mla_plan *other = nullptr;
};
} // namespace

TEST_F(StalePlanTest, FreedSequencesAreRefused) {
  mla_sequence a = newSequence(), b = newSequence();
  ASSERT_OK(planStep({a, b}, {kPage + 1, 2}));
  ASSERT_OK(run(plan));
  ASSERT_OK(mla_sequence_free(engine, b));
  expectRefused(b, kFreed);
  EXPECT_NE(std::string(mla_last_error()).find("request 1: "), std::string::npos);
  // In the same place, of the same pages: another sequence all the same.
  mla_sequence c = newSequence();
  ASSERT_OK(planOther(c, 2));
  expectRefused(b, kFreed);
  ASSERT_OK(planStep({a, c}, {1, 1}));
  ASSERT_OK(run(plan));
}

TEST_F(StalePlanTest, RefusedRunsWriteNothing) {
  mla_sequence a = newSequence(), b = newSequence();
  ASSERT_OK(planStep({a}, {2 * kPage}));
  ASSERT_OK(run(plan));
  ASSERT_OK(mla_sequence_truncate(engine, a, kPage));
  ASSERT_OK(planOther(b, kPage)); // takes the page
  std::vector<float> rows(static_cast<size_t>(kPage * kRow), 7.0f), after(rows.size());
  int32_t page;
  int64_t count;
  ASSERT_OK(mla_sequence_pages(engine, b, &page, 1, &count));
  ASSERT_OK(mla_cache_write(engine, 0, 0, page * kPage, kPage, rows.data()));
  expectRefused(a, kLost);
  ASSERT_OK(mla_cache_read(engine, 0, 0, page * kPage, kPage, after.data()));
  EXPECT_EQ(rows, after);
}

TEST_F(StalePlanTest, SwappedAndMovedPagesAreRefused) {
  mla_swap *swap;
  uint64_t ticket;
  ASSERT_OK(mla_swap_create(engine, 4, &swap));
  mla_sequence gap = newSequence(), a = newSequence();
  ASSERT_OK(planStep({gap, a}, {kPage, 3}));
  ASSERT_OK(planStep({a}, {1}));
  ASSERT_OK(mla_swap_out(swap, a, nullptr, &ticket));
  expectRefused(a, kLost);
  ASSERT_OK(mla_swap_in(swap, ticket, a, nullptr));
  ASSERT_OK(planStep({a}, {1}));
  ASSERT_OK(mla_sequence_free(engine, gap));
  ASSERT_OK(run(plan)); // another sequence's end is no matter
  int64_t moved;
  ASSERT_OK(mla_cache_compact(cache, 12, nullptr, &moved));
  EXPECT_GT(moved, 0);
  expectRefused(a, kLost);
  ASSERT_OK(mla_swap_destroy(swap));
}

TEST_F(StalePlanTest, CopiedAndMergedPagesAreRefused) {
  mla_sequence a = newSequence(), child;
  ASSERT_OK(planStep({a}, {kPage + 2}));
  ASSERT_OK(mla_cache_fork(cache, a, kPage + 2, &child));
  ASSERT_OK(run(plan)); // a fork takes nothing away
  ASSERT_OK(planOther(a, 1));
  expectRefused(a, kLost); // the page with its last rows is the child's alone
  std::vector<int32_t> tokens(kPage, 7);
  mla_sequence b = newSequence();
  ASSERT_OK(planStep({b}, {kPage}));
  ASSERT_OK(mla_cache_publish(cache, a, 0, tokens.data(), kPage, nullptr));
  ASSERT_OK(run(plan));
  ASSERT_OK(mla_cache_publish(cache, b, 0, tokens.data(), kPage, nullptr));
  expectRefused(b, kLost); // the block is the one that `a` has published
}

/// Against lists of the pages that the plan was filled for.
TEST_F(StalePlanTest, RandomChangesAreRefusedWhereAPageIsGone) {
  constexpr int kChanges = 4000;
  std::mt19937 random(6);
  std::vector<mla_sequence> ids;
  auto pagesOf = [&](mla_sequence id, std::vector<int32_t> &pages) {
    int64_t count = 0;
    pages.assign(12, 0);
    bool isLive = mla_sequence_pages(engine, id, pages.data(), 12, &count) == MLA_OK;
    pages.resize(static_cast<size_t>(count));
    return isLive;
  };
  std::map<mla_sequence, std::vector<int32_t>> planned;
  int refused = 0, runs = 0;
  for (int i = 0; i < kChanges; ++i) {
    while (ids.size() < 3)
      ids.push_back(newSequence());
    mla_sequence &id = ids[random() % ids.size()], child;
    int64_t tokens = length(id);
    switch (random() % 10) {
    case 0:
      ASSERT_OK(mla_sequence_free(engine, id));
      id = newSequence();
      break;
    case 1:
      ASSERT_OK(mla_sequence_truncate(engine, id, tokens - tokens * (random() % 3) / 4));
      break;
    case 2:
      if (ids.size() < 4 && mla_cache_fork(cache, id, tokens, &child) == MLA_OK)
        ids.push_back(child);
      break;
    case 3:
      (void)mla_sequence_reserve(engine, id, std::min<int64_t>(tokens + 6, kRopeLength));
      break;
    case 4:
      ASSERT_OK(mla_cache_compact(cache, 2, nullptr, nullptr));
      break;
    case 5:
    case 6:
      (void)planOther(id, 1 + random() % 3);
      break;
    case 7:
      if (planStep({ids[0], ids[1]}, {1, static_cast<int32_t>(random() % 4)}, "prefill") != MLA_OK)
        break;
      planned.clear();
      for (mla_sequence each : {ids[0], ids[1]}) {
        ASSERT_TRUE(pagesOf(each, planned[each]));
        planned[each].resize(static_cast<size_t>((length(each) + kPage - 1) / kPage));
      }
    }
    if (planned.empty())
      continue;
    bool areThere = true;
    std::vector<int32_t> pages;
    for (const auto &[sequence, held] : planned)
      areThere &= held.empty() || (pagesOf(sequence, pages) && pages.size() >= held.size() &&
                                   std::equal(held.begin(), held.end(), pages.begin()));
    ASSERT_EQ(run(plan), areThere ? MLA_OK : MLA_WRONG_STATE) << i << ": " << mla_last_error();
    ++runs;
    refused += !areThere;
  }
  EXPECT_GT(refused, runs / 4);
  EXPECT_GT(runs - refused, runs / 4);
}
