//===- GroupedPrompts.h - prompts of grouped heads over pages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queries that fill tiles by themselves have a kernel of their own beside the one over pieces:
// a program computes a tile of queries of one head of one request, over all keys that it sees.
//
//     grid  x: tiles of max_query_len   y: head   z: prompt
//
// Schedules may loop over the programs and put two beside each other (tile-loop-over-programs).
// Where tiles are few the runtime cuts the keys of prompts into parts (tile.prompts), which are
// merged with the pieces of the others: requests of few queries, such as decodes.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H

#include "Attention/PagedKernel.h"

namespace mlac::mla_to_tile {

/// Which requests are prompts (tile.prompts), for all attentions of a step.
struct PromptRule {
  int64_t above = 0; // new tokens
  bool copiesKeys = false;
  /// Whether a step that has any takes all of its requests to be prompts.
  bool takesAll = true;
};

/// Nothing if the step's attentions have no kernel for them.
std::optional<PromptRule> findPromptRule(StepLowering &step, mlir::mla::GroupedAttentionOp op);

/// The kernel for prompts, where there are any. What computes the op's results has allocated them.
/// Parts of prompts that are cut are written to `partials`, as pieces are.
void launchPrompts(StepLowering &step, mlir::mla::GroupedAttentionOp op, const PromptRule &rule,
                   const PagedKernel::Partials &partials);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H
