//===- PageMover.cpp - copies of whole pages --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PageMover.h"

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
  if (!staging)
    return;
  (void)engine.device().synchronize();
  engine.device().releaseStaging(staging);
}

bool PageMover::canSwap() const {
  return engine.target().find(kSwapOutFunction) && engine.target().find(kSwapInFunction);
}

/// Lists of `pages`, one behind the other.
void PageMover::setLayout(int64_t pages) {
  MetadataArray &table = layout.arrays[static_cast<size_t>(Metadata::BlockTable)];
  MetadataArray &slots = layout.arrays[static_cast<size_t>(Metadata::SlotMapping)];
  table = {0, pages};
  slots = {roundUp(pages * int64_t(sizeof(int32_t)), kBufferAlignment), pages};
  layout.bytes = slots.offset + pages * int64_t(sizeof(int64_t));
}

Status PageMover::makeBuffers() {
  if (staging)
    return Status();
  setLayout(kPagesPerBatch);
  Device &device = engine.device();
  if (!uploaded)
    MLAC_RETURN_IF_ERROR(device.createEvent(uploaded));
  if (!done)
    MLAC_RETURN_IF_ERROR(device.createEvent(done));
  if (!metadata.data())
    MLAC_RETURN_IF_ERROR(
        DeviceBuffer::make(engine.sharedDevice(), layout.bytes, "lists of page copies", metadata));
  void *memory;
  MLAC_RETURN_IF_ERROR(device.allocateStaging(static_cast<size_t>(layout.bytes), &memory)
                           .in("lists of page copies"));
  staging = static_cast<char *>(memory);
  return Status();
}

void PageMover::fill(std::span<const PagePair> pairs) {
  setLayout(static_cast<int64_t>(pairs.size()));
  auto *from = reinterpret_cast<int32_t *>(staging);
  auto *to = reinterpret_cast<int64_t *>(
      staging + layout.arrays[static_cast<size_t>(Metadata::SlotMapping)].offset);
  for (const PagePair &pair : pairs) {
    *from++ = pair.from;
    *to++ = pair.to;
  }
}

Status PageMover::runBatch(const FunctionInfo &function, std::span<const PagePair> pairs,
                           const Host &host, mla_stream *stream) {
  if (isUploading)
    MLAC_RETURN_IF_ERROR(uploaded->wait());
  isUploading = false;
  fill(pairs);
  const StepLimits &limits = engine.limits();
  DimValues dims = StepPlanner(limits).staticDims();
  at(dims, Dim::NumTokens) = static_cast<int64_t>(pairs.size());
  at(dims, Dim::NumRequests) = 1;
  at(dims, Dim::MaxBlocksPerRequest) = static_cast<int64_t>(pairs.size());
  at(dims, Dim::NumHostPages) = host.pages;
  MLAC_RETURN_IF_ERROR(runner.resolve(engine, function, dims, layout));
  runner.commit();
  MLAC_RETURN_IF_ERROR(engine.device().uploadAsync(metadata.data(), staging,
                                                   static_cast<size_t>(layout.bytes), stream));
  MLAC_RETURN_IF_ERROR(uploaded->record(stream));
  isUploading = true;
  int64_t hostBytes = engine.hostBytesPerLayer(host.pages);
  for (int64_t index = 0; index < engine.options().num_layers; ++index) {
    Layer *layer;
    MLAC_RETURN_IF_ERROR(engine.getLayer(index, layer));
    mla_binding binding = {"host", host.data + index * hostBytes, static_cast<size_t>(hostBytes)};
    std::span bindings(&binding, host.data ? 1 : 0);
    MLAC_RETURN_IF_ERROR(runner.run(engine, *layer, metadata.data(), bindings, stream, nullptr));
  }
  return Status();
}

Status PageMover::run(const FunctionInfo &function, std::span<const PagePair> pairs,
                      const Host &host, mla_stream *stream) {
  MLAC_RETURN_IF_ERROR(makeBuffers());
  // The lists on the device are those of the last call's kernels until they end.
  if (hasRun && lastStream != stream)
    MLAC_RETURN_IF_ERROR(done->wait());
  constexpr size_t most = kPagesPerBatch;
  for (size_t first = 0; first < pairs.size(); first += most)
    MLAC_RETURN_IF_ERROR(runBatch(
        function, pairs.subspan(first, std::min(most, pairs.size() - first)), host, stream));
  MLAC_RETURN_IF_ERROR(done->record(stream));
  hasRun = true;
  lastStream = stream;
  return Status();
}

/// By the device's own copies.
Status PageMover::copyEach(std::span<const PagePair> pairs, mla_stream *stream) {
  int64_t stride = engine.pageStride();
  for (const PagePair &pair : pairs)
    for (int64_t index = 0; index < engine.options().num_layers; ++index) {
      Layer *layer;
      MLAC_RETURN_IF_ERROR(engine.getLayer(index, layer));
      char *pool = layer->pool.data();
      MLAC_RETURN_IF_ERROR(
          engine.device().copyAsync(pool + pair.to * stride, pool + pair.from * stride,
                                    static_cast<size_t>(engine.pageBytesUsed()), stream));
    }
  return Status();
}

Status PageMover::copy(std::span<const PagePair> pairs, mla_stream *stream) {
  if (pairs.empty())
    return Status();
  const FunctionInfo *function = engine.target().find(kCopyPagesFunction);
  return function ? run(*function, pairs, {}, stream) : copyEach(pairs, stream);
}

Status PageMover::swapOut(std::span<const PagePair> pairs, char *host, int64_t hostPages,
                          mla_stream *stream) {
  return run(*engine.target().find(kSwapOutFunction), pairs, {host, hostPages}, stream);
}

Status PageMover::swapIn(std::span<const PagePair> pairs, char *host, int64_t hostPages,
                         mla_stream *stream) {
  return run(*engine.target().find(kSwapInFunction), pairs, {host, hostPages}, stream);
}
