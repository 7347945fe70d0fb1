//===- Functions.h - what a package's functions take and give ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages need not hold a whole layer: some only decode, some only attend to latents
// (q_lat, q_pe -> output, lse). The steps of a package are found by what they take.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_FUNCTIONS_H
#define MLA_RUN_FUNCTIONS_H

#include "Session.h"

namespace mlac::run {

/// A buffer that the caller of a step binds.
struct StepBuffer {
  std::string name;
  bool isInput;
  std::string dtype;
};

struct StepFunction {
  std::string name;
  int64_t longestQuery; // 0: any
  std::vector<StepBuffer> buffers;

  bool takes(int64_t queryLen) const { return longestQuery == 0 || queryLen <= longestQuery; }
  bool has(const std::string &buffer) const;
  /// From hidden states to hidden states: a whole layer, not one that takes its latents.
  bool isLayer() const { return has("hidden") && has("output") && !has("latent"); }
  /// Attention over cached latents alone.
  bool isLatentAttention() const { return has("q_lat") && has("output"); }
};

/// The functions of the session's package that steps may run and that give an output.
std::vector<StepFunction> listSteps(const Session &session);

/// Whether the package holds whole layers.
bool hasLayers(const Session &session);

/// Whether there is a function for decodes and prefills in one call.
bool hasStep(const Session &session);

/// The longest query of a request, `otherwise` at most, that some function takes which
/// gives an output. Throws where none does.
int64_t longestQuery(const Session &session, int64_t otherwise);

/// The function that a planned step runs. Throws where it gives no output.
StepFunction plannedFunction(const Session &session, mla_plan *plan);

/// Advances sequences of an engine without running anything: takes their pages.
void takeTokens(mla_engine *engine, mla_sequence sequence, int64_t tokens);

} // namespace mlac::run

#endif // MLA_RUN_FUNCTIONS_H
