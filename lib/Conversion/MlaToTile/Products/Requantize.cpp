//===- Requantize.cpp - weights that become codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks have any extent, a program a tile of 64 rows by 128 columns, so three kernels do it:
//
//     peaks    [O, across]   of each row and block of columns the largest magnitude
//     scales   [down, across] of a block's rows the largest of these, / 448
//     codes    [O, I]
//
// Where a block is one row, the first kernel makes the scales.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Products/CodedWeights.h"
#include "Rows/Codes.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

static constexpr int64_t kTileRows = SwappedTile::kColumns, kTileColumns = kCodedDepth;
/// Rows of the peaks that a program compares at a time.
static constexpr int64_t kPeakRows = 128;

namespace {
class Requantizer {
public:
  Requantizer(StepLowering &step, mla::RequantizeOp op)
      : step(step), weight(asHeads(step, step.lookup(op.getWeight()), op.getTransposed())),
        codes(step.allocate(op.getCodes())), scales(step.allocate(op.getScales())),
        matrixRows(codes.size(0)), depth(codes.size(1)),
        rows(op.getBlock()[0] == 0 ? matrixRows : op.getBlock()[0]),
        columns(op.getBlock()[1] == 0 ? depth : op.getBlock()[1]) {}

  LogicalResult check(mla::RequantizeOp op) const;
  void emit();

private:
  static TensorRef asHeads(StepLowering &step, TensorRef weight, bool isTransposed);
  std::string name(StringRef stem) const;
  void emitPeaks(const TensorRef &to);
  void emitScales(const TensorRef &peaks);
  void emitCodes();
  Value headRows(KernelBuilder &b, Value buffer) const;
  Value columnOf(KernelBuilder &b, Value buffer, int64_t across, Value column) const;
  Value loadScales(KernelBuilder &b, Value buffer, Value row, Value column) const;

  StepLowering &step;
  TensorRef weight; // [N, J, I]
  TensorRef codes, scales;
  int64_t matrixRows, depth, rows, columns;
};
} // namespace

/// [N, J, I] with what is contracted last, of a matrix one head.
TensorRef Requantizer::asHeads(StepLowering &step, TensorRef weight, bool isTransposed) {
  if (weight.rank() == 2) {
    weight.sizes.insert(weight.sizes.begin(), step.plan().getIndexAttr(1));
    weight.strides.insert(weight.strides.begin(), 0);
  }
  if (isTransposed) {
    std::swap(weight.sizes[1], weight.sizes[2]);
    std::swap(weight.strides[1], weight.strides[2]);
  }
  return weight;
}

std::string Requantizer::name(StringRef stem) const {
  return llvm::formatv("{0}_{1}x{2}_block_{3}x{4}", stem, matrixRows, depth, rows, columns).str();
}

/// The rows of the program's head, of the weight.
Value Requantizer::headRows(KernelBuilder &b, Value buffer) const {
  return b.view(buffer, b.extent(b.mul(b.programId(2), weight.strides[0]), weight.offset),
                {b.fixed(weight.size(1)), b.fixed(depth)},
                {b.fixed(weight.strides[1]), b.fixed(weight.strides[2])});
}

/// Column `column` of [O, across], of the program's head's rows.
Value Requantizer::columnOf(KernelBuilder &b, Value buffer, int64_t across, Value column) const {
  Value first = b.mul(b.programId(2), weight.size(1) * across);
  return b.view(buffer, b.extent(b.add(first, column)), {b.fixed(weight.size(1)), b.fixed(1)},
                {b.fixed(across), b.fixed(1)});
}

void Requantizer::emitPeaks(const TensorRef &to) {
  int64_t across = llvm::divideCeil(depth, columns);
  bool isScale = rows == 1;
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value row = b.mul(b.programId(0), kTileRows), group = b.programId(1);
    Value first = b.mul(group, columns), matrix = headRows(b, args[0]);
    Value none = b.constant({kTileRows}, 0);
    Value peak = b.forBlocks(columns, kTileColumns, none, [&](Value column, ValueRange before) {
      Value wide = b.loadWide(matrix, {row, b.add(first, column)}, {kTileRows, kTileColumns});
      return SmallVector<Value>{b.maxf(before[0], b.reduceMax(b.zeroNan(b.absf(wide))))};
    })[0];
    // One element wide: of the tile's equal columns the first is stored.
    Value result = b.broadcast(peak, kWidthMultiple);
    if (isScale)
      result = b.broadcast(chooseScales(b, kActivationRule, result), kWidthMultiple);
    b.store(result, columnOf(b, args[1], across, group), {row, b.index(0)});
  };
  step.launch(name("requantize_peaks"),
              {step.constant(llvm::divideCeil(weight.size(1), kTileRows)), step.constant(across),
               step.constant(weight.size(0))},
              {weight.buffer, to.buffer}, write, step.chained());
}

