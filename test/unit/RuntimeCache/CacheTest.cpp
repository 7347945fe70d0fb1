//===- CacheTest.cpp - sharing pages between sequences ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"
#include "cache/KVCache.h"

#include <numeric>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {
constexpr int64_t kPage = 4;

/// A cache through the C API.
class CacheTest : public ::testing::Test {
protected:
  void SetUp() override { start({{"latent", 12, kPage, 1, 0, 0}}); }
  void TearDown() override {
    EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
    EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
  }

  void start(const std::vector<mla_cache_pool> &pools, int64_t maxSeqLen = 64) {
    if (cache)
      EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
    mla_cache_options options;
    mla_cache_options_init(&options);
    options.max_seq_len = maxSeqLen;
    options.num_pools = static_cast<int64_t>(pools.size());
    options.pools = pools.data();
    ASSERT_EQ(mla_cache_create(&options, &cache), MLA_OK) << mla_last_error();
  }

  mla_sequence create() {
    mla_sequence id = 0;
    EXPECT_EQ(mla_cache_new_sequence(cache, &id), MLA_OK);
    return id;
  }
  mla_status append(mla_sequence id, int64_t position, int32_t count, int64_t *slots = nullptr) {
    mla_cache_append_batch batch = {sizeof batch, 1, &id, &position, &count};
    return mla_cache_append(cache, &batch, slots, slots ? count : 0);
  }
  /// A sequence with these tokens, published.
  mla_sequence published(const std::vector<int32_t> &tokens) {
    mla_sequence id = create();
    EXPECT_EQ(append(id, 0, static_cast<int32_t>(tokens.size())), MLA_OK);
    EXPECT_EQ(mla_cache_publish(cache, id, 0, tokens.data(), static_cast<int64_t>(tokens.size()),
                                nullptr),
              MLA_OK);
    return id;
  }
  int64_t match(mla_sequence id, const std::vector<int32_t> &tokens) {
    int64_t matched = -1;
    EXPECT_EQ(
        mla_cache_match(cache, id, tokens.data(), static_cast<int64_t>(tokens.size()), &matched),
        MLA_OK)
        << mla_last_error();
    return matched;
  }
  std::vector<int32_t> pages(mla_sequence id, int64_t pool = 0) {
    std::vector<int32_t> result(64);
    int64_t count = 0;
    EXPECT_EQ(mla_cache_pages(cache, pool, id, result.data(), 64, &count), MLA_OK);
    result.resize(static_cast<size_t>(count));
    return result;
  }
  std::vector<mla_page_copy> copies() {
    std::vector<mla_page_copy> result(16);
    int64_t count = 0;
    EXPECT_EQ(mla_cache_take_copies(cache, result.data(), 16, &count), MLA_OK);
    result.resize(static_cast<size_t>(count));
    return result;
  }
  mla_cache_counters counters(int64_t pool = 0) {
    mla_cache_counters result{};
    result.struct_bytes = sizeof result;
    EXPECT_EQ(mla_cache_get_counters(cache, pool, &result), MLA_OK);
    return result;
  }
  void expectInvalid(mla_status status, const char *text) {
    EXPECT_EQ(status, MLA_INVALID_ARGUMENT);
    EXPECT_NE(std::string(mla_last_error()).find(text), std::string::npos) << mla_last_error();
  }

  mla_cache *cache = nullptr;
};

std::vector<int32_t> iota(int64_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
} // namespace

//===----------------------------------------------------------------------===//
// Append
//===----------------------------------------------------------------------===//

/// Slots are page * page_size + offset, pages taken in any order.
TEST_F(CacheTest, AppendGivesSlots) {
  mla_sequence a = create(), b = create();
  int64_t slots[6];
  ASSERT_EQ(append(a, 0, 3, slots), MLA_OK);
  EXPECT_EQ(std::vector<int64_t>(slots, slots + 3), (std::vector<int64_t>{0, 1, 2}));
  ASSERT_EQ(append(b, 0, 1, slots), MLA_OK);
  ASSERT_EQ(append(a, 3, 3, slots), MLA_OK);
  EXPECT_EQ(std::vector<int64_t>(slots, slots + 3), (std::vector<int64_t>{3, 8, 9}));
  EXPECT_EQ(pages(a), (std::vector<int32_t>{0, 2}));
}

