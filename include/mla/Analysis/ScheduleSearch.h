//===- ScheduleSearch.h - collects the points that are worth measuring ---*- C++ -*-===//
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

#ifndef MLA_ANALYSIS_SCHEDULESEARCH_H
#define MLA_ANALYSIS_SCHEDULESEARCH_H

#include "mla/Analysis/ScheduleModel.h"

#include <set>

namespace mlac {

/// Points that the model finds worse than the best by more than it errs are not
/// worth measuring.
constexpr double kSearchError = 1.25;
/// Around the usual one, kUsualLazyThreshold.
constexpr double kSearchThresholds[] = {0, 4, 12};

/// Keeps feasible points, each once.
template <typename Problem, typename Cost> class ScheduleSearch {
public:
  ScheduleSearch(const Problem &problem, const TargetDescription &target)
      : problem(problem), target(target) {}

  void add(const Cost &cost) {
    if (cost.isFeasible() && seen.insert(cost.parameters.describe()).second)
      points.push_back(cost);
  }

  const Problem &problem;
  const TargetDescription &target;
  std::vector<Cost> points;

private:
  std::set<std::string> seen;
};

class PagedSearch : public ScheduleSearch<AttentionProblem, ScheduleCost> {
public:
  using ScheduleSearch::ScheduleSearch;
};
class DenseSearch : public ScheduleSearch<DenseAttentionProblem, DenseScheduleCost> {
public:
  using ScheduleSearch::ScheduleSearch;
};

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULESEARCH_H
