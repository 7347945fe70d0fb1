//===- Wgmma.cpp - products of shared tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One `sm90.wgmma` becomes K/16 instructions on the same accumulator registers.
// Descriptors and steps are those of Layout.h. The accumulator travels as one
// struct, the form in which neither LLVM nor the assembler copies its registers.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

/// The 64-bit descriptor of the tile at `address` moved by `bytes` (i32).
static Int getDescriptor(ImplicitLocOpBuilder &b, Value address, Value bytes, uint64_t constants) {
  Int start = Int(b, LLVM::PtrToIntOp::create(b, b.getI32Type(), address)) + Int(b, bytes);
  Value masked = arith::AndIOp::create(b, start, constant32(b, sm90::kDescriptorAddressMask));
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), Int(b, masked) / sm90::kDescriptorUnit);
  return Int(b, arith::OrIOp::create(b, wide, constant64(b, constants)));
}

/// The same descriptor `bytes` further. Shared addresses end well below the
/// field's 2^18, so that the sum stays in its field.
static Value advance(Int descriptor, int64_t bytes) {
  return descriptor + bytes / sm90::kDescriptorUnit;
}

static bool isZero(Value value) { return matchPattern(value, m_AnyZeroFloat()); }

namespace {
struct Wgmma : public KernelPattern<sm90::WgmmaOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(sm90::WgmmaOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto lhs = cast<sm90::SmemType>(op.getLhs().getType());
    sm90::SmemType rhs = op.getRhs().getType();
    auto type = cast<RankedTensorType>(op.getType());
    int64_t columns = getPartColumns(type), steps = lhs.getColumns() / sm90::kWgmmaDepth;
    bool isKMajor = op.getTransposeRhs();

    Int left = getDescriptor(b, adaptor.getLhs()[0], constant32(b, 0), sm90::kKMajorDescriptor);
    Int right = getDescriptor(b, adaptor.getRhs()[0], getPartBytes(b, op),
                              isKMajor ? sm90::kKMajorDescriptor
                                       : sm90::getMNMajorDescriptor(rhs.getPanelBytes()));
    // An accumulator of zeros is not read: the first instruction overwrites it.
    bool overwrite = isZero(op.getAcc());
    Value accumulator = pack(b, adaptor.getAcc(), overwrite);
    for (int64_t step = 0; step < steps; ++step) {
      int64_t leftBytes = sm90::getKMajorStepBytes(step, lhs.getPanelBytes());
      int64_t rightBytes = isKMajor ? sm90::getKMajorStepBytes(step, rhs.getPanelBytes())
                                    : sm90::getMNMajorStepBytes(step);
      accumulator = emitInstruction(b, op, accumulator, advance(left, leftBytes),
                                    advance(right, rightBytes), columns, overwrite && step == 0);
    }
    rewriter.replaceOpWithMultiple(op, {unpack(b, accumulator, getRegisterCount(type))});
    return success();
  }

private:
  /// Bytes from the start of rhs to this warpgroup's columns of the product.
  Value getPartBytes(ImplicitLocOpBuilder &b, sm90::WgmmaOp op) const {
    auto type = cast<RankedTensorType>(op.getType());
    int64_t split = sm90::getColumnSplit(type), columns = getPartColumns(type);
    int64_t bytes = op.getTransposeRhs()
                        ? columns * sm90::kPanelRowBytes
                        : columns / sm90::kPanelColumns * op.getRhs().getType().getPanelBytes();
    return kernel.getPart(b, split) * bytes;
  }

  static Value pack(ImplicitLocOpBuilder &b, ValueRange registers, bool undefined) {
    SmallVector<Type> types(registers.getTypes());
    Value result =
        LLVM::UndefOp::create(b, LLVM::LLVMStructType::getLiteral(b.getContext(), types));
    if (!undefined)
      for (auto [index, value] : llvm::enumerate(registers))
        result = LLVM::InsertValueOp::create(b, result, value, static_cast<int64_t>(index));
    return result;
  }

  static SmallVector<Value> unpack(ImplicitLocOpBuilder &b, Value accumulator, int64_t count) {
    SmallVector<Value> registers;
    for (int64_t index = 0; index < count; ++index)
      registers.push_back(LLVM::ExtractValueOp::create(b, accumulator, index));
    return registers;
  }

  static Value emitInstruction(ImplicitLocOpBuilder &b, sm90::WgmmaOp op, Value accumulator,
                               Value left, Value right, int64_t columns, bool overwrite) {
    MLIRContext *context = b.getContext();
    auto shape = NVVM::MMAShapeAttr::get(context, sm90::kTileRows, columns, sm90::kWgmmaDepth);
    auto inputs = op.getRhs().getType().getElementType().isBF16() ? NVVM::WGMMATypes::bf16
                                                                  : NVVM::WGMMATypes::f16;
    return NVVM::WgmmaMmaAsyncOp::create(
        b, accumulator.getType(), accumulator, left, right, shape,
        NVVM::WGMMATypesAttr::get(context, inputs), NVVM::WGMMATypesAttr::get(context, inputs),
        NVVM::WGMMATypesAttr::get(context, NVVM::WGMMATypes::f32),
        NVVM::WGMMAScaleOutAttr::get(context, overwrite ? NVVM::WGMMAScaleOut::zero
                                                        : NVVM::WGMMAScaleOut::one),
        NVVM::WGMMAScaleInAttr::get(context, NVVM::WGMMAScaleIn::one),
        NVVM::WGMMAScaleInAttr::get(context, NVVM::WGMMAScaleIn::one),
        NVVM::MMALayoutAttr::get(context, NVVM::MMALayout::row),
        // "col": the rows of rhs are the columns of the product (K-major).
        NVVM::MMALayoutAttr::get(context, op.getTransposeRhs() ? NVVM::MMALayout::col
                                                               : NVVM::MMALayout::row),
        NVVM::MMAIntOverflowAttr());
  }
};

struct WgmmaFence : public OpConversionPattern<sm90::WgmmaFenceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::WgmmaFenceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::WgmmaFenceAlignedOp>(op);
    return success();
  }
};

struct WgmmaCommit : public OpConversionPattern<sm90::WgmmaCommitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::WgmmaCommitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::WgmmaGroupSyncAlignedOp>(op);
    return success();
  }
};

struct WgmmaWait : public OpConversionPattern<sm90::WgmmaWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::WgmmaWaitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> registers;
    for (ValueRange accumulator : adaptor.getAccumulators())
      llvm::append_range(registers, accumulator);
    SmallVector<Value> ready = emitTiedWgmmaWait(b, op.getPending(), registers);
    SmallVector<ValueRange> results;
    ArrayRef<Value> rest(ready);
    for (ValueRange accumulator : adaptor.getAccumulators()) {
      results.push_back(rest.take_front(accumulator.size()));
      rest = rest.drop_front(accumulator.size());
    }
    rewriter.replaceOpWithMultiple(op, results);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateWgmmaPatterns(const TypeConverter &converter,
                                           RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<Wgmma>(converter, patterns.getContext(), kernel);
  patterns.add<WgmmaFence, WgmmaCommit, WgmmaWait>(converter, patterns.getContext());
}
