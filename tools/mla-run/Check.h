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
// Reference on some of the rows; or attention alone with its own (CheckLatents.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_CHECK_H
#define MLA_RUN_CHECK_H

#include "Arguments.h"
#include "LayerWeights.h"
#include "Numbers.h"
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
ModuleNames findModule(const Checkpoint &file, const std::string &module);

/// One request of a check against a reference: cached tokens and new ones.
struct CachedRequest {
  int64_t context, query;
};

/// Rows of a step that are compared: those of one request.
struct Sample {
  size_t request;
  std::vector<int64_t> rows; // new tokens, counted from 0
};

// What checks against references share (CheckReference.cpp).
/// Contexts go round until the batch is full.
std::vector<CachedRequest> makeRequests(const CheckOptions &options, int64_t query);
std::string describeRequests(const std::vector<CachedRequest> &requests,
                             const CheckOptions &options);
/// Spread over the batch and its contexts; of each request, the first and last new token.
std::vector<Sample> chooseSamples(const std::vector<CachedRequest> &requests,
                                  const CheckOptions &options);
/// An engine for the options' requests of at most `longestQuery` new tokens.
EngineSizes getCheckSizes(const Session &session, const CheckOptions &options,
                          int64_t longestQuery);
/// Cached rows as attention finds them: normalised latents and rotated keys have entries
/// of deviation about 1.
std::vector<float> makeCachedRows(const Session &session, uint64_t seed, int64_t tokens);
void writeRows(const Session &session, mla_engine *engine, mla_sequence sequence,
               const std::vector<float> &rows);

std::vector<Finding> checkGolden(const Session &session, const LayerWeights &weights,
                                 const Checkpoint &file, const ModuleNames &names,
                                 const CheckOptions &options);
std::vector<Finding> checkReference(const Session &session, const LayerWeights &weights,
                                    const CheckOptions &options);
/// Of packages that attend to latents alone.
std::vector<Finding> checkLatents(const Session &session, const CheckOptions &options);

/// A line on stderr that says what runs now; only on a terminal.
void showProgress(const std::string &what);

} // namespace mlac::run

#endif // MLA_RUN_CHECK_H
