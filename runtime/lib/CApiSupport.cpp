//===- CApiSupport.cpp - what the C entry points share ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CApiSupport.h"

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

static thread_local std::string lastError;
/// Set instead of formatting a message: the outcome is frequent.
static thread_local bool isLastOutOfPages = false;

mla_status mlac::runtime::reportStatus(Status status) {
  if (status.isOk())
    return MLA_OK;
  isLastOutOfPages = status.code() == MLA_OUT_OF_PAGES;
  if (!isLastOutOfPages)
    lastError = status.message();
  return status.code();
}

const char *mla_last_error(void) {
  return isLastOutOfPages ? "the page pool cannot hold the new tokens" : lastError.c_str();
}

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
