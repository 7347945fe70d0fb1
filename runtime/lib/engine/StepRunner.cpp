//===- StepRunner.cpp - resolved launches and their buffers -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/StepRunner.h"

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Resolving
//===----------------------------------------------------------------------===//

/// Bytes behind the address that the engine binds to `buffer`; -1: the caller
/// binds it, or the workspace, which grows.
static int64_t boundBytes(const Engine &engine, const BufferInfo &buffer,
                          const StepLayout &layout) {
  const StepLimits &limits = engine.limits();
  switch (buffer.kind) {
  case fb::BufferKind::Weight:
    return engine.package().weights()[buffer.index].bytes();
  case fb::BufferKind::Derived:
    return engine.package().derived()[buffer.index].bytes();
  case fb::BufferKind::Cache:
    return limits.pool(buffer.index).numPages * limits.pool(buffer.index).pageStrideElements *
           elementBytes(engine.package().pools()[buffer.index].dtype);
  case fb::BufferKind::Metadata:
    return layout.arrays[buffer.index].elements * elementBytes(buffer.dtype);
  case fb::BufferKind::CacheScale:
    return engine.package().pools()[buffer.index].layout.format().layerScales *
           int64_t(sizeof(float));
  case fb::BufferKind::RopeTable:
    return limits.ropeLength * engine.package().ropeWidth() * int64_t(sizeof(float));
  default:
    return -1;
  }
}

Status StepRunner::checkExtent(const Engine &engine, const BufferInfo &buffer,
                               const BufferExtent &extent, const StepLayout &layout) {
  int64_t bytes = boundBytes(engine, buffer, layout);
  if (bytes < 0 || extent.bytes <= bytes)
    return Status();
  return error(MLA_CORRUPT, fb::EnumNameBufferKind(buffer.kind), " buffer '", buffer.name,
               "' touches ", extent.bytes, " bytes of ", bytes);
}

Status StepRunner::resolve(const Engine &engine, const FunctionInfo &function,
                           const DimValues &dims, const StepLayout &layout) {
  MLAC_RETURN_IF_ERROR(resolveLaunches(function, dims, spare));
  if (spare.hasSide) // now: a run may be captured
    MLAC_RETURN_IF_ERROR(side.make(engine.sharedDevice()));
  spare.function = &function;
  spare.encoded.assign(spare.maps.size(), {});
  spare.layout = layout;
  for (size_t i = 0; i < function.buffers.size(); ++i)
    MLAC_RETURN_IF_ERROR(checkExtent(engine, function.buffers[i], spare.extents[i], layout)
                             .in("function '", function.name, "'"));
  return Status();
}

void StepRunner::commit() {
  std::swap(current, spare);
  addresses.resize(current.function->buffers.size());
}

//===----------------------------------------------------------------------===//
// The side stream
//===----------------------------------------------------------------------===//

SideStream::~SideStream() {
  if (stream_)
    (void)device->destroyStream(stream_);
}

Status SideStream::make(const std::shared_ptr<Device> &of) {
  if (stream_)
    return Status();
  device = of;
  MLAC_RETURN_IF_ERROR(device->createEvent(forked));
  MLAC_RETURN_IF_ERROR(device->createEvent(joined));
  return device->createStream(&stream_);
}

