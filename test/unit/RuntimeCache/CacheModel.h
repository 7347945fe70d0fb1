//===- CacheModel.h - a plain model of the cache ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random operations on a cache, next to a model that knows nothing of pages: a
// sequence is its tokens. The memory of every pool is simulated: a row holds a
// hash of the tokens up to it, written where the cache says and copied where it
// asks. If every row that a sequence may read holds the hash of that sequence's
// own tokens, then no page was lost, shared wrongly or overwritten.
//
// Refusals are checked too: a call that fails leaves the dump as it was, and
// MLA_OUT_OF_PAGES comes exactly when a count over all block tables says so.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_RUNTIMECACHE_CACHEMODEL_H
#define MLAC_TEST_UNIT_RUNTIMECACHE_CACHEMODEL_H

#include "mla_runtime.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace mlac::test {

/// From now on, this thread's `after`-th allocation and all later ones fail;
/// negative: none (AllocationFailures.cpp).
void failAllocations(int64_t after);
/// Allocations of this thread since the last call.
int64_t countAllocations();

struct ModelConfig {
  std::string name;
  std::vector<mla_cache_pool> pools;
  int64_t maxSeqLen;
  /// Of 1000 operations, so many run with failing allocations.
  int failuresPerMille = 0;
};

/// Pools that have everything: one, or latent, window, compressed and index.
std::vector<ModelConfig> modelConfigs();

class CacheModel {
public:
  CacheModel(const ModelConfig &config, uint64_t seed);
  ~CacheModel();

  /// One random operation; false after a failed expectation.
  bool step();
  /// Compares everything: the cache's own invariants, and every readable row.
  bool checkAll();

  mla_cache *cache = nullptr;

private:
  struct Model {
    std::vector<int32_t> tokens;
    int64_t published = 0;
  };
  using Sequences = std::map<mla_sequence, Model>;

  int64_t random(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator);
  }
  Sequences::iterator pick();
  std::vector<int32_t> newTokens(int64_t count);

  bool createOne();
  bool freeOne();
  bool forkOne();
  bool appendBatch();
  bool reserveOne();
  bool truncateOne();
  bool publishOne();
  bool matchOne();
  bool badCall();
  bool dropCached();
  bool compactSome();

  /// Calls `function`, sometimes without memory; a refused call must have
  /// changed nothing.
  template <typename Function> mla_status guarded(Function function);
  bool applyCopies();
  void writeRows(mla_sequence id, int64_t position, int64_t count);
  bool checkRows(mla_sequence id, const Model &model);
  std::pair<int64_t, int64_t> missing(size_t pool,
                                      const std::vector<std::pair<mla_sequence, int64_t>> &growth);
  int64_t freePages(size_t pool);
  std::string dump();
  mla_cache_counters counters(size_t pool);
  int64_t publishedPrefix(const std::vector<int32_t> &tokens);

  ModelConfig config;
  std::mt19937_64 generator;
  Sequences sequences;
  std::vector<mla_sequence> dead;
  std::vector<std::vector<uint64_t>> memory; // by pool and slot
  int64_t blockTokens = 1;
  bool hasWindow = false;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_RUNTIMECACHE_CACHEMODEL_H
