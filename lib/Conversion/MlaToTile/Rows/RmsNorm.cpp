//===- RmsNorm.cpp - normalisation of rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program normalises a tile of rows in two passes over blocks of columns: the
// sum of squares, then multiplier · gamma · x · rsqrt(mean + eps). Targets whose
// tiles have 64 rows take one row at a time instead (LatentRow.cpp). Everything is f32
// until the one rounding at the store (mla.md section 3.2).
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

Value mlac::mla_to_tile::rmsScale(KernelBuilder &b, Value squares, int64_t width,
                                  const RmsNorm &norm) {
  Value mean = b.mulf(squares, b.like(squares, 1.0 / static_cast<double>(width)));
  Value scale = b.rsqrt(b.addf(mean, b.like(mean, norm.eps)));
  return norm.multiplier == 1 ? scale : b.mulf(scale, b.like(scale, norm.multiplier));
}

static void emitRowsNorm(StepLowering &step, const TensorRef &input, const RmsNorm &norm) {
  int64_t width = input.size(1), tileRows = step.shapes.rows;
  bool hasGamma = static_cast<bool>(norm.gamma.buffer);
  int64_t block = blockWidth(width, step.shapes.columns);
  Value rows = step.value(input.sizes[0]);
  std::array<Value, 3> grid = {step.ceilDiv(rows, tileRows), step.constant(1), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value row = b.mul(b.programId(0), tileRows);
    OpFoldResult rowCount = args[3], columns = b.fixed(width);
    auto viewOf = [&](Value buffer, const TensorRef &ref, int64_t rowStride) {
      return b.view(buffer, b.fixed(ref.offset), {rowCount, columns},
                    {b.fixed(rowStride), b.fixed(ref.strides.back())});
    };
    Value x = viewOf(args[0], input, input.strides[0]);
    Value weight = hasGamma ? viewOf(args[1], norm.gamma, 0) : Value();
    Value y = viewOf(args[2], norm.output, norm.output.strides[0]);
    auto loadBlock = [&](Value view, Value column) {
      return b.loadWide(view, {row, column}, {tileRows, block});
    };
    Value zero = b.constant({tileRows}, 0);
    Value squares = b.forBlocks(width, block, zero, [&](Value column, ValueRange sum) {
      Value tile = loadBlock(x, column);
      return SmallVector<Value>{b.addf(sum[0], b.reduceSum(b.mulf(tile, tile)))};
    })[0];
    Value scale = rmsScale(b, squares, width, norm);
    b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
      Value scaled = b.mulf(loadBlock(x, column), b.broadcast(scale, block));
      b.storeNarrow(weight ? b.mulf(scaled, loadBlock(weight, column)) : scaled, y, {row, column});
      return SmallVector<Value>();
    });
  };
  step.launch(llvm::formatv("rms_norm_{0}", width).str(), grid,
              {input.buffer, hasGamma ? norm.gamma.buffer : input.buffer, norm.output.buffer, rows},
              write, step.chained());
}

void mlac::mla_to_tile::emitRmsNorm(StepLowering &step, const TensorRef &input,
                                    const RmsNorm &norm) {
  bool isDense = norm.gamma.buffer && input.strides.back() == 1 && norm.gamma.strides.back() == 1 &&
                 norm.output.strides.back() == 1 && norm.output.element() == input.element();
  if (isDense && step.shapes.canHoldRow(input.size(1)))
    return emitLatentRows(step, step.value(input.sizes[0]), LatentRows{{input}, norm, {}});
  emitRowsNorm(step, input, norm);
}

/// Rows [T, N, L] as [T · N, L].
static TensorRef joinRows(StepLowering &step, TensorRef ref) {
  if (ref.rank() == 2)
    return ref;
  Value rows = step.multiply(step.value(ref.sizes[0]), ref.size(1));
  ref.sizes = {OpFoldResult(rows), ref.sizes[2]};
  ref.strides = {ref.strides[1], ref.strides[2]};
  return ref;
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RmsNormOp op) {
  TensorRef input = step.lookup(op.getInput()), output = step.allocate(op.getResult());
  for (const TensorRef &ref : {input, output})
    if (ref.rank() == 3 && ref.strides[0] != ref.size(1) * ref.strides[1])
      return op.emitOpError("expected the heads of all tokens one behind the other, got ")
             << ref.size(1) << " heads " << ref.strides[1] << " apart of tokens " << ref.strides[0]
             << " apart";
  TensorRef gamma = op.getGamma() ? step.lookup(op.getGamma()) : TensorRef();
  emitRmsNorm(step, joinRows(step, input),
              {gamma, joinRows(step, output), op.getEps().convertToDouble(),
               op.getMultiplier().convertToDouble()});
  return success();
}