/// A join comes first: a fork may follow another.
Status SideStream::synchronise(uint8_t sync, mla_stream *main) {
  if (sync & kJoins) {
    MLAC_RETURN_IF_ERROR(joined->record(stream_));
    MLAC_RETURN_IF_ERROR(joined->delay(main));
  }
  if (sync & kMarks)
    MLAC_RETURN_IF_ERROR(forked->record(main));
  if (sync & kForks)
    MLAC_RETURN_IF_ERROR(forked->delay(stream_));
  return Status();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static bool isCallers(const BufferInfo &buffer) {
  return buffer.kind == fb::BufferKind::Input || buffer.kind == fb::BufferKind::Output;
}

static bool overlap(const mla_binding &a, const mla_binding &b) {
  auto firstA = reinterpret_cast<uintptr_t>(a.data);
  auto firstB = reinterpret_cast<uintptr_t>(b.data);
  bool isAnyNull = !a.data || !b.data; // refused by bindCaller
  return !isAnyNull && firstA < firstB + b.bytes && firstB < firstA + a.bytes;
}

/// Every binding must be known, and an output may not overlap anything.
Status StepRunner::checkBindings(std::span<const mla_binding> bindings) const {
  for (const mla_binding &binding : bindings) {
    const BufferInfo *buffer = nullptr;
    for (const BufferInfo &candidate : current.function->buffers)
      if (isCallers(candidate) && candidate.name == binding.name)
        buffer = &candidate;
    if (!buffer)
      return error(MLA_INVALID_ARGUMENT, "function '", current.function->name,
                   "' has no input or output '", binding.name, "'");
    if (buffer->kind != fb::BufferKind::Output)
      continue;
    for (const mla_binding &other : bindings)
      if (&other != &binding && overlap(binding, other))
        return error(MLA_INVALID_ARGUMENT, "output '", binding.name, "' overlaps '", other.name,
                     "'");
  }
  return Status();
}

Status StepRunner::bindCaller(const BufferInfo &buffer, const BufferExtent &extent,
                              std::span<const mla_binding> bindings, void *&address) {
  const mla_binding *found = nullptr;
  for (const mla_binding &binding : bindings)
    if (buffer.name == binding.name)
      found = &binding;
  if (!found || !found->data)
    return error(MLA_INVALID_ARGUMENT, "buffer '", buffer.name,
                 found ? "' is null" : "' is not bound");
  auto value = reinterpret_cast<uintptr_t>(found->data);
  if (value % MLA_DATA_ALIGNMENT != 0)
    return error(MLA_INVALID_ARGUMENT, "buffer '", buffer.name, "' is not aligned to ",
                 MLA_DATA_ALIGNMENT, " bytes: address ends in ", value % MLA_DATA_ALIGNMENT);
  if (static_cast<uint64_t>(extent.bytes) > found->bytes)
    return error(MLA_INVALID_ARGUMENT, "buffer '", buffer.name, "' has ", found->bytes,
                 " bytes, the step needs ", extent.bytes);
  address = found->data;
  return Status();
}

Status StepRunner::bindBuffers(Engine &engine, Layer &layer, char *metadata,
                               std::span<const mla_binding> bindings) {
  const std::vector<BufferInfo> &buffers = current.function->buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferInfo &buffer = buffers[i];
    const BufferExtent &extent = current.extents[i];
    switch (buffer.kind) {
    case fb::BufferKind::Input:
    case fb::BufferKind::Output:
      MLAC_RETURN_IF_ERROR(bindCaller(buffer, extent, bindings, addresses[i]));
      break;
    case fb::BufferKind::Weight:
      addresses[i] = layer.weights[buffer.index].data();
      break;
    case fb::BufferKind::Derived:
      addresses[i] = layer.derived[buffer.index].data();
      break;
    case fb::BufferKind::Cache:
      addresses[i] = layer.pools[buffer.index].data();
      break;
    case fb::BufferKind::CacheScale:
      addresses[i] = layer.pools[buffer.index].scales.data();
      break;
    case fb::BufferKind::Metadata:
      addresses[i] = current.layout.external[buffer.index]
                         ? const_cast<void *>(current.layout.external[buffer.index])
                         : metadata + current.layout.arrays[buffer.index].offset;
      break;
    case fb::BufferKind::RopeTable:
      addresses[i] = engine.ropeTable().data();
      break;
    case fb::BufferKind::Workspace:
      addresses[i] = engine.workspace().data() + extent.byteOffset;
      break;
    }
  }
  for (const BufferSlot &slot : current.slots)
    current.args[slot.arg] = reinterpret_cast<uint64_t>(addresses[slot.buffer]);
  return Status();
}

/// Encodes the maps whose tensors have another address than at the run before:
/// layers have their own pools, graphs replay what they have captured.
Status StepRunner::encodeMaps(Engine &engine) {
  for (const Launch &launch : current.launches)
    for (uint32_t i = launch.firstMap; i < launch.firstMap + launch.numMaps; ++i) {
      const TensorMap &map = current.maps[i];
      uint64_t address = current.args[launch.firstArg + map.arg] + map.byteOffset;
      if (address == current.encoded[i].address)
        continue;
      Status status = engine.program().encode(map, address, current.encoded[i]);
      if (!status.isOk())
        return status.in("kernel '",
                         text(engine.target().raw->kernels()->Get(launch.kernel)->name()),
                         "': tensor map ", i - launch.firstMap);
    }
  return Status();
}

Status StepRunner::launchOne(Engine &engine, const Launch &launch, mla_stream *stream) {
  return engine.program().launch(launch, current.args.data() + launch.firstArg,
                                 current.encoded.data() + launch.firstMap, stream);
}

Status StepRunner::bind(Engine &engine, Layer &layer, char *metadata,
                        std::span<const mla_binding> bindings) {
  MLAC_RETURN_IF_ERROR(checkBindings(bindings));
  MLAC_RETURN_IF_ERROR(bindBuffers(engine, layer, metadata, bindings));
  return encodeMaps(engine);
}

Status StepRunner::launch(Engine &engine, mla_stream *stream, std::vector<LaunchTime> *times) {
  if (times)
    return launchTimed(engine, stream, *times);
  if (!current.hasSide || !side.stream()) {
    for (const Launch &launch : current.launches)
      MLAC_RETURN_IF_ERROR(launchOne(engine, launch, stream));
    return Status();
  }
  for (const Launch &launch : current.launches) {
    if (launch.sync != kNoSync)
      MLAC_RETURN_IF_ERROR(side.synchronise(launch.sync, stream));
    MLAC_RETURN_IF_ERROR(launchOne(engine, launch, launch.isSide ? side.stream() : stream));
  }
  return current.joinsAtEnd ? side.synchronise(kJoins, stream) : Status();
}

Status StepRunner::launchTimed(Engine &engine, mla_stream *stream, std::vector<LaunchTime> &times) {
  std::unique_ptr<Event> begin, end;
  MLAC_RETURN_IF_ERROR(engine.device().createEvent(begin));
  MLAC_RETURN_IF_ERROR(engine.device().createEvent(end));
  for (const Launch &launch : current.launches) {
    MLAC_RETURN_IF_ERROR(begin->record(stream));
    MLAC_RETURN_IF_ERROR(launchOne(engine, launch, stream));
    MLAC_RETURN_IF_ERROR(end->record(stream));
    double milliseconds;
    MLAC_RETURN_IF_ERROR(begin->elapsed(*end, milliseconds));
    times.push_back({&launch, milliseconds});
  }
  return Status();
}
