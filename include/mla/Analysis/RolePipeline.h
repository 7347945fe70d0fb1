//===- RolePipeline.h - when roles that share a tensor pipe get done ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp-specialised kernel is a recurrence: a ring's slot is freed, loaded,
// read by the scores, waits for the softmax, is read by the products, and freed
// again; with n slots that chain must fit into n periods. Where several roles
// want the tensor pipe at once, the chain gets longer by what the others take.
// This file solves the recurrence by following the events in order:
//
//   role      steps in program order, each begun when the one before is done
//   event     happens once, at a time that the model computes
//   pipe      one tensor pipe; roles with products outstanding share it evenly,
//             as the wgmma of different warpgroups do; a role's own products
//             run in order
//
// Nothing here is random, so equal inputs give equal times.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_ROLEPIPELINE_H
#define MLA_ANALYSIS_ROLEPIPELINE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlac {

/// What a role does next.
struct PipelineStep {
  enum class Kind {
    /// Waits until the event has happened.
    Await,
    /// Makes the event happen.
    Signal,
    /// Is busy for `cycles`.
    Work,
    /// Queues `cycles` of products on the tensor pipe, and goes on; the event
    /// happens when they are done.
    Issue,
    /// Starts a copy, and goes on; the event happens `cycles` later.
    Load,
  };
  Kind kind;
  int64_t event;
  double cycles;
};

/// The program of one role.
class PipelineRole {
public:
  void await(int64_t event) { add(PipelineStep::Kind::Await, event, 0); }
  void signal(int64_t event) { add(PipelineStep::Kind::Signal, event, 0); }
  void work(double cycles) { add(PipelineStep::Kind::Work, 0, cycles); }
  void issue(int64_t event, double cycles) { add(PipelineStep::Kind::Issue, event, cycles); }
  void load(int64_t event, double cycles) { add(PipelineStep::Kind::Load, event, cycles); }

  llvm::ArrayRef<PipelineStep> getSteps() const { return steps; }

private:
  void add(PipelineStep::Kind kind, int64_t event, double cycles) {
    steps.push_back({kind, event, cycles});
  }
  std::vector<PipelineStep> steps;
};

/// When a step of a role was under way. Of products and copies until they were done, of
/// `Await` while the role was held up; steps that took no time are left out.
struct PipelineSpan {
  size_t role;
  PipelineStep step;
  double begin, end;
};

/// The time in cycles of each of `numEvents` events (negative: never happened)
/// when all roles start at 0; nothing if roles wait for each other for ever. `spans`, where
/// given, gets what happened on the way, in the order in which it ended.
std::optional<std::vector<double>> runPipeline(llvm::ArrayRef<PipelineRole> roles,
                                               int64_t numEvents,
                                               std::vector<PipelineSpan> *spans = nullptr);

} // namespace mlac

#endif // MLA_ANALYSIS_ROLEPIPELINE_H
