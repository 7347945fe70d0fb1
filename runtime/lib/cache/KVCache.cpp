//===- KVCache.cpp - sequences and their block tables -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/KVCache.h"

#include "base/DataType.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>

using namespace mlac::runtime;

static constexpr uint64_t kCacheMask = 0xffff;

// Upper limits: generous, and small enough that their products stay in int64.
static constexpr int64_t kMaxPageRows = 1 << 16;
static constexpr int64_t kMaxTokensPerRow = 1 << 16;
static constexpr int64_t kMaxBlockTokens = 1 << 24;

/// Cache ids start at 1, so that no sequence id is 0.
static uint64_t nextCacheId() {
  static std::atomic<uint64_t> counter{0};
  return counter++ % kCacheMask + 1;
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// Tokens of a published block: whole pages of every pool.
static int64_t tokensOfBlock(const std::vector<PoolSpec> &specs) {
  int64_t tokens = 1;
  for (const PoolSpec &spec : specs)
    tokens = std::lcm(tokens, spec.pageTokens());
  return tokens;
}

static std::vector<size_t> offsetsOfBlock(const std::vector<PoolSpec> &specs) {
  std::vector<size_t> offsets = {0};
  for (const PoolSpec &spec : specs)
    offsets.push_back(offsets.back() +
                      static_cast<size_t>(tokensOfBlock(specs) / spec.pageTokens()));
  return offsets;
}

/// A block has pages in every pool without a window as long as it lives.
static int64_t mostBlocks(const std::vector<PoolSpec> &specs) {
  int64_t tokens = tokensOfBlock(specs), most = std::numeric_limits<int32_t>::max();
  for (const PoolSpec &spec : specs)
    if (!spec.isWindow())
      most = std::min(most, spec.numPages / (tokens / spec.pageTokens()));
  return most;
}

static Status checkRange(const PoolSpec &spec, const char *what, int64_t value, int64_t low,
                         int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "pool '", spec.name, "': ", what, " = ", value, ", expected ",
               low, " to ", high);
}

Status KVCache::checkSpecs(const std::vector<PoolSpec> &specs, int64_t maxSeqLen) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  if (specs.empty() || specs.size() > kMaxPools)
    return error(MLA_INVALID_ARGUMENT, "num_pools = ", specs.size(), ", expected 1 to ", kMaxPools);
  if (maxSeqLen < 1 || maxSeqLen > kMaxInt32)
    return error(MLA_INVALID_ARGUMENT, "max_seq_len = ", maxSeqLen, ", expected 1 to ", kMaxInt32);
  int64_t tokens = 1;
  for (const PoolSpec &spec : specs) {
    MLAC_RETURN_IF_ERROR(checkRange(spec, "num_pages", spec.numPages, 1, kGivenBack - 1));
    MLAC_RETURN_IF_ERROR(checkRange(spec, "page_rows", spec.pageRows, 1, kMaxPageRows));
    MLAC_RETURN_IF_ERROR(
        checkRange(spec, "tokens_per_row", spec.tokensPerRow, 1, kMaxTokensPerRow));
    MLAC_RETURN_IF_ERROR(checkRange(spec, "window_tokens", spec.windowTokens, 0, kMaxInt32));
    MLAC_RETURN_IF_ERROR(checkRange(spec, "watermark_pages", spec.watermark, 0, spec.numPages));
    tokens = std::lcm(tokens, spec.pageTokens());
    if (tokens > kMaxBlockTokens)
      return error(MLA_INVALID_ARGUMENT, "pool '", spec.name, "': the pools' pages have ", tokens,
                   " tokens in common, expected at most ", kMaxBlockTokens);
  }
  if (specs[0].isWindow() || specs[0].tokensPerRow != 1)
    return error(MLA_INVALID_ARGUMENT, "pool '", specs[0].name,
                 "': the first pool keeps a row of every token, got tokens_per_row = ",
                 specs[0].tokensPerRow, ", window_tokens = ", specs[0].windowTokens);
  return Status();
}

KVCache::KVCache(int64_t numPages, int64_t pageSize, int64_t maxSeqLen)
    : KVCache({{"latent", numPages, pageSize}}, maxSeqLen) {}

KVCache::KVCache(std::vector<PoolSpec> specs, int64_t maxSeqLen, std::string format,
                 uint64_t hashMask)
    : specs_(std::move(specs)), format_(std::move(format)), maxSeqLen_(maxSeqLen),
      blockOffsets(offsetsOfBlock(specs_)),
      index_(mostBlocks(specs_), tokensOfBlock(specs_), static_cast<int64_t>(blockOffsets.back()),
             hashMask),
      cacheId(nextCacheId()) {
  int64_t numPages = 0;
  for (const PoolSpec &spec : specs_) {
    pools.emplace_back(spec.numPages);
    byPage.emplace_back(spec.pageRows);
    numPages += spec.numPages;
    hasWindows_ |= spec.isWindow();
  }
  // Every copy holds a page of its own until it is done.
  copies_.reserve(static_cast<size_t>(numPages));
}

