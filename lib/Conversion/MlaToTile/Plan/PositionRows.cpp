//===- PositionRows.cpp - rows of a pool by positions of a request ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/PositionRows.h"

#include "Plan/PagedPool.h"

#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

PositionRows PositionRows::ofPlan(StepLowering &step, Value cache, Value batch) {
  Value pageRows = rowsPerPage(step, cache);
  // Pages whose rows all have numbers of 31 bits.
  Value representable = arith::DivSIOp::create(
      step.plan(), cache.getLoc(), step.constant(std::numeric_limits<int32_t>::max()), pageRows);
  Value pageLimit = arith::MinSIOp::create(step.plan(), cache.getLoc(),
                                           step.poolDim(cache, "num_pages"), representable);
  return {step.dim(batch, "num_requests"),
          step.poolMetadata(cache, batch, "block_table"),
          step.poolDim(cache, "max_blocks_per_request"),
          pageRows,
          pageLimit,
          static_cast<int64_t>(cast<mla::CacheType>(cache.getType()).getPageSize())};
}

Value PositionRows::find(KernelBuilder &b, Value positions, Value requests) const {
  using Predicate = arith::CmpIPredicate;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(positions.getType()).getShape();
  auto splat = [&](Value index) { return b.splat(b.toI32(index), shape); };
  auto isBelow = [&](Value left, Value right) -> Value { // unsigned: negative ones are not
    return arith::CmpIOp::create(b, Predicate::ult, left, right);
  };
  Value isRequest = isBelow(requests, splat(numRequests));
  Value entries = b.select(isRequest, splat(maxBlocks), b.constantI32(shape, 0));
  Value pageSizes = b.constantI32(shape, static_cast<int32_t>(pageSize));
  Value entry = arith::DivUIOp::create(b, positions, pageSizes);
  Value inPage = b.sub(positions, b.mul(entry, pageSizes));
  Value view = b.view(table, b.fixed(0), {numRequests, maxBlocks}, {maxBlocks, b.fixed(1)});
  Value page = tile::LoadElementsOp::create(b, entry.getType(), view, ValueRange{requests, entry});
  Value isThere =
      arith::AndIOp::create(b, isBelow(entry, entries), isBelow(page, splat(pageLimit)));
  Value row = b.add(b.mul(page, splat(pageRows)), inPage);
  return b.select(isThere, row, b.constantI32(shape, -1));
}
