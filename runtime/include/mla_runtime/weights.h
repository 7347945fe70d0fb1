/*===- mla_runtime/weights.h - weights of an engine, checkpoints --*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights come one by one, as a list, from a safetensors file, or from a checkpoint: a folder
// as Hugging Face publishes models. Binding copies; then a layer is prepared.
//
// A weight may be codes of eight bits (e4m3) with scales, where the package was compiled from a
// configuration that says how they are scaled ("weight_scales" of mla_package_info): then it
// is dequantised when it is bound, code * scale in f32 rounded once to the package's type, and
// kernels see nothing of it. Weights in the package's type are taken as well, since
// checkpoints leave some so. Names, of a weight "q_b_proj.weight":
//
//   q_b_proj.weight, .qweight or .weight_packed           the matrix [out, in]
//   q_b_proj.weight_scale_inv or .weight_scale            of codes: f32, bf16 or f16
//     by block [128, 128]   [ceil(out / 128), ceil(in / 128)]
//     by channel            [out, 1] or [out]
//     by tensor             one number, in any shape
//   or, where the configuration says NVFP4, two e2m1 numbers in each byte of [out, in / 2] (u8), with
//   q_b_proj.weight_scale   [out, in / 16] of e4m3, and
//   q_b_proj.weight_scale_2 one f32 that these are multiplied by
//   q_b_proj.input_scale                                  ignored: activations stay as they are
//
// A package compiled with --keep-codes lists matrices of e4m3, and with each its scales of f32
under
// the name q_b_proj.weight_scale_inv: codes and scales are bound as they are, and nothing else is
// taken for them.
//
// With model.tensor_parallel > 1, a tensor one of whose dimensions is that many times the
// expected one is cut along it for options.tensor_parallel_rank, wherever the share begins
// in a block of scales. Codes that were cut before count their blocks from the share's start,
// so a share that begins inside of a block must be given whole.
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_WEIGHTS_H
#define MLA_RUNTIME_WEIGHTS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*===--- Binding --------------------------------------------------------===*/

/* Binds one tensor of one layer by copying it.
   name: a name of the package's weight list ("kv_b_proj.weight").
   shape [rank], dtype, data: host memory, row-major, dense, aligned to its
   element size. Any of bf16, f16 and f32 is accepted where the widening to the
   package's dtype is exact, and bf16 where that is f16 and no number is beyond 65504 (below
   2^-14 it is rounded); otherwise the dtype must be equal.
   MLA_NOT_FOUND: unknown name; lists the known ones. MLA_INVALID_ARGUMENT: shape
   or dtype, with expected and got. Binding again replaces the tensor and makes
   the layer unprepared. */
MLA_API mla_status mla_engine_bind_weight(mla_engine *engine, int64_t layer, const char *name,
                                          mla_dtype dtype, const int64_t *shape, int32_t rank,
                                          const void *data);

/* A tensor by name, in host memory, row-major and dense. */
typedef struct mla_tensor {
  const char *name;
  mla_dtype dtype;
  int32_t rank;
  const int64_t *shape; /* [rank] */
  const void *data;
} mla_tensor;

/* Binds weights of one layer, any of them, codes together with their scales. All or nothing.
   MLA_INVALID_ARGUMENT: a tensor that belongs to no weight, a shape or dtype, a NaN among
   codes, a scale that is negative or not finite, a value beyond the package's type; names
   tensor, value and limit. MLA_NOT_FOUND: codes without scales, or scales without codes. */
MLA_API mla_status mla_engine_bind_tensors(mla_engine *engine, int64_t layer,
                                           const mla_tensor *tensors, int64_t num_tensors);

/* Flags of mla_engine_bind_safetensors and mla_engine_bind_checkpoint. */
#define MLA_ALLOW_EXTRA_TENSORS 1u /* ignore tensors that the package lacks */

/* Binds every weight of one layer from a safetensors file: tensor PREFIX + name
   for each name of the package's list. prefix NULL means "". Tensors under the
   prefix that the package does not know are errors unless allowed by the flag
   (with an empty prefix every tensor of the file is under it).
   All or nothing: nothing is bound if any tensor is missing, extra or wrong.
   MLA_CORRUPT: header or data truncated, offsets out of range or overlapping. */
