//===- PingPongModel.cpp - what fits pingpong and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PingPong/PingPongModel.h"

#include "mla/Analysis/SchedulePlanner.h"
#include "mla/Analysis/ScheduleSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlac;
using namespace mlir;
using llvm::Twine;

namespace {
constexpr int64_t kLeastStages = 2;
using pingpong::kMathWarpgroups;
/// Barriers, and what alignment takes.
constexpr int64_t kSmallBytes = sm90::kSwizzleAtomBytes;

class Planner : DensePlanner {
public:
  using DensePlanner::DensePlanner;
  DenseScheduleCost plan() {
    if (startTensorCores(ScheduleKind::PingPong))
      count();
    return std::move(cost);
  }

private:
  void count();
  bool chooseBlock();
  void countCycles();

  int64_t countBytes(int64_t keys, int64_t stages) const {
    return countKeyBytes(kMathWarpgroups * sm90::kTileRows) +
           stages * (countKeyBytes(keys) + countValueBytes(keys)) + kSmallBytes;
  }
  /// A page's number for each box of a block: with 8 (4) of them ptxas spills 76 (12) bytes at 56
  /// registers and none at 72.
  int64_t countProducerRegisters(int64_t keys) const {
    constexpr int64_t kFewBoxes = 2, kOfMany = 16;
    bool areMany =
        llvm::any_of(problem.pageSizes, [&](int64_t page) { return keys > kFewBoxes * page; });
    return target.tuning.pingPongProducerRegisters + (areMany ? kOfMany : 0);
  }
  /// Scores, weights, output and, where there are any, marks of one thread.
  int64_t countFragments(int64_t keys) const {
    constexpr int64_t perRegister = sm90::kWarpgroupThreads / sm90::kTileRows;
    constexpr int64_t rows = 4 * sm90::kTileRows / sm90::kWarpgroupThreads; // four lanes have one
    int64_t marks = problem.markedKeys ? rows * keys / problem.markedKeys : 0;
    return keys / perRegister + keys / (2 * perRegister) + problem.valueWidth / perRegister + marks;
  }
};
} // namespace

/// The widest block of keys that registers and, with the least stages, shared memory
/// hold; then as many stages as fit.
bool Planner::chooseBlock() {
  auto countMost = [&](int64_t keys) {
    return pingpong::getConsumerRegisters(countProducerRegisters(keys)) -
           target.tuning.pingPongWorkingRegisters;
  };
  std::optional<int64_t> askedBlock = request.get(pingpong::kKeyBlock);
  std::optional<int64_t> askedStages = request.get(pingpong::kKeyStages);
  int64_t stages = askedStages.value_or(kLeastStages);
  auto fits = [&](int64_t keys) {
    return countFragments(keys) <= countMost(keys) &&
           countBytes(keys, stages) <= target.sharedBytes && problem.hasBoxes(keys) &&
           problem.hasWholeMarks(keys);
  };
  int64_t keys = askedBlock.value_or(target.tuning.pingPongKeys);
  while (!askedBlock && keys > pingpong::kKeyBlockMultiple && !fits(keys))
    keys -= pingpong::kKeyBlockMultiple;
  cost.keys = keys;
  cost.parameters.set(pingpong::kKeyBlock, keys);
  if (!problem.hasWholeMarks(keys))
    return refuse("blocks of " + Twine(keys) + " keys are not whole words of marks, of " +
                  Twine(problem.markedKeys) + " keys each");
  if (!problem.hasBoxes(keys))
    return refuse("blocks of " + Twine(keys) + " keys are not boxes of pages of " +
                  llvm::join(llvm::map_range(problem.pageSizes,
                                             [](int64_t size) { return std::to_string(size); }),
                             " and ") +
                  " rows");
  if (int64_t most = countMost(keys); countFragments(keys) > most)
    return refuse("key-block " + Twine(keys) + " and values of " + Twine(problem.valueWidth) +
                  " columns take " + Twine(countFragments(keys)) + " registers of a thread, " +
                  Twine(most) + " are left for them");
  while (!askedStages && stages < target.tuning.pingPongStages &&
         countBytes(keys, stages + 1) <= target.sharedBytes)
    ++stages;
  cost.parameters.set(pingpong::kKeyStages, stages);
  cost.sharedBytes = countBytes(keys, stages);
  // A tile of each consumer that outputs go through, where there is room for it.
  constexpr int64_t scratch = kMathWarpgroups * sm90::kTileRows * sm90::kPanelRowBytes;
  if (cost.sharedBytes + scratch <= target.sharedBytes)
    cost.sharedBytes += scratch;
  if (cost.sharedBytes > target.sharedBytes)
    return refuse("key-block " + Twine(keys) + " and key-stages " + Twine(stages) + " take " +
                  Twine(cost.sharedBytes) + " bytes of shared memory, a CTA has " +
                  Twine(target.sharedBytes));
  return true;
}

