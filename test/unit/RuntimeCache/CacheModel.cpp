//===- CacheModel.cpp - a plain model of the cache --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlac::test;

// Few tokens, so that sequences meet; pools that are often exhausted.
static constexpr int32_t kNumTokens = 3;
static constexpr size_t kMaxSequences = 24;
/// Comparing dumps costs more than most operations: every so many refusals.
static constexpr int64_t kDumpEvery = 16;

std::vector<ModelConfig> mlac::test::modelConfigs() {
  return {{"one pool", {{"latent", 60, 4, 1, 0, 0}}, 64, 0},
          {"pages of one row, little memory", {{"latent", 200, 1, 1, 0, 5}}, 40, 20},
          {"four pools",
           {{"latent", 60, 2, 1, 0, 2},
            {"window", 30, 2, 1, 7, 0},
            {"compressed", 18, 2, 4, 0, 1},
            {"index", 24, 1, 8, 0, 0}},
           64,
           10}};
}

static uint64_t extend(uint64_t hash, int32_t token) {
  return (hash ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15 + (hash >> 29);
}

CacheModel::CacheModel(const ModelConfig &config, uint64_t seed) : config(config), generator(seed) {
  mla_cache_options options;
  mla_cache_options_init(&options);
  options.max_seq_len = config.maxSeqLen;
  options.num_pools = static_cast<int64_t>(config.pools.size());
  options.pools = config.pools.data();
  EXPECT_EQ(mla_cache_create(&options, &cache), MLA_OK) << mla_last_error();
  for (const mla_cache_pool &pool : config.pools) {
    memory.emplace_back(pool.num_pages * pool.page_rows, 0);
    blockTokens = std::lcm(blockTokens, pool.page_rows * pool.tokens_per_row);
    hasWindow |= pool.window_tokens > 0;
  }
}

CacheModel::~CacheModel() {
  for (auto &entry : sequences)
    EXPECT_EQ(mla_cache_free_sequence(cache, entry.first), MLA_OK);
  EXPECT_EQ(mla_cache_drop_cached(cache), MLA_OK);
  for (size_t pool = 0; pool < config.pools.size(); ++pool)
    EXPECT_EQ(counters(pool).unused_pages, config.pools[pool].num_pages) << "pages were lost";
  EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
}

//===----------------------------------------------------------------------===//
// Tools
//===----------------------------------------------------------------------===//

std::string CacheModel::dump() {
  const char *text = "";
  EXPECT_EQ(mla_cache_dump(cache, &text), MLA_OK);
  return text;
}

mla_cache_counters CacheModel::counters(size_t pool) {
  mla_cache_counters result{};
  result.struct_bytes = sizeof result;
  EXPECT_EQ(mla_cache_get_counters(cache, static_cast<int64_t>(pool), &result), MLA_OK);
  return result;
}

int64_t CacheModel::freePages(size_t pool) {
  mla_cache_counters now = counters(pool);
  return now.unused_pages + now.cached_pages;
}

CacheModel::Sequences::iterator CacheModel::pick() {
  auto it = sequences.begin();
  std::advance(it, random(0, static_cast<int64_t>(sequences.size()) - 1));
  return it;
}

std::vector<int32_t> CacheModel::newTokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  // Mostly the same token: prefixes meet.
  for (int32_t &token : tokens)
    token = random(0, 7) == 0 ? static_cast<int32_t>(random(1, kNumTokens - 1)) : 0;
  return tokens;
}

template <typename Function> mla_status CacheModel::guarded(Function function) {
  bool failsAllocations = random(0, 999) < config.failuresPerMille;
  bool compares = failsAllocations || random(0, kDumpEvery - 1) == 0;
  std::string before = compares ? dump() : std::string();
  if (failsAllocations)
    failAllocations(random(0, 3));
  mla_status status = function();
  failAllocations(-1);
  if (status != MLA_OK && compares)
    EXPECT_EQ(dump(), before) << mla_status_name(status) << ": " << mla_last_error();
  EXPECT_TRUE(status != MLA_OUT_OF_MEMORY || failsAllocations);
  return status;
}

