//===- CApiTable.cpp - C entry points: block tables on devices --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/Nvtx.h"
#include "capi/CApiSupport.h"

using namespace mlac::runtime;

// Generous, and small enough that the tables' bytes stay in int64.
static constexpr int64_t kMaxRows = 1 << 16, kMaxTokens = 1 << 24;

static Status checkRange(const char *what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_INVALID_ARGUMENT, what, " = ", value, ", expected ", low, " to ", high);
}

/// Runs function(cache) with the cache locked for reading.
template <typename Function> static Status readCache(CacheObject &object, Function function) {
  KVCache &cache = object.cache();
  std::shared_lock lock(cache.mutex);
  if (object.engine && object.engine->isClosed())
    return error(MLA_INVALID_ARGUMENT, "the cache's engine has been destroyed");
  return function(static_cast<const KVCache &>(cache));
}

/// Runs function(object) with the table locked.
template <typename Function>
static mla_status withTable(mla_table *table, Function function,
                            const char *name = __builtin_FUNCTION()) {
  return report(
      [&]() -> Status {
        std::shared_ptr<TableObject> object;
        MLAC_RETURN_IF_ERROR(blockTables().find(table, object));
        std::lock_guard lock(object->mutex);
        return function(*object);
      },
      name);
}

mla_status mla_table_create(mla_cache *cache, mla_device *device, int64_t pool, int64_t rows,
                            int64_t tokens, mla_table **table) {
  return report([&]() -> Status {
    auto object = std::make_shared<TableObject>();
    std::shared_ptr<Device> deviceObject;
    MLAC_RETURN_IF_ERROR(caches().find(cache, object->cache));
    MLAC_RETURN_IF_ERROR(devices().find(device, deviceObject));
    MLAC_RETURN_IF_ERROR(requirePointer(table, "table"));
    MLAC_RETURN_IF_ERROR(checkRange("rows", rows, 1, kMaxRows));
    MLAC_RETURN_IF_ERROR(checkRange("tokens", tokens, 1, kMaxTokens));
    MLAC_RETURN_IF_ERROR(readCache(*object->cache, [&](const KVCache &read) -> Status {
      auto last = static_cast<int64_t>(read.numPools()) - 1;
      MLAC_RETURN_IF_ERROR(checkRange("pool", pool, 0, last));
      return BlockTable::create(read, static_cast<size_t>(pool), rows, tokens,
                                std::move(deviceObject), object->table);
    }));
    *table = blockTables().insert(std::move(object));
    return Status();
  });
}

mla_status mla_table_destroy(mla_table *table) {
  return report([&]() -> Status {
    std::shared_ptr<TableObject> object;
    return blockTables().remove(table, object);
  });
}

mla_status mla_table_view_of(mla_table *table, mla_table_view *view) {
  return withTable(table, [&](TableObject &object) -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(view, "view"));
    const BlockTable &shown = *object.table;
    *view = {shown.blockTable(), shown.seqLens(), shown.slotMapping(),
             shown.rows(),       shown.columns(), shown.tokens()};
    return Status();
  });
}

mla_status mla_table_assign(mla_table *table, int64_t row, mla_sequence sequence) {
  return withTable(table, [&](TableObject &object) -> Status {
    MLAC_RETURN_IF_ERROR(checkRange("row", row, 0, object.table->rows() - 1));
    if (sequence != 0)
      MLAC_RETURN_IF_ERROR(readCache(*object.cache, [&](const KVCache &cache) {
        const Sequence *found;
        return cache.find(sequence, found);
      }));
    object.table->assign(row, sequence);
    return Status();
  });
}

mla_status mla_table_update(mla_table *table, const int64_t *slots, int64_t num_slots,
                            mla_stream *stream, mla_table_changes *changes) {
  return withTable(table, [&](TableObject &object) -> Status {
    NvtxRange range("mla_table_update");
    MLAC_RETURN_IF_ERROR(checkRange("num_slots", num_slots, 0, object.table->tokens()));
    if (num_slots > 0)
      MLAC_RETURN_IF_ERROR(requirePointer(slots, "slots"));
    mla_table_changes made = {0, 0};
    MLAC_RETURN_IF_ERROR(readCache(*object.cache, [&](const KVCache &cache) {
      return object.table->update(cache, {slots, static_cast<size_t>(num_slots)}, stream,
                                  made.entries, made.copies);
    }));
    if (changes)
      *changes = made;
    return Status();
  });
}
