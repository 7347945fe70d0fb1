//===- LayerNorm.cpp - layer normalisation of rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program normalises a tile of rows in three passes over blocks of columns: the mean, the
// mean of the squared distances from it, and the result. A variance from the mean of the
// squares would cancel where the mean is large.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {
class LayerNormKernel {
public:
  LayerNormKernel(StepLowering &step, mla::LayerNormOp op)
      : step(step), input(step.lookup(op.getInput())), weight(step.lookup(op.getWeight())),
        bias(step.lookup(op.getBias())), output(step.allocate(op.getResult())),
        epsilon(op.getEpsilon().convertToDouble()), width(input.size(1)),
        block(blockWidth(width, step.shapes.columns)), tileRows(step.shapes.rows) {}

  void launch();

private:
  enum Argument { kInput, kWeight, kBias, kOutput, kTokens };
  void write(KernelBuilder &b, ValueRange args);
  Value meanOf(KernelBuilder &b, llvm::function_ref<Value(Value)> addend);
  Value zeroOutside(KernelBuilder &b, Value tile, Value column);

  StepLowering &step;
  TensorRef input, weight, bias, output;
  double epsilon;
  int64_t width, block, tileRows;
};
} // namespace

/// The mean over a row of `addend(column)`, which is a block of the tile's rows.
Value LayerNormKernel::meanOf(KernelBuilder &b, llvm::function_ref<Value(Value)> addend) {
  Value zero = b.constant({tileRows}, 0);
  Value total = b.forBlocks(width, block, zero, [&](Value column, ValueRange sum) {
    return SmallVector<Value>{b.addf(sum[0], b.reduceSum(addend(column)))};
  })[0];
  return b.mulf(total, b.like(total, 1.0 / static_cast<double>(width)));
}

/// Columns behind the row are loaded as 0, which is some distance from the mean.
Value LayerNormKernel::zeroOutside(KernelBuilder &b, Value tile, Value column) {
  if (width % block == 0)
    return tile;
  Value left = b.splat(b.toI32(b.sub(b.index(width), column)), {tileRows, block});
  Value isInside =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, b.iota(1, {tileRows, block}), left);
  return b.select(isInside, tile, b.like(tile, 0));
}

void LayerNormKernel::write(KernelBuilder &b, ValueRange args) {
  Value row = b.mul(b.programId(0), tileRows);
  auto viewOf = [&](Argument buffer, const TensorRef &ref, int64_t rowStride) {
    return b.view(args[buffer], b.fixed(ref.offset), {args[kTokens], b.fixed(width)},
                  {b.fixed(rowStride), b.fixed(ref.strides.back())});
  };
  Value x = viewOf(kInput, input, input.strides[0]);
  Value factors = viewOf(kWeight, weight, 0), addends = viewOf(kBias, bias, 0);
  Value y = viewOf(kOutput, output, output.strides[0]);
  auto load = [&](Value view, Value column) {
    return b.loadWide(view, {row, column}, {tileRows, block});
  };
  Value mean = meanOf(b, [&](Value column) { return load(x, column); });
  auto distance = [&](Value column) { return b.subf(load(x, column), b.broadcast(mean, block)); };
  Value variance = meanOf(b, [&](Value column) {
    Value far = zeroOutside(b, distance(column), column);
    return b.mulf(far, far);
  });
  Value scale = b.rsqrt(b.addf(variance, b.like(variance, epsilon)));
  b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
    Value normal = b.mulf(distance(column), b.broadcast(scale, block));
    Value result = b.addf(b.mulf(normal, load(factors, column)), load(addends, column));
    b.storeNarrow(result, y, {row, column});
    return SmallVector<Value>();
  });
}

void LayerNormKernel::launch() {
  Value rows = step.value(input.sizes[0]);
  std::array<Value, 3> grid = {step.ceilDiv(rows, tileRows), step.constant(1), step.constant(1)};
  step.launch(
      llvm::formatv("layer_norm_{0}", width).str(), grid,
      {input.buffer, weight.buffer, bias.buffer, output.buffer, rows},
      [&](KernelBuilder &b, ValueRange args) { write(b, args); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::LayerNormOp op) {
  LayerNormKernel(step, op).launch();
  return success();
}
