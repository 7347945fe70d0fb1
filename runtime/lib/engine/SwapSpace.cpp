//===- SwapSpace.cpp - sequences in host memory -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/SwapSpace.h"

#include <algorithm>

using namespace mlac::runtime;

Status SwapSpace::create(std::shared_ptr<Engine> engine, int64_t numPages,
                         std::shared_ptr<SwapSpace> &space) {
  constexpr int64_t kMaxPages = INT32_MAX;
  if (numPages < 1 || numPages > kMaxPages)
    return error(MLA_INVALID_ARGUMENT, "num_pages = ", numPages, ", expected 1 to ", kMaxPages);
  std::shared_ptr<SwapSpace> result(new SwapSpace(std::move(engine)));
  MLAC_RETURN_IF_ERROR(result->allocate(numPages));
  space = std::move(result);
  return Status();
}

/// Each pool's pages for the tokens of `numPages` of the first, one pool behind the other.
Status SwapSpace::allocate(int64_t numPages) {
  const KVCache &cache = engine_->cache();
  int64_t tokens, total = 0, bytes;
  auto overflows = [&] {
    return error(MLA_INVALID_ARGUMENT, "num_pages = ", numPages,
                 ": the bytes of all pools and layers overflow 64 bits");
  };
  if (!checkedMul(numPages, cache.spec().pageTokens(), tokens))
    return overflows();
  std::vector<int64_t> starts;
  for (size_t pool = 0; pool < cache.numPools(); ++pool) {
    int64_t pages = ceilDiv(tokens, cache.spec(pool).pageTokens());
    if (pages > INT32_MAX || !checkedMul(pages, engine_->pageBytesUsed(pool), bytes) ||
        !checkedMul(engine_->hostBytesPerLayer(pool, pages), engine_->options().num_layers,
                    bytes) ||
        bytes > INT64_MAX - total)
      return overflows();
    starts.push_back(total);
    total += bytes;
    HostPages &host = pools.emplace_back();
    host.memory.pages = pages;
    for (int64_t page = pages - 1; page >= 0; --page)
      host.free.push_back(static_cast<int32_t>(page));
  }
  device = engine_->sharedDevice();
  numPages_ = numPages;
  void *memory;
  MLAC_RETURN_IF_ERROR(
      device->allocateStaging(static_cast<size_t>(total), &memory).in("swap space"));
  data = static_cast<char *>(memory);
  for (size_t pool = 0; pool < pools.size(); ++pool)
    pools[pool].memory.data = data + starts[pool];
  return Status();
}

SwapSpace::~SwapSpace() {
  if (!data)
    return;
  (void)device->synchronize();
  device->releaseStaging(data);
}

std::vector<PagePair> SwapSpace::pair(std::span<const int32_t> from, std::span<const int32_t> to) {
  std::vector<PagePair> pairs;
  pairs.reserve(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    pairs.push_back({from[i], to[i]});
  return pairs;
}

Status SwapSpace::find(uint64_t ticket, const Ticket *&found) const {
  auto entry = tickets.find(ticket);
  if (entry == tickets.end())
    return error(MLA_INVALID_ARGUMENT, "ticket ", ticket, " is not in the swap space, which has ",
                 tickets.size());
  found = &entry->second;
  return Status();
}

int64_t SwapSpace::numFree() const {
  const KVCache &cache = engine_->cache();
  int64_t least = INT64_MAX;
  for (size_t pool = 0; pool < pools.size(); ++pool)
    least = std::min(least, static_cast<int64_t>(pools[pool].free.size()) *
                                cache.spec(pool).pageTokens() / cache.spec().pageTokens());
  return least;
}

/// Host pages for the pages that the sequence still has; false if there are too few of a pool.
bool SwapSpace::takePages(const Sequence &sequence, Ticket &entry) const {
  const KVCache &cache = engine_->cache();
  entry.tokens = sequence.length;
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    const std::vector<int32_t> &free = pools[pool].free;
    int64_t count =
        std::max<int64_t>(0, cache.pagesOf(pool, sequence.length) - sequence.numGivenBack[pool]);
    if (count > static_cast<int64_t>(free.size()))
      return false;
    entry.pages.emplace_back(free.rbegin(), free.rbegin() + count);
  }
  return true;
}

