//===- CacheModelTest.cpp - random operations against a model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As many operations as a few seconds allow; by hand, for instance:
//
//   MLAC_CACHE_OPERATIONS=10000000 MLAC_CACHE_SEED=7 mlac-cache-tests
//     --gtest_filter='CacheModel.*'
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"

#include <cstdlib>

using namespace mlac::test;

/// Operations of all configurations together; a million take 2 s of one core.
static constexpr int64_t kOperations = 2'000'000;
static constexpr int64_t kBatch = 500;

static int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

TEST(CacheModel, RandomOperationsAgreeWithPlainModel) {
  std::vector<ModelConfig> configs = modelConfigs();
  auto operations =
      fromEnvironment("MLAC_CACHE_OPERATIONS", kOperations) / static_cast<int64_t>(configs.size());
  auto seed = static_cast<uint64_t>(fromEnvironment("MLAC_CACHE_SEED", 1));
  for (const ModelConfig &config : configs) {
    CacheModel model(config, seed);
    for (int64_t i = 0; i < operations; ++i) {
      bool isRight = model.step();
      if (i % kBatch == 0)
        isRight = isRight && model.checkAll();
      ASSERT_TRUE(isRight) << config.name << ", seed " << seed << ", operation " << i;
    }
    ASSERT_TRUE(model.checkAll());
    mla_cache_counters counters{};
    counters.struct_bytes = sizeof counters;
    ASSERT_EQ(mla_cache_get_counters(model.cache, 0, &counters), MLA_OK);
    // Every path was taken, often.
    EXPECT_GT(counters.evicted_blocks, operations / 1000);
    if (config.pools[0].page_rows > 1)
      EXPECT_GT(counters.copied_pages, operations / 1000);
    EXPECT_GT(counters.hit_tokens, operations / 1000);
    EXPECT_GT(counters.refusals, operations / 1000);
  }
}
