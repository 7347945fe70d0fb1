//===- Hadamard.cpp - rows times a Hadamard matrix ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product whose right side is made in registers: its elements are signs, which the bits of
// a row's and a column's number say. Signs are exact in every type, so the result is rounded
// once, behind the factor.
//
//===----------------------------------------------------------------------===//

#include "Indexer/TokenRows.h"
#include "Plan/Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Rows of the matrix that a program makes at a time: those of a tile on every target.
static constexpr int64_t kSignRows = 64;

/// Rows `first` + 0, 1, … of the matrix: (-1)^(number of bits that row and column have in common).
static Value makeSigns(KernelBuilder &b, Value first, int64_t columns, Type element) {
  SmallVector<int64_t, 2> shape = {kSignRows, columns};
  Value row = b.add(b.iota(0, shape), b.splat(b.toI32(first), shape));
  Value bits = arith::AndIOp::create(b, row, b.iota(1, shape));
  // Folds all bits into the last one.
  for (int32_t half : {16, 8, 4, 2, 1}) {
    Value upper = arith::ShRUIOp::create(b, bits, b.constantI32(shape, half));
    bits = arith::XOrIOp::create(b, bits, upper);
  }
  Value isOdd = arith::AndIOp::create(b, bits, b.constantI32(shape, 1));
  Value isEven = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, isOdd, b.constantI32(shape, 0));
  return b.narrow(b.select(isEven, b.constant(shape, 1), b.constant(shape, -1)), element);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::HadamardOp op) {
  TensorRef input = step.lookup(op.getInput()), output = step.allocate(op.getResult());
  int64_t width = input.size(input.rank() - 1), depth = paddedWidth(width);
  TokenRows rows(step, input);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    Value row = rows.first(b), zero = b.index(0), column = b.mul(b.programId(2), kSignRows);
    Value from = rows.view(b, args[0], input, args[2], zero, width);
    Value x = b.load(from, {row, zero}, {rows.tileRows, depth});
    Value signs = makeSigns(b, column, depth, input.element());
    Value sum = b.dot(x, signs, b.constant({rows.tileRows, kSignRows}, 0), /*transposeRhs=*/true);
    Value scaled = b.mulf(sum, b.like(sum, 1 / std::sqrt(static_cast<double>(width))));
    b.storeNarrow(scaled, rows.view(b, args[1], output, args[2], zero, width), {row, column});
  };
  step.launch(llvm::formatv("hadamard_{0}", width).str(),
              rows.grid(step, llvm::divideCeil(width, kSignRows)),
              {input.buffer, output.buffer, rows.count()}, write, step.chained());
  return success();
}
