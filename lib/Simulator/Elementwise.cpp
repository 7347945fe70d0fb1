//===- Elementwise.cpp - arith and math on scalars and fragments ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scalar is a tensor of one element here. Floats are computed in f32 and
// rounded to their type, which is what the hardware does for 16-bit operands up
// to double rounding.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"

#include <cmath>

using namespace mlac::simulator;
using namespace mlir;

namespace {
/// An operand's elements: of a tile, or the one of a scalar.
struct Elements {
  const float *reals = nullptr;
  const int64_t *integers = nullptr;
  size_t stride = 1; ///< 0: the same element throughout
  float real = 0;
  int64_t integer = 0;
};

/// Evaluates one op on decoded operands.
class Evaluator {
public:
  Evaluator(Operation *op, ArrayRef<Elements> operands, size_t count, float *reals,
            int64_t *integers)
      : op(op), operands(operands), count(count), reals(reals), integers(integers) {
    Type type = getElementTypeOrSelf(op->getResult(0).getType());
    resultWidth = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
    resultType = type;
    Type source = getElementTypeOrSelf(op->getOperand(0).getType());
    sourceWidth = source.isIndex() ? 64 : source.getIntOrFloatBitWidth();
  }
  bool evaluate();

private:
  float realAt(unsigned operand, size_t i) const {
    return operands[operand].reals[i * operands[operand].stride];
  }
  int64_t intAt(unsigned operand, size_t i) const {
    return operands[operand].integers[i * operands[operand].stride];
  }
  uint64_t unsignedAt(unsigned operand, size_t i) const {
    return uint64_t(intAt(operand, i)) & llvm::maskTrailingOnes<uint64_t>(sourceWidth);
  }
  template <typename F> bool real(F f) {
    for (size_t i = 0; i < count; ++i)
      reals[i] = f(i);
    if (!resultType.isF32())
      for (size_t i = 0; i < count; ++i)
        reals[i] = roundTo(reals[i], resultType);
    return true;
  }
  template <typename F> bool unary(F f) {
    return real([&](size_t i) { return f(realAt(0, i)); });
  }
  template <typename F> bool binary(F f) {
    return real([&](size_t i) { return f(realAt(0, i), realAt(1, i)); });
  }
  template <typename F> bool integer(F f) {
    for (size_t i = 0; i < count; ++i) {
      int64_t value = f(i);
      integers[i] = resultWidth == 1 ? value & 1 : llvm::SignExtend64(value, resultWidth);
    }
    return true;
  }
  template <typename F> bool signedBinary(F f) {
    return integer([&](size_t i) { return f(intAt(0, i), intAt(1, i)); });
  }
  template <typename F> bool unsignedBinary(F f) {
    return integer([&](size_t i) { return f(unsignedAt(0, i), unsignedAt(1, i)); });
  }
  bool hasZeroDivisor() const {
    for (size_t i = 0; i < count; ++i)
      if (intAt(1, i) == 0)
        return true;
    return false;
  }
  bool evaluateFloat();
  bool evaluateMath();
  bool evaluateInteger();
  bool evaluateDivision();
  bool evaluateConversion();
  bool evaluateBitcast();
  bool evaluateCompare(arith::CmpFOp compare);
  bool evaluateCompare(arith::CmpIOp compare);
  bool evaluateSelect();

  Operation *op;
  ArrayRef<Elements> operands;
  size_t count;
  float *reals;
  int64_t *integers;
  Type resultType;
  unsigned resultWidth, sourceWidth;
};
} // namespace

static float propagateNaN(float a, float b, float other) {
  return std::isnan(a) ? a : std::isnan(b) ? b : other;
}
static float ignoreNaN(float a, float b, float other) {
  return std::isnan(a) ? b : std::isnan(b) ? a : other;
}