void KVCache::takeFrom(KVCache &other) {
  pools = std::move(other.pools);
  index_ = std::move(other.index_);
  numSequences_ = other.numSequences_;
  sequences = std::move(other.sequences);
  freeIndices = std::move(other.freeIndices);
  cacheId = other.cacheId;
  ++numEdits_;
}

Status KVCache::setWatermark(size_t pool, int64_t numPages) {
  MLAC_RETURN_IF_ERROR(
      checkRange(specs_[pool], "watermark_pages", numPages, 0, specs_[pool].numPages));
  specs_[pool].watermark = numPages;
  return Status();
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// A dead sequence with room for its longest tables; it is last in freeIndices.
Status KVCache::allocateSequence(uint64_t &index) {
  if (freeIndices.empty()) {
    if (sequences.size() > kIndexMask)
      return error(MLA_INVALID_ARGUMENT, "more than ", kIndexMask + 1, " sequences at a time");
    if (freeIndices.capacity() <= sequences.size())
      freeIndices.reserve(2 * sequences.size() + 1);
    sequences.emplace_back();
    freeIndices.push_back(static_cast<uint32_t>(sequences.size() - 1));
  }
  index = freeIndices.back();
  Sequence &sequence = sequences[index];
  sequence.others.resize(specs_.size() - 1);
  sequence.numGivenBack.assign(specs_.size(), 0);
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    sequence.table(pool).reserve(static_cast<size_t>(pagesOf(pool, maxSeqLen_)));
  return Status();
}

Status KVCache::create(mla_sequence &id) {
  uint64_t index;
  MLAC_RETURN_IF_ERROR(allocateSequence(index));
  freeIndices.pop_back();
  Sequence &sequence = sequences[index];
  sequence.isLive = true;
  sequence.length = 0;
  ++numSequences_;
  id = idOf(index);
  return Status();
}

Status KVCache::locate(mla_sequence id, uint64_t &index) const {
  index = id & kIndexMask;
  uint64_t generation = id >> kIndexBits & kGenerationMask;
  if (id >> (kIndexBits + kGenerationBits) != cacheId)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " is not of this engine");
  if (index >= sequences.size() || !sequences[index].isLive ||
      sequences[index].generation != generation)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " has been freed");
  return Status();
}

Status KVCache::find(mla_sequence id, Sequence *&sequence) {
  sequence = findLive(id);
  uint64_t index;
  return sequence ? Status() : locate(id, index);
}

Status KVCache::find(mla_sequence id, const Sequence *&sequence) const {
  sequence = findLive(id);
  uint64_t index;
  return sequence ? Status() : locate(id, index);
}

std::vector<mla_sequence> KVCache::ids() const {
  std::vector<mla_sequence> result;
  for (uint64_t index = 0; index < sequences.size(); ++index)
    if (sequences[index].isLive)
      result.push_back(idOf(index));
  return result;
}

/// Last pages first: so blocks become the oldest before those they continue.
void KVCache::releaseAll(Sequence &sequence) {
  for (size_t pool = 0; pool < specs_.size(); ++pool) {
    shrink(pool, sequence, 0);
    sequence.numGivenBack[pool] = 0;
  }
  sequence.numBlocks = 0;
  sequence.lastBlock = PrefixIndex::kNone;
}

Status KVCache::free(mla_sequence id) {
  uint64_t index;
  MLAC_RETURN_IF_ERROR(locate(id, index));
  Sequence &sequence = sequences[index];
  releaseAll(sequence);
  sequence.isLive = false;
  sequence.length = 0;
  sequence.lastStep = sequence.lastAppend = 0;
  sequence.generation = (sequence.generation + 1) & kGenerationMask;
  freeIndices.push_back(static_cast<uint32_t>(index));
  --numSequences_;
  ++numEdits_;
  return Status();
}

//===----------------------------------------------------------------------===//
// Growing
//===----------------------------------------------------------------------===//

/// `isFirst`: for sequences that have no page yet, which leave the watermark.
bool KVCache::hasPages(size_t pool, int64_t count, bool isFirst) {
  int64_t kept = isFirst ? specs_[pool].watermark : 0;
  if (count == 0 || count <= pools[pool].numFree() - kept)
    return true;
  ++counters_.refusals;
  return false;
}

/// Evicts until `count` pages are unused; there are so many free ones.
void KVCache::makeUnused(size_t pool, int64_t count) {
  while (pools[pool].numUnused() < count)
    evict(pool, pools[pool].oldestCached());
}

