/*===- mla_runtime/step.h - batches and their runs ----------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_STEP_H
#define MLA_RUNTIME_STEP_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The requests of one step. Token rows of `hidden` and `output` are the requests'
   new tokens one after another, in this order. */
typedef struct mla_batch {
  size_t struct_bytes;           /* sizeof(mla_batch) */
  int64_t num_requests;          /* 1 .. max_num_requests */
  const mla_sequence *sequences; /* [num_requests], no sequence twice */
  const int32_t *query_lens;     /* [num_requests] new tokens, 0 allowed; their
                                    sum is 0 .. max_num_tokens */
  int64_t common_prefix_len;     /* 0: attention over a prefix shared by all requests
                                    (cascade) is MLA_UNSUPPORTED. May be left out:
                                    struct_bytes then ends before it */
} mla_batch;

/* How a batch falls into decodes (short queries, in front) and prefills. */
typedef struct mla_batch_split {
  int64_t num_decodes;        /* requests [0, num_decodes) */
  int64_t num_prefills;       /* the others */
  int64_t num_decode_tokens;  /* rows [0, num_decode_tokens) are those of decodes */
  int64_t num_prefill_tokens; /* the others */
  int64_t num_swaps;          /* exchanges that made the order; 0: nothing moved */
} mla_batch_split;

/* Flags of mla_batch_arrange. */
#define MLA_REQUIRE_UNIFORM                                                                        \
  1u /* all decodes have the query length of the first request;                                    \
        empty requests may pad them if nothing else is there */

/* Splits a batch into decodes and prefills, and says in which order to pass its
   requests so that decodes come first (mla.md section 10). Host work only.
   query_lens [num_requests]: new tokens of each request, at least 0.
   decode_threshold: longest query of a decode: 1, or 1 + speculative tokens.
   order [num_requests], or NULL to split the batch as it stands: order[i] is the
   request that comes i-th. It exchanges as few requests as possible, pair by pair,
   and so is its own inverse: result i belongs to request order[i] and vice versa.
   All that belongs to a request (sequence, token rows, sampling state) moves with it. */
MLA_API mla_status mla_batch_arrange(const int32_t *query_lens, int64_t num_requests,
                                     int64_t decode_threshold, uint32_t flags, int64_t *order,
                                     mla_batch_split *split);

/* Makes a plan with buffers for the engine's maxima. Two plans let the host plan
   step n + 1 while step n runs. Destroying waits for the device. */
MLA_API mla_status mla_plan_create(mla_engine *engine, mla_plan **plan);
MLA_API mla_status mla_plan_destroy(mla_plan *plan);

/* Fills the plan for a batch, and advances its sequences by their query lengths:
   takes pages, computes sizes and metadata (query_start_loc, seq_lens,
   context_lens, block_table, slot_mapping, positions, chunk tables), resolves the
   function's launches, and uploads the metadata with one asynchronous copy on
   `stream`. Runs of this plan must be ordered after it (same stream). The block table
   stays on the device; entries that have changed since the plan's last step are sent
   beside the copy: keep a request at its place in the batch.
   function: a name ("prefill", "decode", "step"), or NULL: the function with the
   smallest max_query_len that takes the batch; among equals one that splits the batch
   into decodes and prefills if it has both.
   MLA_OUT_OF_PAGES: nothing changed. MLA_INVALID_ARGUMENT: stale, foreign or
   repeated sequence; seq_len over max_seq_len (rope table, block table); too many
   requests or tokens; query longer than the function takes; W smaller than one
   page per request with context. MLA_NOT_FOUND: lists the functions.
   To run the same tokens again, truncate the sequences and plan again. */
MLA_API mla_status mla_step_plan(mla_plan *plan, const mla_batch *batch, const char *function,
                                 mla_stream *stream);

/* Sizes that a step is padded to, so that its launches hold for every batch within
   them. Decodes take the first rows of hidden and output, [0, num_decode_tokens),
   prefills those behind; rows that the batch leaves free are padding. */
