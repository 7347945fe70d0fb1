//===- CApiSupport.h - what the C entry points share ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Handle tables and the thread's last error. Entry points look like
//
//   return report([&]() -> Status { ...; return Status(); });
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CAPISUPPORT_H
#define MLAC_RUNTIME_CAPISUPPORT_H

#include "Handles.h"
#include "Plan.h"

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

using PackageTable = HandleTable<mla_package, PackageObject, 0x51>;
using DeviceTable = HandleTable<mla_device, Device, 0x52>;
using EngineTable = HandleTable<mla_engine, Engine, 0x53>;
using PlanTable = HandleTable<mla_plan, Plan, 0x54>;
using EventTable = HandleTable<mla_event, EventObject, 0x55>;

PackageTable &packages();
DeviceTable &devices();
EngineTable &engines();
PlanTable &plans();
EventTable &events();

/// Stores the message of a failure for mla_last_error and returns its code.
mla_status reportStatus(Status status);

template <typename Function> mla_status report(Function function) {
  return reportStatus(function());
}

inline Status requirePointer(const void *pointer, const char *what) {
  return pointer ? Status() : error(MLA_INVALID_ARGUMENT, what, " is null");
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CAPISUPPORT_H
