//===- Passes.h - passes on the mla dialect ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_TRANSFORMS_PASSES_H
#define MLA_DIALECT_MLA_TRANSFORMS_PASSES_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Machine/Targets.h"

#include "mlir/Pass/Pass.h"

namespace mlir::mla {

/// Where the head projections of an absorbed attention go (mla.md section 7).
enum class AbsorbMode {
  /// Per-head products in the step.
  Online,
  /// Folded into the query up-projection and the output projection.
  Offline,
  /// Only the query side folded.
  HalfQuery,
  /// Only the output side folded.
  HalfOutput,
  /// The one with the least predicted time.
  Auto,
};

/// Whether prefixes that requests share are attended to apart.
enum class SharePrefixMode {
  Never,
  /// In steps for which the cost model predicts less time.
  Auto,
  /// In all steps whose requests share anything.
  Always,
};

/// How the prefills of a sparse layer read a cache of codes (sparse.md section 11).
enum class SparseMode {
  /// As decodes do, from the pool.
  Mixed,
  /// From a workspace of 16-bit rows, into which whole requests are gathered.
  Separate,
  /// By the number of heads.
  Auto,
};
/// Heads of a rank from which on Auto is separate: the reference's rule.
inline constexpr int64_t kSeparateHeads = 32;

/// Whether prompts see selected keys through a mask over all.
enum class MaskMode {
  Never,
  /// Where that takes fewer FLOPs.
  Auto,
  /// Wherever there is memory for it.
  Always,
};
/// Bytes of a step's masks at most.
inline constexpr int64_t kMasksBudget = int64_t(256) << 20;
/// Bytes of cached tokens' keys and values beside them: those of 16384 tokens of 128 heads of 256
/// columns, twice what a usual step's new tokens take.
inline constexpr int64_t kMaskedContextBudget = int64_t(1) << 30;

/// Bytes of an indexer's scores at a time: so many keep a machine busy for long.
inline constexpr int64_t kScoresBudget = int64_t(256) << 20;

#define GEN_PASS_DECL
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_TRANSFORMS_PASSES_H
