//===- AllocationFailures.cpp - operator new that can fail ------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces the allocator of the whole test program, the runtime included.
// ThreadSanitizer brings an allocator that cannot be replaced; nothing fails then.
//
//===----------------------------------------------------------------------===//

#include "CacheModel.h"

#include <cstdlib>
#include <new>

static thread_local int64_t remaining = -1;
static thread_local int64_t numAllocations = 0;

void mlac::test::failAllocations(int64_t after) { remaining = after; }

int64_t mlac::test::countAllocations() {
  int64_t count = numAllocations;
  numAllocations = 0;
  return count;
}

#if !__has_feature(thread_sanitizer)
static void *allocate(size_t bytes) {
  ++numAllocations;
  if (remaining == 0)
    return nullptr;
  remaining -= remaining > 0;
  return std::malloc(bytes ? bytes : 1);
}

void *operator new(size_t bytes) {
  if (void *data = allocate(bytes))
    return data;
  throw std::bad_alloc();
}
void *operator new[](size_t bytes) { return operator new(bytes); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void operator delete(void *data) noexcept { std::free(data); }
void operator delete[](void *data) noexcept { std::free(data); }
void operator delete(void *data, size_t) noexcept { std::free(data); }
void operator delete[](void *data, size_t) noexcept { std::free(data); }
void operator delete(void *data, const std::nothrow_t &) noexcept { std::free(data); }
void operator delete[](void *data, const std::nothrow_t &) noexcept { std::free(data); }
#endif
