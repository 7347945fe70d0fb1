//===- CApi.cpp - C entry points: engines, sequences and steps ----*- C++
//-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Nvtx.h"
#include "capi/CApiSupport.h"

#include <cstddef>
#include <cstring>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

mla_status mla_engine_create(mla_package *package, mla_device *device,
                             const mla_engine_options *options, mla_engine **engine) {
  return report([&]() -> Status {
    std::shared_ptr<PackageObject> packageObject;
    std::shared_ptr<Device> deviceObject;
    std::shared_ptr<Engine> created;
    MLAC_RETURN_IF_ERROR(packages().find(package, packageObject));
    MLAC_RETURN_IF_ERROR(devices().find(device, deviceObject));
    MLAC_RETURN_IF_ERROR(requirePointer(engine, "engine"));
    MLAC_RETURN_IF_ERROR(packageObject->package->requireOneKind());
    MLAC_RETURN_IF_ERROR(Engine::create(packageObject->package, deviceObject, options, created));
    *engine = engines().insert(std::move(created));
    return Status();
  });
}

mla_status mla_engine_destroy(mla_engine *engine) {
  return report([&]() -> Status {
    std::shared_ptr<Engine> object;
    MLAC_RETURN_IF_ERROR(engines().remove(engine, object));
    if (!object) // the parent's
      return Status();
    std::lock_guard lock(object->mutex);
    std::unique_lock cacheLock(object->cache().mutex);
    return object->close();
  });
}

/// Runs function(engine, layer, pool) under the engine's lock.
template <typename Function>
static mla_status withPool(mla_engine *engine, int64_t index, int64_t pool, Function function,
                           const char *name = __builtin_FUNCTION()) {
  return withLayer(
      engine, index,
      [&](Engine &object, Layer &layer) -> Status {
        MLAC_RETURN_IF_ERROR(object.checkPoolIndex(pool));
        return function(object, layer, static_cast<size_t>(pool));
      },
      name);
}

mla_status mla_engine_info(mla_engine *engine, const char **json) {
  return withEngine(engine, [&](Engine &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    static thread_local std::string kept; // another thread's call must not free it
    kept = object.infoJson();
    *json = kept.c_str();
    return Status();
  });
}

mla_status mla_engine_bind_pool(mla_engine *engine, int64_t layer, int64_t pool,
                                const mla_external_pool *memory) {
  return withEngine(engine, [&](Engine &object) { return object.bindPool(layer, pool, memory); });
}

mla_status mla_engine_poison_workspace(mla_engine *engine) {
  return withEngine(engine, [&](Engine &object) { return object.poisonWorkspace(); });
}

mla_status mla_engine_set_cache_scale(mla_engine *engine, int64_t layer, int64_t pool,
                                      float scale) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &found, size_t index) {
    const float scales[] = {scale, scale};
    return object.setCacheScales(found, index,
                                 std::span(scales).first(object.countCacheScales(index)));
  });
}

mla_status mla_engine_set_cache_scales(mla_engine *engine, int64_t layer, int64_t pool,
                                       const float *scales, int64_t count) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &found, size_t index) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(scales, "scales"));
    auto expected = static_cast<int64_t>(object.countCacheScales(index));
    if (expected > 0 && count != expected)
      return error(MLA_INVALID_ARGUMENT, "count = ", count, ", rows of this pool have ", expected,
                   " scales of their layer");
    return object.setCacheScales(found, index, std::span(scales, static_cast<size_t>(expected)));
  });
}

mla_status mla_engine_set_all_reduce(mla_engine *engine, mla_all_reduce function, void *user) {
  return withEngine(engine, [&](Engine &object) { return object.setAllReduce({function, user}); });
}

//===----------------------------------------------------------------------===//
// Sequences and the cache
//===----------------------------------------------------------------------===//

mla_status mla_sequence_create(mla_engine *engine, mla_sequence *sequence) {
  return withEngine(engine, [&](Engine &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(sequence, "sequence"));
    MLAC_RETURN_IF_ERROR(object.requireOwnPools("what sequences they hold"));
    std::unique_lock lock(object.cache().mutex);
    return object.cache().create(*sequence);
  });
}

mla_status mla_sequence_free(mla_engine *engine, mla_sequence sequence) {
  return withEngine(engine, [&](Engine &object) {
    std::unique_lock lock(object.cache().mutex);
    return object.cache().free(sequence);
  });
}

