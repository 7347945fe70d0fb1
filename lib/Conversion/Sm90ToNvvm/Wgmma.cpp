//===- Wgmma.cpp - products of shared tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One `sm90.wgmma` becomes K/16 instructions (K/32 of codes: 32 bytes of a row, too) on the
// same accumulator registers.
// Descriptors and steps are those of Layout.h. The accumulator travels as one
// struct, the form in which neither LLVM nor the assembler copies its registers.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

namespace {
/// A descriptor as a low word, computed in 32 bits, and a constant high word. The
/// 64-bit value is formed where it is used: else the assembler adds in 64 bits.
struct Descriptor {
  Int low;
  uint32_t high;

  /// Of the tile `tile` (as !sm90.smem is represented), with the constant bits of
  /// `constants`. Shared addresses end well below 2^18, so that no sum leaves the
  /// address field.
  static Descriptor get(ImplicitLocOpBuilder &b, Value tile, uint64_t constants) {
    int64_t base = kSharedBase / sm90::kDescriptorUnit + (constants & 0xFFFFFFFF);
    return {Int(b, tile) + base, static_cast<uint32_t>(constants >> 32)};
  }
  Descriptor advance(int64_t bytes) const { return {low + bytes / sm90::kDescriptorUnit, high}; }
  Value form(ImplicitLocOpBuilder &b) const {
    Value wide = arith::ExtUIOp::create(b, b.getI64Type(), low);
    return arith::OrIOp::create(b, wide, constant64(b, static_cast<int64_t>(high) << 32));
  }
};

/// The side of a product: where step `step` along K starts.
struct Operand {
  Descriptor start;
  int64_t panelBytes;
  bool isKMajor;
  Value getStep(ImplicitLocOpBuilder &b, int64_t step) const {
    int64_t bytes =
        isKMajor ? sm90::getKMajorStepBytes(step, panelBytes) : sm90::getMNMajorStepBytes(step);
    return start.advance(bytes).form(b);
  }
};
} // namespace

static Operand getOperand(ImplicitLocOpBuilder &b, sm90::SmemType type, Value tile, bool isKMajor) {
  uint64_t constants =
      isKMajor ? sm90::kKMajorDescriptor : sm90::getMNMajorDescriptor(type.getPanelBytes());
  return {Descriptor::get(b, tile, constants), type.getPanelBytes(), isKMajor};
}

static NVVM::WGMMATypes getInputs(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return NVVM::WGMMATypes::e4m3;
  return element.isBF16() ? NVVM::WGMMATypes::bf16 : NVVM::WGMMATypes::f16;
}

static bool isZero(Value value) { return matchPattern(value, m_AnyZeroFloat()); }

/// Pairs of neighbouring 16-bit elements as i32.
static SmallVector<Value> packPairs(ImplicitLocOpBuilder &b, ValueRange elements) {
  SmallVector<Value> pairs;
  for (size_t index = 0; index < elements.size(); index += 2)
    pairs.push_back(packPair(b, elements[index], elements[index + 1]));
  return pairs;
}

