//===- KVCache.h - sequences and their block tables -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host side of the paged cache: which sequence has which pages, in logical
// order, and how many tokens it holds. Bytes live elsewhere (the engine's pools,
// one per layer, all addressed by the same block tables).
//
//   sequence   length 70, page_size 64
//   pages      [5, 7]           token t is in page pages[t / 64], offset t % 64
//
// A cache has one pool or several. A pool keeps one row per `tokensPerRow`
// tokens, of all tokens or of those within a window; a row exists once all its
// tokens do. The first pool keeps every token.
//
//   latent      1 token a row                     [5 7 2 9]
//   window      1 token a row, last 128 tokens    [- - 3 1]     - given back
//   compressed  4 tokens a row                    [8]
//
// Pages are shared by reference counts (fork) and by content (publish, match):
//
//   fork       the child has the parent's pages; whoever writes first into the
//              last, partly filled one takes a copy of it (copyPages)
//   publish    full blocks become immutable and are found by their tokens
//   match      an empty sequence takes the longest published prefix
//
// Blocks that no sequence uses stay until their pages are needed; then the one
// unused longest goes, with everything behind it.
//
// All or nothing: an operation that fails, for lack of pages or of memory, has
// changed nothing. Tables and lists have their greatest size from the start, so
// only construction and create() allocate (and messages).
//
// Ids carry the owning cache and a generation, so that a freed sequence's id
// and another engine's id are recognised:
//
//   bits 48..63 cache, 24..47 generation, 0..23 index
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_KVCACHE_H
#define MLAC_RUNTIME_KVCACHE_H

#include "base/Divider.h"
#include "base/Status.h"
#include "cache/PrefixIndex.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>
#include <utility>

namespace mlac::runtime {

/// One pool of pages under every sequence.
struct PoolSpec {
  std::string name;
  int64_t numPages = 0;
  int64_t pageRows = 0;
  int64_t tokensPerRow = 1;
  int64_t windowTokens = 0; // a token sees so many, itself included; 0: all
  int64_t watermark = 0;    // pages that a sequence without any leaves alone

  int64_t pageTokens() const { return pageRows * tokensPerRow; }
  bool isWindow() const { return windowTokens > 0; }
};

struct Sequence {
  // What every step reads of every sequence: a cache line.
  std::vector<int32_t> pages; // of pool 0
  int64_t length = 0;
  uint32_t generation = 1;
  bool isLive = false;
  /// Step that last named the sequence: finds repetitions within a batch.
  uint64_t lastStep = 0;
  /// The same for append().
  uint64_t lastAppend = 0;
  /// Changes of the tables other than pages appended to them: entries replaced
  /// or taken away. Tells BlockTable which rows to compare.
  uint64_t edits = 0;

  std::vector<std::vector<int32_t>> others; // of pools 1 ...
  /// Pages at the front of each pool's table that have left its window; their
  /// entries are kGivenBack.
  std::vector<int64_t> numGivenBack;
  /// Published blocks, all of them at the front, and the last of them.
  int64_t numBlocks = 0;
  int32_t lastBlock = PrefixIndex::kNone;

  std::vector<int32_t> &table(size_t pool) { return pool == 0 ? pages : others[pool - 1]; }
  const std::vector<int32_t> &table(size_t pool) const {
    return pool == 0 ? pages : others[pool - 1];
  }
};

/// Copies whole pages of every layer: copy-on-write.
struct PageCopy {
  int32_t pool, from, to;
};

class KVCache {
public:
  /// Under one sequence, at most.
  static constexpr size_t kMaxPools = 16;
  /// Entry of a table whose page has left the window: no kernel may read it.
  static constexpr int32_t kGivenBack = 2147480000;

  struct Counters {
    int64_t evictedPages = 0, evictedBlocks = 0;
    int64_t copiedPages = 0;  // copy-on-write
    int64_t mergedPages = 0;  // publish found the same block in other pages
    int64_t lookupTokens = 0; // asked of match
    int64_t hitTokens = 0;    // found by it
    int64_t refusals = 0;     // for lack of pages
  };

  /// One pool that keeps every token.
  KVCache(int64_t numPages, int64_t pageSize, int64_t maxSeqLen);
  /// Several; see checkSpecs. `format` says in words what a row is: snapshots
  /// are restored into caches of the same format only.
  KVCache(std::vector<PoolSpec> specs, int64_t maxSeqLen, std::string format = {},
          uint64_t hashMask = ~uint64_t(0));
  /// Whether a cache can be made of these pools.
  static Status checkSpecs(const std::vector<PoolSpec> &specs, int64_t maxSeqLen);

  size_t numPools() const { return specs_.size(); }
  const PoolSpec &spec(size_t pool = 0) const { return specs_[pool]; }
  const PagePool &pool(size_t pool = 0) const { return pools[pool]; }
  const PrefixIndex &index() const { return index_; }
  const std::string &format() const { return format_; }
  const Counters &counters() const { return counters_; }
  int64_t pageSize() const { return specs_[0].pageRows; }
  int64_t maxSeqLen() const { return maxSeqLen_; }
  int64_t numSequences() const { return numSequences_; }
  uint64_t id() const { return cacheId; }
  /// Grows whenever a sequence gives up a page or ends. May be read without the lock.
  uint64_t numEdits() const { return numEdits_; }

