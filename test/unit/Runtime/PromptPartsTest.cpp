//===- PromptPartsTest.cpp - runs of the keys of prompts ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/PromptParts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace mlac::runtime;

namespace {
/// Cuts that cost nothing, so that they are made wherever they balance the machine.
PromptParams makeParams(int64_t heads, int64_t window = 0) {
  return {/*above=*/1,        /*pays=*/0,        heads, /*tokensPerItem=*/8,
          /*keysPerBlock=*/4,
          /*itemCost=*/0.0,   /*mergeCost=*/0.0, 0.0,   window};
}

/// Prompts one behind the other, of (cached tokens, new tokens).
std::vector<Prompt> makePrompts(const std::vector<std::pair<int32_t, int32_t>> &lengths) {
  std::vector<Prompt> prompts;
  int32_t token = 5, copy = 0;
  for (auto [context, queries] : lengths) {
    prompts.push_back({static_cast<int32_t>(2 * prompts.size()), token, queries, context, copy});
    token += queries + 3;
    copy += context + queries;
  }
  return prompts;
}

/// Which partials each token's row is written to, and by which keys.
using Written = std::map<int32_t, std::pair<int32_t, std::set<int32_t>>>; // partial: token, keys

/// Goes over what `parts` compute, row by row: each key that a row sees is in one of its parts.
/// Returns the partials; rows of whole prompts have all of their keys.
Written checkParts(const PromptParams &params, std::span<const Prompt> prompts,
                   std::span<const PromptPart> parts) {
  Written written;
  std::map<int32_t, std::set<int32_t>> seen; // of each token
  for (const PromptPart &part : parts) {
    const Prompt *prompt = nullptr;
    for (const Prompt &other : prompts)
      if (other.request == part.request)
        prompt = &other;
    EXPECT_TRUE(prompt != nullptr && part.tokens > 0 && part.tokens <= params.tokensPerItem &&
                part.firstKey < part.endKey);
    EXPECT_EQ(part.firstKey % params.keysPerBlock, 0);
    EXPECT_EQ(part.firstPosition - prompt->contextLen, part.firstToken - prompt->firstToken);
    EXPECT_EQ(part.firstCopy, prompt->firstCopy);
    EXPECT_GE(part.firstPosition, part.firstKey); // kernels count from the first key on
    for (int32_t row = 0; row < part.tokens; ++row) {
      std::set<int32_t> keys;
      int32_t own = part.firstPosition + row;
      for (int32_t key = part.firstKey; key < std::min(part.endKey, own + 1); ++key)
        if (params.window == 0 || key > own - params.window)
          keys.insert(key);
      for (int32_t key : keys)
        EXPECT_TRUE(seen[part.firstToken + row].insert(key).second);
      if (part.partial >= 0)
        EXPECT_TRUE(
            written.insert({part.partial + row, {part.firstToken + row, std::move(keys)}}).second);
    }
  }
  for (const Prompt &prompt : prompts)
    for (int32_t row = 0; row < prompt.queryLen; ++row) {
      int64_t own = prompt.contextLen + row;
      int64_t count = params.window > 0 ? std::min(own + 1, params.window) : own + 1;
      EXPECT_EQ(static_cast<int64_t>(seen[prompt.firstToken + row].size()), count);
    }
  return written;
}

/// Each row that is written in parts is merged once, of all of its keys.
void checkMerges(const PromptParams &params, const PromptParts &plan, const Written &written) {
  std::map<int32_t, size_t> keys; // merged, of each token
  for (const MergeItem &merge : plan.merges())
    for (int32_t row = 0; row < merge.queryLen; ++row) {
      int32_t token = merge.firstToken + row;
      EXPECT_FALSE(keys.contains(token));
      for (int32_t piece = 0; piece < merge.numPartials; ++piece) {
        auto found = written.find(merge.firstPartial + row + piece * merge.stride);
        ASSERT_TRUE(found != written.end()) << "a partial that nobody writes";
        EXPECT_EQ(found->second.first, token);
        keys[token] += found->second.second.size();
      }
    }
  std::map<int32_t, size_t> all;
  for (const auto &[partial, row] : written) {
    EXPECT_LT(partial, plan.partialTokens());
    all[row.first] += row.second.size();
  }
  EXPECT_EQ(keys, all);
}
} // namespace

