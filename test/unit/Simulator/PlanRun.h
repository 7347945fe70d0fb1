//===- PlanRun.h - the launches of a plan, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile.plan is evaluated for given dims and buffers; the kernels that it launches
// run in the simulator.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_PLANRUN_H
#define MLAC_TEST_UNIT_SIMULATOR_PLANRUN_H

#include "Kernels.h"

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <map>

namespace mlac::test {

/// What a launch of the plan binds: a buffer by name, or a number.
struct Binding {
  std::string buffer;
  int64_t number = 0;
};
struct Launch {
  std::string kernel;
  std::array<int64_t, 3> grid;
  std::vector<Binding> bindings;
};

using Buffers = std::map<std::string, Data>;

/// A plan with the dims and buffers it is evaluated for.
class PlanRun {
public:
  /// Computes dims and grids by folding, lists the launches that happen, and makes
  /// workspaces full of NaN.
  bool evaluate(mlir::Block &block);
  /// Runs the launches' kernels of `module` on `data`, which they change.
  std::optional<simulator::Finding> run(mlir::ModuleOp module, Buffers &data, uint64_t seed) const;

  Buffers buffers;
  std::map<std::string, int64_t> dims;
  std::vector<Launch> launches;
  bool doPromptsPay = false; // of tile.prompts, with the dims

private:
  llvm::DenseMap<mlir::Value, Binding> values;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_PLANRUN_H
