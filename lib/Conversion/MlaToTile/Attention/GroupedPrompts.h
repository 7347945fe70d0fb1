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
//     grid  x: tiles of max_query_len   y: head   z: request
//
// So nothing is partial and nothing merged, and schedules may loop over the programs and put two
// beside each other (tile-loop-over-programs). What it lacks is parallelism where tiles are
// few, which pieces have: the plan asks how many queries there are.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

/// `launchPieces`, or where the step's queries are many the kernel for prompts. What computes the
/// op's results has allocated them.
mlir::LogicalResult launchBesidePrompts(StepLowering &step, mlir::mla::GroupedAttentionOp op,
                                        llvm::function_ref<mlir::LogicalResult()> launchPieces);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_GROUPEDPROMPTS_H
