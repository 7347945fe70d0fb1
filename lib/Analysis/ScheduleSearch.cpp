//===- ScheduleSearch.cpp - which schedules are worth measuring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model's periods are within a fifth of what is measured, and neighbouring
// points differ by less: an autotuner measures a few dozen of them.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ScheduleCost.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace mlac;

namespace {
class Search {
public:
  Search(const AttentionProblem &problem, const TargetDescription &target)
      : problem(problem), target(target) {}

  void add(const ScheduleCost &cost) {
    if (cost.isFeasible() && seen.insert(cost.parameters.describe()).second)
      points.push_back(cost);
  }
  void addRelay(const ScheduleRequest &request);
  void addStream(const ScheduleRequest &request);
  std::vector<ScheduleCost> points;

private:
  ScheduleCost plan(ScheduleKind kind, const ScheduleRequest &request) const {
    return computeScheduleCost(problem, target, kind, request);
  }
  std::vector<ScheduleRequest> findDepths(const ScheduleRequest &request) const;
  void addGates(const ScheduleRequest &request);

  const AttentionProblem &problem;
  const TargetDescription &target;
  std::set<std::string> seen;
};
} // namespace

/// Points that the model finds worse than the best by more than it errs are not
/// worth measuring.
static constexpr double kError = 1.25;
/// Around the usual one, kLazyThreshold.
static constexpr double kThresholds[] = {0, 4, 12};

/// A field that the user forced keeps its value.
template <typename T> static void propose(std::optional<T> &field, T value) {
  if (!field)
    field = value;
}

/// Depths where neither big ring can be deeper, the best three by period; those
/// that are worse by more than the model errs are not worth it.
std::vector<ScheduleRequest> Search::findDepths(const ScheduleRequest &request) const {
  constexpr size_t kMost = 3;
  std::vector<std::pair<double, ScheduleRequest>> found;
  for (int64_t left = 2;; ++left) {
    ScheduleRequest next = request;
    propose(next.leftStages, left);
    // Unforced, the right ring takes what it can, one block at a time.
    std::optional<std::pair<double, ScheduleRequest>> deepest;
    for (int64_t right = 2;; ++right) {
      ScheduleRequest deeper = next;
      propose(deeper.rightStages, right);
      ScheduleCost cost = plan(ScheduleKind::Relay, deeper);
      if (!cost.isFeasible())
        break;
      deepest = {cost.recurrenceCycles, deeper};
      if (request.rightStages)
        break;
    }
    if (!deepest)
      break;
    found.push_back(*deepest);
    if (request.leftStages)
      break;
  }
  // By period, then by the depth of the left ring.
  llvm::sort(found, [](const auto &a, const auto &b) {
    return std::pair(a.first, *a.second.leftStages) < std::pair(b.first, *b.second.leftStages);
  });
  if (found.size() > kMost)
    found.resize(kMost);
  std::vector<ScheduleRequest> depths;
  for (auto &[period, next] : found)
    if (period <= kError * found.front().first)
      depths.push_back(next);
  return depths;
}

void Search::addGates(const ScheduleRequest &request) {
  RelayShape shape(problem);
  for (GateEdge gate : kRelayGates)
    for (int64_t early = 0; early < (gatesLeft(gate) ? shape.partB() : 1); ++early) {
      ScheduleRequest next = request;
      propose(next.gate, gate);
      propose(next.early, early);
      add(plan(ScheduleKind::Relay, next));
    }
}

void Search::addRelay(const ScheduleRequest &request) {
  for (const ScheduleRequest &depths : findDepths(request))
    addGates(depths);
  // The other way to roll the scores' loop: other code, the same model.
  ScheduleRequest unrolled = request;
  propose<int64_t>(unrolled.stepsPerTurn, 2);
  add(plan(ScheduleKind::Relay, unrolled));
  for (double threshold : kThresholds) {
    ScheduleRequest next = request;
    propose(next.lazyThreshold, threshold);
    add(plan(ScheduleKind::Relay, next));
  }
}

