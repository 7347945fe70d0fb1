//===- MlaOps.cpp - verifiers of mla operations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in MlaOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::mla;

#define MLAC_VERIFIED_LATER(OP)                                                                    \
  LogicalResult OP::verify() { return success(); }
MLAC_VERIFIED_LATER(RmsNormOp)
MLAC_VERIFIED_LATER(ProjectOp)
MLAC_VERIFIED_LATER(LatentProjectOp)
MLAC_VERIFIED_LATER(HeadProjectOp)
MLAC_VERIFIED_LATER(FoldQueryOp)
MLAC_VERIFIED_LATER(FoldOutputOp)
MLAC_VERIFIED_LATER(RopeTableOp)
MLAC_VERIFIED_LATER(RopeOp)
MLAC_VERIFIED_LATER(AppendOp)
MLAC_VERIFIED_LATER(GatherOp)
MLAC_VERIFIED_LATER(AttentionOp)
MLAC_VERIFIED_LATER(ExpandedAttentionOp)
MLAC_VERIFIED_LATER(AbsorbedAttentionOp)
MLAC_VERIFIED_LATER(EmptyPartialOp)
MLAC_VERIFIED_LATER(MergeOp)
MLAC_VERIFIED_LATER(MergeSplitsOp)
MLAC_VERIFIED_LATER(ConvertLseOp)
MLAC_VERIFIED_LATER(QuantizeOp)
MLAC_VERIFIED_LATER(DequantizeOp)
MLAC_VERIFIED_LATER(BatchDimOp)

LogicalResult AppendOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                         DictionaryAttr, OpaqueProperties, RegionRange,
                                         SmallVectorImpl<Type> &types) {
  for (Value operand : operands)
    if (isa<CacheType>(operand.getType()))
      types.push_back(operand.getType());
  return success(types.size() == 1);
}

OpFoldResult ConvertLseOp::fold(FoldAdaptor) { return {}; }
OpFoldResult BatchDimOp::fold(FoldAdaptor) { return {}; }
void MergeOp::getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) {}

#define GET_OP_CLASSES
#include "mla/Dialect/Mla/IR/MlaOps.cpp.inc"