TEST(PromptParts, D10_AFullMachineCutsNothing) {
  PromptParts plan;
  plan.plan(makeParams(/*heads=*/8), makePrompts({{0, 70}, {10, 9}}), /*numSms=*/4);
  ASSERT_EQ(plan.parts().size(), 9u + 2u); // of eight tokens
  EXPECT_TRUE(plan.merges().empty());
  EXPECT_EQ(plan.partialTokens(), 0);
  for (const PromptPart &part : plan.parts())
    EXPECT_EQ(part.partial, -1);
}

// Two parts of 6 and 8 blocks on 12 multiprocessors.
TEST(PromptParts, D10_FewProgramsAreCut) {
  PromptParams params = makeParams(/*heads=*/1);
  std::vector<Prompt> prompts = makePrompts({{16, 16}});
  PromptParts plan;
  plan.plan(params, prompts, /*numSms=*/12);
  EXPECT_GE(plan.parts().size(), 6u);
  checkMerges(params, plan, checkParts(params, prompts, plan.parts()));
  // Where a merge takes longer than the prompt, nothing is.
  params.mergeCost = 100;
  plan.plan(params, prompts, 12);
  EXPECT_EQ(plan.parts().size(), 2u);
}

// Six parts of three items, of 24 to 29 blocks, on eight multiprocessors: two waves and a quarter.
TEST(PromptParts, D10_WhatFillsWavesIsLeftWhole) {
  PromptParams params = makeParams(/*heads=*/3);
  std::vector<Prompt> prompts = makePrompts({{88, 24}, {64, 24}});
  PromptParts plan;
  plan.plan(params, prompts, /*numSms=*/8);
  checkMerges(params, plan, checkParts(params, prompts, plan.parts()));
  int64_t whole = 0, longest = 0;
  for (const PromptPart &part : plan.parts()) {
    longest = std::max<int64_t>(longest, part.partial < 0 ? 0 : part.keys());
    whole += part.partial < 0 ? 1 : 0;
  }
  EXPECT_EQ(whole, 5);
  // The last tokens of the longer prompt.
  for (const MergeItem &merge : plan.merges())
    EXPECT_GE(merge.firstToken, prompts[0].firstToken + 16);
  EXPECT_LE(longest, 112 / 2);
  // Where a merge takes longer than what it saves, nothing is cut.
  params.mergeCost = 30;
  plan.plan(params, prompts, 8);
  EXPECT_EQ(plan.parts().size(), 6u);
  EXPECT_TRUE(plan.merges().empty());
}

TEST(PromptParts, D10_TheLongestComeFirst) {
  PromptParts plan;
  plan.plan(makeParams(/*heads=*/8), makePrompts({{0, 9}, {40, 30}, {0, 20}}), /*numSms=*/1);
  ASSERT_EQ(plan.parts().size(), 2u + 4u + 3u);
  for (size_t i = 1; i < plan.parts().size(); ++i)
    EXPECT_GE(plan.parts()[i - 1].keys(), plan.parts()[i].keys());
}

TEST(PromptParts, D10_EveryKeyIsSeenOnceAndEveryRowMergedOnce) {
  std::mt19937 random(1);
  auto pick = [&](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  int64_t cuts = 0;
  PromptParts plan;
  for (int trial = 0; trial < 3000; ++trial) {
    PromptParams params = makeParams(pick(1, 4), pick(0, 2) ? 0 : pick(1, 60));
    params.itemCost = pick(0, 1), params.mergeCost = pick(0, 1);
    std::vector<std::pair<int32_t, int32_t>> lengths;
    for (int32_t count = pick(1, 4); count > 0; --count)
      lengths.push_back({pick(0, 2) ? pick(0, 100) : 0, pick(2, 60)});
    std::vector<Prompt> prompts = makePrompts(lengths);
    int64_t numSms = pick(1, 40);
    plan.plan(params, prompts, numSms);
    SCOPED_TRACE(trial);
    checkMerges(params, plan, checkParts(params, prompts, plan.parts()));
    PromptCuts most = boundPromptCuts(params, numSms);
    int64_t tokens = 0;
    for (const Prompt &prompt : prompts)
      tokens += prompt.queryLen;
    EXPECT_LE(static_cast<int64_t>(plan.parts().size()),
              boundPromptParts(most, static_cast<int64_t>(prompts.size()), tokens));
    EXPECT_LE(plan.merges().size(), static_cast<size_t>(most.merges));
    EXPECT_LE(plan.partialTokens(), most.partialTokens);
    cuts += plan.merges().empty() ? 0 : 1;
    if (HasFailure())
      return;
  }
  EXPECT_GT(cuts, 300);
}
