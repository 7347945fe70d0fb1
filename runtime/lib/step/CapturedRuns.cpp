//===- CapturedRuns.cpp - what graphs of a plan depend on -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/CapturedRuns.h"

#include <algorithm>

using namespace mlac::runtime;

/// What a caller calls the same step: all that it gives but lengths.
static bool isSameBatch(const DimValues &a, const DimValues &b) {
  constexpr Dim given[] = {Dim::NumRequests, Dim::NumTokens,  Dim::MaxQueryLen,
                           Dim::IsPadded,    Dim::NumDecodes, Dim::NumDecodeTokens};
  return std::ranges::all_of(given, [&](Dim dim) { return at(a, dim) == at(b, dim); });
}

const CapturedRuns::Run *CapturedRuns::find(const ResolvedStep &step, const DimValues &dims) const {
  auto found = std::ranges::find_if(runs, [&](const Run &run) {
    return run.step.function == step.function && isSameBatch(run.dims, dims);
  });
  return found == runs.end() ? nullptr : &*found;
}

static bool haveSameLaunches(const LaunchList &a, const LaunchList &b) {
  auto isSame = [](const Launch &x, const Launch &y) {
    return x.kernel == y.kernel && x.firstArg == y.firstArg && x.numArgs == y.numArgs &&
           x.firstMap == y.firstMap && x.numMaps == y.numMaps && x.grid == y.grid &&
           x.isDependent == y.isDependent && x.isSide == y.isSide && x.sync == y.sync;
  };
  return std::ranges::equal(a.launches, b.launches, isSame);
}

/// Arguments but for addresses, which `slots` hold.
static bool haveSameArgs(const LaunchList &a, const LaunchList &b) {
  auto isSameSlot = [](const BufferSlot &x, const BufferSlot &y) {
    return x.arg == y.arg && x.buffer == y.buffer;
  };
  if (a.args.size() != b.args.size() || !std::ranges::equal(a.slots, b.slots, isSameSlot))
    return false;
  auto slot = a.slots.begin();
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (slot != a.slots.end() && slot->arg == i)
      ++slot;
    else if (a.args[i] != b.args[i])
      return false;
  }
  return true;
}

/// Whether what the launches address lies where it did.
static bool haveSamePlaces(const ResolvedStep &a, const ResolvedStep &b) {
  return std::ranges::all_of(a.slots, [&](const BufferSlot &slot) {
    const BufferInfo &buffer = a.function->buffers[slot.buffer];
    if (buffer.kind == fb::BufferKind::Metadata)
      return a.layout.arrays[buffer.index].offset == b.layout.arrays[buffer.index].offset &&
             a.layout.external[buffer.index] == b.layout.external[buffer.index];
    return a.extents[slot.buffer].byteOffset == b.extents[slot.buffer].byteOffset;
  });
}

static bool isSameMap(const TensorMap &a, const TensorMap &b) {
  return a.arg == b.arg && a.dtype == b.dtype && a.rank == b.rank && a.byteOffset == b.byteOffset &&
         a.sizes == b.sizes && a.strideBytes == b.strideBytes && a.box == b.box;
}

static bool isReplay(const ResolvedStep &a, const ResolvedStep &b) {
  return haveSameLaunches(a, b) && haveSameArgs(a, b) && haveSamePlaces(a, b) &&
         std::ranges::equal(a.maps, b.maps, isSameMap);
}

/// A size that the function uses and that is another one now.
static std::string nameDifference(const FunctionInfo &function, const DimValues &captured,
                                  const DimValues &now) {
  for (size_t i = 0; i < captured.size(); ++i)
    if (auto dim = static_cast<Dim>(i); captured[i] != now[i] && function.exprs.usesDim(dim))
      return concat(dimName(dim), " = ", captured[i], ", now ", now[i]);
  return std::string("its metadata in other places");
}

Status CapturedRuns::check(const ResolvedStep &step, const DimValues &dims) const {
  const Run *run = find(step, dims);
  if (!run || isReplay(run->step, step))
    return Status();
  return error(MLA_WRONG_STATE, "a captured run of function '", step.function->name,
               "' with num_requests = ", at(dims, Dim::NumRequests), " has ",
               nameDifference(*step.function, run->dims, dims),
               ": its graph must not be replayed for this step. Capture a padded plan, whose "
               "launches depend on the shape alone, or call mla_plan_release_captures when the "
               "graph is gone");
}

void CapturedRuns::remember(const ResolvedStep &step, const DimValues &dims) {
  if (!find(step, dims))
    runs.push_back({step, dims});
}
