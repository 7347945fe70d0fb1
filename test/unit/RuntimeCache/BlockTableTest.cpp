//===- BlockTableTest.cpp - block tables that stay on the device -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After every update the tables must say what the cache says, and only what has
// changed may have been copied. On the CPU the device's memory can be read.
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"

#include <random>

namespace {
constexpr int32_t kNoPage = 2147480000;

class BlockTableTest : public ::testing::Test {
protected:
  void SetUp() override {
    mla_cache_pool pools[] = {{"latent", 64, 4, 1, 0, 0}, {"window", 32, 2, 1, 6, 0}};
    mla_cache_options options = {sizeof options, 64, 2, pools, nullptr};
    ASSERT_EQ(mla_cache_create(&options, &cache), MLA_OK);
    ASSERT_EQ(mla_device_open("cpu", 1, &device), MLA_OK);
    for (int64_t pool = 0; pool < 2; ++pool) {
      ASSERT_EQ(mla_table_create(cache, device, pool, 4, 8, &tables[pool]), MLA_OK)
          << mla_last_error();
      ASSERT_EQ(mla_table_view_of(tables[pool], &views[pool]), MLA_OK);
    }
    EXPECT_EQ(views[0].columns, 16);
    EXPECT_EQ(views[1].columns, 32);
  }
  void TearDown() override {
    for (mla_table *table : tables)
      EXPECT_EQ(mla_table_destroy(table), MLA_OK);
    EXPECT_EQ(mla_device_close(device), MLA_OK);
    EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
  }

  mla_sequence create() {
    mla_sequence id = 0;
    EXPECT_EQ(mla_cache_new_sequence(cache, &id), MLA_OK);
    return id;
  }
  mla_status append(mla_sequence id, int32_t count) {
    int64_t position;
    EXPECT_EQ(mla_cache_length(cache, id, &position), MLA_OK);
    mla_cache_append_batch batch = {sizeof batch, 1, &id, &position, &count};
    return mla_cache_append(cache, &batch, slots, 8);
  }
  void assign(int64_t row, mla_sequence id) {
    rows[row] = id;
    for (mla_table *table : tables)
      ASSERT_EQ(mla_table_assign(table, row, id), MLA_OK) << mla_last_error();
  }
  /// Updates both tables and compares them with the cache.
  void update(int64_t numSlots = 0) {
    for (int64_t pool = 0; pool < 2; ++pool) {
      ASSERT_EQ(mla_table_update(tables[pool], slots, numSlots, nullptr, &changes[pool]), MLA_OK)
          << mla_last_error();
      auto *entries = static_cast<const int32_t *>(views[pool].block_table);
      for (int64_t row = 0; row < 4; ++row) {
        std::vector<int32_t> pages(static_cast<size_t>(views[pool].columns), kNoPage);
        int64_t count = 0, length = 0;
        if (mla_cache_length(cache, rows[row], &length) != MLA_OK)
          length = 0;
        else
          ASSERT_EQ(
              mla_cache_pages(cache, pool, rows[row], pages.data(), views[pool].columns, &count),
              MLA_OK);
        EXPECT_EQ(static_cast<const int32_t *>(views[pool].seq_lens)[row], length);
        for (int64_t i = 0; i < views[pool].columns; ++i)
          ASSERT_EQ(entries[row * views[pool].columns + i], pages[static_cast<size_t>(i)])
              << "pool " << pool << " row " << row << " entry " << i;
      }
      for (int64_t i = 0; i < 8; ++i)
        EXPECT_EQ(static_cast<const int64_t *>(views[pool].slot_mapping)[i],
                  i < numSlots ? slots[i] : -1);
    }
  }

  mla_cache *cache = nullptr;
  mla_device *device = nullptr;
  mla_table *tables[2] = {};
  mla_table_view views[2];
  mla_table_changes changes[2];
  mla_sequence rows[4] = {};
  int64_t slots[8] = {};
};
} // namespace

TEST_F(BlockTableTest, OnlyWhatChangedIsCopied) {
  mla_sequence a = create(), b = create();
  update();
  EXPECT_EQ(changes[0].copies, 0);
  assign(0, a);
  assign(2, b);
  ASSERT_EQ(append(a, 7), MLA_OK);
  update(7);
  EXPECT_EQ(changes[0].entries, 2);
  EXPECT_EQ(changes[0].copies, 1); // entries, lengths and slots are neighbours
  ASSERT_EQ(append(a, 1), MLA_OK); // within the page
  update(1);
  EXPECT_EQ(changes[0].entries, 0);
  ASSERT_EQ(append(a, 1), MLA_OK);
  update(1);
  EXPECT_EQ(changes[0].entries, 1);
  update(1);
  EXPECT_EQ(changes[0].copies, 0);
}

