//===- ScheduleCost.h - which schedule of attention fits and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For absorbed attention on one layer's shape: which schedule fits, with which parameters, and how
// many cycles one block of 64 keys and one item of work (a run of blocks of one request) take. Each
// schedule answers for itself (ScheduleModel.h). A block costs the largest of
//
//   tensor       cycles of its products
//   shared       bytes that pass through shared memory / bytes per clock
//   load         bytes that copies bring from L2 / bytes per clock
//   recurrence   the period at which roles and rings can go on (RolePipeline.h)
//   memory       its share of the device's read bandwidth, in nanoseconds
//
// Row tiles of one request run side by side, so device memory is read once for
// all of them. Costs are computed for 64-key blocks of 16-bit elements.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SCHEDULECOST_H
#define MLA_ANALYSIS_SCHEDULECOST_H

#include "mla/Analysis/StepCost.h"
#include "mla/Machine/TargetDescription.h"

#include <string>
#include <vector>

namespace mlac {

/// Keys of one block, in every schedule.
constexpr int64_t kBlockKeys = 64;

/// The shape of one layer's absorbed attention.
struct AttentionProblem {
  int64_t rowsPerToken = 64; // heads on this rank that share keys
  int64_t runs = 1;          // of such heads, each with keys of its own
  int64_t queryLen = 1;
  int64_t kvLoraRank = 512;
  int64_t ropeDim = 64; // 0: none
  /// Columns of keys whose values have rows of their own; 0: values are columns of the keys.
  int64_t keyWidth = 0;
  int64_t pageSize = 64; // the smaller one where values have their own
  int64_t elementBytes = 2;
  /// What a key takes in the pool where it is stored as codes; 0: as it is multiplied.
  int64_t codedRowBytes = 0;
  /// Whether RoPE keys are codes as well.
  bool hasRopeCodes = false;
  /// Whether `rows()` bounds every request; else it is only typical.
  bool areRowsBounded = true;

  int64_t rows() const { return rowsPerToken * queryLen; }
  /// Rows of a CTA's tile.
  int64_t rowsPerTile(ScheduleKind kind) const;
  int64_t rowTiles(ScheduleKind kind) const;
  /// TMA copies of a block's panel; 0: pages are too small, threads copy rows.
  int64_t boxesPerPanel() const;
  bool hasCodes() const { return codedRowBytes != 0; }
  /// Columns that scores are sums over.
  int64_t scoreWidth() const { return keyWidth ? keyWidth : kvLoraRank + ropeDim; }
  int64_t blockBytes() const {
    return kBlockKeys * (scoreWidth() + (keyWidth ? kvLoraRank : 0)) * elementBytes;
  }
  /// What is read of device memory.
  int64_t storedBlockBytes() const {
    return hasCodes() ? kBlockKeys * codedRowBytes : blockBytes();
  }
};

/// A step is a block of keys.
struct ScheduleCost : StepCost {
  double memoryNanoseconds = 0; // of a block
  /// What an item takes besides its blocks: filling and draining the roles, its
  /// queries, its output.
  double itemCycles = 0;

  double getBlockNanoseconds(const TargetDescription &target) const;
  /// Which term is the largest.
  llvm::StringRef getBound(const TargetDescription &target) const;
};

/// Cost and parameters of one schedule; forced parameters are kept, the others
/// are chosen for the least time.
ScheduleCost computeScheduleCost(const AttentionProblem &problem, const TargetDescription &target,
                                 ScheduleKind kind, const ScheduleRequest &request = {});

struct ScheduleChoice {
  /// One per kind, in the order of getPagedScheduleKinds.
  llvm::SmallVector<ScheduleCost, 3> costs;
  size_t chosen = 0;
  /// Why the request cannot be met; empty: it is.
  std::string error;

  const ScheduleCost &get() const { return costs[chosen]; }
};

/// The feasible schedule with the least predicted time per block; among equals
/// (device memory bounds several) the one with the fewest tensor cycles, which
/// are power and so clock.
ScheduleChoice chooseSchedule(const AttentionProblem &problem, const TargetDescription &target,
                              const ScheduleRequest &request = {},
                              const ScheduleObjections &objections = {});

/// The points that are worth measuring, each once: the choice above first, then those that
/// each schedule adds. Empty: nothing is feasible, `error` says why.
std::vector<ScheduleCost> enumerateSchedules(const AttentionProblem &problem,
                                             const TargetDescription &target,
                                             const ScheduleRequest &request, std::string &error,
                                             const ScheduleObjections &objections = {});

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// What tile.work is told, in blocks.
struct WorkCosts {
  double item, merge, partial;
};
/// `rowsOfToken`: of all heads, in partials; a request may have several tokens.
WorkCosts getWorkCosts(const AttentionProblem &problem, int64_t rowsOfToken,
                       const TargetDescription &target, const ScheduleCost &cost);

/// Blocks between the cuts of a batch-invariant plan: the fewest for which pieces
/// spend at most an eighth of their time on themselves.
int64_t chooseFixedBlocks(const WorkCosts &costs);

/// Attention of `batch` requests of `keys` cached tokens each, merge included.
double predictMicroseconds(const AttentionProblem &problem, const TargetDescription &target,
                           const ScheduleCost &cost, int64_t batch, int64_t keys);

/// One line for remarks: what was chosen, its bound and predicted times, and why
/// not the others.
std::string describeChoice(const AttentionProblem &problem, const TargetDescription &target,
                           const ScheduleChoice &choice);

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULECOST_H
