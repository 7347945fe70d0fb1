//===- CApiSupport.h - what the C entry points share ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Handle tables and the thread's last error. Only a failed allocation throws in
// the runtime; the entry points turn it into a status. They look like
//
//   return report([&]() -> Status { ...; return Status(); });
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CAPISUPPORT_H
#define MLAC_RUNTIME_CAPISUPPORT_H

#include "base/ApiLog.h"
#include "capi/Handles.h"
#include "engine/Plan.h"
#include "step/BlockTable.h"

#include <atomic>

namespace mlac::runtime {

/// A package and the lock of its lazily made description.
struct PackageObject {
  std::shared_ptr<Package> package;
  std::mutex mutex;
};

/// An event and the device that keeps its context alive.
struct EventObject {
  std::shared_ptr<Device> device;
  std::unique_ptr<Event> event;
  std::atomic<bool> isRecorded = false;
};

/// A cache of its own, or an engine's.
struct CacheObject {
  std::shared_ptr<Engine> engine; // null: `own` is the cache
  std::unique_ptr<KVCache> own;
  KVCache &cache() { return engine ? engine->cache() : *own; }
};

/// A checkpoint and the lock of its shards, which are opened when they are needed; taken after
/// an engine's.
struct CheckpointObject {
  std::shared_ptr<Checkpoint> checkpoint;
  std::mutex mutex;
};

inline bool isOfDevice(const PackageObject &) { return false; }
inline bool isOfDevice(const CheckpointObject &) { return false; }
inline bool isOfDevice(const CacheObject &cache) { return cache.engine != nullptr; }

/// A block table on a device. `mutex` is taken before the locks of its cache.
struct TableObject {
  std::shared_ptr<CacheObject> cache;
  std::unique_ptr<BlockTable> table;
  std::mutex mutex;
};

class SwapSpace;

using PackageTable = HandleTable<mla_package, PackageObject, 0x51>;
using DeviceTable = HandleTable<mla_device, Device, 0x52>;
using EngineTable = HandleTable<mla_engine, Engine, 0x53>;
using PlanTable = HandleTable<mla_plan, Plan, 0x54>;
using EventTable = HandleTable<mla_event, EventObject, 0x55>;
using CacheTable = HandleTable<mla_cache, CacheObject, 0x56>;
using TableTable = HandleTable<mla_table, TableObject, 0x57>;
using SwapTable = HandleTable<mla_swap, SwapSpace, 0x58>;
using CheckpointTable = HandleTable<mla_checkpoint, CheckpointObject, 0x59>;

PackageTable &packages();
DeviceTable &devices();
EngineTable &engines();
PlanTable &plans();
EventTable &events();
CacheTable &caches();
TableTable &blockTables();
SwapTable &swapSpaces();
CheckpointTable &checkpoints();

/// Stores the message of a failure for mla_last_error and returns its code.
mla_status reportStatus(Status status);

/// The same for a failed allocation and for what should not be thrown at all.
mla_status reportException();

/// Counts and logs a call that ends with `status`; returns it.
mla_status endCall(const LoggedCall &call, mla_status status);

/// Runs `function` and reports its status; nothing thrown leaves it. `name` is the entry
/// point's, here and below.
template <typename Function>
mla_status report(Function function, const char *name = __builtin_FUNCTION()) {
  LoggedCall call(name);
  try {
    return endCall(call, reportStatus(function()));
  } catch (...) {
    return endCall(call, reportException());
  }
}

/// Runs function(engine) under the engine's lock.
template <typename Function>
mla_status withEngine(mla_engine *engine, Function function,
                      const char *name = __builtin_FUNCTION()) {
  auto run = [&]() -> Status {
    std::shared_ptr<Engine> object;
    MLAC_RETURN_IF_ERROR(engines().find(engine, object));
    std::lock_guard lock(object->mutex);
    if (object->isClosed())
      return error(MLA_INVALID_ARGUMENT, "the engine has been closed");
    return function(*object);
  };
  return report(run, name);
}

/// Runs function(engine, layer) under the engine's lock.
template <typename Function>
mla_status withLayer(mla_engine *engine, int64_t index, Function function,
                     const char *name = __builtin_FUNCTION()) {
  auto run = [&](Engine &object) -> Status {
    Layer *layer;
    MLAC_RETURN_IF_ERROR(object.getLayer(index, layer));
    return function(object, *layer);
  };
  return withEngine(engine, run, name);
}

inline Status requirePointer(const void *pointer, const char *what) {
  return pointer ? Status() : error(MLA_INVALID_ARGUMENT, what, " is null");
}

/// An empty name is none: messages that begin with the path would begin with nothing.
inline Status requirePath(const char *path) {
  MLAC_RETURN_IF_ERROR(requirePointer(path, "path"));
  if (*path)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "path: expected the name of a file, got ''");
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CAPISUPPORT_H
