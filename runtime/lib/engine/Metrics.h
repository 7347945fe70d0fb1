//===- Metrics.h - counters of what was served ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_METRICS_H
#define MLAC_RUNTIME_METRICS_H

#include "mla_runtime/base.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace mlac::runtime {

class Engine;

/// Of the whole process; every method may be called by any thread.
class Metrics {
public:
  static Metrics &get();

  void countPlan(std::string_view function, int64_t requests, int64_t tokens);
  void countRun() { runs.fetch_add(1, std::memory_order_relaxed); }
  void countStatus(mla_status status) {
    if (status != MLA_OK && status < kStatuses)
      failures[status].fetch_add(1, std::memory_order_relaxed);
  }
  /// Around fork(), so that no child finds them locked for ever.
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }
  /// The counters as Prometheus takes them.
  std::string print();
  /// The same of an engine's pools: samples without their headers.
  static void printPools(std::string &text, uint64_t id, Engine &engine);
  static std::string_view poolsHeader();

private:
  static constexpr int kStatuses = MLA_INTERNAL + 1;
  struct Steps {
    uint64_t plans = 0, requests = 0, tokens = 0;
  };
  std::mutex mutex; // of `steps`
  std::map<std::string, Steps, std::less<>> steps;
  std::atomic<uint64_t> runs = 0;
  std::array<std::atomic<uint64_t>, kStatuses> failures{};
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_METRICS_H
