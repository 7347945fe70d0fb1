/*===- mla_runtime/package.h - compiled kernels and plans ---------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_PACKAGE_H
#define MLA_RUNTIME_PACKAGE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens and verifies a package file: the FlatBuffer's structure, and every
   index, expression, name and size in it.
   MLA_NOT_FOUND: cannot be read. MLA_CORRUPT: names the first thing that is
   wrong. MLA_UNSUPPORTED: another schema version.
   Code for the CPU runs in this process: open only packages that you trust as
   much as a shared library. */
MLA_API mla_status mla_package_open(const char *path, mla_package **package);

/* The same from memory; `data` [bytes] is copied. */
MLA_API mla_status mla_package_open_bytes(const void *data, size_t bytes, mla_package **package);

/* Opens one kind of the layers of a package whose layers are of several ("kinds" of
   mla_package_info), from 0, as a package of its own; it outlives `package`. Engines are made of
   kinds; a package with kinds says nothing else.
   MLA_INVALID_ARGUMENT: there is no such kind. */
MLA_API mla_status mla_package_kind(mla_package *package, int64_t index, mla_package **kind);

/* Closes the handle. Engines made from the package stay usable. */
MLA_API mla_status mla_package_close(mla_package *package);

/* What the package holds, as JSON text:
     { "schema_version", "compiler", "options", "bytes",
       "kinds": [{"name", "layers": numbers in the model, "bytes"}], empty where a model's
           layers are alike; otherwise nothing else follows,
       "layers": of a kind, its layers' numbers in the model; else empty,
       "capabilities": what engines ask, in their names: {"name", "is_mla", "is_sparse",
           "row_widths": elements of each pool's rows, "activation_dtypes": ["bfloat16"],
           "cache_dtypes": names of the first pool's format (auto, bfloat16, fp8,
           fp8_ds_mla), "page_sizes", "architectures": ["sm_90a"], "accepts_output_buffer",
           "cache_shapes": [{"pool", "dtype", "shape": ["num_pages", page_size, width]}]},
       "model": {"model_type", "hidden_size", "num_heads", "tensor_parallel",
                 "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                 "qk_rope_head_dim", "v_head_dim", "softmax_scale",
                 "activation_dtype", "config"},
       "pools": [{"name", "format", "dtype", "element", "page_size", "fields":
                  [{"name", "heads", "columns"}], "rope_order", "row_bytes",
                  "tokens_per_row", "window"}],
       "rope": {"length", "short_length", "multiplier", "has_long"},
       "weights": [{"name", "dtype", "shape"}], "derived": [...],
       "weight_scales": null, or what codes in the place of weights are:
                        {"codes": "e4m3", "strategy": "block", "channel" or "tensor",
                         "block": [rows, columns]}, 0: all,
       "targets": [{"kind", "arch", "features", "assembler", "code_bytes",
                    "kernels": [{"name", "symbol", "threads", "shared_bytes",
                                 "registers", "scratch_bytes"}],
                    "functions": [{"name", "dims", "max_query_len",
                                   "decode_threshold", "decodes_of", "launches", "buffers"}]}] }
   The text belongs to the package and lives until it is closed. */
MLA_API mla_status mla_package_info(mla_package *package, const char **json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_PACKAGE_H */
