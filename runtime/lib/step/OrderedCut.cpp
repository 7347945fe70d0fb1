//===- OrderedCut.cpp - requests cut where parts are full -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/OrderedCut.h"

#include "base/DataType.h"

using namespace mlac::runtime;

void OrderedCut::begin(std::span<const int32_t> given, PieceCost costs, int64_t numParts) {
  blocks = given;
  cost = costs;
  parts = numParts;
  sums.resize(blocks.size() + 2);
  int64_t sum = 0;
  int32_t longest = 0, shortest = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < blocks.size(); ++i) {
    sums[i] = sum;
    longest = std::max(longest, blocks[i]);
    shortest = blocks[i] > 0 ? std::min(shortest, blocks[i]) : shortest;
    sum += blocks[i] > 0 ? cost.of(blocks[i]) : 0;
  }
  sums[blocks.size()] = sum;
  sums[blocks.size() + 1] = std::numeric_limits<int64_t>::max();
  longest_ = longest;
  shortest_ = shortest;
}

/// A part that cannot take another block has less than the shortest piece's cost left, and
/// each border adds the cost of an item.
int64_t OrderedCut::enough() const { return ceilDiv(total(), parts) + cost.item() + cost.least(); }

int64_t OrderedCut::countAtLeast(int64_t least) const {
  int64_t count = 0;
  for (int32_t of : blocks)
    count += of > 0 && cost.of(of) >= least;
  return count;
}

bool OrderedCut::fits(int64_t cap) const {
  return cut(
      cap, [](size_t, size_t, int64_t) {}, [](size_t, int64_t, int64_t, int64_t) {});
}

std::optional<int64_t> OrderedCut::countPartialTokens(int64_t cap,
                                                      std::span<const WorkRequest> requests) const {
  if (cap * parts < total())
    return std::nullopt;
  int64_t tokens = 0;
  auto add = [&](size_t request, int64_t, int64_t, int64_t) {
    tokens += requests[request].queryLen;
  };
  bool fits = cut(
      cap, [](size_t, size_t, int64_t) {}, add);
  return fits ? std::optional(tokens) : std::nullopt;
}

std::optional<int64_t> OrderedCut::findSmallestCap(int64_t low, int64_t high) const {
  if (high < low || (high < enough() && !fits(high)))
    return std::nullopt;
  while (high - low > PieceCost::kUnit / 4) {
    int64_t middle = low + (high - low) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}
