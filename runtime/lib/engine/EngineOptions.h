//===- EngineOptions.h - maxima of an engine --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mla_engine_options with every default resolved against the package, and
// checked. Products of the limits below stay inside int64.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_ENGINEOPTIONS_H
#define MLAC_RUNTIME_ENGINEOPTIONS_H

#include "package/Package.h"
#include "step/StepPlanner.h"

namespace mlac::runtime {

/// Resolves `given` (may be null). MLA_INVALID_ARGUMENT names the option.
Status resolveOptions(const Package &package, const mla_engine_options *given,
                      mla_engine_options &options);

/// The workspace rule of mla.md section 9, of a package that copies the keys of prompts its cap.
int64_t defaultWorkspaceTokens(int64_t maxSeqLen, int64_t maxRequests, int64_t pageSize,
                               int64_t cap = 0, bool copiesKeys = false);

/// Bytes between pages of a pool.
int64_t pageStrideBytes(const Package &package, const mla_engine_options &options, size_t pool);

/// Pages of a pool in each layer; none where they are the caller's. Pools behind the first
/// hold as many tokens as it does, or as the caller's may, those with a window what the
/// requests see of it.
int64_t poolPages(const Package &package, const mla_engine_options &options, size_t pool);

StepLimits stepLimits(const Package &package, const mla_engine_options &options);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_ENGINEOPTIONS_H
