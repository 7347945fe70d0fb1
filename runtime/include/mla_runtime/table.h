/*===- mla_runtime/table.h - block tables for other kernels -------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_TABLE_H
#define MLA_RUNTIME_TABLE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tables of a pool that stay at fixed device addresses and are kept up to date by
   small copies: for kernels of one's own in captured graphs. */
typedef struct mla_table_view {
  void *block_table;  /* i32 [rows, columns]; 2147480000 where there is no page */
  void *seq_lens;     /* i32 [rows]; 0 for empty rows */
  void *slot_mapping; /* i64 [tokens]; -1 behind the slots of the last update */
  int64_t rows, columns, tokens;
} mla_table_view;

/* Makes tables for `rows` requests and `tokens` new tokens of a step, columns for
   max_seq_len, on `device`; all rows are empty. Keeps the cache and the device. */
MLA_API mla_status mla_table_create(mla_cache *cache, mla_device *device, int64_t pool,
                                    int64_t rows, int64_t tokens, mla_table **table);
/* Waits for the device. */
MLA_API mla_status mla_table_destroy(mla_table *table);
MLA_API mla_status mla_table_view_of(mla_table *table, mla_table_view *view);

/* Binds a row to a sequence of the table's cache, or empties it (0). Shown by the
   next update, as is everything that happens to the sequence; the row of a
   sequence that is freed becomes empty. */
MLA_API mla_status mla_table_assign(mla_table *table, int64_t row, mla_sequence sequence);

typedef struct mla_table_changes {
  int64_t entries; /* of block_table that differed */
  int64_t copies;  /* that were started; neighbours go together */
} mla_table_changes;

/* Brings the tables up to date: only what has changed is copied, asynchronously on
   `stream`, from pinned memory. slots: slot_mapping of the step [num_slots], num_slots <=
   tokens. changes may be NULL. Waits for the copies of the update before, which have
   long arrived where steps are planned one ahead. Call it before a graph is
   replayed on `stream`; it must not itself be captured. */
MLA_API mla_status mla_table_update(mla_table *table, const int64_t *slots, int64_t num_slots,
                                    mla_stream *stream, mla_table_changes *changes);

/*===--- Indices --------------------------------------------------------===*/

/* How token positions of requests become rows of a pool, or of a workspace into which
   prefills have gathered their context. */
typedef struct mla_index_map {
  size_t struct_bytes;             /* sizeof(mla_index_map) */
  const int32_t *block_table;      /* [num_requests, max_blocks_per_request] */
  int64_t num_requests;
  int64_t max_blocks_per_request;
  int64_t page_size;               /* tokens */
  int64_t block_stride_rows;       /* rows from block to block, >= page_size */
  int64_t num_blocks;              /* num_blocks * block_stride_rows < 2^31 */
  const int32_t *prefill_requests; /* [rows], -1: of a decode; NULL: all are */
  const int32_t *workspace_starts; /* [num_prefills] */
  int64_t num_prefills;
} mla_index_map;

/* positions [rows, width] and requests [rows] to indices [rows, width], all in host
   memory: -1 for negative positions and those beyond the block table; for rows of a
   prefill workspace_starts[prefill] + position, without a look at the table; else
   block_table[request, position / page_size] * block_stride_rows + position % page_size.
   MLA_INVALID_ARGUMENT: a request, prefill or block out of range, or indices that need
   more than 32 bits; nothing is written. Source: paged-cache.md section 7. */
MLA_API mla_status mla_cache_convert_indices(const mla_index_map *map, const int32_t *positions,
                                             const int32_t *requests, int64_t rows, int64_t width,
                                             int32_t *indices);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_TABLE_H */
