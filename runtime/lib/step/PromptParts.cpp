//===- PromptParts.cpp - runs of the keys of prompts ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/PromptParts.h"

#include "base/DataType.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <ranges>
#include <tuple>

using namespace mlac::runtime;

/// What is cut fills the machine at most so many times: of more, the longest first balance it.
static constexpr int64_t kMostWaves = 4;
/// Waves that may be left whole in front of what is cut: one more is an eighth of the time at most.
static constexpr int64_t kMostWholeWaves = 8;
/// Longer than any prompt.
static constexpr int64_t kUncut = std::numeric_limits<int32_t>::max();

//===----------------------------------------------------------------------===//
// One prompt, whose keys are cut at multiples of a length
//===----------------------------------------------------------------------===//

namespace {
class Cut {
public:
  Cut(const PromptParams &params, const Prompt &prompt, int64_t keysPerRun)
      : params(params), prompt(prompt), keys(keysPerRun), first(firstSeen(0) / keys),
        count(ceilDiv(prompt.seqLen(), keys) - first) {}

  int64_t size() const { return count; }
  int64_t firstKey(int64_t run) const { return (first + run) * keys; }
  int64_t endKey(int64_t run) const { return std::min(firstKey(run + 1), prompt.seqLen()); }
  /// Of the tokens that see any of the run's keys.
  int64_t firstToken(int64_t run) const {
    return std::max<int64_t>(0, firstKey(run) - prompt.contextLen);
  }
  int64_t endToken(int64_t run) const {
    if (params.window == 0)
      return prompt.queryLen;
    return std::min<int64_t>(prompt.queryLen, endKey(run) - 1 + params.window - prompt.contextLen);
  }
  /// Keys of a run that the part of the tokens from `token` on goes over.
  int64_t keysOf(int64_t run, int64_t token) const {
    int64_t end = std::min(token + params.tokensPerItem, endToken(run));
    return std::min(endKey(run), prompt.contextLen + end) -
           std::max(firstKey(run), firstSeen(token));
  }

private:
  int64_t firstSeen(int64_t token) const {
    return params.window == 0 ? 0
                              : std::max<int64_t>(0, prompt.contextLen + token + 1 - params.window);
  }

  const PromptParams &params;
  const Prompt &prompt;
  int64_t keys, first, count;
};

/// The costs, in blocks, of prompts that are left whole and of what a length of runs makes of
/// others.
class Scales {
public:
  Scales(const PromptParams &params, int64_t numSms, std::vector<double> &costs)
      : params(params), numSms(numSms), most(boundPromptCuts(params, numSms)), costs(costs) {}

  /// False, and of no use, where more is cut than buffers hold.
  bool weigh(std::span<const Prompt> whole, std::span<const Prompt> cut, int64_t keysPerRun);
  /// What each multiprocessor does if all do as much: of all, and of what may be cut.
  double getShare() const { return total / static_cast<double>(numSms); }
  double getCutShare() const { return (total - ofWhole) / static_cast<double>(numSms); }
  double getTime();
  double getLongest() const { return costs.empty() ? 0 : *std::ranges::max_element(costs); }
  /// Of what may be cut.
  double getLongestCut() const {
    return *std::ranges::max_element(std::span(costs).subspan(wholes));
  }
  int64_t countItems() const { return static_cast<int64_t>(costs.size()) * params.itemsPerToken; }

private:
  bool add(const Prompt &prompt, int64_t keysPerRun);

  const PromptParams &params;
  int64_t numSms, parts = 0, partialTokens = 0; // of what is cut
  PromptCuts most;
  double total = 0, ofWhole = 0;
  size_t wholes = 0;          // costs of what is left whole, in front
  std::vector<double> &costs; // of parts: an item for every run of heads
};
} // namespace

bool Scales::add(const Prompt &prompt, int64_t keysPerRun) {
  Cut cut(params, prompt, keysPerRun);
  bool isCut = cut.size() > 1;
  partialTokens += isCut ? cut.size() * prompt.queryLen : 0;
  for (int64_t run = 0; run < cut.size(); ++run)
    for (int64_t token = cut.firstToken(run); token < cut.endToken(run);
         token += params.tokensPerItem) {
      parts += isCut ? 1 : 0;
      if (parts > most.parts || partialTokens > most.partialTokens)
        return false;
      int64_t keys = std::max<int64_t>(cut.keysOf(run, token), 1);
      costs.push_back(params.itemCost + static_cast<double>(ceilDiv(keys, params.keysPerBlock)));
      total += costs.back() * static_cast<double>(params.itemsPerToken);
    }
  return true;
}

