//===- RmsNorm.cpp - normalisation of rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program normalises a tile of rows in two passes over blocks of columns: the
// sum of squares, then multiplier · gamma · x · rsqrt(mean + eps). On targets whose
// tiles have 64 rows it normalises one row instead, laid out as such a tile: that is one
// pass, and one row keeps all threads busy. Everything is f32 until the one
// rounding at the store (mla.md section 3.2).
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// A tile of rows
//===----------------------------------------------------------------------===//

static Value scaleOf(KernelBuilder &b, Value squares, int64_t width, const RmsNorm &norm) {
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
    Value scale = scaleOf(b, squares, width, norm);
    b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
      Value scaled = b.mulf(loadBlock(x, column), b.broadcast(scale, block));
      b.storeNarrow(b.mulf(scaled, loadBlock(weight, column)), y, {row, column});
      return SmallVector<Value>();
    });
  };
  step.launch(llvm::formatv("rms_norm_{0}", width).str(), grid,
              {input.buffer, norm.gamma.buffer, norm.output.buffer, rows}, write, step.chained());
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

/// A row of `width` elements as a tile of 64 rows: columns of it, or 0. Groups of 8 are
/// what a tile in registers is made of; 256 are 128 registers of a thread.
static int64_t foldedColumns(StepLowering &step, int64_t width) {
  constexpr int64_t group = 8, most = 256;
  for (int64_t columns = group; columns <= most; columns += group)
    if (width % columns == 0 && width / columns <= step.shapes.rows)
      return columns;
  return 0;
}

bool mlac::mla_to_tile::canHoldRow(StepLowering &step, int64_t width) {
  return step.shapes.isRowCountFixed && foldedColumns(step, width) != 0;
}

namespace {
/// What the kernel of one row says: `width` elements as a tile [64, columns].
class RowKernel {
public:
  RowKernel(StepLowering &step, KernelBuilder &b, int64_t width)
      : b(b), rows(step.shapes.rows), width(width), columns(foldedColumns(step, width)) {}

  Value load(Value buffer, Value base, int64_t offset) {
    return b.loadWide(view(buffer, base, offset), {b.index(0), b.index(0)}, {rows, columns});
  }
  void store(Value tile, Value buffer, Value base, int64_t offset) {
    b.storeNarrow(tile, view(buffer, base, offset), {b.index(0), b.index(0)});
  }
  /// gamma · x · rsqrt(mean(x²) + eps): the sum over columns is summed over rows by
  /// adding up one row that holds all of it.
  Value normalise(Value x, Value gamma, const RmsNorm &norm) {
    Value ofColumns = b.reduceSum(b.mulf(x, x), /*dim=*/0);
    Value squares = b.reduceSum(b.broadcastRows(ofColumns, rows));
    Value scale = b.broadcast(scaleOf(b, squares, width, norm), columns);
    return b.mulf(b.mulf(x, scale), gamma);
  }

private:
  Value view(Value buffer, Value base, int64_t offset) {
    return b.view(buffer, b.extent(base, offset), {b.fixed(width / columns), b.fixed(columns)},
                  {b.fixed(columns), b.fixed(1)});
  }

  KernelBuilder &b;
  int64_t rows, width, columns;
};
} // namespace

/// A program for each row, which it reads once.
static void emitRowNorm(StepLowering &step, const TensorRef &input, const RmsNorm &norm) {
  int64_t width = input.size(1);
  std::array<Value, 3> grid = {step.value(input.sizes[0]), step.constant(1), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    RowKernel row(step, b, width);
    Value gamma = row.load(args[1], b.index(0), norm.gamma.offset);
    Value x = row.load(args[0], b.mul(b.programId(0), input.strides[0]), input.offset);
    row.store(row.normalise(x, gamma, norm), args[2], b.mul(b.programId(0), norm.output.strides[0]),
              norm.output.offset);
  };
  step.launch(llvm::formatv("rms_norm_row_{0}", width).str(), grid,
              {input.buffer, norm.gamma.buffer, norm.output.buffer}, write, step.chained());
}

void mlac::mla_to_tile::emitRmsNorm(StepLowering &step, const TensorRef &input,
                                    const RmsNorm &norm) {
  bool isDense = input.strides.back() == 1 && norm.gamma.strides.back() == 1 &&
                 norm.output.strides.back() == 1;
  if (isDense && canHoldRow(step, input.size(1)))
    return emitRowNorm(step, input, norm);
  emitRowsNorm(step, input, norm);
}

void mlac::mla_to_tile::emitSumAndNorm(StepLowering &step, const PartialSums &sums, Value rows,
                                       const RmsNorm &norm, const std::optional<TensorRef> &tail) {
  int64_t width = norm.gamma.size(0), stride = sums.sums.strides[0];
  SmallVector<Value> buffers = {sums.sums.buffer, norm.gamma.buffer, norm.output.buffer};
  if (tail)
    buffers.push_back(tail->buffer);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value token = b.programId(0);
    auto sum = [&](RowKernel &row, int64_t column) {
      Value total;
      for (int64_t part = 0; part < sums.count; ++part) {
        Value next = row.load(args[0], b.mul(token, stride),
                              sums.sums.offset + part * sums.limit * stride + column);
        total = total ? b.addf(total, next) : next;
      }
      return total;
    };
    RowKernel head(step, b, width);
    Value gamma = head.load(args[1], b.index(0), norm.gamma.offset), x = sum(head, 0);
    if (tail) {
      RowKernel rest(step, b, tail->size(1));
      rest.store(sum(rest, width), args[3], b.mul(token, tail->strides[0]), tail->offset);
    }
    head.store(head.normalise(x, gamma, norm), args[2], b.mul(token, norm.output.strides[0]),
               norm.output.offset);
  };
  step.launch(llvm::formatv("sum_rms_norm_{0}", width).str(),
              {rows, step.constant(1), step.constant(1)}, buffers, write, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RmsNormOp op) {
  TensorRef input = step.lookup(op.getInput()), gamma = step.lookup(op.getGamma());
  emitRmsNorm(step, input,
              {gamma, step.allocate(op.getResult()), op.getEps().convertToDouble(),
               op.getMultiplier().convertToDouble()});
  return success();
}
