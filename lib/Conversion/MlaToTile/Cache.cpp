//===- Cache.cpp - writing to and reading from the paged cache ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cache row is [latent | k_pe]; both parts are columns of one pool. `append`
// scatters token rows by slot, `gather` collects the rows of one chunk of every
// request:
//
//     request r, chunk i       tokens [i·capacity, i·capacity + len) of r
//     chunk_cu_seq_lens[i]     0 | len_0 | len_0 + len_1 | …     result rows
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "Requests.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Append
//===----------------------------------------------------------------------===//

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AppendOp op) {
  Pool pool = Pool::ofPlan(step, op.getCache());
  step.forwardCache(op.getResult(), op.getCache());
  SmallVector<TensorRef, 2> parts = {step.lookup(op.getLatent())};
  if (op.getKPe())
    parts.push_back(step.lookup(op.getKPe()));
  Value tokens = step.value(parts[0].sizes[0]);
  SmallVector<Value> args = pool.args();
  args.append({step.metadata("slot_mapping", 64), tokens});
  for (const TensorRef &part : parts)
    args.push_back(part.buffer);
  int64_t tileRows = step.shapes.rows;
  std::array<Value, 3> grid = {step.ceilDiv(tokens, tileRows), step.constant(1), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Pool inner = pool.inKernel(args);
    Value row = b.mul(b.programId(0), tileRows);
    Value slots = b.view(args[3], b.fixed(0), {OpFoldResult(args[4])}, {b.fixed(1)});
    int64_t column = 0;
    for (auto [index, part] : llvm::enumerate(parts)) {
      int64_t width = part.size(1), block = blockWidth(width, step.shapes.columns);
      Value from = b.view(args[5 + index], b.fixed(part.offset), {args[4], b.fixed(width)},
                          {b.fixed(part.strides[0]), b.fixed(part.strides[1])});
      Value to = inner.view(b, column, width);
      b.forBlocks(width, block, {}, [&](Value at, ValueRange) {
        Value tile = b.load(from, {row, at}, {tileRows, block});
        tile::StoreSlotsOp::create(b, tile, to, slots, row, at);
        return SmallVector<Value>();
      });
      column += width;
    }
  };
  step.launch("append", grid, args, write, step.chained());
  return success();
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

namespace {

class GatherKernel {
public:
  GatherKernel(StepLowering &step, mla::GatherOp op)
      : step(step), pool(Pool::ofPlan(step, op.getCache())), chunk(step.scalar(op.getChunk())),
        parts{step.allocate(op.getLatent())},
        tileRows(step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows) {
    if (op.getKPe())
      parts.push_back(step.allocate(op.getKPe()));
  }

  void launch();

private:
  void write(KernelBuilder &b, ValueRange args);
  void copyPart(KernelBuilder &b, Value from, Value table, Value start, RowRange rows,
                const TensorRef &part, Value to);

  StepLowering &step;
  Pool pool;
  Value chunk;
  SmallVector<TensorRef, 2> parts;
  int64_t tileRows;
};

} // namespace

/// Rows of this program: tokens from `start` + its tile of the request.
void GatherKernel::copyPart(KernelBuilder &b, Value from, Value table, Value start, RowRange rows,
                            const TensorRef &part, Value to) {
  int64_t width = part.size(1), block = blockWidth(width, step.shapes.columns);
  Value first = b.mul(b.programId(0), tileRows);
  Value target = b.view(to, b.extent(b.mul(rows.begin, width), part.offset),
                        {rows.count, b.fixed(width)}, {b.fixed(width), b.fixed(1)});
  auto type = RankedTensorType::get({tileRows, block}, part.element());
  b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
    Value tile = tile::LoadPagedOp::create(b, type, from, table, b.add(start, first), column,
                                           b.add(start, rows.count));
    b.store(tile, target, {first, column});
    return SmallVector<Value>();
  });
}

void GatherKernel::write(KernelBuilder &b, ValueRange args) {
  Pool inner = pool.inKernel(args);
  Value blockTable = args[3], maxBlocks = args[4], starts = args[5], requests = args[6],
        chunkIndex = args[7], capacity = args[8];
  Value request = b.programId(1);
  Value position = b.add(b.mul(chunkIndex, b.add(requests, 1)), request);
  RowRange rows = loadRange(b, starts, position);
  Value first = b.mul(b.programId(0), tileRows);
  b.ifThen(b.isBelow(first, rows.count), [&] {
    Value table = blockTableRow(b, blockTable, request, maxBlocks);
    Value start = b.mul(chunkIndex, capacity);
    copyPart(b, inner.latentView(b), table, start, rows, parts[0], args[9]);
    if (parts.size() == 2)
      copyPart(b, inner.ropeView(b), table, start, rows, parts[1], args[10]);
  });
}

void GatherKernel::launch() {
  Value requests = step.dim("num_requests"), capacity = step.dim("chunk_capacity");
  SmallVector<Value> args = pool.args();
  args.append({step.metadata("block_table", 32), step.dim("max_blocks_per_request"),
               step.metadata("chunk_cu_seq_lens", 32), requests, chunk, capacity});
  for (const TensorRef &part : parts)
    args.push_back(part.buffer);
  std::array<Value, 3> grid = {step.ceilDiv(capacity, tileRows), requests, step.constant(1)};
  step.launch("gather", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::GatherOp op) {
  GatherKernel(step, op).launch();
  return success();
}
