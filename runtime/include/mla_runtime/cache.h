/*===- mla_runtime/cache.h - who has which page -------------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_CACHE_H
#define MLA_RUNTIME_CACHE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A cache is the bookkeeping of pages: reference counts, block tables, published
   prefixes. mla_engine_cache gives the one under an engine, whose sequences are
   those of mla_sequence_create; mla_cache_create makes one of its own for
   programs that keep the bytes themselves.

   A cache has one pool or several. Every sequence has pages in each of them. */
typedef struct mla_cache_pool {
  const char *name;        /* for messages; copied */
  int64_t num_pages;       /* 1 .. 2147479999 */
  int64_t page_rows;       /* rows of a page, 1 .. 65536 */
  int64_t tokens_per_row;  /* a row exists once so many tokens do; 1 .. 65536. Compressed
                              and index pools keep one row per 4 or 128 tokens */
  int64_t window_tokens;   /* 0: all tokens are kept. Else a token sees so many, itself
                              included, and pages that no later token sees are given back */
  int64_t watermark_pages; /* a sequence without pages is refused if fewer would be left:
                              room for those that run; 0 .. num_pages */
} mla_cache_pool;

/* Fill with mla_cache_options_init, then set pools, num_pools and max_seq_len. */
typedef struct mla_cache_options {
  size_t struct_bytes;         /* sizeof(mla_cache_options) */
  int64_t max_seq_len;         /* tokens of one sequence, 1 .. 2147483647 */
  int64_t num_pools;           /* 1 .. 16 */
  const mla_cache_pool *pools; /* [num_pools]; the first keeps one row of every token */
  const char *format;          /* what a row is, in the caller's words, or NULL: snapshots are
                                  restored into caches of the same format only */
} mla_cache_options;

MLA_API void mla_cache_options_init(mla_cache_options *options);

/* Makes a cache without an engine. MLA_INVALID_ARGUMENT names pool, value and limit. */
MLA_API mla_status mla_cache_create(const mla_cache_options *options, mla_cache **cache);

/* The cache of an engine: one pool "latent" of page_size rows. Each call makes a
   handle to be destroyed; it does not outlive the engine's cache, whose functions
   then refuse. */
MLA_API mla_status mla_engine_cache(mla_engine *engine, mla_cache **cache);

/* Closes the handle; a cache of mla_cache_create goes with it. */
MLA_API mla_status mla_cache_destroy(mla_cache *cache);

/* As mla_sequence_create, _free, _reserve, _truncate and _length. truncate refuses
   to go back to where a pool's window has been given back. reserve minds watermarks. */
MLA_API mla_status mla_cache_new_sequence(mla_cache *cache, mla_sequence *sequence);
MLA_API mla_status mla_cache_free_sequence(mla_cache *cache, mla_sequence sequence);
MLA_API mla_status mla_cache_reserve(mla_cache *cache, mla_sequence sequence, int64_t num_tokens);
MLA_API mla_status mla_cache_truncate(mla_cache *cache, mla_sequence sequence, int64_t num_tokens);
MLA_API mla_status mla_cache_length(mla_cache *cache, mla_sequence sequence, int64_t *length);

/* The ids of all sequences, in an order that snapshots keep, to sequences
   [capacity] and their number to *count, as mla_sequence_pages does. */
MLA_API mla_status mla_cache_sequences(mla_cache *cache, mla_sequence *sequences, int64_t capacity,
                                       int64_t *count);

/* As mla_sequence_pages, for one of the pools. Entries that have left the pool's
   window are 2147480000. */
MLA_API mla_status mla_cache_pages(mla_cache *cache, int64_t pool, mla_sequence sequence,
                                   int32_t *pages, int64_t capacity, int64_t *count);

/* New tokens of a batch (for programs without mla_step_plan). */
typedef struct mla_cache_append_batch {
  size_t struct_bytes;           /* sizeof(mla_cache_append_batch) */
  int64_t num_requests;          /* >= 0 */
  const mla_sequence *sequences; /* [num_requests], no sequence twice */
  const int64_t *positions;      /* [num_requests] where the new tokens start: the
                                    sequence's length, so that writers who disagree
                                    about it are found */
  const int32_t *counts;         /* [num_requests] new tokens, >= 0 */
} mla_cache_append_batch;

/* Takes pages for the batch's tokens and advances its sequences; all or nothing.
   slots: NULL, or [capacity] for the slots of the tokens in pool 0, request by
   request; capacity >= sum of counts.
   MLA_OUT_OF_PAGES: nothing changed. MLA_INVALID_ARGUMENT: stale, foreign or
   repeated sequence; a position behind the length (backwards, or overlapping
   another append) or beyond it (a gap); over max_seq_len. */
MLA_API mla_status mla_cache_append(mla_cache *cache, const mla_cache_append_batch *batch,
                                    int64_t *slots, int64_t capacity);

/* Slots in a pool of the tokens [position, position + count) of a sequence, which
   has them: page * page_rows + row. -1 where a token completes no row of the pool
   (tokens_per_row > 1), or where the row has left the window. */
MLA_API mla_status mla_cache_slots(mla_cache *cache, int64_t pool, mla_sequence sequence,
                                   int64_t position, int64_t count, int64_t *slots);

