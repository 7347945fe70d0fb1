//===- ThreadPool.cpp - worker threads of the CPU device --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/ThreadPool.h"

#include <algorithm>
#include <cstring>

using namespace mlac::runtime;

/// Runs per thread: enough to balance uneven programs, few enough that the
/// shared counter does not show beside programs of a microsecond.
static constexpr int64_t kRunsPerThread = 16;

Status ThreadPool::start(int32_t numThreads) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  Status status;
  for (int32_t i = 0; i < numThreads && status.isOk(); ++i) {
    pthread_t thread;
    int code = pthread_create(&thread, &attributes, threadMain, this);
    if (code == 0)
      threads.push_back(thread);
    else
      status = error(MLA_OUT_OF_MEMORY, "cannot start worker thread ", i, " of ", numThreads, ": ",
                     std::strerror(code));
  }
  pthread_attr_destroy(&attributes);
  return status;
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    isStopping = true;
  }
  wake.notify_all();
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
}

void ThreadPool::run(Work newWork, void *newContext, int64_t newTotal) {
  if (newTotal <= 0)
    return;
  std::lock_guard turn(callers);
  std::unique_lock lock(mutex);
  work = newWork;
  context = newContext;
  total = newTotal;
  runLength = std::max<int64_t>(1, newTotal / (numThreads() * kRunsPerThread));
  next = 0;
  if (newTotal <= runLength)
    wake.notify_one();
  else
    wake.notify_all();
  done.wait(lock, [&] { return next >= total && numActive == 0; });
}

void *ThreadPool::threadMain(void *pool) {
  static_cast<ThreadPool *>(pool)->workerLoop();
  return nullptr;
}

void ThreadPool::workerLoop() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return isStopping || next < total; });
    if (isStopping)
      return;
    ++numActive;
    // The job's fields do not change while a worker is active.
    lock.unlock();
    for (int64_t first = next.fetch_add(runLength); first < total;
         first = next.fetch_add(runLength))
      work(context, first, std::min(first + runLength, total));
    lock.lock();
    if (--numActive == 0 && next >= total)
      done.notify_one();
  }
}
