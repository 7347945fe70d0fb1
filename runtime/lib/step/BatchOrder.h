//===- BatchOrder.h - decodes in front of prefills --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which requests of a batch are decodes, and how few exchanges bring them to the
// front (mla.md section 10). A request is a decode if its query has at most
// `threshold` tokens: 1, or 1 + the speculative tokens of a step.
//
//   query_lens   7 1 1 5 1      three decodes: they belong into [0, 3)
//   decodes        1 2   4      the last one from behind goes to the first
//   prefills     0     3        prefill from the front: one swap, 4 <-> 0
//   order        4 1 2 3 0
//
// Each position takes part in one swap at most, so an order is its own inverse.
// The idea is that of vllm-project/vllm, `reorder_batch_to_split_decodes_and_prefills`.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_BATCHORDER_H
#define MLAC_RUNTIME_BATCHORDER_H

#include "mla_runtime.h"

#include <span>

namespace mlac::runtime {

/// Fills `order` [requests]: which request comes i-th. Returns the number of
/// swaps that make it, the least possible.
int64_t orderDecodesFirst(std::span<const int32_t> queryLens, int64_t threshold,
                          std::span<int64_t> order);

/// Counts the decodes in front. `queryLenAt(i)` is the query length of the i-th
/// request; with `isUniform` the decodes must have one length (mla.md section 10).
template <typename QueryLenAt>
mla_batch_split splitBatch(int64_t requests, int64_t threshold, bool isUniform,
                           QueryLenAt queryLenAt) {
  mla_batch_split split = {};
  int64_t tokens = 0, longest = 0;
  bool isOneLength = true; // of all requests but empty ones
  for (int64_t i = 0; i < requests; ++i) {
    int64_t query = queryLenAt(i);
    tokens += query;
    isOneLength &= query == 0 || longest == 0 || query == longest;
    longest = query > longest ? query : longest;
  }
  // Requests without tokens pad a uniform batch; they are decodes like the others.
  bool isPadded = isUniform && isOneLength && longest <= threshold;
  int64_t first = requests > 0 ? queryLenAt(0) : 0;
  auto isDecode = [&](int64_t query) {
    return isPadded || (query <= threshold && (!isUniform || query == first));
  };
  for (; split.num_decodes < requests && isDecode(queryLenAt(split.num_decodes));
       ++split.num_decodes)
    split.num_decode_tokens += queryLenAt(split.num_decodes);
  split.num_prefills = requests - split.num_decodes;
  split.num_prefill_tokens = tokens - split.num_decode_tokens;
  return split;
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_BATCHORDER_H
