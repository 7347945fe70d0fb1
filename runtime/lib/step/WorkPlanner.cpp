//===- WorkPlanner.cpp - pieces of a step's attention -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/WorkPlanner.h"

#include "base/DataType.h"
#include "base/Divider.h"

#include <algorithm>

using namespace mlac::runtime;

static constexpr auto toUnits = PieceCost::toUnits;

void WorkPlanner::reserve(const WorkSizes &sizes, int64_t maxRequests) {
  auto count = static_cast<size_t>(sizes.items);
  blocks.reserve(maxRequests);
  ordered.reserve(maxRequests);
  longestFirst.reserve(count, sizes.parts);
  pieces.reserve(count);
  partials.reserve(count);
  starts_.reserve(sizes.parts + 1);
  items_.reserve(count);
  merges_.reserve(sizes.merges);
  mergeStarts_.reserve(sizes.mergePrograms);
}

//===----------------------------------------------------------------------===//
// Cutting
//===----------------------------------------------------------------------===//

void WorkPlanner::countBlocks() {
  Divider byBlock(params.keysPerBlock);
  blocks.resize(requests.size());
  numWithQuery = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const WorkRequest &request = requests[i];
    int64_t keys = request.seqLen;
    if (params.window > 0)
      keys = std::min(keys, request.queryLen + params.window - 1);
    int64_t count = std::max<int64_t>(byBlock.up(keys) - skipped, 1);
    bool hasQuery = request.queryLen > 0;
    blocks[i] = hasQuery ? static_cast<int32_t>(count) : 0;
    numWithQuery += hasQuery;
  }
}

/// Returns the largest load.
int64_t WorkPlanner::assign() {
  return longestFirst.assign(pieces, cost, static_cast<size_t>(sizes_.parts));
}

int64_t WorkPlanner::assignWhole() {
  pieces.clear();
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i] > 0)
      pieces.push_back({static_cast<int32_t>(i), 0, blocks[i], 0});
  return assign();
}

/// Whether whole requests surely cost so much, that is, whether every way to give them to
/// parts leaves one with such a load.
bool WorkPlanner::costsAtLeast(int64_t least) const {
  if (numWithQuery == 0)
    return false;
  int64_t longest = cost.of(ordered.longest()), shortest = cost.of(ordered.shortest());
  if (longest >= least)
    return true;
  // Parts have n requests at most and then `full` or more have n, at the cost of all but of
  // the rest, which are no longer than the longest; or some part has more than n.
  int64_t most = ceilDiv(numWithQuery, sizes_.parts);
  int64_t full = numWithQuery - (most - 1) * sizes_.parts;
  int64_t ofFull = most * longest - (numWithQuery * longest - ordered.total()) / full;
  if (std::min(ofFull, (most + 1) * shortest) >= least)
    return true;
  // Of more than n - 1 for each part, some part has n.
  return ordered.countAtLeast(ceilDiv(least, most)) > (most - 1) * sizes_.parts;
}

/// The merge and the partials, which hold so many tokens.
int64_t WorkPlanner::costOfPartials(int64_t tokens) const {
  return toUnits(params.mergeCost + params.partialCost * static_cast<double>(tokens));
}

/// A load not below `cap` whose pieces of the longest request are equal, one to a part: requests
/// of one length then have no piece that shares a part.
int64_t WorkPlanner::alignCap(int64_t cap) const {
  int64_t longest = ordered.longest();
  return cost.of(ceilDiv(longest, std::max<int64_t>(longest / cost.blocksWithin(cap), 1)));
}

/// The cheapest cut in order, of those that fit: larger loads have fewer partials. No cap
/// where nothing is cheaper than leaving requests whole, whose cost is computed where it is
/// needed.
WorkPlanner::Choice WorkPlanner::chooseCap(int64_t smallest, std::optional<int64_t> whole) {
  if (params.partialCost == 0)
    return {smallest, smallest};
  Choice best = {std::nullopt, whole.value_or(std::numeric_limits<int64_t>::max())};
  auto canBeBetter = [&](int64_t cap) { return cap + toUnits(params.mergeCost) < best.cost; };
  auto look = [&](int64_t cap) {
    std::optional<int64_t> tokens = ordered.countPartialTokens(cap, requests);
    if (int64_t price = tokens ? cap + costOfPartials(*tokens) : best.cost; price < best.cost)
      best = {cap, price};
  };
  look(smallest);
  if (!whole && !costsAtLeast(best.cost + 1))
    if (int64_t price = assignWhole(); price <= best.cost)
      best = {std::nullopt, price};
  // Steps of a quarter: the optimum is flat, and a look costs as much as a plan.
  for (int64_t cap = smallest + ceilDiv(smallest, 4); canBeBetter(cap); cap += ceilDiv(cap, 4))
    look(cap);
  if (int64_t cap = alignCap(smallest); canBeBetter(cap))
    look(cap);
  return best;
}

