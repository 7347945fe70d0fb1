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
#include "mla/Machine/TileShapes.h"

#include <cmath>

using namespace mlac;
using namespace mlir;
using llvm::Twine;

/// Rows on the N side that the schedule takes (tile-swap-operands): a tile's on each side, or where
/// the output is as wide as a latent, half of them.
static int64_t getMostRows(const AttentionProblem &problem) {
  if (problem.keyWidth)
    return problem.hasCodes() ? sm90::kTileRows : kSides * sm90::kTileRows;
  return sm90::kTileRows / 2;
}

/// Of what turning a panel of codes takes where it goes by way of shared memory
/// (docs/lab/codes.md).
static constexpr double kKeysInRegisters = 0.4;

/// All rows of a request, in groups of 8.
static int64_t countStreamRows(const AttentionProblem &problem) {
  return llvm::alignTo(problem.rows(), sm90::kColumnGroup);
}

int64_t stream::Tiles::stageBytes() const {
  return stagePanels * kBlockKeys * sm90::kPanelRowBytes;
}

int64_t stream::Tiles::stateStages() const {
  // Beside codes there is no more room, and both consumers give.
  constexpr int64_t kStateBytes = 2 * kBlockKeys * sm90::kPanelRowBytes;
  int64_t tileBytes = kBlockKeys * rows * static_cast<int64_t>(sizeof(float));
  // Of an output also a reference and a sum.
  return hasCodes ? 1 : std::clamp<int64_t>(kStateBytes / tileBytes, 1, outputPanels + 2);
}

/// Row vectors are aligned like tiles.
int64_t stream::Tiles::fixedBytesBeside(int64_t queryStages) const {
  constexpr int64_t kSmallBytes = 2 * sm90::kSwizzleAtomBytes;
  int64_t queries = queryStages * queryPanels * rows * sm90::kPanelRowBytes;
  int64_t states = stateStages() * kBlockKeys * rows * static_cast<int64_t>(sizeof(float));
  return sides * ((hasCodes ? 1 : consumers) * queries +
                  consumers * (weightTiles * rows * sm90::kPanelRowBytes + kSmallBytes)) +
         (hasCodes ? consumers : consumers - 1) * states;
}

int64_t stream::Tiles::queryStages(int64_t sharedBytes) const {
  // A block that each consumer reads and one that arrives for it.
  constexpr int64_t kEnough = 2 * kCodeConsumers;
  auto count = [&](int64_t items) {
    return std::min(mostStagesBeside(items, sharedBytes), kEnough);
  };
  bool isTight = hasCodes ? count(kQueryStages) < count(1) : count(kQueryStages) < 2;
  return isTight ? 1 : kQueryStages;
}

int64_t stream::Tiles::countSlots(int64_t sharedBytes) const {
  if (!canHaveSlots || hasCodes || sides > 1 || consumers > 1 ||
      mostStagesBeside(/*queryStages=*/1, sharedBytes) >= 2)
    return 0;
  int64_t slots = (sharedBytes - fixedBytesBeside(/*queryStages=*/1)) / kSlotBytes;
  return slots >= stagePanels ? slots : 0;
}

int64_t stream::Tiles::heldRegisters() const {
  int64_t output = outputPanels * sm90::kPanelColumns * rows;
  int64_t scores = std::max<int64_t>(0, rows - sm90::kTileRows / 2) * kBlockKeys;
  return (output + scores) / sm90::kWarpgroupThreads;
}

int64_t stream::Tiles::tileRegisters() const {
  // Of this block and the next; each row is with the four threads of a quad.
  constexpr int64_t kScaleRegisters = 2 * kBlockKeys * sm90::kQuadLanes / sm90::kWarpgroupThreads;
  int64_t groups = weightTiles > 1 ? weightTiles : 0;
  return countTileRegisters(rows, outputPanels) + groups * kScaleRegisters;
}

bool stream::Tiles::needsAllRegisters(bool areCodes) const {
  int64_t operands = areCodes ? (queryPanels + outputPanels) * kOperandRegisters : 0;
  if (sides > 1)
    return countTileRegisters(rows, outputPanels) > kLaunchSideRegisters;
  return consumers > 1 && countTileRegisters(rows, outputPanels) + operands > kLaunchRegisters;
}

