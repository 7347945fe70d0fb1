//===- KVCache.h - sequences and their block tables -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host side of the paged cache: which sequence owns which pages, in logical
// order, and how many tokens it holds. Bytes live in the engine's pools, one
// per layer, all addressed by the same block tables.
//
//   sequence   length 70, page_size 64
//   pages      [5, 7]           token t is in page pages[t / 64], offset t % 64
//
// Ids carry the owning cache and a generation, so that a freed sequence's id
// and another engine's id are recognised:
//
//   bits 48..63 cache, 24..47 generation, 0..23 index
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_KVCACHE_H
#define MLAC_RUNTIME_KVCACHE_H

#include "PagePool.h"
#include "Status.h"

namespace mlac::runtime {

struct Sequence {
  std::vector<int32_t> pages;
  int64_t length = 0;
  uint32_t generation = 1;
  bool isLive = false;
  /// Step that last named the sequence: finds repetitions within a batch.
  uint64_t lastStep = 0;
};

class KVCache {
public:
  KVCache(int64_t numPages, int64_t pageSize, int64_t maxSeqLen);

  int64_t pageSize() const { return pageSize_; }
  int64_t maxSeqLen() const { return maxSeqLen_; }
  int64_t numSequences() const { return numSequences_; }
  const PagePool &pool() const { return pool_; }

  Status create(mla_sequence &id);
  Status free(mla_sequence id);
  /// Null and an error for ids that are not live sequences of this cache.
  Status find(mla_sequence id, Sequence *&sequence);

  /// Pages that `sequence` lacks to hold `numTokens`.
  int64_t missingPages(const Sequence &sequence, int64_t numTokens) const;
  /// Makes room for `numTokens` in total; all or nothing.
  Status reserve(Sequence &sequence, int64_t numTokens);
  /// Forgets the tokens from `numTokens` on and returns the pages behind it.
  Status truncate(Sequence &sequence, int64_t numTokens);
  /// Gives back pages, last first, until `numPages` are left.
  void shrink(Sequence &sequence, int64_t numPages);

  /// For each page, how many of its rows hold tokens.
  std::vector<int32_t> usedRows() const;

private:
  PagePool pool_;
  int64_t pageSize_, maxSeqLen_;
  uint64_t cacheId;
  int64_t numSequences_ = 0;
  std::vector<Sequence> sequences;
  std::vector<uint32_t> freeIndices;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_KVCACHE_H
