//===- TableRows.cpp - rows of pages of sequences ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/TableRows.h"

#include <algorithm>

using namespace mlac::runtime;

void TableRows::clear(DeviceMirror &mirror) {
  std::fill_n(entries(mirror, 0), rows() * columns_, kNoPage);
}

/// `isKnown`: the row showed the same sequence, whose pages there were not edited since.
int64_t TableRows::update(DeviceMirror &mirror, size_t index, const Row &to, bool isKnown,
                          std::span<const int32_t> pages) {
  Row &row = shown[index];
  int64_t count = to.count;
  int64_t first = isKnown ? std::min(row.count, count) : 0, end = std::max(row.count, count);
  int64_t start = static_cast<int64_t>(index) * columns_;
  int32_t *entries = this->entries(mirror, start);
  auto wanted = [&](int64_t i) { return i < count ? pages[static_cast<size_t>(i)] : kNoPage; };
  while (first < end && entries[first] == wanted(first))
    ++first;
  while (first < end && entries[end - 1] == wanted(end - 1))
    --end;
  for (int64_t i = first; i < end; ++i)
    entries[i] = wanted(i);
  row = to;
  if (first < end) {
    constexpr int64_t kEntry = sizeof(int32_t);
    mirror.touch(offset + (start + first) * kEntry, offset + (start + end) * kEntry);
  }
  return end - first;
}

bool TableRows::isHeld(const KVCache &cache, const DeviceMirror &mirror, size_t index) {
  Row &row = shown[index];
  if (row.count == 0)
    return true;
  const Sequence *sequence = cache.findLive(row.id);
  if (!sequence)
    return false;
  if (sequence->edits == row.edits)
    return true;
  auto count = static_cast<size_t>(row.count);
  const int32_t *entries = this->entries(mirror, static_cast<int64_t>(index) * columns_);
  const std::vector<int32_t> &pages = sequence->table(pool);
  if (pages.size() < count || !std::equal(entries, entries + count, pages.data()))
    return false;
  row.edits = sequence->edits;
  return true;
}

bool TableRows::areHeld(const KVCache &cache, const DeviceMirror &mirror, int64_t count,
                        size_t &row) {
  for (row = 0; row < static_cast<size_t>(count); ++row)
    if (!isHeld(cache, mirror, row))
      return false;
  return true;
}
