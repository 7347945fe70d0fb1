//===- OnlineSoftmax.cpp - before and behind attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/OnlineSoftmax.h"

#include "Attention/JoinPartials.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A partial's maximum is taken this far below its LSE, its sum to be 2^this: relative
/// to the LSE itself the weights of 2^16 equal scores are 2^-16, of which f16 keeps 8
/// bits. Longer contexts have the 22 binades from here to f16's smallest normal number.
static constexpr double kHeadroomLog2 = 8;

SmallVector<Value> mlac::mla_to_tile::startFromPartial(KernelBuilder &b, Value output, Value lse) {
  Value isEmpty = b.equals(b.absf(lse), kInfinity);
  Value lseLog2 = b.mulf(lse, b.like(lse, llvm::numbers::log2e));
  Value reference = b.select(isEmpty, b.like(lse, tile::AttendOp::kStartReference),
                             b.subf(lseLog2, b.like(lse, kHeadroomLog2)));
  Value sum = b.select(isEmpty, b.like(lse, 0), b.like(lse, std::exp2(kHeadroomLog2)));
  return {reference, sum, weigh(b, output, sum, sum)};
}

Value mlac::mla_to_tile::normaliseOutput(KernelBuilder &b, tile::AttendOp attend) {
  // 0 / 1 for an empty row; a NaN sum is not equal to 0 and propagates.
  Value sum = attend.getSum(), one = b.like(sum, 1);
  Value reciprocal = b.divf(one, b.select(b.equals(sum, 0), one, sum));
  return b.mulf(attend.getOutput(), b.broadcast(reciprocal, attend.getOutputWidth()));
}

Value mlac::mla_to_tile::attendedLse(KernelBuilder &b, tile::AttendOp attend) {
  Value lseLog2 = b.addf(attend.getReference(), b.log2(attend.getSum()));
  Value natural = b.mulf(lseLog2, b.like(lseLog2, llvm::numbers::ln2));
  return b.select(b.equals(attend.getSum(), 0), b.like(natural, -kInfinity), natural);
}

Value mlac::mla_to_tile::attendedMaximum(KernelBuilder &b, tile::AttendOp attend) {
  Value reference = attend.getReference();
  Value natural = b.mulf(reference, b.like(reference, llvm::numbers::ln2));
  return b.select(b.equals(attend.getSum(), 0), b.like(natural, -kInfinity), natural);
}

Value mlac::mla_to_tile::sinkFactor(KernelBuilder &b, Value sink, Value lse) {
  Value odds = b.exp(b.subf(sink, referenceOf(b, lse))), one = b.like(odds, 1);
  return b.divf(one, b.addf(one, odds));
}