/* A new sequence with the first `num_tokens` tokens of `parent` (<= its length), in
   the same pages: no page is taken. Who first appends to the last, partly filled
   page gets a copy of it, of one page more. */
MLA_API mla_status mla_cache_fork(mla_cache *cache, mla_sequence parent, int64_t num_tokens,
                                  mla_sequence *child);

/* Declares what the rows hold: `tokens` [count] are the ids of the sequence's
   tokens [first, first + count), first = *published of the call before (0 at
   first). Full blocks become immutable and can be matched; if an equal prefix is
   published already, the sequence changes over to its pages. Blocks have the least
   common multiple of the pools' tokens per page. *published (may be NULL): tokens
   published now; the rest must be passed again once its block is full. A block
   that shares only some of its pages with another one stays unpublished.
   Call it when the step that writes the rows has been launched, and use matches on
   the same stream. */
MLA_API mla_status mla_cache_publish(mla_cache *cache, mla_sequence sequence, int64_t first,
                                     const int32_t *tokens, int64_t count, int64_t *published);

/* Gives an empty sequence the longest published prefix of `tokens` [count], whole
   blocks, less than count tokens: one is left to compute. *matched: tokens that the
   sequence now has. Tokens are compared, not only their hashes. */
MLA_API mla_status mla_cache_match(mla_cache *cache, mla_sequence sequence, const int32_t *tokens,
                                   int64_t count, int64_t *matched);

/* Evicts every block that no sequence uses. */
MLA_API mla_status mla_cache_drop_cached(mla_cache *cache);

/* Copies of whole pages that copy-on-write asks for. */
typedef struct mla_page_copy {
  int32_t pool, from, to;
} mla_page_copy;

/* Hands over the page copies that appends and reserves have caused, oldest first;
   the caller makes them, in all layers and in this order, before anything writes to
   the pages. MLA_INVALID_ARGUMENT if capacity < *count (nothing is handed over).
   An engine makes the copies of its cache itself, in mla_step_plan: refused. */
MLA_API mla_status mla_cache_take_copies(mla_cache *cache, mla_page_copy *copies, int64_t capacity,
                                         int64_t *count);

/* Moves the pages with the highest indices to unused ones at the front, at most
   max_moves of each pool, so that what is used lies together; sequences and published
   blocks keep what they hold. *moved (may be NULL): pages. An engine copies the bytes
   of its cache in all layers, asynchronously on `stream` (not to be captured): steps
   planned before must have been launched, later ones follow on the same stream. Of
   other caches the copies are to be taken (mla_cache_take_copies), `stream` is unused.
   MLA_INVALID_ARGUMENT: max_moves < 0. MLA_WRONG_STATE: earlier copies not taken. */
MLA_API mla_status mla_cache_compact(mla_cache *cache, int64_t max_moves, mla_stream *stream,
                                     int64_t *moved);

/* Changes mla_cache_pool.watermark_pages (an engine's cache starts with 0). */
MLA_API mla_status mla_cache_set_watermark(mla_cache *cache, int64_t pool, int64_t num_pages);

typedef struct mla_cache_counters {
  size_t struct_bytes; /* set by the caller: sizeof(mla_cache_counters) */
  /* Of the pool, now. unused_pages + cached_pages can be had. */
  int64_t num_pages, unused_pages, cached_pages;
  int64_t shared_pages;     /* with two references or more */
  int64_t least_free_pages; /* least unused + cached so far */
  /* Of the cache, now. */
  int64_t num_sequences, num_blocks;
  /* Of the cache, since it was made. */
  int64_t evicted_pages, evicted_blocks;
  int64_t copied_pages;  /* copy-on-write */
  int64_t merged_pages;  /* dropped by publish for equal ones */
  int64_t lookup_tokens; /* asked of mla_cache_match */
  int64_t hit_tokens;    /* found: the hit rate is hit_tokens / lookup_tokens */
  int64_t refusals;      /* MLA_OUT_OF_PAGES */
} mla_cache_counters;
MLA_API mla_status mla_cache_get_counters(mla_cache *cache, int64_t pool,
                                          mla_cache_counters *counters);

/* Writes the cache to a file, which is replaced or left as it was: sequences, block
   tables and published blocks, and for an engine's cache the bytes of the pages of
   all layers. Only a regular file is replaced; a link to one stays, its target is
   replaced. Waits for the engine's device. MLA_WRONG_STATE: copies not taken. */
MLA_API mla_status mla_cache_save(mla_cache *cache, const char *path);

/* Puts an empty cache into the state of a file. Sequences have new ids then:
   mla_cache_sequences lists them in the order that it had when the file was
   written. Counters stay. MLA_CORRUPT: truncated, damaged or inconsistent.
   MLA_INVALID_ARGUMENT: of a cache with other pools, another page size or format;
   names it. MLA_WRONG_STATE: the cache is not empty. */
MLA_API mla_status mla_cache_restore(mla_cache *cache, const char *path);

/* Recomputes everything that must hold of the cache; takes time proportional to its
   pages. MLA_INTERNAL: the message names what does not hold. */
MLA_API mla_status mla_cache_check(mla_cache *cache);

/* Pools, sequences and blocks as text, which lives until this thread's next dump. */
MLA_API mla_status mla_cache_dump(mla_cache *cache, const char **text);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_CACHE_H */
