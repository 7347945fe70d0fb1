//===- LongestFirst.h - gives whole pieces to parts -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The most expensive piece first, each to the part with the least load so far. Parts are the
// leaves of a tree whose nodes hold the least of those below:
//
//              3,p1                the root names the part that takes the next piece;
//         5,p0      3,p1           its leaf and the nodes above it are all that changes,
//       5,p0 9,p2 3,p1 4,p3        and where they lie depends on no comparison
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_LONGESTFIRST_H
#define MLAC_RUNTIME_LONGESTFIRST_H

#include "step/WorkPieces.h"

#include <cstddef>
#include <span>
#include <vector>

namespace mlac::runtime {

class LongestFirst {
public:
  void reserve(size_t pieces, size_t parts);
  /// Sets the part of each piece. Returns the largest load.
  int64_t assign(std::span<WorkPiece> pieces, PieceCost cost, size_t parts);

private:
  void sort(std::span<const WorkPiece> pieces, PieceCost cost);
  void add(WorkPiece &piece, uint64_t cost, size_t parts);

  // A cost and a piece, or a load and a part, in one number that sorts by both.
  std::vector<uint64_t> order, tree;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_LONGESTFIRST_H
