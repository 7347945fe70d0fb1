//===- LaunchList.cpp - the launches of one planned step --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/LaunchList.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace mlac::runtime;

/// Chunked prefill has tens of launches per chunk; this bounds a damaged loop
/// count, not a real plan.
static constexpr size_t kMaxLaunches = 1 << 20;
/// Steps looked at, expressions evaluated and words written for one plan: a tenth of a
/// second. Chunked prefill takes about 500 a chunk, so 33000 chunks are admitted.
static constexpr int64_t kMaxWork = 1 << 24;
/// What a launch, an argument and a tensor map take at most, in words of 8 bytes.
static constexpr int64_t kLaunchWork = sizeof(Launch) / sizeof(uint64_t);
static constexpr int64_t kArgWork = 1 + sizeof(BufferSlot) / sizeof(uint64_t);
static constexpr int64_t kMapWork =
    (sizeof(TensorMap) + sizeof(EncodedTensorMap)) / sizeof(uint64_t);

void LaunchList::clear() {
  launches.clear();
  args.clear();
  slots.clear();
  maps.clear();
  extents.clear();
  workspaceBytes = 0;
  hasSide = joinsAtEnd = false;
}

namespace {
class Resolver {
public:
  Resolver(const FunctionInfo &function, const DimValues &dims, LaunchList &list)
      : function(function), dims(dims), list(list) {
    values.bind(function.exprs);
    values.update(dims, {});
  }

  Status run() {
    MLAC_RETURN_IF_ERROR(resolveBuffers());
    return runSteps(function.raw->steps());
  }

private:
  Status resolveBuffers();
  Status resolveBuffer(const BufferInfo &buffer, BufferExtent &extent) const;
  Status runSteps(const StepList *steps);
  Status runStep(const fb::Step &step);
  Status runLoop(const fb::Loop &loop);
  Status runFork(const fb::Fork &fork);
  Status addLaunch(const fb::Launch &launch);
  Status addArg(const fb::Arg &arg);
  Status addMaps(const fb::Launch &raw, const fb::Kernel &kernel, Launch &launch);

  const FunctionInfo &function;
  const DimValues &dims;
  LaunchList &list;
  Evaluator values;
  /// Counts towards kMaxWork.
  Status spend(int64_t amount);
  /// Evaluates what depends on loop variables.
  Status updateLoops();

  std::vector<int64_t> loops;
  int64_t work = 0;
};
} // namespace

Status Resolver::resolveBuffers() {
  MLAC_RETURN_IF_ERROR(values.get(function.workspaceBytes, list.workspaceBytes));
  if (list.workspaceBytes < 0)
    return error(MLA_CORRUPT, "workspace of ", list.workspaceBytes, " bytes");
  // A buffer of a branch that is not taken may have no meaningful size: errors
  // wait until a launch uses it.
  for (const BufferInfo &buffer : function.buffers) {
    BufferExtent extent;
    bool isValid = resolveBuffer(buffer, extent).isOk();
    list.extents.push_back(isValid ? extent : BufferExtent{-1, 0});
  }
  return Status();
}

Status Resolver::resolveBuffer(const BufferInfo &buffer, BufferExtent &extent) const {
  int64_t elements, end;
  MLAC_RETURN_IF_ERROR(values.get(buffer.elements, elements));
  extent = {0, 0};
  bool isWorkspace = buffer.kind == fb::BufferKind::Workspace;
  if (isWorkspace)
    MLAC_RETURN_IF_ERROR(values.get(buffer.byteOffset, extent.byteOffset));
  if (!checkedMul(elements, elementBytes(buffer.dtype), extent.bytes) ||
      !checkedAdd(extent.byteOffset, extent.bytes, end) ||
      extent.byteOffset % kBufferAlignment != 0)
    return error(MLA_CORRUPT, "buffer '", buffer.name, "' has ", elements, " elements at byte ",
                 extent.byteOffset);
  if (isWorkspace && end > list.workspaceBytes)
    return error(MLA_CORRUPT, "buffer '", buffer.name, "' ends at byte ", end,
                 " of a workspace of ", list.workspaceBytes);
  return Status();
}

Status Resolver::spend(int64_t amount) {
  work += amount;
  if (work <= kMaxWork)
    return Status();
  return error(MLA_CORRUPT, "the plan comes to more than ", kMaxWork,
               " steps, arguments and expressions");
}

Status Resolver::updateLoops() {
  values.updateLoops(dims, loops);
  return spend(static_cast<int64_t>(function.exprs.inLoops().size()));
}

Status Resolver::runSteps(const StepList *steps) {
  for (uint32_t i = 0; steps && i < steps->size(); ++i) {
    MLAC_RETURN_IF_ERROR(spend(1));
    MLAC_RETURN_IF_ERROR(runStep(*steps->Get(i)));
  }
  return Status();
}

Status Resolver::runStep(const fb::Step &step) {
  if (step.launch())
    return addLaunch(*step.launch());
  if (step.loop())
    return runLoop(*step.loop());
  if (step.fork())
    return runFork(*step.fork());
  int64_t condition;
  const fb::Branch &branch = *step.branch();
  MLAC_RETURN_IF_ERROR(values.get(branch.condition(), condition));
  return runSteps(condition != 0 ? branch.then_steps() : branch.else_steps());
}