typedef struct mla_step_shape {
  size_t struct_bytes;       /* sizeof(mla_step_shape) */
  int64_t num_requests;      /* decodes and prefills */
  int64_t num_tokens;        /* rows of hidden and output */
  int64_t max_query_len;     /* of one request */
  int64_t max_seq_len;       /* of one request, after the step */
  int64_t num_decodes;       /* of the requests */
  int64_t num_decode_tokens; /* of the rows */
} mla_step_shape;

/* mla_step_plan for CUDA graphs, of functions that split the batch: the launches,
   their arguments and the addresses of the metadata depend on the shape alone. Capture
   mla_step_run once; then, for every step, plan again on this plan with the same
   function and shape (one asynchronous copy on `stream`) and replay on the same
   stream. Nothing reads device data on the host. Rows of padding are neither used nor
   written. function NULL: the first that splits the batch.
   MLA_INVALID_ARGUMENT, beside those of mla_step_plan: a size is out of range, or the
   batch does not fit into the shape. MLA_UNSUPPORTED: the function does not split. */
MLA_API mla_status mla_step_plan_padded(mla_plan *plan, const mla_batch *batch,
                                        const char *function, const mla_step_shape *shape,
                                        mla_stream *stream);

/* What a batch has of one pool behind the first. Tables and slots count in the pool's own
   pages and rows: of a pool with tokens_per_row r, a token has the slot of the row that it
   completes, or a negative one. With a window, entries of pages that no query of the
   request sees are not read. */
typedef struct mla_pool_table {
  const int32_t *block_table;  /* [num_requests, block_table_stride] */
  int64_t block_table_stride;  /* entries */
  const int64_t *slot_mapping; /* [num_tokens] */
} mla_pool_table;

/* Flags of mla_table_batch. */
#define MLA_TABLES_ON_DEVICE                                                                       \
  1u /* block tables and slots, of all pools, are on the device: read by the runs, never by the    \
        host; their addresses are multiples of 16 */

/* A batch whose pages are the caller's to manage: no sequence of the engine is involved.
   All arrays are host memory and read during the call only; with MLA_TABLES_ON_DEVICE the
   lengths alone are. */
typedef struct mla_table_batch {
  size_t struct_bytes;         /* sizeof(mla_table_batch) */
  int64_t num_requests;        /* 1 .. max_num_requests */
  const int32_t *query_lens;   /* [num_requests] new tokens, 0 allowed */
  const int32_t *seq_lens;     /* [num_requests] keys after the step, new tokens among them */
  const int32_t *block_table;  /* [num_requests, block_table_stride]; entries behind a
                                  request's keys are not read */
  int64_t block_table_stride;  /* entries; at least the pages of the longest request */
  const int64_t *slot_mapping; /* [num_tokens]: page * page_size + offset of each new token;
                                  negative: its row is not written */
  const mla_pool_table *pools; /* [num_pools]: of the pools behind the first, which the
                                  arrays above are of; host memory */
  int64_t num_pools;           /* the package's pools but one. Both may be left out:
                                  struct_bytes then ends before pools */
  uint32_t flags;              /* MLA_TABLES_ON_DEVICE; may be left out likewise */
} mla_table_batch;

/* mla_step_plan, or with a shape mla_step_plan_padded, for such a batch: the same
   functions, sizes, work and results as for sequences with these pages. New tokens stand
   at positions seq_len - query_len and up. What a step reads of the cache, it reads by the
   block table; rows of negative slots are what the caller's memory holds there.
   MLA_INVALID_ARGUMENT, beside theirs: a null array, a length below its query, over
   max_seq_len or over the table's columns, a page or a slot that the pool does not have;
   names request, value and limit. Two slots that are the same are not found. With
   MLA_TABLES_ON_DEVICE pages and slots are not checked, what the arrays hold may change until
   a run reads it, and a shape is MLA_UNSUPPORTED. */
