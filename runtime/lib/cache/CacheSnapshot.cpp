//===- CacheSnapshot.cpp - a cache in a file --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/CacheSnapshot.h"

#include "base/DataType.h"
#include "cache/SnapshotFile.h"

#include <algorithm>
#include <cstring>

using namespace mlac::runtime;

static constexpr int32_t kNone = PagePool::kNone;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

class CacheSnapshot::Writer {
public:
  std::string bytes;

  void number(int64_t value) { bytes.append(reinterpret_cast<char *>(&value), sizeof value); }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    bytes.append(value);
    pad();
  }
  void list(std::span<const int32_t> values) {
    number(static_cast<int64_t>(values.size()));
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
    pad();
  }

private:
  void pad() { bytes.resize(roundUp(static_cast<int64_t>(bytes.size()), kSnapshotWord)); }
};

class CacheSnapshot::Reader {
public:
  explicit Reader(std::string_view bytes) : bytes(bytes) {}

  bool isAtEnd() const { return position == bytes.size(); }

  Status number(int64_t &value) {
    MLAC_RETURN_IF_ERROR(need(sizeof value));
    std::memcpy(&value, bytes.data() + position, sizeof value);
    position += sizeof value;
    return Status();
  }
  Status number(const char *what, int64_t low, int64_t high, int64_t &value) {
    MLAC_RETURN_IF_ERROR(number(value));
    if (value >= low && value <= high)
      return Status();
    return error(MLA_CORRUPT, "snapshot: ", what, " is ", value, ", expected ", low, " to ", high);
  }
  Status text(std::string &value) {
    int64_t size;
    MLAC_RETURN_IF_ERROR(count(1, size));
    value.assign(bytes.substr(position, static_cast<size_t>(size)));
    return skip(size);
  }
  Status list(const char *what, int64_t low, int64_t high, std::vector<int32_t> &values) {
    int64_t size;
    MLAC_RETURN_IF_ERROR(count(sizeof(int32_t), size));
    values.resize(static_cast<size_t>(size));
    if (size > 0)
      std::memcpy(values.data(), bytes.data() + position, values.size() * sizeof(int32_t));
    for (int32_t value : values)
      if (value < low || value > high)
        return error(MLA_CORRUPT, "snapshot: ", what, " has ", value, ", expected ", low, " to ",
                     high);
    return skip(size * static_cast<int64_t>(sizeof(int32_t)));
  }

private:
  Status need(size_t size) {
    if (size <= bytes.size() - position)
      return Status();
    return error(MLA_CORRUPT, "snapshot: the state ends at byte ", bytes.size(), " of ",
                 position + size);
  }
  /// A number of elements that the rest can hold: nothing is allocated before.
  Status count(size_t elementBytes, int64_t &size) {
    MLAC_RETURN_IF_ERROR(number(size));
    if (size >= 0 && static_cast<uint64_t>(size) <= (bytes.size() - position) / elementBytes)
      return Status();
    return error(MLA_CORRUPT, "snapshot: a list of ", size, " elements, ", bytes.size() - position,
                 " bytes are left");
  }
  Status skip(int64_t size) {
    MLAC_RETURN_IF_ERROR(need(static_cast<size_t>(roundUp(size, kSnapshotWord))));
    position += static_cast<size_t>(roundUp(size, kSnapshotWord));
    return Status();
  }

  std::string_view bytes;
  size_t position = 0;
};

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void CacheSnapshot::encodeConfig(const KVCache &cache, const PageBytes &pages, Writer &writer) {
  writer.text(cache.format_);
  writer.number(cache.maxSeqLen_);
  writer.number(pages.numLayers);
  writer.number(pages.ofPool(0));
  writer.number(static_cast<int64_t>(cache.specs_.size()));
  for (size_t pool = 0; pool < cache.specs_.size(); ++pool) {
    const PoolSpec &spec = cache.specs_[pool];
    writer.text(spec.name);
    for (int64_t value : {spec.numPages, spec.pageRows, spec.tokensPerRow, spec.windowTokens})
      writer.number(value);
    if (pool > 0 && pages.ofPool(pool) > 0)
      writer.number(pages.ofPool(pool));
  }
}

