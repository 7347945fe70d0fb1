/*===- mla_runtime.h - the C API of the mlac runtime --------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens a package, loads its kernels on a device, owns the paged latent cache
// and runs the package's functions over it. Needs neither LLVM nor a CUDA
// toolkit; libcuda.so.1 is opened when a CUDA device is asked for.
//
// Objects, in the order in which a program makes them:
//
//   mla_package   one verified file; immutable.
//   mla_device    the CPU (a pool of worker threads) or one CUDA device.
//   mla_engine    package + device + maxima: loaded kernels, weights, the paged
//                 cache of every layer, workspaces. All device memory is
//                 allocated when the engine is made.
//   mla_sequence  one request's tokens in the cache: a block table and a length.
//   mla_plan      one step of a batch: metadata, sizes, resolved launches. It is
//                 made once and filled again for every step.
//   mla_cache     who has which page: an engine's, or one of its own without any
//                 package or device. Forks, prefixes, counters, snapshots.
//
// One step of a model with L layers:
//
//   mla_step_plan(plan, &batch, NULL, stream);         // host work, one upload
//   for (layer = 0; layer < L; ++layer)
//     mla_step_run(plan, layer, hidden, output, stream);  // launches only
//
// Words: `page` is the physical unit of the cache and `page_size` its tokens;
// context_len + query_len = seq_len; slot = page * page_size + offset. Tensors
// are row-major. "Host" memory is ordinary memory; "device" memory is host
// memory on a CPU device and CUDA memory on a CUDA device.
//
// Errors: a fallible function returns a status. mla_last_error() then says what
// was wrong, naming value and limit. A refused call changes nothing: neither the
// engine nor, unless said otherwise, what the out parameters point at.
//
// Handles are checked: a null, closed or foreign handle is MLA_INVALID_ARGUMENT
// and never a crash. An object keeps what it was made from alive, so a package
// may be closed as soon as its engine exists.
//
// Threads: every function may be called from any thread. Calls on one engine
// (its sequences and plans included) are serialised by a lock inside; steps that
// must overlap on one GPU use streams, not threads. mla_last_error() is per thread.
// Calls on one mla_cache that only read run side by side, others one at a time,
// and an engine's cache can be read while the engine runs a step. docs/runtime.md
// has the locks and their order.
//
// Memory: where the process runs out of it, any function returns
// MLA_OUT_OF_MEMORY; no exception leaves the library.
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_H
#define MLA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MLA_API __attribute__((visibility("default")))
#else
#define MLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*===--- Status ---------------------------------------------------------===*/

typedef enum mla_status {
  MLA_OK = 0,
  /* The caller passed something wrong (null, stale, misaligned, out of range):
     the caller fixes the call. */
  MLA_INVALID_ARGUMENT = 1,
  /* Not an error: the page pool cannot hold the new tokens now. Frequent and
     cheap (no message is formatted). Free or truncate sequences, then retry. */
  MLA_OUT_OF_PAGES = 2,
  /* A file, function, tensor or target that was named does not exist: the caller
     (or who deployed the files). */
  MLA_NOT_FOUND = 3,
  /* A package or safetensors file is truncated, damaged or inconsistent: who made
     or copied the file. */
  MLA_CORRUPT = 4,
  /* Well-formed, but not for this machine or this version (another architecture,
     missing CPU features, newer schema): compile for this target or upgrade. */
  MLA_UNSUPPORTED = 5,
  /* No GPU, no driver, or a driver that is too old: the operator of the machine. */
  MLA_NO_DEVICE = 6,
  /* The device reported a failure during a call; after a CUDA fault the context
     is lost: the operator, or us if it repeats on another machine. */
  MLA_DEVICE_ERROR = 7,
  /* Host or device memory is exhausted: smaller maxima or a larger machine. */
  MLA_OUT_OF_MEMORY = 8,
  /* The call is right but comes at the wrong time (weights not bound, engine not
     prepared, plan not filled): the caller reorders its calls. */
  MLA_WRONG_STATE = 9,
  /* A bug of the runtime: report it to us. */
  MLA_INTERNAL = 10
} mla_status;

/* The name of a code ("MLA_OUT_OF_PAGES"); static storage, never null. */
MLA_API const char *mla_status_name(mla_status status);

/* The message of this thread's last failed call ("" before the first). Valid
   until the thread's next failing call. */
MLA_API const char *mla_last_error(void);

/* "major.minor.patch" of the library; static storage. */
MLA_API const char *mla_runtime_version(void);

