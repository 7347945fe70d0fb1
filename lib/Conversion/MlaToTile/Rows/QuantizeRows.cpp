//===- QuantizeRows.cpp - rows as e4m3 codes with one scale each ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is too wide for a program to hold, so it is read twice: for its largest element, and to be
// divided. A GPU's program has one row, folded to tiles; a CPU's, a tile of rows.
//
//===----------------------------------------------------------------------===//

#include "Rows/Codes.h"
#include "Rows/RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// The row's largest magnitude is in each row of the tile: behind NaN and signs what is largest of
/// all rows is so of one that holds all of it.
static Value reduceAll(KernelBuilder &b, Value peaks, int64_t tileRows) {
  Value alike = b.broadcast(peaks, kWidthMultiple);
  return b.broadcastRows(b.reduceMax(alike, /*dim=*/0), tileRows);
}

static Value findPeaks(KernelBuilder &b, Value before, Value wide) {
  return b.maxf(before, b.reduceMax(b.zeroNan(b.absf(wide))));
}

/// One program for each row, in parts of `part` elements.
static void launchFolded(StepLowering &step, const TensorRef &input, const CodedTensor &to,
                         const mlac::cache::ScaleRule &rule, int64_t part) {
  int64_t width = input.size(1), tileRows = step.shapes.rows;
  auto write = [&](KernelBuilder &b, ValueRange args) {
    b.markRowKernel();
    RowKernel row(step, b, part);
    Value token = b.programId(0);
    Value from = b.mul(token, input.strides[0]), into = b.mul(token, to.codes.strides[0]);
    auto load = [&](Value column) { return row.load(args[0], b.add(from, column), input.offset); };
    Value none = b.constant({tileRows}, 0);
    Value peaks = b.forBlocks(width, part, none, [&](Value column, ValueRange before) {
      return SmallVector<Value>{findPeaks(b, before[0], load(column))};
    })[0];
    Value scale = chooseScales(b, rule, reduceAll(b, peaks, tileRows));
    b.forBlocks(width, part, {}, [&](Value column, ValueRange) {
      row.store(divideToCodes(b, load(column), scale), args[1], b.add(into, column), 0);
      return SmallVector<Value>();
    });
    Value one = b.view(args[2], b.extent(b.mul(token, to.scales.strides[0])),
                       {b.fixed(1), b.fixed(1)}, {b.fixed(1), b.fixed(1)});
    b.store(b.broadcast(scale, kWidthMultiple), one, {b.index(0), b.index(0)});
  };
  step.launch(llvm::formatv("quantize_row_{0}", width).str(),
              {step.value(input.sizes[0]), step.constant(1), step.constant(1)},
              {input.buffer, to.codes.buffer, to.scales.buffer}, write, step.chained());
}

void mlac::mla_to_tile::emitQuantizeRows(StepLowering &step, const TensorRef &input,
                                         const CodedTensor &to, const cache::ScaleRule &rule) {
  int64_t width = input.size(1), tileRows = step.shapes.rows,
          block = blockWidth(width, step.shapes.columns);
  int64_t part = input.strides[1] == 1 ? findRowBlock(step, width) : 0;
  if (part != 0)
    return launchFolded(step, input, to, rule, part);
  Value count = step.value(input.sizes[0]);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value first = b.mul(b.programId(0), tileRows);
    auto view = [&](unsigned arg, const TensorRef &ref, int64_t columns) {
      return b.view(args[arg], b.fixed(ref.offset), {args[3], b.fixed(columns)},
                    {b.fixed(ref.strides[0]), b.fixed(ref.strides[1])});
    };
    Value x = view(0, input, width), codes = view(1, to.codes, width);
    auto load = [&](Value column) { return b.loadWide(x, {first, column}, {tileRows, block}); };
    Value none = b.constant({tileRows}, 0);
    Value peaks = b.forBlocks(width, block, none, [&](Value column, ValueRange before) {
      return SmallVector<Value>{findPeaks(b, before[0], load(column))};
    })[0];
    Value scale = chooseScales(b, rule, b.broadcast(peaks, kWidthMultiple));
    b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
      b.store(divideToCodes(b, load(column), scale), codes, {first, column});
      return SmallVector<Value>();
    });
    // One element wide: of the tile's equal columns the first is stored.
    b.store(b.broadcast(scale, kWidthMultiple), view(2, to.scales, 1), {first, b.index(0)});
  };
  step.launch(llvm::formatv("quantize_rows_{0}", width).str(),
              {step.ceilDiv(count, tileRows), step.constant(1), step.constant(1)},
              {input.buffer, to.codes.buffer, to.scales.buffer, count}, write, step.chained());
}
