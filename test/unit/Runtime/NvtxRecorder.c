/*===- NvtxRecorder.c - a profiler that prints ranges -------------*- C -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What NVTX_INJECTION64_PATH names in tests: the profiler's side of the interface, for any
// program that speaks NVTX 3 (NVIDIA's own header, too). Standard error gets a line for each
// call, indented by the ranges around it.
//
//===----------------------------------------------------------------------===*/

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*Function)(void);
struct Callbacks {
  size_t bytes;
  int (*get_module)(int module, Function ***slots, unsigned *count);
};
struct Version {
  size_t bytes;
  uint32_t version, reserved;
  void (*set_version)(uint32_t version);
};

static _Thread_local int depth;

static int push(const char *name) {
  fprintf(stderr, "%*s%s {\n", 2 * depth, "", name);
  return depth++;
}
static int pop(void) {
  fprintf(stderr, "%*s}\n", 2 * --depth, "");
  return depth;
}
static void mark(const char *message) { fprintf(stderr, "%*s%s\n", 2 * depth, "", message); }

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*get_table)(uint32_t)) {
  enum { kCallbacks = 1, kVersion = 3, kCore = 1, kMark = 2, kPush = 9, kPop = 11 };
  const struct Callbacks *callbacks = get_table(kCallbacks);
  const struct Version *version = get_table(kVersion);
  Function **slots = NULL;
  unsigned count = 0;
  if (!callbacks || !callbacks->get_module(kCore, &slots, &count) || count <= kPop)
    return 0;
  if (version)
    version->set_version(3);
  for (unsigned i = 1; i < count; ++i)
    if (!slots[i]) /* a profiler writes to any of them */
      return 0;
  *slots[kMark] = (Function)mark;
  *slots[kPush] = (Function)push;
  *slots[kPop] = (Function)pop;
  return 1;
}