void Planner::countCycles() {
  double rows = sm90::kTileRows, keys = cost.keys;
  double scores = productCycles(rows, keys, problem.getKeyWidth());
  double product = productCycles(rows, problem.valueWidth, keys);
  cost.rows = kMathWarpgroups * sm90::kTileRows;
  cost.tensorCycles = kMathWarpgroups * (scores + product);
  // Queries and keys are operands of every product, weights stay in registers.
  double blockBytes = countKeyBytes(cost.keys) + countValueBytes(cost.keys);
  double read = kMathWarpgroups * (countKeyBytes(sm90::kTileRows) + blockBytes);
  cost.sharedCycles = (read + blockBytes) / sm.sharedBytesPerClock;
  cost.loadCycles = blockBytes / sm.l2BytesPerClock;
  // The product runs under the softmax and the other's turn.
  cost.recurrenceCycles =
      scores + softmaxCycles(keys) + sm.packCycles * keys / rows + sm.handoverCycles;
}

void Planner::count() {
  if (problem.valueWidth > sm90::kMaxWgmmaColumns)
    return (void)refuse("values of " + Twine(problem.valueWidth) + " columns, a product has " +
                        Twine(sm90::kMaxWgmmaColumns));
  if (!chooseBlock())
    return;
  int64_t producer = countProducerRegisters(cost.keys);
  cost.parameters.set(pingpong::kProducerRegisters, producer);
  cost.parameters.set(pingpong::kConsumerRegisters, pingpong::getConsumerRegisters(producer));
  countCycles();
}

static DenseScheduleCost plan(const DenseAttentionProblem &problem, const TargetDescription &target,
                              const ScheduleRequest &request) {
  return Planner(problem, target, request).plan();
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// The best blocks of keys with every depth of their rings.
static void addBlocks(DenseSearch &search, const ScheduleRequest &request) {
  constexpr int64_t kLeastBlock = 64;
  constexpr size_t kMost = 8;
  std::vector<DenseScheduleCost> found;
  for (int64_t keys = pingpong::kMaxKeyBlock; keys >= kLeastBlock;
       keys -= pingpong::kKeyBlockMultiple)
    for (int64_t stages = 2; stages <= search.target.tuning.pingPongStages; ++stages) {
      ScheduleRequest next = request;
      next.propose(pingpong::kKeyBlock, keys);
      next.propose(pingpong::kKeyStages, stages);
      DenseScheduleCost cost = plan(search.problem, search.target, next);
      if (cost.isFeasible())
        found.push_back(std::move(cost));
    }
  llvm::stable_sort(found, [](const DenseScheduleCost &a, const DenseScheduleCost &b) {
    return a.getRelativeCycles() < b.getRelativeCycles();
  });
  for (const DenseScheduleCost &cost : llvm::ArrayRef(found).take_front(kMost))
    if (cost.getRelativeCycles() <= kSearchError * found.front().getRelativeCycles())
      search.add(cost);
}

static void addThresholds(DenseSearch &search, const ScheduleRequest &request) {
  for (double threshold : kSearchThresholds) {
    ScheduleRequest next = request;
    next.propose(kLazyThreshold, threshold);
    search.add(plan(search.problem, search.target, next));
  }
}

static void search(DenseSearch &search, const ScheduleRequest &request) {
  addBlocks(search, request);
  addThresholds(search, request);
}

static constexpr DenseModel kDense = {plan, search};
static constexpr const ScheduleParameter *kParameters[] = {&pingpong::kKeyBlock,
                                                           &pingpong::kKeyStages, &kLazyThreshold};

const ScheduleModel mlac::kPingPongModel = {kParameters, nullptr, &kDense};
