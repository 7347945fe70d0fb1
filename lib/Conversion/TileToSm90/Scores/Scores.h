//===- Scores.h - an indexer's keys on M, out of a ring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of codes whose left side, blocks of 64 keys, comes by a loop out of pages, and whose
// right sides, the heads of a few tokens, stay (mla.index_scores). One thread of a producer
// copies keys ahead, as far as the ring is deep; one consumer multiplies and reduces:
//
//   producer | Q  K(0) K(1) K(2) ...          | K(n)         | K(n+1)
//   memory   | ====K(0)====|====K(1)====|====K(2)====|====
//   consumer |       Q Kt(0): a product for two tokens, all issued, waited for in turn
//            |              | relu, weights, sum over heads, scale | store | free
//
// A block is 8 KiB of codes. A multiprocessor that is to get its share of 4.6 TB/s, 17.6 bytes
// a clock, gets a block every 470 clocks; a consumer needs about 500 for one token, most of which
// is latency. So programs are small, several to a multiprocessor, and hide each other's start.
// Keys are on M because then the sum over heads is one over a thread's registers.
//
// In a dependent launch both roles wait before they first read memory of tiles.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORES_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORES_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include <string>

namespace mlac {

/// The stages of the ring for `kernel`, or `given`; 0, and in `why` the reason, if it cannot be
/// scheduled so. Kernels without products of codes have no reason.
int64_t chooseScoresStages(mlir::tile::KernelOp kernel, std::optional<int64_t> given,
                           std::string &why);

/// Builds, before `kernel`, the sm90.kernel of the same name; a null op, and in `why` what does
/// not fit, for kernels it does not take.
mlir::sm90::KernelOp buildScoresSchedule(mlir::tile::KernelOp kernel, std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORES_H