void Requantizer::emitScales(const TensorRef &peaks) {
  int64_t across = llvm::divideCeil(depth, columns), down = llvm::divideCeil(matrixRows, rows);
  int64_t tileRows = step.shapes.rows;
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value group = b.mul(b.programId(0), tileRows), block = b.programId(1);
    Value first = b.mul(block, rows);
    Value height = b.minimum(b.sub(b.index(matrixRows), first), b.index(rows));
    // A block's rows beside each other.
    Value view = b.view(args[0], b.extent(b.mul(first, across)),
                        {b.fixed(across), b.extent(height)}, {b.fixed(1), b.fixed(across)});
    Value none = b.constant({tileRows}, 0);
    Value peak = b.forBlocks(rows, kPeakRows, none, [&](Value row, ValueRange before) {
      Value tile = b.load(view, {group, row}, {tileRows, kPeakRows});
      return SmallVector<Value>{b.maxf(before[0], b.reduceMax(tile))};
    })[0];
    Value scale = chooseScales(b, kActivationRule, b.broadcast(peak, kWidthMultiple));
    Value to = b.view(args[1], b.extent(b.mul(block, across)), {b.fixed(across), b.fixed(1)},
                      {b.fixed(1), b.fixed(1)});
    b.store(b.broadcast(scale, kWidthMultiple), to, {group, b.index(0)});
  };
  step.launch(
      name("requantize_scales"),
      {step.constant(llvm::divideCeil(across, tileRows)), step.constant(down), step.constant(1)},
      {peaks.buffer, scales.buffer}, write, step.chained());
}

/// Of the tile's rows of the matrix from `row` on, which lie in one block or are one each.
Value Requantizer::loadScales(KernelBuilder &b, Value buffer, Value row, Value column) const {
  int64_t across = llvm::divideCeil(depth, columns);
  bool isOfRow = rows == 1;
  Value block = isOfRow ? row : b.divNarrow(row, b.index(rows));
  Value at = b.add(b.mul(block, across), b.divNarrow(column, b.index(columns)));
  OpFoldResult height = isOfRow ? b.extent(b.sub(b.index(matrixRows), row)) : b.fixed(kTileRows);
  Value view = b.view(buffer, b.extent(at), {height, b.fixed(1)},
                      {b.fixed(isOfRow ? across : 0), b.fixed(1)});
  // One element wide, and above the zeros beside it.
  return b.reduceMax(b.load(view, {b.index(0), b.index(0)}, {kTileRows, kWidthMultiple}));
}

void Requantizer::emitCodes() {
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value row = b.mul(b.programId(0), kTileRows), column = b.mul(b.programId(1), kTileColumns);
    Value wide = b.loadWide(headRows(b, args[0]), {row, column}, {kTileRows, kTileColumns});
    Value ofMatrix = b.add(b.mul(b.programId(2), weight.size(1)), row);
    Value scale = loadScales(b, args[1], ofMatrix, column);
    Value to = b.view(args[2], b.extent(b.mul(b.programId(2), weight.size(1) * depth)),
                      {b.fixed(weight.size(1)), b.fixed(depth)}, {b.fixed(depth), b.fixed(1)});
    b.store(divideToCodes(b, wide, scale), to, {row, column});
  };
  step.launch(name("requantize_codes"),
              {step.constant(llvm::divideCeil(weight.size(1), kTileRows)),
               step.constant(llvm::divideCeil(depth, kTileColumns)), step.constant(weight.size(0))},
              {weight.buffer, scales.buffer, codes.buffer}, write, step.chained());
}

/// Whether a tile's rows have one scale or one each, and a block's columns are whole tiles.
LogicalResult Requantizer::check(mla::RequantizeOp op) const {
  bool hasRows =
      rows == 1 || rows == matrixRows ||
      (rows % kTileRows == 0 && (weight.size(0) == 1 || weight.size(1) % kTileRows == 0));
  if (hasRows && (columns == depth || columns % kTileColumns == 0))
    return success();
  return op.emitOpError("expected blocks of all rows, of one, or of a multiple of ")
         << kTileRows << " where heads have whole ones, by all columns or a multiple of "
         << kTileColumns << ", got " << op.getBlockAttr() << " of heads of " << weight.size(1)
         << " rows";
}

void Requantizer::emit() {
  if (rows == 1) {
    emitPeaks(scales);
  } else {
    auto size = [&](int64_t value) -> OpFoldResult { return step.plan().getIndexAttr(value); };
    TensorRef peaks = step.workspace({size(matrixRows), size(llvm::divideCeil(depth, columns))},
                                     step.plan().getF32Type());
    emitPeaks(peaks);
    emitScales(peaks);
  }
  emitCodes();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RequantizeOp op) {
  Requantizer requantizer(step, op);
  if (failed(requantizer.check(op)))
    return failure();
  requantizer.emit();
  return success();
}
