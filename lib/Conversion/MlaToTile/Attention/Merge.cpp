//===- Merge.cpp - joining partials by their LSE ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of a tile are (token, head) pairs whose LSEs lie at one stride:
//
//     layout        rows of a program   programs (y)   LSE of row i
//     token_major   token · N + head    1              i
//     head_major    token               head n         n · T + i
//
// Merging in place is fine: a program reads a block of its rows before it writes
// it, and LSEs last.
//
//===----------------------------------------------------------------------===//

#include "Attention/Merge.h"

#include "Attention/JoinPartials.h"
#include "Attention/OnlineSoftmax.h"
#include "Plan/Lowerings.h"

#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Rows of (token, head)
//===----------------------------------------------------------------------===//

namespace {

/// How the (token, head) pairs of an LSE layout become rows of programs.
struct RowSpace {
  bool isTokenMajor;
  int64_t heads;
  Value tokens; // in the plan; in a kernel, see `inKernel`

  static RowSpace of(StepLowering &step, Value lse);
  /// Of the rows of `partialLse`, token-major, split by split.
  static RowSpace ofSplits(StepLowering &step, const TensorRef &partialLse) {
    return {/*isTokenMajor=*/true, partialLse.size(2), step.value(partialLse.sizes[1])};
  }
  RowSpace inKernel(Value tokensArgument) const { return {isTokenMajor, heads, tokensArgument}; }

  // In the plan.
  Value rows(StepLowering &step) const {
    return isTokenMajor ? step.multiply(tokens, heads) : tokens;
  }
  Value programs(StepLowering &step) const { return step.constant(isTokenMajor ? 1 : heads); }

  // In a kernel; the head of a head-major program is its program_id 1.
  Value rows(KernelBuilder &b) const { return isTokenMajor ? b.mul(tokens, heads) : tokens; }
  // Views of the first `count` rows, by default of all.
  Value lseView(KernelBuilder &b, Value buffer, int64_t offset, Value base, Value count = {}) const;
  Value outputView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                   Value count = {}) const;
};

} // namespace

static mla::LseAttr lseEncoding(Value lse) {
  return cast<mla::LseAttr>(cast<RankedTensorType>(lse.getType()).getEncoding());
}

RowSpace RowSpace::of(StepLowering &step, Value lse) {
  TensorRef ref = step.lookup(lse);
  bool isTokenMajor = lseEncoding(lse).getLayout() == mla::LseLayout::TokenMajor;
  int64_t last = ref.rank() - 1; // splits, where there are any, come first
  return {isTokenMajor, ref.size(isTokenMajor ? last : last - 1),
          step.value(ref.sizes[isTokenMajor ? last - 1 : last])};
}

Value RowSpace::lseView(KernelBuilder &b, Value buffer, int64_t offset, Value base,
                        Value count) const {
  if (!isTokenMajor)
    base = b.add(base, b.mul(b.programId(1), tokens));
  return b.view(buffer, b.extent(base, offset), {OpFoldResult(count ? count : rows(b))},
                {b.fixed(1)});
}

Value RowSpace::outputView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                           Value count) const {
  int64_t rank = ref.rank(), width = ref.size(rank - 1);
  if (!isTokenMajor)
    base = b.add(base, b.mul(b.programId(1), ref.strides[rank - 2]));
  return b.view(buffer, b.extent(base, ref.offset), {count ? count : rows(b), b.fixed(width)},
                {b.fixed(ref.strides[isTokenMajor ? rank - 2 : rank - 3]), b.fixed(1)});
}

//===----------------------------------------------------------------------===//
// Merge of two
//===----------------------------------------------------------------------===//

namespace {

class MergeKernel {
public:
  MergeKernel(StepLowering &step, mla::MergeOp op)
      : step(step), space(RowSpace::of(step, op.getALse())), a(step.lookup(op.getA())),
        aLse(step.lookup(op.getALse())), other(step.lookup(op.getB())),
        otherLse(step.lookup(op.getBLse())), output(step.allocate(op.getOutput())) {
    if (op.getLse())
      lse = step.allocate(op.getLse());
    tileRows = step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows;
  }
  void launch();

private:
  void write(KernelBuilder &b, ValueRange args);
  void mergeOutputs(KernelBuilder &b, ValueRange args, const RowSpace &inner, Value row,
                    ArrayRef<Value> weights, ArrayRef<Value> factors);