/// Live blocks, parents first, and the new number of each.
static std::vector<int32_t> orderBlocks(const PrefixIndex &index, std::vector<int32_t> &numbers) {
  std::vector<int32_t> order;
  for (int32_t block = 0; block < index.numEver(); ++block)
    if (index.isLive(block))
      order.push_back(block);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::pair(index.depth(a), a) < std::pair(index.depth(b), b);
  });
  numbers.assign(static_cast<size_t>(index.numEver()), kNone);
  for (size_t i = 0; i < order.size(); ++i)
    numbers[order[i]] = static_cast<int32_t>(i);
  return order;
}

std::string CacheSnapshot::encode(const KVCache &cache, const PageBytes &pages) {
  Writer writer;
  encodeConfig(cache, pages, writer);
  const PrefixIndex &index = cache.index_;
  std::vector<int32_t> numbers, order = orderBlocks(index, numbers);
  auto number = [&](int32_t block) { return block == kNone ? kNone : numbers[block]; };
  writer.number(static_cast<int64_t>(order.size()));
  for (int32_t block : order) {
    writer.number(number(index.parent(block)));
    writer.list({index.tokens(block), static_cast<size_t>(index.blockTokens())});
    writer.list(index.pages(block));
  }
  writer.number(static_cast<int64_t>(cache.sequences.size()));
  for (const Sequence &sequence : cache.sequences) {
    writer.number(sequence.generation);
    writer.number(sequence.isLive);
    if (!sequence.isLive)
      continue;
    writer.number(sequence.length);
    writer.number(sequence.numBlocks);
    writer.number(number(sequence.lastBlock));
    for (size_t pool = 0; pool < cache.numPools(); ++pool) {
      writer.number(sequence.numGivenBack[pool]);
      writer.list(sequence.table(pool));
    }
  }
  std::vector<int32_t> free(cache.freeIndices.begin(), cache.freeIndices.end());
  writer.list(free);
  for (const PagePool &pool : cache.pools) {
    std::vector<int32_t> cached;
    for (int32_t page = pool.oldestCached(); page != kNone; page = pool.nextCached(page))
      cached.push_back(page);
    writer.list(pool.unusedPages());
    writer.list(cached);
  }
  return std::move(writer.bytes);
}

/// Pages of a pool whose bytes are kept.
static std::vector<int32_t> keptPages(const KVCache &cache, size_t index) {
  std::vector<int32_t> kept;
  const PagePool &pool = cache.pool(index);
  for (int32_t page = 0; page < pool.numPages(); ++page)
    if (!pool.isFree(page) || pool.owner(page) != kNone)
      kept.push_back(page);
  return kept;
}

namespace {
/// The pages whose bytes follow the state, in this order, padded to whole words.
struct KeptBytes {
  struct Pool {
    std::vector<int32_t> pages;
    int64_t paddedBytes;
    size_t count() const { return paddedBytes > 0 ? pages.size() : 0; }
  };
  std::vector<Pool> pools;
  int64_t largest = 0, total = 0; // bytes of a page, and of all

  KeptBytes(const KVCache &cache, const PageBytes &bytes) {
    for (size_t pool = 0; pool < cache.numPools(); ++pool) {
      pools.push_back({keptPages(cache, pool), roundUp(bytes.ofPool(pool), kSnapshotWord)});
      largest = std::max(largest, pools.back().paddedBytes);
      total += bytes.numLayers * static_cast<int64_t>(pools.back().pages.size()) *
               pools.back().paddedBytes;
    }
  }

