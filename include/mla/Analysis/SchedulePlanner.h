//===- SchedulePlanner.h - what planners of schedules share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SCHEDULEPLANNER_H
#define MLA_ANALYSIS_SCHEDULEPLANNER_H

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ScheduleCost.h"
#include "mla/Machine/Sm90Limits.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

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
    llvm::StringRef foreign = request.findForeignKey(kind);
    return foreign.empty() || refuse("it has no " + foreign);
  }
  /// What every schedule of wgmma and an online softmax begins with.
  bool startTensorCores(ScheduleKind kind) {
    if (!start(kind))
      return false;
    cost.parameters.set(kLazyThreshold, request.get(kLazyThreshold).value_or(kUsualLazyThreshold));
    return problem.elementBytes == 2 ||
           refuse("wgmma needs elements of 2 bytes, got " + llvm::Twine(problem.elementBytes));
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

/// Of attention over pages: a panel is 64 rows of 64 columns.
class PagedPlanner : protected SchedulePlanner<AttentionProblem, ScheduleCost> {
public:
  using SchedulePlanner::SchedulePlanner;

protected:
  static constexpr int64_t kPanelBytes = kBlockKeys * mlir::sm90::kPanelRowBytes;
  /// Row vectors, aligned like tiles, and barriers.
  static constexpr int64_t kSmallBytes = 2 * mlir::sm90::kSwizzleAtomBytes;
  static int64_t countPanels(int64_t columns) {
    return llvm::divideCeil(columns, mlir::sm90::kPanelColumns);
  }
  /// Per thread: 64 x `panels`·64 f32 over 128 threads.
  static int64_t countAccumulators(int64_t panels) {
    return panels * mlir::sm90::kTileRows * mlir::sm90::kPanelColumns /
           mlir::sm90::kWarpgroupThreads;
  }

  /// What copies and device memory take, whatever the schedule.
  void countMemory(ScheduleKind kind) {
    cost.loadCycles = loadCycles(problem.storedBlockBytes());
    double readGbpsPerSm = target.readGbps / target.numSms;
    cost.memoryNanoseconds = problem.storedBlockBytes() / problem.rowTiles(kind) / readGbpsPerSm;
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

/// Of attention over dense keys and values.
class DensePlanner : protected SchedulePlanner<DenseAttentionProblem, DenseScheduleCost> {
public:
  using SchedulePlanner::SchedulePlanner;

protected:
  /// Of `rows` rows, in whole panels.
  int64_t countKeyBytes(int64_t rows) const {
    int64_t panels = 0;
    for (int64_t width : problem.keyWidths)
      panels += llvm::divideCeil(width, mlir::sm90::kPanelColumns);
    return rows * panels * mlir::sm90::kPanelRowBytes;
  }
  int64_t countValueBytes(int64_t rows) const {
    return rows *
           static_cast<int64_t>(llvm::divideCeil(problem.valueWidth, mlir::sm90::kPanelColumns)) *
           mlir::sm90::kPanelRowBytes;
  }
  /// Up to the exponentials, of one warpgroup.
  double softmaxCycles(double keys) const {
    return sm.exponentialCycles * keys / mlir::sm90::kTileRows;
  }
};

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULEPLANNER_H
