//===- Planners.h - who makes which sizes and metadata ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A planner makes the sizes and the metadata of one owner of runtime/schema/StepSizes.def.
// What it reads of other planners' sizes it lists as its needs, so that the order of the
// planners is checked and not remembered:
//
//   owner     sizes of                                  needs
//   Machine   the engine and its device
//   Batch     all requests
//   Parts     decodes and prefills
//   Padding   a shape, in the place of Batch and Parts  the batch's maxima, to check it
//   Shared    a prefix that requests have in common     whatever its expression names
//   Chunks    cached context of prefills                who the prefills are
//   Gathers   whole prefills                            who the prefills are
//   Work      pieces of attention                       the decodes, what is shared
//
// Each has two phases (StepPlanner.h): measure may refuse the step and changes nothing
// that is visible; fill cannot fail and writes the arrays.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PLANNERS_H
#define MLAC_RUNTIME_PLANNERS_H

#include "step/StepState.h"

#include <initializer_list>

namespace mlac::runtime {

class DimSet {
public:
  constexpr DimSet() = default;
  constexpr DimSet(std::initializer_list<Dim> dims) {
    for (Dim dim : dims)
      bits |= bit(dim);
  }
  /// All sizes of an owner.
  constexpr DimSet(step::Owner owner) {
    for (size_t i = 0; i < kNumDims; ++i)
      if (step::kDims[i].owner == owner)
        bits |= bit(static_cast<Dim>(i));
  }
  constexpr DimSet operator|(DimSet other) const {
    other.bits |= bits;
    return other;
  }
  constexpr bool has(Dim dim) const { return (bits & bit(dim)) != 0; }

private:
  static_assert(kNumDims <= 64);
  static constexpr uint64_t bit(Dim dim) { return uint64_t(1) << static_cast<size_t>(dim); }
  uint64_t bits = 0;
};

/// Elements of each array.
using ArraySizes = std::array<int64_t, kNumMetadataSlots>;
inline int64_t &elements(ArraySizes &sizes, Metadata which) {
  return sizes[static_cast<size_t>(which)];
}
/// The pools that sizes are of: those with columns.
template <typename Function> void forPoolsOf(const DimValues &dims, Function function) {
  for (size_t pool = 0; pool < kMaxPools; ++pool)
    if (int64_t columns = at(dims, ofPool(Dim::MaxBlocksPerRequest, pool)); columns > 0)
      function(pool, columns);
}
/// What fill writes, and whose pages it shows.
struct StepMemory {
  DeviceMirror &mirror;
  std::span<TableRows> rows; // block_table of each pool
  const KVCache &cache;
};

/// The step's array in `memory`.
template <typename T>
std::span<T> arrayOf(const StepState &state, Metadata which, const StepMemory &memory) {
  const MetadataArray &array = state.layout.arrays[static_cast<size_t>(which)];
  int64_t perRow = int64_t(sizeof(T)) / elementBytes(metadataType(which));
  return {reinterpret_cast<T *>(memory.mirror.host() + array.offset),
          static_cast<size_t>(array.elements / perRow)};
}
/// First rows of requests, and the end of the last one's.
void fillStarts(const StepState &state, Metadata which, StepPlaces places,
                const StepMemory &memory);

struct Planner {
  /// Its sizes and arrays are what measure and fill write.
  step::Owner owner;
  /// What measure reads of others' sizes.
  DimSet needs;
  /// What measure writes of others' sizes.
  DimSet rewrites;
  /// Whether the step has the owner's sizes; null: every step, whatever its function.
  bool (*isOf)(const StepDemand &demand);
  Status (*measure)(StepState &state, const StepDemand &demand);
  /// `work`: of the partition.
  void (*count)(const DimValues &dims, const WorkSizes &work, ArraySizes &arrays);
  void (*fill)(const StepState &state, const StepMemory &memory);

  constexpr bool writes(Dim dim) const { return DimSet(owner).has(dim) || rewrites.has(dim); }
};

/// In the order in which they measure.
std::span<const Planner> planners();

/// Whether planner `reader` finds `dim` as it will stay: its owner comes before, and nobody
/// writes it afterwards. What is only rewritten is not provided: not every step is padded.
constexpr bool isServed(std::span<const Planner> planners, size_t reader, Dim dim) {
  bool isProvided = false;
  for (size_t i = 0; i < planners.size(); ++i) {
    if (i > reader && planners[i].writes(dim))
      return false;
    isProvided |= i < reader && DimSet(planners[i].owner).has(dim);
  }
  return isProvided;
}

struct UnservedNeed {
  step::Owner owner; // the planner's
  Dim dim;
};
constexpr std::optional<UnservedNeed> findUnservedNeed(std::span<const Planner> planners) {
  for (size_t reader = 0; reader < planners.size(); ++reader)
    for (size_t i = 0; i < kNumDims; ++i)
      if (auto dim = static_cast<Dim>(i);
          planners[reader].needs.has(dim) && !isServed(planners, reader, dim))
        return UnservedNeed{planners[reader].owner, dim};
  return std::nullopt;
}

// In StepBatch, StepParts, PaddedStep, SharedPrefix, ChunkSchedule, GatherSchedule and
// StepWork.
Status measureMachine(StepState &state, const StepDemand &);
void countMachine(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillMachine(const StepState &state, const StepMemory &memory);

Status measureBatch(StepState &state, const StepDemand &);
void countBatch(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillBatch(const StepState &state, const StepMemory &memory);

Status measureParts(StepState &state, const StepDemand &demand);
void countParts(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillParts(const StepState &state, const StepMemory &memory);

Status measurePadding(StepState &state, const StepDemand &demand);

Status measureShared(StepState &state, const StepDemand &demand);
void countShared(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillShared(const StepState &state, const StepMemory &memory);

Status measureChunks(StepState &state, const StepDemand &demand);
void countChunks(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillChunks(const StepState &state, const StepMemory &memory);

Status measureGathers(StepState &state, const StepDemand &demand);
void countGathers(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillGathers(const StepState &state, const StepMemory &memory);

Status measurePrompts(StepState &state, const StepDemand &demand);
void countPromptArrays(const DimValues &dims, const WorkSizes &, ArraySizes &arrays);
void fillPrompts(const StepState &state, const StepMemory &memory);

Status measureWork(StepState &state, const StepDemand &demand);
void countWork(const DimValues &dims, const WorkSizes &work, ArraySizes &arrays);
void fillWork(const StepState &state, const StepMemory &memory);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PLANNERS_H
