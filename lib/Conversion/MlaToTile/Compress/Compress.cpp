//===- Compress.cpp - weighted means of runs of tokens ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a token and a block of columns. Only tokens that close an entry have work: they go
// over the rows of its runs in blocks, with a softmax for each row and column of the tile that goes
// on from block to block:
//
//     most    the largest gate so far
//     sum     of exp(gate - most)
//     mean    of exp(gate - most) · kv
//
// The rows are joined at the end; those in front of a run and behind it have weight 0.
//
// Where the rows of an entry are few, a program has all columns of each (RowKernel.h), so that all
// loads are in flight together and nothing is joined.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Rows/RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

static ArrayRef<int64_t> shapeOf(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape();
}

/// A gate below every one that can occur, and finite: exp of a difference is never of infinities.
static constexpr double kNoGate = -1e30;

namespace {
class CompressKernel {
public:
  CompressKernel(StepLowering &step, mla::CompressOp op)
      : step(step), pool(Pool::ofPlan(step, op.getCache())), output(step.allocate(op.getResult())),
        every(static_cast<int64_t>(op.getEvery())), parts(op.getOverlap() ? 2 : 1),
        width(output.size(1)), block(blockWidth(width, step.shapes.turnColumns)),
        blockRows(step.shapes.rowsFor(every)) {
    args = pool.args();
    args.append({output.buffer, step.metadata("positions"), step.metadata("req_id_per_token"),
                 step.poolMetadata(op.getCache(), op.getBatch(), "block_table"),
                 step.poolDim(op.getCache(), "max_blocks_per_request")});
  }
  void launch();

private:
  enum Argument { kOutput, kPositions, kRequests, kTable, kMaxBlocks };
  /// Rows of a request in the pool.
  struct Run {
    Value table, first, last;
  };
  void write(KernelBuilder &b, ValueRange args);
  Value loadRows(KernelBuilder &b, const Pool &inner, Part part, const Run &run, Value row,
                 Value column);
  SmallVector<Value> addRun(KernelBuilder &b, const Pool &inner, const Run &run, Value column,
                            ValueRange carried);
  Value makeEntry(KernelBuilder &b, ValueRange args, Value token, Value end, Value column);
  /// Rows of 8 tokens of two fields are 16 tiles, 64 registers where a row has 512 columns.
  bool hasFewRows() const {
    return every * parts <= 8 && step.shapes.canHoldRow(width) && !pool.type.isQuantized();
  }
  void writeFew(KernelBuilder &b, ValueRange args);
  Value makeEntryOfFew(KernelBuilder &b, RowKernel &row, ValueRange args, Value token, Value end);
  /// Whether the token closes an entry; the number of tokens up to it.
  std::pair<Value, Value> findEnd(KernelBuilder &b, ValueRange own, Value token);

  StepLowering &step;
  Pool pool;
  TensorRef output;
  int64_t every, parts, width, block, blockRows;
  SmallVector<Value> args;
};
} // namespace

Value CompressKernel::loadRows(KernelBuilder &b, const Pool &inner, Part part, const Run &run,
                               Value row, Value column) {
  auto type = RankedTensorType::get({blockRows, block}, b.getF32Type());
  Value view = inner.view(b, part, b.fixed(0), inner.width(part));
  auto stored =
      RankedTensorType::get({blockRows, block}, cast<MemRefType>(view.getType()).getElementType());
  Value rows = tile::LoadPagedOp::create(b, stored, view, run.table, row, column, run.last);
  return stored == type ? rows : b.widen(rows);
}

/// `carried` are most, sum and mean.
SmallVector<Value> CompressKernel::addRun(KernelBuilder &b, const Pool &inner, const Run &run,
                                          Value column, ValueRange carried) {
  SmallVector<int64_t, 2> shape = {blockRows, block};
  return b.loop(run.first, run.last, b.index(blockRows), carried, [&](Value row, ValueRange state) {
    Value values = loadRows(b, inner, Part::Key, run, row, column);
    Value gates = loadRows(b, inner, Part::Value, run, row, column);
    Value count = b.splat(b.toI32(b.sub(run.last, row)), shape);
    Value isRow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, b.iota(0, shape), count);
    gates = b.select(isRow, gates, b.constant(shape, kNoGate));
    Value most = b.maxf(state[0], gates);
    Value weights = b.exp(b.subf(gates, most)), kept = b.exp(b.subf(state[0], most));
    weights = b.select(isRow, weights, b.constant(shape, 0));
    Value sum = b.addf(b.mulf(state[1], kept), weights);
    Value mean = b.addf(b.mulf(state[2], kept), b.mulf(weights, values));
    return SmallVector<Value>{most, sum, mean};
  });
}

