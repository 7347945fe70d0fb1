//===- CApiPages.cpp - C entry points: who has which page --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "capi/CApiSupport.h"

#include "base/Nvtx.h"

#include <numeric>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Making and finding caches
//===----------------------------------------------------------------------===//

void mla_cache_options_init(mla_cache_options *options) {
  if (!options)
    return;
  *options = {};
  options->struct_bytes = sizeof *options;
}

static Status readOptions(const mla_cache_options *options, std::vector<PoolSpec> &specs) {
  MLAC_RETURN_IF_ERROR(requirePointer(options, "options"));
  if (options->struct_bytes != sizeof *options)
    return error(MLA_INVALID_ARGUMENT, "options.struct_bytes = ", options->struct_bytes,
                 ", expected ", sizeof *options, " (use mla_cache_options_init)");
  constexpr int64_t kMaxPools = KVCache::kMaxPools;
  if (options->num_pools < 1 || options->num_pools > kMaxPools)
    return error(MLA_INVALID_ARGUMENT, "num_pools = ", options->num_pools, ", expected 1 to ",
                 kMaxPools);
  MLAC_RETURN_IF_ERROR(requirePointer(options->pools, "pools"));
  for (int64_t i = 0; i < options->num_pools; ++i) {
    const mla_cache_pool &pool = options->pools[i];
    MLAC_RETURN_IF_ERROR(requirePointer(pool.name, "a pool's name"));
    specs.push_back({pool.name, pool.num_pages, pool.page_rows, pool.tokens_per_row,
                     pool.window_tokens, pool.watermark_pages});
  }
  return KVCache::checkSpecs(specs, options->max_seq_len);
}

mla_status mla_cache_create(const mla_cache_options *options, mla_cache **cache) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(cache, "cache"));
    std::vector<PoolSpec> specs;
    MLAC_RETURN_IF_ERROR(readOptions(options, specs));
    auto object = std::make_shared<CacheObject>();
    object->own = std::make_unique<KVCache>(std::move(specs), options->max_seq_len,
                                            options->format ? options->format : "");
    *cache = caches().insert(std::move(object));
    return Status();
  });
}

mla_status mla_engine_cache(mla_engine *engine, mla_cache **cache) {
  return report([&]() -> Status {
    std::shared_ptr<Engine> object;
    MLAC_RETURN_IF_ERROR(engines().find(engine, object));
    MLAC_RETURN_IF_ERROR(requirePointer(cache, "cache"));
    MLAC_RETURN_IF_ERROR(object->requireOwnPools(
        "their sequences, prefixes, copies, snapshots and tables: mla_cache_create is a cache of "
        "its own"));
    auto wrapper = std::make_shared<CacheObject>();
    wrapper->engine = std::move(object);
    *cache = caches().insert(std::move(wrapper));
    return Status();
  });
}

mla_status mla_cache_destroy(mla_cache *cache) {
  return report([&]() -> Status {
    std::shared_ptr<CacheObject> object;
    return caches().remove(cache, object);
  });
}

/// Runs function(object, cache) under the given lock of the cache.
template <typename Lock, typename Function>
static mla_status withLock(mla_cache *handle, Function function,
                           const char *name = __builtin_FUNCTION()) {
  auto run = [&]() -> Status {
    std::shared_ptr<CacheObject> object;
    MLAC_RETURN_IF_ERROR(caches().find(handle, object));
    KVCache &cache = object->cache();
    Lock lock(cache.mutex);
    if (object->engine && object->engine->isClosed())
      return error(MLA_INVALID_ARGUMENT, "the cache's engine has been destroyed");
    return function(*object, cache);
  };
  return report(run, name);
}

template <typename Function>
static mla_status withCache(mla_cache *cache, Function function,
                            const char *name = __builtin_FUNCTION()) {
  return withLock<std::unique_lock<std::shared_mutex>>(
      cache, [&](CacheObject &, KVCache &object) { return function(object); }, name);
}

template <typename Function>
static mla_status readCache(mla_cache *cache, Function function,
                            const char *name = __builtin_FUNCTION()) {
  return withLock<std::shared_lock<std::shared_mutex>>(
      cache, [&](CacheObject &, const KVCache &object) { return function(object); }, name);
}

