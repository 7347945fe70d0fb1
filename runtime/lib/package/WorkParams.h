//===- WorkParams.h - how a function partitions attention -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a package says of the pieces that a function's attention is cut into (tile.work).
// step/WorkPlanner cuts by it.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_WORKPARAMS_H
#define MLAC_RUNTIME_WORKPARAMS_H

#include <array>
#include <cstdint>

namespace mlac::runtime {

/// How requests with at most so many pieces are merged; the first takes more in turns
/// (tile.work).
struct MergeForm {
  int64_t pieces = 0;           // 0: no form
  int64_t rows = 0, blocks = 0; // of a unit; units side by side in the columns
};

/// The attributes of tile.work; costs in blocks.
struct WorkParams {
  int64_t keysPerBlock, rowsPerToken, rowsPerTile;
  double itemCost, mergeCost;
  int64_t fixedBlocks;
  double partialCost = 0;
  std::array<MergeForm, 3> mergeForms = {};
  int64_t mergePrograms = 0; // on each multiprocessor
  int64_t window = 0;        // keys that a query sees; 0: all
  int64_t runsPerToken = 1;  // of a token's rows, with tiles of their own
};

/// Tiles of a request with so many queries.
inline int64_t countTiles(const WorkParams &params, int64_t queryLen) {
  int64_t rows = (queryLen * params.rowsPerToken + params.runsPerToken - 1) / params.runsPerToken;
  return params.runsPerToken * ((rows + params.rowsPerTile - 1) / params.rowsPerTile);
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_WORKPARAMS_H
