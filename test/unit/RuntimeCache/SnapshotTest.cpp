//===- SnapshotTest.cpp - caches in files -----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Damaged files are refused by length or checksum. States that were changed and
// sealed again must be refused by what they say, or be harmless: a cache that
// passes its check and can be used and emptied. More cases by hand:
//
//   MLAC_FUZZ_CASES=100000 mlac-cache-tests --gtest_filter='*Fuzz*'
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"
#include "cache/CacheSnapshot.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlac::runtime;
using namespace mlac::test;

/// Cases of each fuzz test in CI; half a second.
static constexpr int64_t kFuzzCases = 5000;

static int64_t numCases() {
  const char *text = std::getenv("MLAC_FUZZ_CASES");
  return text ? std::atoll(text) : kFuzzCases;
}

namespace {
const std::vector<PoolSpec> kSpecs = {
    {"latent", 24, 2}, {"window", 16, 2, 1, 5}, {"compressed", 8, 1, 4}};
constexpr int64_t kMaxSeqLen = 32;

/// A cache with forks, published blocks, cached pages and a dead sequence.
std::unique_ptr<KVCache> makeCache() {
  auto cache = std::make_unique<KVCache>(kSpecs, kMaxSeqLen, "rows of a test");
  auto append = [&](mla_sequence id, int64_t position, int32_t count) {
    EXPECT_TRUE(cache->append(1, &id, &position, &count).isOk());
  };
  std::vector<int32_t> tokens(16);
  std::iota(tokens.begin(), tokens.end(), 0);
  mla_sequence ids[4];
  Sequence *sequence;
  for (mla_sequence &id : ids)
    EXPECT_TRUE(cache->create(id).isOk());
  append(ids[0], 0, 11);
  EXPECT_TRUE(cache->find(ids[0], sequence).isOk());
  EXPECT_TRUE(cache->publish(*sequence, 0, std::span(tokens).first(11)).isOk());
  mla_sequence child;
  EXPECT_TRUE(cache->fork(ids[0], 11, child).isOk());
  append(child, 11, 3);
  std::reverse(tokens.begin(), tokens.end());
  append(ids[1], 0, 8);
  EXPECT_TRUE(cache->find(ids[1], sequence).isOk());
  EXPECT_TRUE(cache->publish(*sequence, 0, std::span(tokens).first(8)).isOk());
  append(ids[2], 0, 3);
  EXPECT_TRUE(cache->free(ids[1]).isOk());
  cache->copiesDone();
  return cache;
}

/// The dump without ids and numbers of blocks, which restoring changes.
std::string dumpOf(const KVCache &cache) {
  std::istringstream lines(cache.dump());
  std::string text, line;
  std::multiset<std::string> blocks;
  while (std::getline(lines, line)) {
    if (line.rfind("block ", 0) == 0) {
      blocks.insert(line.substr(line.find(", pages")));
      continue;
    }
    size_t number = line.rfind("sequence ", 0) == 0 ? line.find(':') : 0;
    size_t least = line.find(", least free");
    text += line.substr(number, least == std::string::npos ? least : least - number) + "\n";
  }
  for (const std::string &block : blocks)
    text += block + "\n";
  return text;
}

/// Uses and empties a cache that came from a file.
void useUp(KVCache &cache) {
  std::string problem;
  ASSERT_TRUE(cache.check(problem)) << problem;
  for (mla_sequence id : cache.ids()) {
    Sequence *sequence;
    ASSERT_TRUE(cache.find(id, sequence).isOk());
    (void)cache.reserve(*sequence, std::min(sequence->length + 3, kMaxSeqLen));
    mla_sequence child;
    if (cache.fork(id, sequence->length, child).isOk()) {
      Sequence *forked;
      ASSERT_TRUE(cache.find(child, forked).isOk());
      (void)cache.reserve(*forked, std::min(forked->length + 1, kMaxSeqLen));
    }
  }
  cache.copiesDone();
  ASSERT_TRUE(cache.check(problem)) << problem;
  for (mla_sequence id : cache.ids())
    ASSERT_TRUE(cache.free(id).isOk());
  cache.dropCached();
  ASSERT_TRUE(cache.check(problem)) << problem;
  for (size_t pool = 0; pool < cache.numPools(); ++pool)
    ASSERT_EQ(cache.pool(pool).numUnused(), cache.spec(pool).numPages);
}

std::string temporaryPath() {
  return testing::TempDir() + "mlac-snapshot-" + std::to_string(getpid());
}

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeAll(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class SnapshotTest : public ::testing::Test {
protected:
  void SetUp() override {
    cache = makeCache();
    ASSERT_TRUE(CacheSnapshot::save(*cache, {}, path).isOk());
  }
  void TearDown() override { std::remove(path.c_str()); }

  std::unique_ptr<KVCache> fresh() {
    return std::make_unique<KVCache>(kSpecs, kMaxSeqLen, "rows of a test");
  }
  void expectRefused(KVCache &into, mla_status code, const char *text) {
    Status status = CacheSnapshot::restore(into, {}, path);
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
    EXPECT_EQ(into.numSequences(), 0);
    std::string problem;
    EXPECT_TRUE(into.check(problem)) << problem;
  }

  std::string path = temporaryPath();
  std::unique_ptr<KVCache> cache;
};
} // namespace

TEST_F(SnapshotTest, RestoredCacheIsTheSame) {
  std::unique_ptr<KVCache> other = fresh();
  ASSERT_TRUE(CacheSnapshot::restore(*other, {}, path).isOk());
  EXPECT_EQ(dumpOf(*other), dumpOf(*cache));
  ASSERT_EQ(other->ids().size(), cache->ids().size());
  Sequence *sequence;
  EXPECT_FALSE(other->find(cache->ids()[0], sequence).isOk()) << "ids must be new";
  // The same operation takes the same pages afterwards.
  for (KVCache *each : {cache.get(), other.get()}) {
    ASSERT_TRUE(each->find(each->ids()[0], sequence).isOk());
    ASSERT_TRUE(each->reserve(*sequence, 20).isOk());
    each->copiesDone();
  }
  EXPECT_EQ(dumpOf(*other), dumpOf(*cache));
  useUp(*other);
}

TEST_F(SnapshotTest, OtherCachesAreRefused) {
  auto refuse = [&](std::vector<PoolSpec> specs, int64_t maxSeqLen, const char *format,
                    const char *text) {
    KVCache other(std::move(specs), maxSeqLen, format);
    expectRefused(other, MLA_INVALID_ARGUMENT, text);
  };
  auto with = [&](auto change) {
    std::vector<PoolSpec> specs = kSpecs;
    change(specs);
    return specs;
  };
  refuse(kSpecs, kMaxSeqLen, "other rows",
         "the format is 'rows of a test', here it is 'other rows'");
  refuse(kSpecs, 33, "rows of a test", "max_seq_len is '32', here it is '33'");
  refuse(with([](auto &s) { s[0].pageRows = 4; }), kMaxSeqLen, "rows of a test",
         "pool 'latent': page_rows is '2', here it is '4'");
  refuse(with([](auto &s) { s[1].windowTokens = 6; }), kMaxSeqLen, "rows of a test",
         "pool 'window': window_tokens is '5', here it is '6'");
  refuse(with([](auto &s) { s.pop_back(); }), kMaxSeqLen, "rows of a test",
         "the number of pools is '3', here it is '2'");
  Status status = CacheSnapshot::restore(*cache, {}, path);
  EXPECT_EQ(status.code(), MLA_WRONG_STATE);
  EXPECT_NE(status.message().find("restore needs an empty cache, this one has 4 sequences"),
            std::string::npos)
      << status.message();
}

TEST_F(SnapshotTest, TruncatedAndFlippedFilesAreRefused) {
  std::string bytes = readAll(path);
  std::unique_ptr<KVCache> into = fresh();
  for (size_t size = 0; size < bytes.size(); size += 29) {
    writeAll(path, bytes.substr(0, size));
    expectRefused(*into, MLA_CORRUPT, "bytes");
  }
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    writeAll(path, damaged);
    ASSERT_EQ(CacheSnapshot::restore(*into, {}, path).code(), MLA_CORRUPT) << "byte " << i;
  }
  writeAll(path, bytes);
  EXPECT_TRUE(CacheSnapshot::restore(*into, {}, path).isOk());
}