  /// move(layer, pool, page, padded bytes) for each, until one fails.
  template <typename Move> Status forEach(const PageBytes &bytes, Move move) const {
    for (int64_t layer = 0; layer < bytes.numLayers; ++layer)
      for (size_t pool = 0; pool < pools.size(); ++pool)
        for (int32_t page : std::span(pools[pool].pages).first(pools[pool].count()))
          MLAC_RETURN_IF_ERROR(move(layer, pool, page, pools[pool].paddedBytes));
    return Status();
  }
};
} // namespace

Status CacheSnapshot::save(const KVCache &cache, const PageBytes &pages, const std::string &path) {
  if (!cache.copies().empty())
    return error(MLA_WRONG_STATE, cache.copies().size(),
                 " page copies have not been taken (mla_cache_take_copies)");
  std::string state = encode(cache, pages);
  KeptBytes kept(cache, pages);
  std::vector<char> bytes(static_cast<size_t>(kept.largest));
  SnapshotWriter file;
  MLAC_RETURN_IF_ERROR(file.open(path, state, kept.total));
  MLAC_RETURN_IF_ERROR(
      kept.forEach(pages, [&](int64_t layer, size_t pool, int32_t page, int64_t padded) {
        std::fill(bytes.begin(), bytes.end(), 0);
        MLAC_RETURN_IF_ERROR(pages.read(layer, pool, page, bytes.data()));
        return file.write(bytes.data(), static_cast<size_t>(padded));
      }));
  return file.commit();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A snapshot of a cache with another shape is the caller's mistake.
Status CacheSnapshot::checkConfig(const KVCache &cache, const PageBytes &pages, Reader &reader) {
  auto same = [](const std::string &what, const auto &found, const auto &expected) {
    if (found == expected)
      return Status();
    return error(MLA_INVALID_ARGUMENT, "snapshot of another cache: ", what, " is '", found,
                 "', here it is '", expected, "'");
  };
  auto sameNumber = [&](const std::string &what, int64_t expected) {
    int64_t value;
    MLAC_RETURN_IF_ERROR(reader.number(value));
    return same(what, value, expected);
  };
  auto sameText = [&](const std::string &what, const std::string &expected) {
    std::string value;
    MLAC_RETURN_IF_ERROR(reader.text(value));
    return same(what, value, expected);
  };
  MLAC_RETURN_IF_ERROR(sameText("the format", cache.format_));
  MLAC_RETURN_IF_ERROR(sameNumber("max_seq_len", cache.maxSeqLen_));
  MLAC_RETURN_IF_ERROR(sameNumber("the number of layers", pages.numLayers));
  MLAC_RETURN_IF_ERROR(sameNumber("the bytes of a page", pages.ofPool(0)));
  MLAC_RETURN_IF_ERROR(sameNumber("the number of pools", static_cast<int64_t>(cache.numPools())));
  for (const PoolSpec &spec : cache.specs_) {
    std::string pool = concat("pool '", spec.name, "': ");
    MLAC_RETURN_IF_ERROR(sameText(pool + "the name", spec.name));
    MLAC_RETURN_IF_ERROR(sameNumber(pool + "num_pages", spec.numPages));
    MLAC_RETURN_IF_ERROR(sameNumber(pool + "page_rows", spec.pageRows));
    MLAC_RETURN_IF_ERROR(sameNumber(pool + "tokens_per_row", spec.tokensPerRow));
    MLAC_RETURN_IF_ERROR(sameNumber(pool + "window_tokens", spec.windowTokens));
    auto index = static_cast<size_t>(&spec - cache.specs_.data());
    if (index > 0 && pages.ofPool(index) > 0)
      MLAC_RETURN_IF_ERROR(sameNumber(pool + "the bytes of a page", pages.ofPool(index)));
  }
  return Status();
}

/// Blocks get the numbers of their order in the file.
Status CacheSnapshot::readBlocks(KVCache &cache, Reader &reader) {
  PrefixIndex &index = cache.index_;
  int64_t count, parent;
  MLAC_RETURN_IF_ERROR(reader.number("the number of blocks", 0, index.maxBlocks(), count));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int32_t> tokens, pages;
    MLAC_RETURN_IF_ERROR(reader.number("a block's parent", kNone, i - 1, parent));
    MLAC_RETURN_IF_ERROR(reader.list("a block's tokens", INT32_MIN, INT32_MAX, tokens));
    MLAC_RETURN_IF_ERROR(reader.list("a block's pages", kNone, INT32_MAX, pages));
    if (static_cast<int64_t>(tokens.size()) != index.blockTokens() ||
        static_cast<int64_t>(pages.size()) != index.pagesPerBlock())
      return error(MLA_CORRUPT, "snapshot: block ", i, " has ", tokens.size(), " tokens and ",
                   pages.size(), " pages, expected ", index.blockTokens(), " and ",
                   index.pagesPerBlock());
    auto before = static_cast<int32_t>(parent);
    if (index.find(before, tokens.data()) != kNone)
      return error(MLA_CORRUPT, "snapshot: block ", i, " occurs twice");
    int32_t block = index.insert(before, tokens.data());
    std::copy(pages.begin(), pages.end(), index.pages(block).begin());
  }
  return Status();
}

