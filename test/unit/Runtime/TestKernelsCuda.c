/*===- TestKernelsCuda.c - the test package's kernels for CUDA -----*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What TestKernels.c does, with CUDA's calling convention (package.fbs): 8-byte
// pointers and integers, 4-byte floats. One CTA of 8 threads per token, one thread
// per column. Compiled by clang for NVPTX, without CUDA headers.
//
//===----------------------------------------------------------------------===*/

typedef long long i64;
enum { kWidth = 8, kPage = 4 };

#define KERNEL __attribute__((device_kernel))
#define TOKEN ((i64)__nvvm_read_ptx_sreg_ctaid_x())
#define COLUMN ((i64)__nvvm_read_ptx_sreg_tid_x())

KERNEL void test_scale(const float *from, float *to, i64 count, float factor) {
  if (COLUMN < count)
    to[COLUMN] = from[COLUMN] * factor;
}

KERNEL void test_append(const float *hidden, float *cache, const i64 *slots, float *scratch,
                        i64 stride) {
  i64 slot = slots[TOKEN];
  float value = hidden[TOKEN * kWidth + COLUMN];
  cache[slot / kPage * stride + slot % kPage * kWidth + COLUMN] = value;
  scratch[TOKEN * kWidth + COLUMN] = 0;
}

KERNEL void test_attend(const float *cache, const int *blocks, const int *starts,
                        const int *contexts, const float *twice, float *scratch, float *output,
                        i64 requests, i64 columns, i64 stride) {
  i64 request = 0;
  while (request + 1 < requests && starts[request + 1] <= TOKEN)
    ++request;
  const int *row = blocks + request * columns;
  i64 visible = contexts[request] + TOKEN - starts[request] + 1;
  float sum = scratch[TOKEN * kWidth + COLUMN];
  for (i64 s = 0; s < visible; ++s)
    sum += cache[row[s / kPage] * stride + s % kPage * kWidth + COLUMN];
  output[TOKEN * kWidth + COLUMN] = twice[COLUMN] + sum;
}

KERNEL void test_chunk(const int *table, float *lse, i64 requests, i64 chunk) {
  if (COLUMN == 0)
    lse[chunk] = (float)table[chunk * (requests + 1) + requests];
}
