//===- Tma.cpp - tensor maps, bulk copies and prefetches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread issues an instruction for each box. Rows of boxes of a part of a panel lie 128
// bytes apart, too, since the swizzle is of 128 bytes. Boxes of several panels of 64
// columns have a dimension more, so that the panels come one behind the other in
// shared memory: [page,] panel, row, column. PTX names coordinates innermost first,
// the IR outermost first.
//
//===----------------------------------------------------------------------===//

#include "RingPattern.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

//===----------------------------------------------------------------------===//
// What the host encodes
//===----------------------------------------------------------------------===//

/// [constant factor, index of the kernel argument it multiplies, or -1].
static Attribute describeNumber(OpFoldResult number) {
  Builder builder(number.getContext());
  auto pair = [&](int64_t factor, int64_t argument) -> Attribute {
    return builder.getDenseI64ArrayAttr({factor, argument});
  };
  if (std::optional<int64_t> constant = getConstantIntValue(number))
    return pair(*constant, -1);
  auto value = cast<Value>(number);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return pair(1, argument.getArgNumber());
  auto product = value.getDefiningOp<arith::MulIOp>();
  return pair(*getConstantIntValue(product.getRhs()),
              cast<BlockArgument>(product.getLhs()).getArgNumber());
}

Attribute mlac::sm90nvvm::describeTensorMap(sm90::TensorMapOp map) {
  Builder b(map.getContext());
  auto view = map.getView().getDefiningOp<memref::ReinterpretCastOp>();
  sm90::TensorMapType type = map.getResult().getType();
  auto describeAll = [&](ArrayRef<OpFoldResult> numbers) {
    return b.getArrayAttr(llvm::map_to_vector(numbers, describeNumber));
  };
  int64_t panelColumns = type.getPanelColumns();
  const int64_t columns = std::min(type.getColumns(), panelColumns);
  SmallVector<int64_t> box{type.getRows(), columns};
  SmallVector<OpFoldResult> sizes = view.getMixedSizes(), strides = view.getMixedStrides();
  if (int64_t panels = type.getPanels(); panels > 1) {
    box.insert(box.begin(), panels);
    int64_t width = view.getType().getShape().back();
    sizes.back() = b.getIndexAttr(panelColumns);
    sizes.insert(sizes.end() - 2, b.getIndexAttr(width / panelColumns));
    strides.insert(strides.end() - 2, b.getIndexAttr(panelColumns));
  }
  if (view.getType().getRank() == 3)
    box.insert(box.begin(), 1); // of one page
  if (view.getType().getRank() == 4) {
    int64_t group = view.getType().getDimSize(2);
    int64_t rows = type.getRows();
    // Of one run: whole groups, or rows of one.
    box = {std::max<int64_t>(rows / group, 1), 1, std::min(rows, group), columns};
  }
  int64_t argument = cast<BlockArgument>(view.getSource()).getArgNumber();
  return b.getDictionaryAttr({
      b.getNamedAttr("argument", b.getI64IntegerAttr(argument)),
      b.getNamedAttr("offset", describeNumber(view.getMixedOffsets()[0])),
      b.getNamedAttr("sizes", describeAll(sizes)),
      b.getNamedAttr("strides", describeAll(strides)),
      b.getNamedAttr("box", b.getDenseI64ArrayAttr(box)),
  });
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Coordinates of the box that starts `panel` panels behind the op's, as PTX wants
/// them.
template <typename Op>
static SmallVector<Value> getCoordinates(ImplicitLocOpBuilder &b, Op op,
                                         ArrayRef<ValueRange> coordinates, int64_t panel) {
  SmallVector<Value> result;
  for (ValueRange coordinate : llvm::reverse(coordinates))
    result.push_back(b.createOrFold<arith::IndexCastOp>(b.getI32Type(), coordinate[0]));
  sm90::TensorMapType map = op.getMap().getType();
  if (map.getPanels() == 1) {
    result[0] = Int(b, result[0]) + panel * map.getPanelColumns();
    return result;
  }
  int64_t first = *getConstantIntValue(op.getCoordinates().back()) / map.getPanelColumns() + panel;
  result[0] = constant32(b, 0);
  result.insert(result.begin() + 2, constant32(b, static_cast<int32_t>(first)));
  return result;
}

/// The same place as a pointer to the cluster's shared memory.
static Value toClusterPointer(ImplicitLocOpBuilder &b, Value pointer) {
  Value generic =
      LLVM::AddrSpaceCastOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), pointer);
  return LLVM::AddrSpaceCastOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), kClusterSpace),
                                       generic);
}

