//===- BlockTable.h - block tables that stay on the device ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables at fixed device addresses, for kernels in a captured graph:
//
//   block_table   i32 [rows, columns]   a row is bound to a sequence
//   seq_lens      i32 [rows]
//   slot_mapping  i64 [tokens]          -1 behind the step's tokens
//
// One after the other in one mirror (DeviceMirror, TableRows): update() compares it
// with the cache, and sends only what differs.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_BLOCKTABLE_H
#define MLAC_RUNTIME_BLOCKTABLE_H

#include "step/TableRows.h"

namespace mlac::runtime {

class BlockTable {
public:
  /// For `pool` of a cache like `cache`.
  static Status create(const KVCache &cache, size_t pool, int64_t rows, int64_t tokens,
                       std::shared_ptr<Device> device, std::unique_ptr<BlockTable> &table);

  size_t pool() const { return pool_; }
  int64_t rows() const { return static_cast<int64_t>(bound.size()); }
  int64_t columns() const { return table.columns(); }
  int64_t tokens() const { return tokens_; }

  /// Binds a row to a sequence; 0 empties it. Takes effect with update().
  void assign(int64_t row, mla_sequence sequence) { bound[static_cast<size_t>(row)] = sequence; }
  /// Brings the device up to date on `stream`. Rows of freed sequences become
  /// empty. `numEntries`: entries of block_table that were copied.
  Status update(const KVCache &cache, std::span<const int64_t> slots, mla_stream *stream,
                int64_t &numEntries, int64_t &numCopies);

  char *blockTable() const { return mirror.data(); }
  char *seqLens() const { return mirror.data() + lensOffset; }
  char *slotMapping() const { return mirror.data() + slotsOffset; }

private:
  BlockTable(size_t pool, int64_t rows, int64_t columns, int64_t tokens)
      : pool_(pool), tokens_(tokens), bound(static_cast<size_t>(rows)), table(rows, columns) {}

  Status allocate(std::shared_ptr<Device> device);
  int64_t showRow(size_t row, const Sequence *sequence);
  void showLength(size_t row, int32_t length);
  void showSlots(std::span<const int64_t> slots);

  size_t pool_;
  int64_t tokens_, lensOffset = 0, slotsOffset = 0;
  std::vector<mla_sequence> bound; // of each row
  TableRows table;
  DeviceMirror mirror;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_BLOCKTABLE_H
