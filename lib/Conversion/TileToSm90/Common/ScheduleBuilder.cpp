//===- ScheduleBuilder.cpp - what all schedules share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"

#include "Common/Divisibility.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

int64_t mlac::chooseColumnSplit(int64_t columns) {
  // Whole panels first: a rhs stored [K, N] can only be split between panels.
  for (int64_t unit : {sm90::kPanelColumns, sm90::kColumnGroup}) {
    for (int64_t split = 1; split <= sm90::kMaxWarpgroups; ++split) {
      int64_t multiple = split == 1 ? sm90::kColumnGroup : unit * split;
      if (columns % multiple == 0 && columns / split <= sm90::kMaxWgmmaColumns)
        return split;
    }
  }
  return 0;
}

FailureOr<Type> mlac::convertTileType(Operation *op, Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return type;
  // Few query rows are the columns of swapped kernels (tile-swap-operands).
  bool ofColumns = tile.getRank() == 1 && tile.getDimSize(0) < sm90::kTileRows &&
                   tile.getDimSize(0) % sm90::kColumnGroup == 0;
  if (ofColumns)
    return Type(RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                      sm90::ColumnsAttr::get(op->getContext())));
  if (tile.getDimSize(0) != sm90::kTileRows)
    return op->emitOpError("expected tiles of ")
           << sm90::kTileRows << " rows on sm_90a, got " << tile;
  if (tile.getRank() == 1)
    return Type(RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                      sm90::RowsAttr::get(op->getContext())));
  int64_t split = chooseColumnSplit(tile.getDimSize(1));
  if (split == 0)
    return op->emitOpError("expected columns in groups of ")
           << sm90::kColumnGroup << " that " << sm90::kMaxWarpgroups
           << " warpgroups can hold, at most " << sm90::kMaxWgmmaColumns << " each, got " << tile;
  return Type(RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                    sm90::FragmentAttr::get(op->getContext(), split)));
}