typedef enum mla_dtype {
  MLA_BF16 = 0,
  MLA_F16 = 1,
  MLA_F32 = 2,
  MLA_E4M3 = 3,
  MLA_I32 = 4,
  MLA_I64 = 5,
  MLA_U8 = 6
} mla_dtype;

/* Opaque. The values are checked ids, not addresses: never dereference them. */
typedef struct mla_package mla_package;
typedef struct mla_device mla_device;
typedef struct mla_engine mla_engine;
typedef struct mla_plan mla_plan;
typedef struct mla_cache mla_cache;
typedef struct mla_table mla_table;
typedef struct mla_stream mla_stream;
typedef struct mla_event mla_event;

/* A sequence of one engine. 0 is never a sequence. Ids of freed sequences and of
   other engines are refused. */
typedef uint64_t mla_sequence;

/* Alignment in bytes of every pointer to device data that a caller passes. */
#define MLA_DATA_ALIGNMENT 16

/*===--- Package --------------------------------------------------------===*/

/* Opens and verifies a package file: the FlatBuffer's structure, and every
   index, expression, name and size in it.
   MLA_NOT_FOUND: cannot be read. MLA_CORRUPT: names the first thing that is
   wrong. MLA_UNSUPPORTED: another schema version.
   Code for the CPU runs in this process: open only packages that you trust as
   much as a shared library. */
MLA_API mla_status mla_package_open(const char *path, mla_package **package);

/* The same from memory; `data` [bytes] is copied. */
MLA_API mla_status mla_package_open_bytes(const void *data, size_t bytes, mla_package **package);

/* Closes the handle. Engines made from the package stay usable. */
MLA_API mla_status mla_package_close(mla_package *package);

/* What the package holds, as JSON text:
     { "schema_version", "compiler", "options", "bytes",
       "model": {"model_type", "hidden_size", "num_heads", "tensor_parallel",
                 "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                 "qk_rope_head_dim", "v_head_dim", "softmax_scale",
                 "activation_dtype", "config"},
       "cache": {"layout", "dtype", "page_size", "kv_lora_rank",
                 "qk_rope_head_dim", "rope_order", "row_bytes"},
       "rope": {"length", "short_length", "multiplier", "has_long"},
       "weights": [{"name", "dtype", "shape"}], "derived": [...],
       "targets": [{"kind", "arch", "features", "assembler", "code_bytes",
                    "kernels": [{"name", "symbol", "threads", "shared_bytes",
                                 "registers", "scratch_bytes"}],
                    "functions": [{"name", "dims", "max_query_len",
                                   "decode_threshold", "launches", "buffers"}]}] }
   The text belongs to the package and lives until it is closed. */
MLA_API mla_status mla_package_info(mla_package *package, const char **json);

/*===--- Devices --------------------------------------------------------===*/

/* Opens "cpu", "cuda" (ordinal 0) or "cuda:N".
   threads: CPU only, workers of the pool (the calling thread waits); 0 means one
   per logical processor this process may use. 0 for CUDA.
   MLA_NO_DEVICE says whether the driver library, the driver or the device is
   missing. The CUDA device's primary context is used, as by the CUDA runtime
   and by PyTorch. */
MLA_API mla_status mla_device_open(const char *name, int32_t threads, mla_device **device);
MLA_API mla_status mla_device_close(mla_device *device);

/* { "kind": "cpu"|"cuda", "name", "arch" ("x86-64-v4", "sm_90"), "num_sms"
     (multiprocessors, or CPU threads), "memory_bytes", "driver_version",
     "clock_khz", "memory_clock_khz", "memory_bus_bits" (CUDA) } as JSON text that
   lives until the device is closed. */
MLA_API mla_status mla_device_info(mla_device *device, const char **json);

/* 1 if the device is a CUDA device, 0 if it is the CPU, -1 if it is no device. */
MLA_API int mla_device_is_cuda(mla_device *device);

/* Device memory of `bytes` (> 0), aligned to 256 bytes; content undefined.
   Freed by mla_device_free only; a null pointer may be freed. */
MLA_API mla_status mla_device_malloc(mla_device *device, size_t bytes, void **data);
MLA_API mla_status mla_device_free(mla_device *device, void *data);

/* Synchronous copies between host and device; they wait for the whole device
   first, so they are ordered after every stream's earlier work. */
MLA_API mla_status mla_device_upload(mla_device *device, void *device_data, const void *host_data,
                                     size_t bytes);
MLA_API mla_status mla_device_download(mla_device *device, void *host_data, const void *device_data,
                                       size_t bytes);

