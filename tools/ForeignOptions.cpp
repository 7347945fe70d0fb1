//===- ForeignOptions.cpp - options of others ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mains.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"

#include <vector>

namespace cl = llvm::cl;

/// --help and --version, which the parser itself registers.
static bool isCommon(const cl::Option *option) {
  return llvm::any_of(option->Categories, [](const cl::OptionCategory *category) {
    return category->getName() == "Generic Options";
  });
}

void mlac::forgetForeignOptions() {
  cl::SubCommand &all = cl::SubCommand::getTopLevel();
  // Not cl::ResetCommandLineParser: it forgets the general category, too, and with it what MLIR
  // registers afterwards has no place in --help.
  std::vector<cl::Option *> foreign(all.PositionalOpts.begin(), all.PositionalOpts.end());
  for (const auto &[name, option] : all.OptionsMap)
    if (!isCommon(option) && !llvm::is_contained(foreign, option))
      foreign.push_back(option);
  for (cl::Option *option : foreign)
    option->removeArgument();
}
