//===- PagePool.cpp - physical pages of the cache ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagePool.h"

#include <algorithm>

using namespace mlac::runtime;

PagePool::PagePool(int64_t numPages) : references(numPages, 0) {
  freePages.reserve(numPages);
  for (int64_t page = numPages; page > 0; --page)
    freePages.push_back(static_cast<int32_t>(page - 1));
}

bool PagePool::take(int64_t count, std::vector<int32_t> &pages) {
  if (count > numFree())
    return false;
  for (int64_t i = 0; i < count; ++i) {
    int32_t page = freePages.back();
    freePages.pop_back();
    references[page] = 1;
    pages.push_back(page);
  }
  return true;
}

bool PagePool::release(int32_t page) {
  if (references[page] == 0)
    return false;
  if (--references[page] == 0)
    freePages.push_back(page);
  return true;
}

bool PagePool::isConsistent() const {
  std::vector<bool> isListed(references.size(), false);
  for (int32_t page : freePages) {
    if (isListed[page] || references[page] != 0)
      return false;
    isListed[page] = true;
  }
  int64_t unused = std::count(references.begin(), references.end(), 0);
  return unused == numFree();
}
