//===- PageMover.cpp - copies of whole pages --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/PageMover.h"

#include <algorithm>
#include <unordered_map>

using namespace mlac::runtime;

/// Pages of one launch: more than a gigabyte of the usual ones, with 200 KiB of lists.
static constexpr int64_t kPagesPerBatch = 1 << 14;

std::vector<PagePair> mlac::runtime::resolveChains(std::span<const PageCopy> copies) {
  std::vector<PagePair> pairs;
  pairs.reserve(copies.size());
  // Targets were unused pages, so each page is the target of one copy at most.
  std::unordered_map<int32_t, int32_t> sources;
  for (const PageCopy &copy : copies) {
    auto earlier = sources.find(copy.from);
    int32_t from = earlier == sources.end() ? copy.from : earlier->second;
    sources.emplace(copy.to, from);
    pairs.push_back({from, copy.to});
  }
  return pairs;
}

PageMover::~PageMover() {
  Device &device = engine.device();
  for (Lists &lists : turns)
    if (lists.staging) {
      (void)device.synchronize();
      device.releaseStaging(lists.staging);
    }
  if (uploads)
    (void)device.destroyStream(uploads);
}

/// Lists of `pages`, one behind the other.
void PageMover::setLayout(int64_t pages) {
  MetadataArray &table = layout.arrays[static_cast<size_t>(Metadata::BlockTable)];
  MetadataArray &slots = layout.arrays[static_cast<size_t>(Metadata::SlotMapping)];
  table = {0, pages};
  slots = {roundUp(pages * int64_t(sizeof(int32_t)), kBufferAlignment), pages};
  layout.bytes = slots.offset + pages * int64_t(sizeof(int64_t));
}

Status PageMover::makeLists(Lists &lists) {
  if (lists.staging)
    return Status();
  setLayout(kPagesPerBatch);
  Device &device = engine.device();
  if (device.isCuda() && !uploads) // other devices have one order of everything
    MLAC_RETURN_IF_ERROR(device.createStream(&uploads));
  if (!lists.uploaded)
    MLAC_RETURN_IF_ERROR(device.createEvent(lists.uploaded));
  if (!lists.done)
    MLAC_RETURN_IF_ERROR(device.createEvent(lists.done));
  if (!lists.metadata.data())
    MLAC_RETURN_IF_ERROR(DeviceBuffer::make(engine.sharedDevice(), layout.bytes,
                                            "lists of page copies", lists.metadata));
  void *memory;
  MLAC_RETURN_IF_ERROR(device.allocateStaging(static_cast<size_t>(layout.bytes), &memory)
                           .in("lists of page copies"));
  lists.staging = static_cast<char *>(memory);
  return Status();
}

void PageMover::fill(char *staging, std::span<const PagePair> pairs) {
  setLayout(static_cast<int64_t>(pairs.size()));
  auto *from = reinterpret_cast<int32_t *>(staging);
  auto *to = reinterpret_cast<int64_t *>(
      staging + layout.arrays[static_cast<size_t>(Metadata::SlotMapping)].offset);
  for (const PagePair &pair : pairs) {
    *from++ = pair.from;
    *to++ = pair.to;
  }
}

Status PageMover::upload(Lists &lists, std::span<const PagePair> pairs) {
  if (lists.isUsed) {
    MLAC_RETURN_IF_ERROR(lists.uploaded->wait());
    MLAC_RETURN_IF_ERROR(lists.done->delay(uploads));
  }
  fill(lists.staging, pairs);
  MLAC_RETURN_IF_ERROR(engine.device().uploadAsync(lists.metadata.data(), lists.staging,
                                                   static_cast<size_t>(layout.bytes), uploads));
  lists.isUsed = true;
  return lists.uploaded->record(uploads);
}

Status PageMover::runBatch(const FunctionInfo &function, std::span<const PagePair> pairs,
                           const Host &host, mla_stream *stream) {
  Lists &lists = turns[nextTurn];
  MLAC_RETURN_IF_ERROR(makeLists(lists));
  setLayout(static_cast<int64_t>(pairs.size()));
  const StepLimits &limits = engine.limits();
  DimValues dims = staticDims(limits);
  at(dims, Dim::NumTokens) = static_cast<int64_t>(pairs.size());
  at(dims, Dim::NumRequests) = 1;
  at(dims, Dim::MaxBlocksPerRequest) = static_cast<int64_t>(pairs.size());
  at(dims, Dim::NumHostPages) = host.pages;
  MLAC_RETURN_IF_ERROR(runner.resolve(engine, function, dims, layout));
  runner.commit();
  MLAC_RETURN_IF_ERROR(upload(lists, pairs));
  MLAC_RETURN_IF_ERROR(lists.uploaded->delay(stream));
  int64_t hostBytes = engine.hostBytesPerLayer(/*pool=*/0, host.pages);
  for (int64_t index = 0; index < engine.options().num_layers; ++index) {
    Layer *layer;
    MLAC_RETURN_IF_ERROR(engine.getLayer(index, layer));
    mla_binding binding = {"host", host.data + index * hostBytes, static_cast<size_t>(hostBytes)};
    std::span bindings(&binding, host.data ? 1 : 0);
    MLAC_RETURN_IF_ERROR(
        runner.run(engine, *layer, lists.metadata.data(), bindings, stream, nullptr));
  }
  nextTurn = (nextTurn + 1) % turns.size();
  return lists.done->record(stream);
}