/// wgmma with `rows` columns reads its left operand of 64 rows whatever `rows` is.
static double countProducts(int64_t panels, int64_t rows, bool inRegisters,
                            const SmDescription &sm) {
  int64_t left = inRegisters ? 0 : kBlockKeys * sm90::kPanelRowBytes;
  return static_cast<double>(panels) * static_cast<double>(left + rows * sm90::kPanelRowBytes) /
         sm.sharedBytesPerClock;
}

/// Maxima and sums run over M, so warps meet for each: two handovers more.
static double countSoftmax(int64_t rows, const SmDescription &sm) {
  return (sm.exponentialCycles + sm.packCycles) * static_cast<double>(rows) / sm90::kTileRows +
         2 * sm.handoverCycles;
}

double stream::countChain(const Tiles &tiles, const SmDescription &sm) {
  int64_t panels = tiles.sides * (tiles.queryPanels + tiles.outputPanels);
  return countProducts(panels, tiles.rows, /*inRegisters=*/false, sm) +
         countSoftmax(tiles.rows, sm) + 2 * sm.handoverCycles;
}

int64_t stream::countConsumers(const Tiles &tiles, const TargetDescription &target, bool areCodes) {
  if (tiles.sides > 1)
    return 1;
  int64_t held = countTileRegisters(tiles.rows, tiles.outputPanels);
  if (areCodes)
    return held + 2 * kOperandRegisters <= target.tuning.streamTurnRegisters ? 2 : 1;
  double readGbpsPerSm = target.readGbps / static_cast<double>(target.numSms);
  double memory = static_cast<double>(tiles.stageBytes()) / readGbpsPerSm * target.sm.clockGhz;
  return held <= kLaunchRegisters && countChain(tiles, target.sm) > memory ? 2 : 1;
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
  void countCodes();
  std::optional<int64_t> chooseStages(const stream::Tiles &tiles);
};
} // namespace

/// As asked for, or the usual number; nothing where it does not fit.
std::optional<int64_t> Planner::chooseStages(const stream::Tiles &tiles) {
  int64_t stageBytes = tiles.stageBytes(), most = tiles.mostStages(target.sharedBytes);
  int64_t usual = tiles.usualStages(target);
  int64_t fewest = tiles.fewestStages(target.sharedBytes);
  int64_t stages = request.get(stream::kStages).value_or(std::clamp(most, fewest, usual));
  cost.parameters.set(stream::kStages, stages);
  cost.sharedBytes = tiles.fixedBytes(target.sharedBytes) + stages * stageBytes;
  if (int64_t slots = tiles.countSlots(target.sharedBytes); slots && stages == 1)
    cost.sharedBytes = tiles.fixedBytes(target.sharedBytes) + slots * stream::kSlotBytes;
  if (stages < fewest)
    refuse("stages: " + Twine(stages) + ", one is read while another is loaded");
  else if (stages > most)
    refuse("stages: " + Twine(stages) + " take " + Twine(cost.sharedBytes) +
           " bytes of shared memory, a CTA has " + Twine(target.sharedBytes));
  else if (stages % tiles.consumers != 0)
    refuse("stages: " + Twine(stages) + " are no multiple of the " + Twine(tiles.consumers) +
           " consumers that take turns");
  else
    return stages;
  return std::nullopt;
}

