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
// One after the other in one allocation, with a mirror of the same layout in
// pinned host memory. update() compares the mirror with the cache, and copies
// only what differs. Appended pages are found without reading a row: a
// sequence counts the other changes of its tables (Sequence::edits), so rows are
// compared from their old end on unless that count has moved.
//
// The mirror is what the copies read from, so the next update waits for them.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_BLOCKTABLE_H
#define MLAC_RUNTIME_BLOCKTABLE_H

#include "Device.h"
#include "KVCache.h"

namespace mlac::runtime {

class BlockTable {
public:
  /// For `pool` of a cache like `cache`.
  static Status create(const KVCache &cache, size_t pool, int64_t rows, int64_t tokens,
                       std::shared_ptr<Device> device, std::unique_ptr<BlockTable> &table);
  ~BlockTable();

  size_t pool() const { return pool_; }
  int64_t rows() const { return static_cast<int64_t>(bound.size()); }
  int64_t columns() const { return columns_; }
  int64_t tokens() const { return tokens_; }

  /// Binds a row to a sequence; 0 empties it. Takes effect with update().
  void assign(int64_t row, mla_sequence sequence) { bound[static_cast<size_t>(row)].id = sequence; }
  /// Brings the device up to date on `stream`. Rows of freed sequences become
  /// empty. `numEntries`: entries of block_table that were copied.
  Status update(const KVCache &cache, std::span<const int64_t> slots, mla_stream *stream,
                int64_t &numEntries, int64_t &numCopies);

  char *blockTable() const { return device_.data(); }
  char *seqLens() const { return device_.data() + lensOffset; }
  char *slotMapping() const { return device_.data() + slotsOffset; }

private:
  BlockTable() = default;
  /// What the mirror's row was made from.
  struct Row {
    mla_sequence id = 0, shown = 0;
    uint64_t edits = 0;
    int64_t count = 0;
  };
  /// Bytes of the mirror that the device lacks.
  struct Range {
    int64_t begin, end;
  };

  int32_t *mirrorRow(size_t row) {
    return reinterpret_cast<int32_t *>(mirror) + static_cast<int64_t>(row) * columns_;
  }
  void touch(int64_t begin, int64_t end);
  int64_t showRow(size_t row, const Sequence *sequence);
  void setEntries(size_t row, int64_t from, std::span<const int32_t> entries, int64_t &changed);
  void showLength(size_t row, int32_t length);
  void showSlots(std::span<const int64_t> slots);
  Status upload(mla_stream *stream);

  std::shared_ptr<Device> owner;
  size_t pool_ = 0;
  int64_t columns_ = 0, tokens_ = 0, lensOffset = 0, slotsOffset = 0, bytes = 0;
  std::vector<Row> bound;
  uint8_t *mirror = nullptr;
  DeviceBuffer device_;
  std::vector<Range> ranges;
  std::unique_ptr<Event> uploaded;
  bool isUploading = false;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_BLOCKTABLE_H
