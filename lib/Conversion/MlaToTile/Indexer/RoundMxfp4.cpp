//===- RoundMxfp4.cpp - rows rounded to numbers of MXFP4 ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has the rows of a tile and one block of their columns.
//
//===----------------------------------------------------------------------===//

#include "Indexer/TokenRows.h"
#include "Plan/Lowerings.h"
#include "Rows/Codes.h"
#include "Rows/Fours.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RoundMxfp4Op op) {
  constexpr int64_t block = mla::RoundMxfp4Op::kBlock;
  TensorRef input = step.lookup(op.getInput()), output = step.allocate(op.getResult());
  TokenRows rows(step, input);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    auto view = [&](unsigned arg, const TensorRef &ref) {
      return rows.view(b, args[arg], ref, args[2], b.mul(b.programId(2), block), block);
    };
    Value row = rows.first(b), zero = b.index(0);
    Value wide = b.loadWide(view(0, input), {row, zero}, {rows.tileRows, block});
    Value scale = chooseScales(b, cache::kMxfp4Rule, wide);
    Value numbers = numbersOfFours(b, divideToFours(b, wide, scale));
    b.storeNarrow(b.mulf(numbers, b.broadcast(scale, block)), view(1, output), {row, zero});
  };
  step.launch("round_mxfp4", rows.grid(step, input.size(input.rank() - 1) / block),
              {input.buffer, output.buffer, rows.count()}, write, step.chained());
  return success();
}
