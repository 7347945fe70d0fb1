/*===- mla_runtime/swap.h - sequences in host memory --------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_SWAP_H
#define MLA_RUNTIME_SWAP_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes room in pinned host memory for num_pages pages of the engine's first pool and, of
   every other pool, for as many as the same tokens take, in all layers; keeps the engine
   alive. MLA_OUT_OF_MEMORY: names the bytes. */
MLA_API mla_status mla_swap_create(mla_engine *engine, int64_t num_pages, mla_swap **swap);

/* Drops all that is in it; waits for the device. */
MLA_API mla_status mla_swap_destroy(mla_swap *swap);

/* Copies the sequence's pages, in all pools and layers, to host memory and gives them back; the
   sequence is empty then. *ticket, never 0, stands for its tokens. Asynchronous on
   `stream`, not to be captured: steps of the sequence must have been launched on it
   before, and what uses the pages next follows on it.
   MLA_OUT_OF_PAGES: the swap space cannot hold one of its pools now; nothing has changed. */
MLA_API mla_status mla_swap_out(mla_swap *swap, mla_sequence sequence, mla_stream *stream,
                                uint64_t *ticket);

/* Gives an empty sequence the tokens of a ticket, which is used up: new pages with the
   same bytes, shared with nobody. Asynchronous like mla_swap_out.
   MLA_OUT_OF_PAGES: a pool cannot hold them now, for a moment also what has left its window;
   nothing has changed.
   MLA_INVALID_ARGUMENT: no such ticket, or the sequence has tokens. */
MLA_API mla_status mla_swap_in(mla_swap *swap, uint64_t ticket, mla_sequence sequence,
                               mla_stream *stream);

/* Forgets a ticket and gives its host pages back. */
MLA_API mla_status mla_swap_drop(mla_swap *swap, uint64_t ticket);

/* Tokens of a ticket. */
MLA_API mla_status mla_swap_length(mla_swap *swap, uint64_t ticket, int64_t *num_tokens);

typedef struct mla_swap_stats {
  int64_t num_pages, free_pages; /* of the first pool; free: with room for their tokens in all */
  int64_t num_tickets;
} mla_swap_stats;
MLA_API mla_status mla_swap_get_stats(mla_swap *swap, mla_swap_stats *stats);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_SWAP_H */
