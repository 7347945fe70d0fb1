//===- Clock.h - vector clocks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Who is known to have come how far. A component counts the accesses of one
// *agent*: each warp is four agents (its ordinary accesses, its wgmma, its
// cp.async, its bulk stores, because each kind completes on its own), and each
// full barrier is one (the bytes that TMA delivers to it, counted in phases).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_SIMULATOR_CLOCK_H
#define MLA_LIB_SIMULATOR_CLOCK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mlac::simulator {

class Clock {
public:
  uint64_t operator[](size_t agent) const { return agent < counts.size() ? counts[agent] : 0; }
  void raise(size_t agent, uint64_t count) {
    if (counts.size() <= agent)
      counts.resize(agent + 1);
    counts[agent] = std::max(counts[agent], count);
  }
  void join(const Clock &other) {
    if (counts.size() < other.counts.size())
      counts.resize(other.counts.size());
    for (size_t agent = 0; agent < other.counts.size(); ++agent)
      counts[agent] = std::max(counts[agent], other.counts[agent]);
  }

private:
  std::vector<uint64_t> counts;
};

/// What a warp knows to have happened, and how much of that a proxy fence has
/// made visible to the asynchronous proxy on the way.
struct Knowledge {
  Clock seen, fenced;
  void join(const Knowledge &other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
  }
};

} // namespace mlac::simulator

#endif // MLA_LIB_SIMULATOR_CLOCK_H