TEST_F(CacheTest, ExhaustionLeavesEverythingUnchanged) {
  mla_sequence a = create(), b = create();
  ASSERT_EQ(append(a, 0, 40), MLA_OK);
  mla_sequence ids[] = {a, b};
  int64_t positions[] = {40, 0};
  int32_t counts[] = {8, 1};
  mla_cache_append_batch batch = {sizeof batch, 2, ids, positions, counts};
  EXPECT_EQ(mla_cache_append(cache, &batch, nullptr, 0), MLA_OUT_OF_PAGES);
  EXPECT_STREQ(mla_last_error(), "the page pool cannot hold the new tokens");
  EXPECT_EQ(pages(a).size(), 10u);
  EXPECT_EQ(counters().unused_pages, 2);
  EXPECT_EQ(counters().refusals, 1);
  counts[0] = 4;
  EXPECT_EQ(mla_cache_append(cache, &batch, nullptr, 0), MLA_OK);
  EXPECT_EQ(counters().least_free_pages, 0);
}

TEST_F(CacheTest, PositionsMustContinueTheSequence) {
  mla_sequence a = create();
  ASSERT_EQ(append(a, 0, 6), MLA_OK);
  expectInvalid(append(a, 4, 2), "request 0: position 4 goes backwards, the sequence's next "
                                 "position is 6");
  expectInvalid(append(a, 7, 1), "position 7 leaves a gap");
  expectInvalid(append(a, 6, 59), "append of 59 tokens at position 6, limit max_seq_len = 64");
  expectInvalid(append(a, 6, -1), "append of -1 tokens");
  mla_sequence ids[] = {a, a};
  int64_t positions[] = {6, 6};
  int32_t counts[] = {1, 1};
  mla_cache_append_batch batch = {sizeof batch, 2, ids, positions, counts};
  expectInvalid(mla_cache_append(cache, &batch, nullptr, 0),
                "occurs twice: its appends would overlap");
  EXPECT_EQ(counters().unused_pages, 10);
}

TEST_F(CacheTest, WatermarkIsLeftToSequencesThatRun) {
  start({{"latent", 12, kPage, 1, 0, 4}});
  mla_sequence a = create(), b = create();
  ASSERT_EQ(append(a, 0, 8 * kPage), MLA_OK);
  EXPECT_EQ(append(b, 0, 1), MLA_OUT_OF_PAGES);
  EXPECT_EQ(mla_cache_reserve(cache, b, 1), MLA_OUT_OF_PAGES);
  ASSERT_EQ(append(a, 8 * kPage, 1), MLA_OK);
  ASSERT_EQ(mla_cache_set_watermark(cache, 0, 0), MLA_OK);
  EXPECT_EQ(append(b, 0, 1), MLA_OK);
  expectInvalid(mla_cache_set_watermark(cache, 0, 13), "watermark_pages = 13, expected 0 to 12");
}

//===----------------------------------------------------------------------===//
// Fork
//===----------------------------------------------------------------------===//

