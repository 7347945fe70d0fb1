//===- HeadsOutermost.h - queries that lie head by head ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor [T, N, C] that lies as [N, T, C] (mla.heads_outermost). A head's rows are together, and
// the heads of a token T · C elements apart, which is known when a step is planned.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADSOUTERMOST_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADSOUTERMOST_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

inline bool hasHeadsOutermost(const TensorRef &ref) {
  return ref.rank() == 3 && mlir::ShapedType::isDynamic(ref.strides[1]);
}

/// Elements from a head of a token to the next, in a kernel whose argument `tokens` is T.
inline mlir::OpFoldResult getHeadStride(KernelBuilder &b, const TensorRef &ref,
                                        mlir::Value tokens) {
  return b.extent(b.mul(tokens, ref.size(2)));
}

/// The heads [N, C] of one token.
inline mlir::Value viewHeadsOfToken(KernelBuilder &b, mlir::Value buffer, const TensorRef &ref,
                                    mlir::Value tokens, mlir::Value token) {
  return b.view(buffer, b.extent(b.mul(token, ref.size(2)), ref.offset),
                {b.fixed(ref.size(1)), b.fixed(ref.size(2))},
                {getHeadStride(b, ref, tokens), b.fixed(1)});
}

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ATTENTION_HEADSOUTERMOST_H