Status Resolver::runLoop(const fb::Loop &loop) {
  int64_t count;
  MLAC_RETURN_IF_ERROR(values.get(loop.count(), count));
  loops.push_back(0);
  for (int64_t i = 0; i < count; ++i) {
    MLAC_RETURN_IF_ERROR(spend(1));
    loops.back() = i;
    MLAC_RETURN_IF_ERROR(updateLoops());
    MLAC_RETURN_IF_ERROR(runSteps(loop.body()));
  }
  loops.pop_back();
  return updateLoops();
}

/// The side's launches by turns with the main ones, so that neither stream waits for the host.
static void mergeSides(std::vector<Launch> &launches, size_t first, size_t middle) {
  std::vector<Launch> main(launches.begin() + first, launches.begin() + middle),
      side(launches.begin() + middle, launches.end());
  launches.resize(first);
  for (size_t i = 0; i < std::max(main.size(), side.size()); ++i) {
    if (i < main.size())
      launches.push_back(main[i]);
    if (i < side.size())
      launches.push_back(side[i]);
  }
}

Status Resolver::runFork(const fb::Fork &fork) {
  int64_t condition;
  MLAC_RETURN_IF_ERROR(values.get(fork.condition(), condition));
  size_t first = list.launches.size();
  MLAC_RETURN_IF_ERROR(runSteps(fork.main()));
  size_t middle = list.launches.size();
  MLAC_RETURN_IF_ERROR(runSteps(fork.side()));
  size_t end = list.launches.size();
  if (condition == 0 || middle == first || end == middle)
    return Status();
  for (size_t i = middle; i < end; ++i)
    list.launches[i].isSide = true;
  list.launches[first].sync |= kMarks;
  list.launches[middle].sync |= kForks;
  mergeSides(list.launches, first, middle);
  list.hasSide = list.joinsAtEnd = true;
  return Status();
}

Status Resolver::addLaunch(const fb::Launch &raw) {
  Launch launch = {.kernel = raw.kernel(),
                   .firstArg = static_cast<uint32_t>(list.args.size()),
                   .numArgs = 0,
                   .firstMap = static_cast<uint32_t>(list.maps.size()),
                   .numMaps = 0,
                   .grid = {},
                   .label = raw.label(),
                   .isDependent = raw.dependent()};
  bool isEmpty = false;
  for (uint32_t i = 0; i < launch.grid.size(); ++i) {
    MLAC_RETURN_IF_ERROR(values.get(raw.grid()->Get(i), launch.grid[i]));
    if (launch.grid[i] < 0)
      return error(MLA_CORRUPT, "launch '", text(raw.label()), "' has grid ", launch.grid[i]);
    isEmpty |= launch.grid[i] == 0;
  }
  if (isEmpty)
    return Status();
  if (list.launches.size() >= kMaxLaunches)
    return error(MLA_CORRUPT, "plan has more than ", kMaxLaunches, " launches");
  uint32_t numArgs = raw.args() ? raw.args()->size() : 0;
  MLAC_RETURN_IF_ERROR(spend(kLaunchWork + numArgs * kArgWork));
  for (uint32_t i = 0; i < numArgs; ++i)
    MLAC_RETURN_IF_ERROR(addArg(*raw.args()->Get(i)));
  launch.numArgs = static_cast<uint32_t>(list.args.size()) - launch.firstArg;
  const fb::Kernel &kernel = *function.target->kernels()->Get(raw.kernel());
  MLAC_RETURN_IF_ERROR(addMaps(raw, kernel, launch).in("kernel '", text(kernel.name()), "'"));
  if (std::exchange(list.joinsAtEnd, false)) // the first one behind a fork
    launch.sync = kJoins;
  list.launches.push_back(launch);
  return Status();
}

Status Resolver::addMaps(const fb::Launch &raw, const fb::Kernel &kernel, Launch &launch) {
  std::span args(list.args.data() + launch.firstArg, launch.numArgs);
  for (uint32_t i = 0; kernel.tensor_maps() && i < kernel.tensor_maps()->size(); ++i) {
    MLAC_RETURN_IF_ERROR(spend(kMapWork));
    const fb::TensorMap &map = *kernel.tensor_maps()->Get(i);
    mla_dtype dtype = function.buffers[raw.args()->Get(map.argument())->buffer()].dtype;
    MLAC_RETURN_IF_ERROR(
        makeTensorMap(map, dtype, args, list.maps.emplace_back()).in("tensor map ", i));
    ++launch.numMaps;
  }
  return Status();
}

Status Resolver::addArg(const fb::Arg &arg) {
  uint64_t slot = 0;
  if (arg.kind() == fb::ArgKind::Buffer) {
    BufferExtent extent = list.extents[arg.buffer()];
    if (extent.byteOffset < 0)
      return resolveBuffer(function.buffers[arg.buffer()], extent);
    list.slots.push_back({static_cast<uint32_t>(list.args.size()), arg.buffer()});
  } else if (arg.kind() == fb::ArgKind::Index) {
    int64_t value;
    MLAC_RETURN_IF_ERROR(values.get(arg.expr(), value));
    slot = static_cast<uint64_t>(value);
  } else {
    float value = arg.f32();
    std::memcpy(&slot, &value, sizeof value);
  }
  list.args.push_back(slot);
  return Status();
}

Status mlac::runtime::resolveLaunches(const FunctionInfo &function, const DimValues &dims,
                                      LaunchList &list) {
  list.clear();
  return Resolver(function, dims, list).run().in("function '", function.name, "'");
}

Status mlac::runtime::resolveWorkspace(const FunctionInfo &function, const DimValues &dims,
                                       int64_t &bytes) {
  Evaluator values;
  values.bind(function.exprs);
  values.update(dims, {});
  return values.get(function.workspaceBytes, bytes).in("function '", function.name, "'");
}