TEST_F(CacheTest, ForkTakesNoPageAndTheFirstWriterCopies) {
  mla_sequence parent = create(), child;
  ASSERT_EQ(append(parent, 0, 6), MLA_OK);
  ASSERT_EQ(mla_cache_fork(cache, parent, 6, &child), MLA_OK);
  EXPECT_EQ(pages(child), pages(parent));
  EXPECT_EQ(counters().shared_pages, 2);
  ASSERT_EQ(append(child, 6, 1), MLA_OK);
  EXPECT_EQ(pages(child), (std::vector<int32_t>{0, 2}));
  std::vector<mla_page_copy> list = copies();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].from, 1);
  EXPECT_EQ(list[0].to, 2);
  // The parent has the old page to itself now.
  ASSERT_EQ(append(parent, 6, 1), MLA_OK);
  EXPECT_EQ(pages(parent), (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(copies().empty());
  EXPECT_EQ(counters().copied_pages, 1);
}

TEST_F(CacheTest, ForkAtAPageBoundaryNeedsNoCopy) {
  mla_sequence parent = create(), child;
  ASSERT_EQ(append(parent, 0, 10), MLA_OK);
  ASSERT_EQ(mla_cache_fork(cache, parent, 8, &child), MLA_OK);
  EXPECT_EQ(pages(child), (std::vector<int32_t>{0, 1}));
  ASSERT_EQ(append(child, 8, 1), MLA_OK);
  EXPECT_TRUE(copies().empty());
  expectInvalid(mla_cache_fork(cache, parent, 11, &child),
                "cannot fork at 11 tokens, length is 10");
}

/// A copy keeps both of its pages, even if their sequences go.
TEST_F(CacheTest, PagesOfCopiesStayUntilTheyAreTaken) {
  mla_sequence parent = create(), child;
  ASSERT_EQ(append(parent, 0, 2), MLA_OK);
  ASSERT_EQ(mla_cache_fork(cache, parent, 2, &child), MLA_OK);
  ASSERT_EQ(append(child, 2, 1), MLA_OK);
  ASSERT_EQ(mla_cache_free_sequence(cache, parent), MLA_OK);
  ASSERT_EQ(mla_cache_free_sequence(cache, child), MLA_OK);
  EXPECT_EQ(counters().unused_pages, 10);
  int64_t count = 0;
  expectInvalid(mla_cache_take_copies(cache, nullptr, 0, &count), "capacity is 0, there are 1");
  EXPECT_EQ(copies().size(), 1u);
  EXPECT_EQ(counters().unused_pages, 12);
}

//===----------------------------------------------------------------------===//
// Prefixes
//===----------------------------------------------------------------------===//

/// The last token is left to compute, even if everything is published.
TEST_F(CacheTest, MatchFindsWholeBlocksAndLeavesOneToken) {
  mla_sequence a = published(iota(12));
  EXPECT_EQ(match(create(), iota(12)), 8);
  EXPECT_EQ(match(create(), iota(13)), 12);
  EXPECT_EQ(match(create(), iota(4)), 0);
  EXPECT_EQ(match(create(), iota(5)), 4);
  std::vector<int32_t> other = iota(12);
  other[5] = 99;
  mla_sequence b = create();
  EXPECT_EQ(match(b, other), 4);
  EXPECT_EQ(pages(b), (std::vector<int32_t>{pages(a)[0]}));
  EXPECT_EQ(counters().lookup_tokens, 12 + 13 + 4 + 5 + 12);
  EXPECT_EQ(counters().hit_tokens, 8 + 12 + 0 + 4 + 4);
}

/// The same tokens at other positions are another block.
TEST_F(CacheTest, BlocksAreFoundBehindTheirPrefixOnly) {
  published({1, 1, 1, 1, 2, 2, 2, 2});
  EXPECT_EQ(match(create(), {2, 2, 2, 2, 0}), 0);
  EXPECT_EQ(match(create(), {1, 1, 1, 1, 1, 1, 1, 1, 0}), 4);
}

TEST_F(CacheTest, PublishedBlocksOutliveTheirSequence) {
  mla_sequence a = published(iota(8));
  ASSERT_EQ(mla_cache_free_sequence(cache, a), MLA_OK);
  EXPECT_EQ(counters().cached_pages, 2);
  EXPECT_EQ(match(create(), iota(9)), 8);
  EXPECT_EQ(counters().cached_pages, 0);
}

TEST_F(CacheTest, EqualBlocksAreMerged) {
  mla_sequence a = published(iota(8)), b = create();
  ASSERT_EQ(append(b, 0, 9), MLA_OK);
  EXPECT_NE(pages(a)[0], pages(b)[0]);
  std::vector<int32_t> tokens = iota(9);
  int64_t done = 0;
  ASSERT_EQ(mla_cache_publish(cache, b, 0, tokens.data(), 9, &done), MLA_OK);
  EXPECT_EQ(done, 8);
  EXPECT_EQ(pages(b)[0], pages(a)[0]);
  EXPECT_EQ(pages(b)[1], pages(a)[1]);
  EXPECT_EQ(counters().merged_pages, 2);
  expectInvalid(mla_cache_publish(cache, b, 4, tokens.data(), 4, &done),
                "publish from token 4, the sequence's published tokens end at 8");
  expectInvalid(mla_cache_publish(cache, b, 8, tokens.data(), 2, &done),
                "publish of tokens 8 to 10, length is 9");
}

/// Least recently used first, and leaves before what they continue.
TEST_F(CacheTest, EvictionTakesTheLeastRecentlyUsed) {
  mla_sequence old = published(iota(8)), recent = published(iota(8, 100));
  ASSERT_EQ(mla_cache_free_sequence(cache, old), MLA_OK);
  ASSERT_EQ(mla_cache_free_sequence(cache, recent), MLA_OK);
  ASSERT_EQ(append(create(), 0, 9 * kPage), MLA_OK); // 8 unused, 4 cached
  EXPECT_EQ(counters().evicted_pages, 1);
  mla_sequence again = create();
  EXPECT_EQ(match(again, iota(9)), 4);
  ASSERT_EQ(mla_cache_free_sequence(cache, again), MLA_OK);
  // Now `recent` is the older one.
  ASSERT_EQ(append(create(), 0, 2 * kPage), MLA_OK);
  EXPECT_EQ(match(create(), iota(9, 100)), 0);
  EXPECT_EQ(match(create(), iota(9)), 4);
}

/// Appending behind a cut inside a published block copies its page.
TEST_F(CacheTest, PublishedPagesAreImmutable) {
  mla_sequence a = published(iota(8));
  ASSERT_EQ(mla_cache_truncate(cache, a, 6), MLA_OK);
  int32_t page = pages(a)[1];
  ASSERT_EQ(append(a, 6, 1), MLA_OK);
  EXPECT_NE(pages(a)[1], page);
  std::vector<mla_page_copy> list = copies();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].from, page);
  EXPECT_EQ(match(create(), iota(9)), 8);
}

