//===- SeenKeys.cpp - which keys a token sees that selects none ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a token and a block of its list. Where the list begins and how long it is are
// scalars; entry k is `first + k`, or the pool's row of it. A block is a row of a tile, or, of rows
// of a pool, the whole tile (RowKernel.h), so that no thread looks up what is not stored.
//
//===----------------------------------------------------------------------===//

#include "Plan/Limits.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Plan/PositionRows.h"
#include "Rows/RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {
class SeenKeysKernel {
public:
  SeenKeysKernel(StepLowering &step, mla::SeenKeysOp op)
      : step(step), window(static_cast<int64_t>(op.getWindow())),
        every(static_cast<int64_t>(op.getEvery())), tileRows(step.shapes.rows) {
    TensorRef counts = step.allocate(op.getCount());
    args = {counts.buffer, step.value(counts.sizes[0])};
    args.append(TokenArrays::ofPlan(step).args());
    if (!op.getKeys())
      return;
    TensorRef keys = step.allocate(op.getKeys());
    width = keys.size(1);
    args.push_back(keys.buffer);
    if (!op.getCache()) {
      block = columns = blockWidth(width, step.shapes.columns);
      return;
    }
    block = findRowBlock(step, width);
    columns = step.shapes.foldedColumns(block);
    rows = PositionRows::ofPlan(step, op.getCache(), op.getBatch());
    llvm::append_range(args, rows->args());
    // No token sees more.
    longest = step.ceilDiv(step.dim(op.getBatch(), "max_seq_len"), every);
  }
  void launch();

private:
  enum Argument { kCounts, kTokens, kArrays, kKeys = kArrays + 3, kRows };
  void write(KernelBuilder &b, ValueRange args);
  void writeKeys(KernelBuilder &b, ValueRange args, Value token, Value first, Value count);
  void store(KernelBuilder &b, Value tile, Value keys, Value token, Value column) const;
  Value countBlocks();

  StepLowering &step;
  int64_t window, every, tileRows, width = 0;
  int64_t block = 0, columns = 0; // of a program's list, and of its tile
  std::optional<PositionRows> rows;
  Value longest;
  SmallVector<Value> args;
};
} // namespace

/// Entries of a token's list from `column` on, as the program's tile has them.
void SeenKeysKernel::store(KernelBuilder &b, Value tile, Value keys, Value token,
                           Value column) const {
  Value row = b.mul(token, width), zero = b.index(0);
  if (!rows)
    return b.store(tile, b.view(keys, row, {b.fixed(1), b.fixed(width)}, {b.fixed(0), b.fixed(1)}),
                   {zero, column});
  Value view = b.view(keys, b.extent(b.add(row, column)),
                      {b.fixed(block / columns), b.fixed(columns)}, {b.fixed(columns), b.fixed(1)});
  b.store(tile, view, {zero, zero});
}

void SeenKeysKernel::writeKeys(KernelBuilder &b, ValueRange args, Value token, Value first,
                               Value count) {
  SmallVector<int64_t, 2> shape = {tileRows, columns};
  Value column = b.mul(b.programId(1), block);
  auto splat = [&](Value value) { return b.splat(b.toI32(value), shape); };
  Value entry = arith::AddIOp::create(b, b.iota(1, shape), splat(column));
  if (rows) {
    Value row = arith::MulIOp::create(b, b.iota(0, shape), b.constantI32(shape, columns));
    entry = arith::AddIOp::create(b, entry, row);
  }
  Value isKey = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, entry, splat(count));
  Value key = arith::AddIOp::create(b, entry, splat(first));
  if (rows) {
    Value request = b.loadScalar(args[kArrays], token);
    key = rows->inKernel(args.drop_front(kRows)).find(b, key, splat(request));
  }
  store(b, b.select(isKey, key, b.constantI32(shape, -1)), args[kKeys], token, column);
}

void SeenKeysKernel::write(KernelBuilder &b, ValueRange args) {
  Value token = b.programId(0);
  Value tokens = TokenArrays::inKernel(args.drop_front(kArrays)).countKeys(b, token);
  Value count = every == 1 ? tokens : b.divNarrow(tokens, b.index(every));
  Value first = b.index(0);
  if (window > 0) {
    count = b.minimum(tokens, b.index(window));
    first = b.sub(tokens, count);
  }
  auto writeCount = [&] {
    Value view = b.view(args[kCounts], OpFoldResult(token), {b.fixed(1)}, {b.fixed(1)});
    b.store(b.splat(b.toI32(count), {tileRows}), view, b.index(0));
  };
  if (width == 0)
    return writeCount();
  b.ifThen(b.isBelow(b.programId(1), b.index(1)), writeCount);
  writeKeys(b, args, token, first, count);
}

Value SeenKeysKernel::countBlocks() {
  if (width == 0)
    return step.constant(1);
  Value all = step.constant(llvm::divideCeil(width, block));
  if (!rows || window > 0)
    return all;
  // One writes the count.
  Value seen = arith::MaxSIOp::create(step.plan(), longest.getLoc(), step.ceilDiv(longest, block),
                                      step.constant(1));
  return arith::MinSIOp::create(step.plan(), longest.getLoc(), seen, all);
}

void SeenKeysKernel::launch() {
  Value blocks = countBlocks();
  step.launch(
      llvm::formatv("seen_{0}_{1}_{2}", rows ? "rows" : "keys", window, every).str(),
      {args[kTokens], blocks, step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::SeenKeysOp op) {
  if (op.getKeys() && op.getCache()) {
    int64_t width = cast<RankedTensorType>(op.getKeys().getType()).getDimSize(1);
    if (failed(checkRowBlock(step, op, width)))
      return failure();
  }
  SeenKeysKernel(step, op).launch();
  return success();
}
