//===- RelayModel.cpp - what fits relay and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Relay/RelayModel.h"

#include "mla/Analysis/SchedulePlanner.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlac;
using namespace mlir;
using llvm::alignDown;
using llvm::divideCeil;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

static int64_t countPanels(int64_t columns) { return divideCeil(columns, sm90::kPanelColumns); }

/// Codes have half the bytes of operands, in whole panels of twice as many columns.
RelayShape::RelayShape(int64_t left, int64_t right, int64_t rope, bool hasCodes, bool hasRopeCodes)
    : left(left), right(right), rope(rope), codes((hasCodes ? divideCeil(left + right, 2) : 0) +
                                                  (hasRopeCodes ? divideCeil(rope, 2) : 0)),
      hasCodes(hasCodes) {}

RelayShape::RelayShape(const AttentionProblem &problem)
    : RelayShape(divideCeil(countPanels(problem.kvLoraRank), 2),
                 countPanels(problem.kvLoraRank) / 2, countPanels(problem.ropeDim),
                 problem.hasCodes(), problem.hasRopeCodes) {}

std::string mlac::findHalvesFault(int64_t columns) {
  constexpr int64_t kHalves = 2;
  if (countPanels(columns) % kHalves != 0)
    return ("a latent of " + Twine(columns) +
            " columns does not divide into two halves of whole panels of " +
            Twine(sm90::kPanelColumns))
        .str();
  if (countPanels(columns) / kHalves * sm90::kPanelColumns > sm90::kMaxWgmmaColumns)
    return ("half a latent of " + Twine(columns) + " columns does not fit one product's " +
            Twine(sm90::kMaxWgmmaColumns))
        .str();
  return "";
}

RelayOrder::RelayOrder(const ParameterValues &values)
    : leftStages(values.get(relay::kLeftStages).value_or(0)),
      rightStages(values.get(relay::kRightStages).value_or(0)),
      ropeStages(values.get(relay::kRopeStages).value_or(0)),
      gate(values.get(relay::kGate).value_or(GateEdge::None)),
      early(values.get(relay::kEarly).value_or(0)),
      issue(values.get(relay::kIssue).value_or(IssuePoint::AfterExponential)) {}

void RelayOrder::write(ParameterValues &values) const {
  values.set(relay::kLeftStages, leftStages);
  values.set(relay::kRightStages, rightStages);
  if (ropeStages)
    values.set(relay::kRopeStages, ropeStages);
  values.set(relay::kGate, gate);
  values.set(relay::kEarly, early);
  values.set(relay::kIssue, issue);
}

RelayOrder RelayOrder::getLeast(bool hasRope, bool hasCodes, bool hasRopeCodes) {
  RelayOrder order;
  order.leftStages = 2;
  order.rightStages = hasCodes ? 1 : 2;
  // The scores' role frees a slot of RoPE keys before the next but one comes. RoPE's codes go to
  // registers.
  order.ropeStages = !hasRope || hasRopeCodes ? 0 : 2;
  return order;
}

int64_t mlac::countRelayBytes(const RelayShape &shape, const RelayOrder &order) {
  constexpr int64_t kPanelBytes = kBlockKeys * sm90::kPanelRowBytes;
  // Row vectors, aligned like tiles, and barriers; with codes scratch of folds and scales.
  const int64_t smallBytes = (shape.hasCodes ? 3 : 2) * sm90::kSwizzleAtomBytes;
  int64_t panels = 1 + shape.queryPanels() + shape.codes + order.leftStages * shape.left +
                   order.rightStages * shape.right + order.ropeStages * shape.rope;
  return panels * kPanelBytes + smallBytes;
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();

class Planner : PagedPlanner {
public:
  using PagedPlanner::PagedPlanner;
  ScheduleCost plan() {
    countMemory(ScheduleKind::Relay);
    if (startTensorCores(ScheduleKind::Relay))
      count();
    return std::move(cost);
  }

private:
  void count();
  /// Boxes of fewer rows than a swizzle's are none.
  bool copiesRows() const { return problem.pageSize < sm90::kSwizzleRows; }
  bool hasRopeRing(const RelayShape &shape) const {
    return shape.rope != 0 && !problem.hasRopeCodes;
  }
  bool chooseRegisters(const RelayShape &shape);
  bool takeRegisters(const RelayRegisters &registers);
  bool checkDepths(const RelayShape &shape);
  bool chooseDepths(const RelayShape &shape);
  void deepenRings(const RelayShape &shape);
  bool orderRoles(const RelayShape &shape);
  void countCycles(const RelayShape &shape);
  double getPeriod(const RelayOrder &candidate) const {
    std::optional<Recurrence> recurrence = solveRelay(problem, target, candidate);
    return recurrence ? recurrence->period : kNever;
  }

  RelayOrder order;
};
} // namespace

