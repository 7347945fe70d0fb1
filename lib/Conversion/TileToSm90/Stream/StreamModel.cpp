//===- StreamModel.cpp - what fits stream and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamModel.h"

#include "mla/Analysis/SchedulePlanner.h"
#include "mla/Analysis/ScheduleSearch.h"

#include <cmath>

using namespace mlac;
using namespace mlir;
using llvm::Twine;

/// Rows on the N side that the schedule takes (tile-swap-operands).
static constexpr int64_t kMaxStreamRows = 32;

/// All rows of a request, in groups of 8.
static int64_t countStreamRows(const AttentionProblem &problem) {
  return llvm::alignTo(problem.rows(), sm90::kColumnGroup);
}

int64_t stream::Tiles::stageBytes() const {
  return stagePanels * kBlockKeys * sm90::kPanelRowBytes;
}

/// Row vectors are aligned like tiles.
int64_t stream::Tiles::fixedBytes() const {
  constexpr int64_t kSmallBytes = 2 * sm90::kSwizzleAtomBytes;
  return (kQueryStages * queryPanels + 1) * rows * sm90::kPanelRowBytes + kSmallBytes;
}

int64_t stream::Tiles::outputRegisters() const {
  return outputPanels * sm90::kPanelColumns * rows / sm90::kWarpgroupThreads;
}

namespace {
class Planner : PagedPlanner {
public:
  using PagedPlanner::PagedPlanner;
  ScheduleCost plan() {
    countMemory(ScheduleKind::Stream);
    if (startTensorCores(ScheduleKind::Stream))
      count();
    return std::move(cost);
  }

private:
  void count();
};
} // namespace

void Planner::count() {
  int64_t rows = countStreamRows(problem);
  if (!problem.areRowsBounded)
    return (void)refuse("how many rows a request has is not known when compiling");
  if (problem.hasCodes())
    return (void)refuse("keys are codes, and no role of it turns them into operands");
  if (problem.kvLoraRank % sm90::kPanelColumns != 0)
    return (void)refuse((problem.keyWidth ? "a value of " : "a latent of ") +
                        Twine(problem.kvLoraRank) + " columns is not of whole panels of " +
                        Twine(sm90::kPanelColumns));
  if (rows > kMaxStreamRows)
    return (void)refuse(Twine(problem.rows()) + " rows per request, its products hold " +
                        Twine(kMaxStreamRows));
  int64_t latent = countPanels(problem.kvLoraRank);
  int64_t keys =
      problem.keyWidth ? countPanels(problem.keyWidth) : latent + countPanels(problem.ropeDim);
  int64_t panels = keys + (problem.keyWidth ? latent : 0);
  const stream::Tiles tiles{rows, keys, panels, latent};
  if (tiles.outputRegisters() > target.tuning.streamOutputRegisters)
    return (void)refuse("an output of " + Twine(tiles.outputRegisters()) +
                        " registers per thread, it has " +
                        Twine(target.tuning.streamOutputRegisters));
  int64_t stageBytes = tiles.stageBytes(), most = tiles.mostStages(target.sharedBytes);
  int64_t stages = request.get(stream::kStages)
                       .value_or(std::clamp<int64_t>(most, 2, target.tuning.streamStages));
  cost.parameters.set(stream::kStages, stages);
  if (std::optional<int64_t> columns = request.get(stream::kPartColumns))
    cost.parameters.set(stream::kPartColumns, *columns);
  cost.sharedBytes = tiles.fixedBytes() + stages * stageBytes;
  if (stages < 2)
    return (void)refuse("stages: " + Twine(stages) + ", one is read while another is loaded");
  if (stages > most)
    return (void)refuse("stages: " + Twine(stages) + " take " + Twine(cost.sharedBytes) +
                        " bytes of shared memory, a CTA has " + Twine(target.sharedBytes));
  // wgmma with `rows` columns reads its left operand of 64 rows whatever `rows` is.
  double readPerPanel = kPanelBytes + rows * sm90::kPanelRowBytes;
  double scores = keys * readPerPanel / sm.sharedBytesPerClock;
  double values = latent * readPerPanel / sm.sharedBytesPerClock;
  double width = problem.scoreWidth();
  cost.tensorCycles =
      productCycles(kBlockKeys, rows, width) + productCycles(problem.kvLoraRank, rows, kBlockKeys);
  cost.sharedCycles = scores + values + stageBytes / sm.sharedBytesPerClock;
  // Maxima and sums run over M, so warps meet for each: two handovers more.
  double softmax =
      (sm.exponentialCycles + sm.packCycles) * rows / sm90::kTileRows + 2 * sm.handoverCycles;
  double chain = scores + softmax + values + 2 * sm.handoverCycles;
  // Scores begin on the first part of a stage while the rest arrives.
  int64_t partPanels = target.tuning.streamPartColumns / sm90::kPanelColumns;
  double parts = std::ceil(static_cast<double>(keys) / partPanels);
  double held = chain - scores * (parts - 1) / parts;
  // Pages that TMA cannot copy are copied by all threads of a warpgroup.
  double boxes = panels * problem.boxesPerPanel();
  double load = sm.loadLatencyCycles + std::max(cost.loadCycles, boxes * sm.copyIssueCycles);
  cost.recurrenceCycles = std::max(chain, (load + held) / stages);
  cost.itemCycles = itemCycles(chain, rows * width * problem.elementBytes, rows);
}

static ScheduleCost plan(const AttentionProblem &problem, const TargetDescription &target,
                         const ScheduleRequest &request) {
  return Planner(problem, target, request).plan();
}

/// Every depth, and the widths of its keys' parts.
static void search(PagedSearch &search, const ScheduleRequest &request) {
  constexpr int64_t kPartColumns[] = {64, 128, 256, 512};
  for (int64_t stages = 2; stages <= search.target.tuning.streamStages; ++stages)
    for (int64_t columns : kPartColumns) {
      ScheduleRequest next = request;
      next.propose(stream::kStages, stages);
      next.propose(stream::kPartColumns, columns);
      search.add(plan(search.problem, search.target, next));
    }
}

static constexpr PagedModel kPaged = {plan, countStreamRows, search};
static constexpr const ScheduleParameter *kParameters[] = {&stream::kStages, &stream::kPartColumns,
                                                           &kLazyThreshold};

const ScheduleModel mlac::kStreamModel = {kParameters, &kPaged, nullptr};
