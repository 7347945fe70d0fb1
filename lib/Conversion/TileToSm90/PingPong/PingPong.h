//===- PingPong.h - two warpgroups that take turns at the tensor cores ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expanded attention over dense keys and values. A CTA runs two programs of 64 query
// rows side by side, on a warpgroup each; a third warpgroup, of which one thread
// works, copies what both read. Source: FlashAttention-3 (Shah et al., 2024).
//
// S(i) are the scores of block i, P(i) its weights. Within a warpgroup the softmax
// of a block runs under the product of the block before, across warpgroups under
// the products of the other:
//
//   tensor | A: S(1), P(0)·V(0) | B: S(1), P(0)·V(0) | A: S(2), P(1)·V(1) | B: ...
//   A      | turn, issue, pass .. wait S(1) | softmax(1) | wait O, rescale  | turn, issue ...
//   B        softmax(0) ...     | turn, issue, pass .. wait S(1) | softmax(1) | ...
//
// The turn is a pair of named barriers: a warpgroup waits at its own before it
// issues, and arrives at the other's after. Weights stay in registers: they are the
// products' left operand.
//
//   ring       stages  tiles (per stage)                       filled by   freed by
//   queries 2x 1       64 x width of each term                 load (TMA)  its math
//   keys       n       block x width of each term              load (TMA)  both math
//   values     n       block x width of the values             load (TMA)  both math
//   items      1       none: the numbers are in global memory  load        both math
//
// Beside the rings, where there is room, each math role has a tile that its output goes
// through (sm90.store_staged).
//
// Blocks are taken from the last to the first: only the last ones, those within 128
// rows of the end, hold keys that a row does not see (the diagonal, the request's
// end), so that the loop behind them needs no mask. Rows behind the request's end may
// hold NaN, which a weight of 0 does not remove: the first warpgroup writes zeros
// over those of the values, and both meet before they go on.
//
// The next item's keys and queries arrive while this one's last products and stores
// run: the rings know no items. The queries of an item of one block are given back before
// its softmax.
//
// Items go to whoever is free: the thread that copies takes the next number from a
// counter in global memory (tile.item_counters) with the last copies of an item, looks
// for the request that has it, and leaves both for the other roles beside the counter; a
// ring without tiles says when. The first items are those of the programs' own numbers,
// and the last program to find none left makes the counters zeros again, for the next
// launch.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONG_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONG_H

#include "Common/DenseAttentionLoop.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

namespace mlac {

/// Whether the ping-pong schedule can run `attend` once its programs are looped over;
/// if not, `why` says what is missing.
bool canPingPong(mlir::tile::AttendOp attend, std::string &why);

/// Builds, before the kernel of `attend`, the sm90.kernel of the same name. Precondition:
/// canPingPong, isLoopedOver. Expands `attend`.
mlir::sm90::KernelOp buildPingPongSchedule(mlir::tile::AttendOp attend);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONG_H
