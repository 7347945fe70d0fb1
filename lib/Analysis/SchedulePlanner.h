//===- SchedulePlanner.h - what planners of schedules share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_ANALYSIS_SCHEDULEPLANNER_H
#define MLAC_LIB_ANALYSIS_SCHEDULEPLANNER_H

#include "mla/Analysis/StepCost.h"
#include "mla/Machine/TargetDescription.h"

#include "llvm/ADT/Twine.h"

namespace mlac {

/// Base of what fills in the cost of one schedule for a problem.
template <typename Problem, typename Cost> class SchedulePlanner {
public:
  SchedulePlanner(const Problem &problem, const TargetDescription &target,
                  const ScheduleRequest &request)
      : problem(problem), target(target), sm(target.sm), request(request) {}

protected:
  /// What holds of every kind; refuses parameters that only other kinds have.
  bool start(ScheduleKind kind) {
    cost.parameters.kind = kind;
    cost.parameters.lazyThreshold = request.lazyThreshold.value_or(kLazyThreshold);
    llvm::StringRef foreign = request.findForeignKey(kind);
    return foreign.empty() || refuse("it has no " + foreign);
  }
  /// False, for callers to return.
  bool refuse(const llvm::Twine &reason) {
    cost.whyNot = reason.str();
    return false;
  }
  double loadCycles(double bytes) const { return bytes / sm.l2BytesPerClock; }
  /// Tensor cycles of `rows` x `columns` x `depth` multiply-adds.
  double productCycles(double rows, double columns, double depth) const {
    return 2 * rows * columns * depth / sm.tensorFlopsPerClock;
  }

  const Problem &problem;
  const TargetDescription &target;
  const SmDescription &sm;
  const ScheduleRequest &request;
  Cost cost;
};

} // namespace mlac

#endif // MLAC_LIB_ANALYSIS_SCHEDULEPLANNER_H
