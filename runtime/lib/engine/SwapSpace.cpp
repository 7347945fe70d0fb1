//===- SwapSpace.cpp - sequences in host memory -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/SwapSpace.h"

using namespace mlac::runtime;

Status SwapSpace::create(std::shared_ptr<Engine> engine, int64_t numPages,
                         std::shared_ptr<SwapSpace> &space) {
  constexpr int64_t kMaxPages = INT32_MAX;
  if (numPages < 1 || numPages > kMaxPages)
    return error(MLA_INVALID_ARGUMENT, "num_pages = ", numPages, ", expected 1 to ", kMaxPages);
  if (engine->package().pools().size() > 1)
    return error(MLA_UNSUPPORTED, "the package has ", engine->package().pools().size(),
                 " pools; pages of one can be swapped out");
  if (!engine->mover().canSwap())
    return error(MLA_UNSUPPORTED, "the package has no functions '", kSwapOutFunction, "' and '",
                 kSwapInFunction, "'");
  int64_t layerBytes = engine->hostBytesPerLayer(numPages), bytes;
  if (!checkedMul(layerBytes, engine->options().num_layers, bytes))
    return error(MLA_INVALID_ARGUMENT, "num_pages = ", numPages, ": ", layerBytes,
                 " bytes for each layer overflow 64 bits");
  std::shared_ptr<SwapSpace> result(new SwapSpace(std::move(engine)));
  result->device = result->engine_->sharedDevice();
  result->numPages_ = numPages;
  for (int64_t page = numPages - 1; page >= 0; --page)
    result->free.push_back(static_cast<int32_t>(page));
  void *memory;
  MLAC_RETURN_IF_ERROR(
      result->device->allocateStaging(static_cast<size_t>(bytes), &memory).in("swap space"));
  result->data = static_cast<char *>(memory);
  space = std::move(result);
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

Status SwapSpace::swapOut(mla_sequence id, mla_stream *stream, uint64_t &ticket) {
  KVCache &cache = engine_->cache();
  Sequence *sequence;
  MLAC_RETURN_IF_ERROR(cache.find(id, sequence));
  MLAC_RETURN_IF_ERROR(engine_->device().checkStream(stream));
  size_t count = static_cast<size_t>(ceilDiv(sequence->length, cache.pageSize()));
  if (count > free.size())
    return Status(MLA_OUT_OF_PAGES, {});
  Ticket entry{sequence->length, {free.rbegin(), free.rbegin() + static_cast<ptrdiff_t>(count)}};
  std::vector<PagePair> pairs = pair({sequence->pages.data(), count}, entry.pages);
  // Whatever can fail comes before the first change.
  auto [place, isNew] = tickets.emplace(nextTicket, std::move(entry));
  Status status = engine_->runPageCopies(stream);
  if (status.isOk() && count > 0)
    status = engine_->mover().swapOut(pairs, data, numPages_, stream);
  if (status.isOk())
    status = cache.truncate(*sequence, 0);
  if (!status.isOk()) {
    tickets.erase(place);
    return status;
  }
  free.resize(free.size() - count);
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
  std::vector<PagePair> pairs = pair(entry->pages, sequence->pages);
  Status status = engine_->runPageCopies(stream);
  if (status.isOk() && !pairs.empty())
    status = engine_->mover().swapIn(pairs, data, numPages_, stream);
  if (!status.isOk()) {
    (void)cache.truncate(*sequence, 0);
    return status;
  }
  return drop(ticket);
}

Status SwapSpace::drop(uint64_t ticket) {
  const Ticket *entry;
  MLAC_RETURN_IF_ERROR(find(ticket, entry));
  free.insert(free.end(), entry->pages.rbegin(), entry->pages.rend()); // has had this size
  tickets.erase(ticket);
  return Status();
}

Status SwapSpace::length(uint64_t ticket, int64_t &tokens) const {
  const Ticket *entry;
  MLAC_RETURN_IF_ERROR(find(ticket, entry));
  tokens = entry->tokens;
  return Status();
}
