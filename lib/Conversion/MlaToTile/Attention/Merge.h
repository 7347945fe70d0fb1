//===- Merge.h - joining partials by their LSE ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_MERGE_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_MERGE_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// Launches what joins all splits: partial [S, T, N, V] with partial_lse [S, T, N] to output
/// [T, N, V] and lse [T, N] (mla.merge_splits). LSEs are token-major.
void mergeSplits(StepLowering &step, const TensorRef &partial, const TensorRef &partialLse,
                 const TensorRef &output, const std::optional<TensorRef> &lse);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_MERGE_H
