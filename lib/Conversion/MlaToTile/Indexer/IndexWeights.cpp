//===- IndexWeights.cpp - weights of an indexer's heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::IndexWeightsOp op) {
  TensorRef input = step.lookup(op.getInput()), output = step.allocate(op.getResult());
  std::optional<TensorRef> scales;
  if (op.getScales())
    scales = step.lookup(op.getScales());
  int64_t heads = input.size(1), block = blockWidth(heads, step.shapes.columns);
  int64_t tileRows = step.shapes.rows;
  Value tokens = step.value(input.sizes[0]);
  SmallVector<Value> args = {input.buffer, output.buffer, tokens};
  if (scales)
    args.push_back(scales->buffer);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    auto view = [&](unsigned arg, const TensorRef &ref) {
      return b.view(args[arg], b.fixed(ref.offset), {args[2], b.fixed(heads)},
                    {b.fixed(ref.strides[0]), b.fixed(ref.strides[1])});
    };
    SmallVector<Value, 2> at = {b.mul(b.programId(0), tileRows), b.mul(b.programId(1), block)};
    Value x = b.loadWide(view(0, input), at, {tileRows, block});
    Value scaled = b.mulf(x, b.like(x, op.getFactor().convertToDouble()));
    if (scales)
      scaled = b.mulf(scaled, b.load(view(3, *scales), at, {tileRows, block}));
    b.store(scaled, view(1, output), at);
  };
  step.launch(llvm::formatv("index_weights_{0}", heads).str(),
              {step.ceilDiv(tokens, tileRows), step.constant(llvm::divideCeil(heads, block)),
               step.constant(1)},
              args, write, step.chained());
  return success();
}
