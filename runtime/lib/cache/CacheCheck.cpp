//===- CacheCheck.cpp - the cache's invariants, and its dump ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What must hold between any two calls, recomputed from scratch:
//
//  (I1) every page of a pool is unused, cached or used, and in one list only
//  (I2) a page's references are its entries in block tables and its copies
//  (I3) a page's owner is a live block that names the page, and no other does
//  (I4) a block has all its pages in pools without a window
//  (I5) a table has the pages of the sequence's length, live behind its window
//  (I6) a sequence's published blocks are its first pages (windows aside), and a path
//       from the root of the index
//  (I7) rows behind a sequence's length can be written by nobody else
//  (I8) dead sequences have nothing, and are exactly those on the free list
//
// The snapshot's reader relies on it: a file that passes is harmless.
//
//===----------------------------------------------------------------------===//

#include "cache/KVCache.h"

#include "base/DataType.h"

#include <algorithm>

using namespace mlac::runtime;

namespace {
/// Collects what check() needs and says the first thing that is wrong.
class Checker {
public:
  Checker(const KVCache &cache, const std::vector<Sequence> &sequences, std::string &problem)
      : cache(cache), sequences(sequences), problem(problem) {
    for (size_t pool = 0; pool < cache.numPools(); ++pool)
      references.emplace_back(cache.pool(pool).numPages(), 0);
  }

  bool checkPools();
  bool checkSequence(size_t index);
  bool checkTable(size_t index, size_t pool);
  bool checkFreeIndices(const std::vector<uint32_t> &freeIndices, int64_t numLive);
  bool countCopies();
  bool checkReferences();

  template <typename... Parts> bool fail(const Parts &...parts) {
    problem = concat(parts...);
    return false;
  }

private:
  const KVCache &cache;
  const std::vector<Sequence> &sequences;
  std::string &problem;
  std::vector<std::vector<int32_t>> references; // by pool and page
};
} // namespace

bool Checker::checkPools() {
  for (size_t pool = 0; pool < cache.numPools(); ++pool)
    if (!cache.pool(pool).isConsistent(&problem))
      return fail("pool '", cache.spec(pool).name, "': ", std::string(problem));
  return cache.index().isConsistent(problem);
}

/// (I5) and (I7) for one pool.
bool Checker::checkTable(size_t index, size_t pool) {
  const Sequence &sequence = sequences[index];
  const PoolSpec &spec = cache.spec(pool);
  const std::vector<int32_t> &table = sequence.table(pool);
  int64_t rows = sequence.length / spec.tokensPerRow, size = static_cast<int64_t>(table.size());
  int64_t most = ceilDiv(cache.maxSeqLen() / spec.tokensPerRow, spec.pageRows);
  if (size < ceilDiv(rows, spec.pageRows) || size > most)
    return fail("sequence ", index, " has ", size, " pages in pool '", spec.name, "' for ",
                sequence.length, " tokens");
  int64_t givenBack = sequence.numGivenBack[pool];
  // The next token sees the window's tokens, itself included.
  int64_t unseen =
      spec.isWindow() ? std::max<int64_t>(0, sequence.length + 1 - spec.windowTokens) : 0;
  if (givenBack < 0 || givenBack > size || givenBack > unseen / spec.pageTokens())
    return fail("sequence ", index, " has given back ", givenBack, " pages of pool '", spec.name,
                "'");
  for (int64_t i = 0; i < size; ++i) {
    int32_t page = table[static_cast<size_t>(i)];
    if (i < givenBack) {
      if (page != KVCache::kGivenBack)
        return fail("sequence ", index, " still names page ", page, " of pool '", spec.name, "'");
      continue;
    }
    if (page < 0 || page >= spec.numPages)
      return fail("sequence ", index, " names page ", page, " of pool '", spec.name, "', it has ",
                  spec.numPages);
    ++references[pool][page];
    if (i * spec.pageRows >= rows && !cache.pool(pool).isPrivate(page))
      return fail("sequence ", index, " shares page ", page, " of pool '", spec.name,
                  "', which holds none of its tokens");
  }
  return true;
}

bool Checker::checkSequence(size_t index) {
  const Sequence &sequence = sequences[index];
  if (!sequence.isLive)
    return sequence.length == 0 && sequence.pages.empty() && sequence.numBlocks == 0
               ? true
               : fail("dead sequence ", index, " has tokens, pages or blocks");
  if (sequence.length < 0 || sequence.length > cache.maxSeqLen())
    return fail("sequence ", index, " has ", sequence.length, " tokens");
  for (size_t pool = 0; pool < cache.numPools(); ++pool)
    if (!checkTable(index, pool))
      return false;
  // (I6)
  const PrefixIndex &blocks = cache.index();
  if (sequence.numBlocks < 0 || cache.publishedTokens(sequence) > sequence.length)
    return fail("sequence ", index, " has ", sequence.numBlocks, " blocks");
  int32_t block = sequence.lastBlock;
  for (int64_t number = sequence.numBlocks; number-- > 0; block = blocks.parent(block)) {
    if (!blocks.isLive(block) || blocks.depth(block) != number)
      return fail("sequence ", index, " has block ", block, " at place ", number);
    size_t place = 0;
    for (size_t pool = 0; pool < cache.numPools(); ++pool) {
      int64_t count = blocks.blockTokens() / cache.spec(pool).pageTokens();
      for (int64_t i = number * count; i < (number + 1) * count; ++i, ++place)
        // A window's page may be another with the same rows: the block's own was
        // evicted, and the sequence's belonged to a second block.
        if (!cache.spec(pool).isWindow() &&
            sequence.table(pool)[static_cast<size_t>(i)] != blocks.pages(block)[place])
          return fail("sequence ", index, " and its block ", block, " differ in entry ", i,
                      " of pool '", cache.spec(pool).name, "'");
    }
  }
  if (block != PrefixIndex::kNone)
    return fail("sequence ", index, " has blocks behind the root");
  return true;
}