template <typename Function>
static mla_status withSequence(mla_cache *cache, mla_sequence id, Function function,
                               const char *name = __builtin_FUNCTION()) {
  return withCache(
      cache,
      [&](KVCache &object) -> Status {
        Sequence *sequence;
        MLAC_RETURN_IF_ERROR(object.find(id, sequence));
        return function(object, *sequence);
      },
      name);
}

template <typename Function>
static mla_status readSequence(mla_cache *cache, mla_sequence id, Function function,
                               const char *name = __builtin_FUNCTION()) {
  return readCache(
      cache,
      [&](const KVCache &object) -> Status {
        const Sequence *sequence;
        MLAC_RETURN_IF_ERROR(object.find(id, sequence));
        return function(object, *sequence);
      },
      name);
}

static Status checkPool(const KVCache &cache, int64_t pool) {
  auto count = static_cast<int64_t>(cache.numPools());
  if (pool >= 0 && pool < count)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "pool ", pool, ", expected 0 to ", count - 1);
}

/// Copies `from` to `to` [capacity] and its size to *count.
template <typename T>
static Status copyOut(std::span<const T> from, T *to, int64_t capacity, int64_t *count,
                      const char *what) {
  MLAC_RETURN_IF_ERROR(requirePointer(count, "count"));
  *count = static_cast<int64_t>(from.size());
  if (capacity < *count)
    return error(MLA_INVALID_ARGUMENT, "capacity is ", capacity, ", there are ", *count, " ", what);
  if (*count > 0)
    MLAC_RETURN_IF_ERROR(requirePointer(to, what));
  std::copy(from.begin(), from.end(), to);
  return Status();
}

/// The tokens of publish and match.
static Status readTokens(const int32_t *tokens, int64_t count, std::span<const int32_t> &span) {
  if (count < 0)
    return error(MLA_INVALID_ARGUMENT, "count is ", count);
  if (count > 0)
    MLAC_RETURN_IF_ERROR(requirePointer(tokens, "tokens"));
  span = {tokens, static_cast<size_t>(count)};
  return Status();
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

mla_status mla_cache_new_sequence(mla_cache *cache, mla_sequence *sequence) {
  return withCache(cache, [&](KVCache &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(sequence, "sequence"));
    return object.create(*sequence);
  });
}

mla_status mla_cache_free_sequence(mla_cache *cache, mla_sequence sequence) {
  return withCache(cache, [&](KVCache &object) { return object.free(sequence); });
}

mla_status mla_cache_reserve(mla_cache *cache, mla_sequence id, int64_t num_tokens) {
  return withSequence(cache, id, [&](KVCache &object, Sequence &sequence) {
    return object.admit(sequence, num_tokens);
  });
}

mla_status mla_cache_truncate(mla_cache *cache, mla_sequence id, int64_t num_tokens) {
  return withSequence(cache, id, [&](KVCache &object, Sequence &sequence) {
    return object.truncate(sequence, num_tokens);
  });
}

mla_status mla_cache_length(mla_cache *cache, mla_sequence id, int64_t *length) {
  return readSequence(cache, id, [&](const KVCache &, const Sequence &sequence) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(length, "length"));
    *length = sequence.length;
    return Status();
  });
}

mla_status mla_cache_sequences(mla_cache *cache, mla_sequence *sequences, int64_t capacity,
                               int64_t *count) {
  return readCache(cache, [&](const KVCache &object) {
    std::vector<mla_sequence> ids = object.ids();
    return copyOut(std::span<const mla_sequence>(ids), sequences, capacity, count, "sequences");
  });
}

mla_status mla_cache_pages(mla_cache *cache, int64_t pool, mla_sequence id, int32_t *pages,
                           int64_t capacity, int64_t *count) {
  return readSequence(cache, id, [&](const KVCache &object, const Sequence &sequence) -> Status {
    MLAC_RETURN_IF_ERROR(checkPool(object, pool));
    return copyOut(std::span<const int32_t>(sequence.table(static_cast<size_t>(pool))), pages,
                   capacity, count, "pages");
  });
}

mla_status mla_cache_slots(mla_cache *cache, int64_t pool, mla_sequence id, int64_t position,
                           int64_t count, int64_t *slots) {
  return readSequence(cache, id, [&](const KVCache &object, const Sequence &sequence) -> Status {
    MLAC_RETURN_IF_ERROR(checkPool(object, pool));
    if (position < 0 || count < 0 || position > sequence.length ||
        count > sequence.length - position)
      return error(MLA_INVALID_ARGUMENT, "tokens ", position, " + ", count, ", the sequence has ",
                   sequence.length);
    if (count > 0)
      MLAC_RETURN_IF_ERROR(requirePointer(slots, "slots"));
    for (int64_t i = 0; i < count; ++i)
      slots[i] = object.slot(static_cast<size_t>(pool), sequence, position + i);
    return Status();
  });
}