/// Two consumers in turns: turn codes into keys under the product, softmax, turn them into values
/// under the other product.
void Planner::countCodes() {
  if (problem.kvLoraRank % sm90::kCodePanelColumns != 0)
    return (void)refuse("codes of " + Twine(problem.kvLoraRank) +
                        " columns are not of whole panels of " + Twine(sm90::kCodePanelColumns));
  if (problem.ropeDim > sm90::kPanelColumns)
    return (void)refuse("RoPE keys of " + Twine(problem.ropeDim) +
                        " columns, more than a panel's " + Twine(sm90::kPanelColumns));
  int64_t rows = countStreamRows(problem), latent = countPanels(problem.kvLoraRank);
  int64_t rope = problem.ropeDim ? 1 : 0, groups = problem.kvLoraRank / sm90::kCodePanelColumns;
  stream::Tiles tiles{rows, latent + rope, groups + rope, latent, /*hasCodes=*/true};
  tiles.consumers = stream::kCodeConsumers;
  tiles.weightTiles = problem.hasRopeCodes ? 1 : groups;
  if (tiles.heldRegisters() > target.tuning.streamOutputRegisters)
    return (void)refuse("an output of " + Twine(tiles.heldRegisters()) +
                        " registers per thread, it has " +
                        Twine(target.tuning.streamOutputRegisters));
  int64_t held = tiles.tileRegisters();
  if (int64_t room = stream::countCodeRegisters(target, problem.boxesPerPanel() != 0); held > room)
    return (void)refuse("an output with sums, scores, their mask and scales of " + Twine(held) +
                        " registers per thread, it has " + Twine(room));
  if (request.get(stream::kPartColumns))
    return (void)refuse("parts of codes are panels: it has no part-columns");
  tiles.blockBytes = tiles.stageBytes();
  std::optional<int64_t> stages = chooseStages(tiles);
  if (!stages)
    return;
  // Both operands come from registers, queries and weights are read for every 64 columns of codes.
  double rowBytes = rows * sm90::kPanelRowBytes;
  double scores = std::max((latent + rope) * rowBytes / sm.sharedBytesPerClock,
                           productCycles(kBlockKeys, rows, problem.scoreWidth()));
  double values = std::max(latent * rowBytes / sm.sharedBytesPerClock,
                           productCycles(problem.kvLoraRank, rows, kBlockKeys));
  cost.tensorCycles = productCycles(kBlockKeys, rows, problem.scoreWidth()) +
                      productCycles(problem.kvLoraRank, rows, kBlockKeys);
  // Codes in, and out twice.
  cost.sharedCycles = scores + values + 3 * tiles.stageBytes() / sm.sharedBytesPerClock;
  double transform = 2 * latent * sm.transformPanelCycles * kKeysInRegisters;
  double chain = transform + scores + countSoftmax(rows, sm) + values + 2 * sm.handoverCycles;
  double load = sm.loadLatencyCycles + cost.loadCycles;
  cost.recurrenceCycles =
      std::max(chain / static_cast<double>(tiles.consumers), (load + chain) / *stages);
  cost.itemCycles = itemCycles(chain, rows * problem.scoreWidth() * problem.elementBytes, rows);
}

