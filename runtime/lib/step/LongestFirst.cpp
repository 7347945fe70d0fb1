//===- LongestFirst.cpp - gives whole pieces to parts -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/LongestFirst.h"

#include <algorithm>

using namespace mlac::runtime;

static constexpr int kIndexBits = 24;
static constexpr uint64_t kIndexMask = (uint64_t(1) << kIndexBits) - 1;

/// Of equal ones the first comes first, though the order falls.
static size_t pieceOf(uint64_t entry) { return kIndexMask - (entry & kIndexMask); }

void LongestFirst::reserve(size_t pieces, size_t parts) {
  order.reserve(pieces);
  tree.reserve(2 * parts);
}

/// Orders the pieces by falling cost. From step to step of a decode few change their
/// place, so the order before is the start where there are as many.
void LongestFirst::sort(std::span<const WorkPiece> pieces, PieceCost cost) {
  if (order.size() != pieces.size()) {
    order.clear();
    for (size_t i = 0; i < pieces.size(); ++i)
      order.push_back(kIndexMask - i);
  }
  for (uint64_t &entry : order)
    entry = static_cast<uint64_t>(cost.of(pieces[pieceOf(entry)].numBlocks)) << kIndexBits |
            (entry & kIndexMask);
  // Insertion, until it has moved more than sorting would compare.
  size_t moves = 16 * order.size();
  for (auto end = order.begin(); end != order.end(); ++end) {
    if (end == order.begin() || end[-1] >= *end)
      continue;
    auto place = std::upper_bound(order.begin(), end, *end, std::greater<>());
    auto distance = static_cast<size_t>(end - place);
    if (distance > moves)
      return std::sort(order.begin(), order.end(), std::greater<>());
    moves -= distance;
    std::rotate(place, end, end + 1);
  }
}

/// Gives the piece to the part at the root.
void LongestFirst::add(WorkPiece &piece, uint64_t cost, size_t parts) {
  uint64_t least = tree[1] + (cost << kIndexBits);
  size_t part = least & kIndexMask;
  piece.part = static_cast<int32_t>(part);
  size_t node = parts + part;
  tree[node] = least;
  for (; node > 1; node /= 2) {
    least = std::min(least, tree[node ^ 1]);
    tree[node / 2] = least;
  }
}

int64_t LongestFirst::assign(std::span<WorkPiece> pieces, PieceCost cost, size_t parts) {
  sort(pieces, cost);
  // Each part takes one while there are parts without any. Leaf i is node parts + i, and node
  // n is above 2 n and 2 n + 1, whatever the number of parts; with one part it is the root.
  tree.resize(2 * parts);
  for (size_t part = 0; part < parts; ++part) {
    tree[parts + part] = part;
    if (part >= order.size())
      continue;
    tree[parts + part] |= order[part] & ~kIndexMask;
    pieces[pieceOf(order[part])].part = static_cast<int32_t>(part);
  }
  for (size_t node = parts - 1; node > 0; --node)
    tree[node] = std::min(tree[2 * node], tree[2 * node + 1]);
  for (size_t i = parts; i < order.size(); ++i)
    add(pieces[pieceOf(order[i])], order[i] >> kIndexBits, parts);
  auto leaves = tree.begin() + static_cast<std::ptrdiff_t>(parts);
  return static_cast<int64_t>(*std::max_element(leaves, tree.end()) >> kIndexBits);
}
