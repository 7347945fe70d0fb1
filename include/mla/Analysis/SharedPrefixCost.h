//===- SharedPrefixCost.h - when a prefix of many requests pays to be shared ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// S keys that all requests of a batch have in common are attended to by each request in
// the absorbed form, or for all of them at once in the expanded one, which up-projects
// the keys first and merges at the end. For T query tokens of B requests and N heads:
//
//   absorbed   max(B, ⌈T·N / tileRows⌉) · S · absorbedTile
//   shared     min(⌈items / numSms⌉ · S · expandedTurn,
//                  items · S · expandedTurn / numSms + split)    items = ⌈T / turnTokens⌉ · N
//              + S · upProjection + T · merge + fixed
//
// where the second of both is with keys that are split until the machine is full
// (mla-split-chunks).
//
// Where the target's multiprocessor is described, times are those of the schedules that
// the kernels get (ScheduleCost, DenseScheduleCost, ProductCost), with keys from the L2
// cache: all requests read the same pages. Elsewhere they are FLOPs over the rate.
//
// Numbers are picoseconds, so that plans decide in integers.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_SHAREDPREFIXCOST_H
#define MLA_ANALYSIS_SHAREDPREFIXCOST_H

#include "mla/Analysis/FormCost.h"

namespace mlac {

/// What is known of the batches of a step.
struct SharedPrefixProblem {
  LayerDims dims;
  /// 0: any.
  int64_t queryLen = 1;
  int64_t pageSize = 64, elementBytes = 2;
};

struct SharedPrefixCost {
  /// Rows (token, head) of an absorbed tile; picoseconds of a tile and key, of all
  /// multiprocessors together.
  int64_t tileRows = 1, absorbedTile = 0;
  /// Tokens of a head that a multiprocessor takes in one turn; picoseconds of a turn and
  /// key.
  int64_t turnTokens = 1, expandedTurn = 0;
  /// Multiprocessors that take turns.
  int64_t numSms = 1;
  /// Picoseconds per key, per token, and whatever the sizes; where keys are split, too.
  int64_t upProjection = 0, merge = 0, fixed = 0, split = 0;

  /// Picoseconds that sharing saves: negative where it does not pay.
  int64_t computeSaving(int64_t heads, int64_t requests, int64_t tokens, int64_t keys) const;
};

SharedPrefixCost computeSharedPrefixCost(const SharedPrefixProblem &problem,
                                         const TargetDescription &target);

/// The least number of requests with one token each for which sharing `keys` keys pays,
/// and goes on to pay for all more up to `limit`; nothing if there is none.
std::optional<int64_t> findLeastSharers(const SharedPrefixCost &cost, int64_t heads, int64_t keys,
                                        int64_t limit);

} // namespace mlac

#endif // MLA_ANALYSIS_SHAREDPREFIXCOST_H