MLA_API mla_status mla_engine_bind_safetensors(mla_engine *engine, int64_t layer, const char *path,
                                               const char *prefix, uint32_t flags);

/* Runs the package's "prepare" function for one layer (weight-only products) and
   waits for it. Needs every weight of the layer (MLA_WRONG_STATE lists the missing
   ones). Required before the layer's first step, also for packages without such a
   function; calling it again recomputes. */
MLA_API mla_status mla_engine_prepare(mla_engine *engine, int64_t layer);

/*===--- Checkpoints ----------------------------------------------------===*/

/* Opens a safetensors file, or a folder with model.safetensors.index.json and its shards or
   with model.safetensors, and perhaps config.json. Shards are opened when they are needed.
   MLA_NOT_FOUND: none of these is there. MLA_CORRUPT: an index, configuration or file that is
   truncated or damaged. */
MLA_API mla_status mla_checkpoint_open(const char *path, mla_checkpoint **checkpoint);

/* Closes the handle; tensors of mla_checkpoint_tensor end with it. */
MLA_API mla_status mla_checkpoint_close(mla_checkpoint *checkpoint);

/* { "attentions": [prefixes up to the names of weights, in the model's order],
     "metadata": {strings in a single file's header} } as JSON text that lives until this
   thread's next mla_checkpoint_info. */
MLA_API mla_status mla_checkpoint_info(mla_checkpoint *checkpoint, const char **json);

/* One tensor; shape and data live as long as the checkpoint, data need not be aligned.
   MLA_NOT_FOUND: no such tensor, or its shard is missing. MLA_CORRUPT: its shard is damaged
   or lacks it. MLA_UNSUPPORTED: a dtype that is none of mla_dtype. */
MLA_API mla_status mla_checkpoint_tensor(mla_checkpoint *checkpoint, const char *name,
                                         mla_tensor *tensor);

/* How far a long call is; called under the engine's lock, so it must not call the engine. */
typedef void (*mla_progress)(void *user, int64_t done, int64_t total);

/* Binds every weight of `num_layers` layers from `first_layer` on: layer first_layer + i from
   attention first_attention + i of the checkpoint (one a layer in most models, two in LongCat).
   Of a kind of layers (mla_package_kind), attentions are counted among those of its layers: an
   engine with as many layers as the kind binds them all with 0, 0 and 0.
   num_layers 0: to the engine's last layer. An indexer, stored rotary frequencies and scales of
   a cache are ignored, and with several ranks o_proj.bias; other tensors beside the weights
   that the package does not know are errors unless allowed by the flag.
   All or nothing, over all layers: each is checked (half of the progress) before any is bound
   (the other half). `progress` may be NULL.
   MLA_NOT_FOUND: a tensor, a shard or an attention. MLA_CORRUPT: a shard that lacks what the
   index says is in it. MLA_INVALID_ARGUMENT: as of mla_engine_bind_tensors, or the folder's
   quantization_config is not the one that the package was compiled for. */
MLA_API mla_status mla_engine_bind_checkpoint(mla_engine *engine, int64_t first_layer,
                                              int64_t num_layers, mla_checkpoint *checkpoint,
                                              int64_t first_attention, uint32_t flags,
                                              mla_progress progress, void *user);

/*===--- Quantisation ---------------------------------------------------===*/

/* Codes [rows, columns] and scales of a matrix, as checkpoints have them: a scale for each
   block_rows x block_columns, 0 for all of the matrix. A scale is the block's largest magnitude
   / 448 (1e-12 at least; of a whole tensor magnitudes of at least 1e-10), codes are values /
   scale, rounded to the nearest e4m3.
   scales: [ceil(rows / block_rows), ceil(columns / block_columns)].
   MLA_INVALID_ARGUMENT: a size below 0 (of the matrix: below 1), or a value that is not finite. */
MLA_API mla_status mla_quantize_weight(const float *values, int64_t rows, int64_t columns,
                                       int64_t block_rows, int64_t block_columns, uint8_t *codes,
                                       float *scales);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_WEIGHTS_H */
