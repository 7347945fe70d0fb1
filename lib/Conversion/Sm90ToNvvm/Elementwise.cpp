//===- Elementwise.cpp - arithmetic on fragments, element by element ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations of arith and math on tiles become one scalar operation for each
// register. Additions and products may be contracted to FMAs, which rounds once
// instead of twice; transcendental functions take the hardware's approximations:
//
//   math.exp2    ex2.approx.ftz     2^-22 relative; exp2(-inf) = 0
//   math.exp     exp2(x * log2(e))  the product's rounding adds |x| * 2^-24
//   math.log2    lg2.approx         2^-22 absolute near 1, relative elsewhere
//   math.log     log2(x) * ln(2)
//   math.rsqrt   rsqrt.approx       2^-22.9 relative
//   arith.divf   div.full           2 ulp, full range; correctly rounded where marked
//   to e4m3      cvt.rn.satfinite   of two neighbours at once, as back to f16, exact
//   math.sqrt    correctly rounded
//
// (Bounds from the PTX ISA's descriptions of the instructions.)
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numbers>

using namespace mlir;
using namespace mlac::sm90nvvm;

static Value callIntrinsic(ImplicitLocOpBuilder &b, StringRef name, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, b.getF32Type(), b.getStringAttr(name), operands)
      .getResult(0);
}

static Value multiply(ImplicitLocOpBuilder &b, Value value, float factor) {
  return arith::MulFOp::create(b, value, arith::ConstantOp::create(b, b.getF32FloatAttr(factor)));
}

/// The instruction for a function of f32 that has one; null otherwise.
static Value emitFunction(ImplicitLocOpBuilder &b, Operation *op, ValueRange operands) {
  constexpr StringLiteral exp2 = "llvm.nvvm.ex2.approx.ftz", log2 = "llvm.nvvm.lg2.approx.f";
  if (!operands[0].getType().isF32())
    return Value();
  if (isa<math::Exp2Op>(op))
    return callIntrinsic(b, exp2, operands);
  if (isa<math::ExpOp>(op))
    return callIntrinsic(b, exp2, multiply(b, operands[0], std::numbers::log2e_v<float>));
  if (isa<math::Log2Op>(op))
    return callIntrinsic(b, log2, operands);
  if (isa<math::LogOp>(op))
    return multiply(b, callIntrinsic(b, log2, operands), std::numbers::ln2_v<float>);
  if (isa<math::RsqrtOp>(op))
    return callIntrinsic(b, "llvm.nvvm.rsqrt.approx.f", operands);
  if (isa<arith::DivFOp>(op) && op->hasAttr(tile::kCorrectlyRoundedAttr))
    return LLVM::FDivOp::create(b, operands[0], operands[1]);
  if (isa<arith::DivFOp>(op))
    return callIntrinsic(b, "llvm.nvvm.div.full", operands);
  if (isa<math::SqrtOp>(op))
    return LLVM::SqrtOp::create(b, operands[0]);
  if (isa<math::AbsFOp>(op))
    return LLVM::FAbsOp::create(b, operands[0]);
  return Value();
}

/// Clones `op` with scalar operands and results.
static Value cloneScalar(ImplicitLocOpBuilder &b, Operation *op, ValueRange operands) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(getElementTypeOrSelf(op->getResult(0).getType()));
  state.addAttributes(op->getAttrs());
  Operation *scalar = b.create(state);
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(scalar)) {
    auto interface = cast<arith::ArithFastMathInterface>(scalar);
    auto flags = interface.getFastMathFlagsAttr().getValue() | arith::FastMathFlags::contract;
    scalar->setAttr(interface.getFastMathAttrName(),
                    arith::FastMathFlagsAttr::get(b.getContext(), flags));
  }
  return scalar->getResult(0);
}

/// Narrows two neighbours at once: one cvt.rn.bf16x2.f32.
static std::pair<Value, Value> truncatePair(ImplicitLocOpBuilder &b, Type type, Value first,
                                            Value second) {
  Value wide = LLVM::UndefOp::create(b, VectorType::get({2}, first.getType()));
  wide = LLVM::InsertElementOp::create(b, wide, first, constant32(b, 0));
  wide = LLVM::InsertElementOp::create(b, wide, second, constant32(b, 1));
  Value narrow = LLVM::FPTruncOp::create(b, VectorType::get({2}, type), wide);
  return {LLVM::ExtractElementOp::create(b, narrow, constant32(b, 0)),
          LLVM::ExtractElementOp::create(b, narrow, constant32(b, 1))};
}

