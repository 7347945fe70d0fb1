//===- CacheSharing.cpp - fork, publish, match, evict -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of KVCache that shares pages between sequences. A published block
// owns its pages: they are immutable, and stay when the last sequence leaves.
//
// A sequence's published blocks are a path from the root of the index, and the
// sequence has their pages in every pool (a window may have left them). So a
// block in use is never evicted: its pages are referenced, and so are those of
// all blocks before it.
//
//===----------------------------------------------------------------------===//

#include "cache/KVCache.h"

#include <algorithm>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Fork
//===----------------------------------------------------------------------===//

void KVCache::sharePages(const Sequence &from, Sequence &to, int64_t numTokens) {
  for (size_t pool = 0; pool < specs_.size(); ++pool) {
    const std::vector<int32_t> &table = from.table(pool);
    int64_t count = pagesOf(pool, numTokens);
    to.table(pool).assign(table.begin(), table.begin() + count);
    to.numGivenBack[pool] = std::min(from.numGivenBack[pool], count);
    for (int64_t i = to.numGivenBack[pool]; i < count; ++i)
      pools[pool].share(table[static_cast<size_t>(i)]);
  }
}

Status KVCache::fork(mla_sequence parentId, int64_t numTokens, mla_sequence &child) {
  Sequence *parent;
  MLAC_RETURN_IF_ERROR(find(parentId, parent));
  if (numTokens < 0 || numTokens > parent->length)
    return error(MLA_INVALID_ARGUMENT, "cannot fork at ", numTokens, " tokens, length is ",
                 parent->length);
  MLAC_RETURN_IF_ERROR(checkWindow(*parent, numTokens));
  mla_sequence id;
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(create(id));
  // Making one may have moved the other.
  MLAC_RETURN_IF_ERROR(find(parentId, parent));
  MLAC_RETURN_IF_ERROR(find(id, sequence));
  sharePages(*parent, *sequence, numTokens);
  sequence->length = numTokens;
  sequence->numBlocks = parent->numBlocks;
  sequence->lastBlock = parent->lastBlock;
  unpublish(*sequence, numTokens);
  child = id;
  return Status();
}

/// Steps back to the last published block that ends within `numTokens`.
void KVCache::unpublish(Sequence &sequence, int64_t numTokens) {
  while (publishedTokens(sequence) > numTokens) {
    sequence.lastBlock = index_.parent(sequence.lastBlock);
    --sequence.numBlocks;
  }
}

//===----------------------------------------------------------------------===//
// Publish
//===----------------------------------------------------------------------===//

/// Replaces the next block's pages by those of an equal published block.
void KVCache::adopt(Sequence &sequence, int32_t block) {
  forPagesOf(sequence.numBlocks, [&](size_t pool, size_t entry, size_t place) {
    if (static_cast<int64_t>(entry) < sequence.numGivenBack[pool])
      return;
    int32_t &own = sequence.table(pool)[entry];
    int32_t &theirs = index_.pages(block)[place];
    if (own == theirs)
      return;
    if (theirs == PrefixIndex::kNone) { // its window page was evicted
      if (pools[pool].owner(own) == PagePool::kNone) {
        theirs = own;
        pools[pool].setOwner(own, block);
      }
      return;
    }
    pools[pool].share(theirs);
    pools[pool].release(own);
    own = theirs;
    noteEdit(sequence);
    ++counters_.mergedPages;
  });
}

/// Whether no page of the next block belongs to another block. It does where a
/// block of several pages was shared in part.
bool KVCache::canPublish(const Sequence &sequence) const {
  bool isFree = true;
  forPagesOf(sequence.numBlocks, [&](size_t pool, size_t entry, size_t) {
    if (static_cast<int64_t>(entry) >= sequence.numGivenBack[pool])
      isFree &= pools[pool].owner(sequence.table(pool)[entry]) == PagePool::kNone;
  });
  return isFree;
}

void KVCache::ownPages(Sequence &sequence, int32_t block) {
  forPagesOf(sequence.numBlocks, [&](size_t pool, size_t entry, size_t place) {
    if (static_cast<int64_t>(entry) < sequence.numGivenBack[pool])
      return;
    int32_t page = sequence.table(pool)[entry];
    index_.pages(block)[place] = page;
    pools[pool].setOwner(page, block);
  });
}

