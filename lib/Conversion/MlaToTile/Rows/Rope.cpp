//===- Rope.cpp - rotary embedding ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two elements of every pair are two strided views of one row:
//
//     interleaved  a = x[0::2]        b = x[1::2]
//     half         a = x[0 : R/2]     b = x[R/2 : R]
//
// so that rotation is element-wise on [M, R/2] tiles. Where rows are wider than R, one more
// program for each tile of rows copies the channels before and behind. Rows of a tile are
//
//     x [T, R]     tokens; the table's rows are gathered by positions
//     x [T, N, R]  heads of one token; all use one row of the table
//
// Rows of several tokens are heads of one, whose position can be computed with.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Rows/Angles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Pairs of a head that a program rotates, where rows alone are too few programs.
static constexpr int64_t kColumnsOfProgram = 16;

/// Rows [T, D] as the only heads of their tokens, [T, 1, D].
static TensorRef withHeads(TensorRef ref) {
  if (ref.rank() == 3)
    return ref;
  ref.sizes.insert(ref.sizes.begin() + 1, Builder(ref.buffer.getContext()).getIndexAttr(1));
  ref.strides.insert(ref.strides.begin() + 1, ref.strides.front());
  return ref;
}

namespace {

class RopeKernel {
public:
  RopeKernel(StepLowering &step, mla::RopeOp op)
      : step(step), input(rowsOf(op, step.lookup(op.getInput()))),
        output(rowsOf(op, step.allocate(op.getResult()))), table(step.lookup(op.getTable())),
        half(op.getRope().getDim() / 2),
        isInterleaved(op.getRope().getOrder() == mla::RopeOrder::Interleaved),
        isInverse(op.getInverse()), first(op.getOffset().value_or(0)),
        every(static_cast<int64_t>(op.getEvery())),
        tileRows(input.rank() == 3 ? step.shapes.rowsFor(input.size(1)) : step.shapes.rows),
        tileColumns(input.rank() == 3 && step.shapes.isRowCountFixed
                        ? std::min(kColumnsOfProgram, paddedWidth(half))
                        : paddedWidth(half)) {}

  void launch();

private:
  static TensorRef rowsOf(mla::RopeOp op, const TensorRef &ref) {
    return static_cast<int64_t>(op.getEvery()) > 1 ? withHeads(ref) : ref;
  }
  /// Views of the first and of the second elements of all pairs.
  TilePair pairs(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                 OpFoldResult rows);
  TilePair headAngles(KernelBuilder &b, ValueRange args, Value token, Value column,
                      OpFoldResult rows);
  void rotateTile(KernelBuilder &b, const TilePair &from, const TilePair &to,
                  const TilePair &cosSin, Value row, Value column);
  /// Programs that rotate a tile of rows.
  int64_t turns() const { return llvm::divideCeil(half, tileColumns); }
  bool hasRest() const { return 2 * half < input.size(input.rank() - 1); }
  /// Channels before and behind those that are rotated.
  void copyRest(KernelBuilder &b, ValueRange args, Value token, Value row, OpFoldResult rows);

  StepLowering &step;
  TensorRef input, output, table;
  int64_t half;
  bool isInterleaved, isInverse;
  int64_t first; // channel that is rotated
  int64_t every; // tokens that have one position
  int64_t tileRows, tileColumns;
};

} // namespace

TilePair RopeKernel::pairs(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                           OpFoldResult rows) {
  int64_t rowStride = ref.strides[ref.rank() - 2], stride = ref.strides.back();
  auto viewAt = [&](int64_t offset) {
    return b.view(buffer, b.extent(base, ref.offset + (first + offset) * stride),
                  {rows, b.fixed(half)},
                  {b.fixed(rowStride), b.fixed(isInterleaved ? 2 * stride : stride)});
  };
  return {viewAt(0), viewAt(isInterleaved ? 1 : half)};
}