/// Runs function(cache, sequence) under the locks of engine and cache.
template <typename Function>
static mla_status withSequence(mla_engine *engine, mla_sequence id, Function function,
                               const char *name = __builtin_FUNCTION()) {
  return withEngine(
      engine,
      [&](Engine &object) -> Status {
        std::unique_lock lock(object.cache().mutex);
        Sequence *sequence;
        MLAC_RETURN_IF_ERROR(object.cache().find(id, sequence));
        return function(object.cache(), *sequence);
      },
      name);
}

mla_status mla_sequence_reserve(mla_engine *engine, mla_sequence id, int64_t num_tokens) {
  return withSequence(engine, id, [&](KVCache &cache, Sequence &sequence) {
    return cache.admit(sequence, num_tokens);
  });
}

mla_status mla_sequence_truncate(mla_engine *engine, mla_sequence id, int64_t num_tokens) {
  return withSequence(engine, id, [&](KVCache &cache, Sequence &sequence) {
    return cache.truncate(sequence, num_tokens);
  });
}

mla_status mla_sequence_length(mla_engine *engine, mla_sequence id, int64_t *length) {
  return withSequence(engine, id, [&](KVCache &, Sequence &sequence) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(length, "length"));
    *length = sequence.length;
    return Status();
  });
}

mla_status mla_sequence_pages(mla_engine *engine, mla_sequence id, int32_t *pages, int64_t capacity,
                              int64_t *count) {
  return withSequence(engine, id, [&](KVCache &, Sequence &sequence) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(count, "count"));
    *count = static_cast<int64_t>(sequence.pages.size());
    if (capacity < *count)
      return error(MLA_INVALID_ARGUMENT, "capacity is ", capacity, ", the sequence has ", *count,
                   " pages");
    if (*count > 0)
      MLAC_RETURN_IF_ERROR(requirePointer(pages, "pages"));
    std::copy(sequence.pages.begin(), sequence.pages.end(), pages);
    return Status();
  });
}

mla_status mla_cache_get_stats(mla_engine *engine, int64_t pool, mla_cache_stats *stats) {
  return withEngine(engine, [&](Engine &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(stats, "stats"));
    MLAC_RETURN_IF_ERROR(object.checkPoolIndex(pool));
    auto index = static_cast<size_t>(pool);
    const KVCache &cache = object.cache();
    std::shared_lock lock(cache.mutex);
    const PoolInfo &info = object.package().pools()[index];
    *stats = {object.limits().pool(index).numPages,
              cache.pool(index).numFree(),
              cache.numSequences(),
              info.pageRows(),
              info.rowBytes(),
              object.pageStride(index),
              info.dtype};
    return Status();
  });
}

mla_status mla_cache_data(mla_engine *engine, int64_t layer, int64_t pool, void **data) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &bound, size_t index) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(data, "data"));
    MLAC_RETURN_IF_ERROR(object.requirePool(bound, index));
    *data = bound.pools[index].data();
    return Status();
  });
}

static std::string listParts(const CacheLayout &layout) {
  std::string names;
  for (size_t i = 0; i < layout.format().numFields; ++i)
    if (layout.count(i) > 0)
      names +=
          concat(names.empty() ? "" : ", ", mlac::cache::partName(layout.format().fields[i].part));
  return names;
}

static Status findPart(const Engine &engine, const Layer &layer, size_t pool, const char *name,
                       mla_cache_part &view) {
  const CacheLayout &layout = engine.cacheLayout(pool);
  const mlac::cache::Format &format = layout.format();
  size_t index = findPart(format, name);
  int64_t width = index < format.numFields ? layout.count(index) : 0;
  if (width == 0)
    return error(MLA_NOT_FOUND, "rows of layout '", format.name, "' have no part '", name,
                 "', which would be ", listParts(layout));
  const mlac::cache::Field &field = format.fields[index];
  if (field.storage == mlac::cache::Storage::E2M1) // of a byte each
    width /= 2;
  view = {layer.pools[pool].data() + layout.offset(index, 0),
          fieldType(field, layout.shape().dtype),
          engine.limits().pool(pool).numPages,
          layout.shape().pageSize,
          width,
          layout.pageStride(),
          layout.sectionBytes(field.section)};
  return Status();
}