namespace {
struct TmaLoad : public RingPattern<sm90::TmaLoadOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::TmaLoadOp op, Adaptor adaptor,
            Value barrier) const override {
    sm90::SmemType type = op.getTarget().getType();
    Value mask;
    if (std::optional<uint32_t> ranks = op.getMulticast())
      mask = constant(b, b.getI16Type(), static_cast<int16_t>(*ranks));
    sm90::TensorMapType map = op.getMap().getType();
    for (int64_t panel = 0; panel < type.getPanels(); panel += map.getPanels()) {
      Value target = kernel.getSharedAddress(
          b, adaptor.getTarget()[0],
          panel * type.getPanelBytes() + static_cast<int64_t>(op.getRow()) * sm90::kPanelRowBytes);
      if (mask)
        target = toClusterPointer(b, target);
      NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
          b, target, adaptor.getMap()[0], getCoordinates(b, op, adaptor.getCoordinates(), panel),
          barrier, /*im2colOffsets=*/ValueRange(), mask, /*l2CacheHint=*/Value(),
          NVVM::TMALoadModeAttr::get(b.getContext(), NVVM::TMALoadMode::TILE),
          /*isCTAOnly=*/b.getBoolAttr(!mask), NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
    }
  }
};

struct TmaStore : public KernelPattern<sm90::TmaStoreOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::TmaStoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    sm90::SmemType type = op.getSource().getType();
    sm90::TensorMapType map = op.getMap().getType();
    for (int64_t panel = 0; panel < type.getPanels(); panel += map.getPanels())
      NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
          b, adaptor.getMap()[0],
          getKernel(op).getSharedAddress(b, adaptor.getSource()[0], panel * type.getPanelBytes()),
          getCoordinates(b, op, adaptor.getCoordinates(), panel), /*l2CacheHint=*/Value(),
          NVVM::TMAStoreModeAttr::get(b.getContext(), NVVM::TMAStoreMode::TILE),
          /*predicate=*/Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct BulkLoad : public RingPattern<sm90::BulkLoadOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::BulkLoadOp op, Adaptor adaptor,
            Value barrier) const override {
    View view = getView(b, cast<MemRefType>(op.getView().getType()), adaptor.getView());
    NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
        b, kernel.getSharedAddress(b, adaptor.getTarget()[0]),
        getViewAddress(b, view, adaptor.getOffset()), barrier,
        constant32(b, op.getTarget().getType().getByteSize()), Value(), Value());
  }
};

struct Prefetch : public OpConversionPattern<sm90::PrefetchOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::PrefetchOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, cast<MemRefType>(op.getView().getType()), adaptor.getView());
    NVVM::CpAsyncBulkPrefetchOp::create(b, getViewAddress(b, view, adaptor.getOffsets()),
                                        constant32(b, op.getBytes()), Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct StoreCommit : public OpConversionPattern<sm90::StoreCommitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::StoreCommitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncBulkCommitGroupOp>(op);
    return success();
  }
};

struct StoreWait : public OpConversionPattern<sm90::StoreWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::StoreWaitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncBulkWaitGroupOp>(op, op.getPendingAttr(),
                                                              rewriter.getUnitAttr());
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateTmaPatterns(const TypeConverter &converter,
                                         RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<TmaLoad, TmaStore, BulkLoad>(converter, patterns.getContext(), kernel);
  patterns.add<Prefetch, StoreCommit, StoreWait>(converter, patterns.getContext());
}