  StepLowering &step;
  RowSpace space;
  TensorRef a, aLse, other, otherLse, output;
  std::optional<TensorRef> lse;
  int64_t tileRows;
};

} // namespace

static Value readLse(KernelBuilder &b, Value view, Value row, int64_t rows) {
  return unifyEmpty(b, b.load(view, row, rows));
}

void MergeKernel::mergeOutputs(KernelBuilder &b, ValueRange args, const RowSpace &inner, Value row,
                               ArrayRef<Value> weights, ArrayRef<Value> factors) {
  Value zero = b.index(0);
  Value from[] = {inner.outputView(b, args[1], a, zero), inner.outputView(b, args[3], other, zero)};
  Value to = inner.outputView(b, args[5], output, zero);
  int64_t width = output.size(output.rank() - 1);
  int64_t block = blockWidth(width, step.shapes.joinedColumns);
  b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
    auto part = [&](unsigned i) {
      Value tile = b.loadWide(from[i], {row, column}, {tileRows, block});
      return weigh(b, tile, weights[i], factors[i]);
    };
    b.storeNarrow(b.addf(part(0), part(1)), to, {row, column});
    return SmallVector<Value>();
  });
}

void MergeKernel::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel(); // 16 bytes a load instead of 8: 1.0 of a copy's bandwidth instead of 0.8
  RowSpace inner = space.inKernel(args[0]);
  Value zero = b.index(0), row = b.mul(b.programId(0), tileRows);
  Value lses[] = {readLse(b, inner.lseView(b, args[2], aLse.offset, zero), row, tileRows),
                  readLse(b, inner.lseView(b, args[4], otherLse.offset, zero), row, tileRows)};
  Value reference = referenceOf(b, b.maxf(lses[0], lses[1]));
  SmallVector<Value, 2> weights, factors;
  for (Value partial : lses)
    weights.push_back(b.exp(b.subf(partial, reference)));
  Value sum = b.addf(weights[0], weights[1]);
  for (Value weight : weights)
    factors.push_back(b.divf(weight, sum));
  mergeOutputs(b, args, inner, row, weights, factors);
  if (lse)
    b.store(joinedLse(b, reference, sum), inner.lseView(b, args[6], lse->offset, zero), row);
}