namespace {
struct Wgmma : public KernelPattern<sm90::WgmmaOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(sm90::WgmmaOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    Value partTile = Int(b, adaptor.getRhs()[0]) + Int(b, getPartUnits(b, op));
    Operand right = getOperand(b, op.getRhs().getType(), partTile, op.getTransposeRhs());
    // An accumulator of zeros is not read: the first instruction overwrites it.
    bool overwrite = isZero(op.getAcc());
    if (isa<RankedTensorType>(op.getLhs().getType())) {
      Value accumulator = pack(b, adaptor.getAcc(), overwrite);
      SmallVector<Value> left = packPairs(b, adaptor.getLhs());
      for (int64_t step = 0; step < op.getDepth() / sm90::kWgmmaDepth; ++step)
        accumulator =
            emitRegisterWgmma(b, {accumulator, llvm::to_vector(ArrayRef(left).slice(4 * step, 4)),
                                  right.getStep(b, step), getPartColumns(type),
                                  op.getRhs().getType().getElementType().isBF16(),
                                  !op.getTransposeRhs(), overwrite && step == 0});
      rewriter.replaceOpWithMultiple(op, {unpack(b, accumulator, getRegisterCount(type))});
      return success();
    }
    Operand left = getOperand(b, cast<sm90::SmemType>(op.getLhs().getType()), adaptor.getLhs()[0],
                              !op.getTransposeLhs());
    int64_t depth = sm90::getWgmmaDepth(op.getRhs().getType().getElementType());
    int64_t pieces = countPieces(op), columns = getPartColumns(type) / pieces;
    SmallVector<Value> registers;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      int64_t count = getRegisterCount(type) / pieces;
      Value part = pack(b, adaptor.getAcc().slice(piece * count, count), overwrite);
      Operand columnsOf = right;
      columnsOf.start = right.start.advance(piece * getColumnBytes(op, columns));
      for (int64_t step = 0; step < op.getDepth() / depth; ++step)
        part = emitInstruction(b, op, part, left.getStep(b, step), columnsOf.getStep(b, step),
                               columns, overwrite && step == 0);
      llvm::append_range(registers, unpack(b, part, count));
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }

private:
  /// Instructions that share the columns. ptxas holds an instruction's accumulators against the
  /// registers of the launch, whatever the role has taken since, and asks for as many more as 26
  /// for the rest (C7602: 154 for 256 columns; ptxas 13.0).
  int64_t countPieces(sm90::WgmmaOp op) const {
    constexpr int64_t others = 26;
    int64_t launched =
        llvm::alignDown(sm90::kRegisterFile / getLaunchedThreads(), sm90::kRegisterGranule);
    int64_t columns = getPartColumns(cast<RankedTensorType>(op.getType())), pieces = 1;
    while (columns / pieces / 2 + others > launched && columns % (2 * pieces) == 0)
      pieces *= 2;
    return pieces;
  }
  /// Of so many columns of rhs.
  static int64_t getColumnBytes(sm90::WgmmaOp op, int64_t columns) {
    return op.getTransposeRhs()
               ? columns * sm90::kPanelRowBytes
               : columns / sm90::kPanelColumns * op.getRhs().getType().getPanelBytes();
  }
  /// From the start of rhs to this warpgroup's columns of the product.
  Value getPartUnits(ImplicitLocOpBuilder &b, sm90::WgmmaOp op) const {
    auto type = cast<RankedTensorType>(op.getType());
    int64_t split = sm90::getColumnSplit(type), columns = getPartColumns(type);
    return getKernel(op).getPart(b, split) * (getColumnBytes(op, columns) / sm90::kDescriptorUnit);
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
    Type element = op.getRhs().getType().getElementType();
    NVVM::WGMMATypes inputs = getInputs(element);
    auto shape =
        NVVM::MMAShapeAttr::get(context, sm90::kTileRows, columns, sm90::getWgmmaDepth(element));
    return NVVM::WgmmaMmaAsyncOp::create(
        b, accumulator.getType(), accumulator, left, right, shape,
        NVVM::WGMMATypesAttr::get(context, inputs), NVVM::WGMMATypesAttr::get(context, inputs),
        NVVM::WGMMATypesAttr::get(context, NVVM::WGMMATypes::f32),
        NVVM::WGMMAScaleOutAttr::get(context, overwrite ? NVVM::WGMMAScaleOut::zero
                                                        : NVVM::WGMMAScaleOut::one),
        NVVM::WGMMAScaleInAttr::get(context, NVVM::WGMMAScaleIn::one),
        NVVM::WGMMAScaleInAttr::get(context, NVVM::WGMMAScaleIn::one),
        // "col": the rows of lhs are the contraction (MN-major).
        NVVM::MMALayoutAttr::get(context, op.getTransposeLhs() ? NVVM::MMALayout::col
                                                               : NVVM::MMALayout::row),
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