bool Evaluator::evaluateFloat() {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](arith::AddFOp) { return binary([](float a, float b) { return a + b; }); })
      .Case([&](arith::SubFOp) { return binary([](float a, float b) { return a - b; }); })
      .Case([&](arith::MulFOp) { return binary([](float a, float b) { return a * b; }); })
      .Case([&](arith::DivFOp) { return binary([](float a, float b) { return a / b; }); })
      .Case([&](arith::NegFOp) { return unary([](float a) { return -a; }); })
      .Case([&](arith::MaximumFOp) {
        return binary([](float a, float b) { return propagateNaN(a, b, std::max(a, b)); });
      })
      .Case([&](arith::MinimumFOp) {
        return binary([](float a, float b) { return propagateNaN(a, b, std::min(a, b)); });
      })
      .Case([&](arith::MaxNumFOp) {
        return binary([](float a, float b) { return ignoreNaN(a, b, std::max(a, b)); });
      })
      .Case([&](arith::MinNumFOp) {
        return binary([](float a, float b) { return ignoreNaN(a, b, std::min(a, b)); });
      })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](Operation *) { return unary([](float a) { return a; }); })
      .Default([](Operation *) { return false; });
}

bool Evaluator::evaluateMath() {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](math::ExpOp) { return unary([](float a) { return std::exp(a); }); })
      .Case([&](math::Exp2Op) { return unary([](float a) { return std::exp2(a); }); })
      .Case([&](math::LogOp) { return unary([](float a) { return std::log(a); }); })
      .Case([&](math::Log2Op) { return unary([](float a) { return std::log2(a); }); })
      .Case([&](math::SqrtOp) { return unary([](float a) { return std::sqrt(a); }); })
      .Case([&](math::RsqrtOp) { return unary([](float a) { return 1 / std::sqrt(a); }); })
      .Case([&](math::AbsFOp) { return unary([](float a) { return std::fabs(a); }); })
      .Case([&](math::CopySignOp) {
        return binary([](float a, float b) { return std::copysign(a, b); });
      })
      .Case([&](math::FloorOp) { return unary([](float a) { return std::floor(a); }); })
      .Case([&](math::CeilOp) { return unary([](float a) { return std::ceil(a); }); })
      .Case([&](math::TanhOp) { return unary([](float a) { return std::tanh(a); }); })
      .Case([&](math::SinOp) { return unary([](float a) { return std::sin(a); }); })
      .Case([&](math::CosOp) { return unary([](float a) { return std::cos(a); }); })
      .Case([&](math::ErfOp) { return unary([](float a) { return std::erf(a); }); })
      .Case([&](math::CopySignOp) {
        return binary([](float a, float b) { return std::copysign(a, b); });
      })
      .Case([&](math::FmaOp) {
        return real([&](size_t i) { return std::fma(realAt(0, i), realAt(1, i), realAt(2, i)); });
      })
      .Default([](Operation *) { return false; });
}

bool Evaluator::evaluateInteger() {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case(
          [&](arith::AddIOp) { return signedBinary([](uint64_t a, uint64_t b) { return a + b; }); })
      .Case(
          [&](arith::SubIOp) { return signedBinary([](uint64_t a, uint64_t b) { return a - b; }); })
      .Case(
          [&](arith::MulIOp) { return signedBinary([](uint64_t a, uint64_t b) { return a * b; }); })
      .Case([&](arith::AndIOp) { return signedBinary([](int64_t a, int64_t b) { return a & b; }); })
      .Case([&](arith::OrIOp) { return signedBinary([](int64_t a, int64_t b) { return a | b; }); })
      .Case([&](arith::XOrIOp) { return signedBinary([](int64_t a, int64_t b) { return a ^ b; }); })
      .Case([&](arith::ShLIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return b < 64 ? a << b : 0; });
      })
      .Case([&](arith::ShRUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return b < 64 ? a >> b : 0; });
      })
      .Case([&](arith::ShRSIOp) {
        return signedBinary([](int64_t a, int64_t b) { return a >> std::min<int64_t>(b, 63); });
      })
      .Case([&](arith::MaxSIOp) {
        return signedBinary([](int64_t a, int64_t b) { return std::max(a, b); });
      })
      .Case([&](arith::MinSIOp) {
        return signedBinary([](int64_t a, int64_t b) { return std::min(a, b); });
      })
      .Case([&](arith::MaxUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return std::max(a, b); });
      })
      .Case([&](arith::MinUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return std::min(a, b); });
      })
      .Default([&](Operation *) { return evaluateDivision(); });
}

