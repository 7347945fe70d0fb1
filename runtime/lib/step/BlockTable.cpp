//===- BlockTable.cpp - block tables that stay on the device ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/BlockTable.h"

#include "base/DataType.h"

#include <algorithm>

using namespace mlac::runtime;

static constexpr int64_t kAlignment = 256; // of each array, as the allocation's

Status BlockTable::create(const KVCache &cache, size_t pool, int64_t rows, int64_t tokens,
                          std::shared_ptr<Device> device, std::unique_ptr<BlockTable> &table) {
  const PoolSpec &spec = cache.spec(pool);
  int64_t columns = ceilDiv(cache.maxSeqLen() / spec.tokensPerRow, spec.pageRows);
  std::unique_ptr<BlockTable> result(new BlockTable(pool, rows, columns, tokens));
  MLAC_RETURN_IF_ERROR(result->allocate(std::move(device)));
  table = std::move(result);
  return Status();
}

Status BlockTable::allocate(std::shared_ptr<Device> device) {
  lensOffset = roundUp(table.bytes(), kAlignment);
  slotsOffset = roundUp(lensOffset + rows() * int64_t(sizeof(int32_t)), kAlignment);
  int64_t bytes = slotsOffset + tokens_ * int64_t(sizeof(int64_t));
  MLAC_RETURN_IF_ERROR(mirror.create(std::move(device), bytes, "a block table"));
  table.clear(mirror);
  std::fill_n(reinterpret_cast<int32_t *>(mirror.host() + lensOffset), rows(), 0);
  std::fill_n(reinterpret_cast<int64_t *>(mirror.host() + slotsOffset), tokens_, int64_t(-1));
  return mirror.uploadNow(bytes);
}

/// The entries that changed.
int64_t BlockTable::showRow(size_t row, const Sequence *sequence) {
  if (!sequence)
    return table.show(mirror, row, 0, 0, {});
  return table.show(mirror, row, bound[row], sequence->edits, sequence->table(pool_));
}

void BlockTable::showLength(size_t row, int32_t length) {
  int64_t begin = lensOffset + static_cast<int64_t>(row * sizeof(int32_t));
  int32_t &shown = *reinterpret_cast<int32_t *>(mirror.host() + begin);
  if (shown == length)
    return;
  shown = length;
  mirror.touch(begin, begin + int64_t(sizeof(int32_t)));
}

void BlockTable::showSlots(std::span<const int64_t> slots) {
  auto *shown = reinterpret_cast<int64_t *>(mirror.host() + slotsOffset);
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
    mirror.touch(begin, begin + int64_t(sizeof slot));
  }
}

Status BlockTable::update(const KVCache &cache, std::span<const int64_t> slots, mla_stream *stream,
                          int64_t &numEntries, int64_t &numCopies) {
  MLAC_RETURN_IF_ERROR(mirror.device().checkStream(stream));
  MLAC_RETURN_IF_ERROR(mirror.wait());
  int64_t changed = 0;
  for (size_t row = 0; row < bound.size(); ++row)
    changed += showRow(row, cache.findLive(bound[row]));
  for (size_t row = 0; row < bound.size(); ++row) {
    const Sequence *sequence = cache.findLive(bound[row]);
    showLength(row, sequence ? static_cast<int32_t>(sequence->length) : 0);
  }
  showSlots(slots);
  DeviceMirror::Sent sent;
  MLAC_RETURN_IF_ERROR(mirror.upload(stream, sent));
  numEntries = changed;
  numCopies = sent.calls;
  return Status();
}
