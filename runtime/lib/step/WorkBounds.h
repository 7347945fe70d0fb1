//===- WorkBounds.h - the largest partition of any step ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes that no partition within some limits exceeds: memory is allocated for them before
// any step is planned, and a captured step's launches are theirs.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WORKBOUNDS_H
#define MLAC_RUNTIME_WORKBOUNDS_H

#include "package/WorkParams.h"

#include <utility>
#include <vector>

namespace mlac::runtime {

/// What one step has, or at most may have, of each.
struct WorkSizes {
  int64_t parts = 0, items = 0, partials = 0, partialTokens = 0, merges = 0, mergePrograms = 0;
  bool operator==(const WorkSizes &) const = default;
};

/// num_parts of tile.work.
int64_t countParts(const WorkParams &params, int64_t maxQueryLen, int64_t numSms);

/// Most pieces of a request with fixed blocks. The machine holds as many pieces
/// side by side as a batch of queries of this length has parts.
int64_t maxFixedPieces(const WorkParams &params, int64_t queryLen, int64_t numSms);

/// Each of the borders between parts cuts at most one request, and each cut
/// makes one piece more, of a request that may have been whole.
int64_t maxCutPieces(int64_t parts, int64_t requests);

/// Programs that merge at most.
int64_t countMergePrograms(const WorkParams &params, int64_t numSms);

/// Limits of the steps whose sizes are bounded.
struct WorkLimits {
  int64_t requests, tokens, maxQueryLen, maxSeqLen, numSms;
};
/// No step within the limits needs more of anything; `parts` are those of the
/// shortest queries.
WorkSizes boundWork(const WorkParams &params, const WorkLimits &limits);
/// The same without allocating, but for more points than ever before.
using EnvelopePoints = std::vector<std::pair<int64_t, int64_t>>;
WorkSizes boundWork(const WorkParams &params, const WorkLimits &limits, EnvelopePoints &points);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WORKBOUNDS_H
