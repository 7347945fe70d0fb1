//===- DenseScheduleCost.cpp - schedules of attention over dense keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/DenseScheduleCost.h"

#include "SchedulePlanner.h"

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <numeric>

using namespace mlac;
using namespace mlir;
using llvm::Twine;

int64_t DenseAttentionProblem::getKeyWidth() const {
  return std::accumulate(keyWidths.begin(), keyWidths.end(), int64_t(0));
}

namespace {
/// Keys of the blocks of the tile program.
constexpr int64_t kProgramKeys = 64;
/// The most keys that a block gets without being asked: with 128 the wider of S and O
/// of 192/128 columns are equal (FlashAttention-3 has the same).
constexpr int64_t kUsualKeyBlock = 128;
/// More stages than this are never full (stream measures the same).
constexpr int64_t kLeastStages = 2, kMostStages = 4;
/// Warpgroups with 64 rows each.
constexpr int64_t kConsumers = 2;
/// A thread's registers beside fragments: with 44 (256/256 columns, 80 keys) it spills 16
/// bytes, with 48 (64 keys) 4 where attention goes on from a partial.
constexpr int64_t kWorkingRegisters = 56;
/// With 40 the thread that copies and takes items spills 8 bytes over a chunk (ptxas 13.0,
/// 192/128 columns); what consumers get is the same from 48 to 56.
constexpr int64_t kProducerRegisters = 56;
/// Barriers, and what alignment takes.
constexpr int64_t kSmallBytes = sm90::kSwizzleAtomBytes;

class Planner : SchedulePlanner<DenseAttentionProblem, DenseScheduleCost> {
public:
  using SchedulePlanner::SchedulePlanner;
  DenseScheduleCost plan(ScheduleKind kind);

private:
  void planSimple();
  void planPingPong();
  bool chooseBlock();
  void countPingPong();

  /// Of `rows` rows, in whole panels.
  int64_t countKeyBytes(int64_t rows) const {
    int64_t panels = 0;
    for (int64_t width : problem.keyWidths)
      panels += llvm::divideCeil(width, sm90::kPanelColumns);
    return rows * panels * sm90::kPanelRowBytes;
  }
  int64_t countValueBytes(int64_t rows) const {
    return rows * static_cast<int64_t>(llvm::divideCeil(problem.valueWidth, sm90::kPanelColumns)) *
           sm90::kPanelRowBytes;
  }
  int64_t countBytes(int64_t keys, int64_t stages) const {
    return countKeyBytes(kConsumers * sm90::kTileRows) +
           stages * (countKeyBytes(keys) + countValueBytes(keys)) + kSmallBytes;
  }
  /// Scores, weights and output of one thread.
  int64_t countFragments(int64_t keys) const {
    constexpr int64_t perRegister = sm90::kWarpgroupThreads / sm90::kTileRows;
    return keys / perRegister + keys / (2 * perRegister) + problem.valueWidth / perRegister;
  }
  static int64_t getConsumerRegisters() {
    int64_t launched = llvm::alignDown(
        sm90::kRegisterFile / ((1 + kConsumers) * sm90::kWarpgroupThreads), sm90::kRegisterGranule);
    int64_t rest = ((1 + kConsumers) * launched - kProducerRegisters) / kConsumers;
    return llvm::alignDown(std::min(rest, sm90::kMaxRoleRegisters), sm90::kRegisterGranule);
  }
  /// Up to the exponentials, of one warpgroup.
  double softmaxCycles(double keys) const { return sm.exponentialCycles * keys / sm90::kTileRows; }
};
} // namespace

DenseScheduleCost Planner::plan(ScheduleKind kind) {
  if (start(kind))
    kind == ScheduleKind::Simple ? planSimple() : planPingPong();
  return std::move(cost);
}