TEST_F(SnapshotTest, FilesAreReplacedOrLeft) {
  std::string before = readAll(path);
  Status status = CacheSnapshot::save(*cache, {}, "/nowhere/at/all");
  EXPECT_EQ(status.code(), MLA_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("/nowhere/at/all"), std::string::npos);
  // A page that cannot be read stops the file half-way.
  PageBytes broken;
  broken.numLayers = 1;
  broken.bytesPerPage = {8};
  broken.read = [](int64_t, size_t, int32_t page, void *) {
    return page < 3 ? Status() : error(MLA_DEVICE_ERROR, "page ", page);
  };
  EXPECT_EQ(CacheSnapshot::save(*cache, broken, path).code(), MLA_DEVICE_ERROR);
  EXPECT_EQ(readAll(path), before);
  std::unique_ptr<KVCache> into = fresh();
  EXPECT_EQ(CacheSnapshot::restore(*into, {}, "/nowhere").code(), MLA_NOT_FOUND);
}

/// As root, a rename over a device node would take it from the whole machine. A link
/// stands for the device here, so that a wrong answer harms the link only.
TEST_F(SnapshotTest, OnlyRegularFilesAreReplacedAndRead) {
  std::string folder = path + "-folder", fifo = folder + "/fifo", link = folder + "/link";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  auto refuse = [&](const std::string &where, const char *kind) {
    std::string expected = where + ": is " + kind + ", expected a regular file";
    Status saved = CacheSnapshot::save(*cache, {}, where);
    EXPECT_EQ(saved.code(), MLA_INVALID_ARGUMENT);
    EXPECT_EQ(saved.message(), expected);
    Status read = CacheSnapshot::restore(*fresh(), {}, where);
    EXPECT_EQ(read.code(), MLA_NOT_FOUND);
    return read.message() == expected;
  };
  EXPECT_TRUE(refuse(folder, "a directory"));
  EXPECT_TRUE(refuse(fifo, "a FIFO"));
  for (auto [target, kind] :
       {std::pair("/dev/null", "a device"), {"fifo", "a FIFO"}, {"/", "a directory"}}) {
    ASSERT_EQ(symlink(target, link.c_str()), 0);
    EXPECT_TRUE(refuse(link, kind));
    EXPECT_EQ(std::filesystem::read_symlink(link), target);
    ASSERT_EQ(unlink(link.c_str()), 0);
  }
  ASSERT_EQ(symlink("nothing", link.c_str()), 0);
  EXPECT_FALSE(refuse(link, "a link to nothing")); // to readers there is no such file
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

/// The link stays, and what it names is replaced.
TEST_F(SnapshotTest, LinksToFilesAreFollowed) {
  std::string link = path + "-link", empty = path + "-empty";
  writeAll(empty, "");
  ASSERT_EQ(symlink(empty.c_str(), link.c_str()), 0);
  ASSERT_TRUE(CacheSnapshot::save(*cache, {}, link).isOk());
  EXPECT_EQ(std::filesystem::read_symlink(link), empty);
  EXPECT_EQ(readAll(empty), readAll(path));
  std::unique_ptr<KVCache> other = fresh();
  EXPECT_TRUE(CacheSnapshot::restore(*other, {}, link).isOk());
  ASSERT_EQ(unlink(link.c_str()), 0);
  ASSERT_EQ(unlink(empty.c_str()), 0);
}

TEST_F(SnapshotTest, CopiesMustBeTakenFirst) {
  Sequence *sequence;
  mla_sequence child;
  ASSERT_TRUE(cache->fork(cache->ids()[1], 3, child).isOk());
  ASSERT_TRUE(cache->find(child, sequence).isOk());
  ASSERT_TRUE(cache->reserve(*sequence, 4).isOk());
  Status status = CacheSnapshot::save(*cache, {}, path);
  EXPECT_EQ(status.code(), MLA_WRONG_STATE);
  EXPECT_NE(status.message().find("page copies have not been taken"), std::string::npos);
}

TEST_F(SnapshotTest, AllocationFailuresAreReported) {
  mla_cache_pool pool = {"latent", 12, 4, 1, 0, 0};
  mla_cache_options options = {sizeof options, 64, 1, &pool, nullptr};
  mla_cache *from = nullptr, *to = nullptr;
  mla_sequence id;
  ASSERT_EQ(mla_cache_create(&options, &from), MLA_OK);
  ASSERT_EQ(mla_cache_create(&options, &to), MLA_OK);
  ASSERT_EQ(mla_cache_new_sequence(from, &id), MLA_OK);
  ASSERT_EQ(mla_cache_reserve(from, id, 9), MLA_OK);
  for (bool isSaved : {false, true})
    for (int64_t after = 0;; ++after) {
      ASSERT_LT(after, 1000);
      failAllocations(after);
      mla_status status =
          isSaved ? mla_cache_restore(to, path.c_str()) : mla_cache_save(from, path.c_str());
      failAllocations(-1);
      ASSERT_EQ(mla_cache_check(to), MLA_OK) << mla_last_error();
      if (status == MLA_OK)
        break;
      ASSERT_EQ(status, MLA_OUT_OF_MEMORY) << mla_last_error();
    }
  int64_t count;
  ASSERT_EQ(mla_cache_sequences(to, &id, 1, &count), MLA_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(mla_cache_destroy(from), MLA_OK);
  EXPECT_EQ(mla_cache_destroy(to), MLA_OK);
}

/// Changes numbers of a state: to small ones, to absurd ones, by bits.
TEST(SnapshotFuzz, SealedStatesAreRefusedOrHarmless) {
  std::unique_ptr<KVCache> cache = makeCache();
  std::string state = CacheSnapshot::encode(*cache, {});
  std::mt19937_64 generator(1);
  auto random = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  };
  int64_t accepted = 0;
  for (int64_t i = 0; i < numCases(); ++i) {
    std::string damaged = state;
    for (int64_t change = random(1, 3); change > 0; --change) {
      auto word = static_cast<size_t>(random(0, static_cast<int64_t>(damaged.size()) / 4 - 1));
      auto value = static_cast<int32_t>(random(-2, 30));
      if (random(0, 3) == 0)
        value = static_cast<int32_t>(generator());
      if (random(0, 3) == 0) {
        std::memcpy(&value, &damaged[word * 4], sizeof value);
        value ^= 1 << random(0, 31);
      }
      std::memcpy(&damaged[word * 4], &value, sizeof value);
      if (random(0, 15) == 0)
        damaged.resize(static_cast<size_t>(random(0, static_cast<int64_t>(damaged.size()) / 8)) *
                       8);
      if (damaged.size() < 8)
        break;
    }
    KVCache into(kSpecs, kMaxSeqLen, "rows of a test");
    Status status = CacheSnapshot::decode(into, {}, damaged);
    if (status.isOk())
      ++accepted;
    else
      EXPECT_FALSE(status.message().empty());
    ASSERT_NO_FATAL_FAILURE(useUp(into)) << "case " << i;
  }
  // Tokens, generations and unused lists may say anything.
  EXPECT_LT(accepted, numCases() / 2);
}

/// Every function with random arguments: harmless, whatever it says.
TEST(CacheFuzz, RandomArgumentsAreRefusedOrHarmless) {
  mla_cache_pool pools[] = {{"latent", 16, 4, 1, 0, 0}, {"window", 8, 2, 1, 7, 0}};
  mla_cache_options options = {sizeof options, 32, 2, pools, nullptr};
  mla_cache *cache = nullptr;
  ASSERT_EQ(mla_cache_create(&options, &cache), MLA_OK);
  std::mt19937_64 generator(2);
  std::vector<mla_sequence> ids(3);
  for (mla_sequence &id : ids)
    ASSERT_EQ(mla_cache_new_sequence(cache, &id), MLA_OK);
  constexpr int64_t kRoom = 64;
  auto number = [&]() -> int64_t {
    switch (generator() % 4) {
    case 0:
      return static_cast<int64_t>(generator());
    case 1:
      return static_cast<int64_t>(generator() % 5) - 2;
    default:
      return static_cast<int64_t>(generator() % 40);
    }
  };
  auto sequence = [&] { return generator() % 8 ? ids[generator() % ids.size()] : generator(); };
  std::vector<int32_t> tokens(kRoom), pages(kRoom);
  std::vector<int64_t> slots(1 << 12);
  mla_page_copy copies[kRoom];
  for (int64_t i = 0; i < numCases(); ++i) {
    mla_sequence batchIds[] = {sequence(), sequence()}, child;
    int64_t positions[] = {number(), number()}, value;
    int32_t counts[] = {static_cast<int32_t>(number()), static_cast<int32_t>(number())};
    mla_cache_append_batch batch = {sizeof batch, static_cast<int64_t>(generator() % 3), batchIds,
                                    positions, counts};
    if (generator() % 2)
      for (int j = 0; j < 2; ++j)
        if (mla_cache_length(cache, batchIds[j], &positions[j]) != MLA_OK)
          positions[j] = 0;
    // What is in the caller's memory is the caller's word: counts stay inside.
    int64_t count = std::clamp<int64_t>(number(), -2, kRoom);
    switch (generator() % 11) {
    case 0:
      (void)mla_cache_append(cache, &batch, slots.data(), kRoom);
      break;
    case 1:
      if (mla_cache_fork(cache, sequence(), number(), &child) == MLA_OK) {
        EXPECT_EQ(mla_cache_free_sequence(cache, ids[0]), MLA_OK);
        ids[0] = child;
      }
      break;
    case 2:
      (void)mla_cache_reserve(cache, sequence(), number());
      break;
    case 3:
      (void)mla_cache_truncate(cache, sequence(), number());
      break;
    case 4:
      (void)mla_cache_publish(cache, sequence(), number(), tokens.data(), count, &value);
      break;
    case 5:
      (void)mla_cache_match(cache, sequence(), tokens.data(), count, &value);
      break;
    case 6:
      (void)mla_cache_pages(cache, number(), sequence(), pages.data(), kRoom, &value);
      break;
    case 7:
      (void)mla_cache_slots(cache, number(), sequence(), number(), count, slots.data());
      break;
    case 8:
      (void)mla_cache_take_copies(cache, copies, kRoom, &value);
      break;
    case 9:
      (void)mla_cache_set_watermark(cache, number(), number());
      break;
    default: {
      uint64_t which = generator() % ids.size();
      if (generator() % 4 == 0 && mla_cache_free_sequence(cache, ids[which]) == MLA_OK)
        EXPECT_EQ(mla_cache_new_sequence(cache, &ids[which]), MLA_OK);
    }
    }
    if (i % 16 == 0)
      ASSERT_EQ(mla_cache_check(cache), MLA_OK) << "case " << i << ": " << mla_last_error();
  }
  EXPECT_EQ(mla_cache_destroy(cache), MLA_OK);
}
