//===- RelayRecurrenceModel.cpp - the period of the relay schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The roles of relay as programs for RolePipeline.h, unrolled over enough
// blocks that the period has settled. Per block i, with both gates drawn (`early`
// panels of B do not hold the left gate):
//
//   scores   B(i) | wait | exponentials | issue A(i+1) | round, store P(i)
//   right         wait P(i)                       | O_right += P(i) V  -> slot free, refill
//   left          wait P(i), most of B(i+1)       | O_left  += P(i) V  -> slot free, refill
//
// With codes the scores' role makes operands while their products run, and the left gate opens
// behind the last:
//
//   scores   codes -> operands, products | wait | exponentials | round, store P(i)
//
//===----------------------------------------------------------------------===//

#include "Relay/RelayModel.h"

#include "mla/Analysis/RolePipeline.h"
#include "mla/Machine/Sm90Limits.h"

#include <algorithm>

using namespace mlac;
using namespace mlir;

/// Blocks that are followed: the first 16 let the roles settle, and 24 = lcm(2, 3,
/// 4, 6, 8) periods behind them average over a full turn of every ring.
static constexpr int64_t kSettling = 16, kMeasured = 24, kBlocks = kSettling + kMeasured + 1;

namespace {
enum class Event { LeftFull, RightFull, RopeFull, PartA, MostOfB, Scores, Weights, Left, Right };
constexpr int64_t kNumKinds = static_cast<int64_t>(Event::Right) + 1;

class Relay {
public:
  Relay(const AttentionProblem &problem, const SmDescription &sm, const RelayOrder &given)
      : problem(problem), shape(problem), sm(sm), order(given) {}
  std::optional<Recurrence> solve() const;
  ScheduleTimeline follow(int64_t blocks) const;

private:
  /// Rings are deeper than the blocks at most by what makes no difference.
  static int64_t id(Event kind, int64_t block) {
    return std::min(block, kBlocks) * kNumKinds + static_cast<int64_t>(kind);
  }
  double loadCycles(int64_t panels) const;
  double scoreCycles(int64_t panels) const;
  double productCycles(int64_t panels) const { return scoreCycles(panels); }
  void issuePartA(PipelineRole &role, int64_t block) const;
  void scoreBlock(PipelineRole &role, int64_t block) const;
  std::vector<PipelineRole> makeRoles() const;
  PipelineRole makeScores() const;
  PipelineRole makeKeyScores() const;
  PipelineRole makeValues(Event done, Event full, int64_t panels, int64_t stages) const;

  const AttentionProblem &problem;
  RelayShape shape;
  const SmDescription &sm;
  const RelayOrder &order;
};
} // namespace

/// A slot is full one latency after it was freed plus what its bytes take, or what
/// its copies take to be issued: one per panel and page. Rows that all threads copy
/// are not bound by that.
double Relay::loadCycles(int64_t panels) const {
  int64_t boxes = panels * problem.boxesPerPanel();
  double bytes = panels * kBlockKeys * sm90::kPanelRowBytes;
  return sm.loadLatencyCycles + std::max(bytes / sm.l2BytesPerClock, boxes * sm.copyIssueCycles);
}

/// 64x64 results from 64 columns, or 64x64 outputs from 64 keys.
double Relay::scoreCycles(int64_t panels) const {
  constexpr double kFlops = 2.0 * sm90::kTileRows * kBlockKeys * sm90::kPanelColumns;
  return panels * kFlops / sm.tensorFlopsPerClock;
}

void Relay::issuePartA(PipelineRole &role, int64_t block) const {
  role.await(id(Event::LeftFull, block));
  role.issue(id(Event::PartA, block), scoreCycles(shape.partA()));
}

