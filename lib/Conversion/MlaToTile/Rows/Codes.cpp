//===- Codes.cpp - e4m3 codes and their scales ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/Codes.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <algorithm>
#include <cfloat>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

Value mlac::mla_to_tile::chooseScales(KernelBuilder &b, const cache::ScaleRule &rule,
                                      ValueRange wide) {
  Value amax;
  for (Value tile : wide) {
    Value most = b.reduceMax(b.zeroNan(b.absf(tile)));
    amax = amax ? b.maxf(amax, most) : most;
  }
  return scalesOfLargest(b, rule, amax);
}

Value mlac::mla_to_tile::scalesOfLargest(KernelBuilder &b, const cache::ScaleRule &rule,
                                         Value amax) {
  amax = b.minf(amax, b.like(amax, FLT_MAX));
  if (rule.amaxFloor > 0)
    amax = b.maxf(amax, b.like(amax, rule.amaxFloor));
  Value scale = b.divideExactly(amax, b.like(amax, rule.mostCode));
  scale = b.maxf(scale, b.like(scale, std::max(rule.scaleFloor, FLT_MIN)));
  return rule.isPowerOfTwo ? b.roundUpToPowerOf2(scale) : scale;
}

/// e4m3(x / s), where x / s is rounded to f32 first, without a division per element:
/// with y = RN(1 / s) and q = RN(x y), q + y (x - q s), two FMAs, is RN(x / s)
/// (Markstein, 1990) as long as nothing over- or underflows. Scales far from 1 are moved
/// there together with x by a power of two. Quotients above 512 saturate whatever their
/// last bits are, and there x - q s may be NaN; the sign of a zero is lost in it.
Value mlac::mla_to_tile::divideToCodes(KernelBuilder &b, Value wide, Value scale) {
  constexpr double farLimit = 0x1p64, saturated = 512;
  auto isBeyond = [&](arith::CmpFPredicate predicate, Value tile, double limit) -> Value {
    return arith::CmpFOp::create(b, predicate, tile, b.like(tile, limit));
  };
  Value one = b.like(scale, 1);
  Value shift = b.select(isBeyond(arith::CmpFPredicate::OLT, scale, 1 / farLimit),
                         b.like(scale, farLimit), one);
  shift = b.select(isBeyond(arith::CmpFPredicate::OGT, scale, farLimit),
                   b.like(scale, 1 / farLimit), shift);
  Value divisor = b.mulf(scale, shift);
  auto type = cast<RankedTensorType>(wide.getType());
  auto spread = [&](Value ofRows) {
    return ofRows.getType() == type ? ofRows : b.broadcast(ofRows, type.getDimSize(1));
  };
  Value inverse = spread(b.divideExactly(one, divisor));
  Value x = b.mulf(wide, spread(shift));
  Value rough = b.mulf(x, inverse);
  Value minusDivisor = spread(b.subf(b.like(divisor, 0), divisor));
  Value exact = b.fma(b.fma(rough, minusDivisor, x), inverse, rough);
  Value isLarge = isBeyond(arith::CmpFPredicate::OGE, b.absf(rough), saturated);
  Value quotient = b.select(isLarge, rough, math::CopySignOp::create(b, exact, rough));
  return b.narrow(quotient, Float8E4M3FNType::get(b.getContext()));
}

Value mlac::mla_to_tile::toLayerCodes(KernelBuilder &b, Value wide, Type element, Value scale) {
  Value rounded = b.widen(b.narrow(wide, element));
  int64_t rows = cast<RankedTensorType>(wide.getType()).getDimSize(0);
  return divideToCodes(b, rounded, b.splat(scale, rows));
}