/// The contract: copies are made before anything is written.
bool CacheModel::applyCopies() {
  mla_page_copy copies[64];
  int64_t count;
  if (mla_cache_take_copies(cache, copies, 64, &count) != MLA_OK)
    return false;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rows = config.pools[copies[i].pool].page_rows;
    std::vector<uint64_t> &bytes = memory[copies[i].pool];
    std::copy_n(&bytes[copies[i].from * rows], rows, &bytes[copies[i].to * rows]);
  }
  return true;
}

void CacheModel::writeRows(mla_sequence id, int64_t position, int64_t count) {
  const std::vector<int32_t> &tokens = sequences[id].tokens;
  std::vector<int64_t> slots(static_cast<size_t>(count));
  for (size_t pool = 0; pool < memory.size(); ++pool) {
    ASSERT_EQ(mla_cache_slots(cache, static_cast<int64_t>(pool), id, position, count, slots.data()),
              MLA_OK);
    uint64_t hash = 0;
    for (int64_t i = 0; i < position + count; ++i) {
      hash = extend(hash, tokens[static_cast<size_t>(i)]);
      if (i >= position && slots[static_cast<size_t>(i - position)] >= 0)
        memory[pool][static_cast<size_t>(slots[static_cast<size_t>(i - position)])] = hash;
    }
  }
}

/// Every row that the sequence's next token may read.
bool CacheModel::checkRows(mla_sequence id, const Model &model) {
  auto length = static_cast<int64_t>(model.tokens.size());
  std::vector<int64_t> slots(static_cast<size_t>(length));
  for (size_t pool = 0; pool < memory.size(); ++pool) {
    const mla_cache_pool &spec = config.pools[pool];
    EXPECT_EQ(mla_cache_slots(cache, static_cast<int64_t>(pool), id, 0, length, slots.data()),
              MLA_OK);
    int64_t visible = spec.window_tokens > 0 ? length + 1 - spec.window_tokens : 0;
    uint64_t hash = 0;
    for (int64_t i = 0; i < length; ++i) {
      hash = extend(hash, model.tokens[static_cast<size_t>(i)]);
      int64_t slot = slots[static_cast<size_t>(i)];
      bool isRow = (i + 1) % spec.tokens_per_row == 0;
      if (isRow && i >= visible && (slot < 0 || memory[pool][static_cast<size_t>(slot)] != hash)) {
        ADD_FAILURE() << config.name << ": sequence " << id << " reads a foreign row at token " << i
                      << " in pool " << spec.name << "\n"
                      << dump();
        return false;
      }
    }
  }
  return true;
}

bool CacheModel::checkAll() {
  EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
  bool isRight = !testing::Test::HasFailure();
  for (auto &[id, model] : sequences) {
    int64_t length = -1;
    EXPECT_EQ(mla_cache_length(cache, id, &length), MLA_OK);
    EXPECT_EQ(length, static_cast<int64_t>(model.tokens.size()));
    isRight = isRight && checkRows(id, model);
  }
  EXPECT_EQ(counters(0).num_sequences, static_cast<int64_t>(sequences.size()));
  return isRight && !testing::Test::HasFailure();
}