/// The entry of the tokens up to `end`, in each row.
Value CompressKernel::makeEntry(KernelBuilder &b, ValueRange args, Value token, Value end,
                                Value column) {
  ValueRange own = args.drop_front(pool.args().size());
  Pool inner = pool.inKernel(args);
  Value table = blockTableRow(b, own[kTable], b.loadScalar(own[kRequests], token), own[kMaxBlocks]);
  Value start = b.sub(end, b.index(every));
  SmallVector<int64_t, 2> shape = {blockRows, block};
  SmallVector<Value> state = {b.constant(shape, kNoGate), b.constant(shape, 0),
                              b.constant(shape, 0)};
  if (parts == 2) {
    Value before = b.maximum(b.sub(start, b.index(every)), b.index(0));
    state = addRun(b, inner, {table, before, start}, column, state);
  }
  Value ownColumn = b.add(column, (parts - 1) * width);
  state = addRun(b, inner, {table, start, end}, ownColumn, state);
  Value most = b.broadcastRows(b.reduceMax(state[0], /*dim=*/0), blockRows);
  Value shares = b.exp(b.subf(state[0], most));
  auto join = [&](Value tile) {
    return b.broadcastRows(b.reduceSum(b.mulf(tile, shares), /*dim=*/0), blockRows);
  };
  return b.divf(join(state[2]), join(state[1]));
}

std::pair<Value, Value> CompressKernel::findEnd(KernelBuilder &b, ValueRange own, Value token) {
  Value end = b.add(b.loadScalar(own[kPositions], token), 1);
  Value runs = b.divNarrow(end, b.index(every));
  return {b.isBelow(b.sub(end, b.mul(runs, every)), b.index(1)), end};
}

void CompressKernel::write(KernelBuilder &b, ValueRange args) {
  ValueRange own = args.drop_front(pool.args().size());
  Value token = b.programId(0), column = b.mul(b.programId(1), block);
  auto [isClosed, end] = findEnd(b, own, token);
  Value view = b.view(own[kOutput], b.extent(b.mul(token, output.strides[0]), output.offset),
                      {b.fixed(1), b.fixed(width)}, {b.fixed(0), b.fixed(output.strides[1])});
  auto store = [&](Value tile) { b.store(tile, view, {b.index(0), column}); };
  b.ifThenElse(
      isClosed, [&, end = end] { store(makeEntry(b, args, token, end, column)); },
      [&] {
        store(b.constant({blockRows, block}, 0));
      });
}

/// Tokens before the sequence have a gate that adds nothing.
Value CompressKernel::makeEntryOfFew(KernelBuilder &b, RowKernel &row, ValueRange args, Value token,
                                     Value end) {
  ValueRange own = args.drop_front(pool.args().size());
  Pool inner = pool.inKernel(args);
  Value request = b.mul(b.loadScalar(own[kRequests], token), own[kMaxBlocks]);
  Value pageSize = b.index(pool.type.getPageSize()), zero = b.index(0);
  SmallVector<Value> values, gates;
  for (int64_t place = 0; place < every * parts; ++place) {
    Value position = b.sub(b.add(end, place), b.index(every * parts));
    Value known = b.maximum(position, zero);
    Value entry = b.divNarrow(known, pageSize);
    Value page = b.loadScalar(own[kTable], b.add(request, entry));
    Value inPage = b.sub(known, b.mul(entry, pageSize));
    int64_t column = place < every && parts == 2 ? 0 : (parts - 1) * width;
    auto load = [&](Part part) {
      return row.load(inner.find(part).memory->buffer, inner.row(b, part, page, inPage), column);
    };
    values.push_back(load(Part::Key));
    Value gate = load(Part::Value);
    ArrayRef<int64_t> shape = shapeOf(gate);
    Value isToken = arith::CmpIOp::create(
        b, arith::CmpIPredicate::sge, b.splat(b.toI32(position), shape), b.constantI32(shape, 0));
    gates.push_back(b.select(isToken, gate, b.like(gate, kNoGate)));
  }
  Value most = gates.front();
  for (Value gate : llvm::drop_begin(gates))
    most = b.maxf(most, gate);
  Value sum, mean;
  for (auto [value, gate] : llvm::zip_equal(values, gates)) {
    Value weight = b.exp(b.subf(gate, most)), share = b.mulf(weight, value);
    sum = sum ? b.addf(sum, weight) : weight;
    mean = mean ? b.addf(mean, share) : share;
  }
  return b.divf(mean, sum);
}

void CompressKernel::writeFew(KernelBuilder &b, ValueRange args) {
  ValueRange own = args.drop_front(pool.args().size());
  RowKernel row(step, b, width);
  Value token = b.programId(0), base = b.mul(token, output.strides[0]);
  auto [isClosed, end] = findEnd(b, own, token);
  auto store = [&](Value tile) { row.store(tile, own[kOutput], base, output.offset); };
  b.ifThenElse(
      isClosed, [&, end = end] { store(makeEntryOfFew(b, row, args, token, end)); },
      [&] {
        store(b.constant({step.shapes.rows, step.shapes.foldedColumns(width)}, 0));
      });
}

void CompressKernel::launch() {
  bool isFew = hasFewRows();
  step.launch(
      llvm::formatv("compress_{0}x{1}", every, width).str(),
      {step.value(output.sizes[0]), step.constant(isFew ? 1 : llvm::divideCeil(width, block)),
       step.constant(1)},
      args,
      [&](KernelBuilder &b, ValueRange inner) { isFew ? writeFew(b, inner) : write(b, inner); },
      step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::CompressOp op) {
  CompressKernel(step, op).launch();
  return success();
}