  Status create(mla_sequence &id);
  Status free(mla_sequence id);
  /// Null and an error for ids that are not live sequences of this cache.
  Status find(mla_sequence id, Sequence *&sequence);
  Status find(mla_sequence id, const Sequence *&sequence) const;
  /// The sequence, or null; cheap also if there is none.
  const Sequence *findLive(mla_sequence id) const {
    uint64_t index = id & kIndexMask;
    return index < sequences.size() && sequences[index].isLive && idOf(index) == id
               ? &sequences[index]
               : nullptr;
  }
  Sequence *findLive(mla_sequence id) {
    return const_cast<Sequence *>(std::as_const(*this).findLive(id));
  }
  /// Ids of all live sequences by ascending index.
  std::vector<mla_sequence> ids() const;

  /// Entries of a table with the rows of so many tokens.
  int64_t pagesOf(size_t pool, int64_t tokens) const {
    return byPage[pool].up(rowsOf(pool, tokens));
  }
  /// Pages of pool 0 that `sequence` lacks to hold `numTokens`, counting the one
  /// for a copy of a shared last page.
  int64_t missingPages(const Sequence &sequence, int64_t numTokens) const {
    auto have = static_cast<int64_t>(sequence.pages.size());
    int64_t entry = byPage[0](sequence.length); // a row is a token
    bool isShared = numTokens > sequence.length && entry < have &&
                    !pools[0].isPrivate(sequence.pages[static_cast<size_t>(entry)]);
    return std::max<int64_t>(0, byPage[0].up(numTokens) - have) + isShared;
  }
  int64_t missingPages(size_t pool, const Sequence &sequence, int64_t numTokens) const {
    int64_t have = static_cast<int64_t>(sequence.table(pool).size());
    return std::max<int64_t>(0, pagesOf(pool, numTokens) - have) +
           needsCopy(pool, sequence, numTokens);
  }
  /// Makes room for `numTokens` in total, all of it writable; all or nothing.
  /// The watermark is the caller's business.
  Status reserve(Sequence &sequence, int64_t numTokens);
  /// The same within the watermark.
  Status admit(Sequence &sequence, int64_t numTokens);
  /// Room for `counts` more tokens, and longer sequences, for a batch of
  /// `numRequests`; all or nothing. `positions` are where the caller believes
  /// that the tokens go.
  Status append(int64_t numRequests, const mla_sequence *ids, const int64_t *positions,
                const int32_t *counts);
  /// Forgets the tokens from `numTokens` on and returns the pages behind it.
  Status truncate(Sequence &sequence, int64_t numTokens);
  /// Forgets all tokens, as of a sequence that is new, whatever its windows have given back.
  void clear(Sequence &sequence);
  /// Gives back pages of pool 0, last first, until `numPages` are left.
  void shrink(Sequence &sequence, int64_t numPages) { shrink(0, sequence, numPages); }
  void shrink(size_t pool, Sequence &sequence, int64_t numPages);
  /// Gives back what a pool's window has left behind when the next token is at
  /// `position`.
  void leaveWindows(Sequence &sequence, int64_t position);
  /// Pages of a pool that leaveWindows would make free.
  int64_t countLeaving(size_t pool, const Sequence &sequence, int64_t position) const;
  /// Whether there is anything to leave.
  bool hasWindows() const { return hasWindows_; }
  /// Gives back the first `entries` of a pool's table, as if a window had left them behind.
  void giveBack(size_t pool, Sequence &sequence, int64_t entries);

  /// A sequence with the first `numTokens` of the parent's tokens.
  Status fork(mla_sequence parent, int64_t numTokens, mla_sequence &child);
  /// Gives an empty sequence the longest published prefix of `tokens`, leaving
  /// at least one token to compute.
  Status match(Sequence &sequence, std::span<const int32_t> tokens);
  /// Publishes the full blocks of `tokens`, which the sequence holds from
  /// `first` on; that is where the last publish ended.
  Status publish(Sequence &sequence, int64_t first, std::span<const int32_t> tokens);
  int64_t publishedTokens(const Sequence &sequence) const {
    return sequence.numBlocks * index_.blockTokens();
  }
  /// Forgets every block that no sequence uses.
  void dropCached();

  /// Copies to be made, in this order, before anything is written to the pages
  /// they name. They are kept until copiesDone.
  std::span<const PageCopy> copies() const { return copies_; }
  void copiesDone();

  /// Moves the pages with the highest indices to unused ones at the front, `most` of
  /// each pool; the bytes follow by copies(), of which there must be none before.
  /// Returns the number of pages.
  int64_t compact(int64_t most);

  /// Becomes what `other` is, a cache of the same pools. All ids become foreign.
  void takeFrom(KVCache &other);

