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
// The cheapest of the first three is taken; the last on demand. Everything is
// integer arithmetic in a fixed order, so equal steps get equal plans.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WORKPLANNER_H
#define MLAC_RUNTIME_WORKPLANNER_H

#include "package/WorkParams.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mlac::runtime {

struct WorkRequest {
  int32_t seqLen, firstToken, queryLen;
};

/// Rows of the metadata arrays work_items, merge_items and merge_starts.
struct WorkItem {
  int32_t request, firstBlock, numBlocks, seqLen, firstToken, queryLen;
  int32_t partial; // first token of its partial, or -1
  int32_t unused;
};
struct MergeItem {
  int32_t firstToken, queryLen, firstPartial, numPartials;
  int32_t form; // of WorkParams::mergeForms
};

/// A run of units: from `firstUnit` of the first merge to before `endUnit` of the last.
struct MergeStart {
  int32_t firstMerge, firstUnit, lastMerge, endUnit;
};
/// Of a program that has nothing to merge.
inline constexpr MergeStart kNoMerge = {0, 0, -1, 0};

/// What one step has, or at most may have, of each.
struct WorkSizes {
  int64_t parts = 0, items = 0, partials = 0, partialTokens = 0, merges = 0, mergePrograms = 0;
  bool operator==(const WorkSizes &) const = default;
};

/// num_parts of tile.work.
int64_t countParts(const WorkParams &params, int64_t maxQueryLen, int64_t numSms);

/// Limits of the steps whose sizes are bounded.
struct WorkLimits {
  int64_t requests, tokens, maxQueryLen, maxSeqLen, numSms;
};
/// No step within the limits needs more of anything; `parts` are those of the
/// shortest queries.
WorkSizes boundWork(const WorkParams &params, const WorkLimits &limits);
/// The same without allocating, but for more points than ever before.
using EnvelopePoints = std::vector<std::pair<int64_t, int64_t>>;
WorkSizes boundWork(const WorkParams &params, const WorkLimits &limits, EnvelopePoints &points);

class WorkPlanner {
public:
  /// Later plans within these sizes do not allocate.
  void reserve(const WorkSizes &sizes, int64_t maxRequests);

  /// Each request's blocks from `skipped` on.
  void plan(const WorkParams &params, std::span<const WorkRequest> requests, int64_t numSms,
            int64_t skipped = 0);

  // Of the last plan.
  const WorkSizes &sizes() const { return sizes_; }
  std::span<const int32_t> starts() const { return starts_; }
  std::span<const WorkItem> items() const { return items_; }
  std::span<const MergeItem> merges() const { return merges_; }
  std::span<const MergeStart> mergeStarts() const { return mergeStarts_; }

private:
  struct Piece {
    int32_t request, firstBlock, numBlocks, part;
  };
  /// The load that a cut in order gives a part at most, and what it costs in all.
  struct Cut {
    int64_t cap, cost;
  };

  void countBlocks();
  void cutByCost();
  void cutFixed();
  void addWhole();
  void sortPieces();
  int64_t assignLongestFirst();
  void placeInHeap(int64_t piece, int64_t cost);
  template <typename Sink> bool cutInOrder(int64_t cap, Sink sink) const;
  int64_t costOfPartials(int64_t tokens) const;
  std::optional<int64_t> costOfCut(int64_t cap) const;
  int64_t alignCap(int64_t cap) const;
  Cut chooseCut(int64_t smallest, int64_t whole) const;
  bool cutEvenly(int64_t room, int64_t most);
  std::optional<int64_t> findSmallestCap(int64_t low, int64_t high) const;
  bool fits(int64_t cap) const;
  void emitMerges();
  int64_t costOfMerges() const;
  void chooseForms();
  void emitMergeStarts();
  void emitItems();
  int64_t costOf(int64_t blocks) const;

  WorkParams params{};
  std::span<const WorkRequest> requests;
  int64_t numSms = 0, skipped = 0;
  int64_t itemCost = 0; // units of cost
  WorkSizes sizes_;
  std::vector<int32_t> blocks;       // per request; 0: no query
  std::vector<Piece> pieces;         // in request order
  std::vector<int32_t> partials;     // per piece
  std::vector<uint64_t> order, heap; // see assignLongestFirst
  std::vector<int32_t> starts_;
  std::vector<WorkItem> items_;
  std::vector<MergeItem> merges_;
  std::vector<MergeStart> mergeStarts_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WORKPLANNER_H
