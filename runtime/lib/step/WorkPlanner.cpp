//===- WorkPlanner.cpp - pieces of a step's attention -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/WorkPlanner.h"

#include "base/DataType.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace mlac::runtime;

/// Costs are integers, in this part of a block: rounding is the same everywhere.
static constexpr int64_t kUnit = 16;

/// With fixed blocks a request is in at most this many pieces, which bounds the
/// partials; longer ones are cut at a multiple of the fixed blocks.
static constexpr int64_t kMaxFixedPieces = 32;

static int64_t toUnits(double blocks) { return std::llround(blocks * kUnit); }

int64_t mlac::runtime::countParts(const WorkParams &params, int64_t maxQueryLen, int64_t numSms) {
  return std::max<int64_t>(numSms / countTiles(params, std::max<int64_t>(maxQueryLen, 1)), 1);
}

/// Most pieces of a request with fixed blocks. The machine holds as many pieces
/// side by side as a batch of queries of this length has parts.
static int64_t maxFixedPieces(const WorkParams &params, int64_t queryLen, int64_t numSms) {
  return std::min(countParts(params, queryLen, numSms), kMaxFixedPieces);
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

/// Each of the borders between parts cuts at most one request, and each cut
/// makes one piece more, of a request that may have been whole.
static int64_t maxCutPieces(int64_t parts, int64_t requests) {
  return std::min(2 * (parts - 1), requests + parts - 1);
}

/// Programs that merge at most.
static int64_t countMergePrograms(const WorkParams &params, int64_t numSms) {
  return params.mergePrograms * numSms;
}

namespace {
/// The least concave function that is not below some points (query_len, tokens of partials)
/// and never falls: what requests of different lengths have together is at most what as many
/// of their mean length would have.
class Envelope {
public:
  explicit Envelope(EnvelopePoints &points) : points(points) { points.assign(1, {0, 0}); }
  void add(int64_t x, int64_t y) {
    if (y <= points.back().second) // the largest of shorter ones counts
      return;
    while (points.size() > 1 && isBelow(points[points.size() - 2], points.back(), {x, y}))
      points.pop_back();
    points.emplace_back(x, y);
  }
  /// `count` times the value at `total` / `count`, rounded up.
  int64_t sum(int64_t count, int64_t total) const {
    for (size_t i = 1; i < points.size(); ++i) {
      auto [x0, y0] = points[i - 1];
      auto [x1, y1] = points[i];
      if (total <= count * x1)
        return count * y0 + ceilDiv((total - count * x0) * (y1 - y0), x1 - x0);
    }
    return count * points.back().second;
  }

private:
  using Point = EnvelopePoints::value_type;
  static bool isBelow(Point a, Point middle, Point b) {
    return (middle.second - a.second) * (b.first - a.first) <=
           (b.second - a.second) * (middle.first - a.first);
  }
  EnvelopePoints &points; // ascending, slopes falling
};
} // namespace

WorkSizes mlac::runtime::boundWork(const WorkParams &params, const WorkLimits &limits) {
  EnvelopePoints points;
  return boundWork(params, limits, points);
}

WorkSizes mlac::runtime::boundWork(const WorkParams &params, const WorkLimits &limits,
                                   EnvelopePoints &points) {
  WorkSizes most;
  most.parts = countParts(params, 1, limits.numSms);
  int64_t units = params.fixedBlocks == 0
                      ? 0
                      : ceilDiv(ceilDiv(limits.maxSeqLen, params.keysPerBlock), params.fixedBlocks);
  Envelope fixedTokens(points);
  // Longer queries have fewer parts, but larger partials.
  for (int64_t query = 1; query <= std::max<int64_t>(limits.maxQueryLen, 1); ++query) {
    int64_t parts = countParts(params, query, limits.numSms);
    if (parts == 1)
      break; // and so on for all longer ones: nothing is cut
    int64_t pieces = maxCutPieces(parts, limits.requests);
    int64_t tokens = pieces * query;
    if (params.fixedBlocks > 0) {
      int64_t each = std::min(units, maxFixedPieces(params, query, limits.numSms));
      pieces = each > 1 ? limits.requests * each : 0;
      fixedTokens.add(query, each > 1 ? each * query : 0);
      tokens = fixedTokens.sum(limits.requests, std::min(limits.tokens, limits.requests * query));
    }
    most.partials = std::max(most.partials, pieces);
    most.partialTokens = std::max(most.partialTokens, tokens);
  }
  most.merges = most.partials > 0 ? limits.requests : 0;
  most.mergePrograms = most.merges > 0 ? countMergePrograms(params, limits.numSms) : 0;
  most.items = limits.requests + most.partials;
  return most;
}

void WorkPlanner::reserve(const WorkSizes &sizes, int64_t maxRequests) {
  auto count = static_cast<size_t>(sizes.items);
  blocks.reserve(maxRequests);
  pieces.reserve(count);
  partials.reserve(count);
  order.reserve(count);
  heap.reserve(sizes.parts);
  starts_.reserve(sizes.parts + 1);
  items_.reserve(count);
  merges_.reserve(sizes.merges);
  mergeStarts_.reserve(sizes.mergePrograms);
}

//===----------------------------------------------------------------------===//
// Cutting
//===----------------------------------------------------------------------===//

int64_t WorkPlanner::costOf(int64_t blocks) const { return itemCost + blocks * kUnit; }

void WorkPlanner::countBlocks() {
  blocks.clear();
  for (const WorkRequest &request : requests) {
    int64_t keys = request.seqLen;
    if (params.window > 0)
      keys = std::min(keys, request.queryLen + params.window - 1);
    int64_t count = std::max<int64_t>(ceilDiv(keys, params.keysPerBlock) - skipped, 1);
    blocks.push_back(request.queryLen > 0 ? static_cast<int32_t>(count) : 0);
  }
}

void WorkPlanner::addWhole() {
  pieces.clear();
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i] > 0)
      pieces.push_back({static_cast<int32_t>(i), 0, blocks[i], 0});
}

