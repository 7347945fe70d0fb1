//===- Quantize.cpp - rows as e4m3 codes with scales ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has the rows of a tile and one group of their columns.
//
//===----------------------------------------------------------------------===//

#include "Indexer/TokenRows.h"
#include "Plan/Lowerings.h"
#include "Rows/Codes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

void mlac::mla_to_tile::emitQuantize(StepLowering &step, const TensorRef &input,
                                     const CodedTensor &to, const cache::ScaleRule &rule) {
  TokenRows rows(step, input);
  int64_t group = to.group, block = paddedWidth(group);
  int64_t groups = input.size(input.rank() - 1) / group;
  auto write = [&](KernelBuilder &b, ValueRange args) {
    b.markRowKernel();
    auto view = [&](unsigned arg, const TensorRef &ref, Value first, int64_t width) {
      return rows.view(b, args[arg], ref, args[3], first, width);
    };
    Value index = groups == 1 ? b.index(0) : b.programId(2), column = b.mul(index, group);
    Value row = rows.first(b), zero = b.index(0);
    Value wide = b.loadWide(view(0, input, column, group), {row, zero}, {rows.tileRows, block});
    Value scale = chooseScales(b, rule, wide);
    b.store(divideToCodes(b, wide, scale), view(1, to.codes, column, group), {row, zero});
    // One element wide: of the tile's equal columns the first is stored.
    Value equal = b.broadcast(scale, kWidthMultiple);
    if (to.inBlocks)
      b.store(equal, rows.viewScales(b, args[2], *to.inBlocks, args[3], index, groups),
              {zero, zero});
    else
      b.store(equal, view(2, to.scales, index, 1), {row, zero});
  };
  step.launch(llvm::formatv("quantize_{0}", group).str(), rows.grid(step, groups),
              {input.buffer, to.codes.buffer, to.scales.buffer, rows.count()}, write,
              step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::QuantizeOp op) {
  emitQuantize(step, step.lookup(op.getInput()),
               {step.allocate(op.getQuantized()), step.allocate(op.getScales()),
                static_cast<int64_t>(op.getGroup())},
               {op.getRule() == mla::ScaleRule::PowerOfTwo,
                static_cast<float>(op.getAmaxFloor().convertToDouble()),
                static_cast<float>(op.getScaleFloor().convertToDouble())});
  return success();
}
