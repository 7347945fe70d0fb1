//===- StepBounds.h - the largest sizes of any step -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What memory is allocated for: no step within an engine's limits needs more.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPBOUNDS_H
#define MLAC_RUNTIME_STEPBOUNDS_H

#include "step/StepLayout.h"

#include <optional>

namespace mlac::runtime {

/// Sizes as large as a step with `numRequests` requests may have: what workspaces are
/// allocated for.
DimValues largestDims(const StepLimits &limits, int64_t numRequests, int64_t maxQueryLen,
                      bool hasContext, const std::optional<WorkParams> &work = std::nullopt);
WorkSizes largestWork(const StepLimits &limits, const WorkParams &params, const DimValues &dims);
/// Bytes that hold the metadata of any step.
int64_t largestBytes(const StepLimits &limits);

void setWorkDims(DimValues &dims, const WorkSizes &work);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPBOUNDS_H