/// Pages that growing sequences by so many tokens takes at least and at most, by
/// counting entries of all block tables. Between the two are copies of pages that
/// only a published block shares.
std::pair<int64_t, int64_t>
CacheModel::missing(size_t pool, const std::vector<std::pair<mla_sequence, int64_t>> &growth) {
  const mla_cache_pool &spec = config.pools[pool];
  std::map<int32_t, int> uses;
  std::map<mla_sequence, std::vector<int32_t>> tables;
  for (auto &entry : sequences) {
    std::vector<int32_t> table(static_cast<size_t>(config.maxSeqLen));
    int64_t count = 0;
    EXPECT_EQ(mla_cache_pages(cache, static_cast<int64_t>(pool), entry.first, table.data(),
                              config.maxSeqLen, &count),
              MLA_OK);
    table.resize(static_cast<size_t>(count));
    for (int32_t page : table)
      ++uses[page];
    tables[entry.first] = table;
  }
  int64_t least = 0, copies = 0;
  for (auto &[id, count] : growth) {
    const Model &model = sequences[id];
    auto length = static_cast<int64_t>(model.tokens.size());
    int64_t rows = length / spec.tokens_per_row;
    int64_t rowsAfter = (length + count) / spec.tokens_per_row;
    int64_t pagesAfter = (rowsAfter + spec.page_rows - 1) / spec.page_rows;
    least += std::max<int64_t>(0, pagesAfter - static_cast<int64_t>(tables[id].size()));
    // A shared page is written only after it has been copied; the last of those
    // who share it may keep it.
    if (rowsAfter > rows && rows % spec.page_rows != 0) {
      int &shared = uses[tables[id][static_cast<size_t>(rows / spec.page_rows)]];
      least += shared > 1;
      copies += shared <= 1;
      --shared;
    }
  }
  return {least, least + copies};
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

bool CacheModel::createOne() {
  mla_sequence id = 0;
  mla_status status = guarded([&] { return mla_cache_new_sequence(cache, &id); });
  if (status == MLA_OK)
    EXPECT_TRUE(sequences.try_emplace(id).second);
  return status == MLA_OK || status == MLA_OUT_OF_MEMORY;
}

bool CacheModel::freeOne() {
  auto it = pick();
  mla_status status = guarded([&] { return mla_cache_free_sequence(cache, it->first); });
  EXPECT_EQ(status, MLA_OK);
  dead.push_back(it->first);
  sequences.erase(it);
  return true;
}

bool CacheModel::forkOne() {
  auto it = pick();
  auto length = static_cast<int64_t>(it->second.tokens.size());
  int64_t at = random(0, 2) == 0 ? random(0, length) : length;
  mla_sequence child = 0;
  mla_status status = guarded([&] { return mla_cache_fork(cache, it->first, at, &child); });
  if (status == MLA_INVALID_ARGUMENT) {
    EXPECT_TRUE(hasWindow && at < length) << mla_last_error();
    return true;
  }
  if (status != MLA_OK)
    return status == MLA_OUT_OF_MEMORY;
  Model model = it->second;
  model.tokens.resize(static_cast<size_t>(at));
  model.published = std::min(model.published, at / blockTokens * blockTokens);
  EXPECT_TRUE(sequences.emplace(child, model).second);
  return true;
}

bool CacheModel::appendBatch() {
  std::vector<mla_sequence> ids;
  std::vector<int64_t> positions;
  std::vector<int32_t> counts;
  std::vector<std::pair<mla_sequence, int64_t>> growth;
  for (int64_t i = random(1, 3); i > 0; --i) {
    auto it = pick();
    if (std::count(ids.begin(), ids.end(), it->first))
      continue;
    auto length = static_cast<int64_t>(it->second.tokens.size());
    int64_t count = random(0, 3) == 0 ? random(0, 12) : random(0, 2);
    ids.push_back(it->first);
    positions.push_back(length);
    counts.push_back(static_cast<int32_t>(std::min(count, config.maxSeqLen - length)));
    growth.push_back({it->first, counts.back()});
  }
  // Counting every table is slow: sometimes.
  bool counts_ = random(0, 63) == 0;
  bool canFit = true, mustFit = counts_;
  for (size_t pool = 0; pool < memory.size() && counts_; ++pool) {
    auto [least, most] = missing(pool, growth);
    canFit &= least <= freePages(pool);
    mustFit &= most + config.pools[pool].watermark_pages <= freePages(pool);
  }
  std::vector<int64_t> slots(64);
  mla_cache_append_batch batch = {sizeof batch, static_cast<int64_t>(ids.size()), ids.data(),
                                  positions.data(), counts.data()};
  mla_status status = guarded([&] { return mla_cache_append(cache, &batch, slots.data(), 64); });
  if (status == MLA_OUT_OF_PAGES) {
    EXPECT_FALSE(mustFit) << config.name << ": refused although there are pages";
    return true;
  }
  if (status != MLA_OK)
    return status == MLA_OUT_OF_MEMORY;
  EXPECT_TRUE(canFit) << config.name << ": took pages that are not there";
  if (!applyCopies())
    return false;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::vector<int32_t> tokens = newTokens(counts[i]);
    std::vector<int32_t> &all = sequences[ids[i]].tokens;
    all.insert(all.end(), tokens.begin(), tokens.end());
    writeRows(ids[i], positions[i], counts[i]);
  }
  return true;
}

