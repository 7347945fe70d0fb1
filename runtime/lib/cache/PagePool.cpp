//===- PagePool.cpp - physical pages of the cache ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cache/PagePool.h"

#include "base/Status.h"

#include <algorithm>
#include <functional>

using namespace mlac::runtime;

PagePool::PagePool(int64_t numPages) : pages(numPages), leastFree_(numPages) {
  unused.reserve(numPages);
  for (int64_t page = numPages; page > 0; --page)
    unused.push_back(static_cast<int32_t>(page - 1));
}

bool PagePool::take(int64_t count, std::vector<int32_t> &taken) {
  if (count > numUnused())
    return false;
  taken.reserve(taken.size() + static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    taken.push_back(takeOne());
  return true;
}

int32_t PagePool::takeOne() {
  int32_t page = unused.back();
  unused.pop_back();
  pages[page].references = 1;
  noteFree();
  return page;
}

void PagePool::share(int32_t page) {
  int32_t &references = pages[page].references;
  if (references == 0)
    unlink(page);
  numShared_ += references == 1;
  ++references;
  noteFree();
}

bool PagePool::release(int32_t page) {
  Page &entry = pages[page];
  if (entry.references == 0)
    return false;
  numShared_ -= entry.references == 2;
  if (--entry.references > 0)
    return true;
  if (entry.owner == kNone)
    unused.push_back(page);
  else
    link(page);
  return true;
}

void PagePool::pin(int32_t page) {
  share(page);
  ++pages[page].pins;
}

void PagePool::unpin(int32_t page) {
  --pages[page].pins;
  release(page);
}

void PagePool::sortUnused() { std::sort(unused.begin(), unused.end(), std::greater<>()); }

int32_t PagePool::moveOut(int32_t from) {
  int32_t to = unused.back();
  unused.pop_back();
  Page &source = pages[from], &target = pages[to];
  target = source;
  if (source.references == 0) {
    (source.older == kNone ? oldest : pages[source.older].newer) = to;
    (source.newer == kNone ? newest : pages[source.newer].older) = to;
  }
  source = {.references = 1, .pins = 1};
  pin(to);
  return to;
}

void PagePool::dropOwner(int32_t page) {
  pages[page].owner = kNone;
  if (pages[page].references > 0)
    return;
  unlink(page);
  unused.push_back(page);
}

/// Makes `page` the newest cached one.
void PagePool::link(int32_t page) {
  pages[page].older = newest;
  pages[page].newer = kNone;
  (newest == kNone ? oldest : pages[newest].newer) = page;
  newest = page;
  ++numCached_;
}

void PagePool::unlink(int32_t page) {
  Page &entry = pages[page];
  (entry.older == kNone ? oldest : pages[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest : pages[entry.newer].older) = entry.older;
  entry.older = entry.newer = kNone;
  --numCached_;
}

bool PagePool::restore(const State &state) {
  std::vector<bool> isSeen(pages.size());
  for (const std::vector<int32_t> *list : {&state.unused, &state.cached})
    for (int32_t page : *list) {
      if (page < 0 || page >= numPages() || isSeen[page])
        return false;
      isSeen[page] = true;
    }
  std::copy(state.unused.begin(), state.unused.end(), unused.begin());
  unused.resize(state.unused.size());
  for (size_t page = 0; page < pages.size(); ++page) {
    pages[page] = {state.references[page], 0, state.owners[page]};
    numShared_ += state.references[page] > 1;
  }
  for (int32_t page : state.cached)
    link(page);
  noteFree();
  return true;
}

bool PagePool::isConsistent(std::string *problem) const {
  auto fail = [&](auto... parts) {
    if (problem)
      *problem = concat(parts...);
    return false;
  };
  std::vector<bool> isListed(pages.size(), false);
  for (int32_t page : unused) {
    if (isListed[page])
      return fail("page ", page, " is twice on the stack of unused pages");
    if (pages[page].references != 0 || pages[page].owner != kNone)
      return fail("unused page ", page, " has ", pages[page].references, " references and owner ",
                  pages[page].owner);
    isListed[page] = true;
  }
  int64_t cached = 0;
  int32_t previous = kNone;
  for (int32_t page = oldest; page != kNone; page = pages[page].newer) {
    if (isListed[page] || pages[page].older != previous)
      return fail("the list of cached pages is broken at page ", page);
    if (pages[page].references != 0 || pages[page].owner == kNone)
      return fail("cached page ", page, " has ", pages[page].references, " references and owner ",
                  pages[page].owner);
    isListed[page] = true;
    previous = page;
    ++cached;
  }
  if (previous != newest || cached != numCached_)
    return fail("the list of cached pages has ", cached, " entries, counted ", numCached_);
  int64_t shared = 0;
  for (size_t page = 0; page < pages.size(); ++page) {
    const Page &entry = pages[page];
    if (!isListed[page] && entry.references <= 0)
      return fail("page ", page, " is lost: no references, neither unused nor cached");
    if (entry.pins < 0 || entry.pins > entry.references)
      return fail("page ", page, " has ", entry.pins, " pins, ", entry.references, " references");
    shared += entry.references > 1;
  }
  if (shared != numShared_)
    return fail(shared, " pages are shared, counted ", numShared_);
  return true;
}
