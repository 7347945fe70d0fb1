//===- RelaySearchModel.cpp - the points of relay that are worth measuring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Relay/RelayModel.h"

#include "mla/Analysis/ScheduleSearch.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;

namespace {
struct RelaySearch {
  PagedSearch &search;

  ScheduleCost plan(const ScheduleRequest &request) const {
    return planRelay(search.problem, search.target, request);
  }
  std::vector<ScheduleRequest> findDepths(const ScheduleRequest &request) const;
  void addGates(const ScheduleRequest &request);
};
} // namespace

/// Depths where neither big ring can be deeper, the best three by period; those
/// that are worse by more than the model errs are not worth it.
std::vector<ScheduleRequest> RelaySearch::findDepths(const ScheduleRequest &request) const {
  constexpr size_t kMost = 3;
  std::vector<std::pair<double, ScheduleRequest>> found;
  for (int64_t left = 2;; ++left) {
    ScheduleRequest next = request;
    next.propose(relay::kLeftStages, left);
    // Unforced, the right ring takes what it can, one block at a time.
    std::optional<std::pair<double, ScheduleRequest>> deepest;
    for (int64_t right = 2;; ++right) {
      ScheduleRequest deeper = next;
      deeper.propose(relay::kRightStages, right);
      ScheduleCost cost = plan(deeper);
      if (!cost.isFeasible())
        break;
      deepest = {cost.recurrenceCycles, deeper};
      if (request.find(relay::kRightStages))
        break;
    }
    if (!deepest)
      break;
    found.push_back(*deepest);
    if (request.find(relay::kLeftStages))
      break;
  }
  // By period, then by the depth of the left ring.
  llvm::sort(found, [](const auto &a, const auto &b) {
    return std::pair(a.first, *a.second.get(relay::kLeftStages)) <
           std::pair(b.first, *b.second.get(relay::kLeftStages));
  });
  if (found.size() > kMost)
    found.resize(kMost);
  std::vector<ScheduleRequest> depths;
  for (auto &[period, next] : found)
    if (period <= kSearchError * found.front().first)
      depths.push_back(next);
  return depths;
}

void RelaySearch::addGates(const ScheduleRequest &request) {
  RelayShape shape(search.problem);
  for (GateEdge gate : kRelayGates)
    for (int64_t early = 0; early < (gatesLeft(gate) ? shape.partB() : 1); ++early) {
      ScheduleRequest next = request;
      next.propose(relay::kGate, gate);
      next.propose(relay::kEarly, early);
      search.add(plan(next));
    }
}

void mlac::searchRelay(PagedSearch &search, const ScheduleRequest &request) {
  RelaySearch relaySearch{search};
  for (const ScheduleRequest &depths : relaySearch.findDepths(request))
    relaySearch.addGates(depths);
  // The other way to roll the scores' loop: other code, the same model.
  ScheduleRequest unrolled = request;
  unrolled.propose<int64_t>(relay::kStepsPerTurn, 2);
  search.add(relaySearch.plan(unrolled));
  for (double threshold : kSearchThresholds) {
    ScheduleRequest next = request;
    next.propose(kLazyThreshold, threshold);
    search.add(relaySearch.plan(next));
  }
}
