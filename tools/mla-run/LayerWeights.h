//===- LayerWeights.h - weights of an engine and of its reference ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_LAYERWEIGHTS_H
#define MLA_RUN_LAYERWEIGHTS_H

#include "Checkpoint.h"
#include "Session.h"

#include <functional>

namespace mlac::run {

/// One layer's weights twice: as a reference computes with them, in the values that the
/// package's type holds, and bound to an engine. `bind` does not prepare.
struct LayerWeights {
  WeightMap values;
  std::function<void(mla_engine *)> bind;
};

/// Bell-shaped random weights of deviation 1/sqrt(fan-in) for every tensor that the package
/// asks for; norm weights lie around 1. Where the package takes codes, matrices are bound so.
LayerWeights makeRandomLayer(const Session &session, uint64_t seed);

/// The attention of a checkpoint whose weights begin with `prefix`; `checkpoint` outlives it.
/// With `isRead` also for a reference.
LayerWeights readLayer(const Session &session, const Checkpoint &checkpoint,
                       const std::string &prefix, bool isRead);

/// The prefix of an attention of the checkpoint: the only one, or the one that is called
/// `module`, or has that number.
std::string findAttention(const Checkpoint &checkpoint, const std::string &module);

/// Binds, sets the scale of the cache and prepares the layer.
void bindLayer(const Session &session, mla_engine *engine, const LayerWeights &weights);

} // namespace mlac::run

#endif // MLA_RUN_LAYERWEIGHTS_H
