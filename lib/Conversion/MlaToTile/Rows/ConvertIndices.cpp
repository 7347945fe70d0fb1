//===- ConvertIndices.cpp - token positions to cache indices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program for each tile of tokens and positions. What depends on the token alone is a
// row vector; what is wrong with it becomes a number that no position is valid with:
//
//   vector  request out of range    the table has 0 entries
//           prefill out of range    the workspace starts at -2^31
//   tile    entry = position / page_size, below the entries; page = table[request, entry]
//           row   = page * rows + position % page_size, page below the limit
//           place = start + position, not negative
//
// (runtime/lib/cache/IndexMap is the same on the host, and refuses what is -1 here.)
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

using Predicate = arith::CmpIPredicate;

namespace {
class IndexKernel {
public:
  IndexKernel(StepLowering &step, mla::ConvertIndicesOp op);
  void launch();

private:
  enum Argument {
    kPositions,
    kResult,
    kTokens,
    kRequests,
    kNumRequests,
    kTable,
    kMaxBlocks,
    kPageRows,
    kPageLimit,
    kPrefills,
    kStarts,
    kNumStarts
  };
  void write(KernelBuilder &b, ValueRange args);
  Value rowOfCache(KernelBuilder &b, ValueRange args, Value position, Value first);
  Value rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position, Value prefills);

  StepLowering &step;
  mla::ConvertIndicesOp op;
  int64_t width, block, tileRows;
  SmallVector<Value> args;
};
} // namespace

IndexKernel::IndexKernel(StepLowering &step, mla::ConvertIndicesOp op)
    : step(step), op(op), tileRows(step.shapes.rows) {
  TensorRef positions = step.lookup(op.getPositions());
  width = positions.size(1);
  block = blockWidth(width, step.shapes.columns);
  Value pageRows = rowsPerPage(step, op.getCache());
  // Pages whose rows all have numbers of 31 bits.
  Value representable = arith::DivSIOp::create(
      step.plan(), op.getLoc(), step.constant(std::numeric_limits<int32_t>::max()), pageRows);
  Value pageLimit = arith::MinSIOp::create(step.plan(), op.getLoc(),
                                           step.poolDim(op.getCache(), "num_pages"), representable);
  args = {positions.buffer,
          step.allocate(op.getResult()).buffer,
          step.value(positions.sizes[0]),
          step.metadata("req_id_per_token"),
          step.dim(op.getBatch(), "num_requests"),
          step.poolMetadata(op.getCache(), op.getBatch(), "block_table"),
          step.poolDim(op.getCache(), "max_blocks_per_request"),
          pageRows,
          pageLimit};
  if (op.getPrefillRequests())
    args.append({step.lookup(op.getPrefillRequests()).buffer,
                 step.lookup(op.getWorkspaceStarts()).buffer,
                 step.dim(op.getBatch(), "num_requests")});
  if (op.getWorkspace())
    args.append({step.metadata("gather_req_id_per_token"), step.metadata("gather_starts"),
                 step.dim(op.getBatch(), "num_requests")});
}

void IndexKernel::launch() {
  std::array<Value, 3> grid = {step.ceilDiv(args[kTokens], tileRows),
                               step.constant(llvm::divideCeil(width, block)), step.constant(1)};
  step.launch(
      "convert_indices", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); },
      step.chained());
}

static Value compare(KernelBuilder &b, Predicate predicate, Value left, Value right) {
  return arith::CmpIOp::create(b, predicate, left, right);
}

static Value both(KernelBuilder &b, Value left, Value right) {
  return arith::AndIOp::create(b, left, right);
}

static ArrayRef<int64_t> shapeOf(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape();
}

static Value splatIndex(KernelBuilder &b, Value index, Value like) {
  return b.splat(b.toI32(index), shapeOf(like));
}

static Value loadElements(KernelBuilder &b, Value view, ValueRange indices) {
  return tile::LoadElementsOp::create(b, indices.front().getType(), view, indices);
}

/// Elements [first, first + rows) of a list of `count`.
static Value loadVector(KernelBuilder &b, Value list, Value count, Value first, int64_t rows) {
  Value view = b.view(list, b.fixed(0), {OpFoldResult(count)}, {b.fixed(1)});
  return b.load(view, {first}, {rows});
}

Value IndexKernel::rowOfCache(KernelBuilder &b, ValueRange args, Value position, Value first) {
  int64_t pageSize = op.getCache().getType().getPageSize();
  Value requests = loadVector(b, args[kRequests], args[kTokens], first, tileRows);
  Value isRequest =
      compare(b, Predicate::ult, requests, splatIndex(b, args[kNumRequests], requests));
  Value entries = b.select(isRequest, splatIndex(b, args[kMaxBlocks], requests),
                           b.constantI32(shapeOf(requests), 0));
  Value pageSizes = b.constantI32(shapeOf(position), pageSize);
  Value entry = arith::DivUIOp::create(b, position, pageSizes);
  Value inPage = b.sub(position, b.mul(entry, pageSizes));
  Value table = b.view(args[kTable], b.fixed(0), {args[kNumRequests], args[kMaxBlocks]},
                       {args[kMaxBlocks], b.fixed(1)});
  Value page = loadElements(b, table, {b.broadcast(requests, block), entry});
  // Unsigned: negative pages are out of range, too.
  Value isThere = both(b, compare(b, Predicate::ult, entry, b.broadcast(entries, block)),
                       compare(b, Predicate::ult, page, splatIndex(b, args[kPageLimit], page)));
  Value row = b.add(b.mul(page, splatIndex(b, args[kPageRows], page)), inPage);
  return b.select(isThere, row, b.constantI32(shapeOf(row), -1));
}

/// Sums that overflow are negative, too.
Value IndexKernel::rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position,
                                  Value prefills) {
  Value starts = b.view(args[kStarts], b.fixed(0), {OpFoldResult(args[kNumStarts])}, {b.fixed(1)});
  Value isPrefill = compare(b, Predicate::ult, prefills, splatIndex(b, args[kNumStarts], prefills));
  Value start = b.select(isPrefill, loadElements(b, starts, prefills),
                         b.constantI32(shapeOf(prefills), std::numeric_limits<int32_t>::min()));
  Value place = b.add(b.broadcast(start, block), position);
  Value none = b.constantI32(shapeOf(place), -1);
  return arith::MaxSIOp::create(b, place, none);
}

void IndexKernel::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Value first = b.mul(b.programId(0), tileRows), column = b.mul(b.programId(1), block);
  auto view = [&](Argument buffer) {
    return b.view(args[buffer], b.fixed(0), {args[kTokens], b.fixed(width)},
                  {b.fixed(width), b.fixed(1)});
  };
  Value position = b.load(view(kPositions), {first, column}, {tileRows, block});
  Value result = rowOfCache(b, args, position, first);
  if (op.getPrefillRequests() || op.getWorkspace()) {
    Value prefills = loadVector(b, args[kPrefills], args[kTokens], first, tileRows);
    Value isDecode = compare(b, Predicate::slt, b.broadcast(prefills, block),
                             b.constantI32(shapeOf(position), 0));
    result = b.select(isDecode, result, rowOfWorkspace(b, args, position, prefills));
  }
  Value isPosition = compare(b, Predicate::sge, position, b.constantI32(shapeOf(position), 0));
  result = b.select(isPosition, result, b.constantI32(shapeOf(result), -1));
  b.store(result, view(kResult), {first, column});
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ConvertIndicesOp op) {
  IndexKernel(step, op).launch();
  return success();
}
