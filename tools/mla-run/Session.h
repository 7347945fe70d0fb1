//===- Session.h - a package on a device, and one step of a batch ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_SESSION_H
#define MLA_RUN_SESSION_H

#include "Api.h"
#include "Arguments.h"
#include "Numbers.h"
#include "Reference.h"

#include "nlohmann/json.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlac::run {

/// Seconds of `work` by the wall clock.
template <typename Work> double timeWork(Work &&work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// An opened package and device, with the facts of the package that the
/// commands need.
struct Session {
  /// `arguments` name the package and, of one with kinds, a layer.
  Session(const Arguments &arguments, const std::string &deviceName, int32_t threads);

  /// "deepseek_v3, 8 heads, bf16, page size 64, on cpu (…)".
  std::string describe() const;
  nlohmann::json modelConfig() const;
  /// Which layer of the model it is, where these differ (mla-compile --layer).
  int64_t layerNumber() const;
  /// Keys that each token of a sparse layer attends to; none in a dense one.
  std::optional<int64_t> selectedKeys() const;

  Package package;
  Device device;
  nlohmann::json info, deviceInfo;
  double openSeconds = 0; // opening and verifying the package
  mla_dtype activation = MLA_BF16;
  int64_t hidden = 0, heads = 0, ranks = 1, pageSize = 0, rowWidth = 0;
  /// Rows of the cache as the package keeps them; no pages.
  mla_cache_layout cache;
  std::string cacheFormat;
  /// Rows and columns of weights that have one scale, where they may be codes; 0: all. Else empty.
  std::vector<int64_t> weightBlock;
  /// Whether the cache keeps less of a row than the activations' type.
  bool isCacheQuantized = false;
  /// Whether products read activations as codes, too (mla-compile --keep-codes=both).
  bool quantisesActivations = false;
  /// Whether absorbed weights are quantised again (mla-compile --absorbed=codes), of which the
  /// reference knows nothing.
  bool requantisesAbsorbed = false;
};

/// Rows [n, rowWidth] of floats as they lie in the cache, one after another, and what a
/// reader of the cache gets.
std::vector<uint8_t> encodeRows(const Session &session, const std::vector<float> &rows);
std::vector<float> decodeRows(const Session &session, const std::vector<uint8_t> &bytes);

/// What an engine is made for; 0 keeps the runtime's default.
struct EngineSizes {
  int64_t requests = 1, tokens = 1, sequenceTokens = 1, pages = 0;
  int64_t workspaceTokens = 0, processors = 0;
  int64_t rank = 0; // of a tensor-parallel package
};

Engine makeEngine(const Session &session, const EngineSizes &sizes);

/// Random rows in every pool, as its format keeps them: a block of pages, copied behind itself
/// until the pool is full.
void fillCache(const Session &session, mla_engine *engine, uint64_t seed);

/// A batch of one step: parallel lists.
struct Batch {
  std::vector<mla_sequence> sequences;
  std::vector<int32_t> queryLens;
  int64_t tokens() const;
};

/// Plans the batch, which advances its sequences. `function` null: the runtime
/// chooses.
void planStep(mla_plan *plan, const Batch &batch, const char *function);

/// Runs a planned step of layer 0 on `hidden` [T, H]; returns the output [T, H].
/// What the step does not write comes back as NaN.
/// Throws for sequences of a sparse layer that are longer than what it selects.
void requireDense(const Session &session, int64_t tokens);

std::vector<float> runStep(const Session &session, mla_plan *plan,
                           const std::vector<float> &hidden);

} // namespace mlac::run

#endif // MLA_RUN_SESSION_H
