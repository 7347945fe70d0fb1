/*===- mla_runtime/engine.h - a package on a device ---------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_ENGINE_H
#define MLA_RUNTIME_ENGINE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* workspace_tokens of an engine that runs no chunks of cached context. */
#define MLA_NO_WORKSPACE (-1)

/* Fill with mla_engine_options_init, then change what matters. */
typedef struct mla_engine_options {
  size_t struct_bytes;          /* sizeof(mla_engine_options): versions the struct */
  int64_t max_num_requests;     /* requests of one step; default 8 */
  int64_t max_num_tokens;       /* new tokens of one step; default 2048 */
  int64_t max_seq_len;          /* tokens of one sequence; default and upper limit:
                                   the package's rope length. Bounds the block table:
                                   ceil(max_seq_len / page_size) pages a sequence */
  int64_t num_pages;            /* pages of every layer's first pool; default: enough for
                                   max_num_requests sequences of max_seq_len. Other
                                   pools hold as many tokens, or what max_num_requests
                                   windows see of them */
  int64_t num_layers;           /* layers with this package's shapes, each with its
                                   own weights and pool, sharing the block tables;
                                   default 1 */
  int64_t workspace_tokens;     /* W, tokens of gathered context at a time (mla.md
                                   section 9); 0: max(min(max(8 * max_seq_len,
                                   4 * max_num_requests * page_size), 65536),
                                   max_num_requests * page_size), and never more
                                   than max_num_requests * max_seq_len. Of packages that
                                   gather whole requests (sparse layers, separate mode):
                                   5 * max_seq_len, and each request must fit. Of those
                                   that copy the keys of prompts (codes, heads that are
                                   no whole 64 columns, pages of fewer than 16 rows):
                                   65536; a step with more reads each where it lies, up
                                   to 4 times slower.
                                   MLA_NO_WORKSPACE: none; functions that need it
                                   then refuse batches with cached context */
  int64_t num_sms;              /* what plans take for the number of processors when
                                   they choose splits; 0: the device's */
  int64_t page_padding_tokens;  /* unused rows between pages of the pools; 0 */
  int64_t tensor_parallel_rank; /* which share of an unsharded checkpoint's heads
                                to bind: < model.tensor_parallel; 0 */
  int64_t external_pools;       /* bit i: memory of the caller's is pool i of the package
                                   (mla_engine_bind_pool), none is allocated; bit 0: and
                                   num_pages is the caller's pools', and 0 here. With any
                                   bit page_padding_tokens is 0. 0: pools of the engine's.
                                   May be left out: struct_bytes then ends before it */
  int64_t workspace_cap;        /* in the place of 65536 in workspace_tokens' default; then what
                                   the default would be is not raised to a page a request,
                                   but refused below that, as the reference does with
                                   131072. 0: 65536, raised. May be left out, too */
} mla_engine_options;

/* Sets the defaults above (0 where the default depends on the package). */
MLA_API void mla_engine_options_init(mla_engine_options *options);

/* Makes an engine: picks the package's target for the device, loads its code,
   and allocates pools, workspaces, weights and tables at the maxima.
   options may be NULL (all defaults).
   MLA_UNSUPPORTED: no target for this device; the message lists the package's
   targets and the device's architecture or the missing CPU features.
   MLA_INVALID_ARGUMENT: an option is out of range; names value and limit.
   MLA_OUT_OF_MEMORY: names what was being allocated and its bytes. */
MLA_API mla_status mla_engine_create(mla_package *package, mla_device *device,
                                     const mla_engine_options *options, mla_engine **engine);

/* Destroys the engine; its sequences and plans become stale. Waits for the
   device first. */
MLA_API mla_status mla_engine_destroy(mla_engine *engine);

/* { "target", "options": {every resolved option}, "workspace_bytes",
     "cache_bytes", "weight_bytes", "functions": [names] } as JSON text that lives
   until this thread's next mla_engine_info. */
MLA_API mla_status mla_engine_info(mla_engine *engine, const char **json);

/*===--- Pools of the caller's -------------------------------------------===*/

