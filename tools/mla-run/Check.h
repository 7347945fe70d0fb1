//===- Check.h - the two ways of checking a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Golden: a file stores inputs and outputs of one layer over whole sequences.
// Attention is causal, so every stored row is also the answer of a decode step
// after the rows before it, and of any cutting of the prefill.
//
// Reference: random inputs over a cache of random rows, compared with
// Reference on some of the rows.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_CHECK_H
#define MLA_RUN_CHECK_H

#include "Arguments.h"
#include "Numbers.h"
#include "Safetensors.h"
#include "Session.h"

#include <optional>
#include <string>
#include <vector>

namespace mlac::run {

/// One line of the result.
struct Finding {
  std::string what;
  ErrorMeasure errors;
};

struct CheckOptions {
  int64_t chunkTokens = 0;           // W; 0: default and minimum
  std::optional<int64_t> processors; // for plans; none: 1 and 132
  std::vector<int64_t> prefillLens;  // empty: the built-in partitions
  int64_t batch = 0;                 // 0: one request per context
  std::vector<int64_t> contexts;     // reference
  std::optional<int64_t> queryLen;   // reference; none: 1 and 5
  int64_t samples = 4;
  uint64_t seed = 1;
};

/// Where a file's attention module keeps its tensors.
struct ModuleNames {
  std::string weights; // prefix of the weights
  std::string input;   // "" where none is stored
  std::string output;
};

/// `module` empty: the only attention module of the file.
ModuleNames findModule(const Safetensors &file, const std::string &module);

std::vector<Finding> checkGolden(const Session &session, const std::string &path,
                                 const Safetensors &file, const ModuleNames &names,
                                 const CheckOptions &options);
std::vector<Finding> checkReference(const Session &session, const WeightMap &weights,
                                    const CheckOptions &options);

/// A line on stderr that says what runs now; only on a terminal.
void showProgress(const std::string &what);

} // namespace mlac::run

#endif // MLA_RUN_CHECK_H
