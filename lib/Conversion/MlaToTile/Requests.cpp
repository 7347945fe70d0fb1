//===- Requests.cpp - ragged batches and paged pools in kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Requests.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

RowRange mlac::mla_to_tile::loadRange(KernelBuilder &b, Value starts, Value position) {
  Value begin = b.loadScalar(starts, position);
  Value end = b.loadScalar(starts, b.add(position, 1));
  return {begin, b.sub(end, begin)};
}

Value mlac::mla_to_tile::blockTableRow(KernelBuilder &b, Value table, Value request,
                                       Value maxBlocks) {
  return b.view(table, b.mul(request, maxBlocks), {OpFoldResult(maxBlocks)}, {b.fixed(1)});
}

Pool Pool::ofPlan(StepLowering &step, Value cache) {
  return {step.cache(cache), step.dim("num_pages"), step.dim("page_stride"),
          cast<mla::CacheType>(cache.getType())};
}

Pool Pool::inKernel(ValueRange args) const {
  constexpr int64_t pageStrideBits = 16 * 8; // tile.kernel: "a multiple of 16 bytes"
  auto stride = cast<BlockArgument>(args[2]);
  auto kernel = cast<tile::KernelOp>(stride.getOwner()->getParentOp());
  int64_t elements = pageStrideBits / type.getElement().getIntOrFloatBitWidth();
  auto divisibility = IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), elements);
  kernel.setArgAttr(stride.getArgNumber(), "tile.divisibility", divisibility);
  return {args[0], args[1], stride, type};
}

Value Pool::view(KernelBuilder &b, int64_t column, int64_t width) const {
  return b.view(buffer, b.fixed(column), {pages, b.fixed(type.getPageSize()), b.fixed(width)},
                {pageStride, b.fixed(type.getRowWidth()), b.fixed(1)});
}
