//===- Prompts.h - requests apart from the partitioned work -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step may have kernels for requests of many new tokens; what is partitioned is the rest.
// Whether they pay is an expression of the function's, of these requests as they would be. Their
// keys may be copied first, side by side in the order of the batch, into the engine's workspace.
//
//   queries [1, 300, 1, 200] of keys [40, 900, 7, 200], above 64
//   num_prompts 2, num_prompt_tokens 500, num_prompt_keys 1100, max_piece_query_len 1
//   prompt_requests [1, 3], prompt_key_loc [0, 900, 1100]
//
// PromptParts cuts their keys.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PROMPTS_H
#define MLAC_RUNTIME_PROMPTS_H

#include "package/Dims.h"
#include "step/PromptParts.h"

namespace mlac::runtime {

/// Of any batch with the other sizes.
void setMostPrompts(DimValues &dims, int64_t workspaceTokens, const PromptCuts &most);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PROMPTS_H
