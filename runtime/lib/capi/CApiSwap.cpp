//===- CApiSwap.cpp - C entry points: pages elsewhere -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Nvtx.h"
#include "capi/CApiSupport.h"
#include "engine/SwapSpace.h"

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Compaction
//===----------------------------------------------------------------------===//

static Status compact(KVCache &cache, int64_t maxMoves, int64_t &moved) {
  if (maxMoves < 0)
    return error(MLA_INVALID_ARGUMENT, "max_moves = ", maxMoves, ", expected at least 0");
  if (!cache.copies().empty())
    return error(MLA_WRONG_STATE, cache.copies().size(),
                 " page copies have not been taken (mla_cache_take_copies)");
  moved = cache.compact(maxMoves);
  return Status();
}

static Status compactEngine(Engine &engine, int64_t maxMoves, mla_stream *stream, int64_t &moved) {
  std::lock_guard engineLock(engine.mutex);
  std::unique_lock lock(engine.cache().mutex);
  if (engine.isClosed())
    return error(MLA_INVALID_ARGUMENT, "the cache's engine has been destroyed");
  MLAC_RETURN_IF_ERROR(engine.device().checkStream(stream));
  MLAC_RETURN_IF_ERROR(engine.runPageCopies(stream));
  MLAC_RETURN_IF_ERROR(compact(engine.cache(), maxMoves, moved));
  return engine.runPageCopies(stream);
}

mla_status mla_cache_compact(mla_cache *cache, int64_t max_moves, mla_stream *stream,
                             int64_t *moved) {
  return report([&]() -> Status {
    NvtxRange range("mla_cache_compact");
    std::shared_ptr<CacheObject> object;
    MLAC_RETURN_IF_ERROR(caches().find(cache, object));
    int64_t count = 0;
    if (object->engine) {
      MLAC_RETURN_IF_ERROR(compactEngine(*object->engine, max_moves, stream, count));
    } else {
      std::unique_lock lock(object->cache().mutex);
      MLAC_RETURN_IF_ERROR(compact(object->cache(), max_moves, count));
    }
    if (moved)
      *moved = count;
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Swapping
//===----------------------------------------------------------------------===//

mla_status mla_swap_create(mla_engine *engine, int64_t num_pages, mla_swap **swap) {
  return report([&]() -> Status {
    std::shared_ptr<Engine> object;
    MLAC_RETURN_IF_ERROR(engines().find(engine, object));
    MLAC_RETURN_IF_ERROR(requirePointer(swap, "swap"));
    std::lock_guard lock(object->mutex);
    if (object->isClosed())
      return error(MLA_INVALID_ARGUMENT, "the engine has been closed");
    MLAC_RETURN_IF_ERROR(object->requireOwnPools("which pages can be swapped"));
    std::shared_ptr<SwapSpace> space;
    MLAC_RETURN_IF_ERROR(SwapSpace::create(object, num_pages, space));
    *swap = swapSpaces().insert(std::move(space));
    return Status();
  });
}

mla_status mla_swap_destroy(mla_swap *swap) {
  return report([&]() -> Status {
    std::shared_ptr<SwapSpace> space;
    return swapSpaces().remove(swap, space);
  });
}

/// Runs function(space) with its engine and the engine's cache locked.
template <typename Function>
static mla_status withSwap(mla_swap *swap, Function function,
                           const char *name = __builtin_FUNCTION()) {
  return report(
      [&]() -> Status {
        std::shared_ptr<SwapSpace> space;
        MLAC_RETURN_IF_ERROR(swapSpaces().find(swap, space));
        std::lock_guard engineLock(space->engine().mutex);
        std::unique_lock lock(space->engine().cache().mutex);
        if (space->engine().isClosed())
          return error(MLA_INVALID_ARGUMENT, "the swap space's engine has been destroyed");
        return function(*space);
      },
      name);
}

mla_status mla_swap_out(mla_swap *swap, mla_sequence sequence, mla_stream *stream,
                        uint64_t *ticket) {
  return withSwap(swap, [&](SwapSpace &space) -> Status {
    NvtxRange range("mla_swap_out");
    MLAC_RETURN_IF_ERROR(requirePointer(ticket, "ticket"));
    return space.swapOut(sequence, stream, *ticket);
  });
}

mla_status mla_swap_in(mla_swap *swap, uint64_t ticket, mla_sequence sequence, mla_stream *stream) {
  return withSwap(swap, [&](SwapSpace &space) {
    NvtxRange range("mla_swap_in");
    return space.swapIn(ticket, sequence, stream);
  });
}

mla_status mla_swap_drop(mla_swap *swap, uint64_t ticket) {
  return withSwap(swap, [&](SwapSpace &space) { return space.drop(ticket); });
}

mla_status mla_swap_length(mla_swap *swap, uint64_t ticket, int64_t *num_tokens) {
  return withSwap(swap, [&](SwapSpace &space) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(num_tokens, "num_tokens"));
    return space.length(ticket, *num_tokens);
  });
}

mla_status mla_swap_get_stats(mla_swap *swap, mla_swap_stats *stats) {
  return withSwap(swap, [&](SwapSpace &space) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(stats, "stats"));
    *stats = {space.numPages(), space.numFree(), space.numTickets()};
    return Status();
  });
}
