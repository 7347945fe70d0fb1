//===- PromptParams.h - which requests are prompts --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PROMPTPARAMS_H
#define MLAC_RUNTIME_PROMPTPARAMS_H

#include <cstdint>

namespace mlac::runtime {

/// The attributes of tile.prompts; costs in blocks.
struct PromptParams {
  int64_t above; // new tokens
  uint32_t pays; // expression: not 0
  int64_t itemsPerToken, tokensPerItem, keysPerBlock;
  double itemCost, mergeCost, partialCost;
  int64_t window = 0; // keys that a query sees; 0: all
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PROMPTPARAMS_H