bool Scales::weigh(std::span<const Prompt> whole, std::span<const Prompt> cut, int64_t keysPerRun) {
  costs.clear();
  parts = 0, partialTokens = 0, total = 0;
  for (const Prompt &prompt : whole)
    (void)add(prompt, kUncut);
  wholes = costs.size(), ofWhole = total;
  return std::ranges::all_of(cut, [&](const Prompt &prompt) { return add(prompt, keysPerRun); });
}

/// Who becomes free takes the longest item that is left. Of a last wave that is not full, as many
/// multiprocessors as it lacks wait for about its first item.
double Scales::getTime() {
  double time = getShare();
  if (int64_t items = countItems(), rest = items % numSms; rest != 0) {
    auto first = costs.begin() + (items - rest) / params.itemsPerToken;
    std::nth_element(costs.begin(), first, costs.end(), std::greater<>());
    time += *first * (1 - static_cast<double>(rest) / static_cast<double>(numSms));
  }
  if (partialTokens > 0)
    time += params.mergeCost + params.partialCost * static_cast<double>(partialTokens);
  return std::max(time, getLongest());
}

namespace {
/// Runs of so many keys, and the time of all.
struct Runs {
  int64_t keys;
  double time;
};
} // namespace

/// The length of runs of `cut` that takes the least time, or kUncut.
static Runs chooseLength(const PromptParams &params, Scales &scales, std::span<const Prompt> whole,
                         std::span<const Prompt> cut) {
  (void)scales.weigh(whole, cut, kUncut);
  double share = scales.getShare(), ofCut = scales.getCutShare();
  auto longest = static_cast<int64_t>(scales.getLongestCut() - params.itemCost); // blocks
  Runs best{kUncut, scales.getTime()};
  int64_t before = longest;
  // Shorter runs than half a share balance no more than they cost; with many runs one more or less
  // is the same.
  constexpr int64_t kMany = 8;
  for (int64_t runs = 2; static_cast<double>(before) > ofCut / 2 && before > 1;
       runs += std::max<int64_t>(runs / kMany, 1)) {
    if (best.time <= share + params.mergeCost)
      break;
    int64_t blocks = ceilDiv(longest, runs);
    if (blocks == before)
      continue;
    before = blocks;
    if (!scales.weigh(whole, cut, blocks * params.keysPerBlock)) // nor shorter ones
      break;
    if (double time = scales.getTime(); time < best.time)
      best = {blocks * params.keysPerBlock, time};
  }
  return best;
}

//===----------------------------------------------------------------------===//
// All prompts
//===----------------------------------------------------------------------===//

static int32_t to32(int64_t value) { return static_cast<int32_t>(value); }

PromptCuts mlac::runtime::boundPromptCuts(const PromptParams &params, int64_t numSms) {
  PromptCuts most;
  most.parts = ceilDiv(kMostWaves * numSms, params.itemsPerToken);
  most.tokensPerPart = params.tokensPerItem;
  most.partialTokens = most.parts * params.tokensPerItem;
  most.merges = 2 * most.parts; // what a token is merged of changes where a run begins or ends
  return most;
}

int64_t mlac::runtime::boundPromptParts(const PromptCuts &most, int64_t requests, int64_t tokens) {
  int64_t whole = most.tokensPerPart > 0 ? tokens / most.tokensPerPart + requests : 0;
  return whole + most.parts;
}

void PromptParts::reserve(const PromptCuts &most, int64_t maxRequests, int64_t maxTokens) {
  for (std::vector<Prompt> *prompts : {&byLength, &whole, &cut})
    prompts->reserve(static_cast<size_t>(maxRequests));
  parts_.reserve(static_cast<size_t>(boundPromptParts(most, maxRequests, maxTokens)));
  merges_.reserve(static_cast<size_t>(most.merges));
  costs.reserve(parts_.capacity() + static_cast<size_t>(most.parts));
}

void PromptParts::clear() {
  whole.clear();
  cut.clear();
  parts_.clear();
  merges_.clear();
  partialTokens_ = 0;
}