TEST_F(CacheTest, MatchNeedsAnEmptySequence) {
  mla_sequence a = published(iota(8));
  int64_t matched;
  std::vector<int32_t> tokens = iota(70);
  expectInvalid(mla_cache_match(cache, a, tokens.data(), 9, &matched),
                "match needs an empty sequence, this one has 8 tokens and 2 pages");
  expectInvalid(mla_cache_match(cache, create(), tokens.data(), 70, &matched),
                "match of 70 tokens, limit max_seq_len = 64");
  expectInvalid(mla_cache_match(cache, create(), nullptr, 3, &matched), "tokens is null");
}

/// With all hashes equal, parents and tokens still tell blocks apart.
TEST(PrefixCollision, EqualHashesAreToldApartByTokens) {
  KVCache cache({{"latent", 64, kPage}}, 64, {}, /*hashMask=*/0);
  std::vector<mla_sequence> ids(4);
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(cache.create(ids[i]).isOk());
    Sequence *sequence;
    ASSERT_TRUE(cache.find(ids[i], sequence).isOk());
    int64_t position = 0;
    int32_t count = 8;
    ASSERT_TRUE(cache.append(1, &ids[i], &position, &count).isOk());
    std::vector<int32_t> tokens = iota(8, i / 2 * 100);
    tokens[7] = i;
    ASSERT_TRUE(cache.publish(*sequence, 0, tokens).isOk());
  }
  EXPECT_EQ(cache.index().numBlocks(), 6); // two first blocks, four second ones
  mla_sequence id;
  Sequence *sequence;
  ASSERT_TRUE(cache.create(id).isOk());
  ASSERT_TRUE(cache.find(id, sequence).isOk());
  std::vector<int32_t> tokens = iota(9, 100);
  tokens[7] = 3;
  ASSERT_TRUE(cache.match(*sequence, tokens).isOk());
  EXPECT_EQ(sequence->length, 8);
  Sequence *fourth;
  ASSERT_TRUE(cache.find(ids[3], fourth).isOk());
  EXPECT_EQ(sequence->pages, fourth->pages);
  std::string problem;
  EXPECT_TRUE(cache.check(problem)) << problem;
}

