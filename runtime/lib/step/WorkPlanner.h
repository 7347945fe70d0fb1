//===- WorkPlanner.h - pieces of a step's attention -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Partitions the attention of a step over parts that work side by side, as
// tile.work describes (spec: mla.md section 13). Four ways, P parts, blocks of
// three requests a, b, c:
//
//   whole          part 0  aaaaaaaa        longest first, to the part with the
//                  part 1  bbbbbcc         least load
//
//   in order       part 0  aaaaaaa         the smallest load that fits (or a larger
//                  part 1  abbbbbcc        one: fewer partials), then a merge
//
//   evenly         part 0  aaaabbbbb       long requests in equal pieces, short ones
//                  part 1  aaaacc          whole; longest first, then a merge
//
//   fixed blocks   part 0  aaaa bb         cuts of a request depend on nothing
//                  part 1  aaaa bbbb cc    else (batch invariance)
//
//   in turns       part 0  aaaa        more parts than run side by side, each with whole
//                  part 1  bbbb        requests, where tiles of long queries are so many
//                  part 2  cc          that few parts would be
//
// The cheapest of the first three is taken unless turns are surely cheaper, fixed blocks on demand;
// a way that a bound shows to be dearer is not tried. Everything is integer arithmetic in a fixed
// order, so equal steps get equal plans.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WORKPLANNER_H
#define MLAC_RUNTIME_WORKPLANNER_H

#include "step/LongestFirst.h"
#include "step/OrderedCut.h"
#include "step/WorkBounds.h"

namespace mlac::runtime {

/// Rows of the metadata arrays work_items, merge_items and merge_starts.
struct WorkItem {
  int32_t request, firstBlock, numBlocks, seqLen, firstToken, queryLen;
  int32_t partial; // first token of its partial, or -1
  int32_t unused;
};
struct MergeItem {
  int32_t firstToken, queryLen, firstPartial, numPartials;
  int32_t form; // of WorkParams::mergeForms
  int32_t stride; // tokens from a partial to the next
};

/// Merges of rows that another plan has computed, whose partials stand in front.
struct OtherMerges {
  std::span<const MergeItem> merges;
  int64_t partialTokens = 0;
};

/// A run of units: from `firstUnit` of the first merge to before `endUnit` of the last.
struct MergeStart {
  int32_t firstMerge, firstUnit, lastMerge, endUnit;
};
/// Of a program that has nothing to merge.
inline constexpr MergeStart kNoMerge = {0, 0, -1, 0};

class WorkPlanner {
public:
  /// Later plans within these sizes do not allocate.
  void reserve(const WorkSizes &sizes, int64_t maxRequests);

  /// Each request's blocks from `skipped` on. Merges `others`, too.
  void plan(const WorkParams &params, std::span<const WorkRequest> requests, int64_t numSms,
            int64_t skipped = 0, const OtherMerges &others = {});

  // Of the last plan.
  const WorkSizes &sizes() const { return sizes_; }
  std::span<const int32_t> starts() const { return starts_; }
  std::span<const WorkItem> items() const {
    return std::span(items_).first(static_cast<size_t>(sizes_.items));
  }
  std::span<const MergeItem> merges() const { return merges_; }
  std::span<const MergeStart> mergeStarts() const { return mergeStarts_; }

private:
  /// The load under which requests are cut in order, if they are cut, and what it costs in all.
  struct Choice {
    std::optional<int64_t> cap;
    int64_t cost;
  };

  void countBlocks();
  void cutByCost();
  bool takeTurns(int64_t tiles);
  void cutFixed();
  int64_t assign();
  int64_t assignWhole();
  bool costsAtLeast(int64_t least) const;
  int64_t costOfPartials(int64_t tokens) const;
  int64_t alignCap(int64_t cap) const;
  Choice chooseCap(int64_t smallest, std::optional<int64_t> whole);
  bool cutEvenly(int64_t room, int64_t most);
  WorkItem makeItem(size_t request, int64_t firstBlock, int64_t numBlocks, int64_t partial) const;
  void emitCut(int64_t cap);
  void emitPieces();
  void emitMerges();
  void emitItems();
  void chooseForms();
  void emitMergeStarts();

  WorkParams params{};
  std::span<const WorkRequest> requests;
  int64_t numSms = 0, skipped = 0;
  PieceCost cost;
  WorkSizes sizes_;
  std::vector<int32_t> blocks; // per request; 0: no query
  int64_t numWithQuery = 0;
  OrderedCut ordered;
  LongestFirst longestFirst;
  std::vector<WorkPiece> pieces; // in request order; a cut in order has none
  std::vector<int32_t> partials; // per piece
  std::vector<int32_t> starts_;
  std::vector<WorkItem> items_; // and room behind them, which is not cleared for each step
  std::vector<MergeItem> merges_;
  std::vector<MergeStart> mergeStarts_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WORKPLANNER_H
