//===- TensorMaps.h - TMA descriptors of a launch ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel's tensor maps (package.fbs) take their sizes from a launch's arguments,
// which are known when a step is planned, and their address when it runs:
//
//   verify   verifyTensorMaps   indices and ranges of the package
//   plan     makeTensorMap      sizes in elements and strides in bytes, checked
//   run      Program::encode    the 128 bytes, again only if the address changed
//
// Limits are those of cuTensorMapEncodeTiled (CUDA Driver API, Tensor Core
// Management) with a 128-byte swizzle.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_TENSORMAPS_H
#define MLAC_RUNTIME_TENSORMAPS_H

#include "base/DataType.h"
#include "base/Status.h"
#include "package_generated.h"

#include <array>
#include <span>

namespace mlac::runtime {

namespace fb = ::mlac::package;

inline constexpr size_t kMaxTensorMaps = 16; // of one kernel
inline constexpr uint32_t kMaxTensorRank = 5;

struct TensorMap {
  uint32_t arg; // of the launch: the buffer
  mla_dtype dtype;
  uint32_t rank;
  int64_t byteOffset;
  // Innermost first, as the driver wants them; the innermost stride is one element.
  std::array<uint64_t, kMaxTensorRank> sizes;
  std::array<uint64_t, kMaxTensorRank - 1> strideBytes;
  std::array<uint32_t, kMaxTensorRank> box;
};

/// A CUtensorMap and the address that it was made for.
struct EncodedTensorMap {
  alignas(64) std::array<uint8_t, 128> bytes;
  uint64_t address = 0; // 0: not made yet
};

/// Checks what does not depend on a launch.
Status verifyTensorMaps(const fb::Kernel &kernel);

/// Checks that a launch's arguments are what the maps say.
Status verifyTensorMapArgs(const fb::Kernel &kernel, const fb::Launch &launch);

/// Resolves one map of a launch with the values `args`; `dtype` is the buffer's.
/// Error: the sizes of this step are outside of what a map can hold.
Status makeTensorMap(const fb::TensorMap &raw, mla_dtype dtype, std::span<const uint64_t> args,
                     TensorMap &map);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_TENSORMAPS_H