bool CacheModel::reserveOne() {
  auto it = pick();
  auto length = static_cast<int64_t>(it->second.tokens.size());
  int64_t tokens = random(0, std::min(config.maxSeqLen, length + 8));
  mla_status status = guarded([&] { return mla_cache_reserve(cache, it->first, tokens); });
  return applyCopies() &&
         (status == MLA_OK || status == MLA_OUT_OF_PAGES || status == MLA_OUT_OF_MEMORY);
}

bool CacheModel::truncateOne() {
  auto it = pick();
  auto length = static_cast<int64_t>(it->second.tokens.size());
  int64_t tokens =
      random(0, 1) == 0 ? std::max<int64_t>(0, length - random(0, 3)) : random(0, length);
  mla_status status = guarded([&] { return mla_cache_truncate(cache, it->first, tokens); });
  if (status == MLA_INVALID_ARGUMENT)
    return hasWindow && tokens < length;
  if (status != MLA_OK)
    return status == MLA_OUT_OF_MEMORY;
  it->second.tokens.resize(static_cast<size_t>(tokens));
  it->second.published = std::min(it->second.published, tokens / blockTokens * blockTokens);
  return true;
}

bool CacheModel::publishOne() {
  auto it = pick();
  Model &model = it->second;
  int64_t published = -1;
  mla_status status = guarded([&] {
    return mla_cache_publish(
        cache, it->first, model.published, model.tokens.data() + model.published,
        static_cast<int64_t>(model.tokens.size()) - model.published, &published);
  });
  EXPECT_EQ(status, MLA_OK) << mla_last_error();
  int64_t full = static_cast<int64_t>(model.tokens.size()) / blockTokens * blockTokens;
  if (config.pools.size() == 1)
    EXPECT_EQ(published, full);
  EXPECT_LE(published, full);
  EXPECT_GE(published, model.published);
  model.published = published;
  return true;
}

/// Whole blocks of `tokens`, one token left over, that some sequence has
/// published: match must find them.
int64_t CacheModel::publishedPrefix(const std::vector<int32_t> &tokens) {
  int64_t most = 0;
  for (auto &entry : sequences) {
    const Model &model = entry.second;
    int64_t limit = std::min(model.published, static_cast<int64_t>(tokens.size()) - 1);
    auto differs = std::mismatch(tokens.begin(), tokens.begin() + std::max<int64_t>(limit, 0),
                                 model.tokens.begin());
    most = std::max(most, (differs.first - tokens.begin()) / blockTokens * blockTokens);
  }
  return most;
}

bool CacheModel::matchOne() {
  mla_sequence id = 0;
  if (mla_cache_new_sequence(cache, &id) != MLA_OK)
    return false;
  sequences[id];
  std::vector<int32_t> tokens = pick()->second.tokens, more = newTokens(random(0, 6));
  tokens.insert(tokens.end(), more.begin(), more.end());
  tokens.resize(std::min<size_t>(tokens.size(), static_cast<size_t>(config.maxSeqLen)));
  int64_t matched = -1;
  mla_status status = guarded([&] {
    return mla_cache_match(cache, id, tokens.data(), static_cast<int64_t>(tokens.size()), &matched);
  });
  EXPECT_EQ(status, MLA_OK) << mla_last_error();
  EXPECT_EQ(matched % blockTokens, 0);
  EXPECT_TRUE(matched == 0 || matched < static_cast<int64_t>(tokens.size()));
  if (!hasWindow)
    EXPECT_GE(matched, publishedPrefix(tokens));
  tokens.resize(static_cast<size_t>(std::max<int64_t>(matched, 0)));
  sequences[id] = {tokens, matched};
  return checkRows(id, sequences[id]);
}

