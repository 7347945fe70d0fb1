//===- Streams.h - streams of the emulated driver ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU may run a stream's work at any time that its events allow. The emulator's default stream,
// and streams made while nothing else was asked for, run it at once. A *lazy* stream runs it as
// late as possible: when someone waits for it. Beside one whose work comes too early or too late,
// what should have waited finds what was never written.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_EMULATOR_STREAMS_H
#define MLAC_TEST_UNIT_EMULATOR_STREAMS_H

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

namespace mlac::emulator {

class EmulatedStream {
public:
  using Work = std::function<int()>;
  explicit EmulatedStream(bool isLazy) : isLazy(isLazy) {}

  /// Result of the work, or of none of it so far.
  int enqueue(Work work) {
    queue.push_back(std::move(work));
    ++numEnqueued;
    return isLazy ? 0 : run(numEnqueued);
  }
  /// Runs what was enqueued before the first `end` pieces of work had been.
  int run(size_t end) {
    int result = 0;
    while (numRun < end && !queue.empty()) {
      Work work = std::move(queue.front());
      queue.pop_front();
      ++numRun;
      if (int failed = work())
        result = failed;
    }
    return result;
  }
  int runAll() { return run(numEnqueued); }
  size_t position() const { return numEnqueued; }

private:
  bool isLazy;
  std::deque<Work> queue;
  size_t numEnqueued = 0, numRun = 0;
};

/// A point of a stream; none of the default stream, whose work is done.
struct EmulatedEvent {
  EmulatedStream *stream = nullptr;
  size_t position = 0;

  int wait() const { return stream ? stream->run(position) : 0; }
};

} // namespace mlac::emulator

#endif // MLAC_TEST_UNIT_EMULATOR_STREAMS_H
