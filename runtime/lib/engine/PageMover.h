//===- PageMover.h - copies of whole pages ----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the package's functions that copy pages (mla.copy_pages): inside the pools
// for copy-on-write and compaction, or between the pools and pinned host memory.
// Pages of one call are copied side by side, in every layer. Pools for which the package has
// no functions, those behind the first, are copied by the device's own copies, one run of
// neighbours after another.
//
//     lists     block_table  i32 [pages]      from
//               slot_mapping i64 [pages]      to
//
// Everything is asynchronous on the caller's stream but the upload of the lists, which
// has a stream of its own: it runs beside whatever the caller's still does, and the
// kernels wait for it. Two sets of lists take turns:
//
//     uploads   lists 0 | lists 1 |         | lists 0 (when its last kernel has ended)
//     stream    step …  | copies 0 | copies 1 | …
//
// Locking: the engine's.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_PAGEMOVER_H
#define MLAC_RUNTIME_PAGEMOVER_H

#include "engine/StepRunner.h"

#include <array>

namespace mlac::runtime {

struct PagePair {
  int32_t from, to;
};

class PageMover {
public:
  explicit PageMover(Engine &engine) : engine(engine) {}
  ~PageMover();

  /// Inside a pool of every layer. No page is both read and written.
  Status copy(size_t pool, std::span<const PagePair> pairs, mla_stream *stream);
  /// Of one pool: layers one after the other, `pages` pages without padding each.
  struct Host {
    char *data = nullptr;
    int64_t pages = 0;
  };
  Status swapOut(size_t pool, std::span<const PagePair> pairs, const Host &host,
                 mla_stream *stream);
  Status swapIn(size_t pool, std::span<const PagePair> pairs, const Host &host, mla_stream *stream);

private:
  Status run(const FunctionInfo &function, std::span<const PagePair> pairs, const Host &host,
             mla_stream *stream);
  Status runBatch(const FunctionInfo &function, std::span<const PagePair> pairs, const Host &host,
                  mla_stream *stream);
  const FunctionInfo *findFunction(std::string_view name, size_t pool);
  Status copyEach(size_t pool, std::span<const PagePair> pairs, mla_stream *stream);
  Status swapEach(size_t pool, std::span<const PagePair> pairs, const Host &host, bool isOut,
                  mla_stream *stream);
  /// The lists of one launch, on the host and on the device.
  struct Lists {
    DeviceBuffer metadata;
    char *staging = nullptr;
    std::unique_ptr<Event> uploaded, done; // recorded if `isUsed`
    bool isUsed = false;
  };
  Status makeLists(Lists &lists);
  void setLayout(int64_t pages);
  void fill(char *staging, std::span<const PagePair> pairs);
  Status upload(Lists &lists, std::span<const PagePair> pairs);

  Engine &engine;
  StepRunner runner;
  StepLayout layout;
  std::array<Lists, 2> turns;
  size_t nextTurn = 0;
  mla_stream *uploads = nullptr;
};

/// Copies that follow one another as copies that may be made in any order: what copies a
/// page that was itself copied before reads the first one.
std::vector<PagePair> resolveChains(std::span<const PageCopy> copies);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_PAGEMOVER_H