/// Replaced, given back and freed pages show; so do rows that change hands.
TEST_F(BlockTableTest, EveryKindOfChangeShows) {
  mla_sequence a = create(), child;
  assign(0, a);
  ASSERT_EQ(append(a, 6), MLA_OK);
  update(6);
  ASSERT_EQ(mla_cache_fork(cache, a, 6, &child), MLA_OK);
  ASSERT_EQ(append(a, 1), MLA_OK); // a copy replaces the last page
  update(1);
  EXPECT_EQ(changes[0].entries, 1);
  assign(1, child);
  update();
  for (int i = 0; i < 12; ++i) { // the window moves on
    ASSERT_EQ(append(a, 1), MLA_OK);
    update(1);
  }
  ASSERT_EQ(mla_cache_truncate(cache, a, 17), MLA_OK);
  update();
  assign(0, child);
  assign(1, a);
  update();
  ASSERT_EQ(mla_cache_free_sequence(cache, a), MLA_OK);
  update();
  mla_sequence reused = create(); // takes the freed one's place, with another id
  ASSERT_EQ(append(reused, 3), MLA_OK);
  update(3);
  assign(1, reused);
  assign(0, 0);
  update();
}

TEST_F(BlockTableTest, RandomChangesShow) {
  std::mt19937 generator(3);
  std::vector<int32_t> tokens(64, 1);
  for (int i = 0; i < 2000; ++i) {
    int64_t row = generator() % 4, length = 0;
    mla_sequence id = rows[row], child;
    bool isLive = mla_cache_length(cache, id, &length) == MLA_OK;
    switch (generator() % 6) {
    case 0:
      assign(row, create());
      break;
    case 1:
      if (isLive && mla_cache_free_sequence(cache, id) == MLA_OK && generator() % 2)
        assign(row, 0);
      break;
    case 2:
      if (isLive && mla_cache_fork(cache, id, length, &child) == MLA_OK)
        assign((row + 1) % 4, child);
      break;
    case 3:
      if (isLive)
        (void)mla_cache_truncate(cache, id, std::max<int64_t>(0, length - generator() % 3));
      break;
    case 4:
      if (isLive && length < 8)
        (void)mla_cache_publish(cache, id, 0, tokens.data(), length, nullptr);
      break;
    default:
      if (isLive)
        (void)append(id, static_cast<int32_t>(generator() % 4));
    }
    if (generator() % 2)
      ASSERT_NO_FATAL_FAILURE(update(generator() % 9)) << i;
    mla_page_copy copies[64];
    int64_t count, all;
    (void)mla_cache_take_copies(cache, copies, 64, &count);
    // Sequences that lost their row go, or the pool fills up.
    mla_sequence ids[512];
    ASSERT_EQ(mla_cache_sequences(cache, ids, 512, &all), MLA_OK);
    for (int64_t j = 0; j < all; ++j)
      if (std::find(rows, rows + 4, ids[j]) == rows + 4)
        ASSERT_EQ(mla_cache_free_sequence(cache, ids[j]), MLA_OK);
  }
}

TEST_F(BlockTableTest, BadArgumentsAreRefused) {
  auto expect = [](mla_status status, const char *text) {
    EXPECT_EQ(status, MLA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(mla_last_error()).find(text), std::string::npos) << mla_last_error();
  };
  mla_table *other = nullptr;
  expect(mla_table_create(cache, device, 2, 4, 8, &other), "pool = 2, expected 0 to 1");
  expect(mla_table_create(cache, device, 0, 0, 8, &other), "rows = 0, expected 1 to 65536");
  expect(mla_table_create(cache, device, 0, 4, 0, &other), "tokens = 0");
  expect(mla_table_create(nullptr, device, 0, 4, 8, &other), "cache is null");
  expect(mla_table_assign(tables[0], 4, 0), "row = 4, expected 0 to 3");
  expect(mla_table_assign(tables[0], 0, 77), "is not of this");
  expect(mla_table_update(tables[0], slots, 9, nullptr, nullptr), "num_slots = 9");
  expect(mla_table_update(tables[0], nullptr, 1, nullptr, nullptr), "slots is null");
  expect(mla_table_view_of(nullptr, &views[0]), "block table is null");
}