Status CacheSnapshot::readSequence(KVCache &cache, Sequence &sequence, Reader &reader) {
  int64_t value;
  constexpr int64_t kMostGenerations = (1 << 24) - 1;
  MLAC_RETURN_IF_ERROR(reader.number("a generation", 0, kMostGenerations, value));
  sequence.generation = static_cast<uint32_t>(value);
  MLAC_RETURN_IF_ERROR(reader.number("a sequence's state", 0, 1, value));
  sequence.isLive = value != 0;
  sequence.others.resize(cache.numPools() - 1);
  sequence.numGivenBack.assign(cache.numPools(), 0);
  if (!sequence.isLive)
    return Status();
  ++cache.numSequences_;
  MLAC_RETURN_IF_ERROR(reader.number("a length", 0, cache.maxSeqLen_, sequence.length));
  MLAC_RETURN_IF_ERROR(
      reader.number("a number of blocks", 0, cache.index_.numBlocks(), sequence.numBlocks));
  MLAC_RETURN_IF_ERROR(
      reader.number("a sequence's block", kNone, cache.index_.numBlocks() - 1, value));
  sequence.lastBlock = static_cast<int32_t>(value);
  for (size_t pool = 0; pool < cache.numPools(); ++pool) {
    std::vector<int32_t> &table = sequence.table(pool);
    auto most = static_cast<size_t>(cache.pagesOf(pool, cache.maxSeqLen_));
    table.reserve(most);
    MLAC_RETURN_IF_ERROR(reader.number("a number of pages given back", 0,
                                       static_cast<int64_t>(most), sequence.numGivenBack[pool]));
    MLAC_RETURN_IF_ERROR(reader.list("a block table", 0, KVCache::kGivenBack, table));
    if (table.size() > most)
      return error(MLA_CORRUPT, "snapshot: a block table of ", table.size(), " pages, limit ",
                   most);
  }
  return Status();
}

Status CacheSnapshot::readSequences(KVCache &cache, Reader &reader) {
  int64_t count;
  constexpr int64_t kMostSequences = 1 << 24;
  MLAC_RETURN_IF_ERROR(reader.number("the number of sequences", 0, kMostSequences, count));
  for (int64_t i = 0; i < count; ++i)
    MLAC_RETURN_IF_ERROR(readSequence(cache, cache.sequences.emplace_back(), reader));
  std::vector<int32_t> free;
  MLAC_RETURN_IF_ERROR(reader.list("the free list", 0, count - 1, free));
  // As create() keeps it: freeing a sequence must not allocate.
  cache.freeIndices.reserve(static_cast<size_t>(2 * count + 1));
  cache.freeIndices.assign(free.begin(), free.end());
  return Status();
}