void Relay::scoreBlock(PipelineRole &role, int64_t block) const {
  if (gatesRight(order.gate) && block > 0)
    role.await(id(Event::Right, block - 1));
  role.await(id(Event::RightFull, block));
  if (shape.rope)
    role.await(id(Event::RopeFull, block));
  role.issue(id(Event::MostOfB, block), scoreCycles(shape.partB() - order.early));
  role.issue(id(Event::Scores, block), scoreCycles(order.early));
  role.await(id(Event::Scores, block));
  if (shape.rope)
    role.load(id(Event::RopeFull, block + order.ropeStages), loadCycles(shape.rope));
}

PipelineRole Relay::makeScores() const {
  PipelineRole role;
  issuePartA(role, 0);
  for (int64_t block = 0; block < kBlocks; ++block) {
    scoreBlock(role, block);
    // Waking up is half of a handover: nobody has to be told.
    role.work(sm.handoverCycles / 2);
    if (order.issue == IssuePoint::BeforeSoftmax)
      issuePartA(role, block + 1);
    role.work(sm.exponentialCycles);
    if (order.issue == IssuePoint::AfterExponential)
      issuePartA(role, block + 1);
    if (block > 0) { // the tile of weights is free again
      role.await(id(Event::Left, block - 1));
      role.await(id(Event::Right, block - 1));
    }
    role.work(sm.packCycles);
    role.signal(id(Event::Weights, block));
    if (order.issue == IssuePoint::AfterStore)
      issuePartA(role, block + 1);
  }
  return role;
}

/// Starts with its ring full: roles run ahead into the next item.
PipelineRole Relay::makeValues(Event done, Event full, int64_t panels, int64_t stages) const {
  PipelineRole role;
  for (int64_t block = 0; block < stages && !problem.hasCodes(); ++block)
    role.signal(id(full, block));
  for (int64_t block = 0; block < kBlocks; ++block) {
    role.await(id(Event::Weights, block));
    if (done == Event::Left && gatesLeft(order.gate) && block + 1 < kBlocks)
      role.await(id(Event::MostOfB, block + 1));
    role.work(sm.handoverCycles);
    role.issue(id(done, block), productCycles(panels));
    role.await(id(done, block));
    if (!problem.hasCodes())
      role.load(id(full, block + stages), loadCycles(panels));
  }
  return role;
}

/// A half of codes is read when it has come, its operands stored where a product before is done,
/// and the next block's codes come in its place.
PipelineRole Relay::makeKeyScores() const {
  PipelineRole role;
  auto multiply = [&](Event done, Event full, Event product, int64_t panels, int64_t stages,
                      int64_t block) {
    role.await(id(full, block));
    if (block >= stages)
      role.await(id(done, block - stages));
    role.issue(id(product, block), scoreCycles(panels));
    role.work(panels * sm.turnPanelCycles);
    role.load(id(full, block + 1), loadCycles(panels) / 2);
  };
  for (int64_t block = 0; block < kBlocks; ++block) {
    multiply(Event::Left, Event::LeftFull, Event::PartA, shape.left, order.leftStages, block);
    multiply(Event::Right, Event::RightFull, Event::Scores, shape.right + shape.rope,
             order.rightStages, block);
    role.await(id(Event::Scores, block));
    role.signal(id(Event::MostOfB, block));
    role.work(sm.handoverCycles / 2 + sm.exponentialCycles);
    if (block > 0) { // the tile of weights is free again
      role.await(id(Event::Left, block - 1));
      role.await(id(Event::Right, block - 1));
    }
    role.work(sm.packCycles);
    role.signal(id(Event::Weights, block));
  }
  return role;
}

/// The first only starts with its rings full.
std::vector<PipelineRole> Relay::makeRoles() const {
  PipelineRole first;
  for (int64_t block = 0; block < order.ropeStages && !problem.hasCodes(); ++block)
    first.signal(id(Event::RopeFull, block));
  if (problem.hasCodes()) {
    first.signal(id(Event::LeftFull, 0));
    first.signal(id(Event::RightFull, 0));
  }
  std::vector<PipelineRole> roles = {first, problem.hasCodes() ? makeKeyScores() : makeScores()};
  roles.push_back(makeValues(Event::Right, Event::RightFull, shape.right, order.rightStages));
  roles.push_back(makeValues(Event::Left, Event::LeftFull, shape.left, order.leftStages));
  return roles;
}