MLA_API mla_status mla_step_plan_tables(mla_plan *plan, const mla_table_batch *batch,
                                        const char *function, const mla_step_shape *shape,
                                        mla_stream *stream);

/* A batch of decodes whose lengths, block table and slots are on the device only. What the
   arrays hold is read by the kernels of a run, never by the host, and may be changed
   between the runs and replays of one plan, as long as no request is longer than its
   bound; the addresses may not. Pages are the caller's to manage: no sequence of the
   engine is involved. */
typedef struct mla_device_batch {
  size_t struct_bytes;           /* sizeof(mla_device_batch) */
  int64_t num_requests;          /* also of the rows that pad a captured batch */
  const int32_t *query_lens;     /* host, [num_requests] */
  const int32_t *seq_len_bounds; /* host, [num_requests]: most keys after the step */
  const int32_t *seq_lens;       /* device, [num_requests]: keys after the step; 0: no request */
  const int32_t *block_table;    /* device, [num_requests, block_table_stride] */
  int64_t block_table_stride;    /* entries; at least the pages of the largest bound */
  const int64_t *slot_mapping;   /* device, [num_tokens]: page * page_size + offset; negative:
                                    not written */
  const int64_t *positions;      /* device, [num_tokens]: rows of the rotary table */
  const mla_pool_table *pools;   /* host, [num_pools], of arrays on the device: the pools
                                    behind the first */
  int64_t num_pools;             /* the package's pools but one. Both may be left out */
} mla_device_batch;

/* mla_step_plan for such a batch. Work is divided by the bounds; launches depend on
   num_requests and query_lens alone, so that a captured run serves any lengths. Rows of
   the output of requests without keys are unspecified. function: one that takes
   decodes alone, or NULL: the one with the smallest max_query_len; of a function that
   splits its batch, what it does with decodes.
   MLA_INVALID_ARGUMENT: a null or misaligned pointer, a bound below its query or over
   max_seq_len, a stride below a bound's pages, too many requests or tokens.
   MLA_UNSUPPORTED: the function needs lengths on the host (prefills). */
MLA_API mla_status mla_step_plan_device(mla_plan *plan, const mla_device_batch *batch,
                                        const char *function, mla_stream *stream);

/* A plan remembers what was captured from it: mla_step_plan refuses a step of the same
   function, requests and tokens whose launches differ from the captured ones
   (MLA_WRONG_STATE, naming the size that changed), because a graph of them would be
   wrong. Says that the caller's graphs are gone. */
MLA_API mla_status mla_plan_release_captures(mla_plan *plan);

/* What a run without a plan gives, for engines that measure memory before there is a
   cache: no attention; output [num_tokens, hidden_size] is set to zero. */
MLA_API mla_status mla_step_dry_run(mla_engine *engine, void *output, int64_t num_tokens,
                                    mla_stream *stream);

/* Runs the plan for one layer.
   hidden [num_tokens, hidden_size], output [num_tokens, hidden_size]: device data
   in the model's activation dtype, 16-byte aligned, not overlapping; both may be
   NULL if num_tokens is 0. CUDA: asynchronous on `stream`, neither allocates nor
   synchronises, can be captured in a graph. CPU: complete on return.
   MLA_WRONG_STATE: a sequence of the plan was freed or has given up one of the plan's
   pages since it was filled; of a graph's replay the runtime does not know. */
MLA_API mla_status mla_step_run(mla_plan *plan, int64_t layer, const void *hidden, void *output,
                                mla_stream *stream);

/* An input or output buffer of a function by name. */
typedef struct mla_binding {
  const char *name; /* "hidden", "output", "lse", ... */
  void *data;       /* device data, 16-byte aligned; inputs are only read */
  size_t bytes;     /* size of the buffer: checked against what the step touches */
} mla_binding;

/* mla_step_run with any set of named buffers. Every input and output of the
   function must be bound (MLA_INVALID_ARGUMENT names the first one missing) and
   every binding must be known to it. */