/// f32 to e4m3, of which LLVM has bits only. The second operand is the low byte.
static std::pair<Value, Value> roundPairToE4m3(ImplicitLocOpBuilder &b, Value first, Value second) {
  Type pair = VectorType::get({2}, b.getI8Type());
  Value codes = NVVM::ConvertF32x2ToF8x2Op::create(
      b, pair, second, first, NVVM::FPRoundingMode::RN, NVVM::SaturationMode::SATFINITE,
      /*relu=*/false, Float8E4M3FNType::get(b.getContext()));
  return {LLVM::ExtractElementOp::create(b, codes, constant32(b, 0)),
          LLVM::ExtractElementOp::create(b, codes, constant32(b, 1))};
}

/// e4m3 to f32 by way of f16, which has all its values.
static std::pair<Value, Value> widenPairOfE4m3(ImplicitLocOpBuilder &b, Value first, Value second) {
  Value codes = LLVM::UndefOp::create(b, VectorType::get({2}, first.getType()));
  codes = LLVM::InsertElementOp::create(b, codes, first, constant32(b, 0));
  codes = LLVM::InsertElementOp::create(b, codes, second, constant32(b, 1));
  Value halves =
      NVVM::ConvertF8x2ToF16x2Op::create(b, VectorType::get({2}, b.getF16Type()), codes,
                                         /*relu=*/false, Float8E4M3FNType::get(b.getContext()));
  auto widen = [&](int64_t index) -> Value {
    Value half = LLVM::ExtractElementOp::create(b, halves, constant32(b, index));
    return LLVM::FPExtOp::create(b, b.getF32Type(), half);
  };
  return {widen(0), widen(1)};
}

/// Which conversion of two neighbours at once `op` is.
enum class PairKind { None, Truncate, RoundToE4m3, WidenE4m3 };
static PairKind getPairKind(Operation *op, size_t registers) {
  if (!isa<arith::TruncFOp, arith::ExtFOp>(op))
    return PairKind::None;
  Type from = getElementTypeOrSelf(op->getOperand(0)), to = getElementTypeOrSelf(op->getResult(0));
  if (isa<Float8E4M3FNType>(to))
    return PairKind::RoundToE4m3;
  if (isa<Float8E4M3FNType>(from))
    return PairKind::WidenE4m3;
  bool isNarrowing = from.isF32() && to.getIntOrFloatBitWidth() == 16;
  return isNarrowing && registers % 4 == 0 ? PairKind::Truncate : PairKind::None;
}

static std::pair<Value, Value> convertPair(ImplicitLocOpBuilder &b, PairKind kind, Type type,
                                           Value first, Value second) {
  if (kind == PairKind::RoundToE4m3)
    return roundPairToE4m3(b, first, second);
  if (kind == PairKind::WidenE4m3)
    return widenPairOfE4m3(b, first, second);
  return truncatePair(b, type, first, second);
}

/// e4m3 converts from and to f32, in tiles, whose threads hold pairs.
static LogicalResult verifyE4m3(Operation *op, size_t registers) {
  for (Type type :
       {getElementTypeOrSelf(op->getOperand(0)), getElementTypeOrSelf(op->getResult(0))})
    if (!isa<Float8E4M3FNType>(type) && !type.isF32())
      return op->emitOpError("expected a conversion between f8E4M3FN and f32 on sm_90a");
  if (registers % 2)
    return op->emitOpError("expected a tile, got a scalar");
  return success();
}

namespace {
class Elementwise : public ConversionPattern {
public:
  Elementwise(const TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                                ConversionPatternRewriter &rewriter) const override {
    if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() != 1)
      return rewriter.notifyMatchFailure(op, "expected an element-wise op with one result");
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op->getResult(0).getType(), types)))
      return rewriter.notifyMatchFailure(op, "expected a tile");
    ImplicitLocOpBuilder b(op->getLoc(), rewriter);
    // A scalar among tiles (the condition of a select) serves every element.
    auto getOperands = [&](size_t index) {
      return llvm::map_to_vector(
          operands, [&](ValueRange parts) { return parts.size() == 1 ? parts[0] : parts[index]; });
    };
    SmallVector<Value> results;
    PairKind pairs = getPairKind(op, types.size());
    bool isE4m3 = pairs == PairKind::RoundToE4m3 || pairs == PairKind::WidenE4m3;
    if (isE4m3 && failed(verifyE4m3(op, types.size())))
      return failure();
    for (size_t index = 0; index < types.size(); index += pairs == PairKind::None ? 1 : 2) {
      if (pairs != PairKind::None) {
        auto [first, second] =
            convertPair(b, pairs, types[0], operands[0][index], operands[0][index + 1]);
        results.append({first, second});
        continue;
      }
      SmallVector<Value> scalars = getOperands(index);
      Value function = emitFunction(b, op, scalars);
      results.push_back(function ? function : cloneScalar(b, op, scalars));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateElementwisePatterns(const TypeConverter &converter,
                                                 RewritePatternSet &patterns) {
  patterns.add<Elementwise>(converter, patterns.getContext());
}
