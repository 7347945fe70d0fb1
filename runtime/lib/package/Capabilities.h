//===- Capabilities.h - what an engine asks a package -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CAPABILITIES_H
#define MLAC_RUNTIME_CAPABILITIES_H

#include "base/Json.h"
#include "package/Package.h"

#include <span>

namespace mlac::runtime {

/// What an inference engine asks before it chooses a back end, in the names that engines have for
/// types and formats (vLLM's: auto, bfloat16, fp8, fp8_ds_mla).
Json describeCapabilities(mla_dtype activation, std::span<const PoolInfo> pools,
                          std::span<const TargetInfo> targets);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CAPABILITIES_H
