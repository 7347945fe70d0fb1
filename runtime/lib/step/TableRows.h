//===- TableRows.h - rows of pages of sequences -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block table in a mirror, by default at its front: row i holds the pages of one sequence, and
// kNoPage behind them.
//
//   row 0   5 7 2 - - -        - is kNoPage
//   row 1   3 - - - - -
//
// A row that shows the same sequence as before is not read again where it need not be:
// sequences count the changes of their tables that are not appends (Sequence::edits),
// so unless that count has moved, only what is behind the row's old end is new.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_TABLEROWS_H
#define MLAC_RUNTIME_TABLEROWS_H

#include "cache/KVCache.h"
#include "device/DeviceMirror.h"

#include <span>

namespace mlac::runtime {

class TableRows {
public:
  /// Entries that no kernel may read: far outside any pool.
  static constexpr int32_t kNoPage = KVCache::kGivenBack;

  /// `offset`: of the table in the mirror, in bytes. `pool`: of the sequences' pages.
  TableRows(int64_t rows, int64_t columns, int64_t offset = 0, size_t pool = 0)
      : columns_(columns), offset(offset), pool(pool), shown(static_cast<size_t>(rows)) {}

  int64_t rows() const { return static_cast<int64_t>(shown.size()); }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return rows() * columns_ * int64_t(sizeof(int32_t)); }

  /// Empties all rows of the host's memory, before anything is shown.
  void clear(DeviceMirror &mirror);
  /// The sequence that a row shows; 0 if none.
  mla_sequence sequence(size_t row) const { return shown[row].id; }
  /// Makes `row` show `pages`, the first of the sequence `id` that was edited `edits`
  /// times, and touches what differs; rows in ascending order. An empty row: id 0,
  /// no pages. Returns the number of entries that were touched.
  int64_t show(DeviceMirror &mirror, size_t row, mla_sequence id, uint64_t edits,
               std::span<const int32_t> pages) {
    const Row &is = shown[row];
    bool isKnown = is.id == id && is.edits == edits;
    if (isKnown && is.count == static_cast<int64_t>(pages.size())) // nearly always
      return 0;
    return update(mirror, row, {id, edits, static_cast<int64_t>(pages.size())}, isKnown, pages);
  }

  /// Whether the sequences of the first `count` rows are there and still have the pages
  /// that the rows show; if not, `row` is one whose sequence does not. Tables that were
  /// edited since are compared, once.
  bool areHeld(const KVCache &cache, const DeviceMirror &mirror, int64_t count, size_t &row);

private:
  /// What a row was made from.
  struct Row {
    mla_sequence id = 0;
    uint64_t edits = 0;
    int64_t count = 0; // entries that are not kNoPage
  };
  int64_t update(DeviceMirror &mirror, size_t row, const Row &wanted, bool isKnown,
                 std::span<const int32_t> pages);
  bool isHeld(const KVCache &cache, const DeviceMirror &mirror, size_t row);

  int32_t *entries(const DeviceMirror &mirror, int64_t entry) const {
    return reinterpret_cast<int32_t *>(mirror.host() + offset) + entry;
  }

  int64_t columns_, offset;
  size_t pool;
  std::vector<Row> shown;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_TABLEROWS_H
