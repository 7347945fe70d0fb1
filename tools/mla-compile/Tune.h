//===- Tune.h - measures schedules and keeps the fastest ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost model's choice is near the best; which neighbour is the best depends
// on what the model does not know. Tuning compiles every point that the searches of
// mla/Analysis name, for one attention kernel after the other, times that kernel in
// a step that runs it, and keeps each kernel's fastest. The others keep the cost
// model's choice meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_TUNE_H
#define MLA_COMPILE_TUNE_H

#include "TuneTimer.h"

#include "mla/Driver/Compile.h"

namespace mlac {

/// The first point whose time is within noise of the least; `times` has one for
/// each point, nothing for points that failed. Nothing: none has a time.
std::optional<size_t> pickFastest(llvm::ArrayRef<std::optional<double>> times);

/// Sets the schedule of every attention kernel in `options` to the fastest. Points
/// that fail are reported and left out; an error means that nothing can be measured.
llvm::Error tune(mlir::ModuleOp module, const TuneOptions &tuning, CompileOptions &options);

} // namespace mlac

#endif // MLA_COMPILE_TUNE_H
