//===- TopK.cpp - the largest scores of each row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program for each row. Everything but the row's length is one tile.top_k.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

using Predicate = arith::CmpIPredicate;

namespace {
class TopKKernel {
public:
  TopKKernel(StepLowering &step, mla::TopKOp op);
  void launch();

private:
  enum Argument {
    kScores,
    kResult,
    kTokens,
    kColumns,
    kLengths,
    kRequests = kLengths,
    kStarts,
    kSeqLens
  };
  void write(KernelBuilder &b, ValueRange args);
  Value lengthOf(KernelBuilder &b, ValueRange args, Value row);

  StepLowering &step;
  mla::TopKOp op;
  TensorRef scores;
  SmallVector<Value> args;
  StepLowering::Overlap overlap;
};
} // namespace

TopKKernel::TopKKernel(StepLowering &step, mla::TopKOp op)
    : step(step), op(op), scores(step.lookup(op.getScores())), overlap(step.chained()) {
  args = {scores.buffer, step.allocate(op.getResult()).buffer, step.value(scores.sizes[0]),
          step.value(scores.sizes[1])};
  if (Value lengths = op.getLengths()) {
    args.push_back(step.lookup(lengths).buffer);
    // A dependent kernel reads scalars before it waits.
    auto callers = args.back().getDefiningOp<tile::BufferOp>();
    if (!callers || callers.getKind() != tile::BufferKind::Input)
      overlap = StepLowering::Overlap::None;
    return;
  }
  // Those of the whole batch: rows of a part have the numbers that they have in it.
  args.append({step.metadata("req_id_per_token"), step.metadata("query_start_loc"),
               step.metadata("seq_lens")});
}

/// A row of padding lies outside of its request, which is the first one.
Value TopKKernel::lengthOf(KernelBuilder &b, ValueRange args, Value row) {
  if (op.getLengths())
    return b.loadScalar(args[kLengths], row);
  Value request = b.loadScalar(args[kRequests], row);
  Value begin = b.loadScalar(args[kStarts], request),
        end = b.loadScalar(args[kStarts], b.add(request, 1));
  Value behind = b.sub(end, b.add(row, 1)); // the request's tokens behind this one
  Value length = b.maximum(b.sub(b.loadScalar(args[kSeqLens], request), behind), b.index(0));
  Value isToken = arith::AndIOp::create(b, arith::CmpIOp::create(b, Predicate::sge, row, begin),
                                        arith::CmpIOp::create(b, Predicate::slt, row, end));
  return b.choose(isToken, length, b.index(0));
}

void TopKKernel::write(KernelBuilder &b, ValueRange args) {
  Value row = b.programId(0);
  OpFoldResult tokens = args[kTokens];
  auto columns = getConstantIntValue(scores.sizes[1]);
  OpFoldResult width = columns ? b.fixed(*columns) : OpFoldResult(args[kColumns]);
  OpFoldResult pitch = columns ? b.fixed(scores.strides[0]) : width;
  Value values =
      b.view(args[kScores], b.fixed(scores.offset), {tokens, width}, {pitch, b.fixed(1)});
  OpFoldResult k = b.fixed(static_cast<int64_t>(op.getK()));
  Value out = b.view(args[kResult], b.fixed(0), {tokens, k}, {k, b.fixed(1)});
  tile::TopKOp::create(b, values, row, lengthOf(b, args, row), /*slice=*/Value(),
                       /*slices=*/Value(),
                       /*lists=*/Value(), /*counters=*/Value(), out, /*longest=*/IntegerAttr());
}

void TopKKernel::launch() {
  step.launch(
      "top_k", {args[kTokens], step.constant(1), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, overlap);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::TopKOp op) {
  if (step.lookup(op.getScores()).strides.back() != 1)
    return op.emitOpError(
               "expected scores whose columns are neighbours in memory, got a stride of ")
           << step.lookup(op.getScores()).strides.back();
  TopKKernel(step, op).launch();
  return success();
}
