//===- SwapSpace.h - sequences in host memory -------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pages in pinned host memory for sequences that make room for others:
//
//     out   the bytes of a sequence's pages, in all pools and layers, go to host pages;
//           the sequence becomes empty, and a ticket stands for its tokens
//     in    an empty sequence takes new pages, which get the bytes back
//
// Each pool has host pages of its own, as many as the same tokens take. What has left a
// pool's window is neither kept nor brought back. All pools or none: what fails has changed
// nothing.
//
// Both only enqueue copies: pages on either side are given to others at once, whose
// copies and steps follow on the same stream. A page that sequences share goes out
// as often as it is swapped, and comes back unshared.
//
// Locking: the engine's mutex, then its cache's.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_SWAPSPACE_H
#define MLAC_RUNTIME_SWAPSPACE_H

#include "engine/Engine.h"
#include "engine/PageMover.h"

#include <map>

namespace mlac::runtime {

class SwapSpace {
public:
  static Status create(std::shared_ptr<Engine> engine, int64_t numPages,
                       std::shared_ptr<SwapSpace> &space);
  ~SwapSpace();

  Engine &engine() { return *engine_; }
  int64_t numPages() const { return numPages_; }
  /// Pages of the first pool for whose tokens every pool has room.
  int64_t numFree() const;
  int64_t numTickets() const { return static_cast<int64_t>(tickets.size()); }

  Status swapOut(mla_sequence id, mla_stream *stream, uint64_t &ticket);
  Status swapIn(uint64_t ticket, mla_sequence id, mla_stream *stream);
  Status drop(uint64_t ticket);
  Status length(uint64_t ticket, int64_t &tokens) const;

private:
  struct Ticket {
    int64_t tokens = 0;
    std::vector<std::vector<int32_t>> pages; // of the host, those of each pool
  };
  /// Of one pool.
  struct HostPages {
    PageMover::Host memory;
    std::vector<int32_t> free; // the next one to be taken is last
  };

  explicit SwapSpace(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
  Status find(uint64_t ticket, const Ticket *&found) const;
  Status allocate(int64_t numPages);
  bool takePages(const Sequence &sequence, Ticket &entry) const;
  Status copyOut(const Sequence &sequence, const Ticket &entry, mla_stream *stream);
  Status copyIn(const Sequence &sequence, const Ticket &entry, mla_stream *stream);
  /// Both together, in the order of the sequence.
  static std::vector<PagePair> pair(std::span<const int32_t> from, std::span<const int32_t> to);

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Device> device;
  char *data = nullptr;
  int64_t numPages_ = 0;
  std::vector<HostPages> pools;
  std::map<uint64_t, Ticket> tickets;
  uint64_t nextTicket = 1;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_SWAPSPACE_H
