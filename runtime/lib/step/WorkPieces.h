//===- WorkPieces.h - pieces of requests and what they cost -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WORKPIECES_H
#define MLAC_RUNTIME_WORKPIECES_H

#include <cmath>
#include <cstdint>

namespace mlac::runtime {

struct WorkRequest {
  int32_t seqLen, firstToken, queryLen;
};

/// A run of a request's blocks, and the part that computes it.
struct WorkPiece {
  int32_t request, firstBlock, numBlocks, part;
};

/// What pieces cost. Costs are integers, in 16ths of a block: rounding is the same everywhere.
class PieceCost {
public:
  static constexpr int64_t kUnit = 16;
  static int64_t toUnits(double blocks) { return std::llround(blocks * kUnit); }

  explicit PieceCost(double itemBlocks = 0) : item_(toUnits(itemBlocks)) {}

  /// Of a piece without any block.
  int64_t item() const { return item_; }
  int64_t of(int64_t blocks) const { return item_ + blocks * kUnit; }
  /// Of the shortest piece that there is.
  int64_t least() const { return of(1); }
  /// The longest piece that costs at most `cost`, which is not below that of the shortest.
  int64_t blocksWithin(int64_t cost) const {
    return static_cast<int64_t>(static_cast<uint64_t>(cost - item_) / kUnit);
  }

private:
  int64_t item_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WORKPIECES_H
