//===- CApiOperation.cpp - the log and the counters, in C -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "capi/CApiSupport.h"
#include "engine/Metrics.h"
#include "engine/StepReplay.h"

using namespace mlac::runtime;

mla_status mla_set_log(mla_log_level level, mla_log_function function, void *user) {
  return report([&] { return setLog(level, function, user); });
}

mla_status mla_metrics(const char **text) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(text, "text"));
    static thread_local std::string kept;
    std::string made = Metrics::get().print();
    made += Metrics::poolsHeader();
    engines().forEach([&](uint64_t id, Engine &engine) {
      if (!engine.isClosed())
        Metrics::printPools(made, id, engine);
    });
    kept = std::move(made);
    *text = kept.c_str();
    return Status();
  });
}

mla_status mla_step_replay(mla_package *package, mla_device *device, const char *path,
                           const char **json) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePath(path));
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    std::shared_ptr<PackageObject> object;
    MLAC_RETURN_IF_ERROR(packages().find(package, object));
    MLAC_RETURN_IF_ERROR(object->package->requireOneKind());
    std::shared_ptr<Device> on;
    MLAC_RETURN_IF_ERROR(devices().find(device, on));
    Json result;
    MLAC_RETURN_IF_ERROR(replayStep(*object->package, on, path, result));
    static thread_local std::string kept;
    kept = toText(result);
    *json = kept.c_str();
    return Status();
  });
}
