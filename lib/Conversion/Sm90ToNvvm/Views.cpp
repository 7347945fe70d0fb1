//===- Views.cpp - views of global memory and where a tile's rows lie ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes memrefs apart into base, offset, sizes and strides, and finds the rows
// of tiles that ops name by strides, index lists, block tables or slot lists.
// All offsets are 64-bit: a pool of pages exceeds 2^31 elements.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac::sm90nvvm;
using arith::CmpIPredicate;

/// Offset and strides of the type, ShapedType::kDynamic where unknown.
static std::pair<int64_t, SmallVector<int64_t>> getLayout(MemRefType type) {
  int64_t offset;
  SmallVector<int64_t> strides;
  [[maybe_unused]] LogicalResult strided = type.getStridesAndOffset(strides, offset);
  assert(succeeded(strided) && "sm90 views are strided");
  return {offset, strides};
}

SmallVector<Type> mlac::sm90nvvm::getViewTypes(MemRefType type) {
  auto [offset, strides] = getLayout(type);
  int64_t dynamic = ShapedType::isDynamic(offset) + type.getNumDynamicDims() +
                    llvm::count_if(strides, ShapedType::isDynamic);
  SmallVector<Type> types(1 + dynamic, IntegerType::get(type.getContext(), 64));
  types[0] = LLVM::LLVMPointerType::get(type.getContext(), kGlobalSpace);
  return types;
}

View mlac::sm90nvvm::getView(ImplicitLocOpBuilder &b, MemRefType type, ValueRange parts) {
  auto [offset, strides] = getLayout(type);
  size_t next = 1;
  auto take = [&](int64_t value) -> Value {
    return ShapedType::isDynamic(value) ? parts[next++] : Value(constant64(b, value));
  };
  View view{parts[0], getRegisterType(type.getElementType()), take(offset), {}, {}};
  for (int64_t size : type.getShape())
    view.sizes.push_back(take(size));
  for (int64_t stride : strides)
    view.strides.push_back(take(stride));
  return view;
}