/* Stream-ordered copy and fill inside device memory (bench: bandwidth). */
MLA_API mla_status mla_device_copy_async(mla_device *device, void *to, const void *from,
                                         size_t bytes, mla_stream *stream);
MLA_API mla_status mla_device_fill_async(mla_device *device, void *data, uint8_t value,
                                         size_t bytes, mla_stream *stream);

/* Waits for all work on the device. */
MLA_API mla_status mla_device_synchronize(mla_device *device);

/* Streams. On CUDA an `mla_stream *` IS a CUstream/cudaStream_t (this one type
   is not a checked id), so a caller passes its own streams; NULL is the default
   stream. On the CPU every call is complete when it returns and the stream must
   be NULL; mla_stream_create returns NULL there. */
MLA_API mla_status mla_stream_create(mla_device *device, mla_stream **stream);
MLA_API mla_status mla_stream_destroy(mla_device *device, mla_stream *stream);
MLA_API mla_status mla_stream_synchronize(mla_device *device, mla_stream *stream);

/* Events measure time on a stream (wall-clock time on the CPU).
   elapsed: milliseconds between two recorded events; waits for both.
   MLA_WRONG_STATE: an event has not been recorded. */
MLA_API mla_status mla_event_create(mla_device *device, mla_event **event);
MLA_API mla_status mla_event_destroy(mla_event *event);
MLA_API mla_status mla_event_record(mla_event *event, mla_stream *stream);
MLA_API mla_status mla_event_elapsed(mla_event *begin, mla_event *end, double *milliseconds);

/*===--- Engine ---------------------------------------------------------===*/

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
  int64_t num_pages;            /* pages of every layer's pool; default: enough for
                                   max_num_requests sequences of max_seq_len */
  int64_t num_layers;           /* layers with this package's shapes, each with its
                                   own weights and pool, sharing the block tables;
                                   default 1 */
  int64_t workspace_tokens;     /* W, tokens of gathered context at a time (mla.md
                                   section 9); 0: max(min(max(8 * max_seq_len,
                                   4 * max_num_requests * page_size), 65536),
                                   max_num_requests * page_size), and never more
                                   than max_num_requests * max_seq_len.
                                   MLA_NO_WORKSPACE: none; functions that need it
                                   then refuse batches with cached context */
  int64_t num_sms;              /* what plans take for the number of processors when
                                   they choose splits; 0: the device's */
  int64_t page_padding_tokens;  /* unused rows between pages of the pool; 0 */
  int64_t tensor_parallel_rank; /* which share of an unsharded checkpoint's heads
                                to bind: < model.tensor_parallel; 0 */
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
   until the next mla_engine_info on this engine or its destruction. */
MLA_API mla_status mla_engine_info(mla_engine *engine, const char **json);

/*===--- Weights --------------------------------------------------------===*/

/* Binds one tensor of one layer by copying it.
   name: a name of the package's weight list ("kv_b_proj.weight").
   shape [rank], dtype, data: host memory, row-major, dense, aligned to its
   element size. Any of bf16, f16 and f32 is accepted where the widening to the
   package's dtype is exact; otherwise the dtype must be equal.
   MLA_NOT_FOUND: unknown name; lists the known ones. MLA_INVALID_ARGUMENT: shape
   or dtype, with expected and got. Binding again replaces the tensor and makes
   the layer unprepared. */
MLA_API mla_status mla_engine_bind_weight(mla_engine *engine, int64_t layer, const char *name,
                                          mla_dtype dtype, const int64_t *shape, int32_t rank,
                                          const void *data);

/* Flags of mla_engine_bind_safetensors. */
#define MLA_ALLOW_EXTRA_TENSORS 1u /* ignore tensors that the package lacks */

/* Binds every weight of one layer from a safetensors file: tensor PREFIX + name
   for each name of the package's list. prefix NULL means "". Tensors under the
   prefix that the package does not know are errors unless allowed by the flag
   (with an empty prefix every tensor of the file is under it).
   With model.tensor_parallel > 1, a tensor one of whose dimensions is that many
   times the expected one is cut along it for options.tensor_parallel_rank.
   All or nothing: nothing is bound if any tensor is missing, extra or wrong.
   MLA_CORRUPT: header or data truncated, offsets out of range or overlapping. */
MLA_API mla_status mla_engine_bind_safetensors(mla_engine *engine, int64_t layer, const char *path,
                                               const char *prefix, uint32_t flags);

/* Runs the package's "prepare" function for one layer (weight-only products) and
   waits for it. Needs every weight of the layer (MLA_WRONG_STATE lists the missing
   ones). Required before the layer's first step, also for packages without such a
   function; calling it again recomputes. */
