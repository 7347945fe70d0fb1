/*===- TestKernels.c - kernels of the runtime's test package -------*- C
-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Native code with the CPU kernels' calling convention (package.fbs). Sizes are
// those of TestPackage.h: rows of 8 floats, pages of 4 tokens.
//
//===----------------------------------------------------------------------===*/

#include <stdint.h>

enum { kWidth = 8, kPage = 4 };

/* args: from, to, count, factor (f32) */
void test_scale(const uint64_t *args, int64_t x, int64_t y, int64_t z) {
  const float *from = (const float *)args[0];
  float *to = (float *)args[1];
  union {
    uint32_t bits;
    float value;
  } factor = {(uint32_t)args[3]};
  (void)x, (void)y, (void)z;
  for (int64_t i = 0; i < (int64_t)args[2]; ++i)
    to[i] = from[i] * factor.value;
}

/* args: hidden, cache, slot_mapping, scratch, page_stride. One token each. */
void test_append(const uint64_t *args, int64_t token, int64_t y, int64_t z) {
  const float *hidden = (const float *)args[0] + token * kWidth;
  int64_t slot = ((const int64_t *)args[2])[token];
  int64_t stride = (int64_t)args[4];
  float *row = (float *)args[1] + slot / kPage * stride + slot % kPage * kWidth;
  float *scratch = (float *)args[3] + token * kWidth;
  (void)y, (void)z;
  for (int i = 0; i < kWidth; ++i) {
    if (slot >= 0)
      row[i] = hidden[i];
    scratch[i] = 0;
  }
}

/* args: cache, block_table, query_start_loc, context_lens, twice, scratch,
   output, num_requests, max_blocks_per_request, page_stride. One token each. */
void test_attend(const uint64_t *args, int64_t token, int64_t y, int64_t z) {
  const float *cache = (const float *)args[0];
  const int32_t *starts = (const int32_t *)args[2];
  const float *twice = (const float *)args[4];
  float *sum = (float *)args[5] + token * kWidth;
  float *output = (float *)args[6] + token * kWidth;
  int64_t stride = (int64_t)args[9], request = 0;
  (void)y, (void)z;
  while (starts[request + 1] <= token)
    ++request;
  const int32_t *blocks = (const int32_t *)args[1] + request * (int64_t)args[8];
  int64_t visible = ((const int32_t *)args[3])[request] + token - starts[request] + 1;
  for (int64_t s = 0; s < visible; ++s) {
    const float *row = cache + blocks[s / kPage] * stride + s % kPage * kWidth;
    for (int i = 0; i < kWidth; ++i)
      sum[i] += row[i];
  }
  for (int i = 0; i < kWidth; ++i)
    output[i] = twice[i] + sum[i];
}

/* args: chunk_cu_seq_lens, lse, num_requests, chunk */
void test_chunk(const uint64_t *args, int64_t x, int64_t y, int64_t z) {
  const int32_t *table = (const int32_t *)args[0];
  int64_t requests = (int64_t)args[2], chunk = (int64_t)args[3];
  (void)x, (void)y, (void)z;
  ((float *)args[1])[chunk] = (float)table[chunk * (requests + 1) + requests];
}

/* args: from, its page stride, to, its page stride, block_table, slot_mapping. One page
   each. */
void test_copy(const uint64_t *args, int64_t page, int64_t y, int64_t z) {
  const float *from = (const float *)args[0] + ((const int32_t *)args[4])[page] * (int64_t)args[1];
  float *to = (float *)args[2] + ((const int64_t *)args[5])[page] * (int64_t)args[3];
  (void)y, (void)z;
  for (int i = 0; i < kPage * kWidth; ++i)
    to[i] = from[i];
}
