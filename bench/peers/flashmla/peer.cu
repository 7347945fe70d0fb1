//===- peer.cu - FlashMLA's dense decode behind a C interface --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What csrc/api/dense_decode.h of FlashMLA does with torch tensors, for plain
// device pointers: bf16, one KV head, pages of 64 tokens, ranks 512+64. Built with
// FlashMLA's own sources (see build.sh); nothing of them is in this repository.
//
// Nothing here allocates or synchronises, so that a call can be captured in a
// CUDA graph. FlashMLA itself ends the process on a CUDA error.
//
//===----------------------------------------------------------------------===//

#include "params.h"
#include "sm90/decode/dense/splitkv_mla.h"
#include "smxx/decode/combine/combine.h"
#include "smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {
constexpr int kRowsPerTile = 64, kPageTokens = 64, kKeyWidth = 576, kValueWidth = 512;
/// dense_decode.h: the fixed cost of a request, in blocks.
constexpr int kOverheadBlocks = 5;
} // namespace

/// One step's sizes and device memory; all tensors dense and row-major.
struct FlashMlaStep {
  int32_t batch, queryLen, heads, pages, tableWidth, parts, isCausal;
  float scale;
  void *query;           // bf16 [batch, queryLen, heads, 576]
  void *cache;           // bf16 [pages, 64, 576]
  int32_t *seqLens;      // [batch]
  int32_t *blockTable;   // [batch, tableWidth]
  void *metadata;        // i32 [parts, 8]
  int32_t *numSplits;    // [batch + 1]
  void *output;          // bf16 [batch, queryLen, heads, 512]
  float *lse;            // [batch, queryLen * heads], row = token * heads + head
  float *outputAccum;    // [batch + parts, queryLen * heads, 512]
  float *lseAccum;       // [batch + parts, queryLen * heads]
  cudaStream_t stream;
};

extern "C" {

/// Sizeof the struct, so that a caller's declaration can be checked.
int32_t flashmla_step_bytes() { return sizeof(FlashMlaStep); }

/// Parts of a step on a chip of `numSms` multiprocessors.
int32_t flashmla_num_parts(int32_t numSms, int32_t queryLen, int32_t heads) {
  int tiles = (queryLen * heads + kRowsPerTile - 1) / kRowsPerTile;
  return std::max(numSms / tiles, 1);
}

/// The kernel that writes `metadata` and `numSplits`.
void flashmla_metadata(const FlashMlaStep *step) {
  GetDecodeSchedMetaParams params = {step->batch,
                                     step->queryLen,
                                     kPageTokens,
                                     kOverheadBlocks,
                                     /*topk=*/-1,
                                     /*extra_topk=*/-1,
                                     nullptr,
                                     nullptr,
                                     step->seqLens,
                                     static_cast<DecodingSchedMeta *>(step->metadata),
                                     step->numSplits,
                                     step->parts,
                                     step->stream};
  smxx::decode::run_get_decoding_sched_meta_kernel(params);
}

/// The attention and the combine kernel behind it.
void flashmla_decode(const FlashMlaStep *step) {
  int rows = step->queryLen * step->heads;
  DenseAttnDecodeParams params = {};
  params.b = step->batch;
  params.s_q = step->queryLen;
  params.q_seq_per_hk = rows;
  params.d = kKeyWidth;
  params.d_v = kValueWidth;
  params.h_q = step->heads;
  params.h_k = 1;
  params.num_blocks = step->pages;
  params.q_head_per_hk = step->heads;
  params.is_causal = step->queryLen > 1 && step->isCausal;
  params.scale_softmax = step->scale;
  params.scale_softmax_log2 = float(step->scale * M_LOG2E);
  params.q_ptr = step->query;
  params.k_ptr = step->cache;
  params.o_ptr = step->output;
  params.softmax_lse_ptr = step->lse;
  params.q_batch_stride = int64_t(rows) * kKeyWidth;
  params.k_batch_stride = int64_t(kPageTokens) * kKeyWidth;
  params.o_batch_stride = int64_t(rows) * kValueWidth;
  params.q_row_stride = kKeyWidth;
  params.k_row_stride = kKeyWidth;
  params.o_row_stride = kValueWidth;
  params.q_head_stride = kKeyWidth;
  params.k_head_stride = kKeyWidth;
  params.o_head_stride = int64_t(rows) * kValueWidth;
  params.block_table = step->blockTable;
  params.block_table_batch_stride = step->tableWidth;
  params.page_block_size = kPageTokens;
  params.seqlens_k_ptr = step->seqLens;
  params.tile_scheduler_metadata_ptr = static_cast<DecodingSchedMeta *>(step->metadata);
  params.num_sm_parts = step->parts;
  params.num_splits_ptr = step->numSplits;
  params.total_num_splits = step->batch + step->parts;
  params.softmax_lseaccum_ptr = step->lseAccum;
  params.oaccum_ptr = step->outputAccum;
  params.stream = step->stream;
  sm90::run_flash_splitkv_mla_kernel<cutlass::bfloat16_t>(params);

  CombineParams combine = {step->batch,
                           step->queryLen,
                           step->heads,
                           kValueWidth,
                           step->lse,
                           step->output,
                           rows,
                           step->heads,
                           rows * kValueWidth,
                           step->heads * kValueWidth,
                           kValueWidth,
                           step->lseAccum,
                           step->outputAccum,
                           rows,
                           step->heads,
                           rows * kValueWidth,
                           step->heads * kValueWidth,
                           kValueWidth,
                           params.tile_scheduler_metadata_ptr,
                           params.num_splits_ptr,
                           step->parts,
                           /*attn_sink=*/nullptr,
                           step->stream};
  smxx::decode::run_flash_mla_combine_kernel<cutlass::bfloat16_t>(combine);
}

} // extern "C"
