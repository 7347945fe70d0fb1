//===- CudaDriver.cpp - the CUDA driver, opened at run time -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/CudaDriver.h"

#include "base/Process.h"

#include <dlfcn.h>

using namespace mlac::runtime;
using namespace mlac::runtime::cuda;

static constexpr const char *kLibrary = "libcuda.so.1";

Status Driver::check(Result result, const char *call) const {
  if (result == kSuccess)
    return Status();
  const char *name = nullptr, *description = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &description);
  mla_status code = result == kOutOfMemory ? MLA_OUT_OF_MEMORY : MLA_DEVICE_ERROR;
  return error(code, call, ": ", name ? name : "unknown CUDA error", " (",
               description ? description : "", ")");
}

static Status findSymbols(void *library, Driver &driver) {
  void *address;
#define MLAC_FIND(member, symbol, arguments)                                                       \
  address = dlsym(library, symbol);                                                                \
  if (!address)                                                                                    \
    return error(MLA_NO_DEVICE, "the driver's ", kLibrary, " lacks ", symbol, ": it is too old");  \
  driver.member = reinterpret_cast<decltype(driver.member)>(address);
  MLAC_CUDA_FUNCTIONS(MLAC_FIND)
#undef MLAC_FIND
#define MLAC_FIND(member, symbol, arguments)                                                       \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(library, symbol));
  MLAC_CUDA_LATER_FUNCTIONS(MLAC_FIND)
#undef MLAC_FIND
  return Status();
}

/// Finds the symbols and initialises the driver. The library stays open: a
/// primary context may outlive everything of ours.
static Status open(Driver &driver) {
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return error(MLA_NO_DEVICE, "no CUDA driver: ", dlerror());
  MLAC_RETURN_IF_ERROR(findSymbols(library, driver));
  Result result = driver.init(0);
  if (result != kSuccess)
    return error(MLA_NO_DEVICE,
                 "no usable CUDA device: ", driver.check(result, "cuInit").message());
  return Status();
}

Status mlac::runtime::cuda::openDriver(const Driver *&driver) {
  static Driver instance{};
  static const Status status = open(instance);
  static const uint64_t epoch = processEpoch;
  driver = &instance;
  if (epoch != processEpoch)
    return error(MLA_WRONG_STATE, "CUDA was used before fork(): it cannot be used in a child "
                                  "process of one that has");
  return status;
}
