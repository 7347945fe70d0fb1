//===- Nvtx.h - named ranges in profiles ------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges for Nsight Systems, by the injection interface of NVTX 3: a profiler names its
// library in NVTX_INJECTION64_PATH, which is loaded when the first range begins and fills in
// the functions below. So neither NVIDIA's header nor a library of theirs is needed, and without
// a profiler a range is a load and a branch.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_NVTX_H
#define MLAC_RUNTIME_NVTX_H

#include <cstdint>
#include <string>

namespace mlac::runtime {

/// What the profiler has given; null where it takes no such calls.
struct NvtxFunctions {
  int (*push)(const char *name) = nullptr;
  int (*pop)() = nullptr;
  void (*mark)(const char *message) = nullptr;
};
/// Null without a profiler.
const NvtxFunctions *nvtx();

/// From here to the end of the scope; `name` is a literal.
class NvtxRange {
public:
  explicit NvtxRange(const char *name) : functions(nvtx()) {
    if (functions && functions->push)
      functions->push(name);
  }
  /// "decode, layer 3".
  NvtxRange(const std::string &function, int64_t layer) : functions(nvtx()) {
    if (functions && functions->push)
      functions->push((function + ", layer " + std::to_string(layer)).c_str());
  }
  ~NvtxRange() {
    if (functions && functions->pop)
      functions->pop();
  }
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;

private:
  const NvtxFunctions *functions;
};

/// A point in time at which a step is planned: "decode: 64 requests, 64 tokens".
inline void markNvtx(const std::string &function, int64_t requests, int64_t tokens) {
  const NvtxFunctions *functions = nvtx();
  if (functions && functions->mark)
    functions->mark((function + ": " + std::to_string(requests) + " requests, " +
                     std::to_string(tokens) + " tokens")
                        .c_str());
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_NVTX_H
