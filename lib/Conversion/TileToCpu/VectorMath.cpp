//===- VectorMath.cpp - elementary functions on chunks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// exp2(x) = 2^n 2^f with n = round(x), |f| <= 1/2, and 2^f = exp(f ln 2) by its
// Taylor series; exp reduces by ln 2 in two parts (Cody and Waite). log(x) =
// n ln 2 + 2 artanh(s) with x = 2^n m, m in [sqrt(1/2), sqrt(2)), s = (m-1)/(m+1).
// e4m3 is made and read by integer arithmetic on the bits, without a table.
// Comparisons are ordered so that NaN is selected and reaches the result.
//
//===----------------------------------------------------------------------===//

#include "VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlac::tile_to_cpu;

namespace {

constexpr int32_t kMantissaBits = 23;
constexpr int32_t kExponentBias = 127;
constexpr double kLn2 = 0.693147180559945309417;
constexpr double kLog2e = 1.442695040888963407360;

/// f32 and i32 arithmetic on values of one shape.
class Lanes {
public:
  Lanes(Emitter &e, Type shape) : e(e), floats(shape) {
    Type i32 = e.getI32Type();
    auto vector = dyn_cast<VectorType>(shape);
    ints = vector ? Type(vector.clone(i32)) : i32;
  }

  Value f(double value) { return constant(floats, e.getF32FloatAttr(static_cast<float>(value))); }
  Value i(int32_t value) { return constant(ints, e.getI32IntegerAttr(value)); }
  Value add(Value a, Value b) { return arith::AddFOp::create(e, e.loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(e, e.loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(e, e.loc, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(e, e.loc, a, b); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(e, e.loc, a, b, c); }
  Value addi(Value a, Value b) { return arith::AddIOp::create(e, e.loc, a, b); }
  Value subi(Value a, Value b) { return arith::SubIOp::create(e, e.loc, a, b); }
  Value andi(Value a, Value b) { return arith::AndIOp::create(e, e.loc, a, b); }
  Value ori(Value a, Value b) { return arith::OrIOp::create(e, e.loc, a, b); }
  Value shl(Value a, int32_t bits) { return arith::ShLIOp::create(e, e.loc, a, i(bits)); }
  Value shr(Value a, int32_t bits) { return arith::ShRUIOp::create(e, e.loc, a, i(bits)); }
  Value sar(Value a, int32_t bits) { return arith::ShRSIOp::create(e, e.loc, a, i(bits)); }
  Value toFloat(Value a) { return arith::SIToFPOp::create(e, e.loc, floats, a); }
  Value asInt(Value a) { return arith::BitcastOp::create(e, e.loc, ints, a); }
  Value asFloat(Value a) { return arith::BitcastOp::create(e, e.loc, floats, a); }
  Value choose(arith::CmpFPredicate predicate, Value a, Value b, Value yes, Value no) {
    Value condition = arith::CmpFOp::create(e, e.loc, predicate, a, b);
    return arith::SelectOp::create(e, e.loc, condition, yes, no);
  }

  Emitter &e;
  Type floats, ints;

private:
  Value constant(Type type, TypedAttr scalar) {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(e, e.loc, DenseElementsAttr::get(vector, Attribute(scalar)));
    return arith::ConstantOp::create(e, e.loc, scalar);
  }
};

} // namespace

/// The vector or scalar type like `type` with that element.
static Type likeWith(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(element)) : element;
}

/// Adding 1.5 * 2^23 leaves round(x) in the low mantissa bits, for |x| < 2^22.
static constexpr double kRoundingShift = 12582912.0;

namespace {
struct Rounded {
  Value asFloat, asInt;
};
} // namespace

static Rounded roundToInteger(Lanes &v, Value x) {
  Value shifted = v.add(x, v.f(kRoundingShift));
  Value rounded = v.sub(shifted, v.f(kRoundingShift));
  Value integer = v.subi(v.asInt(shifted), v.asInt(v.f(kRoundingShift)));
  return {rounded, integer};
}

/// sum_k r^k / k!. The first term left out is below 6e-9 for |r| <= ln(2) / 2.
static Value expTaylor(Lanes &v, Value r) {
  constexpr int kDegree = 7;
  double inverseFactorial[kDegree + 1] = {1.0};
  for (int k = 1; k <= kDegree; ++k)
    inverseFactorial[k] = inverseFactorial[k - 1] / k;
  Value sum = v.f(inverseFactorial[kDegree]);
  for (int k = kDegree - 1; k >= 0; --k)
    sum = v.fma(sum, r, v.f(inverseFactorial[k]));
  return sum;
}

/// p 2^n. Two factors, each a normal number, keep subnormal results and those
/// next to overflow right.
static Value scaleByPowerOf2(Lanes &v, Value p, Value n) {
  Value half = v.sar(n, 1);
  Value rest = v.subi(n, half);
  auto power = [&](Value exponent) {
    return v.asFloat(v.shl(v.addi(exponent, v.i(kExponentBias)), kMantissaBits));
  };
  return v.mul(v.mul(p, power(half)), power(rest));
}

/// Beyond these exponents the result is 0 or +inf anyway: the smallest
/// subnormal is 2^-149, the largest finite number is below 2^128.
static constexpr double kLowestExponent = -152.0, kHighestExponent = 129.0;

static Value clampExponent(Lanes &v, Value x, double unit) {
  Value low = v.f(kLowestExponent * unit), high = v.f(kHighestExponent * unit);
  Value raised = v.choose(arith::CmpFPredicate::OLT, x, low, low, x);
  return v.choose(arith::CmpFPredicate::OGT, raised, high, high, raised);
}

Value mlac::tile_to_cpu::emitExp2(Emitter &e, Value x) {
  Lanes v(e, x.getType());
  Value clamped = clampExponent(v, x, 1.0);
  Rounded n = roundToInteger(v, clamped);
  Value fraction = v.sub(clamped, n.asFloat);
  return scaleByPowerOf2(v, expTaylor(v, v.mul(fraction, v.f(kLn2))), n.asInt);
}

Value mlac::tile_to_cpu::emitExp(Emitter &e, Value x) {
  // ln 2 = high + low; high has 9 significant bits, so n * high is exact.
  constexpr double kLn2High = 0.693359375;
  Lanes v(e, x.getType());
  Value clamped = clampExponent(v, x, kLn2);
  Rounded n = roundToInteger(v, v.mul(clamped, v.f(kLog2e)));
  Value reduced = v.fma(n.asFloat, v.f(-kLn2High), clamped);
  reduced = v.fma(n.asFloat, v.f(kLn2High - kLn2), reduced);
  return scaleByPowerOf2(v, expTaylor(v, reduced), n.asInt);
}

namespace {
struct LogParts {
  Value exponent, logMantissa; // log x = exponent ln 2 + logMantissa
};
} // namespace

static LogParts splitLog(Lanes &v, Value x) {
  constexpr double kSmallestNormal = 0x1p-126, kRaise = 0x1p23;
  Value raised =
      v.choose(arith::CmpFPredicate::OLT, x, v.f(kSmallestNormal), v.mul(x, v.f(kRaise)), x);
  Value correction =
      v.choose(arith::CmpFPredicate::OLT, x, v.f(kSmallestNormal), v.f(kMantissaBits), v.f(0.0));
  // Subtracting the bits of sqrt(1/2) puts the mantissa's cut there.
  Value cut = v.asInt(v.f(0.70710678118654752440));
  Value shifted = v.subi(v.asInt(raised), cut);
  Value exponent = v.sar(shifted, kMantissaBits);
  Value mantissa = v.asFloat(v.subi(v.asInt(raised), v.shl(exponent, kMantissaBits)));

  // 2 artanh(s) = 2 s sum_k s^2k / (2k + 1); the first term left out is below
  // 3e-9 of the sum for |s| <= 0.1716.
  constexpr int kTerms = 4;
  Value s = v.div(v.sub(mantissa, v.f(1.0)), v.add(mantissa, v.f(1.0)));
  Value square = v.mul(s, s);
  Value series = v.f(1.0 / (2 * kTerms + 1));
  for (int k = kTerms - 1; k >= 1; --k)
    series = v.fma(series, square, v.f(1.0 / (2 * k + 1)));
  Value twice = v.add(s, s);
  Value logMantissa = v.fma(v.mul(twice, square), series, twice);
  return {v.sub(v.toFloat(exponent), correction), logMantissa};
}

/// Replaces what the formula does not give: x = 0, x < 0, +inf and NaN.
static Value fixLogEdges(Lanes &v, Value x, Value result) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value fixed = v.choose(arith::CmpFPredicate::OEQ, x, v.f(0.0), v.f(-kInfinity), result);
  fixed = v.choose(arith::CmpFPredicate::OEQ, x, v.f(kInfinity), x, fixed);
  return v.choose(arith::CmpFPredicate::UGE, x, v.f(0.0), fixed,
                  v.f(std::numeric_limits<double>::quiet_NaN()));
}

/// UGE above lets NaN pass, but its bits went through integer arithmetic.
static Value keepNan(Lanes &v, Value x, Value result) {
  return v.choose(arith::CmpFPredicate::UNO, x, x, x, result);
}

Value mlac::tile_to_cpu::emitLog(Emitter &e, Value x) {
  Lanes v(e, x.getType());
  LogParts parts = splitLog(v, x);
  Value result = v.fma(parts.exponent, v.f(kLn2), parts.logMantissa);
  return keepNan(v, x, fixLogEdges(v, x, result));
}

Value mlac::tile_to_cpu::emitLog2(Emitter &e, Value x) {
  Lanes v(e, x.getType());
  LogParts parts = splitLog(v, x);
  Value result = v.fma(parts.logMantissa, v.f(kLog2e), parts.exponent);
  return keepNan(v, x, fixLogEdges(v, x, result));
}

Value mlac::tile_to_cpu::emitRoundToBf16(Emitter &e, Value x) {
  constexpr int32_t kDroppedBits = 16, kHalfMinusOne = 0x7fff, kQuietBit = 0x00400000;
  Lanes v(e, x.getType());
  Value bits = v.asInt(x);
  Value lowestKept = v.andi(v.shr(bits, kDroppedBits), v.i(1));
  Value rounded = v.addi(v.addi(bits, v.i(kHalfMinusOne)), lowestKept);
  Value isNan = arith::CmpFOp::create(e, e.loc, arith::CmpFPredicate::UNO, x, x);
  Value kept = arith::SelectOp::create(e, e.loc, isNan, v.ori(bits, v.i(kQuietBit)), rounded);
  Type narrow = likeWith(x.getType(), e.getI16Type());
  Value high = arith::TruncIOp::create(e, e.loc, narrow, v.shr(kept, kDroppedBits));
  return arith::BitcastOp::create(e, e.loc, likeWith(x.getType(), e.getBF16Type()), high);
}

static Value emitWidenBf16(Emitter &e, Value x) {
  constexpr int32_t kDroppedBits = 16;
  Lanes v(e, likeWith(x.getType(), e.getF32Type()));
  Value bits = arith::BitcastOp::create(e, e.loc, likeWith(x.getType(), e.getI16Type()), x);
  Value high = arith::ExtUIOp::create(e, e.loc, likeWith(x.getType(), e.getI32Type()), bits);
  return v.asFloat(v.shl(high, kDroppedBits));
}

Value mlac::tile_to_cpu::emitWiden(Emitter &e, Value x) {
  Type element = getElementTypeOrSelf(x);
  if (isa<Float8E4M3FNType>(element))
    return emitWidenE4m3(e, x);
  if (element.isBF16())
    return emitWidenBf16(e, x);
  Type wide = likeWith(x.getType(), e.getF32Type());
  return element.isF32() ? x : Value(arith::ExtFOp::create(e, e.loc, wide, x));
}

//===----------------------------------------------------------------------===//
// e4m3: bias 7, 3 bits of mantissa, subnormals in units of 2^-9, NaN 0x7F
//===----------------------------------------------------------------------===//

static constexpr int32_t kE4m3Bits = 3, kE4m3Bias = 7, kE4m3Nan = 0x7f, kE4m3Max = 0x7e;
static constexpr int32_t kE4m3Dropped = kMantissaBits - kE4m3Bits;
static constexpr double kE4m3Unit = 0x1p-9;
/// Moves exponents between the biases, in place.
static constexpr int32_t kE4m3Rebias = kExponentBias - kE4m3Bias;

Value mlac::tile_to_cpu::emitRoundToE4m3(Emitter &e, Value x) {
  constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000, kSign = 0x80;
  Lanes v(e, x.getType());
  Value bits = v.asInt(x), magnitude = v.andi(bits, v.i(kMagnitude));
  Value isOdd = v.andi(v.shr(magnitude, kE4m3Dropped), v.i(1));
  Value half = v.i((1 << (kE4m3Dropped - 1)) - 1);
  Value normal = v.subi(v.shr(v.addi(v.addi(magnitude, half), isOdd), kE4m3Dropped),
                        v.i(kE4m3Rebias << kE4m3Bits));
  // Added to 2^23 units, the number of units is in the mantissa, rounded by the FPU.
  Value units = v.f(kE4m3Unit * 0x1p23);
  Value subnormal = v.subi(v.asInt(v.add(v.asFloat(magnitude), units)), v.asInt(units));
  auto below = [&](Value a, int32_t b) -> Value {
    return arith::CmpIOp::create(e, e.loc, arith::CmpIPredicate::slt, a, v.i(b));
  };
  Value code = e.select(below(magnitude, (kE4m3Rebias + 1) << kMantissaBits), subnormal, normal);
  code = arith::MinSIOp::create(e, e.loc, code, v.i(kE4m3Max));
  code = v.ori(code, v.andi(v.shr(bits, 24), v.i(kSign)));
  code = e.select(below(magnitude, kInfinity + 1), code, v.i(kE4m3Nan));
  Value byte = arith::TruncIOp::create(e, e.loc, likeWith(x.getType(), e.getI8Type()), code);
  Type type = Float8E4M3FNType::get(e.getContext());
  return arith::BitcastOp::create(e, e.loc, likeWith(x.getType(), type), byte);
}

Value mlac::tile_to_cpu::emitWidenE4m3(Emitter &e, Value x) {
  constexpr int32_t kMagnitude = 0x7f, kSign = 0x80, kSignShift = 24, kQuietNan = 0x7fc00000;
  Lanes v(e, likeWith(x.getType(), e.getF32Type()));
  Value byte = arith::BitcastOp::create(e, e.loc, likeWith(x.getType(), e.getI8Type()), x);
  Value code = arith::ExtUIOp::create(e, e.loc, v.ints, byte);
  Value magnitude = v.andi(code, v.i(kMagnitude));
  auto equalsOrBelow = [&](Value a, int32_t b) -> Value {
    return arith::CmpIOp::create(e, e.loc, arith::CmpIPredicate::sle, a, v.i(b));
  };
  Value normal = v.addi(v.shl(magnitude, kE4m3Dropped), v.i(kE4m3Rebias << kMantissaBits));
  Value subnormal = v.asInt(v.mul(v.toFloat(magnitude), v.f(kE4m3Unit)));
  Value wide = e.select(equalsOrBelow(magnitude, (1 << kE4m3Bits) - 1), subnormal, normal);
  wide = e.select(equalsOrBelow(magnitude, kE4m3Max), wide, v.i(kQuietNan));
  return v.asFloat(v.ori(wide, v.shl(v.andi(code, v.i(kSign)), kSignShift)));
}