/// Gives pieces to parts in request order; a part takes blocks until its load
/// would exceed `cap`. Calls sink(request, first block, blocks, part). False if
/// the parts do not suffice.
template <typename Sink> bool WorkPlanner::cutInOrder(int64_t cap, Sink sink) const {
  int64_t part = 0, left = cap;
  for (size_t request = 0; request < blocks.size(); ++request) {
    // Most requests stay whole.
    if (int64_t cost = costOf(blocks[request]); blocks[request] > 0 && cost <= left) {
      sink(request, 0, blocks[request], part);
      left -= cost;
      continue;
    }
    for (int64_t first = 0; first < blocks[request];) {
      int64_t room = (left - itemCost) / kUnit;
      if (left < itemCost + kUnit) {
        left = cap;
        if (++part == sizes_.parts)
          return false;
        continue;
      }
      int64_t count = std::min(room, blocks[request] - first);
      sink(request, first, count, part);
      left -= costOf(count);
      first += count;
    }
  }
  return true;
}

bool WorkPlanner::fits(int64_t cap) const {
  return cutInOrder(cap, [](int64_t, int64_t, int64_t, int64_t) {});
}

/// The merge and the partials, which hold so many tokens.
int64_t WorkPlanner::costOfPartials(int64_t tokens) const {
  return toUnits(params.mergeCost + params.partialCost * static_cast<double>(tokens));
}

/// What a cut under `cap` costs, with the load; nothing where it does not fit, which a larger
/// load than one that fits may, too: parts leave more of it.
std::optional<int64_t> WorkPlanner::costOfCut(int64_t cap) const {
  int64_t tokens = 0;
  bool fits = cutInOrder(cap, [&](int64_t request, int64_t, int64_t count, int64_t) {
    tokens += count < blocks[request] ? requests[request].queryLen : 0;
  });
  return fits ? std::optional(cap + costOfPartials(tokens)) : std::nullopt;
}

/// A load not below `cap` whose pieces of the longest request are equal, one to a part: requests
/// of one length then have no piece that shares a part.
int64_t WorkPlanner::alignCap(int64_t cap) const {
  int64_t longest = *std::ranges::max_element(blocks), room = (cap - itemCost) / kUnit;
  return costOf(ceilDiv(longest, std::max<int64_t>(longest / room, 1)));
}

