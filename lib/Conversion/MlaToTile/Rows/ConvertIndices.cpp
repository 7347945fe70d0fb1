//===- ConvertIndices.cpp - token positions to cache indices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a token and a block of its list, which is the whole tile (RowKernel.h): few tokens
// keep the machine busy. Where a list cannot be laid out so it has a tile of tokens and positions.
// What depends on the token alone is a row vector; what is wrong with it becomes a number that no
// position is valid with:
//
//   vector  prefill out of range    the workspace starts at -2^31
//   tile    row of the cache (PositionRows.h); place = start + position, not negative
//
// (runtime/lib/cache/IndexMap is the same on the host, and refuses what is -1 here.)
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PositionRows.h"
#include "Rows/RowKernel.h"

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
  Value ofTokens(KernelBuilder &b, Value list, Value count, Value first) const;
  Value rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position, Value prefills);

  StepLowering &step;
  mla::ConvertIndicesOp op;
  PositionRows rows;
  int64_t width, block, columns, tileRows; // of a list, of a program's part of it, of its tile
  bool isFolded;
  SmallVector<Value> args;
};
} // namespace

IndexKernel::IndexKernel(StepLowering &step, mla::ConvertIndicesOp op)
    : step(step), op(op), rows(PositionRows::ofPlan(step, op.getCache(), op.getBatch())),
      tileRows(step.shapes.rows) {
  TensorRef positions = step.lookup(op.getPositions());
  width = positions.size(1);
  block = findRowBlock(step, width);
  isFolded = block != 0;
  if (!isFolded)
    block = blockWidth(width, step.shapes.columns);
  columns = isFolded ? step.shapes.foldedColumns(block) : block;
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
  std::array<Value, 3> grid = {isFolded ? args[kTokens] : step.ceilDiv(args[kTokens], tileRows),
                               step.constant(llvm::divideCeil(width, block)), step.constant(1)};
  step.launch(
      "convert_indices", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); },
      op.getPrefillRequests() ? step.chainedReading(args[kPrefills]) : step.chained());
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

/// What a list of `count` has for the tokens of the program's rows.
Value IndexKernel::ofTokens(KernelBuilder &b, Value list, Value count, Value first) const {
  if (isFolded)
    return b.splat(b.toI32(b.loadScalar(list, first)), {tileRows});
  Value view = b.view(list, b.fixed(0), {OpFoldResult(count)}, {b.fixed(1)});
  return b.load(view, {first}, {tileRows});
}

/// Sums that overflow are negative, too.
Value IndexKernel::rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position,
                                  Value prefills) {
  Value starts = b.view(args[kStarts], b.fixed(0), {OpFoldResult(args[kNumStarts])}, {b.fixed(1)});
  Value isPrefill = compare(b, Predicate::ult, prefills, splatIndex(b, args[kNumStarts], prefills));
  Value start = b.select(isPrefill, loadElements(b, starts, prefills),
                         b.constantI32(shapeOf(prefills), std::numeric_limits<int32_t>::min()));
  Value place = b.add(b.broadcast(start, columns), position);
  Value none = b.constantI32(shapeOf(place), -1);
  return arith::MaxSIOp::create(b, place, none);
}

void IndexKernel::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Value token = b.programId(0), column = b.mul(b.programId(1), block);
  if (!isFolded)
    token = b.mul(token, tileRows);
  SmallVector<Value, 2> at = {token, column};
  if (isFolded)
    at = {b.index(0), b.index(0)};
  auto view = [&](Argument buffer) {
    if (isFolded)
      return b.view(args[buffer], b.extent(b.add(b.mul(token, width), column)),
                    {b.fixed(block / columns), b.fixed(columns)}, {b.fixed(columns), b.fixed(1)});
    return b.view(args[buffer], b.fixed(0), {args[kTokens], b.fixed(width)},
                  {b.fixed(width), b.fixed(1)});
  };
  Value position = b.load(view(kPositions), at, {tileRows, columns});
  Value requests = ofTokens(b, args[kRequests], args[kTokens], token);
  Value result =
      rows.inKernel(args.drop_front(kRows)).find(b, position, b.broadcast(requests, columns));
  if (op.getPrefillRequests() || op.getWorkspace()) {
    Value prefills = ofTokens(b, args[kPrefills], args[kTokens], token);
    Value isDecode = compare(b, Predicate::slt, b.broadcast(prefills, columns),
                             b.constantI32(shapeOf(position), 0));
    result = b.select(isDecode, result, rowOfWorkspace(b, args, position, prefills));
  }
  Value isPosition = compare(b, Predicate::sge, position, b.constantI32(shapeOf(position), 0));
  result = b.select(isPosition, result, b.constantI32(shapeOf(result), -1));
  b.store(result, view(kResult), at);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ConvertIndicesOp op) {
  IndexKernel(step, op).launch();
  return success();
}
