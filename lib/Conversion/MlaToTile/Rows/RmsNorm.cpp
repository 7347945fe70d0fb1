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
// until the one rounding at the store (mla.md section 3.2), to codes of a block of columns
// with its scale where the output has scales.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Rows/Codes.h"
#include "Rows/GroupColumns.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

Value mlac::mla_to_tile::rmsScale(KernelBuilder &b, Value squares, int64_t width,
                                  const RmsNorm &norm) {
  Value mean = b.mulf(squares, b.like(squares, 1.0 / static_cast<double>(width)));
  Value scale = b.rsqrt(b.addf(mean, b.like(mean, norm.eps)));
  return norm.multiplier == 1 ? scale : b.mulf(scale, b.like(scale, norm.multiplier));
}

namespace {
/// Writes the kernel of tiles of rows.
class RowsNorm {
public:
  RowsNorm(StepLowering &step, const TensorRef &input, const RmsNorm &norm)
      : step(step), input(input), norm(norm), scales(norm.output.scales), width(input.size(1)),
        tileRows(step.shapes.rows),
        block(scales ? scales->columns : blockWidth(width, step.shapes.columns)) {}
  void launch();

private:
  void write(KernelBuilder &b, ValueRange args);
  void storeCodes(KernelBuilder &b, ValueRange args, Value y, Value view, Value row, Value column);

  StepLowering &step;
  const TensorRef &input;
  const RmsNorm &norm;
  const std::optional<CodeScales> &scales;
  int64_t width, tileRows, block;
};
} // namespace

/// `y` is a group of each row.
void RowsNorm::storeCodes(KernelBuilder &b, ValueRange args, Value y, Value view, Value row,
                          Value column) {
  Value ofGroups = chooseScales(b, kActivationRule, y), zero = b.index(0);
  // The view ends with the column: of the tile's equal ones the first is stored.
  Value group = b.divNarrow(column, b.index(block));
  Value base = b.add(scales->place(b, row), b.mul(group, scales->groupStride()));
  Value one = b.view(args.back(), b.extent(base), {OpFoldResult(b.sub(args[3], row)), b.fixed(1)},
                     {b.fixed(scales->rowStride()), b.fixed(1)});
  b.store(b.broadcast(ofGroups, kWidthMultiple), one, {zero, zero});
  b.store(divideToCodes(b, y, ofGroups), view, {row, column});
}

void RowsNorm::write(KernelBuilder &b, ValueRange args) {
  bool hasGamma = static_cast<bool>(norm.gamma.buffer);
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
    if (weight)
      scaled = b.mulf(scaled, loadBlock(weight, column));
    if (scales)
      storeCodes(b, args, scaled, y, row, column);
    else
      b.storeNarrow(scaled, y, {row, column});
    return SmallVector<Value>();
  });
}

void RowsNorm::launch() {
  Value rows = step.value(input.sizes[0]);
  SmallVector<Value> args = {input.buffer, norm.gamma.buffer ? norm.gamma.buffer : input.buffer,
                             norm.output.buffer, rows};
  if (scales)
    args.push_back(scales->buffer);
  std::array<Value, 3> grid = {step.ceilDiv(rows, tileRows), step.constant(1), step.constant(1)};
  step.launch(
      llvm::formatv("rms_norm_{0}{1}", width, scales ? "_codes" : "").str(), grid, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

/// Whether a program can hold a row.
static bool canNormByRow(StepLowering &step, const TensorRef &input, const RmsNorm &norm) {
  bool isDense = norm.gamma.buffer && input.strides.back() == 1 && norm.gamma.strides.back() == 1 &&
                 norm.output.strides.back() == 1 &&
                 (norm.output.scales || norm.output.element() == input.element());
  const std::optional<CodeScales> &scales = norm.output.scales;
  bool canHoldGroups =
      !scales || GroupColumns::canHold(step.shapes, input.size(1), scales->columns);
  return isDense && canHoldGroups && step.shapes.canHoldRow(input.size(1));
}

void mlac::mla_to_tile::emitRmsNorm(StepLowering &step, const TensorRef &input,
                                    const RmsNorm &norm) {
  if (canNormByRow(step, input, norm))
    return emitLatentRows(step, step.value(input.sizes[0]), LatentRows{{input}, norm, {}});
  RowsNorm(step, input, norm).launch();
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
  auto isJoined = [](const TensorRef &ref) {
    return ref.rank() != 3 || ref.strides[0] == ref.size(1) * ref.strides[1];
  };
  TensorRef gamma = op.getGamma() ? step.lookup(op.getGamma()) : TensorRef();
  RmsNorm norm{gamma, joinRows(step, output), op.getEps().convertToDouble(),
               op.getMultiplier().convertToDouble()};
  TensorRef rows = joinRows(step, input);
  if (isJoined(input) && isJoined(output)) {
    emitRmsNorm(step, rows, norm);
    return success();
  }
  if (!isJoined(output) || !canNormByRow(step, rows, norm))
    return op.emitOpError("expected the heads of all tokens one behind the other, got ")
           << input.size(1) << " heads " << input.strides[1] << " apart of tokens "
           << input.strides[0] << " apart";
  RowSource source{rows};
  source.heads = input.size(1);
  source.tokenStride = input.strides[0];
  emitLatentRows(step, step.value(rows.sizes[0]), LatentRows{source, norm, {}});
  return success();
}
