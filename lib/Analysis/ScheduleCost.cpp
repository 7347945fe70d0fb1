//===- ScheduleCost.cpp - which schedule of attention fits and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleCost.h"

#include "SchedulePlanner.h"

#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlac;
using namespace mlir;
using llvm::alignDown;
using llvm::divideCeil;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static constexpr int64_t kPanelBytes = kBlockKeys * sm90::kPanelRowBytes;
/// Row vectors, aligned like tiles, and barriers.
static constexpr int64_t kSmallBytes = 2 * sm90::kSwizzleAtomBytes;

static int64_t countPanels(int64_t columns) { return divideCeil(columns, sm90::kPanelColumns); }

int64_t AttentionProblem::rowsPerTile(ScheduleKind kind) const {
  return kind == ScheduleKind::Stream ? llvm::alignTo(rows(), sm90::kColumnGroup) : sm90::kTileRows;
}

int64_t AttentionProblem::rowTiles(ScheduleKind kind) const {
  return divideCeil(rows(), rowsPerTile(kind));
}

/// Boxes fill whole swizzle atoms, and a block consists of whole boxes.
int64_t AttentionProblem::boxesPerPanel() const {
  if (pageSize % kBlockKeys == 0)
    return 1;
  return pageSize >= sm90::kSwizzleRows && kBlockKeys % pageSize == 0 ? kBlockKeys / pageSize : 0;
}

RelayShape::RelayShape(const AttentionProblem &problem)
    : left(divideCeil(countPanels(problem.kvLoraRank), 2)),
      right(countPanels(problem.kvLoraRank) - left), rope(countPanels(problem.ropeDim)) {}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

double ScheduleCost::getBlockNanoseconds(const TargetDescription &target) const {
  return std::max(getStepCycles() / target.sm.clockGhz, memoryNanoseconds);
}

llvm::StringRef ScheduleCost::getBound(const TargetDescription &target) const {
  if (memoryNanoseconds >= getStepCycles() / target.sm.clockGhz)
    return "device memory";
  return getLargestTerm("the roles' recurrence");
}

namespace {
/// Relative difference below which two times are the same: what one kernel under
/// two names differs by in one run (docs/performance.md).
constexpr double kNoise = 0.002;
constexpr double kNever = std::numeric_limits<double>::infinity();
bool isFaster(double time, double than) { return time < than * (1 - kNoise); }

class Planner : SchedulePlanner<AttentionProblem, ScheduleCost> {
public:
  using SchedulePlanner::SchedulePlanner;
  ScheduleCost plan(ScheduleKind kind);

private:
  void planSimple();
  void planRelay();
  void planStream();

  // Relay.
  bool checkRelayShape(const RelayShape &shape);
  bool chooseRegisters(const RelayShape &shape);
  int64_t countRelayBytes(const RelayShape &shape, const ScheduleParameters &parameters) const;
  bool checkDepths(const RelayShape &shape);
  bool chooseDepths(const RelayShape &shape);
  void deepenRings(const RelayShape &shape);
  bool orderRoles(const RelayShape &shape);
  void countRelay(const RelayShape &shape);
  double getRelayPeriod(const ScheduleParameters &parameters) const {
    std::optional<Recurrence> recurrence = solveRelay(problem, target, parameters);
    return recurrence ? recurrence->period : kNever;
  }

  /// Filling and draining (`fill`), queries that wait for their tile to be free,
  /// and the output's way to L2.
  double itemCycles(double fill, double exposedQueryBytes, double outputRows) const {
    double hidden = sm.exponentialCycles + sm.packCycles;
    double query = sm.loadLatencyCycles + loadCycles(exposedQueryBytes) - hidden;
    double outputBytes = outputRows * problem.kvLoraRank * problem.elementBytes;
    return fill + std::max(0.0, query) + outputBytes / sm.storeBytesPerClock;
  }
};
} // namespace

ScheduleCost Planner::plan(ScheduleKind kind) {
  bool isAllowed = start(kind);
  cost.loadCycles = loadCycles(problem.storedBlockBytes());
  double readGbpsPerSm = target.readGbps / target.numSms;
  cost.memoryNanoseconds = problem.storedBlockBytes() / problem.rowTiles(kind) / readGbpsPerSm;
  if (!isAllowed)
    return std::move(cost);
  if (kind == ScheduleKind::Simple)
    planSimple();
  else if (problem.elementBytes != 2)
    refuse("wgmma needs elements of 2 bytes, got " + Twine(problem.elementBytes));
  else if (kind == ScheduleKind::Relay)
    planRelay();
  else
    planStream();
  return std::move(cost);
}

