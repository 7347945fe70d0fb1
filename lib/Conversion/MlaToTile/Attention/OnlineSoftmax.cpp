//===- OnlineSoftmax.cpp - softmax over blocks of keys ---*- C++ -*-===//
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

/// Below every score that can occur, and finite (mla.md section 14).
static constexpr double kStartMaximum = -1e30;

/// A partial's maximum is taken this far below its LSE, its sum to be 2^this: relative
/// to the LSE itself the weights of 2^16 equal scores are 2^-16, of which f16 keeps 8
/// bits. Longer contexts have the 22 binades from here to f16's smallest normal number.
static constexpr double kHeadroomLog2 = 8;

SmallVector<Value> OnlineSoftmax::start() {
  return {b.constant({rows}, kStartMaximum), b.constant({rows}, 0), b.constant({rows, columns}, 0)};
}

SmallVector<Value> OnlineSoftmax::startFrom(Value output, Value lse) {
  Value isEmpty = b.equals(b.absf(lse), kInfinity);
  Value lseLog2 = b.mulf(lse, b.like(lse, llvm::numbers::log2e));
  Value maxLog2 =
      b.select(isEmpty, b.like(lse, kStartMaximum), b.subf(lseLog2, b.like(lse, kHeadroomLog2)));
  Value sum = b.select(isEmpty, b.like(lse, 0), b.like(lse, std::exp2(kHeadroomLog2)));
  return {maxLog2, sum, weigh(b, output, sum, sum)};
}

SmallVector<Value> OnlineSoftmax::advance(ValueRange state, Value scores, Value isSeen,
                                          Value values) {
  double factor = scale * llvm::numbers::log2e;
  if (isSeen)
    scores = b.select(isSeen, scores, b.like(scores, -kInfinity));
  Value blockMax = b.reduceMax(scores);
  Value maxLog2 = b.maxf(state[0], b.mulf(blockMax, b.like(blockMax, factor)));
  Value correction = b.exp2(b.subf(state[0], maxLog2));
  // One fused multiply-add for each score.
  Value scoresLog2 = b.mulf(scores, b.like(scores, factor));
  Value numerators = b.exp2(b.subf(scoresLog2, b.broadcast(maxLog2, keys)));
  Value sum = b.addf(b.mulf(state[1], correction), b.reduceSum(numerators));
  Value scaled = b.mulf(state[2], b.broadcast(correction, columns));
  Type element = cast<RankedTensorType>(values.getType()).getElementType();
  Value output = b.dot(b.narrow(numerators, element), values, scaled, /*transposeRhs=*/false);
  return {maxLog2, sum, output};
}

Value OnlineSoftmax::output(ValueRange state) {
  // 0 / 1 for an empty row; a NaN sum is not equal to 0 and propagates.
  Value one = b.like(state[1], 1);
  Value reciprocal = b.divf(one, b.select(b.equals(state[1], 0), one, state[1]));
  return b.mulf(state[2], b.broadcast(reciprocal, columns));
}

Value OnlineSoftmax::lse(ValueRange state) {
  Value lseLog2 = b.addf(state[0], b.log2(state[1]));
  Value natural = b.mulf(lseLog2, b.like(lseLog2, llvm::numbers::ln2));
  return b.select(b.equals(state[1], 0), b.like(natural, -kInfinity), natural);
}