std::optional<Recurrence> Relay::solve() const {
  std::optional<std::vector<double>> times = runPipeline(makeRoles(), (kBlocks + 1) * kNumKinds);
  if (!times)
    return std::nullopt;
  auto at = [&](Event event, int64_t block) { return (*times)[id(event, block)]; };
  double period =
      (at(Event::Weights, kSettling + kMeasured) - at(Event::Weights, kSettling)) / kMeasured;
  double end = std::max(at(Event::Left, kBlocks - 1), at(Event::Right, kBlocks - 1));
  return Recurrence{period, std::max(0.0, end - kBlocks * period)};
}

//===----------------------------------------------------------------------===//
// As a picture
//===----------------------------------------------------------------------===//

namespace {
/// From above. Roles come twice: what they do and wait for, and their products.
enum Lane { kRoles, kProducts = 3, kRightRing = 6, kLeftRing, kRopeRing };
} // namespace
static constexpr const char *kLaneNames[] = {
    "role of scores",         "right values' role",    "left values' role",
    "products of scores",     "right products",        "left products",
    "copies to right values", "copies to left values", "copies to rope keys"};

/// What stands for an event's product, copy or wait.
static const char *nameOf(Event event) {
  constexpr const char *kNames[] = {"left half of keys",
                                    "right half of keys",
                                    "rope keys",
                                    "scores, part A",
                                    "scores, most of part B",
                                    "scores, rest of B",
                                    "weights (P)",
                                    "left output",
                                    "right output"};
  return kNames[static_cast<size_t>(event)];
}

static size_t laneOf(const PipelineSpan &span, Event event) {
  using Kind = PipelineStep::Kind;
  if (span.step.kind == Kind::Load)
    return event == Event::RightFull  ? kRightRing
           : event == Event::LeftFull ? kLeftRing
                                      : kRopeRing;
  size_t role = span.role - 1; // the first only starts with its ring full
  return role + (span.step.kind == Kind::Issue ? kProducts : kRoles);
}

ScheduleTimeline Relay::follow(int64_t blocks) const {
  std::vector<PipelineSpan> spans;
  ScheduleTimeline timeline;
  timeline.lanes.assign(std::begin(kLaneNames), std::end(kLaneNames));
  std::optional<std::vector<double>> times =
      runPipeline(makeRoles(), (kBlocks + 1) * kNumKinds, &spans);
  if (!times)
    return timeline;
  double begin = (*times)[id(Event::Weights, kSettling)];
  double end = (*times)[id(Event::Weights, kSettling + blocks)];
  for (const PipelineSpan &span : spans) {
    if (span.end <= begin || span.begin >= end)
      continue;
    bool isWork = span.step.kind == PipelineStep::Kind::Work;
    bool isWait = span.step.kind == PipelineStep::Kind::Await;
    auto event = static_cast<Event>(span.step.event % kNumKinds);
    int64_t block = isWork ? -1 : span.step.event / kNumKinds - kSettling;
    std::string what = isWork ? "softmax, rounding or a handover"
                              : std::string(isWait ? "waits for " : "") + nameOf(event);
    timeline.spans.push_back({laneOf(span, event), std::max(span.begin, begin) - begin,
                              std::min(span.end, end) - begin, what, block, isWait});
  }
  return timeline;
}

ScheduleTimeline mlac::followRelay(const AttentionProblem &problem, const TargetDescription &target,
                                   const ScheduleParameters &parameters, int64_t blocks) {
  assert(blocks > 0 && blocks <= kMeasured && "the model follows so many");
  return Relay(problem, target.sm, RelayOrder(parameters)).follow(blocks);
}

std::optional<Recurrence> mlac::solveRelay(const AttentionProblem &problem,
                                           const TargetDescription &target,
                                           const RelayOrder &order) {
  return Relay(problem, target.sm, order).solve();
}
