//===- Fragment.cpp - making and reducing fragments ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "PinThread.h"

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

/// Register 4j + 2h + i takes the element of half h, or of column 8j + i.
struct Broadcast : public OpConversionPattern<sm90::BroadcastOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::BroadcastOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> registers(getRegisterCount(cast<RankedTensorType>(op.getType())));
    bool isColumns = sm90::isColumns(op.getSource().getType());
    bool isPartial = sm90::isPartial(op.getType());
    for (auto [index, value] : llvm::enumerate(registers)) {
      size_t half = isPartial ? index : index / 2 % sm90::kFragmentRows;
      value = adaptor.getSource()[isColumns ? index / 4 * 2 + index % 2 : half];
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

/// Registers 4j to 4j + 3 are of the columns from 8j on.
struct TakeColumns : public OpConversionPattern<sm90::TakeColumnsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::TakeColumnsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    int64_t count = getRegisterCount(cast<RankedTensorType>(op.getType()));
    int64_t first = op.getFirst() / sm90::kColumnGroup * 4;
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource().slice(first, count)});
    return success();
  }
};

struct Iota : public KernelPattern<sm90::IotaOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::IotaOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Kernel kernel = pinThread(b, getKernel(op));
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<Value> registers;
    int64_t count = getRegisterCount(type);
    if (sm90::isColumns(type)) {
      Int first = kernel.getColumn(b, type);
      for (int64_t index = 0; index < count; ++index)
        registers.push_back(first + sm90::getRunColumn(index / 2, index % 2, kernel.getRun(type)));
    } else if (sm90::isPartial(type) && op.getDim() == 1) {
      registers.append(count, Int(b, kernel.lane) % sm90::kQuadLanes);
    } else if (type.getRank() == 1 || op.getDim() == 0) {
      SmallVector<Value> rows{kernel.getRow(b, 0), kernel.getRow(b, 1)};
      bool isPair = !sm90::isFragment(type);
      for (int64_t index = 0; index < count; ++index)
        registers.push_back(rows[isPair ? index : index / 2 % sm90::kFragmentRows]);
    } else {
      Int first = kernel.getColumn(b, type);
      for (int64_t index = 0; index < count; ++index)
        registers.push_back(first + sm90::getRunColumn(index / 4, index % 2, kernel.getRun(type)));
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

/// Folds a value over the lanes that differ in bits `distances`; all get the result.
static Value foldLanes(ImplicitLocOpBuilder &b, sm90::ReduceKind kind, Value value,
                       ArrayRef<int64_t> distances) {
  Value everyLane = constant32(b, -1), wholeWarp = constant32(b, 31);
  for (int64_t distance : distances) {
    Value other =
        NVVM::ShflOp::create(b, value.getType(), everyLane, value, constant32(b, distance),
                             wholeWarp, NVVM::ShflKind::bfly, UnitAttr());
    value = combine(b, kind, value, other);
  }
  return value;
}

/// Folds values in ascending order; a maximum, whose bits no order changes, as a
/// tree, which takes fewer dependent steps.
static Value fold(ImplicitLocOpBuilder &b, sm90::ReduceKind kind, SmallVector<Value> values) {
  if (kind == sm90::ReduceKind::Max)
    while (values.size() > 1) {
      SmallVector<Value> next;
      for (size_t index = 0; index + 1 < values.size(); index += 2)
        next.push_back(combine(b, kind, values[index], values[index + 1]));
      if (values.size() % 2)
        next.push_back(values.back());
      values = next;
    }
  Value result = values[0];
  for (Value value : ArrayRef(values).drop_front())
    result = combine(b, kind, result, value);
  return result;
}

namespace {
struct Reduce : public KernelPattern<sm90::ReduceOp> {
  using KernelPattern::KernelPattern;

  LogicalResult matchAndRewrite(sm90::ReduceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> result =
        op.getDim() == 0 ? reduceColumns(b, op, adaptor) : reduceRows(b, op, adaptor);
    rewriter.replaceOpWithMultiple(op, {result});
    return success();
  }

private:
  static constexpr int64_t kElementBytes = sizeof(float);
  /// Lanes that hold the same rows, and the same columns, of a fragment.
  static constexpr int64_t kQuad[] = {1, 2}, kOctet[] = {4, 8, 16};

  SmallVector<Value> reduceRows(ImplicitLocOpBuilder &b, sm90::ReduceOp op,
                                OneToNOpAdaptor adaptor) const {
    SmallVector<Value> rows;
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      SmallVector<Value> elements; // ascending columns
      for (auto [index, element] : llvm::enumerate(adaptor.getSource()))
        if (sm90::isPartial(op.getSource().getType())
                ? static_cast<int64_t>(index) == h
                : static_cast<int64_t>(index / 2 % sm90::kFragmentRows) == h)
          elements.push_back(element);
      Value value = fold(b, op.getKind(), elements);
      rows.push_back(sm90::isPartial(op.getType()) ? value
                                                   : foldLanes(b, op.getKind(), value, kQuad));
    }
    if (sm90::isFragment(op.getSource().getType()) &&
        sm90::getColumnSplit(op.getSource().getType()) > 1)
      exchangeParts(b, op, adaptor.getScratch()[0], rows);
    return rows;
  }

  /// Joins the parts of S warpgroups through scratch[part][row].
  void exchangeParts(ImplicitLocOpBuilder &b, sm90::ReduceOp op, Value scratch,
                     SmallVector<Value> &rows) const {
    const Kernel &kernel = getKernel(op);
    int64_t split = sm90::getColumnSplit(op.getSource().getType());
    auto getAddress = [&](Int part, int64_t h) {
      Int element = part * sm90::kTileRows + kernel.getRow(b, h);
      return kernel.getSharedAddress(b, scratch, element * kElementBytes);
    };
    Value isFirstLane =
        compare(b, arith::CmpIPredicate::eq, sm90::getFragmentColumn(Int(b, kernel.groupThread)),
                constant32(b, 0));
    emitIf(b, andOf(b, isFirstLane, kernel.isWriter(b, split)), [&] {
      for (int64_t h = 0; h < sm90::kFragmentRows; ++h)
        LLVM::StoreOp::create(b, rows[h], getAddress(kernel.getPart(b, split), h));
    });
    emitBarrier(b, kernel);
    for (int64_t h = 0; h < sm90::kFragmentRows; ++h) {
      SmallVector<Value> parts;
      for (int64_t part = 0; part < split; ++part)
        parts.push_back(
            LLVM::LoadOp::create(b, b.getF32Type(), getAddress(constant32(b, part), h)));
      rows[h] = fold(b, op.getKind(), parts);
    }
  }

  /// A thread's two rows, the lanes of the same columns, then the four warps
  /// through scratch[warp][register's place]; neighbouring columns go in pairs.
  SmallVector<Value> reduceColumns(ImplicitLocOpBuilder &b, sm90::ReduceOp op,
                                   OneToNOpAdaptor adaptor) const {
    const Kernel &kernel = getKernel(op);
    sm90::ReduceKind kind = op.getKind();
    int64_t columns = cast<RankedTensorType>(op.getSource().getType()).getDimSize(1);
    ValueRange source = adaptor.getSource();
    SmallVector<Value> result;
    for (int64_t j = 0; j < columns / sm90::kColumnGroup; ++j)
      for (int64_t i : {0, 1}) {
        Value value = combine(b, kind, source[sm90::getFragmentRegister(j, 0, i)],
                              source[sm90::getFragmentRegister(j, 1, i)]);
        result.push_back(foldLanes(b, kind, value, kOctet));
      }
    Int first = sm90::getFragmentColumn(Int(b, kernel.groupThread));
    auto getAddress = [&](Int warp, int64_t j) {
      Int element = warp * columns + first + j * sm90::kColumnGroup;
      return kernel.getSharedAddress(b, adaptor.getScratch()[0], element * kElementBytes);
    };
    Type pairType = VectorType::get({2}, b.getF32Type());
    Int warp = Int(b, kernel.groupThread) / (sm90::kWarpgroupThreads / sm90::kWarpgroupWarps);
    emitIf(b, compare(b, arith::CmpIPredicate::ult, kernel.lane, constant32(b, sm90::kQuadLanes)),
           [&] {
             for (int64_t j = 0; j < columns / sm90::kColumnGroup; ++j) {
               Value pair = LLVM::UndefOp::create(b, pairType);
               for (int64_t i : {0, 1})
                 pair = LLVM::InsertElementOp::create(b, pair, result[2 * j + i], constant32(b, i));
               LLVM::StoreOp::create(b, pair, getAddress(warp, j), 2 * kElementBytes);
             }
           });
    emitBarrier(b, kernel);
    for (int64_t j = 0; j < columns / sm90::kColumnGroup; ++j) {
      SmallVector<Value> pairs;
      for (int64_t w = 0; w < sm90::kWarpgroupWarps; ++w)
        pairs.push_back(
            LLVM::LoadOp::create(b, pairType, getAddress(constant32(b, w), j), 2 * kElementBytes));
      for (int64_t i : {0, 1}) {
        auto pick = [&](Value pair) -> Value {
          return LLVM::ExtractElementOp::create(b, pair, constant32(b, i));
        };
        result[2 * j + i] = fold(b, kind, llvm::map_to_vector(pairs, pick));
      }
    }
    return result;
  }
};

/// Lanes of the next row are four on; a thread's second row is the warp's eighth behind the first.
struct SumGroups : public OpConversionPattern<sm90::SumGroupsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::SumGroupsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    int64_t rowsOfLanes = sm90::kWarpRows / sm90::kFragmentRows, size = op.getSize();
    SmallVector<int64_t> distances;
    for (int64_t row = 1; row < std::min(size, rowsOfLanes); row *= 2)
      distances.push_back(row * sm90::kQuadLanes);
    SmallVector<Value> rows(adaptor.getSource());
    if (size > rowsOfLanes)
      rows = {combine(b, sm90::ReduceKind::Sum, rows[0], rows[1])};
    for (Value &row : rows)
      row = foldLanes(b, sm90::ReduceKind::Sum, row, distances);
    rows.resize(sm90::kFragmentRows, rows.front());
    rewriter.replaceOpWithMultiple(op, {rows});
    return success();
  }
};

