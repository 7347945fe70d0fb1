//===- AttentionKernels.h - the kernels that schedules are chosen for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tile-plan-schedules knows of an attention kernel, for it and for whoever
// chooses by measuring (mla-compile --tune).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_CONVERSION_TILETOSM90_ATTENTIONKERNELS_H
#define MLA_CONVERSION_TILETOSM90_ATTENTIONKERNELS_H

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ScheduleCost.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mlac {

struct AttentionKernel {
  /// A function whose plan launches it.
  struct Launcher {
    std::string function;
    int64_t maxQueryLen; ///< 0: any
  };
  std::string name;
  std::vector<Launcher> launchers; ///< in the module's order
  /// Over a paged cache, or over dense keys and values.
  std::variant<AttentionProblem, DenseAttentionProblem> problem;
  /// What of the program stands against schedules.
  ScheduleObjections objections;
  /// Of its module.
  TargetDescription machine;

  bool isPaged() const { return std::holds_alternative<AttentionProblem>(problem); }
};

/// The plans that launch `kernel`.
llvm::SmallVector<mlir::tile::PlanOp> findPlans(mlir::tile::KernelOp kernel);

/// Nothing: no attention that a schedule could be chosen for, `why` says what of one
/// is missing.
std::optional<AttentionKernel> readAttentionKernel(mlir::tile::KernelOp kernel, std::string &why);

/// All of a module that tile-plan-schedules has not seen yet.
std::vector<AttentionKernel> findAttentionKernels(mlir::ModuleOp module);

} // namespace mlac

#endif // MLA_CONVERSION_TILETOSM90_ATTENTIONKERNELS_H