/// Of a run those of the most keys first.
void PromptParts::emit(const PromptParams &params, const Prompt &prompt, int64_t keysPerRun) {
  Cut cut(params, prompt, keysPerRun);
  for (int64_t run = cut.size(); run-- > 0;) {
    int64_t first = cut.firstToken(run), tokens = cut.endToken(run) - first;
    int64_t partial = partialTokens_ + run * prompt.queryLen;
    for (int64_t part = ceilDiv(tokens, params.tokensPerItem); part-- > 0;) {
      int64_t token = first + part * params.tokensPerItem;
      parts_.push_back({prompt.request, to32(prompt.firstToken + token),
                        to32(std::min(params.tokensPerItem, first + tokens - token)),
                        to32(prompt.contextLen + token), to32(cut.firstKey(run)),
                        to32(cut.endKey(run)), prompt.firstCopy,
                        cut.size() > 1 ? to32(partial + token) : -1});
    }
  }
  if (cut.size() > 1)
    emitMerges(params, prompt, keysPerRun);
}

/// Of tokens that see the same runs.
void PromptParts::emitMerges(const PromptParams &params, const Prompt &prompt, int64_t keysPerRun) {
  Cut cut(params, prompt, keysPerRun);
  for (int64_t token = 0, first = 0, last = 0, end; token < prompt.queryLen; token = end) {
    while (cut.endToken(first) <= token)
      ++first;
    while (last + 1 < cut.size() && cut.firstToken(last + 1) <= token)
      ++last;
    end = cut.endToken(first);
    if (last + 1 < cut.size())
      end = std::min(end, cut.firstToken(last + 1));
    merges_.push_back({to32(prompt.firstToken + token), to32(end - token),
                       to32(partialTokens_ + first * prompt.queryLen + token),
                       to32(last + 1 - first), /*form=*/0, /*stride=*/prompt.queryLen});
  }
  partialTokens_ += cut.size() * prompt.queryLen;
}

/// Leaves so many parts whole, of the shortest prompts.
void PromptParts::divide(const PromptParams &params, int64_t wholeParts) {
  whole.clear();
  cut.clear();
  for (const Prompt &prompt : byLength) {
    int64_t tokens = std::min<int64_t>(prompt.queryLen, wholeParts * params.tokensPerItem);
    wholeParts -= ceilDiv(tokens, params.tokensPerItem);
    Prompt first = prompt, second = prompt;
    first.queryLen = to32(tokens);
    second.firstToken += first.queryLen;
    second.contextLen += first.queryLen;
    second.queryLen -= first.queryLen;
    if (first.queryLen > 0)
      whole.push_back(first);
    if (second.queryLen > 0)
      cut.push_back(second);
  }
}

/// Divides prompts into `whole` and `cut`, and returns the length of the latter's runs.
int64_t PromptParts::chooseCuts(const PromptParams &params, std::span<const Prompt> prompts,
                                int64_t numSms) {
  byLength.assign(prompts.begin(), prompts.end());
  std::ranges::sort(byLength, {}, [](const Prompt &prompt) {
    return std::pair(prompt.seqLen(), prompt.request);
  });
  Scales scales(params, numSms, costs);
  divide(params, 0);
  Runs best = chooseLength(params, scales, whole, cut);
  (void)scales.weigh(whole, cut, kUncut);
  int64_t waves = scales.countItems() / numSms, bestParts = 0;
  // What is left to balance takes longer to plan than it saves.
  constexpr double kBalanced = 1.05;
  if (best.time <= kBalanced * scales.getShare() + params.mergeCost)
    return best.keys;
  // Behind many waves there is little, too.
  for (int64_t left = std::max<int64_t>(waves - 1, 1); left <= waves && waves <= kMostWholeWaves;
       ++left) {
    int64_t parts = left * numSms / params.itemsPerToken;
    divide(params, parts);
    if (parts == 0 || cut.empty())
      continue;
    if (Runs runs = chooseLength(params, scales, whole, cut); runs.time < best.time)
      best = runs, bestParts = parts;
  }
  divide(params, bestParts);
  return best.keys;
}

void PromptParts::plan(const PromptParams &params, std::span<const Prompt> prompts,
                       int64_t numSms) {
  clear();
  int64_t length = chooseCuts(params, prompts, numSms);
  // The longest first.
  for (const Prompt &prompt : std::views::reverse(cut))
    emit(params, prompt, length);
  for (const Prompt &prompt : std::views::reverse(whole))
    emit(params, prompt, kUncut);
  // More than these balance the machine in any order, and sorting them takes longer than a step's
  // other plans.
  constexpr size_t kMostSorted = 1024;
  if (parts_.size() > kMostSorted)
    return;
  std::ranges::sort(parts_, [](const PromptPart &a, const PromptPart &b) {
    return std::tuple(-a.keys(), a.firstToken, a.firstKey) <
           std::tuple(-b.keys(), b.firstToken, b.firstKey);
  });
}
