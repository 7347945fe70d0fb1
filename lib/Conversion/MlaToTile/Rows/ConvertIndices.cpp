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
//   vector  prefill out of range    the workspace starts at -2^31
//   tile    row of the cache (PositionRows.h); place = start + position, not negative
//
// (runtime/lib/cache/IndexMap is the same on the host, and refuses what is -1 here.)
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PositionRows.h"

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
    kRows,
    kPrefills = kRows + 5,
    kStarts,
    kNumStarts
  };
  void write(KernelBuilder &b, ValueRange args);
  Value rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position, Value prefills);

  StepLowering &step;
  mla::ConvertIndicesOp op;
  PositionRows rows;
  int64_t width, block, tileRows;
  SmallVector<Value> args;
};
} // namespace

IndexKernel::IndexKernel(StepLowering &step, mla::ConvertIndicesOp op)
    : step(step), op(op), rows(PositionRows::ofPlan(step, op.getCache(), op.getBatch())),
      tileRows(step.shapes.rows) {
  TensorRef positions = step.lookup(op.getPositions());
  width = positions.size(1);
  block = blockWidth(width, step.shapes.columns);
  args = {positions.buffer, step.allocate(op.getResult()).buffer, step.value(positions.sizes[0]),
          step.metadata("req_id_per_token")};
  llvm::append_range(args, rows.args());
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
  Value requests = loadVector(b, args[kRequests], args[kTokens], first, tileRows);
  Value result =
      rows.inKernel(args.drop_front(kRows)).find(b, position, b.broadcast(requests, block));
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
