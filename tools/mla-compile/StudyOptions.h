//===- StudyOptions.h - options of --tune and --simulate ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What mla-compile measures or simulates besides compiling: options, help and limits.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_STUDYOPTIONS_H
#define MLA_COMPILE_STUDYOPTIONS_H

#include "Simulate.h"
#include "TuneTimer.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

#include <optional>

namespace mlac {

extern llvm::cl::OptionCategory reportCategory, tuneCategory;

/// Reads --tune and what belongs to it, if it is given; times are kept beside the file
/// `output`. False: an error was printed.
bool readTuning(llvm::StringRef output, bool isQuiet, std::optional<TuneOptions> &chosen);

/// Reads --simulate and its step, if it is given. False: an error was printed.
bool readSimulation(std::optional<SimulateOptions> &chosen);

} // namespace mlac

#endif // MLA_COMPILE_STUDYOPTIONS_H
