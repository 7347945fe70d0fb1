/*===- mla_runtime/cache_format.h - what the bytes of a row are ---*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#ifndef MLA_RUNTIME_CACHE_FORMAT_H
#define MLA_RUNTIME_CACHE_FORMAT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every format of the cache, as JSON text in static storage:
     [{"name", "accepts": [dtypes of rows], "scale_group" (elements that share a
       scale, 0: none in the cache), "has_layer_scale", "layer_scales" (of a layer's rows: 0,
       1, or one for each field), "rule": "raw"|"power_of_two",
       "amax_floor", "scale_floor", "page_multiple" (bytes),
       "fields": [{"part": "latent"|"rope"|"key"|"value"|"scale"|"padding", "type", "section",
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

/* Fields of a row, at most. */
#define MLA_MAX_ROW_FIELDS 2

/* A pool of pages in one format. Fill with mla_cache_layout_init. */
typedef struct mla_cache_layout {
  size_t struct_bytes;                 /* sizeof(mla_cache_layout) */
  const char *format;                  /* a name of mla_cache_formats */
  mla_dtype dtype;                     /* of rows outside of the cache; MLA_BF16 */
  int64_t columns[MLA_MAX_ROW_FIELDS]; /* elements of each field of a row outside of the
                                cache, of all heads together: latent and rope key (512,
                                64), or keys and values; 0: not there */
  int64_t page_size;                   /* tokens; 64 */
  int64_t page_stride_bytes;           /* from page to page; 0: as small as possible */
  int64_t num_pages;
  float layer_scale;         /* of formats with one scale per layer, or of their keys; 1 */
  float value_scale;         /* of values, where they have one of their own (kv_nhd_fp8); 1 */
  mla_scale_rule scale_rule; /* encoding, as are the floors: */
  float amax_floor;          /* amax is at least this; < 0: the format's */
  float scale_floor;         /* the scale is at least this; < 0: the format's */
} mla_cache_layout;

/* Sets the defaults above for `format` (kept, not copied) and its only widths where it
   has such; num_pages 0. An unknown name is refused by the functions below. */
MLA_API void mla_cache_layout_init(mla_cache_layout *layout, const char *format);

/* Byte, from the start of the pool, of a field of the token in `slot`; field is
   the part's name. 64-bit: pools may exceed 4 GiB. */
MLA_API mla_status mla_cache_layout_offset(const mla_cache_layout *layout, const char *field,
                                           int64_t slot, int64_t *offset);

/* Converts rows between host memory and a pool in host memory of
   num_pages * page_stride_bytes bytes.
   rows [count, sum of columns] of dtype; slots [count], NULL: 0, 1, ...
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

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MLA_RUNTIME_CACHE_FORMAT_H */
