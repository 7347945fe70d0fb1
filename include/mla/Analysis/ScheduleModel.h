//===- ScheduleModel.h - what is known of a schedule without a program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The half of a schedule that cost models and options need. It knows no level of the IR, but lies
// in the schedule's folder (lib/Conversion/TileToSm90), so that what fits and what it costs are
// said once, by those who build it.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SCHEDULEMODEL_H
#define MLA_ANALYSIS_SCHEDULEMODEL_H

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ScheduleCost.h"

namespace mlac {

class PagedSearch;
class DenseSearch;

/// What roles do in the steady state, as the cost model follows it. Cycles begin with the first
/// block that is shown.
struct ScheduleTimeline {
  struct Span {
    size_t lane;
    double begin, end;
    std::string what; // "scores of block 3"
    int64_t block;
    bool isWait;
  };
  std::vector<std::string> lanes; ///< roles, and the rings that they fill
  std::vector<Span> spans;
};

/// Of attention over a paged cache.
struct PagedModel {
  /// Cost and parameters; forced parameters are kept, the others chosen for the least time.
  ScheduleCost (*plan)(const AttentionProblem &, const TargetDescription &,
                       const ScheduleRequest &);
  /// Rows of a CTA's tile.
  int64_t (*rowsPerTile)(const AttentionProblem &);
  /// Adds the points worth measuring beside the chosen one; null: there are none.
  void (*search)(PagedSearch &, const ScheduleRequest &) = nullptr;
  /// So many blocks with these parameters; null: the model has no events.
  ScheduleTimeline (*follow)(const AttentionProblem &, const TargetDescription &,
                             const ScheduleParameters &, int64_t blocks) = nullptr;
};

/// Of attention over dense keys and values, alike.
struct DenseModel {
  DenseScheduleCost (*plan)(const DenseAttentionProblem &, const TargetDescription &,
                            const ScheduleRequest &);
  void (*search)(DenseSearch &, const ScheduleRequest &) = nullptr;
};

struct ScheduleModel {
  llvm::ArrayRef<const ScheduleParameter *> parameters = {};
  const PagedModel *paged = nullptr; ///< null: it is not for them
  const DenseModel *dense = nullptr;
};

#define MLAC_SCHEDULE(name, option, summary) extern const ScheduleModel k##name##Model;
#include "mla/Analysis/Schedules.def"

const ScheduleModel &getModel(ScheduleKind kind);
/// Those of attention over a paged cache, and over dense keys and values.
llvm::ArrayRef<ScheduleKind> getPagedScheduleKinds();
llvm::ArrayRef<ScheduleKind> getDenseScheduleKinds();

} // namespace mlac

#endif // MLA_ANALYSIS_SCHEDULEMODEL_H
