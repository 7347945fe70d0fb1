//===- DenseScheduleCost.h - schedules of attention over dense keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For expanded attention, per head over dense keys and values: which schedule fits,
// with which parameters, and what a step costs. A step is a block
// of keys for the query rows of one CTA; it takes the largest of
//
//   tensor       cycles of its products
//   shared       bytes that pass through shared memory / bytes per clock
//   load         bytes that copies bring from L2 / bytes per clock
//   recurrence   one warpgroup's own chain: scores, softmax, its turn again
//
// Keys of a head are read by the tiles of its queries side by side and stay in the L2
// cache (tile-loop-over-programs), so device memory does not count.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_DENSESCHEDULECOST_H
#define MLA_ANALYSIS_DENSESCHEDULECOST_H

#include "mla/Analysis/StepCost.h"
#include "mla/Machine/TargetDescription.h"

#include <string>
#include <vector>

namespace mlac {

/// The shape of one head.
struct DenseAttentionProblem {
  llvm::SmallVector<int64_t, 2> keyWidths; ///< of the terms of the scores, padded
  int64_t valueWidth = 128;                ///< padded
  int64_t elementBytes = 2;
  /// Of keys and values in pages: rows of a page, and what the first key's position is a multiple
  /// of (0: it is 0).
  llvm::SmallVector<int64_t, 2> pageSizes = {};
  int64_t firstMultiple = 0;
  /// Keys of a word of marks (tile.attend); 0: there are none.
  int64_t markedKeys = 0;

  int64_t getKeyWidth() const;
  /// Whether blocks of `keys` are boxes of pages.
  bool hasBoxes(int64_t keys) const;
  /// Whether blocks of `keys` are whole words of marks.
  bool hasWholeMarks(int64_t keys) const { return markedKeys == 0 || keys % markedKeys == 0; }
};

struct DenseScheduleCost : StepCost {
  int64_t rows = 0, keys = 0; ///< of a step

  /// Cycles for one row and one key.
  double getRelativeCycles() const { return getStepCycles() / (static_cast<double>(rows) * keys); }
  llvm::StringRef getBound() const { return getLargestTerm("the recurrence"); }
};

struct DenseScheduleChoice {
  /// One per kind, in the order of getDenseScheduleKinds.
  llvm::SmallVector<DenseScheduleCost, 2> costs;
  size_t chosen = 0;
  /// Why the request cannot be met; empty: it is.
  std::string error;

  const DenseScheduleCost &get() const { return costs[chosen]; }
};

/// Cost and parameters of one schedule; forced parameters are kept.
DenseScheduleCost computeDenseScheduleCost(const DenseAttentionProblem &problem,
                                           const TargetDescription &target, ScheduleKind kind,
                                           const ScheduleRequest &request = {});

/// The feasible schedule with the least predicted time.
DenseScheduleChoice chooseDenseSchedule(const DenseAttentionProblem &problem,
                                        const TargetDescription &target,
                                        const ScheduleRequest &request = {},
                                        const ScheduleObjections &objections = {});

/// The points that are worth measuring, each once: the choice above first, then those
/// that each schedule adds. Empty: nothing is feasible, `error` says why.
std::vector<DenseScheduleCost> enumerateDenseSchedules(const DenseAttentionProblem &problem,
                                                       const TargetDescription &target,
                                                       const ScheduleRequest &request,
                                                       std::string &error,
                                                       const ScheduleObjections &objections = {});

/// One line for remarks: what was chosen, its bound, and why not the other.
std::string describeChoice(const DenseAttentionProblem &problem, const TargetDescription &target,
                           const DenseScheduleChoice &choice);

} // namespace mlac

#endif // MLA_ANALYSIS_DENSESCHEDULECOST_H
