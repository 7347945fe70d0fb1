//===- SeenKeys.cpp - which keys a token sees that selects none ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a token and a block of its list. Where the list begins and how long it is are
// scalars; entry k is `first + k`.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

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
    block = blockWidth(width, step.shapes.columns);
    args.push_back(keys.buffer);
  }
  void launch();

private:
  enum Argument { kCounts, kTokens, kArrays, kKeys = kArrays + 3 };
  void write(KernelBuilder &b, ValueRange args);
  void writeKeys(KernelBuilder &b, Value keys, Value token, Value first, Value count);

  StepLowering &step;
  int64_t window, every, tileRows, width = 0, block = 0;
  SmallVector<Value> args;
};
} // namespace

void SeenKeysKernel::writeKeys(KernelBuilder &b, Value keys, Value token, Value first,
                               Value count) {
  SmallVector<int64_t, 2> shape = {tileRows, block};
  Value column = b.mul(b.programId(1), block);
  Value view =
      b.view(keys, b.mul(token, width), {b.fixed(1), b.fixed(width)}, {b.fixed(0), b.fixed(1)});
  auto splat = [&](Value value) { return b.splat(b.toI32(value), shape); };
  Value entry = arith::AddIOp::create(b, b.iota(1, shape), splat(column));
  Value isKey = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, entry, splat(count));
  Value key = arith::AddIOp::create(b, entry, splat(first));
  b.store(b.select(isKey, key, b.constantI32(shape, -1)), view, {b.index(0), column});
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
  writeKeys(b, args[kKeys], token, first, count);
}

void SeenKeysKernel::launch() {
  Value blocks = step.constant(width == 0 ? 1 : llvm::divideCeil(width, block));
  step.launch(llvm::formatv("seen_keys_{0}_{1}", window, every).str(),
              {args[kTokens], blocks, step.constant(1)}, args,
              [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::SeenKeysOp op) {
  SeenKeysKernel(step, op).launch();
  return success();
}
