//===- ScheduledStep.h - a step's kernels in derived schedules, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tests of schedules do with any step: lower a graph, run it under every order of
// events, plant bugs.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_SCHEDULEDSTEP_H
#define MLAC_TEST_UNIT_SIMULATOR_SCHEDULEDSTEP_H

#include "PlanRun.h"

#include "step/PromptParts.h"

#include <limits>
#include <map>
#include <optional>

namespace mlac::test {

/// Orders of events that each case is run in.
constexpr uint64_t kSeeds = 20;
/// A mean of values in [-1, 1]: weights and the result are rounded to bf16 (2^-9
/// each); a weight may be up to 2^8 above its rounded maximum (lazy rescale),
/// which does not change relative errors.
constexpr double kTolerance = 1.0 / 128;

/// Runs the plan under every seed: a test failure on a finding, or if one of the
/// buffers `outputs` has other bits than under the first. The first's buffers; nothing
/// if a run failed.
std::optional<Buffers> runUnderEverySeed(const PlanRun &plan, mlir::ModuleOp module,
                                         llvm::ArrayRef<const char *> outputs);

struct Request {
  int32_t seqLen, queryLen;
};
/// The longest query of them, and the tokens of all.
int64_t getMaxQueryLen(llvm::ArrayRef<Request> requests);
int64_t countTokens(llvm::ArrayRef<Request> requests);

/// An index that no table may be read at.
constexpr int32_t kAbsurd = 0x7FFFFFF0;

/// A graph, lowered and planned.
class ScheduledStep {
public:
  std::optional<simulator::Finding> run(Buffers &buffers, uint64_t seed) const {
    return plan.run(*module, buffers, seed);
  }
  /// Plants the first place of each kind of bug in the kernel of the first launch, or of launch
  /// number `launch`. How many kinds are found in few seeds, by a finding or by a wrong `output`.
  unsigned countFoundMutations(const std::string &name, const std::string &output = "output",
                               size_t launch = 0);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string chosen; ///< kind of schedule, "" if something failed
  std::map<std::string, std::string> schedules; ///< by kernel (lowerByPipelines)
  PlanRun plan;

protected:
  /// From a graph, with the plan's sizes there, to sm90 kernels by the compiler's own pipelines.
  bool lowerByPipelines(mlir::MLIRContext &context, const std::string &graph,
                        const std::string &schedule = "auto");
  /// To the tile dialect, with schedules planned.
  bool lowerToTile(mlir::MLIRContext &context, const std::string &graph,
                   const std::string &schedule, const std::vector<std::string> &parameters);
  /// On to sm90; notes the schedule of the last kernel that has one, of those that are launched
  /// where the plan has been evaluated.
  bool lowerToSm90();
  /// Sizes and metadata of a step of attention in pieces (tile.work). Cut requests have pieces
  /// wherever that balances parts.
  /// Without requests of more than `mostPieceTokens` new tokens, whose parts `others` merge.
  void planWork(llvm::ArrayRef<Request> requests, int64_t numSms, bool isCut,
                int64_t mostPieceTokens = std::numeric_limits<int64_t>::max(),
                const runtime::OtherMerges &others = {});
  /// The same where the plan may have prompts apart, whose buffers are all there.
  void planPrompts(llvm::ArrayRef<Request> requests, int64_t numSms, bool isCut,
                   bool hasFixedSizes);
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_SCHEDULEDSTEP_H
