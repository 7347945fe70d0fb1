//===- PlainWorkTest.cpp - partitions against a plain planner ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// WorkPlanner leaves out whatever a bound shows to be of no use, and sums up before it looks.
// This one tries everything, block by block, and must come to the same parts.
//
//===----------------------------------------------------------------------===//

#include "step/WorkPlanner.h"

#include "base/DataType.h"
#include "base/Divider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <queue>
#include <random>
#include <tuple>

using namespace mlac::runtime;

namespace {

struct PlainPlan {
  std::vector<WorkPiece> pieces; // in request order
  int64_t load = 0;              // the largest
};

class PlainPlanner {
public:
  PlainPlanner(const WorkParams &params, const std::vector<WorkRequest> &requests, int64_t sms)
      : params(params), requests(requests), cost(params.itemCost) {
    int64_t longestQuery = 0;
    for (const WorkRequest &request : requests) {
      longestQuery = std::max<int64_t>(longestQuery, request.queryLen);
      int64_t keys = request.seqLen;
      if (params.window > 0)
        keys = std::min(keys, request.queryLen + params.window - 1);
      int64_t count = (keys + params.keysPerBlock - 1) / params.keysPerBlock;
      blocks.push_back(request.queryLen > 0 ? std::max<int64_t>(count, 1) : 0);
      total += blocks.back() > 0 ? cost.of(blocks.back()) : 0;
    }
    parts = countParts(params, longestQuery, sms);
    takesTurns = takeTurns(countTiles(params, std::max<int64_t>(longestQuery, 1)), sms);
  }

  int64_t parts;

  /// The cheapest of whole, in order and evenly.
  PlainPlan plan() const {
    PlainPlan whole = assign(cutAt(std::numeric_limits<int64_t>::max()));
    if (takesTurns)
      return whole;
    int64_t smallest = findSmallest(whole.load);
    if (smallest < 0)
      return whole;
    PlainPlan best = params.partialCost > 0 ? whole : *cutInOrder(smallest);
    if (params.partialCost == 0)
      return best;
    int64_t bestCost = whole.load, longest = *std::ranges::max_element(blocks);
    auto look = [&](int64_t cap) {
      std::optional<PlainPlan> cut;
      if (cap + costOfTokens(0) < bestCost)
        cut = cutInOrder(cap);
      if (cut && cap + costOfTokens(tokensOf(*cut)) < bestCost) {
        bestCost = cap + costOfTokens(tokensOf(*cut));
        best = *cut;
      }
    };
    for (int64_t cap = smallest; cap + costOfTokens(0) < bestCost; cap += ceilDiv(cap, 4))
      look(cap);
    int64_t room = (smallest - cost.item()) / PieceCost::kUnit;
    look(cost.of(ceilDiv(longest, std::max<int64_t>(longest / room, 1))));
    PlainPlan even = assign(cutAt(room));
    bool isAllowed = countCut(even) <= maxCutPieces(parts, int64_t(blocks.size()));
    return isAllowed && even.load + costOfTokens(tokensOf(even)) < bestCost ? even : best;
  }

private:
  /// More parts, one after the other on each multiprocessor, if that is surely faster than the
  /// least that cuts in parts side by side take.
  bool takeTurns(int64_t tiles, int64_t sms) {
    auto isBusy = [](int64_t count) { return count > 0; };
    int64_t more =
        std::min<int64_t>(std::ranges::count_if(blocks, isBusy), countParts(params, 1, sms));
    int64_t before = parts, waves = ceilDiv(tiles * parts, sms);
    if (more <= before)
      return false;
    parts = more;
    int64_t load = assign(cutAt(std::numeric_limits<int64_t>::max())).load;
    if (ceilDiv(total * tiles, sms) + load < waves * ceilDiv(total, before))
      return true;
    parts = before;
    return false;
  }

  int64_t costOfTokens(int64_t tokens) const {
    return PieceCost::toUnits(params.mergeCost + params.partialCost * double(tokens));
  }
  bool isCut(const WorkPiece &piece) const { return piece.numBlocks < blocks[piece.request]; }
  int64_t tokensOf(const PlainPlan &plan) const {
    int64_t tokens = 0;
    for (const WorkPiece &piece : plan.pieces)
      tokens += isCut(piece) ? requests[piece.request].queryLen : 0;
    return tokens;
  }
  int64_t countCut(const PlainPlan &plan) const {
    return std::ranges::count_if(plan.pieces, [&](auto &piece) { return isCut(piece); });
  }

  /// Equal pieces of the requests with more than `room` blocks.
  std::vector<WorkPiece> cutAt(int64_t room) const {
    std::vector<WorkPiece> pieces;
    for (size_t i = 0; i < blocks.size(); ++i) {
      int64_t count = blocks[i] > room ? ceilDiv(blocks[i], room) : 1;
      int64_t each = ceilDiv(blocks[i], count);
      for (int64_t first = 0; first < blocks[i]; first += each)
        pieces.push_back(
            {int32_t(i), int32_t(first), int32_t(std::min(each, blocks[i] - first)), 0});
    }
    return pieces;
  }

  /// The longest first, each to the part with the least load.
  PlainPlan assign(std::vector<WorkPiece> pieces) const {
    std::vector<size_t> order(pieces.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(-pieces[i].numBlocks, i); });
    using Load = std::pair<int64_t, int32_t>;
    std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
    for (int64_t part = 0; part < parts; ++part)
      loads.push({0, int32_t(part)});
    PlainPlan plan;
    for (size_t i : order) {
      auto [load, part] = loads.top();
      loads.pop();
      load += cost.of(pieces[i].numBlocks);
      plan.load = std::max(plan.load, load);
      pieces[i].part = part;
      loads.push({load, part});
    }
    plan.pieces = std::move(pieces);
    return plan;
  }

