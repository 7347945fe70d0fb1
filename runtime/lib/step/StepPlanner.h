//===- StepPlanner.h - sizes and metadata of a step -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns a batch (sequences and query lengths) into the sizes and metadata
// arrays that launch plans read, on the host (spec: mla.md sections 9 and 11).
//
// Two phases, so that a refused step changes nothing:
//   measure, measureFor  validate the batch and compute every size;
//   fill                 cannot fail: takes the pages, advances the sequences and writes
//                        the arrays into one mirror of device memory, ready for one upload.
//
// Who makes what, and in which order, is a list of planners (Planners.h). Those of every
// step run in measure; those that a function asks for in measureFor, when it is chosen.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPPLANNER_H
#define MLAC_RUNTIME_STEPPLANNER_H

#include "step/StepBounds.h"
#include "step/StepState.h"

namespace mlac::runtime {

class StepPlanner {
public:
  explicit StepPlanner(const StepLimits &limits) : state(limits) {}

  /// What pools of the caller's are like, for steps from now on.
  void setPool(size_t pool, int64_t numPages, int64_t pageStrideElements) {
    state.limits.setPool(pool, numPages, pageStrideElements);
  }
  /// Bytes that hold the metadata of any step within the limits.
  int64_t maxBytes() const { return largestBytes(state.limits); }
  /// Of these, those of the block tables, which come first.
  int64_t tableBytes() const { return tableOffset(state.limits, state.limits.numPools()); }

  /// Checks `batch` and computes the sizes that every step has. The result is used by the
  /// calls below and stays until the next measure.
  Status measure(KVCache &cache, const mla_batch &batch);
  /// In place of measure: a batch whose lengths, table and slots the caller has on the
  /// host. Sizes and work are those of the lengths.
  Status measureTables(const mla_table_batch &batch);
  /// In place of measure: a batch whose lengths, table and slots the caller has on the
  /// device. Sizes are those of the longest requests; work is divided by the bounds.
  Status measureDevice(const mla_device_batch &batch);
  /// Adds what the function asks for, once. Error: the step does not fit, or an expression
  /// of the function is wrong.
  Status measureFor(const StepDemand &demand);

  // Of a batch that has been measured.
  /// Keys of the longest request.
  int64_t longestSeqLen() const;
  /// Whether the batch, as it stands, begins with decodes and has prefills behind them.
  bool isMixed(int64_t decodeThreshold) const;
  /// Whether the step, or every step of its shape, has no prefills.
  bool hasOnlyDecodes(int64_t decodeThreshold, const mla_step_shape *shape) const;
  /// Whether the pools hold the new tokens' pages.
  bool hasPages(const KVCache &cache) const;

  bool hasSequences() const { return state.hasSequences(); }

  const DimValues &dims() const { return state.dims; }
  const StepLayout &layout() const { return state.layout; }

  /// Rows of each pool's block_table, for any step.
  std::vector<TableRows> makeRows() const;
  /// Takes pages, advances sequences, writes the arrays to `mirror` and touches what is
  /// not as it was: entries of the block tables, which are `rows`, and all other arrays.
  void fill(KVCache &cache, DeviceMirror &mirror, std::span<TableRows> rows);
  /// Undoes fill() for the cache.
  void rollback(KVCache &cache);

private:
  Status measureBatch();
  void layOutStep();

  StepState state;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPPLANNER_H