/// Of a thread's columns 8j + 2q + e all but q, its lane's place among four, is known here: a word
/// is shifted once.
struct TestBits : public KernelPattern<sm90::TestBitsOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::TestBitsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value first = sm90::getFragmentColumn(Int(b, getKernel(op).groupThread));
    constexpr int64_t bits = 32;
    SmallVector<SmallVector<Value>> shifted;
    for (ValueRange rows : adaptor.getWords())
      shifted.push_back(llvm::map_to_vector(
          rows, [&](Value word) -> Value { return arith::ShRUIOp::create(b, word, first); }));
    SmallVector<Value> registers(getRegisterCount(cast<RankedTensorType>(op.getType())));
    for (auto [index, value] : llvm::enumerate(registers)) {
      int64_t column = index / 4 * sm90::kColumnGroup + index % 2;
      Value word = shifted[column / bits][index / 2 % sm90::kFragmentRows];
      Value bit = arith::AndIOp::create(b, word, constant32(b, int64_t(1) << column % bits));
      value = compare(b, arith::CmpIPredicate::ne, bit, constant32(b, 0));
    }
    rewriter.replaceOpWithMultiple(op, {registers});
    return success();
  }
};

struct Pin : public OpConversionPattern<sm90::PinOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::PinOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOpWithMultiple(op, {emitPin(b, adaptor.getSource())});
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateFragmentPatterns(const TypeConverter &converter,
                                              RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<Splat, Constant, Broadcast, TakeColumns, SumGroups, Pin>(converter,
                                                                        patterns.getContext());
  patterns.add<Iota, Reduce, TestBits>(converter, patterns.getContext(), kernel);
}
