//===- ConfigWarnings.h - what others read otherwise ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_CONFIGWARNINGS_H
#define MLA_IMPORT_CONFIGWARNINGS_H

#include "mla/Import/ModelConfig.h"

namespace mlac {

/// Keys that are valid, and that transformers takes for something else than the specification
/// (docs/spec/mla.md). `config` is what was parsed of the text.
std::vector<ConfigProblem> findConfigWarnings(llvm::StringRef json, const ModelConfig &config);

} // namespace mlac

#endif // MLA_IMPORT_CONFIGWARNINGS_H