mla_status mla_cache_part_of(mla_engine *engine, int64_t layer, int64_t pool, const char *part,
                             mla_cache_part *view) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &bound, size_t index) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(part, "part"));
    MLAC_RETURN_IF_ERROR(requirePointer(view, "view"));
    MLAC_RETURN_IF_ERROR(object.requirePool(bound, index));
    return findPart(object, bound, index, part, *view);
  });
}

mla_status mla_cache_poison(mla_engine *engine, int64_t layer) {
  return withLayer(engine, layer,
                   [&](Engine &object, Layer &bound) { return object.poison(bound); });
}

mla_status mla_cache_read(mla_engine *engine, int64_t layer, int64_t pool, int64_t slot,
                          int64_t count, void *rows) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &bound, size_t index) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(rows, "rows"));
    return object.readRows(bound, index, slot, count, rows);
  });
}

mla_status mla_cache_write(mla_engine *engine, int64_t layer, int64_t pool, int64_t slot,
                           int64_t count, const void *rows) {
  return withPool(engine, layer, pool, [&](Engine &object, Layer &bound, size_t index) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(rows, "rows"));
    return object.writeRows(bound, index, slot, count, rows);
  });
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

mla_status mla_plan_create(mla_engine *engine, mla_plan **plan) {
  return report([&]() -> Status {
    std::shared_ptr<Engine> object;
    std::shared_ptr<Plan> created;
    MLAC_RETURN_IF_ERROR(engines().find(engine, object));
    MLAC_RETURN_IF_ERROR(requirePointer(plan, "plan"));
    std::lock_guard lock(object->mutex);
    MLAC_RETURN_IF_ERROR(Plan::create(object, created));
    *plan = plans().insert(std::move(created));
    return Status();
  });
}

mla_status mla_plan_destroy(mla_plan *plan) {
  return report([&]() -> Status {
    std::shared_ptr<Plan> object;
    return plans().remove(plan, object);
  });
}

/// Runs function(plan) under its engine's lock.
template <typename Function>
static mla_status withPlan(mla_plan *plan, Function function,
                           const char *name = __builtin_FUNCTION()) {
  auto run = [&]() -> Status {
    std::shared_ptr<Plan> object;
    MLAC_RETURN_IF_ERROR(plans().find(plan, object));
    std::lock_guard lock(object->engine().mutex);
    if (object->engine().isClosed())
      return error(MLA_INVALID_ARGUMENT, "the plan's engine has been destroyed");
    return function(*object);
  };
  return report(run, name);
}

static Status checkBatch(const mla_batch *batch) {
  MLAC_RETURN_IF_ERROR(requirePointer(batch, "batch"));
  bool hasPrefix = batch->struct_bytes == sizeof *batch;
  if (!hasPrefix && batch->struct_bytes != offsetof(mla_batch, common_prefix_len))
    return error(MLA_INVALID_ARGUMENT, "batch.struct_bytes = ", batch->struct_bytes, ", expected ",
                 sizeof *batch);
  if (hasPrefix && batch->common_prefix_len != 0)
    return error(MLA_UNSUPPORTED, "batch.common_prefix_len = ", batch->common_prefix_len,
                 ": cascade attention over a shared prefix is not supported, expected 0");
  return Status();
}

static Status checkShape(const mla_step_shape &shape) {
  if (shape.struct_bytes == sizeof shape)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "shape.struct_bytes = ", shape.struct_bytes, ", expected ",
               sizeof shape);
}

mla_status mla_step_plan(mla_plan *plan, const mla_batch *batch, const char *function,
                         mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) -> Status {
    NvtxRange range("mla_step_plan");
    MLAC_RETURN_IF_ERROR(checkBatch(batch));
    return object.fill(*batch, function, nullptr, stream);
  });
}

mla_status mla_step_plan_padded(mla_plan *plan, const mla_batch *batch, const char *function,
                                const mla_step_shape *shape, mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) -> Status {
    NvtxRange range("mla_step_plan_padded");
    MLAC_RETURN_IF_ERROR(checkBatch(batch));
    MLAC_RETURN_IF_ERROR(requirePointer(shape, "shape"));
    MLAC_RETURN_IF_ERROR(checkShape(*shape));
    return object.fill(*batch, function, shape, stream);
  });
}