/// Gives the sequence a page of its own in place of a shared one.
void KVCache::copyOnWrite(size_t pool, Sequence &sequence, int64_t entry) {
  makeUnused(pool, 1);
  int32_t &page = sequence.table(pool)[static_cast<size_t>(entry)];
  int32_t from = page;
  page = pools[pool].takeOne();
  copies_.push_back({static_cast<int32_t>(pool), from, page});
  pools[pool].pin(from);
  pools[pool].pin(page);
  pools[pool].release(from);
  noteEdit(sequence);
  ++counters_.copiedPages;
}

/// The pages are there. Does not allocate.
void KVCache::grow(Sequence &sequence, int64_t numTokens) {
  for (size_t pool = 0; pool < specs_.size(); ++pool) {
    if (needsCopy(pool, sequence, numTokens))
      copyOnWrite(pool, sequence, entryOf(pool, rowsOf(pool, sequence.length)));
    std::vector<int32_t> &table = sequence.table(pool);
    int64_t missing = pagesOf(pool, numTokens) - static_cast<int64_t>(table.size());
    if (missing <= 0)
      continue;
    makeUnused(pool, missing);
    (void)pools[pool].take(missing, table);
  }
}

Status KVCache::reserve(Sequence &sequence, int64_t numTokens) {
  return reserve(sequence, numTokens, /*mindsWatermark=*/false);
}

Status KVCache::admit(Sequence &sequence, int64_t numTokens) {
  return reserve(sequence, numTokens, /*mindsWatermark=*/true);
}

Status KVCache::reserve(Sequence &sequence, int64_t numTokens, bool mindsWatermark) {
  if (numTokens < 0 || numTokens > maxSeqLen_)
    return error(MLA_INVALID_ARGUMENT, "sequence of ", numTokens,
                 " tokens, limit max_seq_len = ", maxSeqLen_);
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    if (!hasPages(pool, missingPages(pool, sequence, numTokens),
                  mindsWatermark && sequence.table(pool).empty()))
      return Status(MLA_OUT_OF_PAGES, {});
  grow(sequence, numTokens);
  return Status();
}

Status KVCache::checkAppend(mla_sequence id, int64_t position, int32_t count, Sequence *&sequence) {
  MLAC_RETURN_IF_ERROR(find(id, sequence));
  if (sequence->lastAppend == appendStamp)
    return error(MLA_INVALID_ARGUMENT, "sequence ", id, " occurs twice: its appends would overlap");
  if (position != sequence->length)
    return error(MLA_INVALID_ARGUMENT, "position ", position,
                 position < sequence->length ? " goes backwards" : " leaves a gap",
                 ", the sequence's next position is ", sequence->length);
  if (count < 0 || count > maxSeqLen_ - sequence->length)
    return error(MLA_INVALID_ARGUMENT, "append of ", count, " tokens at position ", position,
                 ", limit max_seq_len = ", maxSeqLen_);
  sequence->lastAppend = appendStamp;
  return Status();
}

