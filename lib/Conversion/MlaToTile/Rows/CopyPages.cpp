//===- CopyPages.cpp - pages from pool to pool ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copy-on-write, moves inside the pool, and swapping to and from the host are one
// kernel with other addresses. A page is one long row of words that nobody looks at
// (getPageWord): to loads and stores the pool has pages of one token, so that lists have
// an entry for each page, not for each row.
//
//     block_table    [ 9 | 4 | … ]     pages to read
//     slot_mapping   [ 2 | 7 | … ]     pages to write
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "Rows/CacheRows.h"
#include "mla/Dialect/KernelAttrs.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

namespace {
/// Pages as words. In a plan its values, in a kernel the arguments.
struct Words {
  Value buffer, pages, pageStride;

  static Words ofPlan(StepLowering &step, Value cache);
  SmallVector<Value> args() const { return {buffer, pages, pageStride}; }
};
} // namespace

static int64_t bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

Words Words::ofPlan(StepLowering &step, Value cache) {
  auto type = cast<mla::CacheType>(cache.getType());
  Type word = getPageWord(type);
  auto bound = step.cache(cache).getDefiningOp<tile::BufferOp>();
  if (bound.getKind() != tile::BufferKind::Cache)
    return {bound, step.dim("num_host_pages"),
            step.constant(type.getPageSize() * type.getRowBytes() / bytesOf(word))};
  // The unit of page_stride is the pool's first element, which is its smallest.
  int64_t unit = bytesOf(cast<MemRefType>(step.cache(cache).getType()).getElementType());
  return {step.cacheMemory(cache, word), step.poolDim(cache, "num_pages"),
          step.divide(step.poolDim(cache, "page_stride"), bytesOf(word) / unit)};
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::CopyPagesOp op) {
  mla::CacheType type = op.getFrom().getType();
  step.forwardCache(op.getResult(), op.getTo());
  Type word = getPageWord(type);
  int64_t width = type.getPageSize() * type.getRowBytes() / bytesOf(word);
  int64_t tileRows = step.shapes.rows, block = blockWidth(width, step.shapes.columns);
  Value count = step.dim(op.getBatch(), "num_tokens");
  SmallVector<Value> args = Words::ofPlan(step, op.getFrom()).args();
  args.append(Words::ofPlan(step, op.getTo()).args());
  args.append({step.metadata(op.getBatch(), "block_table"), step.dim("max_blocks_per_request"),
               step.metadata("slot_mapping"), count});
  RowGrid grid{tileRows, static_cast<int64_t>(llvm::divideCeil(width, block))};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    auto kernel = cast<tile::KernelOp>(b.getInsertionBlock()->getParentOp());
    kernel->setAttr(tile::kRowKernelAttr, b.getUnitAttr());
    auto view = [&](unsigned first) {
      // tile.kernel: "a multiple of 16 bytes"
      kernel.setArgAttr(first + 2, tile::kDivisibilityAttr,
                        b.getI64IntegerAttr(cache::kPoolAlignment / bytesOf(word)));
      return b.view(args[first], b.fixed(0), {args[first + 1], b.fixed(1), b.fixed(width)},
                    {args[first + 2], b.fixed(width), b.fixed(1)});
    };
    Value from = view(0), to = view(3), rows = args[9];
    Value table = b.view(args[6], b.fixed(0), {OpFoldResult(args[7])}, {b.fixed(1)});
    Value slots = b.view(args[8], b.fixed(0), {OpFoldResult(rows)}, {b.fixed(1)});
    auto [row, index] = grid.place(b);
    Value column = b.mul(index, block);
    auto tileType = RankedTensorType::get({tileRows, block}, word);
    Value tile = tile::LoadPagedOp::create(b, tileType, from, table, row, column, rows);
    tile::StoreSlotsOp::create(b, tile, to, slots, row, column);
  };
  step.launch("copy_pages", grid.size(step, count), args, write, step.chained());
  return success();
}
