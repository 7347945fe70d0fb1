//===- AddPositionBias.cpp - a bias of a token's place in a run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program adds a block of columns of one token: its row of the bias is a scalar's.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AddPositionBiasOp op) {
  TensorRef input = step.lookup(op.getInput()), bias = step.lookup(op.getBias()),
            output = step.allocate(op.getResult());
  int64_t width = input.size(1), block = blockWidth(width, step.shapes.columns);
  int64_t places = bias.size(0), tileRows = step.shapes.rows;
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value token = b.programId(0), position = b.loadScalar(args[3], token);
    Value runs = b.divNarrow(position, b.index(places));
    Value place = b.sub(position, b.mul(runs, places));
    Value zero = b.index(0), column = b.mul(b.programId(1), block);
    // One row of a tile that may have more.
    auto view = [&](unsigned arg, const TensorRef &ref, Value row) {
      return b.view(args[arg], b.extent(b.mul(row, ref.strides[0]), ref.offset),
                    {b.fixed(1), b.fixed(width)}, {b.fixed(0), b.fixed(ref.strides[1])});
    };
    auto load = [&](Value view) { return b.loadWide(view, {zero, column}, {tileRows, block}); };
    Value sum = b.addf(load(view(0, input, token)), load(view(1, bias, place)));
    b.storeNarrow(sum, view(2, output, token), {zero, column});
  };
  step.launch(
      llvm::formatv("add_position_bias_{0}x{1}", places, width).str(),
      {step.value(input.sizes[0]), step.constant(llvm::divideCeil(width, block)), step.constant(1)},
      {input.buffer, bias.buffer, output.buffer, step.metadata("positions")}, write,
      step.chained());
  return success();
}
