//===- WorkBounds.cpp - the largest partition of any step -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/WorkBounds.h"

#include "base/DataType.h"

#include <algorithm>

using namespace mlac::runtime;

int64_t mlac::runtime::countParts(const WorkParams &params, int64_t maxQueryLen, int64_t numSms) {
  return std::max<int64_t>(numSms / countTiles(params, std::max<int64_t>(maxQueryLen, 1)), 1);
}

/// With fixed blocks a request is in at most this many pieces, which bounds the
/// partials; longer ones are cut at a multiple of the fixed blocks.
static constexpr int64_t kMaxFixedPieces = 32;

int64_t mlac::runtime::maxFixedPieces(const WorkParams &params, int64_t queryLen, int64_t numSms) {
  return std::min(countParts(params, queryLen, numSms), kMaxFixedPieces);
}

int64_t mlac::runtime::maxCutPieces(int64_t parts, int64_t requests) {
  return std::min(2 * (parts - 1), requests + parts - 1);
}

int64_t mlac::runtime::countMergePrograms(const WorkParams &params, int64_t numSms) {
  return params.mergePrograms * numSms;
}

namespace {
/// The least concave function that is not below some points (query_len, tokens of partials)
/// and never falls: what requests of different lengths have together is at most what as many
/// of their mean length would have.
class Envelope {
public:
  explicit Envelope(EnvelopePoints &points) : points(points) { points.assign(1, {0, 0}); }
  void add(int64_t x, int64_t y) {
    if (y <= points.back().second) // the largest of shorter ones counts
      return;
    while (points.size() > 1 && isBelow(points[points.size() - 2], points.back(), {x, y}))
      points.pop_back();
    points.emplace_back(x, y);
  }
  /// `count` times the value at `total` / `count`, rounded up.
  int64_t sum(int64_t count, int64_t total) const {
    for (size_t i = 1; i < points.size(); ++i) {
      auto [x0, y0] = points[i - 1];
      auto [x1, y1] = points[i];
      if (total <= count * x1)
        return count * y0 + ceilDiv((total - count * x0) * (y1 - y0), x1 - x0);
    }
    return count * points.back().second;
  }

private:
  using Point = EnvelopePoints::value_type;
  static bool isBelow(Point a, Point middle, Point b) {
    return (middle.second - a.second) * (b.first - a.first) <=
           (b.second - a.second) * (middle.first - a.first);
  }
  EnvelopePoints &points; // ascending, slopes falling
};
} // namespace

WorkSizes mlac::runtime::boundWork(const WorkParams &params, const WorkLimits &limits) {
  EnvelopePoints points;
  return boundWork(params, limits, points);
}

WorkSizes mlac::runtime::boundWork(const WorkParams &params, const WorkLimits &limits,
                                   EnvelopePoints &points) {
  WorkSizes most;
  most.parts = countParts(params, 1, limits.numSms);
  int64_t units = params.fixedBlocks == 0
                      ? 0
                      : ceilDiv(ceilDiv(limits.maxSeqLen, params.keysPerBlock), params.fixedBlocks);
  Envelope fixedTokens(points);
  // Longer queries have fewer parts, but larger partials.
  for (int64_t query = 1; query <= std::max<int64_t>(limits.maxQueryLen, 1); ++query) {
    int64_t parts = countParts(params, query, limits.numSms);
    if (parts == 1)
      break; // and so on for all longer ones: nothing is cut
    int64_t pieces = maxCutPieces(parts, limits.requests);
    int64_t tokens = pieces * query;
    if (params.fixedBlocks > 0) {
      int64_t each = std::min(units, maxFixedPieces(params, query, limits.numSms));
      pieces = each > 1 ? limits.requests * each : 0;
      fixedTokens.add(query, each > 1 ? each * query : 0);
      tokens = fixedTokens.sum(limits.requests, std::min(limits.tokens, limits.requests * query));
    }
    most.partials = std::max(most.partials, pieces);
    most.partialTokens = std::max(most.partialTokens, tokens);
  }
  most.merges = most.partials > 0 ? limits.requests : 0;
  most.mergePrograms = most.merges > 0 ? countMergePrograms(params, limits.numSms) : 0;
  most.items = limits.requests + most.partials;
  return most;
}
