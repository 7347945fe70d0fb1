//===- StepLayout.h - where the metadata of a step lies ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   bytes  | block_table      | query_start_loc | seq_lens | context_lens | ...
//            [max_num_requests,  each array starts at a multiple of kBufferAlignment
//             columns], of each pool
//          0                    tableBytes                                      bytes
//
// A block_table has room for the longest sequences, whatever the step, so it stays where it
// is, and of it only what has changed is sent: in decode an entry for each request that
// starts a page. The arrays behind it are sent whole.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPLAYOUT_H
#define MLAC_RUNTIME_STEPLAYOUT_H

#include "package/Dims.h"
#include "step/PromptParts.h"
#include "step/TableRows.h"
#include "step/WorkPlanner.h"

namespace mlac::runtime {

/// One pool of a step's, as far as tables and slots go.
struct PoolLimits {
  int64_t pageRows, numPages, pageStrideElements;
  int64_t tokensPerRow = 1;
  int64_t windowTokens = 0; // that a token sees, itself included; 0: all

  /// Pages of a sequence of so many tokens.
  int64_t pagesOf(int64_t tokens) const { return ceilDiv(tokens / tokensPerRow, pageRows); }
  /// The first of them that a query behind `context` tokens sees.
  int64_t firstPageBehind(int64_t context) const {
    if (windowTokens == 0)
      return 0;
    return std::max<int64_t>(0, context + 1 - windowTokens) / (pageRows * tokensPerRow);
  }
};

/// What stays the same over an engine's life.
struct StepLimits {
  int64_t maxRequests, maxTokens, maxSeqLen, workspaceTokens;
  int64_t pageSize, numPages, pageStrideElements, ropeLength, numSms;
  /// Of the functions that partition their attention, each with its own bound.
  std::vector<WorkParams> works = {};
  /// Whether any function splits its batch.
  bool hasParts = false;
  /// Whether any function attends apart to shared prefixes.
  bool hasShared = false;
  /// Whether any function gathers whole requests.
  bool hasGathers = false;
  /// Whether any function has kernels for prompts, and what cuts of these take at most.
  bool hasPrompts = false;
  PromptCuts promptCuts = {};
  /// Behind the first, whose limits stand above.
  std::vector<PoolLimits> others = {};

  size_t numPools() const { return 1 + others.size(); }
  PoolLimits pool(size_t index) const {
    return index == 0 ? PoolLimits{pageSize, numPages, pageStrideElements} : others[index - 1];
  }
  void setPool(size_t index, int64_t pages, int64_t strideElements) {
    (index ? others[index - 1].numPages : numPages) = pages;
    (index ? others[index - 1].pageStrideElements : pageStrideElements) = strideElements;
  }
};

/// Value of block_table entries that no kernel may read.
inline constexpr int32_t kUnusedPage = TableRows::kNoPage;

/// Pages of a pool.
inline constexpr int64_t kMaxPages = kUnusedPage - 1;

/// Columns of block_table: the pages of the longest sequence, and an entry that must not
/// be read at the end. Rows stay where they are, and begin where any buffer may.
int64_t blockColumns(const StepLimits &limits, size_t pool = 0);
/// Where a pool's table begins; of the pool behind the last, where the tables end.
int64_t tableOffset(const StepLimits &limits, size_t pool);

/// Where one metadata array lies in the step's bytes.
struct MetadataArray {
  int64_t offset = 0; // bytes
  int64_t elements = 0;
};

struct StepLayout {
  std::array<MetadataArray, kNumMetadataSlots> arrays;
  /// Arrays that the caller has on the device; null: in the step's bytes.
  std::array<const void *, kNumMetadataSlots> external{};
  int64_t tableBytes = 0; // at the front, the same for all steps
  int64_t bytes = 0;      // with the arrays of this step
};

/// Sizes that hold before any step (for "prepare").
DimValues staticDims(const StepLimits &limits);

/// `work`: all zero if the function has none.
void layOut(const DimValues &dims, const WorkSizes &work, const StepLimits &limits,
            StepLayout &layout);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPLAYOUT_H