bool CacheModel::dropCached() {
  EXPECT_EQ(guarded([&] { return mla_cache_drop_cached(cache); }), MLA_OK);
  for (size_t pool = 0; pool < memory.size(); ++pool)
    EXPECT_EQ(counters(pool).cached_pages, 0);
  return true;
}

/// Rows follow their pages.
bool CacheModel::compactSome() {
  constexpr int64_t kMost = 8; // of a pool; applyCopies has room for all of them
  int64_t most = random(0, kMost), moved = -1;
  mla_status status = guarded([&] { return mla_cache_compact(cache, most, nullptr, &moved); });
  if (status != MLA_OK)
    return status == MLA_OUT_OF_MEMORY;
  EXPECT_LE(moved, most * static_cast<int64_t>(memory.size()));
  EXPECT_EQ(mla_cache_check(cache), MLA_OK) << mla_last_error();
  return applyCopies() && checkAll();
}

/// What must be refused, whatever the state.
bool CacheModel::badCall() {
  auto it = pick();
  auto length = static_cast<int64_t>(it->second.tokens.size());
  mla_sequence stale =
      dead.empty() ? 12345
                   : dead[static_cast<size_t>(random(0, static_cast<int64_t>(dead.size()) - 1))];
  mla_sequence ids[] = {it->first, it->first}, child;
  int64_t positions[] = {length, length}, value;
  int32_t counts[] = {0, 0}, token = 0;
  mla_cache_append_batch batch = {sizeof batch, 2, ids, positions, counts};
  auto append = [&] { return mla_cache_append(cache, &batch, nullptr, 0); };
  mla_status status = MLA_OK;
  switch (random(0, 9)) {
  case 0:
    status = guarded(append); // twice in one batch
    break;
  case 1:
    ids[1] = stale;
    status = guarded(append);
    break;
  case 2:
    batch.num_requests = 1;
    positions[0] += random(0, 1) ? 1 : -1;
    status = guarded(append);
    break;
  case 3:
    batch.num_requests = 1;
    counts[0] = static_cast<int32_t>(config.maxSeqLen - length + 1);
    status = guarded(append);
    break;
  case 4:
    status = guarded([&] { return mla_cache_free_sequence(cache, stale); });
    break;
  case 5:
    status = guarded([&] { return mla_cache_fork(cache, it->first, length + 1, &child); });
    break;
  case 6:
    status = guarded([&] { return mla_cache_truncate(cache, it->first, -1); });
    break;
  case 7:
    status = guarded(
        [&] { return mla_cache_publish(cache, it->first, length + 1, &token, 1, nullptr); });
    break;
  case 8:
    status = guarded([&] { return mla_cache_reserve(cache, it->first, config.maxSeqLen + 1); });
    break;
  default:
    status = guarded([&] { return mla_cache_length(cache, stale, &value); });
  }
  EXPECT_TRUE(status == MLA_INVALID_ARGUMENT || status == MLA_OUT_OF_MEMORY)
      << mla_status_name(status);
  return true;
}

bool CacheModel::step() {
  if (dead.size() > 1000)
    dead.erase(dead.begin(), dead.begin() + 500);
  if (sequences.empty())
    return createOne();
  int64_t dice = random(0, 999);
  if (sequences.size() >= kMaxSequences)
    return freeOne();
  bool isRight = dice < 40    ? createOne()
                 : dice < 110 ? freeOne()
                 : dice < 160 ? forkOne()
                 : dice < 640 ? appendBatch()
                 : dice < 680 ? reserveOne()
                 : dice < 750 ? truncateOne()
                 : dice < 870 ? publishOne()
                 : dice < 930 ? matchOne()
                 : dice < 992 ? badCall()
                 : dice < 999 ? compactSome()
                              : dropCached();
  return isRight && !testing::Test::HasFailure();
}
