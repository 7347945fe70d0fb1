//===- CopyKeys.h - keys of prompts, side by side ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_COPYKEYS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_COPYKEYS_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// A field of a cache, and its rows in the model's type, [num_prompt_keys, ...].
struct KeyCopy {
  mlac::cache::Part part;
  TensorRef rows;
};

/// Writes the fields of all keys of every prompt (tile.prompts) of `cache` to `copies`, one or two
/// of one pool: row prompt_key_loc[n] + i is token i of prompt n.
void copyPromptKeys(StepLowering &step, mlir::Value batch, mlir::Value cache,
                    llvm::ArrayRef<KeyCopy> copies);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_COPYKEYS_H