/* One layer's pages of a pool in memory of the caller's. Page p begins at data + p *
   page_stride_bytes and holds page_size rows in the pool's format, dense; bytes behind
   them are neither read nor written. */
typedef struct mla_external_pool {
  size_t struct_bytes;       /* sizeof(mla_external_pool) */
  void *data;                /* device memory, aligned to MLA_DATA_ALIGNMENT */
  int64_t num_pages;         /* 1 .. 2147479999 */
  int64_t page_stride_bytes; /* a multiple of MLA_DATA_ALIGNMENT, at least page_size *
                                row_bytes; 0: as many */
  void *rope;                /* split_ckv_kpe as two tensors: rope keys of page 0. Kernels
                                read them page_size * (latent bytes) behind the latents of
                                their page, so anywhere else is refused; NULL: there */
} mla_external_pool;

/* Makes the caller's memory pool `pool` of one layer, by its place in the package, or with
   NULL takes it away, for runs from now on. Steps are planned once for all layers: their pools are
   alike in num_pages and stride, and a plan is filled again after these have changed. Nothing is
   copied or kept: the memory must live until the engine has another or is destroyed and what was
   launched on it has ended. It may be that of several engines. Written are rows of slots
   >= 0 of steps that run, and by mla_cache_write; nothing else.
   Steps are planned by mla_step_plan_tables and mla_step_plan_device. Who owns the memory
   owns what it holds: sequences, prefixes, forks, snapshots, block tables, moves, swaps
   and poisoning of such an engine are MLA_UNSUPPORTED.
   MLA_UNSUPPORTED: a pool of the engine's own; rope keys elsewhere.
   MLA_INVALID_ARGUMENT: no such pool, null or misaligned memory, a number of pages or a stride that
   the format does not have or that differs from another layer's; names value and limit. */
MLA_API mla_status mla_engine_bind_pool(mla_engine *engine, int64_t layer, int64_t pool,
                                        const mla_external_pool *memory);

/*===--- Scales -----------------------------------------------------------===*/

/* Sets the scale of the rows of one layer's pool, for formats that have one per layer
   (mla_fp8_tensor): rows are stored as e4m3(x / scale) and read as code * scale. 1 until
   it is set. Set it before the layer's first step: rows already in the cache are not
   converted. Waits for the device. Of formats whose fields have scales of their own
   (kv_nhd_fp8) all get this one.
   MLA_INVALID_ARGUMENT: the package's format has no such scale, or scale is not a
   positive finite number. */
MLA_API mla_status mla_engine_set_cache_scale(mla_engine *engine, int64_t layer, int64_t pool,
                                              float scale);

/* The same with a scale for each field of the row, in its order: of kv_nhd_fp8 keys, then values
   (k_scale and v_scale of engines).
   MLA_INVALID_ARGUMENT: as above, or `count` is not the format's number of scales ("layer_scales"
   of mla_cache_formats). Nothing is changed then. */
MLA_API mla_status mla_engine_set_cache_scales(mla_engine *engine, int64_t layer, int64_t pool,
                                               const float *scales, int64_t count);

/*===--- Tensor parallelism ---------------------------------------------===*/

/* Sums `data` [elements] of `dtype` over the ranks of a tensor-parallel layer, in
   place: the output of one step, of which each rank has an addend. CUDA: enqueues on
   `stream` and returns (ncclAllReduce does); CPU: complete on return. Called by runs,
   under the engine's lock: it must not call this engine. Anything but MLA_OK makes
   the run fail with that code. */
typedef mla_status (*mla_all_reduce)(void *user, void *data, int64_t elements, mla_dtype dtype,
                                     mla_stream *stream);

/* Calls `function` with `user` at the end of every run on its "output", behind the
   output projection. NULL: no more calls (the default): the caller reduces. A model's
   o_proj.bias is to be added once, after the reduction.
   MLA_INVALID_ARGUMENT: the package is of one rank. */
MLA_API mla_status mla_engine_set_all_reduce(mla_engine *engine, mla_all_reduce function,
                                             void *user);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_ENGINE_H */
