//===- Progress.h - what mla-compile shows on the way ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_PROGRESS_H
#define MLA_COMPILE_PROGRESS_H

#include "mla/Driver/Compile.h"

namespace mlac {

/// No lines from now on but errors.
void silenceProgress();
bool isSilent();
/// One line that changes on a terminal, plain lines elsewhere.
void showStage(const std::string &name);
void endProgress();
void printTiming(const StageTimer &timer);

/// Prints an error; false, for callers to return.
bool fail(const llvm::Twine &message);

} // namespace mlac

#endif // MLA_COMPILE_PROGRESS_H
