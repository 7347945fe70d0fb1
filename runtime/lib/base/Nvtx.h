//===- Nvtx.h - named ranges in profiles ------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges for Nsight Systems. NVTX 3 is a header: without a profiler a range is a
// load and a branch, and no library is needed. Where the header is missing at
// build time (no CUDA toolkit), ranges are nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_NVTX_H
#define MLAC_RUNTIME_NVTX_H

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MLAC_HAS_NVTX 1
#else
#define MLAC_HAS_NVTX 0
#endif

namespace mlac::runtime {

/// From here to the end of the scope; `name` is a literal.
class NvtxRange {
public:
#if MLAC_HAS_NVTX
  explicit NvtxRange(const char *name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
#else
  explicit NvtxRange(const char *) {}
  ~NvtxRange() {}
#endif
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_NVTX_H
