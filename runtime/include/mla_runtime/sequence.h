/*===- mla_runtime/sequence.h - tokens in an engine's cache -------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_SEQUENCE_H
#define MLA_RUNTIME_SEQUENCE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an empty sequence. It takes no pages until tokens are planned. */
MLA_API mla_status mla_sequence_create(mla_engine *engine, mla_sequence *sequence);

/* Frees the sequence and its pages; the id becomes stale. Work already launched
   keeps reading the pages correctly as long as later steps go to the same stream. */
MLA_API mla_status mla_sequence_free(mla_engine *engine, mla_sequence sequence);

/* Takes pages so that the sequence can hold `num_tokens` in total. All or nothing:
   MLA_OUT_OF_PAGES changes nothing. MLA_INVALID_ARGUMENT: over max_seq_len.
   mla_step_plan does this by itself; reserving first moves the refusal forward. */
MLA_API mla_status mla_sequence_reserve(mla_engine *engine, mla_sequence sequence,
                                        int64_t num_tokens);

/* Forgets tokens at and after `num_tokens` (<= length) and gives back the pages
   behind it: rejected speculative tokens, or a step to be planned again. */
MLA_API mla_status mla_sequence_truncate(mla_engine *engine, mla_sequence sequence,
                                         int64_t num_tokens);

/* Tokens in the sequence, counting those of planned steps. */
MLA_API mla_status mla_sequence_length(mla_engine *engine, mla_sequence sequence, int64_t *length);

/* Copies the sequence's page indices, in logical order, to pages [capacity] and
   their number to *count. MLA_INVALID_ARGUMENT if capacity < *count (*count is
   set, so capacity 0 with pages NULL asks for the number). */
MLA_API mla_status mla_sequence_pages(mla_engine *engine, mla_sequence sequence, int32_t *pages,
                                      int64_t capacity, int64_t *count);

typedef struct mla_cache_stats {
  int64_t num_pages;  /* of the pool, in one layer */
  int64_t free_pages; /* can be had: unused, or cached for a prefix that nobody uses */
  int64_t num_sequences;
  int64_t page_size;         /* rows */
  int64_t row_bytes;         /* one row's */
  int64_t page_stride_bytes; /* page_size * row_bytes + padding */
  mla_dtype dtype;
} mla_cache_stats;
/* Here and below, `pool` is a place in the package's list of pools. MLA_INVALID_ARGUMENT:
   there are fewer. */
MLA_API mla_status mla_cache_get_stats(mla_engine *engine, int64_t pool, mla_cache_stats *stats);

/* Device address of one layer's pool. Page p begins at data + p * page_stride_bytes; row o
   in it is o * row_bytes behind that where rows are whole (all formats but split_ckv_kpe:
   mla_cache_part_of). Lives as long as the engine. */
MLA_API mla_status mla_cache_data(mla_engine *engine, int64_t layer, int64_t pool, void **data);

/* One part of all rows of a layer's pool, a tensor [num_pages, page_size, width] whose
   last dimension is dense. */
typedef struct mla_cache_part {
  void *data;      /* device address of the first element; lives as long as the engine */
  mla_dtype dtype; /* as stored */
  int64_t num_pages, page_size, width;
  int64_t page_stride_bytes, row_stride_bytes;
} mla_cache_part;

/* `part`: "latent", "rope", "key", "value" or "scale". With split_ckv_kpe latent and rope are what
   FlashInfer's kernels take as ckv_cache and kpe_cache: rows are dense in a page.
   MLA_NOT_FOUND: rows of the format have no such part. */
MLA_API mla_status mla_cache_part_of(mla_engine *engine, int64_t layer, int64_t pool,
                                     const char *part, mla_cache_part *view);

/* For tests and debugging; they wait for the device.
   poison: writes NaN to every row of the layer's pools that holds no token (free
   pages, unused tails, padding). read / write: `count` rows of row_bytes from
   slot `slot` on, consecutive slots, to or from host memory. */
MLA_API mla_status mla_cache_poison(mla_engine *engine, int64_t layer);
MLA_API mla_status mla_cache_read(mla_engine *engine, int64_t layer, int64_t pool, int64_t slot,
                                  int64_t count, void *rows);
MLA_API mla_status mla_cache_write(mla_engine *engine, int64_t layer, int64_t pool, int64_t slot,
                                   int64_t count, const void *rows);

/* Fills the engine's workspace with NaN (tests: nothing may be read before it is
   written). Waits for the device. */
MLA_API mla_status mla_engine_poison_workspace(mla_engine *engine);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_SEQUENCE_H */
