//===- StepCost.h - what one step of a schedule takes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_STEPCOST_H
#define MLA_ANALYSIS_STEPCOST_H

#include "mla/Analysis/ScheduleParameters.h"

#include <algorithm>
#include <string>

namespace mlac {

/// What a caller knows to stand against schedules, beside their cost.
using ScheduleObjections = std::map<ScheduleKind, std::string>;

/// Relative difference below which two times are the same: what one kernel under
/// two names differs by in one run (docs/performance.md).
constexpr double kTimeNoise = 0.002;
inline bool isFaster(double time, double than) { return time < than * (1 - kTimeNoise); }

/// Whether a schedule can be used, with which parameters, and what one of its steps
/// takes of a multiprocessor.
struct StepCost {
  ScheduleParameters parameters;
  /// Why the schedule cannot be used; empty: it can.
  std::string whyNot;
  int64_t sharedBytes = 0;
  // Of a step, in cycles.
  double tensorCycles = 0, sharedCycles = 0, loadCycles = 0, recurrenceCycles = 0;

  bool isFeasible() const { return whyNot.empty(); }
  /// The largest of the terms.
  double getStepCycles() const {
    return std::max({tensorCycles, sharedCycles, loadCycles, recurrenceCycles});
  }
  /// Which that is; `recurrence`: the last one's name.
  llvm::StringRef getLargestTerm(llvm::StringRef recurrence) const {
    double cycles = getStepCycles();
    return cycles == tensorCycles   ? "tensor cores"
           : cycles == sharedCycles ? "shared memory"
           : cycles == loadCycles   ? "copies from L2"
                                    : recurrence;
  }
};

} // namespace mlac

#endif // MLA_ANALYSIS_STEPCOST_H