MLA_API mla_status mla_engine_prepare(mla_engine *engine, int64_t layer);

/* Sets the scale of one layer's cache rows, for formats that have one per layer
   (mla_fp8_tensor): rows are stored as e4m3(x / scale) and read as code * scale. 1 until
   it is set. Set it before the layer's first step: rows already in the cache are not
   converted. Waits for the device.
   MLA_INVALID_ARGUMENT: the package's format has no such scale, or scale is not a
   positive finite number. */
MLA_API mla_status mla_engine_set_cache_scale(mla_engine *engine, int64_t layer, float scale);

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

/*===--- Sequences and the cache ----------------------------------------===*/

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
  int64_t num_pages; /* of one layer's pool */
  int64_t free_pages; /* can be had: unused, or cached for a prefix that nobody uses */
  int64_t num_sequences;
  int64_t page_size;         /* tokens */
  int64_t row_bytes;         /* one token's latent row */
  int64_t page_stride_bytes; /* page_size * row_bytes + padding */
  mla_dtype dtype;
} mla_cache_stats;
MLA_API mla_status mla_cache_get_stats(mla_engine *engine, mla_cache_stats *stats);

/* Device address of one layer's pool: page p, offset o is at
   data + p * page_stride_bytes + o * row_bytes. Lives as long as the engine. */
MLA_API mla_status mla_cache_data(mla_engine *engine, int64_t layer, void **data);

/* For tests and debugging; they wait for the device.
   poison: writes NaN to every row of the layer's pool that holds no token (free
   pages, unused tails, padding). read / write: `count` rows of row_bytes from
   slot `slot` on, consecutive slots, to or from host memory. */
MLA_API mla_status mla_cache_poison(mla_engine *engine, int64_t layer);
MLA_API mla_status mla_cache_read(mla_engine *engine, int64_t layer, int64_t slot, int64_t count,
                                  void *rows);
MLA_API mla_status mla_cache_write(mla_engine *engine, int64_t layer, int64_t slot, int64_t count,
                                   const void *rows);

/* Fills the engine's workspace with NaN (tests: nothing may be read before it is
   written). Waits for the device. */
MLA_API mla_status mla_engine_poison_workspace(mla_engine *engine);

/*===--- Cache formats --------------------------------------------------===*/

/* Every format of the cache, as JSON text in static storage:
     [{"name", "accepts": [dtypes of rows], "scale_group" (elements that share a
       scale, 0: none in the cache), "has_layer_scale", "rule": "raw"|"power_of_two",
       "amax_floor", "scale_floor", "page_multiple" (bytes),
       "fields": [{"part": "latent"|"rope"|"scale"|"padding", "type", "section",
                   "count" (0: the model's width)}]}]
   A page is one or two sections; in each the page's tokens follow one another with
   the fields of that section (paged-cache.md section 2). */
MLA_API mla_status mla_cache_formats(const char **json);

/* How scales are rounded; the default is the format's. */
typedef enum mla_scale_rule {
  MLA_SCALE_DEFAULT = 0,
  MLA_SCALE_RAW = 1,         /* max(amax / 448, floor) */
  MLA_SCALE_POWER_OF_TWO = 2 /* rounded up to a power of two */
} mla_scale_rule;

/* A pool of pages in one format. Fill with mla_cache_layout_init. */
typedef struct mla_cache_layout {
  size_t struct_bytes;       /* sizeof(mla_cache_layout) */
  const char *format;        /* a name of mla_cache_formats */
  mla_dtype dtype;           /* of rows outside of the cache; MLA_BF16 */
  int64_t kv_lora_rank;      /* elements of the latent part of a row; 512 */
  int64_t qk_rope_head_dim;  /* elements of the rope part behind it; 64 */
  int64_t page_size;         /* tokens; 64 */
  int64_t page_stride_bytes; /* from page to page; 0: as small as possible */
  int64_t num_pages;
  float layer_scale;         /* of formats with one scale per layer; 1 */
  mla_scale_rule scale_rule; /* encoding, as are the floors: */
  float amax_floor;          /* amax is at least this; < 0: the format's */
  float scale_floor;         /* the scale is at least this; < 0: the format's */
} mla_cache_layout;

/* Sets the defaults above for `format` (kept, not copied) and its only widths where it
   has such; num_pages 0. An unknown name is refused by the functions below. */
MLA_API void mla_cache_layout_init(mla_cache_layout *layout, const char *format);

