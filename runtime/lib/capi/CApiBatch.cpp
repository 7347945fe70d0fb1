//===- CApiBatch.cpp - C entry points: the order of a batch -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "capi/CApiSupport.h"
#include "step/BatchOrder.h"

using namespace mlac::runtime;

static Status checkQueryLens(const int32_t *queryLens, int64_t requests, int64_t threshold) {
  if (requests < 0)
    return error(MLA_INVALID_ARGUMENT, "num_requests is ", requests);
  if (requests > 0)
    MLAC_RETURN_IF_ERROR(requirePointer(queryLens, "query_lens"));
  if (threshold < 0)
    return error(MLA_INVALID_ARGUMENT, "decode_threshold is ", threshold, ", expected at least 0");
  for (int64_t i = 0; i < requests; ++i)
    if (queryLens[i] < 0)
      return error(MLA_INVALID_ARGUMENT, "request ", i, ": query length ", queryLens[i],
                   " is negative");
  return Status();
}

mla_status mla_batch_arrange(const int32_t *query_lens, int64_t num_requests,
                             int64_t decode_threshold, uint32_t flags, int64_t *order,
                             mla_batch_split *split) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(checkQueryLens(query_lens, num_requests, decode_threshold));
    MLAC_RETURN_IF_ERROR(requirePointer(split, "split"));
    if (flags & ~MLA_REQUIRE_UNIFORM)
      return error(MLA_INVALID_ARGUMENT, "unknown flags ", flags);
    auto requests = static_cast<size_t>(num_requests);
    int64_t swaps =
        order ? orderDecodesFirst({query_lens, requests}, decode_threshold, {order, requests}) : 0;
    *split = splitBatch(num_requests, decode_threshold, flags & MLA_REQUIRE_UNIFORM,
                        [&](int64_t i) { return query_lens[order ? order[i] : i]; });
    split->num_swaps = swaps;
    return Status();
  });
}