Status KVCache::publish(Sequence &sequence, int64_t first, std::span<const int32_t> tokens) {
  int64_t end = first + static_cast<int64_t>(tokens.size());
  if (first != publishedTokens(sequence))
    return error(MLA_INVALID_ARGUMENT, "publish from token ", first,
                 ", the sequence's published tokens end at ", publishedTokens(sequence));
  if (end > sequence.length)
    return error(MLA_INVALID_ARGUMENT, "publish of tokens ", first, " to ", end, ", length is ",
                 sequence.length);
  for (; publishedTokens(sequence) + index_.blockTokens() <= end; ++sequence.numBlocks) {
    const int32_t *block = tokens.data() + (publishedTokens(sequence) - first);
    int32_t found = index_.find(sequence.lastBlock, block);
    if (found != PrefixIndex::kNone) {
      adopt(sequence, found);
    } else if (canPublish(sequence)) {
      found = index_.insert(sequence.lastBlock, block);
      ownPages(sequence, found);
    } else {
      break;
    }
    sequence.lastBlock = found;
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Match
//===----------------------------------------------------------------------===//

/// Of the `count` blocks that end in `last`, how many a sequence can start from:
/// the windows of the next token must be there.
int64_t KVCache::usableBlocks(int32_t last, int64_t count) const {
  for (; count > 0; last = index_.parent(last), --count) {
    int64_t position = count * index_.blockTokens();
    bool isThere = true;
    int32_t block = last;
    for (int64_t number = count - 1; number >= 0 && isThere; --number) {
      bool isSeen = false;
      forPagesOf(number, [&](size_t pool, size_t entry, size_t place) {
        if (!specs_[pool].isWindow() || static_cast<int64_t>(entry) < firstInWindow(pool, position))
          return;
        isSeen = true;
        isThere &= index_.pages(block)[place] != PrefixIndex::kNone;
      });
      if (!isSeen)
        break;
      block = index_.parent(block);
    }
    if (isThere)
      return count;
  }
  return 0;
}

/// Gives the sequence the `count` blocks that end in `last`.
void KVCache::takeBlocks(Sequence &sequence, int32_t last, int64_t count) {
  int64_t position = count * index_.blockTokens();
  for (size_t pool = 0; pool < specs_.size(); ++pool) {
    sequence.table(pool).assign(static_cast<size_t>(pagesOf(pool, position)), kGivenBack);
    sequence.numGivenBack[pool] = firstInWindow(pool, position);
  }
  int32_t block = last;
  for (int64_t number = count - 1; number >= 0; --number, block = index_.parent(block))
    forPagesOf(number, [&](size_t pool, size_t entry, size_t place) {
      if (static_cast<int64_t>(entry) < sequence.numGivenBack[pool])
        return;
      int32_t page = index_.pages(block)[place];
      sequence.table(pool)[entry] = page;
      pools[pool].share(page);
    });
  noteEdit(sequence);
  sequence.length = position;
  sequence.numBlocks = count;
  sequence.lastBlock = last;
}

Status KVCache::match(Sequence &sequence, std::span<const int32_t> tokens) {
  if (sequence.length > 0 || !sequence.pages.empty())
    return error(MLA_INVALID_ARGUMENT, "match needs an empty sequence, this one has ",
                 sequence.length, " tokens and ", sequence.pages.size(), " pages");
  auto numTokens = static_cast<int64_t>(tokens.size());
  if (numTokens > maxSeqLen_)
    return error(MLA_INVALID_ARGUMENT, "match of ", numTokens,
                 " tokens, limit max_seq_len = ", maxSeqLen_);
  // One token is left to compute: its output is what the caller wants.
  int64_t most = std::max<int64_t>(numTokens - 1, 0) / index_.blockTokens(), count = 0;
  int32_t last = PrefixIndex::kNone;
  for (; count < most; ++count) {
    int32_t next = index_.find(last, tokens.data() + count * index_.blockTokens());
    if (next == PrefixIndex::kNone)
      break;
    last = next;
  }
  int64_t usable = usableBlocks(last, count);
  for (; count > usable; --count)
    last = index_.parent(last);
  takeBlocks(sequence, last, usable);
  counters_.lookupTokens += numTokens;
  counters_.hitTokens += sequence.length;
  return Status();
}

//===----------------------------------------------------------------------===//
// Eviction
//===----------------------------------------------------------------------===//

/// Makes a cached page unused. A window's page goes alone; any other goes with
/// its block, which is nothing without it.
void KVCache::evict(size_t pool, int32_t page) {
  int32_t block = pools[pool].owner(page);
  if (!specs_[pool].isWindow())
    return evictBlock(block);
  for (int32_t &entry :
       index_.pages(block).subspan(blockOffsets[pool], blockOffsets[pool + 1] - blockOffsets[pool]))
    if (entry == page)
      entry = PrefixIndex::kNone;
  pools[pool].dropOwner(page);
  ++counters_.evictedPages;
}

/// Evicts a block and all behind it, leaves first. None is in use: a sequence
/// has the pages of every block before its last.
void KVCache::evictBlock(int32_t top) {
  int32_t block = top;
  while (true) {
    while (index_.firstChild(block) != PrefixIndex::kNone)
      block = index_.firstChild(block);
    int32_t parent = index_.parent(block);
    forPagesOf(0, [&](size_t pool, size_t, size_t place) {
      int32_t page = index_.pages(block)[place];
      if (page == PrefixIndex::kNone)
        return;
      pools[pool].dropOwner(page);
      ++counters_.evictedPages;
    });
    index_.erase(block);
    ++counters_.evictedBlocks;
    if (block == top)
      return;
    block = parent;
  }
}

void KVCache::dropCached() {
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    makeUnused(pool, pools[pool].numFree());
}

void KVCache::copiesDone() {
  for (const PageCopy &copy : copies_) {
    pools[copy.pool].unpin(copy.from);
    pools[copy.pool].unpin(copy.to);
  }
  copies_.clear();
}
