//===- SelectionOptions.h - which keys sparse layers attend to, and how ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_SELECTIONOPTIONS_H
#define MLA_COMPILE_SELECTIONOPTIONS_H

#include "mla/Driver/Compile.h"

#include "llvm/Support/CommandLine.h"

namespace mlac {

extern llvm::cl::OptionCategory attentionCategory;

/// Reads how indexers select and attention reads what they did. False: an error was printed.
bool readSelection(CompileOptions &options);

} // namespace mlac

#endif // MLA_COMPILE_SELECTIONOPTIONS_H
