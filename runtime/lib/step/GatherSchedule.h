//===- GatherSchedule.h - chunks of whole requests --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prefills of a sparse layer may read a workspace, into which all keys of a request are
// gathered at once (spec: sparse.md section 11, separate mode). In order, as many requests
// make a chunk as the workspace holds the keys of:
//
//   keys [10, 15, 20, 5], workspace of 25   chunks [0, 2) [2, 4)   starts 0 10 | 0 20
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_GATHERSCHEDULE_H
#define MLAC_RUNTIME_GATHERSCHEDULE_H

#include "package/Dims.h"

#include "base/Status.h"

#include <span>
#include <vector>

namespace mlac::runtime {

/// What a request brings into a chunk.
struct GatheredRequest {
  int64_t keys;   // context and new tokens; 0: it has no new ones
  int64_t tokens; // new
};

struct GatherSchedule {
  std::vector<int32_t> firsts; // first request of each chunk, and the end
  int64_t rows = 0;            // keys of the largest chunk
  int64_t tokens = 0;          // new tokens of the chunk that has the most

  int64_t numChunks() const { return firsts.empty() ? 0 : static_cast<int64_t>(firsts.size()) - 1; }
};

/// Error: a request alone has more keys than the workspace has rows.
Status scheduleGathers(std::span<const GatheredRequest> requests, int64_t workspaceTokens,
                       GatherSchedule &schedule);

/// Writes gather_cu_seq_lens [numChunks, requests + 1] and gather_starts [requests].
void fillGatherTables(std::span<const GatheredRequest> requests, const GatherSchedule &schedule,
                      int32_t *ends, int32_t *starts);

/// Of any schedule: every request may be a chunk of its own.
void setLargestGathers(DimValues &dims, int64_t maxSeqLen, int64_t workspaceTokens);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_GATHERSCHEDULE_H
