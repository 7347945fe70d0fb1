//===- SumParts.cpp - adds up parts of a product's depth ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program adds up a block of columns of one row, part by part, so that the sum does not
// depend on which program was done first:
//
//     part 0   | block 0 | block 1 | ...        f32
//     part 1   | block 0 | block 1 | ...
//                  +         +
//     out      | block 0 | block 1 | ...        rounded once
//
//===----------------------------------------------------------------------===//

#include "Products/Product.h"
#include "Rows/RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

bool mlac::mla_to_tile::canSumParts(StepLowering &step, int64_t columns) {
  return findRowBlock(step, columns) != 0;
}

void mlac::mla_to_tile::emitSumParts(StepLowering &step, const Product &product,
                                     const PartialSums &sums) {
  int64_t block = findRowBlock(step, product.columns), rowStride = sums.sums.strides[0];
  auto write = [&](KernelBuilder &b, ValueRange args) {
    RowKernel row(step, b, block);
    Value first = b.mul(b.programId(1), block), token = b.programId(0);
    Value base = b.add(b.mul(token, rowStride), first), total;
    for (int64_t part = 0; part < sums.count; ++part) {
      Value next = row.load(args[0], base, sums.sums.offset + part * product.columns);
      total = total ? b.addf(total, next) : next;
    }
    row.store(total, args[1], b.add(b.mul(token, product.out.rowStride), first),
              product.out.offset);
  };
  std::string name = llvm::formatv("sum_{0}_parts_{1}", sums.count, product.columns).str();
  step.launch(name, {product.rows, step.constant(product.columns / block), step.constant(1)},
              {sums.sums.buffer, product.out.buffer}, write, step.chained());
}