//===----------------------------------------------------------------------===//
// Several pools
//===----------------------------------------------------------------------===//

/// A compressed row exists once its tokens do; the tokens before complete none.
TEST_F(CacheTest, CompressedPoolsHaveARowPerSeveralTokens) {
  start({{"latent", 16, 4, 1, 0, 0}, {"compressed", 4, 2, 4, 0, 0}});
  mla_sequence a = create();
  ASSERT_EQ(append(a, 0, 3), MLA_OK);
  EXPECT_TRUE(pages(a, 1).empty());
  ASSERT_EQ(append(a, 3, 10), MLA_OK);
  EXPECT_EQ(pages(a, 1).size(), 2u); // 3 rows, 2 a page
  int64_t slots[13];
  ASSERT_EQ(mla_cache_slots(cache, 1, a, 0, 13, slots), MLA_OK);
  EXPECT_EQ(std::vector<int64_t>(slots, slots + 13),
            (std::vector<int64_t>{-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1}));
  expectInvalid(mla_cache_slots(cache, 2, a, 0, 1, slots), "pool 2, expected 0 to 1");
  expectInvalid(mla_cache_slots(cache, 1, a, 10, 4, slots), "tokens 10 + 4, the sequence has 13");
}

TEST_F(CacheTest, WindowsGiveBackWhatNoTokenSees) {
  start({{"latent", 16, 4, 1, 0, 0}, {"window", 6, 2, 1, 5, 0}});
  mla_sequence a = create();
  for (int64_t position = 0; position < 20; ++position)
    ASSERT_EQ(append(a, position, 1), MLA_OK) << position;
  // Token 19 saw 15 to 19; the pages of 14, 15 to 18, 19 are left.
  std::vector<int32_t> table = pages(a, 1);
  ASSERT_EQ(table.size(), 10u);
  EXPECT_EQ(table[6], 2147480000);
  EXPECT_NE(table[7], 2147480000);
  EXPECT_EQ(counters(1).unused_pages, 3);
  ASSERT_EQ(mla_cache_truncate(cache, a, 19), MLA_OK);
  expectInvalid(mla_cache_truncate(cache, a, 10),
                "pool 'window' has given back the first 14 tokens");
  mla_sequence child;
  expectInvalid(mla_cache_fork(cache, a, 10, &child), "cannot go back to 10 tokens");
}

/// A prefix can be used if the window before its end is still there.
TEST_F(CacheTest, MatchNeedsTheWindowsPages) {
  start({{"latent", 16, 4, 1, 0, 0}, {"window", 4, 4, 1, 5, 0}});
  mla_sequence a = create();
  std::vector<int32_t> tokens = iota(12);
  for (int64_t position = 0; position < 12; position += 4) {
    ASSERT_EQ(append(a, position, 4), MLA_OK);
    ASSERT_EQ(mla_cache_publish(cache, a, position, tokens.data() + position, 4, nullptr), MLA_OK);
  }
  mla_sequence b = create();
  EXPECT_EQ(match(b, iota(13)), 12);
  EXPECT_EQ(pages(b, 1)[1], 2147480000); // token 12 sees 8 to 12
  ASSERT_EQ(mla_cache_free_sequence(cache, a), MLA_OK);
  ASSERT_EQ(mla_cache_free_sequence(cache, b), MLA_OK);
  // Another sequence needs the window's pages: the blocks stay without them.
  mla_sequence c = create();
  ASSERT_EQ(append(c, 0, 16), MLA_OK);
  EXPECT_EQ(match(create(), iota(13)), 0);
  EXPECT_EQ(counters().evicted_blocks, 0);
}

