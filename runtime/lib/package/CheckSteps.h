//===- CheckSteps.h - steps of a package's function -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CHECKSTEPS_H
#define MLAC_RUNTIME_CHECKSTEPS_H

#include "package/Package.h"

#include <functional>

namespace mlac::runtime {

/// Launches, loops and branches of `function`, whose buffers and expressions are verified.
/// `spend` counts what is looked at.
Status checkSteps(const fb::Target &target, const FunctionInfo &function, const StepList *steps,
                  std::function<Status(int64_t)> spend);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CHECKSTEPS_H
