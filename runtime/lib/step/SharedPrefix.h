//===- SharedPrefix.h - what the requests of a step have in common ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sequences that were forked, or matched to published blocks, have their first pages in
// common. Attention to these can be computed for all requests at once, and each
// request's own part apart (spec: mla.md section 8 joins them):
//
//   request a   0 1 2 | 5 6           pages 0 1 2 are shared, if all three are full
//           b   0 1 2 | 3             of cached tokens in every request
//           c   0 1 2 | 4 7 8
//
// Equal pages are equal tokens at equal positions, so nothing else is compared, whosever
// the tables are.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_SHAREDPREFIX_H
#define MLAC_RUNTIME_SHAREDPREFIX_H

#include "package/Dims.h"

#include <span>

namespace mlac::runtime {

/// The pages of a request and how many cached tokens they hold.
struct CachedContext {
  std::span<const int32_t> pages;
  int64_t tokens;
};

/// Tokens of the pages that are full in every context: no more can be common.
int64_t boundCommonTokens(std::span<const CachedContext> contexts, int64_t pageSize);

/// Tokens of the longest run of such pages that all contexts begin with. All tokens of
/// a single context are common to it.
int64_t countCommonTokens(std::span<const CachedContext> contexts, int64_t pageSize);

/// The sizes of `tokens` tokens that are attended to apart, in chunks of at most
/// `workspaceTokens`, rounded down to pages.
void setSharedPrefixDims(DimValues &dims, int64_t tokens, int64_t workspaceTokens,
                         int64_t pageSize);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_SHAREDPREFIX_H