MLA_API mla_status mla_step_run_bound(mla_plan *plan, int64_t layer, const mla_binding *bindings,
                                      int64_t num_bindings, mla_stream *stream);

/* A run of mla_step_run that waits and measures: JSON text
     [{"label", "kernel", "grid": [x, y, z], "microseconds"}, ...]
   one entry per launch in order, that lives until the plan's next profile. */
MLA_API mla_status mla_step_profile(mla_plan *plan, int64_t layer, const void *hidden, void *output,
                                    mla_stream *stream, const char **json);

/* The filled plan's function name; lives until the next mla_step_plan. */
MLA_API mla_status mla_plan_function(mla_plan *plan, const char **name);

/* The value of a named size of the filled plan; 0 where the function has none of it. What
   each pool has of its own is the first pool's, or has the pool's name in front:
   "window/num_pages".
   MLA_NOT_FOUND: unknown name.
   The sizes (runtime/schema/StepSizes.def, written by scripts/step_sizes.py):
   of every function:
     num_pages: pages of the pool
     page_stride: elements from one page of the pool to the next
     rope_length: rows of the rotary table
     num_sms: multiprocessors, or CPU threads
   of every step:
     num_tokens: T: new tokens of all requests
     num_requests: B: requests
     max_query_len: new tokens of the longest query
     max_seq_len: keys of the longest request, new tokens among them
     max_context_len: cached tokens of the longest context
     total_context_len: Σ C: cached tokens of all requests
     attended_pairs: Σ A = Σ (Sq·C + Sq(Sq+1)/2): queries times keys that they see
     num_context_requests: requests with cached context
     max_blocks_per_request: columns of block_table: those of the engine's longest sequence and one
         more, whatever the step, or those of the caller's table
   of functions that split the batch (`tile.decode_threshold`), and those for its decodes alone:
     num_decodes: requests in front, whose queries have at most decode_threshold tokens
     num_prefills: the other requests
     num_decode_tokens: rows of the decodes
     num_prefill_tokens: rows of the prefills
     num_prefill_rows: all rows, or none without prefills
     max_decode_query_len: new tokens of the longest decode
     max_decode_seq_len: keys of the longest decode
     max_prefill_query_len: new tokens of the longest prefill
     prefill_context_len: cached tokens of all prefills
     prefill_attended_pairs: attended_pairs of all prefills
   of every step:
     is_padded: 1 if the step has the sizes of a shape, whatever its batch
   of functions that may attend apart to a shared prefix (`tile.shared_prefix`):
     num_common_tokens: cached tokens that all requests (of decodes) have in common; an upper bound
         where even that does not pay
     num_shared_tokens: of these, attended to apart
     num_shared_chunks: chunks of them
     shared_chunk_capacity: tokens that a chunk may have
     shared_chunk_tokens: tokens of the largest one
   of functions that use them:
     num_chunks: chunks of cached context; of the prefills, where the batch is split
     chunk_capacity: tokens of one request in one chunk (MCC)
     chunk_tokens: tokens of the largest chunk, over all requests
     chunk_request_tokens: most tokens that one request has in a chunk
   of functions that gather whole requests (`mla.gather` `whole`):
     num_gathers: chunks of whole requests; of the prefills, where the batch is split
     gather_rows: keys of the largest of these chunks, over all its requests
     gather_tokens: new tokens of the chunk that has the most
   of functions whose prompts may have kernels of their own (`tile.prompts`):
     num_prompts: requests of more new tokens than the plan names, where kernels of their own pay; 0
         where not, or where the step has the sizes of a shape or of bounds
     num_prompt_tokens: their new tokens
     num_prompt_keys: their keys, new tokens among them; 0 where these are more than the engine's
         workspace_tokens
     max_piece_query_len: new tokens of the longest query of the other requests, which are
         partitioned
     num_prompt_parts: runs of the prompts' keys, each with the rows that see them: one for a prompt
         that is not cut
   of functions that partition their attention (`tile.work`):
     num_parts: parts of the work, side by side
     num_partials: pieces of requests in several pieces
     partial_tokens: sum of the query lengths of these pieces
     num_merges: requests in several pieces
     num_merge_programs: programs that merge them
   of copies to and from memory of the host (`mla.copy_pages`):
     num_host_pages: pages of the memory that sequences are swapped out to
   End of the sizes.
*/
MLA_API mla_status mla_plan_dim(mla_plan *plan, const char *name, int64_t *value);