/// Checks the batch's pointers and that `slots` holds its tokens.
static Status checkBatch(const mla_cache_append_batch *batch, const int64_t *slots,
                         int64_t capacity) {
  MLAC_RETURN_IF_ERROR(requirePointer(batch, "batch"));
  if (batch->struct_bytes != sizeof *batch)
    return error(MLA_INVALID_ARGUMENT, "batch.struct_bytes = ", batch->struct_bytes, ", expected ",
                 sizeof *batch);
  if (batch->num_requests < 0)
    return error(MLA_INVALID_ARGUMENT, "batch of ", batch->num_requests, " requests");
  if (batch->num_requests > 0) {
    MLAC_RETURN_IF_ERROR(requirePointer(batch->sequences, "batch.sequences"));
    MLAC_RETURN_IF_ERROR(requirePointer(batch->positions, "batch.positions"));
    MLAC_RETURN_IF_ERROR(requirePointer(batch->counts, "batch.counts"));
  }
  if (!slots)
    return Status();
  int64_t tokens =
      std::accumulate(batch->counts, batch->counts + batch->num_requests, int64_t(0),
                      [](int64_t sum, int32_t count) { return sum + std::max(count, 0); });
  if (capacity >= tokens)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "slots of capacity ", capacity, " for ", tokens, " tokens");
}

