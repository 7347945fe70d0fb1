//===- ThreadPool.h - worker threads of the CPU device ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fixed set of threads that run the programs of one launch. The caller of
// run() sleeps until all are done: its own stack may be too small for a
// kernel's scratch tiles. Programs are handed out in runs of consecutive
// indices from one counter, so that uneven programs (ragged batches) balance.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_THREADPOOL_H
#define MLAC_RUNTIME_THREADPOOL_H

#include "base/Status.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace mlac::runtime {

class ThreadPool {
public:
  /// Kernels may use 4 MiB of scratch (PackageVerifier.cpp); the rest is for
  /// their frames. Only touched pages cost memory.
  static constexpr size_t kStackBytes = 16 << 20;

  ThreadPool() = default;
  ThreadPool(const ThreadPool &) = delete;
  ~ThreadPool();

  Status start(int32_t numThreads);
  int32_t numThreads() const { return static_cast<int32_t>(threads.size()); }

  /// Calls work(context, first, last) for runs that cover [0, total); returns
  /// when all have returned. Calls from several threads take turns.
  using Work = void (*)(void *context, int64_t first, int64_t last);
  void run(Work work, void *context, int64_t total);

private:
  static void *threadMain(void *pool);
  void workerLoop();

  std::vector<pthread_t> threads;
  std::mutex callers; // one job at a time
  std::mutex mutex;   // guards what follows, except `next`
  std::condition_variable wake, done;
  Work work = nullptr;
  void *context = nullptr;
  int64_t total = 0, runLength = 1;
  std::atomic<int64_t> next{0};
  int32_t numActive = 0;
  bool isStopping = false;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_THREADPOOL_H