bool Evaluator::evaluateDivision() {
  if (!isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
           arith::CeilDivUIOp, arith::FloorDivSIOp>(op) ||
      hasZeroDivisor())
    return false;
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case(
          [&](arith::DivSIOp) { return signedBinary([](int64_t a, int64_t b) { return a / b; }); })
      .Case(
          [&](arith::RemSIOp) { return signedBinary([](int64_t a, int64_t b) { return a % b; }); })
      .Case([&](arith::CeilDivSIOp) {
        return signedBinary(llvm::divideCeilSigned<int64_t, int64_t>);
      })
      .Case([&](arith::FloorDivSIOp) {
        return signedBinary(llvm::divideFloorSigned<int64_t, int64_t>);
      })
      .Case([&](arith::DivUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return a / b; });
      })
      .Case([&](arith::RemUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return a % b; });
      })
      .Case([&](arith::CeilDivUIOp) {
        return unsignedBinary([](uint64_t a, uint64_t b) { return a / b + (a % b != 0); });
      })
      .Default([](Operation *) { return false; });
}

/// Between f32 and i32; others are no numbers here.
bool Evaluator::evaluateBitcast() {
  Type source = getElementTypeOrSelf(op->getOperand(0).getType());
  if (source.isF32() && resultType.isInteger(32))
    return integer([&](size_t i) { return int64_t(llvm::bit_cast<int32_t>(realAt(0, i))); });
  if (source.isInteger(32) && resultType.isF32())
    return real([&](size_t i) { return llvm::bit_cast<float>(static_cast<int32_t>(intAt(0, i))); });
  return false;
}

bool Evaluator::evaluateConversion() {
  if (isa<arith::BitcastOp>(op))
    return evaluateBitcast();
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<arith::IndexCastOp, arith::TruncIOp>(
          [&](Operation *) { return integer([&](size_t i) { return intAt(0, i); }); })
      .Case([&](arith::ExtSIOp) {
        return integer([&](size_t i) { return sourceWidth == 1 ? -intAt(0, i) : intAt(0, i); });
      })
      .Case<arith::ExtUIOp, arith::IndexCastUIOp>(
          [&](Operation *) { return integer([&](size_t i) { return unsignedAt(0, i); }); })
      .Case([&](arith::SIToFPOp) { return real([&](size_t i) { return float(intAt(0, i)); }); })
      .Case(
          [&](arith::UIToFPOp) { return real([&](size_t i) { return float(unsignedAt(0, i)); }); })
      .Case(
          [&](arith::FPToSIOp) { return integer([&](size_t i) { return int64_t(realAt(0, i)); }); })
      .Default([](Operation *) { return false; });
}

bool Evaluator::evaluateCompare(arith::CmpFOp compare) {
  using Predicate = arith::CmpFPredicate;
  Predicate predicate = compare.getPredicate();
  return integer([&](size_t i) -> int64_t {
    float a = realAt(0, i), b = realAt(1, i);
    bool isUnordered = std::isnan(a) || std::isnan(b);
    switch (predicate) {
    case Predicate::AlwaysFalse:
      return false;
    case Predicate::AlwaysTrue:
      return true;
    case Predicate::ORD:
      return !isUnordered;
    case Predicate::UNO:
      return isUnordered;
    case Predicate::OEQ:
      return a == b;
    case Predicate::OGT:
      return a > b;
    case Predicate::OGE:
      return a >= b;
    case Predicate::OLT:
      return a < b;
    case Predicate::OLE:
      return a <= b;
    case Predicate::ONE:
      return !isUnordered && a != b;
    case Predicate::UEQ:
      return isUnordered || a == b;
    case Predicate::UGT:
      return isUnordered || a > b;
    case Predicate::UGE:
      return isUnordered || a >= b;
    case Predicate::ULT:
      return isUnordered || a < b;
    case Predicate::ULE:
      return isUnordered || a <= b;
    case Predicate::UNE:
      return isUnordered || a != b;
    }
    llvm_unreachable("all predicates are listed");
  });
}