mla_status mla_cache_append(mla_cache *cache, const mla_cache_append_batch *batch, int64_t *slots,
                            int64_t capacity) {
  return withCache(cache, [&](KVCache &object) -> Status {
    NvtxRange range("mla_cache_append");
    MLAC_RETURN_IF_ERROR(checkBatch(batch, slots, capacity));
    MLAC_RETURN_IF_ERROR(
        object.append(batch->num_requests, batch->sequences, batch->positions, batch->counts));
    for (int64_t i = 0; slots && i < batch->num_requests; ++i) {
      Sequence *sequence = nullptr;
      MLAC_RETURN_IF_ERROR(object.find(batch->sequences[i], sequence));
      for (int32_t token = 0; token < batch->counts[i]; ++token)
        *slots++ = object.slot(0, *sequence, batch->positions[i] + token);
    }
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Sharing
//===----------------------------------------------------------------------===//

mla_status mla_cache_fork(mla_cache *cache, mla_sequence parent, int64_t num_tokens,
                          mla_sequence *child) {
  return withCache(cache, [&](KVCache &object) -> Status {
    NvtxRange range("mla_cache_fork");
    MLAC_RETURN_IF_ERROR(requirePointer(child, "child"));
    return object.fork(parent, num_tokens, *child);
  });
}

mla_status mla_cache_publish(mla_cache *cache, mla_sequence id, int64_t first,
                             const int32_t *tokens, int64_t count, int64_t *published) {
  return withSequence(cache, id, [&](KVCache &object, Sequence &sequence) -> Status {
    NvtxRange range("mla_cache_publish");
    std::span<const int32_t> span;
    MLAC_RETURN_IF_ERROR(readTokens(tokens, count, span));
    MLAC_RETURN_IF_ERROR(object.publish(sequence, first, span));
    if (published)
      *published = object.publishedTokens(sequence);
    return Status();
  });
}

mla_status mla_cache_match(mla_cache *cache, mla_sequence id, const int32_t *tokens, int64_t count,
                           int64_t *matched) {
  return withSequence(cache, id, [&](KVCache &object, Sequence &sequence) -> Status {
    NvtxRange range("mla_cache_match");
    std::span<const int32_t> span;
    MLAC_RETURN_IF_ERROR(requirePointer(matched, "matched"));
    MLAC_RETURN_IF_ERROR(readTokens(tokens, count, span));
    MLAC_RETURN_IF_ERROR(object.match(sequence, span));
    *matched = sequence.length;
    return Status();
  });
}

mla_status mla_cache_drop_cached(mla_cache *cache) {
  return withCache(cache, [&](KVCache &object) {
    object.dropCached();
    return Status();
  });
}

mla_status mla_cache_take_copies(mla_cache *cache, mla_page_copy *copies, int64_t capacity,
                                 int64_t *count) {
  return withLock<std::unique_lock<std::shared_mutex>>(
      cache, [&](CacheObject &object, KVCache &taken) -> Status {
        if (object.engine)
          return error(MLA_INVALID_ARGUMENT, "the engine copies the pages of its cache itself");
        std::vector<mla_page_copy> list;
        for (const PageCopy &copy : taken.copies())
          list.push_back({copy.pool, copy.from, copy.to});
        MLAC_RETURN_IF_ERROR(
            copyOut(std::span<const mla_page_copy>(list), copies, capacity, count, "copies"));
        taken.copiesDone();
        return Status();
      });
}

mla_status mla_cache_set_watermark(mla_cache *cache, int64_t pool, int64_t num_pages) {
  return withCache(cache, [&](KVCache &object) -> Status {
    MLAC_RETURN_IF_ERROR(checkPool(object, pool));
    return object.setWatermark(static_cast<size_t>(pool), num_pages);
  });
}

//===----------------------------------------------------------------------===//
// Snapshots
//===----------------------------------------------------------------------===//

/// Runs function(cache, bytes of its pages) with the engine, if there is one, and
/// the cache locked.
template <typename Function>
static mla_status withPages(mla_cache *handle, const char *path, Function function,
                            const char *name = __builtin_FUNCTION()) {
  return report(
      [&]() -> Status {
        std::shared_ptr<CacheObject> object;
        MLAC_RETURN_IF_ERROR(caches().find(handle, object));
        MLAC_RETURN_IF_ERROR(requirePath(path));
        if (!object->engine) {
          std::unique_lock lock(object->cache().mutex);
          return function(object->cache(), PageBytes());
        }
        std::lock_guard engineLock(object->engine->mutex);
        std::unique_lock lock(object->cache().mutex);
        if (object->engine->isClosed())
          return error(MLA_INVALID_ARGUMENT, "the cache's engine has been destroyed");
        MLAC_RETURN_IF_ERROR(object->engine->runPageCopies(nullptr));
        return function(object->cache(), object->engine->pageBytes());
      },
      name);
}

mla_status mla_cache_save(mla_cache *cache, const char *path) {
  return withPages(cache, path, [&](KVCache &object, const PageBytes &pages) {
    NvtxRange range("mla_cache_save");
    return CacheSnapshot::save(object, pages, path);
  });
}

mla_status mla_cache_restore(mla_cache *cache, const char *path) {
  return withPages(cache, path, [&](KVCache &object, const PageBytes &pages) {
    NvtxRange range("mla_cache_restore");
    return CacheSnapshot::restore(object, pages, path);
  });
}

//===----------------------------------------------------------------------===//
// Observing
//===----------------------------------------------------------------------===//

mla_status mla_cache_get_counters(mla_cache *cache, int64_t pool, mla_cache_counters *counters) {
  return readCache(cache, [&](const KVCache &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(counters, "counters"));
    if (counters->struct_bytes != sizeof *counters)
      return error(MLA_INVALID_ARGUMENT, "counters.struct_bytes = ", counters->struct_bytes,
                   ", expected ", sizeof *counters);
    MLAC_RETURN_IF_ERROR(checkPool(object, pool));
    const PagePool &pages = object.pool(static_cast<size_t>(pool));
    const KVCache::Counters &events = object.counters();
    *counters = {sizeof *counters,      pages.numPages(),           pages.numUnused(),
                 pages.numCached(),     pages.numShared(),          pages.leastFree(),
                 object.numSequences(), object.index().numBlocks(), events.evictedPages,
                 events.evictedBlocks,  events.copiedPages,         events.mergedPages,
                 events.lookupTokens,   events.hitTokens,           events.refusals};
    return Status();
  });
}

mla_status mla_cache_check(mla_cache *cache) {
  return readCache(cache, [&](const KVCache &object) -> Status {
    std::string problem;
    return object.check(problem) ? Status() : Status(MLA_INTERNAL, std::move(problem));
  });
}

mla_status mla_cache_dump(mla_cache *cache, const char **text) {
  return readCache(cache, [&](const KVCache &object) -> Status {
    static thread_local std::string dump;
    MLAC_RETURN_IF_ERROR(requirePointer(text, "text"));
    dump = object.dump();
    *text = dump.c_str();
    return Status();
  });
}