/// The cheapest cut in order, of those that fit: larger loads have fewer partials. `whole`
/// where nothing is cheaper than leaving requests whole.
WorkPlanner::Cut WorkPlanner::chooseCut(int64_t smallest, int64_t whole) const {
  if (params.partialCost == 0)
    return {smallest, smallest};
  Cut best = {whole, whole};
  auto canBeBetter = [&](int64_t cap) { return cap + toUnits(params.mergeCost) < best.cost; };
  auto look = [&](int64_t cap) {
    if (std::optional<int64_t> cost = costOfCut(cap); cost && *cost < best.cost)
      best = {cap, *cost};
  };
  // Steps of a quarter: the optimum is flat, and a look costs as much as a plan.
  for (int64_t cap = smallest; canBeBetter(cap); cap += ceilDiv(cap, 4))
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
  int64_t tokens = 0, cuts = 0, bound = maxCutPieces(sizes_.parts, blocks.size());
  pieces.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    int64_t count = ceilDiv(blocks[i], room),
            each = ceilDiv(blocks[i], std::max<int64_t>(count, 1));
    auto request = static_cast<int32_t>(i);
    if (count > 1 && (cuts += count) > bound)
      return false;
    for (int64_t first = 0; first < blocks[i]; first += each) {
      int64_t blocksOfPiece = std::min(each, blocks[i] - first);
      tokens += blocksOfPiece < blocks[i] ? requests[i].queryLen : 0;
      pieces.push_back(
          {request, static_cast<int32_t>(first), static_cast<int32_t>(blocksOfPiece), 0});
    }
  }
  int64_t rest = costOfPartials(tokens);
  return rest < most && assignLongestFirst() + rest < most;
}

