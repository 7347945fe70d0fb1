//===- Nvtx.cpp - named ranges in profiles ----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface, as NVTX 3 has it for programs and profilers of any version: the profiler's
// library exports InitializeInjectionNvtx2, which gets a function that gives tables by number.
// One table gives the slots of a module's functions, each the address of a pointer that the
// profiler sets; another is told the version of NVTX that we are.
//
//===----------------------------------------------------------------------===//

#include "base/Nvtx.h"

#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>

using namespace mlac::runtime;

static constexpr const char *kLibraryVariable = "NVTX_INJECTION64_PATH",
                            *kEntryPoint = "InitializeInjectionNvtx2";
static constexpr uint32_t kCallbacksTable = 1, kVersionTable = 3, kVersion = 3;
static constexpr int kCoreModule = 1;
/// Functions of the core module by number; 0 is none.
static constexpr unsigned kMark = 2, kPush = 9, kPop = 11, kNumCore = 16;

using Function = void (*)();

namespace {
struct CallbacksTable {
  size_t bytes;
  int (*getModule)(int module, Function ***slots, unsigned *count);
};
struct VersionTable {
  size_t bytes;
  uint32_t version, reserved;
  void (*setProfilersVersion)(uint32_t version);
};
} // namespace

static NvtxFunctions functions;
/// What the profiler may set and nobody calls.
static Function ignored;

static int getModule(int module, Function ***slots, unsigned *count) {
  static Function *core[kNumCore];
  if (module != kCoreModule)
    return 0;
  for (Function *&slot : core)
    slot = &ignored;
  core[0] = nullptr;
  core[kMark] = reinterpret_cast<Function *>(&functions.mark);
  core[kPush] = reinterpret_cast<Function *>(&functions.push);
  core[kPop] = reinterpret_cast<Function *>(&functions.pop);
  if (slots)
    *slots = core;
  if (count)
    *count = kNumCore;
  return 1;
}

static const void *getTable(uint32_t table) {
  static const CallbacksTable callbacks = {sizeof callbacks, getModule};
  static const VersionTable version = {sizeof version, kVersion, 0, [](uint32_t) {}};
  return table == kCallbacksTable ? static_cast<const void *>(&callbacks)
         : table == kVersionTable ? static_cast<const void *>(&version)
                                  : nullptr;
}

/// The library stays loaded: ranges may begin while the process exits.
static bool loadProfiler() {
  const char *path = std::getenv(kLibraryVariable);
  void *library = path && *path ? dlopen(path, RTLD_LAZY) : nullptr;
  if (!library)
    return false;
  using Initialize = int (*)(const void *(*)(uint32_t));
  auto initialize = reinterpret_cast<Initialize>(dlsym(library, kEntryPoint));
  return initialize && initialize(getTable) != 0;
}

const NvtxFunctions *mlac::runtime::nvtx() {
  static const NvtxFunctions *const found = loadProfiler() ? &functions : nullptr;
  return found;
}