bool Evaluator::evaluateCompare(arith::CmpIOp compare) {
  using Predicate = arith::CmpIPredicate;
  Predicate predicate = compare.getPredicate();
  return integer([&](size_t i) -> int64_t {
    int64_t a = intAt(0, i), b = intAt(1, i);
    uint64_t ua = unsignedAt(0, i), ub = unsignedAt(1, i);
    switch (predicate) {
    case Predicate::eq:
      return a == b;
    case Predicate::ne:
      return a != b;
    case Predicate::slt:
      return a < b;
    case Predicate::sle:
      return a <= b;
    case Predicate::sgt:
      return a > b;
    case Predicate::sge:
      return a >= b;
    case Predicate::ult:
      return ua < ub;
    case Predicate::ule:
      return ua <= ub;
    case Predicate::ugt:
      return ua > ub;
    case Predicate::uge:
      return ua >= ub;
    }
    llvm_unreachable("all predicates are listed");
  });
}

bool Evaluator::evaluateSelect() {
  if (isa<FloatType>(resultType))
    return real([&](size_t i) { return intAt(0, i) ? realAt(1, i) : realAt(2, i); });
  return integer([&](size_t i) { return intAt(0, i) ? intAt(1, i) : intAt(2, i); });
}

bool Evaluator::evaluate() {
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return evaluateCompare(compare);
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return evaluateCompare(compare);
  if (isa<arith::SelectOp>(op))
    return evaluateSelect();
  return evaluateFloat() || evaluateInteger() || evaluateConversion() || evaluateMath();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// A choice between views, stages and other things that are no numbers.
static bool selectsNoNumber(Operation *op) {
  if (!isa<arith::SelectOp>(op))
    return false;
  Type type = op->getResult(0).getType();
  return isa<MemRefType>(type) ||
         !isa<FloatType, IntegerType, IndexType>(getElementTypeOrSelf(type));
}

Step Machine::runElementwise(Warpgroup &warpgroup, Operation *op) {
  if (selectsNoNumber(op)) {
    bool first = getInt(warpgroup, op->getOperand(0)) != 0;
    set(warpgroup, op->getResult(0), get(warpgroup, op->getOperand(first ? 1 : 2)));
    return Step::Advanced;
  }
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return fail(Defect::Unsupported, op, "is not known to the simulator");
  SmallVector<Elements, 3> operands(op->getNumOperands());
  bool isConstant = true;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    Elements &elements = operands[index];
    if (isa<RankedTensorType>(operand.getType())) {
      Tile *tile = use(warpgroup, op, operand);
      if (!tile)
        return Step::Failed;
      elements.reals = tile->reals.data();
      elements.integers = tile->integers.data();
      isConstant &= tile->isConstant;
      continue;
    }
    const Value &value = get(warpgroup, operand);
    elements.stride = 0;
    if (auto *real = std::get_if<float>(&value))
      elements.real = *real;
    else if (auto *integer = std::get_if<int64_t>(&value))
      elements.integer = *integer;
    else
      return fail(Defect::Unsupported, op, "on such values is not known to the simulator");
    elements.reals = &elements.real;
    elements.integers = &elements.integer;
  }
  mlir::Value result = op->getResult(0);
  float real = 0;
  int64_t integer = 0;
  std::shared_ptr<Tile> tile;
  size_t count = 1;
  if (auto type = dyn_cast<RankedTensorType>(result.getType())) {
    tile = makeTile(warpgroup, type);
    tile->isConstant = isConstant;
    count = type.getNumElements();
  }
  Evaluator evaluator(op, operands, count, tile ? tile->reals.data() : &real,
                      tile ? tile->integers.data() : &integer);
  if (!evaluator.evaluate())
    return fail(Defect::Unsupported, op, "is not known to the simulator, or divides by zero");
  if (tile)
    set(warpgroup, result, TileRef{tile});
  else if (isa<FloatType>(result.getType()))
    set(warpgroup, result, real);
  else
    set(warpgroup, result, integer);
  return Step::Advanced;
}