Status KVCache::append(int64_t numRequests, const mla_sequence *ids, const int64_t *positions,
                       const int32_t *counts) {
  ++appendStamp;
  Sequence *sequence;
  std::array<int64_t, kMaxPools> missing{}, missingFirst{};
  for (int64_t i = 0; i < numRequests; ++i) {
    Status status = checkAppend(ids[i], positions[i], counts[i], sequence);
    if (!status.isOk())
      return status.in(concat("request ", i));
    for (size_t pool = 0; pool < specs_.size(); ++pool) {
      int64_t count = missingPages(pool, *sequence, sequence->length + counts[i]);
      missing[pool] += count;
      missingFirst[pool] += sequence->table(pool).empty() ? count : 0;
    }
  }
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    if (!hasPages(pool, missing[pool], missingFirst[pool] > 0))
      return Status(MLA_OUT_OF_PAGES, {});
  for (int64_t i = 0; i < numRequests; ++i) {
    sequence = &sequences[ids[i] & kIndexMask];
    grow(*sequence, sequence->length + counts[i]);
    // The step's first query still sees the window behind its position.
    leaveWindows(*sequence, sequence->length);
    sequence->length += counts[i];
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Shrinking
//===----------------------------------------------------------------------===//

void KVCache::shrink(size_t pool, Sequence &sequence, int64_t numPages) {
  std::vector<int32_t> &table = sequence.table(pool);
  while (static_cast<int64_t>(table.size()) > numPages) {
    if (static_cast<int64_t>(table.size()) > sequence.numGivenBack[pool])
      pools[pool].release(table.back());
    table.pop_back();
    noteEdit(sequence);
  }
}

/// First entry of the table that a query at `position` reads.
int64_t KVCache::firstInWindow(size_t pool, int64_t position) const {
  const PoolSpec &spec = specs_[pool];
  if (!spec.isWindow())
    return 0;
  return std::max<int64_t>(0, position + 1 - spec.windowTokens) / spec.pageTokens();
}

void KVCache::leaveWindows(Sequence &sequence, int64_t position) {
  if (!hasWindows_)
    return;
  for (size_t pool = 0; pool < specs_.size(); ++pool) {
    if (!specs_[pool].isWindow())
      continue;
    int64_t end = firstInWindow(pool, position);
    giveBack(pool, sequence, std::min(end, static_cast<int64_t>(sequence.table(pool).size())));
  }
}

int64_t KVCache::countLeaving(size_t pool, const Sequence &sequence, int64_t position) const {
  const std::vector<int32_t> &table = sequence.table(pool);
  int64_t end = std::min(firstInWindow(pool, position), static_cast<int64_t>(table.size()));
  int64_t count = 0;
  for (int64_t entry = sequence.numGivenBack[pool]; entry < end; ++entry)
    count += pools[pool].numReferences(table[static_cast<size_t>(entry)]) == 1;
  return count;
}

void KVCache::giveBack(size_t pool, Sequence &sequence, int64_t entries) {
  std::vector<int32_t> &table = sequence.table(pool);
  for (int64_t &entry = sequence.numGivenBack[pool]; entry < entries; ++entry) {
    pools[pool].release(table[static_cast<size_t>(entry)]);
    table[static_cast<size_t>(entry)] = kGivenBack;
    noteEdit(sequence);
  }
}

/// Whether the windows of a sequence cut to `numTokens` are still there.
Status KVCache::checkWindow(const Sequence &sequence, int64_t numTokens) const {
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    if (firstInWindow(pool, numTokens) < sequence.numGivenBack[pool])
      return error(MLA_INVALID_ARGUMENT, "cannot go back to ", numTokens, " tokens: pool '",
                   specs_[pool].name, "' has given back the first ",
                   sequence.numGivenBack[pool] * specs_[pool].pageTokens(),
                   " tokens, which a window of ", specs_[pool].windowTokens, " tokens still sees");
  return Status();
}

Status KVCache::truncate(Sequence &sequence, int64_t numTokens) {
  if (numTokens < 0 || numTokens > sequence.length)
    return error(MLA_INVALID_ARGUMENT, "cannot truncate to ", numTokens, " tokens, length is ",
                 sequence.length);
  MLAC_RETURN_IF_ERROR(checkWindow(sequence, numTokens));
  sequence.length = numTokens;
  unpublish(sequence, numTokens);
  for (size_t pool = 0; pool < specs_.size(); ++pool)
    shrink(pool, sequence, pagesOf(pool, numTokens));
  return Status();
}

void KVCache::clear(Sequence &sequence) {
  releaseAll(sequence);
  sequence.length = 0;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

int64_t KVCache::slot(size_t pool, const Sequence &sequence, int64_t position) const {
  const PoolSpec &spec = specs_[pool];
  if (spec.tokensPerRow > 1 && (position + 1) % spec.tokensPerRow != 0)
    return -1;
  int64_t row = rowsOf(pool, position), entry = entryOf(pool, row);
  if (entry < sequence.numGivenBack[pool])
    return -1;
  int64_t page = sequence.table(pool)[static_cast<size_t>(entry)];
  return page * spec.pageRows + row - entry * spec.pageRows;
}

std::vector<int32_t> KVCache::usedRows(size_t index) const {
  const PagePool &pool = pools[index];
  std::vector<int32_t> rows(pool.numPages(), 0);
  int64_t pageRows = specs_[index].pageRows;
  for (int32_t page = 0; page < pool.numPages(); ++page)
    if (pool.owner(page) != PagePool::kNone)
      rows[page] = static_cast<int32_t>(pageRows);
  for (const PageCopy &copy : copies_)
    if (copy.pool == static_cast<int32_t>(index))
      rows[copy.from] = static_cast<int32_t>(pageRows);
  for (const Sequence &sequence : sequences) {
    if (!sequence.isLive)
      continue;
    const std::vector<int32_t> &table = sequence.table(index);
    int64_t kept = rowsOf(index, sequence.length);
    for (auto i = static_cast<size_t>(sequence.numGivenBack[index]); i < table.size(); ++i) {
      int64_t used = std::clamp<int64_t>(kept - static_cast<int64_t>(i) * pageRows, 0, pageRows);
      int32_t &row = rows[table[i]];
      row = std::max(row, static_cast<int32_t>(used));
    }
  }
  return rows;
}
