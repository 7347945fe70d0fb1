//===- PlannedStep.cpp - what a package launches in one step ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/PlannedStep.h"

#include "engine/EngineOptions.h"
#include "package/LaunchList.h"
#include "step/StepPlanner.h"

#include <limits>

using namespace mlac;
using namespace mlac::runtime;
using llvm::Error;
using llvm::Expected;

static Error toError(Status status) {
  if (status.isOk())
    return Error::success();
  return llvm::createStringError(status.message());
}

namespace {
/// Everything that a plan of an engine would have, without the engine.
class HostPlan {
public:
  Status make(std::shared_ptr<Package> package, size_t target, int64_t numSms,
              const StepSize &size);
  PlannedStep describe();

private:
  Status addSequences(const StepSize &size);
  Status fillContext(Sequence &sequence, const StepSize &size);
  Status choose(const TargetInfo &target, int64_t queryLen);
  llvm::ArrayRef<uint8_t> findMetadata(const BufferInfo &buffer) const;
  int64_t countBytes(size_t buffer) const;

  std::shared_ptr<Package> package;
  std::unique_ptr<KVCache> cache;
  std::unique_ptr<StepPlanner> planner;
  std::vector<TableRows> rows;
  DeviceMirror mirror;
  std::vector<mla_sequence> sequences;
  const FunctionInfo *function = nullptr;
  int64_t decodeThreshold = 0;
  LaunchList list;
};
} // namespace

static std::unique_ptr<KVCache> makeCache(const Package &package,
                                          const mla_engine_options &options) {
  std::vector<PoolSpec> specs;
  for (size_t i = 0; i < package.pools().size(); ++i) {
    const PoolInfo &pool = package.pools()[i];
    specs.push_back({pool.name, poolPages(package, options, i), pool.pageRows(), pool.tokensPerRow,
                     pool.window});
  }
  return std::make_unique<KVCache>(std::move(specs), options.max_seq_len);
}

/// In pieces of the step's queries, which is what pools with windows have room for.
Status HostPlan::fillContext(Sequence &sequence, const StepSize &size) {
  while (sequence.length < size.contextLen) {
    int64_t next = std::min(sequence.length + size.queryLen, size.contextLen);
    if (!cache->reserve(sequence, next).isOk())
      return error(MLA_OUT_OF_PAGES, "no pages for ", next, " of ", size.contextLen,
                   " cached tokens of ", size.requests, " requests");
    sequence.length = next;
    cache->leaveWindows(sequence, next);
  }
  return Status();
}

Status HostPlan::addSequences(const StepSize &size) {
  for (int64_t i = 0; i < size.requests; ++i) {
    Sequence *sequence = nullptr;
    MLAC_RETURN_IF_ERROR(cache->create(sequences.emplace_back()));
    MLAC_RETURN_IF_ERROR(cache->find(sequences.back(), sequence));
    MLAC_RETURN_IF_ERROR(fillContext(*sequence, size));
  }
  return Status();
}

/// As the runtime does where the caller names no function.
Status HostPlan::choose(const TargetInfo &target, int64_t queryLen) {
  auto limitOf = [](const FunctionInfo &each) {
    return each.maxQueryLen == 0 ? std::numeric_limits<int64_t>::max() : each.maxQueryLen;
  };
  auto rank = [&](const FunctionInfo &each) {
    return std::pair(limitOf(each), each.decodeThreshold > 0);
  };
  for (const FunctionInfo &each : target.functions)
    if (isForCallers(each) && queryLen <= limitOf(each) &&
        (!function || rank(each) < rank(*function)))
      function = &each;
  if (!function)
    return error(MLA_NOT_FOUND, "no function takes queries of ", queryLen, " tokens");
  decodeThreshold = function->decodeThreshold;
  const FunctionInfo *ofDecodes = target.findDecodesOf(*function);
  if (ofDecodes && planner->hasOnlyDecodes(decodeThreshold, nullptr))
    function = ofDecodes;
  return Status();
}

