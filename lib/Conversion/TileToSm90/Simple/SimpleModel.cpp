//===- SimpleModel.cpp - what one step after the other costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Analysis/SchedulePlanner.h"

using namespace mlac;
using namespace mlir;
using llvm::divideCeil;

namespace {
class PagedSimple : PagedPlanner {
public:
  using PagedPlanner::PagedPlanner;
  ScheduleCost plan() {
    countMemory(ScheduleKind::Simple);
    if (start(ScheduleKind::Simple))
      count();
    return std::move(cost);
  }

private:
  void count();
};

class DenseSimple : DensePlanner {
public:
  using DensePlanner::DensePlanner;
  DenseScheduleCost plan() {
    if (start(ScheduleKind::Simple))
      count();
    return std::move(cost);
  }

private:
  void count();
};
} // namespace

/// Nothing overlaps: copies, scores (by every warpgroup for itself), softmax,
/// products, and a barrier after each.
void PagedSimple::count() {
  constexpr int64_t kBarriers = 4;
  double rows = sm90::kTileRows, width = problem.scoreWidth();
  int64_t warpgroups = divideCeil(problem.kvLoraRank, sm90::kMaxWgmmaColumns);
  double scores = productCycles(rows, kBlockKeys, width) * warpgroups;
  double values = productCycles(rows, problem.kvLoraRank, kBlockKeys);
  cost.tensorCycles = scores + values;
  cost.recurrenceCycles = sm.loadLatencyCycles + cost.loadCycles + cost.tensorCycles +
                          sm.exponentialCycles + sm.packCycles + kBarriers * sm.handoverCycles;
  // Queries, keys and weights beside each other.
  cost.sharedBytes = 2 * problem.blockBytes() + kPanelBytes;
  cost.itemCycles = itemCycles(0, rows * width * problem.elementBytes, rows);
}

/// Nothing overlaps: copies, scores, softmax, product, and a barrier after each.
void DenseSimple::count() {
  constexpr int64_t kBarriers = 4;
  cost.rows = sm90::kTileRows;
  constexpr int64_t kProgramKeys = 64; // of the blocks of the tile program
  cost.keys = kProgramKeys;
  double width = problem.getKeyWidth() + problem.valueWidth;
  cost.tensorCycles = productCycles(cost.rows, cost.keys, width);
  cost.loadCycles = cost.keys * width * problem.elementBytes / sm.l2BytesPerClock;
  cost.recurrenceCycles = sm.loadLatencyCycles + cost.loadCycles + cost.tensorCycles +
                          softmaxCycles(cost.keys) + sm.packCycles + kBarriers * sm.handoverCycles;
  cost.sharedBytes = countKeyBytes(cost.rows) + countKeyBytes(cost.keys) +
                     countValueBytes(cost.keys) + cost.rows * sm90::kPanelRowBytes;
  // CTAs of one SM fill each other's gaps.
  double ctas = std::max<int64_t>(1, target.sharedBytes / std::max<int64_t>(1, cost.sharedBytes));
  cost.recurrenceCycles /= ctas;
}

static constexpr PagedModel kPaged = {
    [](const AttentionProblem &problem, const TargetDescription &target,
       const ScheduleRequest &request) { return PagedSimple(problem, target, request).plan(); },
    [](const AttentionProblem &) { return sm90::kTileRows; }};
static constexpr DenseModel kDense = {
    [](const DenseAttentionProblem &problem, const TargetDescription &target,
       const ScheduleRequest &request) { return DenseSimple(problem, target, request).plan(); }};

const ScheduleModel mlac::kSimpleModel = {{}, &kPaged, &kDense};