/* Byte, from the start of the pool, of a field of the token in `slot`; field is
   "latent", "rope" or "scale". 64-bit: pools may exceed 4 GiB. */
MLA_API mla_status mla_cache_layout_offset(const mla_cache_layout *layout, const char *field,
                                           int64_t slot, int64_t *offset);

/* Converts rows between host memory and a pool in host memory of
   num_pages * page_stride_bytes bytes.
   rows [count, kv_lora_rank + qk_rope_head_dim] of dtype; slots [count], NULL: 0, 1, ...
   A negative slot is skipped: its row is neither read nor written.
   Codes are x / scale rounded to nearest even and limited to +-448; NaN stays NaN and
   does not count for amax. decode rounds code * scale to dtype. Bytes of the pool that
   belong to no given row are left alone.
   MLA_UNSUPPORTED: unknown format. MLA_INVALID_ARGUMENT: a width, type, stride, scale or
   slot that the format or the pool does not have, with value and limit. */
MLA_API mla_status mla_cache_encode(const mla_cache_layout *layout, const void *rows, int64_t count,
                                    const int64_t *slots, void *pool, size_t pool_bytes);
MLA_API mla_status mla_cache_decode(const mla_cache_layout *layout, const void *pool,
                                    size_t pool_bytes, int64_t count, const int64_t *slots,
                                    void *rows);
/*===--- Sharing pages --------------------------------------------------===*/

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

/* Changes mla_cache_pool.watermark_pages (an engine's cache starts with 0). */
MLA_API mla_status mla_cache_set_watermark(mla_cache *cache, int64_t pool, int64_t num_pages);

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
   all layers. Waits for the engine's device. MLA_WRONG_STATE: copies not taken. */
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

/*===--- Steps ----------------------------------------------------------===*/

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
   `stream`. Runs of this plan must be ordered after it (same stream).
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

/* What a run without a plan gives, for engines that measure memory before there is a
   cache: no attention; output [num_tokens, hidden_size] is set to zero. */
MLA_API mla_status mla_step_dry_run(mla_engine *engine, void *output, int64_t num_tokens,
                                    mla_stream *stream);

/* Runs the plan for one layer.
   hidden [num_tokens, hidden_size], output [num_tokens, hidden_size]: device data
   in the model's activation dtype, 16-byte aligned, not overlapping; both may be
   NULL if num_tokens is 0. CUDA: asynchronous on `stream`, neither allocates nor
   synchronises, can be captured in a graph. CPU: complete on return. */
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

/* The value of a named size of the filled plan: num_tokens, num_requests,
   max_query_len, max_seq_len, max_context_len, total_context_len,
   attended_pairs, num_context_requests, max_blocks_per_request, num_pages,
   page_stride (elements), num_chunks, chunk_capacity, chunk_tokens, rope_length,
   num_sms, is_padded (0 or 1); of functions that partition their attention num_parts, num_partials,
   partial_tokens, num_merges, max_partials, else 0; of functions that split the batch
   num_decodes, num_prefills, num_decode_tokens, num_prefill_tokens, num_prefill_rows
   (all tokens, or none without prefills), max_decode_query_len, max_decode_seq_len, max_prefill_query_len, else 0.
   MLA_NOT_FOUND: unknown name. */
MLA_API mla_status mla_plan_dim(mla_plan *plan, const char *name, int64_t *value);

/* Host copy of a metadata array of the filled plan: its dtype (MLA_I32 or
   MLA_I64), number of elements and data, which live until the next mla_step_plan.
     query_start_loc   i32 [num_requests + 1]
     seq_lens          i32 [num_requests]
     context_lens      i32 [num_requests]
     block_table       i32 [num_requests, max_blocks_per_request]; entries at and
                       after ceil(seq_len / page_size) are 2147480000
     slot_mapping      i64 [num_tokens]
     positions         i64 [num_tokens]
     chunk_cu_seq_lens i32 [num_chunks, num_requests + 1]; [num_chunks,
                       num_prefills + 1] of functions that split the batch
     req_id_per_token  i32 [num_tokens]: the request of each token, 0 for padding
   of functions that split the batch also (else no elements)
     output_rows             i64 [num_tokens]: the row of each token, -1 for padding
     decode_query_start_loc  i32 [num_decodes + 1]
     prefill_query_start_loc i32 [num_prefills + 1]: rows of the whole batch
     prefill_block_table     i32 [num_prefills, max_blocks_per_request] */
MLA_API mla_status mla_plan_metadata(mla_plan *plan, const char *name, mla_dtype *dtype,
                                     int64_t *elements, const void **data);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_H */
