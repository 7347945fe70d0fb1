//===- HeadWeights.cpp - a weight's rows, head by head ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadWeights.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

Value mlac::splitHeads(OpBuilder &builder, Location loc, Value weight, int64_t heads,
                       int64_t rows) {
  auto type = cast<RankedTensorType>(weight.getType());
  return tensor::ExpandShapeOp::create(
      builder, loc, RankedTensorType::get({heads, rows, type.getDimSize(1)}, type.getElementType()),
      weight, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
}

Value mlac::sliceRows(OpBuilder &builder, Location loc, Value heads, int64_t dim, int64_t first,
                      int64_t count) {
  auto type = cast<RankedTensorType>(heads.getType());
  if (count == type.getDimSize(dim))
    return heads;
  SmallVector<OpFoldResult> offsets(3, builder.getIndexAttr(0)),
      strides(3, builder.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, heads);
  offsets[dim] = builder.getIndexAttr(first);
  sizes[dim] = builder.getIndexAttr(count);
  return tensor::ExtractSliceOp::create(builder, loc, heads, offsets, sizes, strides);
}
