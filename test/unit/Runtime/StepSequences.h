//===- StepSequences.h - sequences for tests of a step ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tests of planning, which run no kernels, make their batches of.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_STEPSEQUENCES_H
#define MLAC_TEST_STEPSEQUENCES_H

#include "cache/KVCache.h"
#include "package/Package.h"

#include <gtest/gtest.h>

namespace mlac::test {

/// A sequence that has `length` tokens in the cache.
inline mla_sequence createSequence(runtime::KVCache &cache, int64_t length) {
  mla_sequence id = 0;
  runtime::Sequence *sequence = nullptr;
  EXPECT_TRUE(cache.create(id).isOk());
  EXPECT_TRUE(cache.find(id, sequence).isOk());
  EXPECT_TRUE(cache.reserve(*sequence, length).isOk());
  sequence->length = length;
  return id;
}

/// Pieces of four keys, one for each token.
inline constexpr runtime::WorkParams kSmallWork = {
    /*keysPerBlock=*/4, /*rowsPerToken=*/1, /*rowsPerTile=*/1, 0.5, 0.5, 0};

/// Of one row, and as pieces are. Cuts are free, so that they are made where they balance.
inline constexpr runtime::PromptParams kSmallPrompts = {
    /*above=*/1,         /*pays=*/0,         /*itemsPerToken=*/1,
    /*tokensPerItem=*/4, /*keysPerBlock=*/4,
    /*itemCost=*/0.0,    /*mergeCost=*/0.0,  /*partialCost=*/0.0};

/// A function that asks for all that a step can have. It attends apart to all common tokens, and to
/// prompts of three tokens and more if there are at least as many multiprocessors.
inline runtime::FunctionInfo makeDemandingFunction() {
  namespace fb = mlac::package;
  runtime::FunctionInfo function{};
  std::vector<fb::ExprNode> nodes = {{fb::ExprOp::Dim, 0, 0, 0, 0},
                                     {fb::ExprOp::Dim, 0, 0, 0, 1},
                                     {fb::ExprOp::Dim, 0, 0, 0, 2},
                                     {fb::ExprOp::Ge, 1, 2, 0, 0}};
  std::vector<runtime::Dim> dims = {runtime::Dim::NumCommonTokens, runtime::Dim::NumSms,
                                    runtime::Dim::NumPromptTokens};
  EXPECT_TRUE(runtime::ExpressionTable::make(nodes, dims, function.exprs).isOk());
  function.sharedTokens = 0;
  function.prompts = kSmallPrompts;
  function.prompts->above = 2, function.prompts->pays = 3;
  function.usesChunks = true;
  function.work = kSmallWork;
  return function;
}

} // namespace mlac::test

#endif // MLAC_TEST_STEPSEQUENCES_H
