//===- Options.h - the command line of mla-compile ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every option, its help and its limits. Linking the CPU image runs lld in this process,
// which resets all command-line options: they are read once, before anything else.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_OPTIONS_H
#define MLA_COMPILE_OPTIONS_H

#include "Simulate.h"
#include "TuneTimer.h"

#include "mla/Driver/Compile.h"

namespace mlac {

/// What was asked for besides CompileOptions.
struct Invocation {
  std::string input, output;
  std::optional<SimulateOptions> simulation;
  std::string explanation; ///< file of --explain; empty: none
  std::string level;
  bool namesLayer;  ///< else all kinds of layers are meant
  int64_t rowWidth; ///< of caches of latents; 0: any
  std::optional<mlir::mla::ScaleRule> scaleRule; ///< if it is named
  bool wantsTiming, wantsScheduleReport;
  llvm::raw_ostream *reports;
  CompileOptions options;
  std::optional<TuneOptions> tuning;
};

/// Reads what main is given; --help and --version end the process. False: an error that
/// names option, value and limit was printed.
bool readInvocation(int argc, char **argv, Invocation &invocation);

/// Whether a loaded module is what the options expect, before it is compiled; CheckModule.cpp.
bool checkModule(mlir::ModuleOp module, const Invocation &invocation);

} // namespace mlac

#endif // MLA_COMPILE_OPTIONS_H