void Planner::count() {
  int64_t rows = countStreamRows(problem);
  if (!problem.areRowsBounded)
    return (void)refuse("how many rows a request has is not known when compiling");
  if (problem.kvLoraRank % sm90::kPanelColumns != 0)
    return (void)refuse((problem.keyWidth ? "a value of " : "a latent of ") +
                        Twine(problem.kvLoraRank) + " columns is not of whole panels of " +
                        Twine(sm90::kPanelColumns));
  if (int64_t most = getMostRows(problem); rows > most)
    return (void)refuse(Twine(problem.rows()) + " rows per request, its products hold " +
                        Twine(most));
  bool areHeadsCodes = problem.hasCodes() && problem.keyWidth;
  if (problem.hasCodes() && !areHeadsCodes)
    return countCodes();
  if (areHeadsCodes && problem.keyWidth % sm90::kPanelColumns != 0)
    return (void)refuse("codes of keys of " + Twine(problem.keyWidth) +
                        " columns are not of whole panels of " + Twine(sm90::kPanelColumns));
  int64_t latent = countPanels(problem.kvLoraRank);
  int64_t keys =
      problem.keyWidth ? countPanels(problem.keyWidth) : latent + countPanels(problem.ropeDim);
  int64_t panels = keys + (problem.keyWidth ? latent : 0);
  const int64_t operandPanels = panels;
  if (areHeadsCodes)
    panels = llvm::divideCeil(problem.keyWidth, sm90::kCodePanelColumns) +
             llvm::divideCeil(problem.kvLoraRank, sm90::kCodePanelColumns);
  // As the conversion to tile divides the rows of values of their own (PagedKernel).
  constexpr int64_t kSideRows = sm90::kTileRows / kSides;
  int64_t sides = problem.keyWidth && rows > kSideRows && !areHeadsCodes ? kSides : 1;
  if (sides > 1)
    rows = llvm::alignTo(llvm::divideCeil(problem.rows(), kSides), sm90::kColumnGroup);
  stream::Tiles tiles{rows, keys, panels, latent, /*hasCodes=*/false, sides};
  if (problem.keyWidth)
    tiles.consumers = stream::countConsumers(tiles, target, areHeadsCodes);
  tiles.canHaveSlots = !areHeadsCodes;
  if (tiles.heldRegisters() > target.tuning.streamOutputRegisters)
    return (void)refuse("an output of " + Twine(tiles.heldRegisters()) +
                        " registers per thread, it has " +
                        Twine(target.tuning.streamOutputRegisters));
  if (int64_t held = stream::countTileRegisters(rows, latent);
      areHeadsCodes && held > target.tuning.streamTileRegisters)
    return (void)refuse("an output of codes with sums, scores and their mask of " + Twine(held) +
                        " registers per thread, it has " +
                        Twine(target.tuning.streamTileRegisters));
  int64_t stageBytes = tiles.stageBytes();
  tiles.blockBytes = problem.keyWidth ? kBlockKeys * (problem.keyWidth + problem.kvLoraRank) *
                                            (areHeadsCodes ? 1 : problem.elementBytes)
                                      : tiles.stageBytes();
  const int64_t slots = tiles.countSlots(target.sharedBytes);
  if (std::optional<int64_t> columns = request.get(stream::kPartColumns)) {
    if (slots)
      return (void)refuse("parts of a ring of panels are panels: it has no part-columns");
    cost.parameters.set(stream::kPartColumns, *columns);
  }
  std::optional<int64_t> stages = chooseStages(tiles);
  if (!stages)
    return;
  double scores = countProducts(sides * keys, rows, areHeadsCodes, sm);
  double values = countProducts(sides * latent, rows, areHeadsCodes, sm);
  double width = problem.scoreWidth();
  cost.tensorCycles = sides * (productCycles(kBlockKeys, rows, width) +
                               productCycles(problem.kvLoraRank, rows, kBlockKeys));
  // Codes come in and go out to registers.
  double moved = stageBytes * (areHeadsCodes ? 2 : 1);
  cost.sharedCycles = scores + values + moved / sm.sharedBytesPerClock;
  double transform =
      areHeadsCodes ? operandPanels / 2.0 * sm.transformPanelCycles * kKeysInRegisters : 0;
  double chain = transform + scores + countSoftmax(rows, sm) + values + 2 * sm.handoverCycles;
  // Scores begin on the first part of a stage while the rest arrives.
  int64_t partPanels = slots ? 1 : target.tuning.streamPartColumns / sm90::kPanelColumns;
  double parts = std::ceil(static_cast<double>(keys) / partPanels);
  double held = chain - scores * (parts - 1) / parts;
  if (areHeadsCodes) // released under the scores' product
    held = transform + scores;
  // Pages that TMA cannot copy are copied by all threads of a warpgroup.
  double boxes = panels * problem.boxesPerPanel();
  double load = sm.loadLatencyCycles + std::max(cost.loadCycles, boxes * sm.copyIssueCycles);
  // Of consumers that take turns each has its own chain.
  double blocks = slots ? static_cast<double>(slots) / static_cast<double>(panels) : *stages;
  cost.recurrenceCycles =
      std::max(chain / static_cast<double>(tiles.consumers), (load + held) / blocks);
  cost.itemCycles = itemCycles(chain, sides * rows * width * problem.elementBytes, rows);
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
      if (search.problem.hasCodes() && columns != kPartColumns[0])
        break; // it has no such parts
      ScheduleRequest next = request;
      next.propose(stream::kStages, stages);
      if (!search.problem.hasCodes())
        next.propose(stream::kPartColumns, columns);
      search.add(plan(search.problem, search.target, next));
    }
}

static constexpr PagedModel kPaged = {plan, countStreamRows, search};
static constexpr const ScheduleParameter *kParameters[] = {&stream::kStages, &stream::kPartColumns,
                                                           &kLazyThreshold};

const ScheduleModel mlac::kStreamModel = {kParameters, &kPaged, nullptr};