/// References and owners are not in the file: they follow from the tables and
/// the blocks.
Status CacheSnapshot::readPools(KVCache &cache, Reader &reader) {
  for (size_t pool = 0; pool < cache.numPools(); ++pool) {
    auto numPages = static_cast<int32_t>(cache.specs_[pool].numPages);
    PagePool::State state;
    MLAC_RETURN_IF_ERROR(reader.list("the unused pages", 0, numPages - 1, state.unused));
    MLAC_RETURN_IF_ERROR(reader.list("the cached pages", 0, numPages - 1, state.cached));
    state.references.assign(static_cast<size_t>(numPages), 0);
    state.owners.assign(static_cast<size_t>(numPages), kNone);
    for (const Sequence &sequence : cache.sequences)
      for (int32_t page : sequence.table(pool))
        if (page < numPages)
          ++state.references[page];
    for (int32_t block = 0; block < cache.index_.numEver(); ++block)
      for (size_t place = cache.blockOffsets[pool]; place < cache.blockOffsets[pool + 1]; ++place) {
        int32_t page = cache.index_.pages(block)[place];
        if (page >= 0 && page < numPages)
          state.owners[page] = block;
      }
    if (!cache.pools[pool].restore(state))
      return error(MLA_CORRUPT, "snapshot: pool '", cache.specs_[pool].name,
                   "' has a page in two lists");
  }
  return Status();
}

Status CacheSnapshot::build(KVCache &fresh, Reader &reader) {
  MLAC_RETURN_IF_ERROR(readBlocks(fresh, reader));
  MLAC_RETURN_IF_ERROR(readSequences(fresh, reader));
  MLAC_RETURN_IF_ERROR(readPools(fresh, reader));
  if (!reader.isAtEnd())
    return error(MLA_CORRUPT, "snapshot: bytes behind the state");
  std::string problem;
  if (!fresh.check(problem))
    return error(MLA_CORRUPT, "snapshot: ", problem);
  return Status();
}

static Status checkEmpty(const KVCache &cache) {
  const PagePool &pool = cache.pool();
  if (cache.numSequences() == 0 && cache.index().numBlocks() == 0 &&
      pool.numUnused() == pool.numPages())
    return Status();
  return error(MLA_WRONG_STATE, "restore needs an empty cache, this one has ", cache.numSequences(),
               " sequences and ", cache.index().numBlocks(), " published blocks");
}

Status CacheSnapshot::decode(KVCache &cache, const PageBytes &pages, std::string_view state) {
  MLAC_RETURN_IF_ERROR(checkEmpty(cache));
  Reader reader(state);
  MLAC_RETURN_IF_ERROR(checkConfig(cache, pages, reader));
  KVCache fresh(cache.specs_, cache.maxSeqLen_, cache.format_);
  MLAC_RETURN_IF_ERROR(build(fresh, reader));
  cache.takeFrom(fresh);
  return Status();
}

Status CacheSnapshot::restore(KVCache &cache, const PageBytes &pages, const std::string &path) {
  MLAC_RETURN_IF_ERROR(checkEmpty(cache));
  SnapshotReader file;
  std::string state;
  MLAC_RETURN_IF_ERROR(file.open(path, state));
  Reader reader(state);
  MLAC_RETURN_IF_ERROR(checkConfig(cache, pages, reader).in(path));
  KVCache fresh(cache.specs_, cache.maxSeqLen_, cache.format_);
  MLAC_RETURN_IF_ERROR(build(fresh, reader).in(path));
  // Bytes go to pages that are still unused here: a failure leaves them so.
  KeptBytes kept(fresh, pages);
  std::vector<char> bytes(static_cast<size_t>(kept.largest));
  if (file.pageBytes() != kept.total)
    return error(MLA_CORRUPT, path, ": ", file.pageBytes(), " bytes of pages, expected ",
                 kept.total);
  MLAC_RETURN_IF_ERROR(
      kept.forEach(pages, [&](int64_t layer, size_t pool, int32_t page, int64_t padded) {
        MLAC_RETURN_IF_ERROR(file.read(bytes.data(), static_cast<size_t>(padded)));
        return pages.write(layer, pool, page, bytes.data());
      }));
  cache.takeFrom(fresh);
  return Status();
}
