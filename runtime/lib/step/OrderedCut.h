//===- OrderedCut.h - requests cut where parts are full ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts take the requests in their order, and blocks until their load would exceed a cap:
//
//   requests   aaaaaaaaaa  bbb cc ddddd      part 0  aaaaaa
//                                            part 1  aaaa bb
//                                            part 2  b cc dd ...
//
// A cap is looked at several times before the best is known. So the costs of all requests
// before each are summed up once; then a look takes a few steps for each part.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_ORDEREDCUT_H
#define MLAC_RUNTIME_ORDEREDCUT_H

#include "step/WorkPieces.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace mlac::runtime {

class OrderedCut {
public:
  void reserve(size_t requests) { sums.reserve(requests + 2); }
  /// `blocks`: of each request, which stay until the next call; 0: it has no query.
  void begin(std::span<const int32_t> blocks, PieceCost cost, int64_t parts);

  /// What all requests cost, whole.
  int64_t total() const { return sums[blocks.size()]; }
  /// Blocks of the longest request, and of the shortest that has a query.
  int64_t longest() const { return longest_; }
  int64_t shortest() const { return shortest_; }
  /// Whether the parts suffice.
  bool fits(int64_t cap) const;
  /// Tokens of the partials; nothing where the parts do not suffice.
  std::optional<int64_t> countPartialTokens(int64_t cap,
                                            std::span<const WorkRequest> requests) const;
  /// The smallest cap that fits, to a quarter of a block, which is less than what costs are
  /// known to; nothing where all caps below `high` are too small.
  std::optional<int64_t> findSmallestCap(int64_t low, int64_t high) const;
  /// A cap that always fits.
  int64_t enough() const;
  /// Requests that cost at least `cost`.
  int64_t countAtLeast(int64_t cost) const;

  /// Calls whole(first, end, part) for requests [first, end) of which none is cut, which may
  /// be none, and piece(request, first block, blocks, part) for the pieces of the others, all in
  /// order. False if the parts do not suffice.
  template <typename Whole, typename Piece> bool cut(int64_t cap, Whole whole, Piece piece) const;

private:
  std::span<const int32_t> blocks;
  PieceCost cost;
  int64_t parts = 0, longest_ = 0, shortest_ = 0;
  std::vector<int64_t> sums; // of the requests before each, of all, and a sentinel
};

template <typename Whole, typename Piece>
bool OrderedCut::cut(int64_t cap, Whole whole, Piece piece) const {
  int64_t mostBlocks = cost.blocksWithin(cap), part = 0, left = cap;
  for (size_t request = 0;;) {
    size_t first = request;
    int64_t end = sums[request] + left;
    while (sums[request + 1] <= end) // the sentinel ends it
      ++request;
    whole(first, request, part);
    if (request == blocks.size())
      return true;
    left = end - sums[request];
    int64_t from = 0;
    if (left >= cost.least()) {
      from = cost.blocksWithin(left);
      piece(request, 0, from, part);
    }
    if (++part == parts)
      return false;
    left = cap;
    if (from == 0) // may be whole in the next part
      continue;
    int64_t rest = blocks[request] - from;
    for (; rest > mostBlocks; from += mostBlocks, rest -= mostBlocks) {
      piece(request, from, mostBlocks, part);
      if (++part == parts)
        return false;
    }
    piece(request, from, rest, part);
    left -= cost.of(rest);
    ++request;
  }
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_ORDEREDCUT_H
