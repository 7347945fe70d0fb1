//===- PlannedStep.h - what a package launches in one step ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Planned by the runtime's own planners, on the host: no device of the package's target is
// needed, and what a report says of a step is what the runtime would launch.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_EXPLAIN_PLANNEDSTEP_H
#define MLA_COMPILE_EXPLAIN_PLANNEDSTEP_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mlac {

/// Equal requests.
struct StepSize {
  int64_t requests, contextLen, queryLen;
};

struct StepArgument {
  int buffer = -1; // into PlannedStep::buffers; negative: a number
  int64_t number = 0;
};

struct StepLaunch {
  std::string kernel;
  std::array<int64_t, 3> grid;
  std::vector<StepArgument> arguments; // in the kernel's order
};

/// Metadata has bytes, everything else is memory that nobody looks into.
struct StepBufferInfo {
  std::string name;
  llvm::ArrayRef<uint8_t> metadata;
  int64_t bytes = 0; // that the step may touch; 0: not stated
};

struct PlannedStep {
  std::string function;
  std::vector<StepBufferInfo> buffers;
  std::vector<StepLaunch> launches;
  /// What `metadata` lies in.
  std::shared_ptr<void> memory;
};

/// Plans `size` for target number `target` of a package, on a machine of so many processors.
llvm::Expected<PlannedStep> planStep(llvm::ArrayRef<uint8_t> package, size_t target, int64_t numSms,
                                     const StepSize &size);

/// Tokens that a sequence of the package can have at most.
llvm::Expected<int64_t> getLongestSequence(llvm::ArrayRef<uint8_t> package);

} // namespace mlac

#endif // MLA_COMPILE_EXPLAIN_PLANNEDSTEP_H