Value mlac::sm90nvvm::getViewAddress(ImplicitLocOpBuilder &b, const View &view,
                                     ArrayRef<ValueRange> indices) {
  Int element(b, view.offset);
  for (auto [index, stride] : llvm::zip_equal(indices, view.strides))
    element = element + toI64(b, index[0]) * Int(b, stride);
  return getElementAddress(b, view.base, view.elementType, element);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

bool TileAccess::areColumnsInside(int64_t count) const {
  std::optional<int64_t> first = getConstant(firstColumn), size = getConstant(columns);
  return first && size && *first + count <= *size;
}

bool TileAccess::areRowsInside(int64_t count) const {
  std::optional<int64_t> first = firstRow ? getConstant(firstRow) : std::nullopt;
  std::optional<int64_t> size = rows ? getConstant(rows) : std::nullopt;
  return first && size && *first + count <= *size;
}

Value TileAccess::isColumnInside(ImplicitLocOpBuilder &b, Value column, bool known) const {
  if (known)
    return Value();
  return compare(b, CmpIPredicate::slt, Int(b, firstColumn) + toI64(b, column), columns);
}

Value TileAccess::getAddress(ImplicitLocOpBuilder &b, const Row &row, Value column) const {
  Int elements = (Int(b, firstColumn) + toI64(b, column)) * Int(b, columnStride);
  return getElementAddress(b, base, elementType, Int(b, row.offset) + elements);
}

Value TileAccess::getLoadAddress(ImplicitLocOpBuilder &b, Value address, Value inside) const {
  return selectOf(b, inside, address, zeros);
}

/// Element `position` of a list where `inside`, else 0; the list is read there
/// only.
static Int loadEntry(ImplicitLocOpBuilder &b, const Kernel &kernel, const View &list,
                     Value position, Value inside) {
  Int element = Int(b, list.offset) + Int(b, position) * Int(b, list.strides[0]);
  Value address = getElementAddress(b, list.base, list.elementType, element);
  return toI64(
      b, LLVM::LoadOp::create(b, list.elementType, selectOf(b, inside, address, kernel.zeros)));
}

Row mlac::sm90nvvm::getViewRow(ImplicitLocOpBuilder &b, const View &view, Value index,
                               bool inGroups) {
  Int number(b, index), offset(b, view.offset);
  if (!inGroups)
    return {compare(b, CmpIPredicate::slt, number, view.sizes[0]),
            offset + number * Int(b, view.strides[0])};
  Int size(b, view.sizes[1]), group = number / size;
  return {compare(b, CmpIPredicate::slt, group, view.sizes[0]),
          offset + group * Int(b, view.strides[0]) + number % size * Int(b, view.strides[1])};
}

TileAccess mlac::sm90nvvm::getDenseAccess(const Kernel &kernel, const View &view, Value rowOffset,
                                          Value columnOffset) {
  bool inGroups = view.sizes.size() == 3;
  auto getRow = [view, rowOffset, inGroups](ImplicitLocOpBuilder &b, Value row) {
    return getViewRow(b, view, Int(b, rowOffset) + toI64(b, row), inGroups);
  };
  if (inGroups)
    return {view.base,    kernel.zeros,  view.elementType, getRow,
            columnOffset, view.sizes[2], view.strides[2]};
  return {view.base,    kernel.zeros,  view.elementType, getRow,
          columnOffset, view.sizes[1], view.strides[1],  view.offset,
          rowOffset,    view.sizes[0], view.strides[0]};
}

TileAccess mlac::sm90nvvm::getListAccess(const Kernel &kernel, const View &view,
                                         const View &indices, Value first, Value column) {
  if (view.sizes.size() == 3) // numbers of rows of pages are slots
    return getSlotAccess(kernel, view, indices, first, column);
  auto getRow = [&kernel, view, indices, first](ImplicitLocOpBuilder &b, Value row) {
    Int position = Int(b, first) + toI64(b, row);
    Value listed = compare(b, CmpIPredicate::slt, position, indices.sizes[0]);
    Int index = loadEntry(b, kernel, indices, position, listed);
    // Unsigned, so that negative indices are outside too.
    Value inside = compare(b, CmpIPredicate::ult, index, view.sizes[0]);
    return Row{andOf(b, listed, inside), Int(b, view.offset) + index * Int(b, view.strides[0])};
  };
  return {view.base, kernel.zeros,  view.elementType, getRow,
          column,    view.sizes[1], view.strides[1]};
}

TileAccess mlac::sm90nvvm::getPagedAccess(const Kernel &kernel, const View &pool, const View &table,
                                          Value token, Value column, Value limit) {
  auto getRow = [&kernel, pool, table, token, limit](ImplicitLocOpBuilder &b, Value row) {
    Int position = Int(b, token) + toI64(b, row);
    Int pageSize(b, pool.sizes[1]);
    Value inside = compare(b, CmpIPredicate::slt, position, limit);
    Int page = loadEntry(b, kernel, table, position / pageSize, inside);
    return Row{inside, Int(b, pool.offset) + page * Int(b, pool.strides[0]) +
                           position % pageSize * Int(b, pool.strides[1])};
  };
  return {pool.base, kernel.zeros,  pool.elementType, getRow,
          column,    pool.sizes[2], pool.strides[2]};
}

TileAccess mlac::sm90nvvm::getSlotAccess(const Kernel &kernel, const View &pool, const View &slots,
                                         Value first, Value column) {
  auto getRow = [&kernel, pool, slots, first](ImplicitLocOpBuilder &b, Value row) {
    Int position = Int(b, first) + toI64(b, row);
    Value listed = compare(b, CmpIPredicate::slt, position, slots.sizes[0]);
    Int slot = loadEntry(b, kernel, slots, position, listed);
    Int pageSize(b, pool.sizes[1]);
    // Unsigned, so that negative slots are outside too.
    Value inside = compare(b, CmpIPredicate::ult, slot, Int(b, pool.sizes[0]) * pageSize);
    return Row{andOf(b, listed, inside), Int(b, pool.offset) +
                                             slot / pageSize * Int(b, pool.strides[0]) +
                                             slot % pageSize * Int(b, pool.strides[1])};
  };
  return {pool.base, kernel.zeros,  pool.elementType, getRow,
          column,    pool.sizes[2], pool.strides[2]};
}

//===----------------------------------------------------------------------===//
// memref ops
//===----------------------------------------------------------------------===//

namespace {
struct ReinterpretCast : public OpConversionPattern<memref::ReinterpretCastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::ReinterpretCastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    MemRefType type = op.getType();
    auto [offset, strides] = getLayout(type);
    SmallVector<Value> parts{adaptor.getSource()[0]};
    // A part that the type leaves open may still be a constant of the op.
    auto add = [&](int64_t inType, OpFoldResult inOp, ArrayRef<ValueRange> &dynamic) {
      bool isDynamic = isa<Value>(inOp);
      if (ShapedType::isDynamic(inType))
        parts.push_back(isDynamic ? Value(toI64(b, dynamic.front()[0]))
                                  : Value(constant64(b, *getConstantIntValue(inOp))));
      if (isDynamic)
        dynamic = dynamic.drop_front();
    };
    ArrayRef<ValueRange> dynamicOffsets = adaptor.getOffsets(), dynamicSizes = adaptor.getSizes(),
                         dynamicStrides = adaptor.getStrides();
    add(offset, op.getMixedOffsets()[0], dynamicOffsets);
    for (auto [inType, inOp] : llvm::zip_equal(type.getShape(), op.getMixedSizes()))
      add(inType, inOp, dynamicSizes);
    for (auto [inType, inOp] : llvm::zip_equal(strides, op.getMixedStrides()))
      add(inType, inOp, dynamicStrides);
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// A cast that forgets static sizes, strides or the offset: they become values.
struct Cast : public OpConversionPattern<memref::CastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::CastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto from = dyn_cast<MemRefType>(op.getSource().getType());
    auto to = dyn_cast<MemRefType>(op.getType());
    if (!from || !to)
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, from, adaptor.getSource());
    auto [offset, strides] = getLayout(to);
    SmallVector<Value> parts{view.base};
    auto add = [&](int64_t inType, Value value) {
      if (ShapedType::isDynamic(inType))
        parts.push_back(value);
    };
    add(offset, view.offset);
    for (auto [size, value] : llvm::zip_equal(to.getShape(), view.sizes))
      add(size, value);
    for (auto [stride, value] : llvm::zip_equal(strides, view.strides))
      add(stride, value);
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// A choice of two views is one of each of their parts.
struct Choice : public OpConversionPattern<arith::SelectOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(arith::SelectOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (!isa<MemRefType>(op.getType()))
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> parts;
    for (auto [yes, no] : llvm::zip_equal(adaptor.getTrueValue(), adaptor.getFalseValue()))
      parts.push_back(arith::SelectOp::create(b, adaptor.getCondition()[0], yes, no));
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// A size of a view.
struct Dim : public OpConversionPattern<memref::DimOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::DimOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    std::optional<int64_t> index = op.getConstantIndex();
    auto type = dyn_cast<MemRefType>(op.getSource().getType());
    if (!index || !type)
      return rewriter.notifyMatchFailure(op, "expected a constant index");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, type, adaptor.getSource());
    rewriter.replaceOpWithNewOp<arith::IndexCastOp>(op, b.getIndexType(), view.sizes[*index]);
    return success();
  }
};