//===----------------------------------------------------------------------===//
// Simple
//===----------------------------------------------------------------------===//

/// Nothing overlaps: copies, scores (by every warpgroup for itself), softmax,
/// products, and a barrier after each.
void Planner::planSimple() {
  constexpr int64_t kBarriers = 4;
  double rows = sm90::kTileRows, width = problem.kvLoraRank + problem.ropeDim;
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

//===----------------------------------------------------------------------===//
// Relay
//===----------------------------------------------------------------------===//

void Planner::planRelay() {
  RelayShape shape(problem);
  // Without rope keys ptxas 13.0 spills 4 to 8 bytes in turns of two steps, and none
  // in turns of one (rank 512, 64 and 128 heads, page sizes 16 and 64).
  cost.parameters.stepsPerTurn = request.stepsPerTurn.value_or(shape.rope ? 0 : 1);
  if (!checkRelayShape(shape) || !chooseRegisters(shape) || !chooseDepths(shape) ||
      !orderRoles(shape))
    return;
  countRelay(shape);
}

bool Planner::checkRelayShape(const RelayShape &shape) {
  constexpr int64_t kHalves = 2;
  if (shape.left != shape.right)
    return refuse("a latent of " + Twine(problem.kvLoraRank) +
                  " columns does not divide into two halves of whole panels of " +
                  Twine(sm90::kPanelColumns));
  if (shape.left * sm90::kPanelColumns > sm90::kMaxWgmmaColumns)
    return refuse("half a latent of " + Twine(problem.kvLoraRank) +
                  " columns does not fit one product's " + Twine(sm90::kMaxWgmmaColumns));
  static_assert(kHalves * sm90::kMaxWgmmaColumns == 512);
  return true;
}

/// Per thread: 64 x `panels`·64 f32 over 128 threads.
static int64_t countAccumulators(int64_t panels) {
  return panels * sm90::kTileRows * sm90::kPanelColumns / sm90::kWarpgroupThreads;
}

/// The register file is divided over three warpgroups at the launch (168 each,
/// 504 per column of threads) and shifted by setmaxnreg. The values' roles can only
/// give away; what they do not need the scores' role gets.
bool Planner::chooseRegisters(const RelayShape &shape) {
  constexpr int64_t kRoles = 3;
  // Addresses, counters and rescaling beside the accumulators. Measured: with 128
  // accumulators 168 is clean, 160 spills and 152 serialises wgmma
  // (docs/lab/decode.md).
  constexpr int64_t kWorking = 40, kScoresWorking = 32;
  int64_t launched =
      alignDown(sm90::kRegisterFile / (kRoles * sm90::kWarpgroupThreads), sm90::kRegisterGranule);
  int64_t column = kRoles * launched;
  int64_t valuesNeed = countAccumulators(shape.left) + kWorking;
  // Query fragments (two 16-bit elements per register), scores in the making and
  // the numerators of the block before.
  int64_t scoresNeed =
      countAccumulators(shape.partA()) / 2 + 2 * countAccumulators(1) + kScoresWorking;
  int64_t scores = std::min(sm90::kMaxRoleRegisters, column - 2 * valuesNeed);
  int64_t values = std::min(
      launched, static_cast<int64_t>(alignDown((column - scores) / 2, sm90::kRegisterGranule)));
  cost.parameters.registers = {scores, values, values};
  if (!request.registers)
    return true;
  llvm::ArrayRef<int64_t> forced = *request.registers;
  cost.parameters.registers.assign(forced.begin(), forced.end());
  for (int64_t registers : forced)
    if (registers % sm90::kRegisterGranule != 0 || registers < sm90::kMinRoleRegisters ||
        registers > sm90::kMaxRoleRegisters)
      return refuse("registers: " + Twine(registers) + " is not a multiple of " +
                    Twine(sm90::kRegisterGranule) + " from " + Twine(sm90::kMinRoleRegisters) +
                    " to " + Twine(sm90::kMaxRoleRegisters));
  if (int64_t sum = forced[0] + forced[1] + forced[2]; sum > column)
    return refuse("registers: " + Twine(sum) + " per column of threads, three warpgroups have " +
                  Twine(column));
  if (forced[1] != forced[2])
    return refuse("registers: " + Twine(forced[1]) + " and " + Twine(forced[2]) +
                  " for the values' halves, which have the same");
  if (forced[0] < scoresNeed)
    return refuse("registers: " + Twine(forced[0]) + " for scores, which need " +
                  Twine(scoresNeed));
  for (int64_t registers : forced.drop_front())
    if (registers < valuesNeed || registers > launched)
      return refuse("registers: " + Twine(registers) + " for values, which need " +
                    Twine(valuesNeed) + " and start with " + Twine(launched));
  return true;
}

/// One tile of weights, the queries that are not in registers, and the rings.
/// Queries for part A arrive through a slot of the left ring.
int64_t Planner::countRelayBytes(const RelayShape &shape,
                                 const ScheduleParameters &parameters) const {
  int64_t panels = 1 + shape.partB() + parameters.leftStages * shape.left +
                   parameters.rightStages * shape.right + parameters.ropeStages * shape.rope;
  // Codes of one block beside the operands: half the bytes, but RoPE's rows are padded.
  if (problem.hasCodes())
    panels += divideCeil(shape.left + shape.right, 2) + (problem.hasRopeCodes ? shape.rope : 0);
  return panels * kPanelBytes + kSmallBytes;
}

bool Planner::checkDepths(const RelayShape &shape) {
  if (request.ropeStages && shape.rope == 0)
    return refuse("rope-stages: there are no rope keys");
  // The next block's scores read one before this block's weights let the values leave theirs.
  if (request.leftStages && *request.leftStages < 2)
    return refuse("left-stages: expected at least 2, got " + Twine(*request.leftStages));
  return true;
}

bool Planner::chooseDepths(const RelayShape &shape) {
  // One slot is read while another is loaded.
  constexpr int64_t kLeast = 2;
  ScheduleParameters &chosen = cost.parameters;
  if (!checkDepths(shape))
    return false;
  chosen.leftStages = request.leftStages.value_or(kLeast);
  chosen.rightStages = request.rightStages.value_or(kLeast);
  // The scores' role frees a slot of RoPE keys before the next but one comes; with one the
  // padded codes fit.
  int64_t ropeLeast = problem.hasRopeCodes ? 1 : kLeast;
  chosen.ropeStages = shape.rope ? request.ropeStages.value_or(ropeLeast) : 0;
  cost.sharedBytes = countRelayBytes(shape, chosen);
  if (cost.sharedBytes > target.sharedBytes)
    return refuse("left-stages " + Twine(chosen.leftStages) + ", right-stages " +
                  Twine(chosen.rightStages) + " and rope-stages " + Twine(chosen.ropeStages) +
                  " take " + Twine(cost.sharedBytes) + " bytes of shared memory, a CTA has " +
                  Twine(target.sharedBytes));
  deepenRings(shape);
  return true;
}

/// Gives what shared memory is left to the ring whose depth shortens the period
/// most; where none does, to the shallowest, which has the least slack.
void Planner::deepenRings(const RelayShape &shape) {
  struct Ring {
    int64_t ScheduleParameters::*stages;
    bool isForced;
  };
  const Ring rings[] = {
      {&ScheduleParameters::leftStages, request.leftStages.has_value()},
      {&ScheduleParameters::rightStages, request.rightStages.has_value()},
      {&ScheduleParameters::ropeStages, request.ropeStages.has_value() || shape.rope == 0}};
  // A gate's advantage shows only when the rings are deep enough, so depths are
  // compared at the gate that favours the shallow ring.
  ScheduleParameters current = cost.parameters;
  current.gate = GateEdge::Left;
  for (;;) {
    std::optional<ScheduleParameters> best;
    double bestPeriod = 0;
    int64_t bestDepth = 0;
    for (const Ring &ring : rings) {
      ScheduleParameters deeper = current;
      int64_t depth = deeper.*ring.stages += 1;
      if (ring.isForced || countRelayBytes(shape, deeper) > target.sharedBytes)
        continue;
      double period = getRelayPeriod(deeper);
      bool isShorter = best && isFaster(period, bestPeriod);
      bool isEqual = best && !isShorter && !isFaster(bestPeriod, period);
      if (!best || isShorter || (isEqual && depth < bestDepth)) {
        best = deeper;
        bestPeriod = period;
        bestDepth = depth;
      }
    }
    if (!best)
      break;
    current = *best;
  }
  cost.parameters.leftStages = current.leftStages;
  cost.parameters.rightStages = current.rightStages;
  cost.parameters.ropeStages = current.ropeStages;
  cost.sharedBytes = countRelayBytes(shape, cost.parameters);
}

/// Gate, early panels and issue point with the shortest period; the first of
/// those that are equal within noise.
bool Planner::orderRoles(const RelayShape &shape) {
  int64_t mostEarly = shape.partB() - 1;
  if (request.early && *request.early > mostEarly)
    return refuse("early: " + Twine(*request.early) + " panels, the gate must wait for one of " +
                  Twine(shape.partB()));
  if (request.gate && !llvm::is_contained(kRelayGates, *request.gate))
    return refuse("gate: relay has none and left, got " + getName(*request.gate));
  if (request.gate && !gatesLeft(*request.gate) && request.early && *request.early > 0)
    return refuse("early: " + Twine(*request.early) + " panels before a gate that is not there");
  if (request.issue && !llvm::is_contained(kRelayIssuePoints, *request.issue))
    return refuse("issue: relay has after-exp, got " + getName(*request.issue));
  ScheduleParameters best = cost.parameters;
  double bestPeriod = kNever;
  for (GateEdge gate : kRelayGates)
    for (IssuePoint issue : kRelayIssuePoints)
      for (int64_t early = 0; early <= mostEarly; ++early) {
        if ((request.gate && *request.gate != gate) || (request.issue && *request.issue != issue) ||
            (request.early && *request.early != early) || (early > 0 && !gatesLeft(gate)))
          continue;
        ScheduleParameters next = cost.parameters;
        next.gate = gate;
        next.issue = issue;
        next.early = early;
        double period = getRelayPeriod(next);
        if (!isFaster(period, bestPeriod))
          continue;
        best = next;
        bestPeriod = period;
      }
  cost.parameters = best;
  return bestPeriod != kNever || refuse("its roles would wait for each other for ever");
}

void Planner::countRelay(const RelayShape &shape) {
  int64_t panels = shape.left + shape.right;
  double depths = kBlockKeys * sm90::kPanelColumns;
  cost.tensorCycles =
      (shape.partA() + shape.partB() + panels) * productCycles(sm90::kTileRows, depths, 1);
  // Scores read keys, and queries unless they are in registers; products read
  // values, and each role the weights.
  double read = shape.partA() + 2 * shape.partB() + panels + 2;
  double written = shape.partA() + shape.partB() + 1;
  cost.sharedCycles = (read + written) * kPanelBytes / sm.sharedBytesPerClock;
  Recurrence recurrence = *solveRelay(problem, target, cost.parameters);
  cost.recurrenceCycles = recurrence.period;
  cost.itemCycles = itemCycles(recurrence.fill, shape.partB() * kPanelBytes, sm90::kTileRows);
}

//===----------------------------------------------------------------------===//
// Stream
//===----------------------------------------------------------------------===//

void Planner::planStream() {
  int64_t rows = problem.rowsPerTile(ScheduleKind::Stream);
  if (!problem.areRowsBounded)
    return (void)refuse("how many rows a request has is not known when compiling");
  if (problem.hasCodes())
    return (void)refuse("keys are codes, and no role of it turns them into operands");
  if (problem.kvLoraRank % sm90::kPanelColumns != 0)
    return (void)refuse("a latent of " + Twine(problem.kvLoraRank) +
                        " columns is not of whole panels of " + Twine(sm90::kPanelColumns));
  if (rows > kMaxStreamRows)
    return (void)refuse(Twine(problem.rows()) + " rows per request, its products hold " +
                        Twine(kMaxStreamRows));
  int64_t latent = countPanels(problem.kvLoraRank), panels = latent + countPanels(problem.ropeDim);
  int64_t outputs = latent * countAccumulators(1) * rows / sm90::kTileRows;
  if (outputs > target.tuning.streamOutputRegisters)
    return (void)refuse("an output of " + Twine(outputs) + " registers per thread, it has " +
                        Twine(target.tuning.streamOutputRegisters));
  // Queries, of two items, and weights have `rows` rows.
  int64_t fixedBytes = (2 * panels + 1) * rows * sm90::kPanelRowBytes + kSmallBytes;
  int64_t stageBytes = panels * kPanelBytes;
  int64_t most = (target.sharedBytes - fixedBytes) / stageBytes;
  int64_t stages =
      request.stages.value_or(std::clamp<int64_t>(most, 2, target.tuning.streamStages));
  cost.parameters.stages = stages;
  cost.parameters.partColumns = request.partColumns.value_or(0);
  cost.sharedBytes = fixedBytes + stages * stageBytes;
  if (stages < 2)
    return (void)refuse("stages: " + Twine(stages) + ", one is read while another is loaded");
  if (stages > most)
    return (void)refuse("stages: " + Twine(stages) + " take " + Twine(cost.sharedBytes) +
                        " bytes of shared memory, a CTA has " + Twine(target.sharedBytes));
  // wgmma with `rows` columns reads its left operand of 64 rows whatever `rows` is.
  double readPerPanel = kPanelBytes + rows * sm90::kPanelRowBytes;
  double scores = panels * readPerPanel / sm.sharedBytesPerClock;
  double values = latent * readPerPanel / sm.sharedBytesPerClock;
  double width = problem.kvLoraRank + problem.ropeDim;
  cost.tensorCycles =
      productCycles(kBlockKeys, rows, width) + productCycles(problem.kvLoraRank, rows, kBlockKeys);
  cost.sharedCycles = scores + values + stageBytes / sm.sharedBytesPerClock;
  // Maxima and sums run over M, so warps meet for each: two handovers more.
  double softmax =
      (sm.exponentialCycles + sm.packCycles) * rows / sm90::kTileRows + 2 * sm.handoverCycles;
  double chain = scores + softmax + values + 2 * sm.handoverCycles;
  // Scores begin on the first part of a stage while the rest arrives.
  int64_t partPanels = target.tuning.streamPartColumns / sm90::kPanelColumns;
  double parts = std::ceil(static_cast<double>(panels) / partPanels);
  double held = chain - scores * (parts - 1) / parts;
  // Pages that TMA cannot copy are copied by all threads of a warpgroup.
  double boxes = panels * problem.boxesPerPanel();
  double load = sm.loadLatencyCycles + std::max(cost.loadCycles, boxes * sm.copyIssueCycles);
  cost.recurrenceCycles = std::max(chain, (load + held) / stages);
  cost.itemCycles = itemCycles(chain, rows * width * problem.elementBytes, rows);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

ScheduleCost mlac::computeScheduleCost(const AttentionProblem &problem,
                                       const TargetDescription &target, ScheduleKind kind,
                                       const ScheduleRequest &request) {
  return Planner(problem, target, request).plan(kind);
}

ScheduleChoice mlac::chooseSchedule(const AttentionProblem &problem,
                                    const TargetDescription &target, const ScheduleRequest &request,
                                    llvm::StringRef whyNotRelay) {
  ScheduleChoice choice;
  for (ScheduleKind kind : kPagedScheduleKinds)
    choice.costs.push_back(computeScheduleCost(problem, target, kind, request));
  for (ScheduleCost &cost : choice.costs)
    if (cost.parameters.kind == ScheduleKind::Relay && cost.isFeasible())
      cost.whyNot = whyNotRelay.str();
  const ScheduleCost *best = nullptr;
  for (const ScheduleCost &cost : choice.costs) {
    if (!cost.isFeasible() || (request.kind && *request.kind != cost.parameters.kind))
      continue;
    double time = cost.getBlockNanoseconds(target);
    double bestTime = best ? best->getBlockNanoseconds(target) : 0;
    bool isEqual = best && !isFaster(time, bestTime) && !isFaster(bestTime, time);
    if (!best || isFaster(time, bestTime) ||
        (isEqual && isFaster(cost.tensorCycles, best->tensorCycles)))
      best = &cost;
  }
  if (best) {
    choice.chosen = best - choice.costs.begin();
    return choice;
  }
  for (const ScheduleCost &cost : choice.costs)
    if (!request.kind || *request.kind == cost.parameters.kind)
      choice.error += (choice.error.empty() ? "" : "; ") + getName(cost.parameters.kind).str() +
                      ": " + cost.whyNot;
  return choice;
}
