//===- KVCache.cpp - sequences and their block tables -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KVCache.h"

#include "DataType.h"

#include <algorithm>
#include <atomic>

using namespace mlac::runtime;

static constexpr uint64_t kIndexBits = 24, kGenerationBits = 24;
static constexpr uint64_t kIndexMask = (1 << kIndexBits) - 1;
static constexpr uint64_t kGenerationMask = (1 << kGenerationBits) - 1;
static constexpr uint64_t kCacheMask = 0xffff;

/// Cache ids start at 1, so that no sequence id is 0.
static uint64_t nextCacheId() {
  static std::atomic<uint64_t> counter{0};
  return counter++ % kCacheMask + 1;
}

KVCache::KVCache(int64_t numPages, int64_t pageSize, int64_t maxSeqLen)
    : pool_(numPages), pageSize_(pageSize), maxSeqLen_(maxSeqLen), cacheId(nextCacheId()) {}

Status KVCache::create(mla_sequence &id) {
  uint64_t index;
  if (!freeIndices.empty()) {
    index = freeIndices.back();
    freeIndices.pop_back();
  } else if (sequences.size() > kIndexMask) {
    return error(MLA_INVALID_ARGUMENT, "more than ", kIndexMask + 1, " sequences at a time");
  } else {
    index = sequences.size();
    sequences.emplace_back();
  }
  Sequence &sequence = sequences[index];
  sequence.isLive = true;
  sequence.length = 0;
  ++numSequences_;
  id = cacheId << (kIndexBits + kGenerationBits) | uint64_t(sequence.generation) << kIndexBits |
       index;
  return Status();
}

Status KVCache::find(mla_sequence id, Sequence *&sequence) {
  uint64_t index = id & kIndexMask;
  uint64_t generation = id >> kIndexBits & kGenerationMask;
  if (id >> (kIndexBits + kGenerationBits) != cacheId)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " is not of this engine");
  if (index >= sequences.size() || !sequences[index].isLive ||
      sequences[index].generation != generation)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " has been freed");
  sequence = &sequences[index];
  return Status();
}

Status KVCache::free(mla_sequence id) {
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(find(id, sequence));
  shrink(*sequence, 0);
  sequence->isLive = false;
  sequence->length = 0;
  sequence->lastStep = 0;
  sequence->generation = (sequence->generation + 1) & kGenerationMask;
  freeIndices.push_back(id & kIndexMask);
  --numSequences_;
  return Status();
}

int64_t KVCache::missingPages(const Sequence &sequence, int64_t numTokens) const {
  int64_t have = static_cast<int64_t>(sequence.pages.size());
  return std::max<int64_t>(0, ceilDiv(numTokens, pageSize_) - have);
}

Status KVCache::reserve(Sequence &sequence, int64_t numTokens) {
  if (numTokens < 0 || numTokens > maxSeqLen_)
    return error(MLA_INVALID_ARGUMENT, "sequence of ", numTokens,
                 " tokens, limit max_seq_len = ", maxSeqLen_);
  if (!pool_.take(missingPages(sequence, numTokens), sequence.pages))
    return Status(MLA_OUT_OF_PAGES, {});
  return Status();
}

Status KVCache::truncate(Sequence &sequence, int64_t numTokens) {
  if (numTokens < 0 || numTokens > sequence.length)
    return error(MLA_INVALID_ARGUMENT, "cannot truncate to ", numTokens, " tokens, length is ",
                 sequence.length);
  sequence.length = numTokens;
  shrink(sequence, ceilDiv(numTokens, pageSize_));
  return Status();
}

void KVCache::shrink(Sequence &sequence, int64_t numPages) {
  while (static_cast<int64_t>(sequence.pages.size()) > numPages) {
    pool_.release(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

std::vector<int32_t> KVCache::usedRows() const {
  std::vector<int32_t> rows(pool_.numPages(), 0);
  for (const Sequence &sequence : sequences) {
    for (size_t i = 0; sequence.isLive && i < sequence.pages.size(); ++i) {
      int64_t first = static_cast<int64_t>(i) * pageSize_;
      int64_t used = std::clamp<int64_t>(sequence.length - first, 0, pageSize_);
      int32_t &row = rows[sequence.pages[i]];
      row = std::max(row, static_cast<int32_t>(used));
    }
  }
  return rows;
}
