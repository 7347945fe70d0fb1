//===- CApiSupport.cpp - what the C entry points share ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "capi/CApiSupport.h"

#include "engine/Metrics.h"

#include <new>
#include <pthread.h>
#include <stdexcept>

using namespace mlac::runtime;

// The tables are never destroyed: objects may be closed by other threads while
// the process exits.
template <typename Table> static Table &table(const char *what) {
  static Table &instance = *new Table(what);
  return instance;
}

PackageTable &mlac::runtime::packages() { return table<PackageTable>("package"); }
DeviceTable &mlac::runtime::devices() { return table<DeviceTable>("device"); }
EngineTable &mlac::runtime::engines() { return table<EngineTable>("engine"); }
PlanTable &mlac::runtime::plans() { return table<PlanTable>("plan"); }
EventTable &mlac::runtime::events() { return table<EventTable>("event"); }
CacheTable &mlac::runtime::caches() { return table<CacheTable>("cache"); }
TableTable &mlac::runtime::blockTables() { return table<TableTable>("block table"); }
SwapTable &mlac::runtime::swapSpaces() { return table<SwapTable>("swap space"); }
CheckpointTable &mlac::runtime::checkpoints() { return table<CheckpointTable>("checkpoint"); }

template <typename Function> static void forEachTable(Function function) {
  function(packages());
  function(devices());
  function(engines());
  function(plans());
  function(events());
  function(caches());
  function(blockTables());
  function(swapSpaces());
  function(checkpoints());
}

static void lockTables() {
  forEachTable([](auto &table) { table.lock(); });
  Metrics::get().lock();
  logMutex().lock();
}
static void unlockTables() {
  logMutex().unlock();
  Metrics::get().unlock();
  forEachTable([](auto &table) { table.unlock(); });
}
static void enterChild() {
  ++processEpoch;
  unlockTables();
}
[[maybe_unused]] static const int forkHandlers =
    pthread_atfork(lockTables, unlockTables, enterChild);

static thread_local std::string lastError;
/// Set instead of a message: the outcome is frequent, or there is no memory.
static thread_local const char *fixedError = nullptr;

mla_status mlac::runtime::reportStatus(Status status) {
  if (status.isOk())
    return MLA_OK;
  bool isOutOfPages = status.code() == MLA_OUT_OF_PAGES;
  fixedError = isOutOfPages ? "the page pool cannot hold the new tokens" : nullptr;
  if (!isOutOfPages)
    lastError = status.takeMessage();
  return status.code();
}

mla_status mlac::runtime::reportException() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    fixedError = "the process is out of memory";
    return MLA_OUT_OF_MEMORY;
  } catch (const std::length_error &) {
    fixedError = "a size is beyond what memory can hold";
    return MLA_OUT_OF_MEMORY;
  } catch (...) {
    fixedError = "an unexpected exception was thrown";
    return MLA_INTERNAL;
  }
}

mla_status mlac::runtime::endCall(const LoggedCall &call, mla_status status) {
  Metrics::get().countStatus(status);
  call.end(status, status == MLA_OK ? "" : mla_last_error());
  return status;
}

const char *mla_last_error(void) { return fixedError ? fixedError : lastError.c_str(); }

const char *mla_status_name(mla_status status) {
  static constexpr const char *kNames[] = {
      "MLA_OK",          "MLA_INVALID_ARGUMENT", "MLA_OUT_OF_PAGES",
      "MLA_NOT_FOUND",   "MLA_CORRUPT",          "MLA_UNSUPPORTED",
      "MLA_NO_DEVICE",   "MLA_DEVICE_ERROR",     "MLA_OUT_OF_MEMORY",
      "MLA_WRONG_STATE", "MLA_INTERNAL"};
  auto index = static_cast<size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "unknown status";
}

const char *mla_runtime_version(void) { return MLAC_VERSION; }
