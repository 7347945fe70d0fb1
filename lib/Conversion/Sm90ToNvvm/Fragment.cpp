//===- Fragment.cpp - fragments within registers and shared memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

//===----------------------------------------------------------------------===//
// Making fragments
//===----------------------------------------------------------------------===//

namespace {
struct Splat : public OpConversionPattern<sm90::SplatOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::SplatOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    int64_t count = getRegisterCount(cast<RankedTensorType>(op.getType()));
    rewriter.replaceOpWithMultiple(op, {SmallVector<Value>(count, adaptor.getSource()[0])});
    return success();
  }
};

struct Constant : public OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
    if (!type || !splat)
      return rewriter.notifyMatchFailure(op, "expected a tile with one value in every element");
    Value element =
        arith::ConstantOp::create(rewriter, op.getLoc(), splat.getSplatValue<TypedAttr>());
    rewriter.replaceOpWithMultiple(op, {SmallVector<Value>(getRegisterCount(type), element)});
    return success();
  }
};

/// Register 4j + 2h + i takes the element of half h.
struct Broadcast : public OpConversionPattern<sm90::BroadcastOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::BroadcastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> registers(getRegisterCount(cast<RankedTensorType>(op.getType())));
    for (auto [index, value] : llvm::enumerate(registers))
      value = adaptor.getSource()[index / 2 % sm90::kFragmentRows];
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

struct Iota : public KernelPattern<sm90::IotaOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::IotaOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<Value> registers;
    if (sm90::isRows(type) || op.getDim() == 0) {
      SmallVector<Value> rows{kernel.getRow(b, 0), kernel.getRow(b, 1)};
      bool isVector = sm90::isRows(type);
      for (int64_t index = 0; index < getRegisterCount(type); ++index)
        registers.push_back(rows[isVector ? index : index / 2 % sm90::kFragmentRows]);
    } else {
      Int first = kernel.getColumn(b, type);
      for (int64_t index = 0; index < getRegisterCount(type); ++index)
        registers.push_back(first + (index / 4 * sm90::kColumnGroup + index % 2));
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

static Value combine(ImplicitLocOpBuilder &b, sm90::ReduceKind kind, Value left, Value right) {
  if (kind == sm90::ReduceKind::Max)
    return arith::MaximumFOp::create(b, left, right); // NaN wins
  return arith::AddFOp::create(b, left, right);
}

/// Folds a value over the four lanes of a quad; all get the result.
static Value foldQuad(ImplicitLocOpBuilder &b, sm90::ReduceKind kind, Value value) {
  Value everyLane = constant32(b, -1), wholeWarp = constant32(b, 31);
  for (int64_t distance : {1, 2}) {
    Value other =
        NVVM::ShflOp::create(b, value.getType(), everyLane, value, constant32(b, distance),
                             wholeWarp, NVVM::ShflKind::bfly, UnitAttr());
    value = combine(b, kind, value, other);
  }
  return value;
}

namespace {
struct Reduce : public KernelPattern<sm90::ReduceOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(sm90::ReduceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ValueRange source = adaptor.getSource();
    SmallVector<Value> rows;
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      Value value;
      for (auto [index, element] : llvm::enumerate(source)) // ascending columns
        if (static_cast<int64_t>(index / 2 % 2) == h)
          value = value ? combine(b, op.getKind(), value, element) : element;
      rows.push_back(foldQuad(b, op.getKind(), value));
    }
    int64_t split = sm90::getColumnSplit(op.getSource().getType());
    if (split > 1)
      exchange(b, op.getKind(), split, adaptor.getScratch()[0], rows);
    rewriter.replaceOpWithMultiple(op, {rows});
    return success();
  }

private:
  /// Joins the parts of `split` warpgroups through scratch[part][row].
  void exchange(ImplicitLocOpBuilder &b, sm90::ReduceKind kind, int64_t split, Value scratch,
                SmallVector<Value> &rows) const {
    constexpr int64_t bytes = sizeof(float), partBytes = sm90::kTileRows * bytes;
    auto getAddress = [&](Int part, int64_t h) {
      return getSharedAddress(b, scratch, part * partBytes + kernel.getRow(b, h) * bytes);
    };
    Value isFirstLane =
        compare(b, arith::CmpIPredicate::eq, sm90::getFragmentColumn(Int(b, kernel.groupThread)),
                constant32(b, 0));
    emitIf(b, andOf(b, isFirstLane, kernel.isWriter(b, split)), [&] {
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
        LLVM::StoreOp::create(b, rows[h], getAddress(kernel.getPart(b, split), h));
    });
    NVVM::Barrier0Op::create(b);
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      Value value;
      for (int64_t part = 0; part < split; ++part) {
        Value next = LLVM::LoadOp::create(b, b.getF32Type(), getAddress(constant32(b, part), h));
        value = value ? combine(b, kind, value, next) : next;
      }
      rows[h] = value;
    }
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

namespace {
struct Alloc : public KernelPattern<sm90::AllocOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::AllocOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!op.getOffset())
      return op.emitOpError("has no offset; run sm90-allocate-shared-memory first");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, getSharedAddress(b, kernel.shared, constant32(b, *op.getOffset())));
    return success();
  }
};

struct Slice : public OpConversionPattern<sm90::SliceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::SliceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    int64_t bytes = static_cast<int64_t>(op.getColumn()) / sm90::kPanelColumns *
                    op.getSource().getType().getPanelBytes();
    rewriter.replaceOp(op, getSharedAddress(b, adaptor.getSource()[0], constant32(b, bytes)));
    return success();
  }
};

/// Pairs of 16-bit elements go out as 32-bit stores: in one store the eight rows
/// of a warp's half hit chunks j ^ row, so all 32 banks once.
struct StoreShared : public KernelPattern<sm90::StoreSharedOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::StoreSharedOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto type = cast<RankedTensorType>(op.getValue().getType());
    int64_t split = sm90::getColumnSplit(type), columns = getPartColumns(type);
    ValueRange registers = adaptor.getValue();
    Value target = adaptor.getTarget()[0];
    emitIf(b, kernel.isWriter(b, split), [&] {
      Int firstChunk = kernel.getPart(b, split) * (columns / sm90::kColumnGroup);
      Int byteInChunk = sm90::getFragmentColumn(Int(b, kernel.groupThread)) * kElementBytes;
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
        Int row = kernel.getRow(b, h);
        for (int64_t j = 0; j < columns / sm90::kColumnGroup; ++j) {
          Int byte =
              sm90::getSwizzledChunkByte(row, firstChunk + j, op.getTarget().getType().getRows());
          storePair(b, registers.slice(sm90::getFragmentRegister(j, h, 0), 2),
                    getSharedAddress(b, target, byte + byteInChunk));
        }
      }
    });
    rewriter.eraseOp(op);
    return success();
  }

private:
  static constexpr int64_t kElementBytes = 2; // swizzle128 tiles are 16-bit

  static void storePair(ImplicitLocOpBuilder &b, ValueRange pair, Value address) {
    Value packed = LLVM::UndefOp::create(b, VectorType::get({2}, pair[0].getType()));
    for (int64_t i : {0, 1})
      packed = LLVM::InsertElementOp::create(b, packed, pair[i], constant32(b, i));
    LLVM::StoreOp::create(b, packed, address, 2 * kElementBytes);
  }
};
} // namespace

void mlac::sm90nvvm::populateFragmentPatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<Splat, Constant, Broadcast, Slice>(converter, patterns.getContext());
  patterns.add<Iota, Reduce, Alloc, StoreShared>(converter, patterns.getContext(), kernel);
}