Status PageMover::run(const FunctionInfo &function, std::span<const PagePair> pairs,
                      const Host &host, mla_stream *stream) {
  constexpr size_t most = kPagesPerBatch;
  for (size_t first = 0; first < pairs.size(); first += most)
    MLAC_RETURN_IF_ERROR(runBatch(
        function, pairs.subspan(first, std::min(most, pairs.size() - first)), host, stream));
  return Status();
}

/// By the device's own copies.
Status PageMover::copyEach(size_t pool, std::span<const PagePair> pairs, mla_stream *stream) {
  int64_t stride = engine.pageStride(pool);
  for (const PagePair &pair : pairs)
    for (int64_t index = 0; index < engine.options().num_layers; ++index) {
      Layer *layer;
      MLAC_RETURN_IF_ERROR(engine.getLayer(index, layer));
      char *pages = layer->pools[pool].data();
      MLAC_RETURN_IF_ERROR(
          engine.device().copyAsync(pages + pair.to * stride, pages + pair.from * stride,
                                    static_cast<size_t>(engine.pageBytesUsed(pool)), stream));
    }
  return Status();
}

/// Whether the package's function is of this pool.
static bool copiesIn(const FunctionInfo &function, size_t pool) {
  return std::ranges::all_of(function.buffers, [&](const BufferInfo &buffer) {
    return buffer.kind != fb::BufferKind::Cache || buffer.index == pool;
  });
}

/// The package's for this pool, or null.
const FunctionInfo *PageMover::findFunction(std::string_view name, size_t pool) {
  const FunctionInfo *function = engine.target().find(name);
  return pool == 0 && function && copiesIn(*function, pool) ? function : nullptr;
}

Status PageMover::copy(size_t pool, std::span<const PagePair> pairs, mla_stream *stream) {
  if (pairs.empty())
    return Status();
  const FunctionInfo *function = findFunction(kCopyPagesFunction, pool);
  return function ? run(*function, pairs, {}, stream) : copyEach(pool, pairs, stream);
}

/// Pairs from `first` on that are neighbours on both sides.
static size_t countRun(std::span<const PagePair> pairs, size_t first) {
  size_t end = first + 1;
  while (end < pairs.size() && pairs[end].from == pairs[end - 1].from + 1 &&
         pairs[end].to == pairs[end - 1].to + 1)
    ++end;
  return end - first;
}

/// By the device's own copies, of pages that lie together in one.
Status PageMover::swapEach(size_t pool, std::span<const PagePair> pairs, const Host &host,
                           bool isOut, mla_stream *stream) {
  int64_t stride = engine.pageStride(pool), bytes = engine.pageBytesUsed(pool);
  Device &device = engine.device();
  for (int64_t index = 0; index < engine.options().num_layers; ++index) {
    Layer *layer;
    MLAC_RETURN_IF_ERROR(engine.getLayer(index, layer));
    char *pages = layer->pools[pool].data();
    char *copies = host.data + index * engine.hostBytesPerLayer(pool, host.pages);
    for (size_t first = 0, count; first < pairs.size(); first += count) {
      count = stride == bytes ? countRun(pairs, first) : 1;
      const PagePair &pair = pairs[first];
      size_t size = count * static_cast<size_t>(bytes);
      MLAC_RETURN_IF_ERROR(isOut ? device.downloadAsync(copies + pair.to * bytes,
                                                        pages + pair.from * stride, size, stream)
                                 : device.uploadAsync(pages + pair.to * stride,
                                                      copies + pair.from * bytes, size, stream));
    }
  }
  return Status();
}

Status PageMover::swapOut(size_t pool, std::span<const PagePair> pairs, const Host &host,
                          mla_stream *stream) {
  if (pairs.empty())
    return Status();
  const FunctionInfo *function = findFunction(kSwapOutFunction, pool);
  return function ? run(*function, pairs, host, stream)
                  : swapEach(pool, pairs, host, /*isOut=*/true, stream);
}

Status PageMover::swapIn(size_t pool, std::span<const PagePair> pairs, const Host &host,
                         mla_stream *stream) {
  if (pairs.empty())
    return Status();
  const FunctionInfo *function = findFunction(kSwapInFunction, pool);
  return function ? run(*function, pairs, host, stream)
                  : swapEach(pool, pairs, host, /*isOut=*/false, stream);
}