/* Host copy of a metadata array of the filled plan: its dtype (MLA_I32 or
   MLA_I64), number of elements and data, which live until the next mla_step_plan. No
   elements where the function has none.
   The arrays (runtime/schema/StepSizes.def, written by scripts/step_sizes.py):
   of every function:
     item_counters i32 [2 + 2 * num_sms]: zeros that kernels count in, and leave as zeros
   of every step:
     query_start_loc i32 [num_requests + 1]: first row of each request, and the end
     seq_lens i32 [num_requests]: keys, new tokens among them
     context_lens i32 [num_requests]: cached tokens
     block_table i32 [num_requests, max_blocks_per_request]: pages; entries at and after
         ceil(seq_len / page_size) are 2147480000
     slot_mapping i64 [num_tokens]: page * page_size + place of each new token, -1 for padding
     positions i64 [num_tokens]: position of each new token
     req_id_per_token i32 [num_tokens]: the request of each token, 0 for padding
   of functions that split the batch (`tile.decode_threshold`), and those for its decodes alone:
     output_rows i64 [num_tokens]: the row of each token, -1 for padding
     decode_query_start_loc i32 [num_decodes + 1]: first rows of decodes
     prefill_query_start_loc i32 [num_prefills + 1]: first rows of prefills, of the whole batch's
     prefill_block_table i32 [num_prefills, max_blocks_per_request]: rows of block_table
   of functions that may attend apart to a shared prefix (`tile.shared_prefix`):
     shared_query_start_loc i32 [2]: 0 and the rows of the requests that share; nothing if
         num_shared_tokens = 0
     shared_chunk_cu_seq_lens i32 [num_shared_chunks, 2]: 0 and the tokens of each chunk
   of functions that use them:
     chunk_cu_seq_lens i32 [num_chunks, num_requests + 1]: ends of the requests' tokens in each
         chunk; [num_chunks, num_prefills + 1] where the batch is split
   of functions that gather whole requests (`mla.gather` `whole`):
     gather_cu_seq_lens i32 [num_gathers, num_requests + 1]: ends of the requests' keys in each
         chunk, all of a request's or none; [num_gathers, num_prefills + 1] where the batch is split
     gather_starts i32 [num_requests]: first row of each request in its chunk; [num_prefills] where
         the batch is split
     gather_query_loc i32 [num_gathers + 1]: first new token of each chunk's requests, and the end
     gather_req_id_per_token i32 [num_tokens]: the gathered request of each token, counted from the
         first, -1 for tokens of decodes
   of functions whose prompts may have kernels of their own (`tile.prompts`):
     prompt_requests i32 [num_prompts]: which requests are the prompts
     prompt_key_loc i32 [num_prompts + 1]: first key of each prompt among those of all prompts, and
         the end
     prompt_parts i32 [num_prompt_parts, 8]: the runs (`tile.prompts`)
   of functions that partition their attention (`tile.work`):
     work_starts i32 [num_parts + 1]: first piece of each part
     work_items i32 [pieces, 8]: the pieces (`tile.work`)
     merge_items i32 [num_merges, 6]: what is merged
     merge_starts i32 [num_merge_programs, 4]: what each program merges
   End of the arrays.
*/
MLA_API mla_status mla_plan_metadata(mla_plan *plan, const char *name, mla_dtype *dtype,
                                     int64_t *elements, const void **data);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_STEP_H */
