//===- TopK.cpp - the largest scores of each row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs for each row. Everything but the row's length is one tile.top_k.
//
// A target may give few rows several programs each (TileShapes.h), which meet in a list and two
// counters of the row, and many short ones a kernel of their own. Neither is to be seen in the
// result.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// What programs keep of a row at most: twice the largest K.
static constexpr int64_t kListCapacity = 2 * mla::TopKOp::kMostSelected;

namespace {
class TopKKernel {
public:
  TopKKernel(StepLowering &step, mla::TopKOp op);
  void launch();

private:
  // Lengths are given, or there are three arrays of the batch.
  enum Argument { kScores, kResult, kTokens, kColumns, kLengths, kRequests = kLengths };
  /// Of the programs of a row, behind the others.
  enum SliceArgument { kSlices, kLists, kListRows, kCounters };
  void launchRows(std::optional<int64_t> longest);
  Value countSlices();
  /// The token of a row of the scores.
  Value tokenOf(KernelBuilder &b, ValueRange args, Value row) {
    return op.getFirst() ? b.add(args[firstArg], row) : row;
  }
  void write(KernelBuilder &b, ValueRange args, std::optional<int64_t> longest);
  Value lengthOf(KernelBuilder &b, ValueRange args, Value row);

  StepLowering &step;
  mla::TopKOp op;
  TensorRef scores;
  SmallVector<Value> args, sliceArgs;
  unsigned firstArg = 0; // of a slice of the tokens
  StepLowering::Overlap overlap;
};
} // namespace

TopKKernel::TopKKernel(StepLowering &step, mla::TopKOp op)
    : step(step), op(op), scores(step.lookup(op.getScores())), overlap(step.chained()) {
  Value count = step.value(scores.sizes[0]), first, tokens = count;
  TensorRef result = step.allocate(op.getResult());
  if (op.getFirst()) {
    first = step.scalar(op.getFirst());
    tokens = arith::SubIOp::create(step.plan(), op.getLoc(), step.value(result.sizes[0]), first);
    tokens = arith::MinSIOp::create(step.plan(), op.getLoc(), tokens, count);
  }
  args = {scores.buffer, result.buffer, tokens, step.value(scores.sizes[1])};
  if (Value lengths = op.getLengths()) {
    args.push_back(step.lookup(lengths).buffer);
    overlap = step.chainedReading(args.back());
  } else {
    // Those of the whole batch: rows of a part have the numbers that they have in it.
    args.append(TokenArrays::ofPlan(step).args());
  }
  if (first) {
    firstArg = args.size();
    args.push_back(first);
  }
  if (step.shapes.selectSlices == 1)
    return;
  // More rows than this have one program each.
  Value shared = step.divide(step.dim("num_sms"), 2);
  Value rows = arith::MinSIOp::create(step.plan(), op.getLoc(), count, shared);
  auto sizeOf = [&](int64_t size) { return OpFoldResult(step.plan().getIndexAttr(size)); };
  TensorRef lists =
      step.workspace({rows, sizeOf(2), sizeOf(kListCapacity)}, step.plan().getF32Type());
  sliceArgs = {countSlices(), lists.buffer, rows, step.metadata("item_counters")};
}

/// As many as keep the machine busy.
Value TopKKernel::countSlices() {
  OpBuilder &b = step.plan();
  Location loc = op.getLoc();
  Value rows = arith::MaxSIOp::create(b, loc, args[kTokens], step.constant(1));
  Value slices = arith::DivSIOp::create(b, loc, step.dim("num_sms"), rows);
  slices = arith::MinSIOp::create(b, loc, slices, step.constant(step.shapes.selectSlices));
  return arith::MaxSIOp::create(b, loc, slices, step.constant(1));
}

Value TopKKernel::lengthOf(KernelBuilder &b, ValueRange args, Value row) {
  if (op.getLengths())
    return b.loadScalar(args[kLengths], tokenOf(b, args, row));
  return TokenArrays::inKernel(args.drop_front(kRequests)).countKeys(b, tokenOf(b, args, row));
}

void TopKKernel::write(KernelBuilder &b, ValueRange args, std::optional<int64_t> longest) {
  Value row = b.programId(0), slice, slices, lists, counters;
  OpFoldResult tokens = args[kTokens];
  auto columns = getConstantIntValue(scores.sizes[1]);
  OpFoldResult width = columns ? b.fixed(*columns) : OpFoldResult(args[kColumns]);
  OpFoldResult pitch = columns ? b.fixed(scores.strides[0]) : width;
  Value values =
      b.view(args[kScores], b.fixed(scores.offset), {tokens, width}, {pitch, b.fixed(1)});
  OpFoldResult k = b.fixed(static_cast<int64_t>(op.getK()));
  Value start = b.mul(tokenOf(b, args, b.index(0)), op.getK());
  Value out = b.view(args[kResult], b.extent(start), {tokens, k}, {k, b.fixed(1)});
  Value length = lengthOf(b, args, row);
  if (args.size() > this->args.size()) {
    ValueRange own = args.drop_front(this->args.size());
    slice = b.programId(1);
    slices = own[kSlices];
    OpFoldResult rows = own[kListRows], two = b.fixed(2), capacity = b.fixed(kListCapacity);
    lists = b.view(own[kLists], b.fixed(0), {rows, two, capacity},
                   {b.fixed(2 * kListCapacity), capacity, b.fixed(1)});
    counters = own[kCounters];
  }
  tile::TopKOp::create(b, values, row, length, slice, slices, lists, counters, out,
                       longest ? b.getI64IntegerAttr(*longest) : IntegerAttr());
}

/// With `longest` they are many.
void TopKKernel::launchRows(std::optional<int64_t> longest) {
  SmallVector<Value> all = args;
  Value slices = step.constant(1);
  if (!longest && !sliceArgs.empty()) {
    llvm::append_range(all, sliceArgs);
    slices = sliceArgs[kSlices];
  }
  step.launch(
      longest ? "top_k_short" : "top_k", {args[kTokens], slices, step.constant(1)}, all,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner, longest); }, overlap);
}

void TopKKernel::launch() {
  auto launchAny = [&] { launchRows(std::nullopt); };
  int64_t longest = step.shapes.selectShortRow;
  // A short row's list is half as long as the row; it is to hold twice K.
  if (static_cast<int64_t>(op.getK()) > longest / 4)
    return launchAny();
  auto launchMany = [&] {
    step.versionByRows(args[kTokens], step.machine.numSms, launchAny, [&] { launchRows(longest); });
  };
  step.versionByRows(args[kColumns], longest, launchMany, launchAny);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::TopKOp op) {
  if (step.lookup(op.getScores()).strides.back() != 1)
    return op.emitOpError(
               "expected scores whose columns are neighbours in memory, got a stride of ")
           << step.lookup(op.getScores()).strides.back();
  TopKKernel(step, op).launch();
  return success();
}
