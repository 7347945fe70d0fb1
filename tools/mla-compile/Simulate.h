//===- Simulate.h - one kernel of a package in the simulator ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans a step, takes the first launch of one kernel out of it with the step's real metadata and
// random numbers for everything else, and runs it twice: at the sm90 level in the simulator
// (docs/simulator.md), under several orders of events, and as the CPU's code for the same tile
// program. What both wrote is compared. Of a whole step every launch is run so, on what those
// before it have left: buffers that nothing has been written to yet hold NaN.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_SIMULATE_H
#define MLA_COMPILE_SIMULATE_H

#include "Explain/PlannedStep.h"

#include "mla/Driver/Compile.h"

namespace mlac {

/// In the place of a kernel's name: every launch of the step.
inline constexpr llvm::StringLiteral kWholeStep = "step";

struct SimulateOptions {
  std::string kernel;
  bool isWholeStep() const { return kernel == kWholeStep; }
  StepSize step = {2, 100, 1};
  uint64_t seeds = 2;
  /// A package that was compiled from the module with these options; empty: none. Its kernel is
  /// compared with the one that is run.
  std::string package;
  /// A bug to plant in the simulated kernel (Mutations.h), to see that it is found.
  std::string bug;
  unsigned bugPlace = 0;
};

/// Of the first scheduled target of `options`. Prints what was compared to `os`. Error: the
/// simulator's finding, or that the results differ by more than their types explain.
llvm::Error simulateKernel(mlir::ModuleOp module, CompileOptions options,
                           const SimulateOptions &what, llvm::raw_ostream &os);

} // namespace mlac

#endif // MLA_COMPILE_SIMULATE_H