void Planner::count() {
  RelayShape shape(problem);
  // Without rope keys ptxas 13.0 spills 4 to 8 bytes in turns of two steps, and none
  // in turns of one (rank 512, 64 and 128 heads, page sizes 16 and 64).
  if (std::optional<int64_t> steps = request.get(relay::kStepsPerTurn); steps || !shape.rope)
    cost.parameters.set(relay::kStepsPerTurn, steps.value_or(1));
  if (std::string why = findHalvesFault(problem.kvLoraRank); !why.empty())
    return (void)refuse(why);
  if (!chooseRegisters(shape) || !chooseDepths(shape) || !orderRoles(shape))
    return;
  order.write(cost.parameters);
  countCycles(shape);
}

/// With codes they are what they are.
bool Planner::takeRegisters(const RelayRegisters &registers) {
  if (request.find(relay::kRegisters))
    return refuse("registers: with codes its roles have " + Twine(registers.scores) + " and " +
                  Twine(registers.values) + " twice");
  WarpgroupNumbers numbers{registers.scores, registers.values, registers.values};
  cost.parameters.set(relay::kRegisters, numbers);
  return true;
}

/// The register file is divided over three warpgroups at the launch (168 each,
/// 504 per column of threads) and shifted by setmaxnreg. The values' roles can only
/// give away; what they do not need the scores' role gets.
bool Planner::chooseRegisters(const RelayShape &shape) {
  if (shape.hasCodes)
    return takeRegisters(getRelayRegisters(/*hasCodes=*/true));
  const Tuning &tuning = target.tuning;
  int64_t launched = alignDown(sm90::kRegisterFile / (kRelayRoles * sm90::kWarpgroupThreads),
                               sm90::kRegisterGranule);
  int64_t column = kRelayRoles * launched;
  int64_t valuesNeed = countAccumulators(shape.left) + tuning.relayValuesRegisters;
  // Query fragments (two 16-bit elements per register), scores in the making and
  // the numerators of the block before.
  int64_t scoresNeed =
      countAccumulators(shape.partA()) / 2 + 2 * countAccumulators(1) + tuning.relayScoresRegisters;
  int64_t scores = std::min(sm90::kMaxRoleRegisters, column - 2 * valuesNeed);
  int64_t values = std::min(
      launched, static_cast<int64_t>(alignDown((column - scores) / 2, sm90::kRegisterGranule)));
  std::optional<WarpgroupNumbers> asked = request.get(relay::kRegisters);
  cost.parameters.set(relay::kRegisters, asked.value_or(WarpgroupNumbers{scores, values, values}));
  if (!asked)
    return true;
  llvm::ArrayRef<int64_t> forced = *asked;
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

bool Planner::checkDepths(const RelayShape &shape) {
  if (request.find(relay::kRopeStages) && !hasRopeRing(shape))
    return refuse(shape.rope ? "rope-stages: rope keys are codes, which have no ring"
                             : "rope-stages: there are no rope keys");
  // The next block's scores read one before this block's weights let the values leave theirs.
  if (std::optional<int64_t> left = request.get(relay::kLeftStages); left && *left < 2)
    return refuse("left-stages: expected at least 2, got " + Twine(*left));
  return true;
}

bool Planner::chooseDepths(const RelayShape &shape) {
  RelayOrder least = RelayOrder::getLeast(shape.rope != 0, shape.hasCodes, problem.hasRopeCodes);
  if (!checkDepths(shape))
    return false;
  order.issue = kRelayIssuePoint;
  order.leftStages = request.get(relay::kLeftStages).value_or(least.leftStages);
  order.rightStages = request.get(relay::kRightStages).value_or(least.rightStages);
  order.ropeStages =
      hasRopeRing(shape) ? request.get(relay::kRopeStages).value_or(least.ropeStages) : 0;
  cost.sharedBytes = countRelayBytes(shape, order);
  if (cost.sharedBytes > target.sharedBytes)
    return refuse("left-stages " + Twine(order.leftStages) + ", right-stages " +
                  Twine(order.rightStages) + " and rope-stages " + Twine(order.ropeStages) +
                  " take " + Twine(cost.sharedBytes) + " bytes of shared memory, a CTA has " +
                  Twine(target.sharedBytes));
  deepenRings(shape);
  return true;
}

/// Gives what shared memory is left to the ring whose depth shortens the period
/// most; where none does, to the shallowest, which has the least slack.
void Planner::deepenRings(const RelayShape &shape) {
  struct Ring {
    int64_t RelayOrder::*stages;
    bool isForced;
  };
  const Ring rings[] = {{&RelayOrder::leftStages, request.find(relay::kLeftStages) != nullptr},
                        {&RelayOrder::rightStages, request.find(relay::kRightStages) != nullptr},
                        {&RelayOrder::ropeStages,
                         request.find(relay::kRopeStages) != nullptr || !hasRopeRing(shape)}};
  // A gate's advantage shows only when the rings are deep enough, so depths are
  // compared at the gate that favours the shallow ring.
  RelayOrder current = order;
  current.gate = GateEdge::Left;
  for (;;) {
    std::optional<RelayOrder> best;
    double bestPeriod = 0;
    int64_t bestDepth = 0;
    for (const Ring &ring : rings) {
      RelayOrder deeper = current;
      int64_t depth = deeper.*ring.stages += 1;
      if (ring.isForced || countRelayBytes(shape, deeper) > target.sharedBytes)
        continue;
      double period = getPeriod(deeper);
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
  current.gate = order.gate;
  order = current;
  cost.sharedBytes = countRelayBytes(shape, order);
}

/// Gate and early panels with the shortest period; the first of those that are equal
/// within noise.
bool Planner::orderRoles(const RelayShape &shape) {
  std::optional<int64_t> askedEarly = request.get(relay::kEarly);
  std::optional<GateEdge> askedGate = request.get(relay::kGate);
  std::optional<IssuePoint> askedIssue = request.get(relay::kIssue);
  int64_t mostEarly = shape.partB() - 1;
  if (askedEarly && *askedEarly > mostEarly)
    return refuse("early: " + Twine(*askedEarly) + " panels, the gate must wait for one of " +
                  Twine(shape.partB()));
  if (askedGate && !llvm::is_contained(kRelayGates, *askedGate))
    return refuse("gate: relay has none and left, got " +
                  kGateNames[static_cast<size_t>(*askedGate)]);
  if (askedGate && !gatesLeft(*askedGate) && askedEarly && *askedEarly > 0)
    return refuse("early: " + Twine(*askedEarly) + " panels before a gate that is not there");
  if (askedIssue && *askedIssue != order.issue)
    return refuse("issue: relay has " + kIssueNames[static_cast<size_t>(order.issue)] + ", got " +
                  kIssueNames[static_cast<size_t>(*askedIssue)]);
  RelayOrder best = order;
  double bestPeriod = kNever;
  for (GateEdge gate : kRelayGates)
    for (int64_t early = 0; early <= mostEarly; ++early) {
      // With codes it opens behind the last product of scores, which pays where threads copy rows
      // (2 to 6 %), and costs up to 3 % where TMA does (docs/lab/codes.md).
      if (problem.hasCodes() && (early > 0 || (!askedGate && gatesLeft(gate) != copiesRows())))
        continue;
      if ((askedGate && *askedGate != gate) || (askedEarly && *askedEarly != early) ||
          (early > 0 && !gatesLeft(gate)))
        continue;
      RelayOrder next = order;
      next.gate = gate;
      next.early = early;
      double period = getPeriod(next);
      if (!isFaster(period, bestPeriod))
        continue;
      best = next;
      bestPeriod = period;
    }
  order = best;
  return bestPeriod != kNever || refuse("its roles would wait for each other for ever");
}

void Planner::countCycles(const RelayShape &shape) {
  int64_t panels = shape.left + shape.right;
  double depths = kBlockKeys * sm90::kPanelColumns;
  cost.tensorCycles =
      (shape.partA() + shape.partB() + panels) * productCycles(sm90::kTileRows, depths, 1);
  // Scores read keys, and queries unless they are in registers; products read
  // values, and each role the weights.
  double read = shape.partA() + shape.partB() + shape.queryPanels() + panels + 2;
  double written = shape.partA() + shape.partB() + 1;
  // Codes are brought and read, half of the bytes, instead of operands; these are written for
  // values.
  if (shape.hasCodes) {
    read -= panels / 2.0;
    written += panels / 2.0;
  }
  cost.sharedCycles = (read + written) * kPanelBytes / sm.sharedBytesPerClock;
  Recurrence recurrence = *solveRelay(problem, target, order);
  cost.recurrenceCycles = recurrence.period;
  cost.itemCycles = itemCycles(recurrence.fill, shape.queryPanels() * kPanelBytes, sm90::kTileRows);
}

ScheduleCost mlac::planRelay(const AttentionProblem &problem, const TargetDescription &target,
                             const ScheduleRequest &request) {
  return Planner(problem, target, request).plan();
}

static constexpr PagedModel kPaged = {
    planRelay, [](const AttentionProblem &) { return sm90::kTileRows; }, searchRelay, followRelay};
static constexpr const ScheduleParameter *kParameters[] = {
    &relay::kLeftStages, &relay::kRightStages,  &relay::kRopeStages,
    &relay::kGate,       &relay::kEarly,        &relay::kIssue,
    &relay::kRegisters,  &relay::kStepsPerTurn, &kLazyThreshold};

const ScheduleModel mlac::kRelayModel = {kParameters, &kPaged, nullptr};
