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
    Value weight = viewOf(args[1], norm.gamma, 0);
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
      b.storeNarrow(b.mulf(scaled, loadBlock(weight, column)), y, {row, column});
      return SmallVector<Value>();
    });
  };
  step.launch(llvm::formatv("rms_norm_{0}", width).str(), grid,
              {input.buffer, norm.gamma.buffer, norm.output.buffer, rows}, write, step.chained());
}

void mlac::mla_to_tile::emitRmsNorm(StepLowering &step, const TensorRef &input,
                                    const RmsNorm &norm) {
  bool isDense = input.strides.back() == 1 && norm.gamma.strides.back() == 1 &&
                 norm.output.strides.back() == 1;
  if (isDense && step.shapes.canHoldRow(input.size(1)))
    return emitLatentRows(step, step.value(input.sizes[0]), LatentRows{{input}, norm, {}});
  emitRowsNorm(step, input, norm);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RmsNormOp op) {
  TensorRef input = step.lookup(op.getInput()), gamma = step.lookup(op.getGamma());
  emitRmsNorm(step, input,
              {gamma, step.allocate(op.getResult()), op.getEps().convertToDouble(),
               op.getMultiplier().convertToDouble()});
  return success();
}