void Search::addStream(const ScheduleRequest &request) {
  constexpr int64_t kPartColumns[] = {64, 128, 256, 512};
  for (int64_t stages = 2; stages <= target.tuning.streamStages; ++stages)
    for (int64_t columns : kPartColumns) {
      ScheduleRequest next = request;
      propose(next.stages, stages);
      propose(next.partColumns, columns);
      add(plan(ScheduleKind::Stream, next));
    }
}

std::vector<ScheduleCost> mlac::enumerateSchedules(const AttentionProblem &problem,
                                                   const TargetDescription &target,
                                                   const ScheduleRequest &request,
                                                   std::string &error,
                                                   llvm::StringRef whyNotRelay) {
  ScheduleChoice choice = chooseSchedule(problem, target, request, whyNotRelay);
  error = choice.error;
  if (!error.empty())
    return {};
  Search search(problem, target);
  search.add(choice.get());
  auto isAsked = [&](ScheduleKind kind) { return !request.kind || *request.kind == kind; };
  if (isAsked(ScheduleKind::Relay) && whyNotRelay.empty())
    search.addRelay(request);
  if (isAsked(ScheduleKind::Stream))
    search.addStream(request);
  return std::move(search.points);
}

//===----------------------------------------------------------------------===//
// Dense keys
//===----------------------------------------------------------------------===//

namespace {
class DenseSearch {
public:
  DenseSearch(const DenseAttentionProblem &problem, const TargetDescription &target)
      : problem(problem), target(target) {}

  void add(const DenseScheduleCost &cost) {
    if (cost.isFeasible() && seen.insert(cost.parameters.describe()).second)
      points.push_back(cost);
  }
  void addBlocks(const ScheduleRequest &request);
  void addThresholds(const ScheduleRequest &request);
  std::vector<DenseScheduleCost> points;

private:
  DenseScheduleCost plan(const ScheduleRequest &request) const {
    return computeDenseScheduleCost(problem, target, ScheduleKind::PingPong, request);
  }

  const DenseAttentionProblem &problem;
  const TargetDescription &target;
  std::set<std::string> seen;
};
} // namespace

void DenseSearch::addBlocks(const ScheduleRequest &request) {
  constexpr int64_t kLeastBlock = 64, kMostStages = 4;
  constexpr size_t kMost = 8;
  std::vector<DenseScheduleCost> found;
  for (int64_t keys = kMaxKeyBlock; keys >= kLeastBlock; keys -= kKeyBlockMultiple)
    for (int64_t stages = 2; stages <= kMostStages; ++stages) {
      ScheduleRequest next = request;
      propose(next.keyBlock, keys);
      propose(next.keyStages, stages);
      DenseScheduleCost cost = plan(next);
      if (cost.isFeasible())
        found.push_back(std::move(cost));
    }
  llvm::stable_sort(found, [](const DenseScheduleCost &a, const DenseScheduleCost &b) {
    return a.getRelativeCycles() < b.getRelativeCycles();
  });
  for (const DenseScheduleCost &cost : llvm::ArrayRef(found).take_front(kMost))
    if (cost.getRelativeCycles() <= kError * found.front().getRelativeCycles())
      add(cost);
}

void DenseSearch::addThresholds(const ScheduleRequest &request) {
  for (double threshold : kThresholds) {
    ScheduleRequest next = request;
    propose(next.lazyThreshold, threshold);
    add(plan(next));
  }
}

std::vector<DenseScheduleCost> mlac::enumerateDenseSchedules(const DenseAttentionProblem &problem,
                                                             const TargetDescription &target,
                                                             const ScheduleRequest &request,
                                                             std::string &error,
                                                             llvm::StringRef whyNotPingPong) {
  DenseScheduleChoice choice = chooseDenseSchedule(problem, target, request, whyNotPingPong);
  error = choice.error;
  if (!error.empty())
    return {};
  DenseSearch search(problem, target);
  search.add(choice.get());
  bool isAsked = !request.kind || *request.kind == ScheduleKind::PingPong;
  if (isAsked && whyNotPingPong.empty()) {
    search.addBlocks(request);
    search.addThresholds(request);
  }
  return std::move(search.points);
}
