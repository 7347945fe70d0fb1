//===- Fours.cpp - e2m1 codes, two in a byte ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/Fours.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// Bits of a code, and those of them that are not its sign, which is the first.
static constexpr int32_t kBits = 4, kMagnitude = 7, kSign = 8;

static ArrayRef<int64_t> shapeOf(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape();
}

static Value maskBits(KernelBuilder &b, Value word, int32_t mask) {
  return arith::AndIOp::create(b, word, b.constantI32(shapeOf(word), mask));
}

/// An e2m1 magnitude is the f32 with its exponent and its first bit, times 2^126: the smallest one,
/// 0.5, is subnormal in both.
Value mlac::mla_to_tile::numbersOfFours(KernelBuilder &b, Value codes) {
  ArrayRef<int64_t> shape = shapeOf(codes);
  auto shift = [&](Value word, int32_t bits) -> Value {
    return arith::ShLIOp::create(b, word, b.constantI32(shape, bits));
  };
  Value word = arith::OrIOp::create(b, shift(maskBits(b, codes, kMagnitude), 22),
                                    shift(maskBits(b, codes, kSign), 28));
  Value small = arith::BitcastOp::create(b, RankedTensorType::get(shape, b.getF32Type()), word);
  return b.mulf(small, b.like(small, 0x1p126));
}

/// Counts the bounds between neighbouring magnitudes that a quotient, which is exact, has passed.
/// In the middle lies a tie, which goes to the even code: up from an odd one.
Value mlac::mla_to_tile::divideToFours(KernelBuilder &b, Value wide, Value scale) {
  constexpr double bounds[kMagnitude] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
  ArrayRef<int64_t> shape = shapeOf(wide);
  Value inverse = b.broadcast(b.divideExactly(b.like(scale, 1), scale), shape[1]);
  Value quotient = b.absf(b.mulf(wide, inverse));
  Value none = b.constantI32(shape, 0), one = b.constantI32(shape, 1), code = none;
  for (int32_t below = 0; below < kMagnitude; ++below) {
    auto predicate = below % 2 == 1 ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT;
    Value isPassed = arith::CmpFOp::create(b, predicate, quotient, b.like(quotient, bounds[below]));
    code = arith::AddIOp::create(b, code, b.select(isPassed, one, none));
  }
  Value word = arith::BitcastOp::create(b, RankedTensorType::get(shape, b.getI32Type()), wide);
  Value sign = arith::ShRUIOp::create(b, word, b.constantI32(shape, 28));
  return arith::OrIOp::create(b, code, maskBits(b, sign, kSign));
}

Value mlac::mla_to_tile::packFours(KernelBuilder &b, const TilePair &codes) {
  ArrayRef<int64_t> shape = shapeOf(codes.first);
  Value high = arith::ShLIOp::create(b, codes.second, b.constantI32(shape, kBits));
  Value word = arith::OrIOp::create(b, codes.first, high);
  return arith::TruncIOp::create(b, RankedTensorType::get(shape, b.getI8Type()), word);
}

TilePair mlac::mla_to_tile::unpackFours(KernelBuilder &b, Value bytes) {
  ArrayRef<int64_t> shape = shapeOf(bytes);
  Value word = arith::ExtUIOp::create(b, RankedTensorType::get(shape, b.getI32Type()), bytes);
  Value high = arith::ShRUIOp::create(b, word, b.constantI32(shape, kBits));
  return {numbersOfFours(b, word), numbersOfFours(b, high)};
}
