//===- UpProjectionCost.h - where keys and values are made ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// New tokens attend to C cached ones. Three ways, and what a layer's attention over the
// cached tokens takes with each, in a model of a multiprocessor's clocks:
//
//   planned    one product makes K and V of the chunk, which attention reads from the
//              workspace: every tile of 128 query rows from the L2 cache, all together
//              once from memory unless they fit into the cache
//   fused      each program (a head, 128 query rows) makes K and V of its blocks of keys
//              from the latents: the same product again for every tile of queries, with
//              the head's weights brought from the L2 cache for every block where they do
//              not fit into shared memory; nothing is written
//   absorbed   the other form: no keys and values
//
// Of a block of keys each takes the largest of tensor cores, shared memory, copies from
// L2 and the softmax's chain. `fused` is optimistic: a schedule that overlaps everything,
// with registers and shared memory for it.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_UPPROJECTIONCOST_H
#define MLA_ANALYSIS_UPPROJECTIONCOST_H

#include "mla/Analysis/FormCost.h"
#include "mla/Analysis/StepCost.h"

namespace mlac {

struct UpProjectionCost {
  double planned = 0, fused = 0, absorbed = 0; // microseconds
  StepCost fusedStep;                          // for 128 query rows of a head and 128 keys

  /// Of the three.
  llvm::StringRef getBest() const;
};

/// `planned` for 4096 tokens on 65536 of DeepSeek-V3 is 28.4 ms, measured 34.1 (product and
/// attention; docs/lab/chunked.md): gains below this are none.
inline constexpr double kUpProjectionModelError = 0.2;

/// Nothing without cached tokens, for machines without multiprocessors, and for heads
/// that the ping-pong schedule does not take.
std::optional<UpProjectionCost> computeUpProjectionCost(const FormProblem &problem,
                                                        const TargetDescription &target);

} // namespace mlac

#endif // MLA_ANALYSIS_UPPROJECTIONCOST_H