/// The smallest load under which a cut in order fits, to a quarter of a block, which is less
/// than what costs are known to; nothing where all loads below `high` are too small.
std::optional<int64_t> WorkPlanner::findSmallestCap(int64_t low, int64_t high) const {
  if (high < low || !fits(high))
    return std::nullopt;
  while (high - low > kUnit / 4) {
    int64_t middle = low + (high - low) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

void WorkPlanner::cutByCost() {
  addWhole();
  int64_t whole = assignLongestFirst(), total = 0;
  for (const Piece &piece : pieces)
    total += costOf(piece.numBlocks);
  // A part that cannot take another block has less than itemCost + kUnit left,
  // and each border adds an itemCost: this load always fits.
  int64_t enough = ceilDiv(total, sizes_.parts) + 2 * itemCost + kUnit;
  int64_t low = std::max(ceilDiv(total, sizes_.parts), itemCost + kUnit);
  int64_t high = std::min(whole - toUnits(params.mergeCost) - 1, enough);
  std::optional<int64_t> smallest = findSmallestCap(low, high);
  if (!smallest)
    return;
  Cut best = chooseCut(*smallest, whole);
  if (params.partialCost > 0 && cutEvenly((*smallest - itemCost) / kUnit, best.cost))
    return;
  if (best.cap == whole) {
    addWhole();
    assignLongestFirst();
    return;
  }
  pieces.clear();
  cutInOrder(best.cap, [&](int64_t request, int64_t first, int64_t count, int64_t part) {
    pieces.push_back({static_cast<int32_t>(request), static_cast<int32_t>(first),
                      static_cast<int32_t>(count), static_cast<int32_t>(part)});
  });
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
  assignLongestFirst();
}

//===----------------------------------------------------------------------===//
// Assignment
//===----------------------------------------------------------------------===//

// A load and a part, or a cost and a piece, in one number that sorts by both.
static constexpr int kIndexBits = 24;
static constexpr uint64_t kIndexMask = (uint64_t(1) << kIndexBits) - 1;

/// Adds `cost` to the part at the top of the heap, which has the least load, and
/// moves it to its place.
void WorkPlanner::placeInHeap(int64_t piece, int64_t cost) {
  uint64_t moved = heap[0] + (static_cast<uint64_t>(cost) << kIndexBits);
  pieces[piece].part = static_cast<int32_t>(moved & kIndexMask);
  size_t hole = 0, size = heap.size();
  for (size_t child = 1; child < size; child = 2 * hole + 1) {
    if (child + 1 < size && heap[child + 1] < heap[child])
      ++child;
    if (heap[child] >= moved)
      break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = moved;
}

/// Orders the pieces by falling cost. From step to step of a decode few change their
/// place, so the order before is the start where there are as many.
void WorkPlanner::sortPieces() {
  if (order.size() != pieces.size()) {
    order.clear();
    for (size_t i = 0; i < pieces.size(); ++i)
      order.push_back(kIndexMask - i); // of equal ones the first comes first
  }
  for (uint64_t &entry : order) {
    uint64_t index = entry & kIndexMask;
    int32_t blocks = pieces[kIndexMask - index].numBlocks;
    entry = static_cast<uint64_t>(costOf(blocks)) << kIndexBits | index;
  }
  // Insertion, until it has moved more than sorting would compare.
  size_t moves = 16 * order.size();
  for (auto end = order.begin(); end != order.end(); ++end) {
    if (end == order.begin() || end[-1] >= *end)
      continue;
    auto place = std::upper_bound(order.begin(), end, *end, std::greater<>());
    auto distance = static_cast<size_t>(end - place);
    if (distance > moves)
      return std::sort(order.begin(), order.end(), std::greater<>());
    moves -= distance;
    std::rotate(place, end, end + 1);
  }
}

/// Gives each piece, the most expensive first, to the part with the least load.
/// Returns the largest load.
int64_t WorkPlanner::assignLongestFirst() {
  sortPieces();
  // Each part takes one while there are parts without any.
  heap.clear();
  for (size_t part = 0; part < static_cast<size_t>(sizes_.parts); ++part) {
    heap.push_back(part);
    if (part >= order.size())
      continue;
    heap.back() |= order[part] & ~kIndexMask;
    pieces[kIndexMask - (order[part] & kIndexMask)].part = static_cast<int32_t>(part);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  for (size_t i = heap.size(); i < order.size(); ++i)
    placeInHeap(static_cast<int64_t>(kIndexMask - (order[i] & kIndexMask)),
                static_cast<int64_t>(order[i] >> kIndexBits));
  uint64_t most = heap.empty() ? 0 : *std::max_element(heap.begin(), heap.end());
  return static_cast<int64_t>(most >> kIndexBits);
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

/// Numbers the partials of the requests in several pieces.
void WorkPlanner::emitMerges() {
  merges_.clear();
  partials.assign(pieces.size(), -1);
  for (size_t first = 0, end; first < pieces.size(); first = end) {
    int32_t request = pieces[first].request;
    for (end = first + 1; end < pieces.size() && pieces[end].request == request;)
      ++end;
    auto count = static_cast<int64_t>(end - first);
    if (count == 1)
      continue;
    const WorkRequest &of = requests[request];
    merges_.push_back({of.firstToken, of.queryLen, static_cast<int32_t>(sizes_.partialTokens),
                       static_cast<int32_t>(count), /*form=*/0});
    for (size_t i = first; i < end; ++i, sizes_.partialTokens += of.queryLen)
      partials[i] = static_cast<int32_t>(sizes_.partialTokens);
    sizes_.partials += count;
  }
  sizes_.merges = static_cast<int64_t>(merges_.size());
}

namespace {
/// The units of one merge.
struct MergeUnits {
  int64_t count, cost; // of each
};
} // namespace

/// In the merge's form. What a unit reads, in 16ths of a row of partials, and what its
/// dependent loads take beside: on an H200 the programs of a multiprocessor read about eight
/// rows of 512 columns each in a latency.
static MergeUnits countUnits(const WorkParams &params, const MergeItem &merge) {
  constexpr int64_t latency = 8, part = 16;
  const MergeForm &form = params.mergeForms[merge.form];
  int64_t rows = merge.queryLen * params.rowsPerToken;
  int64_t read = merge.numPartials * std::min(rows, form.rows);
  return {ceilDiv(rows, form.rows) * form.blocks,
          part * latency * ceilDiv(merge.numPartials, form.pieces) + part * read / form.blocks};
}

static int32_t findForm(const WorkParams &params, const MergeItem &merge) {
  int32_t form = 0;
  while (merge.numPartials > params.mergeForms[form].pieces)
    ++form;
  return form;
}

/// What merging takes with the forms that the merges have: a share of all units, or the
/// dearest one.
int64_t WorkPlanner::costOfMerges() const {
  int64_t total = 0, most = 0;
  for (const MergeItem &merge : merges_) {
    MergeUnits of = countUnits(params, merge);
    total += of.count * of.cost;
    most = std::max(most, of.cost);
  }
  return std::max(total / std::max<int64_t>(countMergePrograms(params, numSms), 1), most);
}

/// Gives each merge the form of its number of pieces. Where that is the second, the first,
/// which takes turns, reads more with each latency: it is better for all of them together once
/// they fill the machine. With fixed blocks nothing but the request may decide.
void WorkPlanner::chooseForms() {
  auto choose = [&](int32_t inPlaceOfSecond) {
    for (MergeItem &merge : merges_) {
      int32_t form = findForm(params, merge);
      merge.form = form == 1 ? inPlaceOfSecond : form;
    }
    return costOfMerges();
  };
  if (params.fixedBlocks > 0 || choose(0) >= choose(1))
    choose(1);
  else
    choose(0);
}

/// Cuts the units of all merges, one after the other, into runs of about the same cost.
void WorkPlanner::emitMergeStarts() {
  mergeStarts_.clear();
  if (params.mergePrograms == 0 || merges_.empty())
    return;
  chooseForms();
  int64_t units = 0, total = 0;
  for (const MergeItem &merge : merges_) {
    MergeUnits of = countUnits(params, merge);
    units += of.count;
    total += of.count * of.cost;
  }
  sizes_.mergePrograms = std::min(countMergePrograms(params, numSms), units);
  int32_t merge = 0, unit = 0;
  int64_t done = 0, programs = sizes_.mergePrograms;
  MergeUnits of = countUnits(params, merges_.front());
  for (int64_t program = 0; program < programs; ++program) {
    MergeStart run = {merge, unit, merge, unit};
    int64_t target = total * (program + 1) / programs;
    while (done < target) {
      if (unit == of.count) {
        of = countUnits(params, merges_[++merge]);
        unit = 0;
      }
      // To the nearest unit, so that errors do not add up.
      int64_t left = (target - done + of.cost / 2) / of.cost;
      int64_t count = std::min(left, of.count - unit);
      if (count == 0)
        break;
      if (run.endUnit == run.firstUnit && run.firstMerge == run.lastMerge)
        run.firstMerge = merge, run.firstUnit = unit;
      unit += static_cast<int32_t>(count);
      done += count * of.cost;
      run.lastMerge = merge, run.endUnit = unit;
    }
    mergeStarts_.push_back(
        run.endUnit > run.firstUnit || run.lastMerge > run.firstMerge ? run : kNoMerge);
  }
}

/// Sorts the pieces by part, in request order inside a part.
void WorkPlanner::emitItems() {
  starts_.assign(sizes_.parts + 1, 0);
  for (const Piece &piece : pieces)
    ++starts_[piece.part + 1];
  for (int64_t part = 0; part < sizes_.parts; ++part)
    starts_[part + 1] += starts_[part];
  items_.resize(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece &piece = pieces[i];
    const WorkRequest &of = requests[piece.request];
    items_[starts_[piece.part]++] = {
        piece.request,   static_cast<int32_t>(skipped + piece.firstBlock),
        piece.numBlocks, of.seqLen,
        of.firstToken,   of.queryLen,
        partials[i],     0};
  }
  // Each start has moved to the next part's.
  std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_[0] = 0;
  // Parts behind the last piece are not launched: empty programs take time, too.
  while (sizes_.parts > 1 && starts_[sizes_.parts - 1] == starts_[sizes_.parts]) {
    starts_.pop_back();
    --sizes_.parts;
  }
  sizes_.items = static_cast<int64_t>(items_.size());
}

void WorkPlanner::plan(const WorkParams &given, std::span<const WorkRequest> batch, int64_t sms,
                       int64_t skippedBlocks) {
  params = given;
  requests = batch;
  numSms = sms;
  skipped = skippedBlocks;
  itemCost = toUnits(params.itemCost);
  int32_t maxQueryLen = 0;
  for (const WorkRequest &request : requests)
    maxQueryLen = std::max(maxQueryLen, request.queryLen);
  sizes_ = {};
  sizes_.parts = countParts(params, maxQueryLen, numSms);
  countBlocks();
  if (params.fixedBlocks > 0)
    cutFixed();
  else
    cutByCost();
  emitMerges();
  emitMergeStarts();
  emitItems();
}
