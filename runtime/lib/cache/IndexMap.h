//===- IndexMap.h - token positions to cache indices ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What sparse attention selects are positions in a request; what its kernels read are
// rows of a pool, or of a workspace where a prefill has gathered its context
// (paged-cache.md section 7):
//
//   position < 0                   -1
//   token of a prefill             workspace_starts[prefill] + position
//   position beyond the table      -1
//   else                           block_table[request, position / page_size]
//                                    * block_stride_rows + position % page_size
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_INDEXMAP_H
#define MLAC_RUNTIME_INDEXMAP_H

#include "base/Status.h"

namespace mlac::runtime {

/// Converts positions [rows, width] into indices of that shape. Refuses requests, prefills
/// and pages out of range, and indices beyond 32 bits, before it writes anything.
Status convertIndices(const mla_index_map &map, const int32_t *positions, const int32_t *requests,
                      int64_t rows, int64_t width, int32_t *indices);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_INDEXMAP_H