Status HostPlan::make(std::shared_ptr<Package> opened, size_t target, int64_t numSms,
                      const StepSize &size) {
  package = std::move(opened);
  mla_engine_options given, options;
  mla_engine_options_init(&given);
  given.max_num_requests = size.requests;
  given.max_num_tokens = size.requests * size.queryLen;
  given.max_seq_len = size.contextLen + size.queryLen;
  given.num_sms = numSms;
  MLAC_RETURN_IF_ERROR(resolveOptions(*package, &given, options));
  cache = makeCache(*package, options);
  planner = std::make_unique<StepPlanner>(stepLimits(*package, options));
  rows = planner->makeRows();
  std::shared_ptr<Device> host;
  MLAC_RETURN_IF_ERROR(openDevice("cpu", /*threads=*/1, host));
  MLAC_RETURN_IF_ERROR(mirror.create(host, planner->maxBytes(), "step metadata"));
  for (TableRows &table : rows)
    table.clear(mirror);
  MLAC_RETURN_IF_ERROR(addSequences(size));
  std::vector<int32_t> queryLens(size.requests, static_cast<int32_t>(size.queryLen));
  mla_batch batch{sizeof batch, size.requests, sequences.data(), queryLens.data(), 0};
  MLAC_RETURN_IF_ERROR(planner->measure(*cache, batch));
  MLAC_RETURN_IF_ERROR(choose(package->targets()[target], size.queryLen));
  MLAC_RETURN_IF_ERROR(planner->measureFor({*function, decodeThreshold, nullptr}));
  MLAC_RETURN_IF_ERROR(resolveLaunches(*function, planner->dims(), list));
  planner->fill(*cache, mirror, rows);
  return Status();
}

llvm::ArrayRef<uint8_t> HostPlan::findMetadata(const BufferInfo &buffer) const {
  if (buffer.kind != package::BufferKind::Metadata)
    return {};
  const MetadataArray &array = planner->layout().arrays[buffer.index];
  return {mirror.host() + array.offset,
          static_cast<size_t>(array.elements * elementBytes(buffer.dtype))};
}

/// As an engine of this step's size would allocate it.
int64_t HostPlan::countBytes(size_t index) const {
  const BufferInfo &buffer = function->buffers[index];
  auto dimOf = [&](Dim dim) { return at(planner->dims(), ofPool(dim, buffer.index)); };
  switch (buffer.kind) {
  case package::BufferKind::Weight:
    return package->weights()[buffer.index].bytes();
  case package::BufferKind::Derived:
    return package->derived()[buffer.index].bytes();
  case package::BufferKind::Cache:
    return dimOf(Dim::NumPages) * dimOf(Dim::PageStride) *
           elementBytes(package->pools()[buffer.index].dtype);
  case package::BufferKind::Metadata:
    return static_cast<int64_t>(findMetadata(buffer).size());
  case package::BufferKind::RopeTable:
    return at(planner->dims(), Dim::RopeLength) * package->ropeWidth() * int64_t(sizeof(float));
  case package::BufferKind::CacheScale:
    return package->pools()[buffer.index].layout.format().layerScales * int64_t(sizeof(float));
  default:
    return list.extents[index].bytes;
  }
}

PlannedStep HostPlan::describe() {
  PlannedStep step;
  step.function = function->name;
  for (const BufferInfo &buffer : function->buffers)
    step.buffers.push_back({buffer.name, findMetadata(buffer), 0});
  for (size_t i = 0; i < step.buffers.size(); ++i)
    step.buffers[i].bytes = countBytes(i);
  std::vector<int> bufferOfSlot(list.args.size(), -1);
  for (const BufferSlot &slot : list.slots)
    bufferOfSlot[slot.arg] = static_cast<int>(slot.buffer);
  for (const Launch &launch : list.launches) {
    const auto *kernel = function->target->kernels()->Get(launch.kernel);
    StepLaunch &entry = step.launches.emplace_back();
    entry.kernel = std::string(text(kernel->name()));
    entry.grid = launch.grid;
    for (uint32_t slot = launch.firstArg; slot < launch.firstArg + launch.numArgs; ++slot)
      entry.arguments.push_back({bufferOfSlot[slot], static_cast<int64_t>(list.args[slot])});
  }
  return step;
}

static Expected<std::shared_ptr<Package>> openPackage(llvm::ArrayRef<uint8_t> bytes) {
  std::shared_ptr<Package> package;
  if (Error error = toError(Package::open(bytes.data(), bytes.size(), package)))
    return std::move(error);
  return package;
}

Expected<PlannedStep> mlac::planStep(llvm::ArrayRef<uint8_t> bytes, size_t target, int64_t numSms,
                                     const StepSize &size) {
  Expected<std::shared_ptr<Package>> package = openPackage(bytes);
  if (!package)
    return package.takeError();
  auto plan = std::make_shared<HostPlan>();
  if (Error error = toError(plan->make(*package, target, numSms, size)))
    return std::move(error);
  PlannedStep step = plan->describe();
  step.memory = plan;
  return step;
}

Expected<int64_t> mlac::getLongestSequence(llvm::ArrayRef<uint8_t> bytes) {
  Expected<std::shared_ptr<Package>> package = openPackage(bytes);
  if (!package)
    return package.takeError();
  return static_cast<int64_t>((*package)->rope().length());
}
