//===- HeadDims.h - heads among the dimensions of products -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operator over caches takes [batch, heads, tokens, channels]. A graph's products may have heads
// in several dimensions, beside the batch or beside the tokens: factors of dimensions, which are
// split, brought into order and joined.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_HEADDIMS_H
#define MLA_LIB_IMPORT_GRAPH_HEADDIMS_H

#include "GraphCalls.h"
#include "Layout.h"

#include "mla/Import/CacheAttention.h"

namespace mlac::graph {

/// How many heads a tensor has, and where.
struct FoundHeads {
  int64_t count = 1;
  HeadDims dims;
};

/// Of [..., tokens, channels], or [..., channels, tokens]; none: it has no rows of tokens.
std::optional<FoundHeads> findHeads(const Tensor &tensor, bool isTransposed);

/// [batch, heads, tokens, channels], or transposed, of a value of such dimensions.
mlir::Value toHeads(GraphCalls &calls, mlir::Value value, const HeadDims &dims, bool isTransposed,
                    const llvm::Twine &name);
/// And back.
mlir::Value fromHeads(GraphCalls &calls, mlir::Value heads, const HeadDims &dims,
                      const llvm::Twine &name);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_HEADDIMS_H
