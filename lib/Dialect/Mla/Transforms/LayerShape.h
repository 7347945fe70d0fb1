//===- LayerShape.h - dimensions and target around an attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the cost model needs to know, read off the IR. Used by the passes that
// decide by cost.
//
//===----------------------------------------------------------------------===//

#ifndef LIB_DIALECT_MLA_TRANSFORMS_LAYERSHAPE_H
#define LIB_DIALECT_MLA_TRANSFORMS_LAYERSHAPE_H

#include "mla/Analysis/FormCost.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {

/// The dimensions of the layer that `attention` belongs to. H and Lq come from
/// the projections around it; H is 0 where there are none, and then the
/// projections' cost is missing from every form alike.
mlac::LayerDims readLayerDims(AttentionOp attention);

/// One request of the layer, with the batch type's lengths where they are
/// static, else one new token and no context.
mlac::FormProblem readFormProblem(AttentionOp attention);

/// Columns of latents that a target can attend to themselves, at most; 0: any.
struct LatentLimits {
  int64_t most;
  /// Of requests of one query over rows that are no codes; 0: the same.
  int64_t mostDecoded;

  /// Whether an attention of one query for each request, or of any number, has wider ones.
  bool areExceeded(AttentionOp attention, bool hasOneQuery) const {
    CacheType cache = attention.getCache().getType();
    bool isDecoded = mostDecoded != 0 && hasOneQuery && !cache.isQuantized();
    return most != 0 && cache.getKvLoraRank() > (isDecoded ? mostDecoded : most);
  }
};

/// The module's `mla.target`, or an H200.
mlac::TargetDescription readTarget(ModuleOp module);

} // namespace mlir::mla

#endif // LIB_DIALECT_MLA_TRANSFORMS_LAYERSHAPE_H