void MergeKernel::launch() {
  SmallVector<Value> args = {space.tokens, a.buffer,        aLse.buffer,
                             other.buffer, otherLse.buffer, output.buffer};
  if (lse)
    args.push_back(lse->buffer);
  std::array<Value, 3> grid = {step.ceilDiv(space.rows(step), tileRows), space.programs(step),
                               step.constant(1)};
  step.launch("merge", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::MergeOp op) {
  MergeKernel(step, op).launch();
  return success();
}

//===----------------------------------------------------------------------===//
// Merge of all splits
//===----------------------------------------------------------------------===//

namespace {

/// grid  x: tiles of T · N rows   y: blocks of columns (block 0 writes the LSE)
class MergeSplitsKernel {
public:
  MergeSplitsKernel(StepLowering &step, mla::MergeSplitsOp op)
      : MergeSplitsKernel(step, step.lookup(op.getPartialOutput()), step.lookup(op.getPartialLse()),
                          step.allocate(op.getOutput()),
                          op.getLse() ? std::optional(step.allocate(op.getLse())) : std::nullopt) {
    if (op.getMaxLogits()) {
      partialMax = step.lookup(op.getPartialMax());
      maxLogits = step.allocate(op.getMaxLogits());
    }
    if (op.getSink())
      sink = step.lookup(op.getSink());
  }
  MergeSplitsKernel(StepLowering &step, TensorRef partial, TensorRef partialLse, TensorRef output,
                    std::optional<TensorRef> lse)
      : step(step), space(RowSpace::ofSplits(step, partialLse)), partial(std::move(partial)),
        partialLse(std::move(partialLse)), output(std::move(output)), lse(std::move(lse)) {
    tileRows = step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows;
    width = this->output.size(this->output.rank() - 1);
    block = blockWidth(width, step.shapes.turnColumns);
  }
  void launch();

private:
  /// Positions of optional arguments.
  struct {
    unsigned lse, partialMax, maxLogits, sink;
  } arg{};
  void write(KernelBuilder &b, ValueRange args);
  Value applySink(KernelBuilder &b, ValueRange args, Value row, const Joined &joined);
  Value joinMaxima(KernelBuilder &b, ValueRange args, const RowSpace &inner, Value row);

  StepLowering &step;
  RowSpace space;
  TensorRef partial, partialLse, output;
  std::optional<TensorRef> lse, partialMax, maxLogits, sink;
  int64_t tileRows, width, block;
};

} // namespace

/// The output with the sink of each row's head.
Value MergeSplitsKernel::applySink(KernelBuilder &b, ValueRange args, Value row,
                                   const Joined &joined) {
  Value index = arith::AddIOp::create(b, b.iota(0, tileRows), b.splat(b.toI32(row), tileRows));
  Value head = arith::RemUIOp::create(b, index, b.constantI32(tileRows, space.heads));
  Value view = b.view(args[arg.sink], b.fixed(sink->offset), {b.fixed(space.heads)},
                      {b.fixed(sink->strides[0])});
  auto type = RankedTensorType::get({tileRows}, b.getF32Type());
  Value sinks = tile::LoadElementsOp::create(b, type, view, head);
  Value factor = sinkFactor(b, sinks, joinedLse(b, joined.reference, joined.sum));
  return b.mulf(joined.output, b.broadcast(factor, block));
}

Value MergeSplitsKernel::joinMaxima(KernelBuilder &b, ValueRange args, const RowSpace &inner,
                                    Value row) {
  auto join = [&](Value split, ValueRange before) -> SmallVector<Value> {
    Value base = b.mul(split, inner.rows(b));
    Value view = inner.lseView(b, args[arg.partialMax], partialMax->offset, base);
    return {b.maxf(before[0], b.load(view, row, tileRows))};
  };
  Value none = b.constant(tileRows, -kInfinity);
  return b.loop(b.index(0), args[1], b.index(1), none, join).front();
}

void MergeSplitsKernel::write(KernelBuilder &b, ValueRange args) {
  RowSpace inner = space.inKernel(args[0]);
  Value zero = b.index(0);
  Value row = b.mul(b.programId(0), tileRows), column = b.mul(b.programId(1), block);
  auto splitLse = [&](Value split, Value rows) {
    Value base = b.mul(split, inner.rows(b));
    return b.load(inner.lseView(b, args[3], partialLse.offset, base, rows), row, tileRows);
  };
  auto splitOutput = [&](Value split, Value rows) {
    Value base = b.mul(split, b.mul(inner.rows(b), width));
    return b.loadWide(inner.outputView(b, args[2], partial, base, rows), {row, column},
                      {tileRows, block});
  };
  JoinState state = joinInTurns(b, joinNone(b, tileRows, block), zero, step.shapes.turnPieces,
                                {args[1], inner.rows(b), splitLse, splitOutput});
  Joined joined = finishJoin(b, state);
  Value result = sink ? applySink(b, args, row, joined) : joined.output;
  b.storeNarrow(result, inner.outputView(b, args[4], output, zero), {row, column});
  if (!lse && !maxLogits)
    return;
  b.ifThen(b.isBelow(b.programId(1), b.index(1)), [&] {
    if (lse)
      b.store(joinedLse(b, joined.reference, joined.sum),
              inner.lseView(b, args[arg.lse], lse->offset, zero), row);
    if (maxLogits)
      b.store(joinMaxima(b, args, inner, row),
              inner.lseView(b, args[arg.maxLogits], maxLogits->offset, zero), row);
  });
}

void MergeSplitsKernel::launch() {
  SmallVector<Value> args = {space.tokens, step.value(partial.sizes[0]), partial.buffer,
                             partialLse.buffer, output.buffer};
  auto add = [&](const std::optional<TensorRef> &ref) -> unsigned {
    if (ref)
      args.push_back(ref->buffer);
    return args.size() - 1;
  };
  arg.lse = add(lse);
  arg.partialMax = add(partialMax);
  arg.maxLogits = add(maxLogits);
  arg.sink = add(sink);
  std::array<Value, 3> grid = {step.ceilDiv(space.rows(step), tileRows),
                               step.constant(llvm::divideCeil(width, block)), step.constant(1)};
  step.launch("merge_splits", grid, args,
              [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::MergeSplitsOp op) {
  MergeSplitsKernel(step, op).launch();
  return success();
}

void mlac::mla_to_tile::mergeSplits(StepLowering &step, const TensorRef &partial,
                                    const TensorRef &partialLse, const TensorRef &output,
                                    const std::optional<TensorRef> &lse) {
  MergeSplitsKernel(step, partial, partialLse, output, lse).launch();
}

//===----------------------------------------------------------------------===//
// LSE only
//===----------------------------------------------------------------------===//

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::EmptyPartialOp op) {
  step.allocate(op.getOutput()); // never read while its LSE says empty
  TensorRef lse = step.allocate(op.getLse());
  RowSpace space = RowSpace::of(step, op.getLse());
  Value count = step.multiply(space.tokens, space.heads);
  int64_t tile = step.shapes.vectorRows;
  std::array<Value, 3> grid = {step.ceilDiv(count, tile), step.constant(1), step.constant(1)};
  step.launch("fill_empty_lse", grid, {lse.buffer, count}, [&](KernelBuilder &b, ValueRange args) {
    Value view = b.view(args[0], b.fixed(lse.offset), {OpFoldResult(args[1])}, {b.fixed(1)});
    b.store(b.constant(tile, -kInfinity), view, b.mul(b.programId(0), tile));
  });
  return success();
}

/// The LSE's value in the convention `to`.
static Value convert(KernelBuilder &b, Value lse, mla::LseAttr from, mla::LseAttr to) {
  Value isEmpty = b.equals(b.absf(lse), kInfinity);
  if (from.getBase() != to.getBase()) {
    bool isToNatural = to.getBase() == mla::LseBase::E;
    lse = b.mulf(lse, b.like(lse, isToNatural ? llvm::numbers::ln2 : llvm::numbers::log2e));
  }
  bool isNegative = to.getEmpty() == mla::LseEmpty::NegInf;
  return b.select(isEmpty, b.like(lse, isNegative ? -kInfinity : kInfinity), lse);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ConvertLseOp op) {
  TensorRef from = step.lookup(op.getInput()), to = step.allocate(op.getResult());
  RowSpace space = RowSpace::of(step, op.getInput());
  bool isTargetTokenMajor = lseEncoding(op.getResult()).getLayout() == mla::LseLayout::TokenMajor;
  int64_t tile = step.shapes.vectorRows;
  std::array<Value, 3> grid = {step.ceilDiv(space.tokens, tile), step.constant(space.heads),
                               step.constant(1)};
  step.launch("convert_lse", grid, {space.tokens, from.buffer, to.buffer},
              [&](KernelBuilder &b, ValueRange args) {
                // One head's tokens: a row of a head-major LSE, a column otherwise.
                auto viewOf = [&](Value buffer, const TensorRef &ref, bool isTokenMajor) {
                  Value head = b.programId(1);
                  Value offset = isTokenMajor ? head : b.mul(head, args[0]);
                  return b.view(buffer, b.extent(offset, ref.offset), {OpFoldResult(args[0])},
                                {b.fixed(isTokenMajor ? space.heads : 1)});
                };
                Value row = b.mul(b.programId(0), tile);
                Value lse = b.load(viewOf(args[1], from, space.isTokenMajor), row, tile);
                b.store(convert(b, lse, lseEncoding(op.getInput()), lseEncoding(op.getResult())),
                        viewOf(args[2], to, isTargetTokenMajor), row);
              });
  return success();
}