/// A block whose window pages were evicted is taken up by a sequence that has them
/// from another block, then gets new ones from a third: found at random.
TEST_F(CacheTest, WindowPagesOfABlockMayDifferFromItsSequences) {
  start({{"latent", 32, 2, 1, 0, 0}, {"window", 10, 2, 1, 16, 0}, {"compressed", 16, 1, 8, 0, 0}});
  const std::vector<int32_t> one = {1, 1, 1, 1, 2, 2, 2, 2}, two = {1, 1, 1, 1, 3, 3, 3, 3};
  auto publish = [&](mla_sequence id, const std::vector<int32_t> &tokens) {
    EXPECT_EQ(mla_cache_publish(cache, id, 0, tokens.data(), 8, nullptr), MLA_OK);
    EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
  };
  mla_sequence parent = create(), child, filler = create(), third = create();
  ASSERT_EQ(append(parent, 0, 8), MLA_OK);
  ASSERT_EQ(mla_cache_fork(cache, parent, 4, &child), MLA_OK);
  publish(parent, one); // owns the pages of the first four tokens
  ASSERT_EQ(append(child, 4, 4), MLA_OK);
  ASSERT_EQ(mla_cache_free_sequence(cache, published(two)), MLA_OK);
  ASSERT_EQ(append(filler, 0, 8), MLA_OK); // evicts the window's pages of `two`
  ASSERT_EQ(mla_cache_free_sequence(cache, filler), MLA_OK);
  publish(child, two);
  ASSERT_EQ(append(third, 0, 8), MLA_OK);
  publish(third, two);
  EXPECT_NE(pages(third, 1)[0], pages(child, 1)[0]);
  EXPECT_EQ(pages(third, 1)[2], pages(child, 1)[2]);
}

TEST_F(CacheTest, BadPoolsAreRefused) {
  mla_cache *other = nullptr;
  auto refuse = [&](std::vector<mla_cache_pool> pools, int64_t maxSeqLen, const char *text) {
    mla_cache_options options;
    mla_cache_options_init(&options);
    options.max_seq_len = maxSeqLen;
    options.num_pools = static_cast<int64_t>(pools.size());
    options.pools = pools.data();
    expectInvalid(mla_cache_create(&options, &other), text);
    EXPECT_EQ(other, nullptr);
  };
  refuse({}, 64, "num_pools = 0, expected 1 to 16");
  refuse({{"a", 1, 1, 1, 0, 0}}, 0, "max_seq_len = 0");
  refuse({{"a", 0, 1, 1, 0, 0}}, 64, "pool 'a': num_pages = 0, expected 1 to 2147479999");
  refuse({{"a", 4, 0, 1, 0, 0}}, 64, "pool 'a': page_rows = 0, expected 1 to 65536");
  refuse({{"a", 4, 4, 0, 0, 0}}, 64, "tokens_per_row = 0");
  refuse({{"a", 4, 4, 2, 0, 0}}, 64, "the first pool keeps a row of every token");
  refuse({{"a", 4, 4, 1, 9, 0}}, 64, "the first pool keeps a row of every token");
  refuse({{"a", 4, 4, 1, 0, 5}}, 64, "watermark_pages = 5, expected 0 to 4");
  refuse({{"a", 4, 65521, 1, 0, 0}, {"b", 4, 65519, 1, 0, 0}}, 64, "tokens in common");
  refuse({{nullptr, 4, 4, 1, 0, 0}}, 64, "a pool's name is null");
}

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