TilePair RopeKernel::headAngles(KernelBuilder &b, ValueRange args, Value token, Value column,
                                OpFoldResult rows) {
  Value position = b.loadScalar(args[3], token);
  if (every > 1)
    position = b.mul(b.divNarrow(position, b.index(every)), every);
  return loadPositionAngles(b, {args[2], args[5], half}, position, column, rows,
                            {tileRows, tileColumns});
}

void RopeKernel::rotateTile(KernelBuilder &b, const TilePair &from, const TilePair &to,
                            const TilePair &cosSin, Value row, Value column) {
  SmallVector<int64_t, 2> shape = {tileRows, tileColumns};
  Value first = b.loadWide(from.first, {row, column}, shape);
  Value second = b.loadWide(from.second, {row, column}, shape);
  TilePair rotated = rotate(b, {first, second}, cosSin, isInverse);
  b.storeNarrow(rotated.first, to.first, {row, column});
  b.storeNarrow(rotated.second, to.second, {row, column});
}

void RopeKernel::copyRest(KernelBuilder &b, ValueRange args, Value token, Value row,
                          OpFoldResult rows) {
  int64_t behind = first + 2 * half, columns = input.size(input.rank() - 1);
  for (auto [begin, end] : {std::pair(int64_t(0), first), {behind, columns}}) {
    if (begin == end)
      continue;
    int64_t width = end - begin, block = blockWidth(width, step.shapes.columns);
    auto view = [&, begin = begin](Value buffer, const TensorRef &ref) {
      int64_t stride = ref.strides.back();
      Value base = b.add(b.mul(token, ref.strides[0]), begin * stride);
      return b.view(buffer, b.extent(base, ref.offset), {rows, b.fixed(width)},
                    {b.fixed(ref.strides[ref.rank() - 2]), b.fixed(stride)});
    };
    b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
      Value tile = b.load(view(args[0], input), {row, column}, {tileRows, block});
      if (input.element() == output.element())
        b.store(tile, view(args[1], output), {row, column});
      else // of f32, rounded like what is rotated
        b.storeNarrow(tile, view(args[1], output), {row, column});
      return SmallVector<Value>();
    });
  }
}

void RopeKernel::launch() {
  bool hasHeads = input.rank() == 3;
  Value tokens = step.value(input.sizes[0]);
  int64_t heads = hasHeads ? input.size(1) : 1;
  std::array<Value, 3> grid = {step.ceilDiv(tokens, tileRows), step.constant(1), step.constant(1)};
  if (hasHeads)
    grid = {tokens, step.constant(llvm::divideCeil(heads, tileRows)), step.constant(turns())};
  if (hasRest())
    grid[2] = step.constant(turns() + 1);
  SmallVector<Value> args = {input.buffer, output.buffer,
                             table.buffer, step.metadata("positions"),
                             tokens,       step.value(table.sizes[0])};
  std::string name = llvm::formatv("rope_{0}{1}", 2 * half, hasHeads ? "_heads" : "").str();
  auto write = [&](KernelBuilder &b, ValueRange args) {
    OpFoldResult rows = hasHeads ? b.fixed(heads) : OpFoldResult(args[4]);
    Value row = b.mul(b.programId(hasHeads ? 1 : 0), tileRows);
    Value token = hasHeads ? b.programId(0) : b.index(0);
    auto rotateOwn = [&] {
      TilePair from = pairs(b, args[0], input, b.mul(token, input.strides[0]), rows);
      TilePair to = pairs(b, args[1], output, b.mul(token, output.strides[0]), rows);
      Value column = tileColumns < half ? b.mul(b.programId(2), tileColumns) : b.index(0);
      TilePair angles =
          hasHeads ? headAngles(b, args, token, column, rows)
                   : loadTokenAngles(b, {args[2], args[5], half}, args[3], args[4], row, tileRows);
      rotateTile(b, from, to, angles, row, column);
    };
    if (!hasRest())
      return rotateOwn();
    b.ifThenElse(b.isBelow(b.programId(2), b.index(turns())), rotateOwn,
                 [&] { copyRest(b, args, token, row, rows); });
  };
  step.launch(name, grid, args, write, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RopeOp op) {
  RopeKernel(step, op).launch();
  return success();
}
