//===- CapturedRuns.h - what graphs of a plan depend on ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A graph repeats the launches of the run it was captured from: grids, arguments,
// places in the workspace and in the metadata. Only the metadata is new at a replay.
// So a plan remembers the launches of its captured runs, and is not filled with a step
// of the same requests and tokens whose launches differ: replaying would be wrong.
//
//   function, requests, tokens   launches        a refill is
//   as of a captured run         the same        served by the graph
//                                others          refused, naming the size that changed
//   of none                                      another step: captured by itself
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CAPTUREDRUNS_H
#define MLAC_RUNTIME_CAPTUREDRUNS_H

#include "package/LaunchList.h"
#include "step/StepPlanner.h"

namespace mlac::runtime {

/// A function's launches for some sizes, and where its metadata lies.
struct ResolvedStep : LaunchList {
  const FunctionInfo *function = nullptr;
  StepLayout layout;
};

class CapturedRuns {
public:
  void remember(const ResolvedStep &step, const DimValues &dims);
  /// MLA_WRONG_STATE where a captured run of the same batch has other launches.
  Status check(const ResolvedStep &step, const DimValues &dims) const;
  /// The caller's graphs are gone.
  void forget() { runs.clear(); }

private:
  struct Run {
    ResolvedStep step;
    DimValues dims;
  };
  const Run *find(const ResolvedStep &step, const DimValues &dims) const;

  std::vector<Run> runs;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CAPTUREDRUNS_H