/// A batch of tables, which may end before its `pools`, or at `end`.
template <typename Batch>
static Status readBatch(const Batch *batch, Batch &whole, size_t end = sizeof(Batch)) {
  MLAC_RETURN_IF_ERROR(requirePointer(batch, "batch"));
  if (batch->struct_bytes != sizeof *batch && batch->struct_bytes != offsetof(Batch, pools) &&
      batch->struct_bytes != end)
    return error(MLA_INVALID_ARGUMENT, "batch.struct_bytes = ", batch->struct_bytes, ", expected ",
                 sizeof *batch);
  whole = {};
  std::memcpy(&whole, batch, batch->struct_bytes);
  return Status();
}

mla_status mla_step_plan_tables(mla_plan *plan, const mla_table_batch *batch, const char *function,
                                const mla_step_shape *shape, mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) -> Status {
    NvtxRange range("mla_step_plan_tables");
    mla_table_batch whole;
    MLAC_RETURN_IF_ERROR(readBatch(batch, whole, offsetof(mla_table_batch, flags)));
    if (whole.flags & ~MLA_TABLES_ON_DEVICE)
      return error(MLA_INVALID_ARGUMENT, "batch.flags is ", whole.flags,
                   ", expected MLA_TABLES_ON_DEVICE or nothing");
    if (shape && whole.flags)
      return error(MLA_UNSUPPORTED, "a step of tables on the device is not padded to a shape");
    if (shape)
      MLAC_RETURN_IF_ERROR(checkShape(*shape));
    return object.fillFromTables(whole, function, shape, stream);
  });
}

mla_status mla_step_plan_device(mla_plan *plan, const mla_device_batch *batch, const char *function,
                                mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) -> Status {
    NvtxRange range("mla_step_plan_device");
    mla_device_batch whole;
    MLAC_RETURN_IF_ERROR(readBatch(batch, whole));
    return object.fillFromDevice(whole, function, stream);
  });
}

mla_status mla_step_dry_run(mla_engine *engine, void *output, int64_t num_tokens,
                            mla_stream *stream) {
  return withEngine(engine,
                    [&](Engine &object) { return object.dryRun(output, num_tokens, stream); });
}

mla_status mla_step_run(mla_plan *plan, int64_t layer, const void *hidden, void *output,
                        mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) {
    NvtxRange range("mla_step_run");
    return object.run(layer, hidden, output, stream);
  });
}

mla_status mla_step_run_bound(mla_plan *plan, int64_t layer, const mla_binding *bindings,
                              int64_t num_bindings, mla_stream *stream) {
  return withPlan(plan, [&](Plan &object) -> Status {
    NvtxRange range("mla_step_run_bound");
    if (num_bindings < 0)
      return error(MLA_INVALID_ARGUMENT, "num_bindings is ", num_bindings);
    if (num_bindings > 0)
      MLAC_RETURN_IF_ERROR(requirePointer(bindings, "bindings"));
    return object.runBound(layer, {bindings, static_cast<size_t>(num_bindings)}, stream);
  });
}

mla_status mla_step_profile(mla_plan *plan, int64_t layer, const void *hidden, void *output,
                            mla_stream *stream, const char **json) {
  return withPlan(plan, [&](Plan &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    return object.profile(layer, hidden, output, stream, json);
  });
}

mla_status mla_plan_release_captures(mla_plan *plan) {
  return withPlan(plan, [](Plan &object) -> Status {
    object.releaseCaptures();
    return Status();
  });
}

mla_status mla_plan_function(mla_plan *plan, const char **name) {
  return withPlan(plan, [&](Plan &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
    return object.functionName(*name);
  });
}

mla_status mla_plan_dim(mla_plan *plan, const char *name, int64_t *value) {
  return withPlan(plan, [&](Plan &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
    MLAC_RETURN_IF_ERROR(requirePointer(value, "value"));
    return object.dim(name, *value);
  });
}

mla_status mla_plan_metadata(mla_plan *plan, const char *name, mla_dtype *dtype, int64_t *elements,
                             const void **data) {
  return withPlan(plan, [&](Plan &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(name, "name"));
    MLAC_RETURN_IF_ERROR(requirePointer(dtype, "dtype"));
    MLAC_RETURN_IF_ERROR(requirePointer(elements, "elements"));
    MLAC_RETURN_IF_ERROR(requirePointer(data, "data"));
    return object.metadata(name, *dtype, *elements, *data);
  });
}