/// Cuts the requests of more than `room` blocks into equal pieces and gives parts the longest
/// ones first: short requests stay whole, where a cut in order cuts one at every border. False,
/// and of no use, where that costs as much as `most`, or has more partials than a cut in
/// order may.
bool WorkPlanner::cutEvenly(int64_t room, int64_t most) {
  int64_t tokens = 0, cuts = 0, total = 0, bound = maxCutPieces(sizes_.parts, blocks.size());
  pieces.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t count = blocks[i] > room ? ceilDiv(blocks[i], room) : 1;
    int64_t each = count > 1 ? ceilDiv(blocks[i], count) : blocks[i];
    if (count > 1 && (cuts += count) > bound)
      return false;
    for (int64_t first = 0; first < blocks[i]; first += each) {
      int64_t blocksOfPiece = std::min(each, blocks[i] - first);
      tokens += blocksOfPiece < blocks[i] ? requests[i].queryLen : 0;
      total += cost.of(blocksOfPiece);
      pieces.push_back({static_cast<int32_t>(i), static_cast<int32_t>(first),
                        static_cast<int32_t>(blocksOfPiece), 0});
    }
  }
  int64_t rest = costOfPartials(tokens);
  return ceilDiv(total, sizes_.parts) + rest < most && assign() + rest < most;
}

void WorkPlanner::cutByCost() {
  ordered.begin(blocks, cost, sizes_.parts);
  int64_t low = std::max(ceilDiv(ordered.total(), sizes_.parts), cost.least());
  int64_t high = ordered.enough();
  // A cut costs a merge more than its load.
  int64_t merge = toUnits(params.mergeCost);
  std::optional<int64_t> whole;
  if (!costsAtLeast(high + merge + 1)) {
    whole = assignWhole();
    high = std::min(high, *whole - merge - 1);
  }
  std::optional<int64_t> smallest = ordered.findSmallestCap(low, high);
  if (!smallest) // whole: what is enough fits
    return emitPieces();
  Choice best = chooseCap(*smallest, whole);
  int64_t room = cost.blocksWithin(*smallest);
  bool hasLong = params.partialCost > 0 && ordered.longest() > room; // else they would be whole
  if (hasLong && cutEvenly(room, best.cost))
    return emitPieces();
  if (best.cap)
    return emitCut(*best.cap);
  if (hasLong) // has taken their place
    assignWhole();
  emitPieces();
}

/// Whether whole requests are done earlier in more parts than run side by side, whose programs take
/// turns: tiles of long queries leave a large part of the multiprocessors without one (75 tiles on
/// 132), which no cut of the keys ends. Then they are given to these parts.
bool WorkPlanner::takeTurns(int64_t tiles) {
  int64_t sideBySide = sizes_.parts, total = 0, longest = 0;
  int64_t parts = std::min(numWithQuery, countParts(params, /*maxQueryLen=*/1, numSms));
  if (parts <= sideBySide)
    return false;
  for (int32_t of : blocks) {
    total += of > 0 ? cost.of(of) : 0;
    longest = std::max(longest, of > 0 ? cost.of(of) : 0);
  }
  // The least that any cut takes; of turns the most: the last begins when all others are busy.
  int64_t least = ceilDiv(tiles * sideBySide, numSms) * ceilDiv(total, sideBySide);
  int64_t turns = ceilDiv(total * tiles, numSms);
  if (turns + longest >= least)
    return false;
  sizes_.parts = parts;
  if (turns + assignWhole() < least)
    return true;
  sizes_.parts = sideBySide;
  return false;
}

void WorkPlanner::cutFixed() {
  pieces.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t most = maxFixedPieces(params, requests[i].queryLen, numSms);
    int64_t units = ceilDiv(blocks[i], params.fixedBlocks);
    int64_t step = ceilDiv(std::max<int64_t>(units, 1), most) * params.fixedBlocks;
    for (int64_t first = 0; first < blocks[i]; first += step)
      pieces.push_back({static_cast<int32_t>(i), static_cast<int32_t>(first),
                        static_cast<int32_t>(std::min(step, blocks[i] - first)), 0});
  }
  assign();
  emitPieces();
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

WorkItem WorkPlanner::makeItem(size_t request, int64_t firstBlock, int64_t numBlocks,
                               int64_t partial) const {
  const WorkRequest &of = requests[request];
  return {static_cast<int32_t>(request),
          static_cast<int32_t>(skipped + firstBlock),
          static_cast<int32_t>(numBlocks),
          of.seqLen,
          of.firstToken,
          of.queryLen,
          static_cast<int32_t>(partial),
          0};
}

