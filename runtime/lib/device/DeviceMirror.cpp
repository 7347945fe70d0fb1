//===- DeviceMirror.cpp - device memory written on the host -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/DeviceMirror.h"

#include "base/DataType.h"

#include <algorithm>

using namespace mlac::runtime;

// What a transfer costs, in bytes that the link moves meanwhile. Measured on an H200
// (PCIe 5, 53 GB/s): 0.67 us of the stream's time for each word in a batch of writes,
// 2.3 us for starting a copy.
static constexpr int64_t kWriteCost = 35 << 10, kCopyCost = 120 << 10;

/// Closer differences go into one range: the gap costs less than another write.
static constexpr int64_t kMergeBytes = 32 << 10;

/// With more words than this in a range, whose gaps are at most kMergeBytes, a copy
/// is cheaper: n * kWriteCost < kCopyCost + n * kMergeBytes does not hold.
static constexpr size_t kMostWords = kCopyCost / (kWriteCost - kMergeBytes);

static constexpr int64_t kWordBytes = sizeof(int32_t);

Status DeviceMirror::create(std::shared_ptr<Device> device, int64_t bytes, std::string_view what) {
  void *host;
  MLAC_RETURN_IF_ERROR(device->allocateStaging(static_cast<size_t>(bytes), &host)
                           .in(concat("the host's copy of ", what)));
  owner = device;
  bytes_ = bytes;
  host_ = static_cast<uint8_t *>(host);
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(std::move(device), bytes, what, device_));
  MLAC_RETURN_IF_ERROR(owner->createEvent(uploaded));
  // Ranges are further apart than kMergeBytes: so many fit.
  auto most = static_cast<size_t>(bytes / kMergeBytes + 2);
  ranges.reserve(most);
  words.reserve(most * kMostWords);
  return Status();
}

DeviceMirror::~DeviceMirror() {
  if (!host_)
    return;
  (void)owner->synchronize();
  owner->releaseStaging(host_);
}

Status DeviceMirror::wait() {
  if (isUploading)
    MLAC_RETURN_IF_ERROR(uploaded->wait());
  isUploading = false;
  return Status();
}

/// `range` is the last one.
void DeviceMirror::addWords(Range &range, int64_t begin, int64_t end) {
  auto count = static_cast<size_t>((end - begin) / kWordBytes);
  range.hasMore |= range.numWords + count > kMostWords;
  if (range.hasMore) {
    words.resize(range.firstWord);
    return;
  }
  for (; begin < end; begin += kWordBytes)
    words.push_back(begin);
  range.numWords += count;
}

void DeviceMirror::touch(int64_t begin, int64_t end) {
  if (ranges.empty() || begin - ranges.back().end > kMergeBytes)
    ranges.push_back({begin, end, words.size(), 0, false});
  Range &range = ranges.back();
  range.end = std::max(range.end, end);
  addWords(range, begin, end);
}

void DeviceMirror::forget() {
  words.clear();
  ranges.assign(1, {0, bytes_, 0, 0, true});
}

Status DeviceMirror::uploadNow(int64_t bytes) {
  return owner->upload(device_.data(), host_, static_cast<size_t>(bytes));
}

Status DeviceMirror::send(mla_stream *stream, Sent &sent) {
  size_t numWords = 0; // to write; moved to the front of `words`
  for (const Range &range : ranges) {
    int64_t bytes = range.end - range.begin;
    if (!range.hasMore && static_cast<int64_t>(range.numWords) * kWriteCost < kCopyCost + bytes) {
      auto first = words.begin() + static_cast<std::ptrdiff_t>(range.firstWord);
      std::copy_n(first, range.numWords, words.begin() + static_cast<std::ptrdiff_t>(numWords));
      numWords += range.numWords;
      continue;
    }
    MLAC_RETURN_IF_ERROR(owner->uploadAsync(device_.data() + range.begin, host_ + range.begin,
                                            static_cast<size_t>(bytes), stream));
    ++sent.calls;
    sent.bytes += bytes;
  }
  if (numWords == 0)
    return Status();
  ++sent.calls;
  sent.bytes += static_cast<int64_t>(numWords) * kWordBytes;
  return owner->writeWords(device_.data(), host_, {words.data(), numWords}, stream);
}

Status DeviceMirror::upload(mla_stream *stream, Sent &sent) {
  sent = {};
  if (ranges.empty())
    return Status();
  Status status = send(stream, sent);
  // Some of it may have been started.
  Status recorded = uploaded->record(stream);
  isUploading = recorded.isOk();
  if (status.isOk())
    status = std::move(recorded);
  ranges.clear();
  words.clear();
  if (!status.isOk())
    forget();
  return status;
}
