//===- CacheCompact.cpp - used pages to the front ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of KVCache that closes gaps:
//
//     pages   0 1 2 3 4 5 6 7              pages   0 1 2 3 4 5 6 7
//             a . . b . c . d      ->              a d c b . . . .
//
// A page takes everything along that is known of it: references, its block, its
// place among the cached ones. Only tables and blocks that name it change.
//
//===----------------------------------------------------------------------===//

#include "cache/KVCache.h"

using namespace mlac::runtime;

/// Fills `movedTo`, which is kNone for all pages, for those that are moved.
int64_t KVCache::moveToFront(size_t pool, int64_t most, std::vector<int32_t> &movedTo) {
  PagePool &pages = pools[pool];
  pages.sortUnused();
  int64_t moved = 0;
  for (auto from = static_cast<int32_t>(pages.numPages()) - 1; moved < most; --from) {
    if (pages.unusedPages().empty() || from <= pages.unusedPages().back())
      break;
    if (pages.isUnused(from))
      continue;
    int32_t to = pages.moveOut(from);
    movedTo[static_cast<size_t>(from)] = to;
    copies_.push_back({static_cast<int32_t>(pool), from, to});
    ++moved;
  }
  return moved;
}

void KVCache::replacePages(size_t pool, const std::vector<int32_t> &movedTo) {
  auto replace = [&](int32_t &page) {
    bool isPage = page >= 0 && static_cast<size_t>(page) < movedTo.size(); // see kGivenBack
    if (!isPage || movedTo[static_cast<size_t>(page)] == PagePool::kNone)
      return false;
    page = movedTo[static_cast<size_t>(page)];
    return true;
  };
  for (Sequence &sequence : sequences) {
    bool isEdited = false;
    for (int32_t &page : sequence.table(pool))
      isEdited |= replace(page);
    if (isEdited)
      noteEdit(sequence);
  }
  auto first = static_cast<ptrdiff_t>(blockOffsets[pool]);
  auto count = blockOffsets[pool + 1] - blockOffsets[pool];
  for (int32_t to : movedTo) {
    int32_t block = to == PagePool::kNone ? PagePool::kNone : pools[pool].owner(to);
    if (block != PagePool::kNone)
      for (int32_t &page : index_.pages(block).subspan(static_cast<size_t>(first), count))
        replace(page);
  }
}

int64_t KVCache::compact(int64_t most) {
  std::vector<std::vector<int32_t>> movedTo; // allocated before anything changes
  for (const PagePool &pool : pools)
    movedTo.emplace_back(static_cast<size_t>(pool.numPages()), PagePool::kNone);
  int64_t moved = 0;
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    int64_t count = moveToFront(pool, most, movedTo[pool]);
    if (count > 0)
      replacePages(pool, movedTo[pool]);
    moved += count;
  }
  return moved;
}