/// Nothing overlaps: copies, scores, softmax, product, and a barrier after each.
void Planner::planSimple() {
  constexpr int64_t kBarriers = 4;
  cost.rows = sm90::kTileRows;
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

/// The widest block of keys that registers and, with the least stages, shared memory
/// hold; then as many stages as fit.
bool Planner::chooseBlock() {
  int64_t most = getConsumerRegisters() - kWorkingRegisters;
  int64_t stages = request.keyStages.value_or(kLeastStages);
  auto fits = [&](int64_t keys) {
    return countFragments(keys) <= most && countBytes(keys, stages) <= target.sharedBytes;
  };
  int64_t keys = request.keyBlock.value_or(kUsualKeyBlock);
  while (!request.keyBlock && keys > kKeyBlockMultiple && !fits(keys))
    keys -= kKeyBlockMultiple;
  cost.parameters.keyBlock = cost.keys = keys;
  if (countFragments(keys) > most)
    return refuse("key-block " + Twine(keys) + " and values of " + Twine(problem.valueWidth) +
                  " columns take " + Twine(countFragments(keys)) + " registers of a thread, " +
                  Twine(most) + " are left for them");
  while (!request.keyStages && stages < kMostStages &&
         countBytes(keys, stages + 1) <= target.sharedBytes)
    ++stages;
  cost.parameters.keyStages = stages;
  cost.sharedBytes = countBytes(keys, stages);
  // A tile of each consumer that outputs go through, where there is room for it.
  constexpr int64_t scratch = kConsumers * sm90::kTileRows * sm90::kPanelRowBytes;
  if (cost.sharedBytes + scratch <= target.sharedBytes)
    cost.sharedBytes += scratch;
  if (cost.sharedBytes > target.sharedBytes)
    return refuse("key-block " + Twine(keys) + " and key-stages " + Twine(stages) + " take " +
                  Twine(cost.sharedBytes) + " bytes of shared memory, a CTA has " +
                  Twine(target.sharedBytes));
  return true;
}

void Planner::countPingPong() {
  double rows = sm90::kTileRows, keys = cost.keys;
  double scores = productCycles(rows, keys, problem.getKeyWidth());
  double product = productCycles(rows, problem.valueWidth, keys);
  cost.rows = kConsumers * sm90::kTileRows;
  cost.tensorCycles = kConsumers * (scores + product);
  // Queries and keys are operands of every product, weights stay in registers.
  double blockBytes = countKeyBytes(cost.keys) + countValueBytes(cost.keys);
  double read = kConsumers * (countKeyBytes(sm90::kTileRows) + blockBytes);
  cost.sharedCycles = (read + blockBytes) / sm.sharedBytesPerClock;
  cost.loadCycles = blockBytes / sm.l2BytesPerClock;
  // The product runs under the softmax and the other's turn.
  cost.recurrenceCycles =
      scores + softmaxCycles(keys) + sm.packCycles * keys / rows + sm.handoverCycles;
}

void Planner::planPingPong() {
  if (problem.elementBytes != 2)
    return (void)refuse("wgmma needs elements of 2 bytes, got " + Twine(problem.elementBytes));
  if (problem.valueWidth > sm90::kMaxWgmmaColumns)
    return (void)refuse("values of " + Twine(problem.valueWidth) + " columns, a product has " +
                        Twine(sm90::kMaxWgmmaColumns));
  cost.parameters.registers = {kProducerRegisters, getConsumerRegisters(), getConsumerRegisters()};
  if (chooseBlock())
    countPingPong();
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

DenseScheduleCost mlac::computeDenseScheduleCost(const DenseAttentionProblem &problem,
                                                 const TargetDescription &target, ScheduleKind kind,
                                                 const ScheduleRequest &request) {
  return Planner(problem, target, request).plan(kind);
}

DenseScheduleChoice mlac::chooseDenseSchedule(const DenseAttentionProblem &problem,
                                              const TargetDescription &target,
                                              const ScheduleRequest &request,
                                              llvm::StringRef whyNotPingPong) {
  DenseScheduleChoice choice;
  const DenseScheduleCost *best = nullptr;
  for (ScheduleKind kind : kDenseScheduleKinds)
    choice.costs.push_back(computeDenseScheduleCost(problem, target, kind, request));
  for (DenseScheduleCost &cost : choice.costs) {
    if (cost.parameters.kind == ScheduleKind::PingPong && cost.isFeasible())
      cost.whyNot = whyNotPingPong.str();
    bool isAsked = !request.kind || *request.kind == cost.parameters.kind;
    if (isAsked && cost.isFeasible() &&
        (!best || cost.getRelativeCycles() < best->getRelativeCycles()))
      best = &cost;
    if (isAsked && !cost.isFeasible())
      choice.error += (choice.error.empty() ? "" : "; ") + getName(cost.parameters.kind).str() +
                      ": " + cost.whyNot;
  }
  if (best) {
    choice.chosen = best - choice.costs.begin();
    choice.error.clear();
  }
  return choice;
}

std::string mlac::describeChoice(const DenseAttentionProblem &problem,
                                 const TargetDescription &target,
                                 const DenseScheduleChoice &choice) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto describe = [&](const DenseScheduleCost &cost) {
    double step = cost.getStepCycles();
    stream << llvm::format("%.2f us for %lld rows and %lld keys, %.2f of the tensor rate, bound by "
                           "%s",
                           step / target.sm.clockGhz * 1e-3, static_cast<long long>(cost.rows),
                           static_cast<long long>(cost.keys), cost.tensorCycles / step,
                           cost.getBound().data());
  };
  const DenseScheduleCost &chosen = choice.get();
  stream << "schedule " << chosen.parameters.describe() << " (";
  describe(chosen);
  stream << "; " << chosen.sharedBytes << " bytes of shared memory)";
  for (const DenseScheduleCost &cost : choice.costs) {
    if (&cost == &chosen)
      continue;
    stream << "; not " << getName(cost.parameters.kind) << ": ";
    if (cost.isFeasible())
      describe(cost);
    else
      stream << cost.whyNot;
  }
  return text;
}