/// A scalar that every thread reads, such as a sequence length.
struct ScalarLoad : public OpConversionPattern<memref::LoadOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::LoadOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, op.getMemRefType(), adaptor.getMemref());
    rewriter.replaceOpWithNewOp<LLVM::LoadOp>(op, op.getType(),
                                              getViewAddress(b, view, adaptor.getIndices()));
    return success();
  }
};

struct ScalarStore : public OpConversionPattern<memref::StoreOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::StoreOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, op.getMemRefType(), adaptor.getMemref());
    LLVM::StoreOp::create(b, adaptor.getValue()[0], getViewAddress(b, view, adaptor.getIndices()));
    rewriter.eraseOp(op);
    return success();
  }
};

/// Sums of integers only, in all of the GPU at once.
struct ScalarAtomic : public OpConversionPattern<memref::AtomicRMWOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult matchAndRewrite(memref::AtomicRMWOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (op.getKind() != arith::AtomicRMWKind::addi)
      return rewriter.notifyMatchFailure(op, "expected a sum of integers");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    View view = getView(b, op.getMemRefType(), adaptor.getMemref());
    rewriter.replaceOpWithNewOp<LLVM::AtomicRMWOp>(
        op, LLVM::AtomicBinOp::add, getViewAddress(b, view, adaptor.getIndices()),
        adaptor.getValue()[0], LLVM::AtomicOrdering::monotonic);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateViewPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns) {
  patterns.add<Cast, Choice, Dim, ReinterpretCast, ScalarLoad, ScalarStore, ScalarAtomic>(
      converter, patterns.getContext());
}