bool Checker::checkFreeIndices(const std::vector<uint32_t> &freeIndices, int64_t numLive) {
  std::vector<bool> isListed(sequences.size());
  for (uint32_t index : freeIndices) {
    if (index >= sequences.size() || isListed[index] || sequences[index].isLive)
      return fail("sequence ", index, " is wrongly on the free list");
    isListed[index] = true;
  }
  int64_t live = 0;
  for (size_t index = 0; index < sequences.size(); ++index) {
    live += sequences[index].isLive;
    if (!sequences[index].isLive && !isListed[index])
      return fail("dead sequence ", index, " is not on the free list");
  }
  return live == numLive ? true : fail(live, " sequences live, counted ", numLive);
}

bool Checker::countCopies() {
  for (const PageCopy &copy : cache.copies()) {
    if (copy.from == copy.to)
      return fail("page ", copy.from, " is copied to itself");
    ++references[copy.pool][copy.from];
    ++references[copy.pool][copy.to];
  }
  return true;
}

/// (I2), (I3) and (I4).
bool Checker::checkReferences() {
  const PrefixIndex &blocks = cache.index();
  size_t place = 0;
  for (size_t pool = 0; pool < cache.numPools(); ++pool) {
    const PagePool &pages = cache.pool(pool);
    const PoolSpec &spec = cache.spec(pool);
    int64_t perBlock = blocks.blockTokens() / spec.pageTokens();
    std::vector<int32_t> owners(pages.numPages(), PagePool::kNone);
    for (int32_t block = 0; block < blocks.numEver(); ++block)
      for (int64_t i = 0; i < perBlock && blocks.isLive(block); ++i) {
        int32_t page = blocks.pages(block)[place + i];
        if (page == PagePool::kNone && spec.isWindow())
          continue;
        if (page < 0 || page >= pages.numPages() || owners[page] != PagePool::kNone)
          return fail("block ", block, " names page ", page, " of pool '", spec.name,
                      "', which is none or another's");
        owners[page] = block;
      }
    place += static_cast<size_t>(perBlock);
    for (int32_t page = 0; page < pages.numPages(); ++page) {
      if (pages.numReferences(page) != references[pool][page])
        return fail("page ", page, " of pool '", spec.name, "' has ", pages.numReferences(page),
                    " references, ", references[pool][page], " are held");
      if (pages.owner(page) != owners[page])
        return fail("page ", page, " of pool '", spec.name, "' has owner ", pages.owner(page),
                    ", block ", owners[page], " names it");
    }
  }
  return true;
}

bool KVCache::check(std::string &problem) const {
  Checker checker(*this, sequences, problem);
  if (!checker.checkPools() || !checker.checkFreeIndices(freeIndices, numSequences_))
    return false;
  for (size_t index = 0; index < sequences.size(); ++index)
    if (!checker.checkSequence(index))
      return false;
  return checker.countCopies() && checker.checkReferences();
}

//===----------------------------------------------------------------------===//
// Dump
//===----------------------------------------------------------------------===//

static void dumpTable(const std::vector<int32_t> &table, int64_t numGivenBack, std::string &text) {
  text += "[";
  for (size_t i = 0; i < table.size(); ++i) {
    text += i > 0 ? " " : "";
    text += static_cast<int64_t>(i) < numGivenBack ? "-" : std::to_string(table[i]);
  }
  text += "]";
}

std::string KVCache::dump() const {
  std::string text;
  for (size_t i = 0; i < pools.size(); ++i) {
    const PagePool &pool = pools[i];
    int64_t used = pool.numPages() - pool.numFree();
    text += concat("pool ", specs_[i].name, ": ", pool.numPages(), " pages of ", specs_[i].pageRows,
                   " rows, ", used, " used (", pool.numShared(), " shared), ", pool.numCached(),
                   " cached, ", pool.numUnused(), " unused, least free ", pool.leastFree(), "\n");
  }
  for (size_t index = 0; index < sequences.size(); ++index) {
    const Sequence &sequence = sequences[index];
    if (!sequence.isLive)
      continue;
    text += concat("sequence ", idOf(index), ": ", sequence.length, " tokens, ",
                   publishedTokens(sequence), " published");
    for (size_t pool = 0; pool < pools.size(); ++pool) {
      text += concat(", ", specs_[pool].name, " ");
      dumpTable(sequence.table(pool), sequence.numGivenBack[pool], text);
    }
    text += "\n";
  }
  for (int32_t block = 0; block < index_.numEver(); ++block)
    if (index_.isLive(block)) {
      text += concat("block ", block, ": behind ", index_.parent(block), ", pages ");
      std::span<const int32_t> pages = index_.pages(block);
      dumpTable({pages.begin(), pages.end()}, 0, text);
      text += "\n";
    }
  for (const PageCopy &copy : copies_)
    text += concat("copy ", specs_[copy.pool].name, ": page ", copy.from, " to ", copy.to, "\n");
  return text;
}
