//===- PagePool.h - physical pages of the cache -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hands out page indices and counts references to them. A page is free when its
// count is 0. Sharing (copy-on-write prefixes) takes a second reference;
// today's sequences hold one each.
//
//   free list (a stack)    | 7 | 3 | 9 |     taken and returned at the end
//   references  [page]     1 0 2 1 ...
//
// Running out is a result, not an error: take() changes nothing and returns
// false. Capacity is fixed, nothing allocates after construction. Not thread
// safe: the engine's lock covers it.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PAGEPOOL_H
#define MLAC_RUNTIME_PAGEPOOL_H

#include <cstdint>
#include <vector>

namespace mlac::runtime {

class PagePool {
public:
  /// Page 0 is taken first.
  explicit PagePool(int64_t numPages);

  int64_t numPages() const { return static_cast<int64_t>(references.size()); }
  int64_t numFree() const { return static_cast<int64_t>(freePages.size()); }
  bool isFree(int32_t page) const { return references[page] == 0; }
  int32_t numReferences(int32_t page) const { return references[page]; }

  /// Appends `count` pages with one reference each to `pages`, or nothing.
  bool take(int64_t count, std::vector<int32_t> &pages);
  /// Adds a reference to a page in use.
  void share(int32_t page) { ++references[page]; }
  /// Drops a reference; the last one frees the page. False: was free already.
  bool release(int32_t page);

  /// Whether the free list and the counts agree (tests).
  bool isConsistent() const;

private:
  std::vector<int32_t> freePages;
  std::vector<int32_t> references;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PAGEPOOL_H