  /// Parts take blocks one by one until they are full.
  std::optional<PlainPlan> cutInOrder(int64_t cap) const {
    PlainPlan plan;
    int64_t part = 0, load = 0;
    for (size_t i = 0; i < blocks.size(); ++i)
      for (int64_t block = 0; block < blocks[i]; ++block) {
        bool isNew = block == 0;
        if (load + (isNew ? cost.least() : PieceCost::kUnit) > cap) {
          if (++part == parts)
            return std::nullopt;
          load = 0;
          isNew = true;
        }
        if (isNew)
          plan.pieces.push_back({int32_t(i), int32_t(block), 0, int32_t(part)});
        ++plan.pieces.back().numBlocks;
        load += isNew ? cost.least() : PieceCost::kUnit;
      }
    plan.load = cap;
    return plan;
  }

  /// By bisection; -1 if a cut is not cheaper than whole requests.
  int64_t findSmallest(int64_t whole) const {
    int64_t mean = ceilDiv(total, parts), low = std::max(mean, cost.least());
    int64_t high = std::min(whole - costOfTokens(0) - 1, mean + 2 * cost.item() + PieceCost::kUnit);
    if (high < low || !cutInOrder(high))
      return -1;
    while (high - low > PieceCost::kUnit / 4) {
      int64_t middle = low + (high - low) / 2;
      if (cutInOrder(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return high;
  }

  WorkParams params;
  const std::vector<WorkRequest> &requests;
  PieceCost cost;
  std::vector<int64_t> blocks;
  int64_t total = 0;
  bool takesTurns = false;
};

std::vector<WorkRequest> drawRequests(std::mt19937 &random) {
  auto below = [&](int64_t limit) { return static_cast<int32_t>(random() % limit); };
  int32_t longest = 1 << below(17), kind = below(4), longestQuery = below(3) ? 1 : 4, token = 0;
  std::vector<WorkRequest> requests(1 + below(below(2) ? 30 : 400));
  for (WorkRequest &request : requests) {
    int32_t length = kind == 0   ? longest
                     : kind == 1 ? longest - below(std::min(longest, 100))
                     : kind == 2 ? below(longest + 1)
                     : below(10) ? below(1 + longest / 64)
                                 : longest;
    int32_t query = below(20) == 0 ? 0 : 1 + below(longestQuery);
    request = {length, token, query};
    token += query;
  }
  return requests;
}

} // namespace

TEST(PlainWork, C14_QuickPlansAreThePlainOnes) {
  std::mt19937 random(5);
  auto below = [&](int64_t limit) { return static_cast<int32_t>(random() % limit); };
  int64_t numCut = 0, numWhole = 0;
  WorkPlanner planner;
  for (int round = 0; round < 3000; ++round) {
    constexpr int64_t kBlocks[] = {16, 64, 100};
    WorkParams params = {kBlocks[below(3)],
                         1 + below(128),
                         below(2) ? 64 : 16,
                         below(64) / 8.0,
                         below(32) / 8.0,
                         0,
                         below(3) ? below(64) / 256.0 : 0};
    params.window = below(10) ? 0 : 1 + below(4000);
    int64_t sms = below(2) ? 132 : 1 + below(150);
    std::vector<WorkRequest> requests = drawRequests(random);
    planner.plan(params, requests, sms);
    PlainPlanner plain(params, requests, sms);
    std::vector<WorkPiece> pieces = plain.plan().pieces;
    std::ranges::sort(pieces, {}, [](const WorkPiece &piece) {
      return std::tuple(piece.part, piece.request, piece.firstBlock);
    });
    ASSERT_EQ(planner.items().size(), pieces.size()) << round;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const WorkItem &item = planner.items()[i];
      ASSERT_EQ(item.request, pieces[i].request) << round << ", piece " << i;
      ASSERT_EQ(item.firstBlock, pieces[i].firstBlock) << round << ", piece " << i;
      ASSERT_EQ(item.numBlocks, pieces[i].numBlocks) << round << ", piece " << i;
      ASSERT_LE(planner.starts()[pieces[i].part], int64_t(i)) << round;
      ASSERT_GT(planner.starts()[pieces[i].part + 1], int64_t(i)) << round;
    }
    ++(planner.sizes().merges > 0 ? numCut : numWhole);
  }
  EXPECT_GT(numCut, 500);
  EXPECT_GT(numWhole, 500);
}

TEST(PlainWork, DividersDivide) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 100000; ++round) {
    int64_t divisor = 1 + int64_t(random() >> (1 + random() % 63));
    int64_t value = int64_t(random() >> (1 + random() % 63));
    value = random() % 4 ? value : divisor * int64_t(random() % 5) - int64_t(random() % 2);
    if (value < 0 || divisor <= 0 || value > INT64_MAX - divisor)
      continue;
    Divider by(divisor);
    ASSERT_EQ(by(value), value / divisor) << value << " / " << divisor;
    ASSERT_EQ(by.up(value), (value + divisor - 1) / divisor) << value << " / " << divisor;
  }
  for (int64_t divisor : {1l, 2l, 3l, (1l << 32) - 1, 1l << 32})
    for (int64_t value : {0l, 1l, (1l << 32) - 1, 1l << 32, (1l << 32) + 1})
      ASSERT_EQ(Divider(divisor)(value), value / divisor);
}