TEST_F(CacheTest, StaleForeignAndClosedHandlesAreRefused) {
  mla_sequence a = create();
  int64_t length;
  ASSERT_EQ(mla_cache_free_sequence(cache, a), MLA_OK);
  expectInvalid(mla_cache_free_sequence(cache, a), "has been freed"); // double free
  expectInvalid(append(a, 0, 1), "has been freed");                   // use after free
  expectInvalid(mla_cache_length(cache, 0, &length), "is not of this");
  mla_cache *first = cache;
  mla_sequence foreign = create();
  cache = nullptr;
  start({{"latent", 12, kPage, 1, 0, 0}});
  expectInvalid(append(foreign, 0, 1), "is not of this");
  ASSERT_EQ(mla_cache_destroy(first), MLA_OK);
  expectInvalid(mla_cache_destroy(first), "cache has been closed");
  expectInvalid(mla_cache_length(first, foreign, &length), "cache has been closed");
  expectInvalid(mla_cache_check(nullptr), "cache is null");
}

/// An allocation failure at every allocation of every call: reported, nothing
/// changed, nothing lost.
TEST_F(CacheTest, EveryAllocationMayFail) {
  start({{"latent", 12, kPage, 1, 0, 0}, {"window", 12, 2, 1, 5, 0}});
  mla_sequence a = published(iota(8)), child = 0, fresh = 0, stale = create();
  ASSERT_EQ(mla_cache_free_sequence(cache, stale), MLA_OK);
  const char *text;
  auto dump = [&] { return mla_cache_dump(cache, &text) == MLA_OK ? std::string(text) : ""; };
  /// `expected`: the status with enough memory.
  auto check = [&](mla_status expected, auto call) {
    for (int64_t after = 0;; ++after) {
      ASSERT_LT(after, 100);
      std::string before = dump();
      failAllocations(after);
      mla_status status = call();
      failAllocations(-1);
      ASSERT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
      if (status == expected)
        return;
      ASSERT_EQ(status, MLA_OUT_OF_MEMORY);
      ASSERT_EQ(dump(), before) << "after " << after << " allocations";
    }
  };
  std::vector<mla_sequence> many;
  for (int i = 0; i < 20; ++i) { // past every growth of the tables
    check(MLA_OK, [&] { return mla_cache_new_sequence(cache, &fresh); });
    many.push_back(fresh);
  }
  check(MLA_OK, [&] { return mla_cache_fork(cache, a, 8, &child); });
  check(MLA_OK, [&] { return append(fresh, 0, 5); });
  check(MLA_INVALID_ARGUMENT, [&] { return append(fresh, 0, 5); });
  check(MLA_INVALID_ARGUMENT, [&] { return append(stale, 0, 5); });
  check(MLA_OUT_OF_PAGES, [&] { return append(fresh, 5, 59); });
  check(MLA_OK, [&] { return mla_cache_reserve(cache, fresh, 9); });
  check(MLA_OK, [&] { return mla_cache_truncate(cache, a, 7); });
  check(MLA_OK, [&] { return append(a, 7, 1); });
  check(MLA_OK, [&] {
    mla_page_copy list[8];
    int64_t count;
    return mla_cache_take_copies(cache, list, 8, &count);
  });
  std::vector<int32_t> tokens = iota(9);
  int64_t matched;
  check(MLA_OK, [&] { return mla_cache_match(cache, many[0], tokens.data(), 9, &matched); });
  check(MLA_OK, [&] { return mla_cache_publish(cache, a, 4, tokens.data() + 4, 4, nullptr); });
  check(MLA_OK, [&] { return mla_cache_dump(cache, &text); });
  check(MLA_OK, [&] { return mla_cache_drop_cached(cache); });
  for (mla_sequence id : many)
    check(MLA_OK, [&] { return mla_cache_free_sequence(cache, id); });
  mla_cache *other = nullptr;
  mla_cache_pool pool = {"latent", 12, kPage, 1, 0, 0};
  mla_cache_options options = {sizeof options, 64, 1, &pool, nullptr};
  check(MLA_OK, [&] { return mla_cache_create(&options, &other); });
  check(MLA_OK, [&] { return mla_cache_destroy(other); });
}
