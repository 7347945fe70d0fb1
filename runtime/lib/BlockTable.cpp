//===- BlockTable.cpp - block tables that stay on the device ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockTable.h"

#include "DataType.h"

#include <algorithm>

using namespace mlac::runtime;

/// Entries that hold no page: no kernel may read them.
static constexpr int32_t kEmpty = KVCache::kGivenBack;

/// Differences closer than this go in one copy: starting another one costs about
/// 2 us on the host, in which a PCIe 5 link moves more than 32 KiB.
static constexpr int64_t kMergeBytes = 32 << 10;

static constexpr int64_t kAlignment = 256; // of each array, as the allocation's

Status BlockTable::create(const KVCache &cache, size_t pool, int64_t rows, int64_t tokens,
                          std::shared_ptr<Device> device, std::unique_ptr<BlockTable> &table) {
  std::unique_ptr<BlockTable> result(new BlockTable());
  const PoolSpec &spec = cache.spec(pool);
  result->pool_ = pool;
  result->columns_ = ceilDiv(cache.maxSeqLen() / spec.tokensPerRow, spec.pageRows);
  result->tokens_ = tokens;
  int64_t entries = int64_t(sizeof(int32_t));
  result->lensOffset = roundUp(rows * result->columns_ * entries, kAlignment);
  result->slotsOffset = roundUp(result->lensOffset + rows * entries, kAlignment);
  result->bytes = result->slotsOffset + tokens * int64_t(sizeof(int64_t));
  result->bound.resize(static_cast<size_t>(rows));
  // Ranges further apart than kMergeBytes: so many fit.
  result->ranges.reserve(static_cast<size_t>(result->bytes / kMergeBytes + 2));
  void *mirror;
  MLAC_RETURN_IF_ERROR(device->allocateStaging(static_cast<size_t>(result->bytes), &mirror)
                           .in("the mirror of a block table"));
  result->owner = device;
  result->mirror = static_cast<uint8_t *>(mirror);
  MLAC_RETURN_IF_ERROR(DeviceBuffer::make(device, result->bytes, "a block table", result->device_));
  MLAC_RETURN_IF_ERROR(device->createEvent(result->uploaded));
  std::fill_n(result->mirrorRow(0), rows * result->columns_, kEmpty);
  std::fill_n(reinterpret_cast<int32_t *>(result->mirror + result->lensOffset), rows, 0);
  std::fill_n(reinterpret_cast<int64_t *>(result->mirror + result->slotsOffset), tokens,
              int64_t(-1));
  MLAC_RETURN_IF_ERROR(
      device->upload(result->device_.data(), mirror, static_cast<size_t>(result->bytes)));
  table = std::move(result);
  return Status();
}

BlockTable::~BlockTable() {
  if (!mirror)
    return;
  (void)owner->synchronize();
  owner->releaseStaging(mirror);
}

/// Adds a range behind all earlier ones, or to the last of them.
void BlockTable::touch(int64_t begin, int64_t end) {
  if (!ranges.empty() && begin - ranges.back().end <= kMergeBytes)
    ranges.back().end = std::max(ranges.back().end, end);
  else
    ranges.push_back({begin, end});
}

/// Writes entries [from, from + size) of a row; from there on what differs.
void BlockTable::setEntries(size_t row, int64_t from, std::span<const int32_t> entries,
                            int64_t &changed) {
  int32_t *to = mirrorRow(row) + from;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (to[i] == entries[i])
      continue;
    to[i] = entries[i];
    int64_t begin = reinterpret_cast<uint8_t *>(to + i) - mirror;
    touch(begin, begin + int64_t(sizeof(int32_t)));
    ++changed;
  }
}

/// The entries that changed.
int64_t BlockTable::showRow(size_t index, const Sequence *sequence) {
  Row &row = bound[index];
  int64_t changed = 0, from = 0, count = 0;
  if (sequence) {
    const std::vector<int32_t> &table = sequence->table(pool_);
    count = static_cast<int64_t>(table.size());
    if (row.shown == row.id && row.edits == sequence->edits)
      from = row.count; // pages were appended, or nothing happened
    setEntries(index, from, std::span(table).subspan(static_cast<size_t>(from)), changed);
    row.edits = sequence->edits;
  }
  for (int64_t i = count; i < row.count; ++i)
    setEntries(index, i, std::span(&kEmpty, 1), changed);
  row.shown = row.id;
  row.count = count;
  return changed;
}

void BlockTable::showLength(size_t row, int32_t length) {
  int64_t begin = lensOffset + static_cast<int64_t>(row * sizeof(int32_t));
  int32_t &shown = *reinterpret_cast<int32_t *>(mirror + begin);
  if (shown == length)
    return;
  shown = length;
  touch(begin, begin + int64_t(sizeof(int32_t)));
}

void BlockTable::showSlots(std::span<const int64_t> slots) {
  auto *shown = reinterpret_cast<int64_t *>(mirror + slotsOffset);
  for (int64_t i = 0; i < tokens_; ++i) {
    bool isUsed = i < static_cast<int64_t>(slots.size());
    int64_t slot = isUsed ? slots[static_cast<size_t>(i)] : -1;
    // Unused entries are at the end, all of them -1.
    if (!isUsed && shown[i] < 0)
      break;
    if (shown[i] == slot)
      continue;
    shown[i] = slot;
    int64_t begin = slotsOffset + i * int64_t(sizeof slot);
    touch(begin, begin + int64_t(sizeof slot));
  }
}

Status BlockTable::update(const KVCache &cache, std::span<const int64_t> slots, mla_stream *stream,
                          int64_t &numEntries, int64_t &numCopies) {
  MLAC_RETURN_IF_ERROR(owner->checkStream(stream));
  if (isUploading)
    MLAC_RETURN_IF_ERROR(uploaded->wait());
  isUploading = false;
  int64_t changed = 0;
  auto find = [&](size_t row) -> const Sequence * { return cache.findLive(bound[row].id); };
  for (size_t row = 0; row < bound.size(); ++row)
    changed += showRow(row, find(row));
  for (size_t row = 0; row < bound.size(); ++row) {
    const Sequence *sequence = find(row);
    showLength(row, sequence ? static_cast<int32_t>(sequence->length) : 0);
  }
  showSlots(slots);
  numEntries = changed;
  numCopies = static_cast<int64_t>(ranges.size());
  Status status = upload(stream);
  ranges.clear();
  if (!status.isOk())
    ranges.push_back({0, bytes}); // what has arrived is unknown: all of it again
  return status;
}

Status BlockTable::upload(mla_stream *stream) {
  if (ranges.empty())
    return Status();
  for (const Range &range : ranges)
    MLAC_RETURN_IF_ERROR(owner->uploadAsync(device_.data() + range.begin, mirror + range.begin,
                                            static_cast<size_t>(range.end - range.begin), stream));
  MLAC_RETURN_IF_ERROR(uploaded->record(stream));
  isUploading = true;
  return Status();
}