/// The last entries of a pool's table with rows of a sequence: those that a ticket has pages of.
static std::span<const int32_t> lastPages(const KVCache &cache, const Sequence &sequence,
                                          size_t pool, size_t count) {
  auto end = static_cast<size_t>(cache.pagesOf(pool, sequence.length));
  return std::span(sequence.table(pool)).subspan(end - count, count);
}

Status SwapSpace::copyOut(const Sequence &sequence, const Ticket &entry, mla_stream *stream) {
  MLAC_RETURN_IF_ERROR(engine_->runPageCopies(stream));
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    const std::vector<int32_t> &to = entry.pages[pool];
    std::vector<PagePair> pairs = pair(lastPages(engine_->cache(), sequence, pool, to.size()), to);
    MLAC_RETURN_IF_ERROR(engine_->mover().swapOut(pool, pairs, pools[pool].memory, stream));
  }
  return Status();
}

Status SwapSpace::copyIn(const Sequence &sequence, const Ticket &entry, mla_stream *stream) {
  MLAC_RETURN_IF_ERROR(engine_->runPageCopies(stream));
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    const std::vector<int32_t> &from = entry.pages[pool];
    std::vector<PagePair> pairs =
        pair(from, lastPages(engine_->cache(), sequence, pool, from.size()));
    MLAC_RETURN_IF_ERROR(engine_->mover().swapIn(pool, pairs, pools[pool].memory, stream));
  }
  return Status();
}

Status SwapSpace::swapOut(mla_sequence id, mla_stream *stream, uint64_t &ticket) {
  KVCache &cache = engine_->cache();
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  Ticket entry;
  if (!takePages(*sequence, entry))
    return Status(MLA_OUT_OF_PAGES, {});
  // Whatever can fail comes before the first change.
  auto [place, isNew] = tickets.emplace(nextTicket, std::move(entry));
  Status status = copyOut(*sequence, place->second, stream);
  if (!status.isOk()) {
    tickets.erase(place);
    return status;
  }
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    std::vector<int32_t> &free = pools[pool].free;
    free.resize(free.size() - place->second.pages[pool].size());
  }
  cache.clear(*sequence);
  ticket = nextTicket++;
  return Status();
}

Status SwapSpace::swapIn(uint64_t ticket, mla_sequence id, mla_stream *stream) {
  KVCache &cache = engine_->cache();
  const Ticket *entry;
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(find(ticket, entry));
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  if (sequence->length != 0)
    return error(MLA_INVALID_ARGUMENT, "expected an empty sequence, got one of ", sequence->length,
                 " tokens");
  constexpr int64_t kFirst = 0;
  auto tokens = static_cast<int32_t>(entry->tokens);
  MLAC_RETURN_IF_ERROR(cache.append(1, &id, &kFirst, &tokens));
  if (Status status = copyIn(*sequence, *entry, stream); !status.isOk()) {
    cache.clear(*sequence);
    return status;
  }
  // What had left a window was not kept.
  for (size_t pool = 0; pool < pools.size(); ++pool)
    cache.giveBack(pool, *sequence,
                   cache.pagesOf(pool, entry->tokens) -
                       static_cast<int64_t>(entry->pages[pool].size()));
  return drop(ticket);
}

Status SwapSpace::drop(uint64_t ticket) {
  const Ticket *entry;
  MLAC_RETURN_IF_ERROR(find(ticket, entry));
  for (size_t pool = 0; pool < pools.size(); ++pool) { // have had this size
    const std::vector<int32_t> &pages = entry->pages[pool];
    pools[pool].free.insert(pools[pool].free.end(), pages.rbegin(), pages.rend());
  }
  tickets.erase(ticket);
  return Status();
}

Status SwapSpace::length(uint64_t ticket, int64_t &tokens) const {
  const Ticket *entry;
  MLAC_RETURN_IF_ERROR(find(ticket, entry));
  tokens = entry->tokens;
  return Status();
}
