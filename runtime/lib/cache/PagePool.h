//===- PagePool.h - physical pages of the cache -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hands out page indices and counts references to them. A page may also belong
// to a block of the prefix index (its owner). Three states:
//
//            references  owner
//   used     > 0         any      in the block table of a sequence
//   cached   0           a block  in the list of cached pages, oldest first
//   unused   0           none     on the stack of unused pages
//
//   unused   | 7 | 3 | 9 |  <- taken and returned at the end
//   cached   oldest -> 5 -> 2 -> newest       (links are page indices)
//
// Cached pages are as good as unused ones: who needs them evicts their blocks.
// Running out is a result, not an error: take() changes nothing and returns
// false. Everything is allocated by the constructor. Not thread safe: the
// cache's lock covers it.
//
// The intrusive list is that of SQLite's src/pcache.c; reference counts under a
// hash of blocks are vLLM's prefix caching.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PAGEPOOL_H
#define MLAC_RUNTIME_PAGEPOOL_H

#include <cstdint>
#include <string>
#include <vector>

namespace mlac::runtime {

class PagePool {
public:
  /// Neither a page nor a block.
  static constexpr int32_t kNone = -1;

  /// Page 0 is taken first.
  explicit PagePool(int64_t numPages);

  int64_t numPages() const { return static_cast<int64_t>(pages.size()); }
  /// Pages that can be had: unused ones and cached ones.
  int64_t numFree() const { return numUnused() + numCached_; }
  int64_t numUnused() const { return static_cast<int64_t>(unused.size()); }
  int64_t numCached() const { return numCached_; }
  /// Pages with two references or more.
  int64_t numShared() const { return numShared_; }
  /// Least numFree() so far.
  int64_t leastFree() const { return leastFree_; }

  bool isFree(int32_t page) const { return pages[page].references == 0; }
  int32_t numReferences(int32_t page) const { return pages[page].references; }
  int32_t owner(int32_t page) const { return pages[page].owner; }
  /// Whether rows may be written: one sequence has the page, and no block.
  bool isPrivate(int32_t page) const {
    const Page &entry = pages[page];
    return entry.references - entry.pins == 1 && entry.owner == kNone;
  }

  /// Appends `count` unused pages with one reference each to `taken`, or
  /// nothing.
  bool take(int64_t count, std::vector<int32_t> &taken);
  /// One unused page; there is one.
  int32_t takeOne();
  /// Adds a reference; a cached page is in use again.
  void share(int32_t page);
  /// Drops a reference. The last one makes the page cached if it has an owner,
  /// else unused. False: there was none.
  bool release(int32_t page);
  /// A reference of a page copy under way: it keeps the page, but does not stop
  /// the page's only sequence from writing behind the copied rows.
  void pin(int32_t page);
  void unpin(int32_t page);

  /// Orders the unused pages so that the lowest is taken first.
  void sortUnused();
  /// Whether nobody has or keeps it.
  bool isUnused(int32_t page) const {
    return pages[page].references == 0 && pages[page].owner == kNone;
  }
  /// Makes the unused page that is next all that `from` is, which is not unused; both are
  /// pinned, as those of a copy under way. Returns the page.
  int32_t moveOut(int32_t from);

  /// Gives a page that is in use to a block.
  void setOwner(int32_t page, int32_t block) { pages[page].owner = block; }
  /// Takes it from its block; a cached page becomes unused.
  void dropOwner(int32_t page);
  /// The page to evict next, kNone if none is cached.
  int32_t oldestCached() const { return oldest; }
  int32_t nextCached(int32_t page) const { return pages[page].newer; }

  /// The stack of unused pages; the next one to be taken is last.
  const std::vector<int32_t> &unusedPages() const { return unused; }
  /// What a snapshot holds of a pool. Lists come from a file: see restore.
  struct State {
    std::vector<int32_t> unused, cached;     // pages; cached ones from oldest to newest
    std::vector<int32_t> references, owners; // by page
  };
  /// Puts a pool into `state`. False if its lists name a page twice or one that
  /// there is not; isConsistent finds everything else that may be wrong.
  bool restore(const State &state);

  /// Whether the stack, the list and the counts agree; else says what does not.
  bool isConsistent(std::string *problem = nullptr) const;

private:
  struct Page {
    int32_t references = 0;
    int32_t pins = 0; // of the references
    int32_t owner = kNone;
    int32_t older = kNone, newer = kNone; // in the list of cached pages
  };

  void link(int32_t page);
  void unlink(int32_t page);
  void noteFree() {
    if (numFree() < leastFree_)
      leastFree_ = numFree();
  }

  std::vector<Page> pages;
  std::vector<int32_t> unused;
  int32_t oldest = kNone, newest = kNone;
  int64_t numCached_ = 0, numShared_ = 0, leastFree_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PAGEPOOL_H