FailureOr<sm90::SmemType> mlac::convertSharedType(Operation *op, Type type) {
  auto tile = cast<RankedTensorType>(type);
  Type element = tile.getElementType();
  if (!element.isBF16() && !element.isF16() && !isa<Float8E4M3FNType>(element))
    return op->emitOpError("expected a bf16, f16 or f8E4M3FN operand of a dot on sm_90a, got ")
           << tile;
  if (tile.getDimSize(0) % sm90::kSwizzleRows != 0)
    return op->emitOpError("expected the rows of a dot's operand to be a multiple of ")
           << sm90::kSwizzleRows << " on sm_90a, got " << tile;
  return sm90::SmemType::get(op->getContext(), tile.getShape(), element,
                             sm90::SmemLayout::Swizzle128);
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

/// Slices are traced to their source: the source is what lies in shared memory.
Placement::Placement(tile::KernelOp kernel) {
  auto isTile = [](Value value) { return isa<RankedTensorType>(value.getType()); };
  kernel.walk([&](Operation *op) {
    if (isa<tensor::ExtractSliceOp>(op))
      return;
    auto dot = dyn_cast<tile::DotOp>(op);
    for (Value operand : op->getOperands())
      if (isTile(operand) && (!dot || operand == dot.getAcc()))
        fragments.insert(operand);
    if (!dot)
      return;
    for (Value operand : {dot.getLhs(), dot.getRhs()}) {
      shared.insert(operand);
      if (auto slice = operand.getDefiningOp<tensor::ExtractSliceOp>())
        shared.insert(slice.getSource());
    }
  });
}

/// Whether an op's results are computed in registers whoever uses them: all but
/// loads, which may go to shared memory only, slices, and what is joined there.
static bool isComputed(Operation *op) {
  return !isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadPagedOp, tensor::ExtractSliceOp,
              tensor::ConcatOp>(op);
}

FailureOr<int32_t> mlac::chooseWarpgroups(tile::KernelOp kernel, const Placement &placement) {
  int64_t warpgroups = 1;
  WalkResult walk = kernel.walk([&](Operation *op) {
    for (Value result : op->getResults()) {
      auto tile = dyn_cast<RankedTensorType>(result.getType());
      if (!tile || (!isComputed(op) && !placement.needsFragment(result)))
        continue;
      FailureOr<Type> type = convertTileType(op, tile);
      if (failed(type))
        return WalkResult::interrupt();
      if (tile.getRank() == 2)
        warpgroups = std::max(warpgroups, sm90::getColumnSplit(*type));
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return static_cast<int32_t>(warpgroups);
}

LogicalResult mlac::verifyDot(tile::DotOp dot) {
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto acc = cast<RankedTensorType>(dot.getAcc().getType());
  if (failed(convertSharedType(dot, lhs)) ||
      failed(convertSharedType(dot, dot.getRhs().getType())) || failed(convertTileType(dot, acc)))
    return failure();
  int64_t depth = lhs.getDimSize(dot.getTransposeLhs() ? 0 : 1);
  if (int64_t step = sm90::getWgmmaDepth(lhs.getElementType()); depth % step != 0)
    return dot.emitOpError("expected a contraction width that is a multiple of ")
           << step << " on sm_90a, got " << depth;
  int64_t split = chooseColumnSplit(acc.getDimSize(1));
  int64_t part = acc.getDimSize(1) / split;
  if (split > 1 && !dot.getTransposeRhs() && part % sm90::kPanelColumns != 0)
    return dot.emitOpError("expected ")
           << acc.getDimSize(1) << " columns to split into panels of " << sm90::kPanelColumns
           << " over " << split << " warpgroups, got " << part << " each";
  return success();
}

LogicalResult mlac::verifySlice(tensor::ExtractSliceOp slice, const Placement &placement) {
  RankedTensorType source = slice.getSourceType();
  bool ofLoad = isa_and_present<tile::LoadOp, tile::LoadRowsOp, tile::LoadPagedOp>(
      slice.getSource().getDefiningOp());
  bool ofColumns = source.getRank() == 2 && slice.getType().getRank() == 2 &&
                   slice.getOffsets().empty() && slice.getStaticOffset(0) == 0 &&
                   slice.getType().getDimSize(0) == source.getDimSize(0) && slice.hasUnitStride();
  if (!ofLoad || !ofColumns)
    return slice.emitOpError(
        "expected a slice of consecutive columns, at a static offset, of a load");
  int64_t column = slice.getStaticOffset(1);
  if (placement.needsShared(slice.getResult()) && column % sm90::kPanelColumns != 0)
    return slice.emitOpError("expected a dot's slice to start at a multiple of ")
           << sm90::kPanelColumns << " columns on sm_90a, got " << column;
  return success();
}

//===----------------------------------------------------------------------===//
// Element-wise ops
//===----------------------------------------------------------------------===//

/// The same op on the new values. Constants carry their type in an attribute
/// too.
static LogicalResult cloneConverted(OpBuilder &builder, Operation *op, IRMapping &mapping,
                                    TileTypeConversion convert) {
  if (op->getNumRegions() != 0 ||
      !isa<arith::ArithDialect, math::MathDialect, memref::MemRefDialect>(op->getDialect()))
    return op->emitOpError("is not supported in a kernel for sm_90a");
  SmallVector<Type> types;
  for (Type type : op->getResultTypes()) {
    FailureOr<Type> converted = convert(op, type);
    if (failed(converted))
      return failure();
    types.push_back(*converted);
  }
  auto dense = dyn_cast_if_present<DenseElementsAttr>(op->getAttr("value"));
  if (isa<arith::ConstantOp>(op) && dense) {
    if (!dense.isSplat())
      return op->emitOpError("expected a constant tile of one value, got ") << dense;
    auto constant = arith::ConstantOp::create(builder, op->getLoc(),
                                              dense.resizeSplat(cast<ShapedType>(types[0])));
    mapping.map(op->getResult(0), constant.getResult());
    return success();
  }
  Operation *clone = builder.clone(*op, mapping);
  for (auto [result, type] : llvm::zip_equal(clone->getResults(), types))
    result.setType(type);
  return success();
}

sm90::ReduceKind mlac::convertReduceKind(tile::ReduceKind kind) {
  return kind == tile::ReduceKind::Max ? sm90::ReduceKind::Max : sm90::ReduceKind::Sum;
}

LogicalResult mlac::cloneElementwise(OpBuilder &builder, Operation *op, IRMapping &mapping,
                                     TileTypeConversion convert) {
  Location loc = op->getLoc();
  auto replaceBy = [&](auto create) -> LogicalResult {
    FailureOr<Type> type = convert(op, op->getResult(0).getType());
    if (failed(type))
      return failure();
    mapping.map(op->getResult(0), create(*type));
    return success();
  };
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](tile::ProgramIdOp id) {
        return replaceBy(
            [&](Type) -> Value { return sm90::ProgramIdOp::create(builder, loc, id.getDim()); });
      })
      .Case([&](tile::IotaOp iota) {
        return replaceBy([&](Type type) -> Value {
          return sm90::IotaOp::create(builder, loc, type, iota.getDim());
        });
      })
      .Case([&](tile::SplatOp splat) {
        return replaceBy([&](Type type) -> Value {
          return sm90::SplatOp::create(builder, loc, type, mapping.lookup(splat.getSource()));
        });
      })
      .Case([&](tile::BroadcastOp cast) {
        return replaceBy([&](Type type) -> Value {
          return sm90::BroadcastOp::create(builder, loc, type, mapping.lookup(cast.getSource()));
        });
      })
      .Case([&](tile::ReduceOp reduce) -> LogicalResult {
        Value source = mapping.lookup(reduce.getSource());
        if (sm90::getColumnSplit(source.getType()) != 1 || reduce.getDim() != 1)
          return reduce.emitOpError("is not supported here: expected a sum over the columns of a "
                                    "tile that one warpgroup holds");
        return replaceBy([&](Type type) -> Value {
          return sm90::ReduceOp::create(builder, loc, type, convertReduceKind(reduce.getKind()),
                                        source, Value());
        });
      })
      .Default([&](Operation *op) { return cloneConverted(builder, op, mapping, convert); });
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// Views are chains of casts that end in a reinterpret_cast of a kernel
/// argument, or the argument itself.
static Value skipCasts(Value view) {
  while (auto cast = view.getDefiningOp<memref::CastOp>())
    view = cast.getSource();
  return view;
}

Value mlac::findBuffer(Value view) {
  view = skipCasts(view);
  while (auto cast = view.getDefiningOp<memref::ReinterpretCastOp>())
    view = skipCasts(cast.getSource());
  return view;
}

/// Whether a buffer is a kernel argument, whose base is aligned, or one of several.
static bool isArgument(Value buffer) {
  auto choice = buffer.getDefiningOp<arith::SelectOp>();
  return choice ? isArgument(choice.getTrueValue()) && isArgument(choice.getFalseValue())
                : isa<BlockArgument>(buffer);
}

/// What divides the address, in elements, of every row of the view at `column`;
/// 1 if the columns are not so many elements apart.
static int64_t getAddressDivisor(Value view, OpFoldResult column, int64_t columnStride = 1) {
  auto type = cast<MemRefType>(view.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  if (strides.back() != columnStride)
    return 1;
  int64_t divisor = getKnownDivisor(column) * columnStride;
  auto cast = skipCasts(view).getDefiningOp<memref::ReinterpretCastOp>();
  if (!cast) // a kernel argument: rank 1, aligned base
    return divisor;
  if (!isArgument(cast.getSource()))
    return 1;
  divisor = std::min(divisor, getKnownDivisor(cast.getMixedOffsets().front()));
  for (OpFoldResult stride : ArrayRef(cast.getMixedStrides()).drop_back())
    divisor = std::min(divisor, getKnownDivisor(stride));
  return divisor;
}

static int64_t getElementBytes(Value view) {
  return cast<MemRefType>(view.getType()).getElementTypeBitWidth() / 8;
}

int64_t mlac::chooseVectorBytes(Value view, OpFoldResult column) {
  int64_t elementBytes = getElementBytes(view);
  int64_t aligned = getAddressDivisor(view, column) * elementBytes;
  for (int64_t bytes : {16, 8, 4})
    if (aligned >= bytes && bytes > elementBytes)
      return bytes;
  return elementBytes;
}

bool mlac::areRunsOf(int64_t stride, Value view, OpFoldResult column, int64_t count) {
  auto type = cast<MemRefType>(view.getType());
  if (type.getRank() < 2 || getAddressDivisor(view, column, stride) < count * stride)
    return false;
  // Such a column count keeps the elements of a run on one side of the bound.
  if (!type.isDynamicDim(type.getRank() - 1))
    return type.getShape().back() % count == 0;
  auto cast = skipCasts(view).getDefiningOp<memref::ReinterpretCastOp>();
  return cast && getKnownDivisor(cast.getMixedSizes().back()) >= count;
}

bool mlac::areRuns(Value view, OpFoldResult column, int64_t count) {
  return areRunsOf(/*stride=*/1, view, column, count);
}

bool mlac::arePaired(Value view, OpFoldResult column) { return areRuns(view, column, 2); }
