//===- PagePoolTest.cpp - physical pages and sequences ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/KVCache.h"

#include <gtest/gtest.h>

using namespace mlac::runtime;

TEST(PagePool, ExhaustionLeavesPoolUnchanged) {
  PagePool pool(4);
  std::vector<int32_t> pages;
  EXPECT_TRUE(pool.take(3, pages));
  EXPECT_EQ(pages, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.take(2, pages));
  EXPECT_EQ(pages.size(), 3u);
  EXPECT_EQ(pool.numFree(), 1);
  EXPECT_TRUE(pool.isConsistent());
}

TEST(PagePool, DoubleReleaseIsRefused) {
  PagePool pool(2);
  std::vector<int32_t> pages;
  EXPECT_TRUE(pool.take(1, pages));
  EXPECT_TRUE(pool.release(0));
  EXPECT_FALSE(pool.release(0));
  EXPECT_FALSE(pool.release(1));
  EXPECT_TRUE(pool.isConsistent());
}

TEST(PagePool, SharedPageIsFreedByTheLastReference) {
  PagePool pool(2);
  std::vector<int32_t> pages;
  EXPECT_TRUE(pool.take(1, pages));
  pool.share(0);
  EXPECT_TRUE(pool.release(0));
  EXPECT_FALSE(pool.isFree(0));
  EXPECT_EQ(pool.numFree(), 1);
  EXPECT_TRUE(pool.release(0));
  EXPECT_EQ(pool.numFree(), 2);
}

TEST(KVCache, ReserveTakesWholePagesAndTruncateReturnsThem) {
  KVCache cache(/*numPages=*/4, /*pageSize=*/4, /*maxSeqLen=*/16);
  mla_sequence id;
  Sequence *sequence;
  ASSERT_TRUE(cache.create(id).isOk());
  ASSERT_TRUE(cache.find(id, sequence).isOk());
  ASSERT_TRUE(cache.reserve(*sequence, 5).isOk());
  EXPECT_EQ(sequence->pages.size(), 2u);
  ASSERT_TRUE(cache.reserve(*sequence, 8).isOk());
  EXPECT_EQ(sequence->pages.size(), 2u);
  sequence->length = 8;
  EXPECT_EQ(cache.usedRows(), (std::vector<int32_t>{4, 4, 0, 0}));
  ASSERT_TRUE(cache.truncate(*sequence, 4).isOk());
  EXPECT_EQ(sequence->pages.size(), 1u);
  EXPECT_EQ(cache.truncate(*sequence, 5).code(), MLA_INVALID_ARGUMENT);
  ASSERT_TRUE(cache.truncate(*sequence, 0).isOk());
  EXPECT_EQ(cache.pool().numFree(), 4);
}

TEST(KVCache, OutOfPagesChangesNothing) {
  KVCache cache(2, 4, 16);
  mla_sequence id;
  Sequence *sequence;
  ASSERT_TRUE(cache.create(id).isOk());
  ASSERT_TRUE(cache.find(id, sequence).isOk());
  EXPECT_EQ(cache.reserve(*sequence, 9).code(), MLA_OUT_OF_PAGES);
  EXPECT_TRUE(sequence->pages.empty());
  EXPECT_EQ(cache.pool().numFree(), 2);
  EXPECT_EQ(cache.reserve(*sequence, 17).code(), MLA_INVALID_ARGUMENT);
}

TEST(KVCache, StaleAndForeignIdsAreRefused) {
  KVCache cache(2, 4, 16), other(2, 4, 16);
  mla_sequence id, foreign, reused;
  Sequence *sequence;
  ASSERT_TRUE(cache.create(id).isOk());
  ASSERT_TRUE(other.create(foreign).isOk());
  ASSERT_TRUE(cache.free(id).isOk());
  EXPECT_NE(cache.find(id, sequence).message().find("has been freed"), std::string::npos);
  EXPECT_FALSE(cache.free(id).isOk());
  EXPECT_NE(cache.find(foreign, sequence).message().find("not of this engine"), std::string::npos);
  EXPECT_FALSE(cache.find(0, sequence).isOk());
  ASSERT_TRUE(cache.create(reused).isOk());
  EXPECT_NE(reused, id);
  EXPECT_FALSE(cache.find(id, sequence).isOk());
  EXPECT_EQ(cache.numSequences(), 1);
}