/// Parts and partials come in the order of requests.
void WorkPlanner::emitCut(int64_t cap) {
  starts_.clear();
  // Each border makes one more.
  items_.resize(std::max(items_.size(), static_cast<size_t>(numWithQuery + sizes_.parts - 1)));
  WorkItem *item = items_.data();
  auto beginPart = [&](int64_t part) {
    if (static_cast<size_t>(part) == starts_.size())
      starts_.push_back(static_cast<int32_t>(item - items_.data()));
  };
  auto addWhole = [&](size_t first, size_t end, int64_t part) {
    beginPart(part);
    for (size_t request = first; request < end; ++request)
      if (blocks[request] > 0)
        *item++ = makeItem(request, 0, blocks[request], /*partial=*/-1);
  };
  auto addPiece = [&](size_t request, int64_t first, int64_t count, int64_t part) {
    beginPart(part);
    const WorkRequest &of = requests[request];
    if (first == 0)
      merges_.push_back({of.firstToken, of.queryLen, static_cast<int32_t>(sizes_.partialTokens),
                         /*numPartials=*/0, /*form=*/0, /*stride=*/of.queryLen});
    *item++ = makeItem(request, first, count, sizes_.partialTokens);
    ++merges_.back().numPartials;
    ++sizes_.partials;
    sizes_.partialTokens += of.queryLen;
  };
  ordered.cut(cap, addWhole, addPiece);
  sizes_.parts = static_cast<int64_t>(starts_.size());
  sizes_.items = item - items_.data();
  starts_.push_back(static_cast<int32_t>(sizes_.items));
}

void WorkPlanner::emitPieces() {
  emitMerges();
  emitItems();
}

/// Numbers the partials of the requests in several pieces.
void WorkPlanner::emitMerges() {
  partials.assign(pieces.size(), -1);
  if (static_cast<int64_t>(pieces.size()) == numWithQuery)
    return;
  for (size_t first = 0, end; first < pieces.size(); first = end) {
    int32_t request = pieces[first].request;
    for (end = first + 1; end < pieces.size() && pieces[end].request == request;)
      ++end;
    auto count = static_cast<int64_t>(end - first);
    if (count == 1)
      continue;
    const WorkRequest &of = requests[request];
    merges_.push_back({of.firstToken, of.queryLen, static_cast<int32_t>(sizes_.partialTokens),
                       static_cast<int32_t>(count), /*form=*/0, /*stride=*/of.queryLen});
    for (size_t i = first; i < end; ++i, sizes_.partialTokens += of.queryLen)
      partials[i] = static_cast<int32_t>(sizes_.partialTokens);
    sizes_.partials += count;
  }
}

/// Sorts the pieces by part, in request order inside a part.
void WorkPlanner::emitItems() {
  starts_.assign(sizes_.parts + 1, 0);
  for (const WorkPiece &piece : pieces)
    ++starts_[piece.part + 1];
  for (int64_t part = 0; part < sizes_.parts; ++part)
    starts_[part + 1] += starts_[part];
  sizes_.items = static_cast<int64_t>(pieces.size());
  items_.resize(std::max(items_.size(), pieces.size()));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const WorkPiece &piece = pieces[i];
    items_[starts_[piece.part]++] =
        makeItem(piece.request, piece.firstBlock, piece.numBlocks, partials[i]);
  }
  // Each start has moved to the next part's.
  std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_[0] = 0;
  // Parts behind the last piece are not launched: empty programs take time, too.
  while (sizes_.parts > 1 && starts_[sizes_.parts - 1] == starts_[sizes_.parts]) {
    starts_.pop_back();
    --sizes_.parts;
  }
}

void WorkPlanner::plan(const WorkParams &given, std::span<const WorkRequest> batch, int64_t sms,
                       int64_t skippedBlocks, const OtherMerges &others) {
  params = given;
  requests = batch;
  numSms = sms;
  skipped = skippedBlocks;
  cost = PieceCost(params.itemCost);
  int32_t maxQueryLen = 0;
  for (const WorkRequest &request : requests)
    maxQueryLen = std::max(maxQueryLen, request.queryLen);
  sizes_ = {};
  sizes_.parts = countParts(params, maxQueryLen, numSms);
  merges_.assign(others.merges.begin(), others.merges.end());
  sizes_.partialTokens = others.partialTokens;
  countBlocks();
  if (params.fixedBlocks > 0)
    cutFixed();
  else if (takeTurns(countTiles(params, std::max(maxQueryLen, 1))))
    emitPieces();
  else
    cutByCost();
  sizes_.merges = static_cast<int64_t>(merges_.size());
  emitMergeStarts();
}