  Status setWatermark(size_t pool, int64_t numPages);
  /// Slot of the row that token `position` completes; -1 if it completes none
  /// or if its page has left the window.
  int64_t slot(size_t pool, const Sequence &sequence, int64_t position) const;

  /// For each page of a pool, how many of its rows are kept.
  std::vector<int32_t> usedRows(size_t pool = 0) const;

  /// Proves every invariant, or says which one is broken (CacheCheck.cpp).
  bool check(std::string &problem) const;
  /// Pools, sequences and blocks as text (CacheCheck.cpp).
  std::string dump() const;

  /// Guards everything. The C API takes it: shared for what is const here,
  /// exclusively for the rest. Taken after an engine's lock, before a device's.
  mutable std::shared_mutex mutex;

private:
  friend class CacheSnapshot;

  // Of ids.
  static constexpr uint64_t kIndexBits = 24, kGenerationBits = 24;
  static constexpr uint64_t kIndexMask = (1 << kIndexBits) - 1;
  static constexpr uint64_t kGenerationMask = (1 << kGenerationBits) - 1;

  int64_t rowsOf(size_t pool, int64_t tokens) const {
    int64_t tokensPerRow = specs_[pool].tokensPerRow;
    return tokensPerRow == 1 ? tokens : tokens / tokensPerRow;
  }
  /// Entry of the table with row `row`.
  int64_t entryOf(size_t pool, int64_t row) const { return byPage[pool](row); }
  /// Whether the first new row would go to a page that others read.
  bool needsCopy(size_t pool, const Sequence &sequence, int64_t numTokens) const {
    int64_t rows = rowsOf(pool, sequence.length);
    if (rowsOf(pool, numTokens) <= rows)
      return false;
    auto entry = static_cast<size_t>(entryOf(pool, rows));
    const std::vector<int32_t> &table = sequence.table(pool);
    return entry < table.size() && !pools[pool].isPrivate(table[entry]);
  }
  Status allocateSequence(uint64_t &index);
  mla_sequence idOf(uint64_t index) const {
    return cacheId << (kIndexBits + kGenerationBits) |
           uint64_t(sequences[index].generation) << kIndexBits | index;
  }
  Status locate(mla_sequence id, uint64_t &index) const;
  bool hasPages(size_t pool, int64_t count, bool isFirst);
  Status reserve(Sequence &sequence, int64_t numTokens, bool mindsWatermark);
  void grow(Sequence &sequence, int64_t numTokens);
  void makeUnused(size_t pool, int64_t count);
  void evict(size_t pool, int32_t page);
  void evictBlock(int32_t block);
  void copyOnWrite(size_t pool, Sequence &sequence, int64_t entry);
  void releaseAll(Sequence &sequence);
  void unpublish(Sequence &sequence, int64_t numTokens);
  int64_t firstInWindow(size_t pool, int64_t position) const;
  Status checkWindow(const Sequence &sequence, int64_t numTokens) const;
  Status checkAppend(mla_sequence id, int64_t position, int32_t count, Sequence *&sequence);
  void sharePages(const Sequence &from, Sequence &to, int64_t numTokens);
  int64_t usableBlocks(int32_t last, int64_t count) const;
  void takeBlocks(Sequence &sequence, int32_t last, int64_t count);
  void adopt(Sequence &sequence, int32_t block);
  bool canPublish(const Sequence &sequence) const;
  void ownPages(Sequence &sequence, int32_t block);
  int64_t moveToFront(size_t pool, int64_t most, std::vector<int32_t> &movedTo);
  void replacePages(size_t pool, const std::vector<int32_t> &movedTo);
  void noteEdit(Sequence &sequence) {
    ++sequence.edits;
    ++numEdits_;
  }
  size_t firstPageOf(size_t pool) const { return blockOffsets[pool]; }

  /// Calls function(pool, entry of the table, place in the block's pages) for
  /// every page of block number `number`.
  template <typename Function> void forPagesOf(int64_t number, Function function) const {
    for (size_t pool = 0; pool < specs_.size(); ++pool)
      for (size_t i = 0, count = blockOffsets[pool + 1] - blockOffsets[pool]; i < count; ++i)
        function(pool, static_cast<size_t>(number) * count + i, blockOffsets[pool] + i);
  }

  std::vector<PoolSpec> specs_;
  std::string format_;
  int64_t maxSeqLen_;
  bool hasWindows_ = false;
  std::vector<PagePool> pools;
  std::vector<Divider> byPage;      // rows of a page
  std::vector<size_t> blockOffsets; // where a pool's pages start in a block; and the end
  PrefixIndex index_;
  uint64_t cacheId;
  int64_t numSequences_ = 0;
  uint64_t appendStamp = 0;
  std::atomic<uint64_t> numEdits_ = 0;
  std::vector<Sequence> sequences;
  std::vector<uint32_t> freeIndices;
  std::vector<PageCopy> copies_;
  Counters counters_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_KVCACHE_H
