//===- Sm90PipelineOps.cpp - verifiers of roles, rings and copies ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in Sm90PipelineOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/IR/HostValue.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

static LogicalResult verifyPart(Operation *op, RingType ring, int64_t part) {
  if (part >= 0 && part < ring.getParts())
    return success();
  return op->emitOpError("expected a part below the ring's ")
         << ring.getParts() << ", got " << part;
}

static LogicalResult verifyElected(Operation *op) {
  if (op->getParentOfType<ElectOp>())
    return success();
  return op->emitOpError("expected to stand inside sm90.elect: one thread issues it");
}

/// That the ring, where its definition is known, has empty barriers.
static LogicalResult verifyFreed(Operation *op, Value ring) {
  auto definition = ring.getDefiningOp<RingOp>();
  if (!definition || definition.getEmptyCount() > 0)
    return success();
  return op->emitOpError("expected a ring with an empty_count above 0");
}

static int64_t getCluster(Operation *op) {
  auto kernel = op->getParentOfType<KernelOp>();
  return kernel ? kernel.getClusterSize() : 1;
}

/// That `remote` has other CTAs to reach.
static LogicalResult verifyRemote(Operation *op, bool isRemote) {
  if (!isRemote || getCluster(op) > 1)
    return success();
  return op->emitOpError("'remote' expects a kernel with a cluster of more than 1 CTA");
}

static int64_t getRank(Value view) { return cast<MemRefType>(view.getType()).getRank(); }

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

LogicalResult RoleOp::verify() {
  if (static_cast<int32_t>(getEnd()) <= static_cast<int32_t>(getFirst())) // (C1)
    return emitOpError("expected at least one warpgroup, got ")
           << getFirst() << " to " << static_cast<int32_t>(getEnd());
  if (std::optional<uint32_t> registers = getRegisters())
    if (*registers % kRegisterGranule != 0 || *registers < kMinRoleRegisters ||
        *registers > kMaxRoleRegisters) // (C2)
      return emitOpError("expected registers in multiples of ")
             << kRegisterGranule << " from " << kMinRoleRegisters << " to " << kMaxRoleRegisters
             << ", got " << *registers;
  WalkResult walk = getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()) ||
          getBody().isAncestor(operand.getParentRegion()) || matchPattern(operand, m_Constant()))
        continue;
      op->emitOpError("uses a tensor from outside of role '") << getName() << "'"; // (C3)
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// What one thread alone may execute.
static bool canBeElected(Operation *op) {
  if (op->getDialect() != op->getContext()->getLoadedDialect<Sm90Dialect>())
    return isa<scf::SCFDialect, arith::ArithDialect, memref::MemRefDialect>(op->getDialect());
  return isa<AcquireOp, AwaitOp, ExpectOp, PublishOp, ReleaseOp, StageStartOp, StageNextOp,
             StageTileOp, SliceOp, TmaLoadOp, TmaStoreOp, StoreCommitOp, StoreWaitOp, BulkLoadOp,
             PrefetchOp, ProxyFenceOp, ProgramIdOp, ClusterRankOp, WaitDependencyOp, EndOp>(op);
}

LogicalResult ElectOp::verify() {
  WalkResult walk = getBody().walk([&](Operation *op) {
    bool hasTensor = llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
    if (canBeElected(op) && !hasTensor)
      return WalkResult::advance();
    op->emitOpError("cannot be executed by one thread (inside sm90.elect)"); // (C1)
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// Ops that may depend on a condition that differs between warps.
static bool isElementwise(Operation *op) {
  return isa<arith::ArithDialect>(op->getDialect()) || isa<scf::YieldOp, BroadcastOp, SplatOp>(op);
}

LogicalResult WarpAnyOp::verify() {
  if (!cast<RankedTensorType>(getCondition().getType()).getElementType().isInteger(1))
    return emitOpError("expected a condition of i1, got ") << getCondition().getType();
  for (Operation *user : getResult().getUsers()) {
    auto branch = dyn_cast<scf::IfOp>(user);
    if (!branch)
      return emitOpError("expected to be used by scf.if only, got ") << user->getName();
    WalkResult walk = branch.walk([&](Operation *op) {
      return op == branch || isElementwise(op) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return branch.emitOpError("depends on sm90.warp_any, so it holds element-wise ops only");
  }
  return success();
}

LogicalResult RoleAnyOp::verify() {
  auto condition = cast<RankedTensorType>(getCondition().getType());
  if (!condition.getElementType().isInteger(1) || getColumnSplit(condition) != 1) // (C1)
    return emitOpError("expected a fragment of i1 with column_split 1, got ") << condition;
  auto role = (*this)->getParentOfType<RoleOp>();
  if (role && role.getWarpgroups() == 1) // (C2)
    return success();
  return emitOpError("expected a role of one warpgroup around it");
}

LogicalResult PinOp::verify() {
  if (cast<RankedTensorType>(getSource().getType()).getElementType().isF32()) // (C1)
    return success();
  return emitOpError("expected a fragment of f32, got ") << getSource().getType();
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

int64_t RingOp::getBarrierCount() {
  RingType type = getResult().getType();
  return type.getStages() * (type.getParts() + (getEmptyCount() > 0 ? 1 : 0));
}

LogicalResult RingOp::verify() {
  int64_t alignment = getResult().getType().getAlignment();
  if (std::optional<int64_t> offset = getOffset())
    if (*offset < 0 || *offset % alignment != 0) // (C2)
      return emitOpError("expected an offset that is a multiple of ")
             << alignment << ", got " << *offset;
  if (std::optional<int64_t> offset = getBarrierOffset())
    if (*offset < 0 || *offset % kBarrierBytes != 0) // (C2)
      return emitOpError("expected a barrier_offset that is a multiple of ")
             << kBarrierBytes << ", got " << *offset;
  return success();
}

LogicalResult StageTileOp::verify() {
  ArrayRef<SmemType> tiles = getRing().getType().getTiles();
  if (getIndex() >= tiles.size()) // (C1)
    return emitOpError("expected an index below the ring's ")
           << tiles.size() << " tiles, got " << getIndex();
  if (getResult().getType() != tiles[getIndex()]) // (C1)
    return emitOpError("expected a result of type ")
           << tiles[getIndex()] << ", got " << getResult().getType();
  return success();
}

LogicalResult AcquireOp::verify() { return verifyFreed(*this, getRing()); }

LogicalResult ExpectOp::verify() {
  if (failed(verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart()))) || // (C1)
      failed(verifyElected(*this)))                                                      // (C2)
    return failure();
  if (getBytes() <= kMaxTransactionBytes) // (C3)
    return success();
  return emitOpError("expected at most ") << kMaxTransactionBytes << " bytes, got " << getBytes();
}

LogicalResult PublishOp::verify() {
  if (failed(verifyRemote(*this, getRemote()))) // (C2)
    return failure();
  return verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart()));
}

LogicalResult CopyPublishOp::verify() {
  return verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart()));
}

LogicalResult AwaitOp::verify() {
  if (failed(verifyRemote(*this, getRemote()))) // (C2)
    return failure();
  return verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart()));
}

LogicalResult ReleaseOp::verify() {
  if (failed(verifyRemote(*this, getRemote()))) // (C2)
    return failure();
  return verifyFreed(*this, getRing()); // (C1)
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

bool sm90::isHostValue(OpFoldResult value) {
  auto ssa = dyn_cast<Value>(value);
  if (!ssa || matchPattern(ssa, m_Constant()) || isKernelArgument(ssa))
    return true;
  auto product = ssa.getDefiningOp<arith::MulIOp>();
  return product && isKernelArgument(product.getLhs()) &&
         matchPattern(product.getRhs(), m_Constant());
}

bool sm90::isKernelArgument(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
}

LogicalResult TensorMapOp::verify() {
  if (!(*this)->getParentOfType<KernelOp>()) // (C5)
    return emitOpError("expected to stand in an sm90.kernel");
  auto view = cast<MemRefType>(getView().getType());
  if (view.getRank() < 2 || view.getRank() > 4) // (C3)
    return emitOpError("expected a view of rank 2 to 4, got rank ") << view.getRank();
  int64_t rows = getResult().getType().getRows();
  auto areGroups = [&](int64_t size) { return rows % size == 0 || size % rows == 0; };
  if (view.getRank() == 4 && (view.isDynamicDim(2) || !areGroups(view.getDimSize(2)) ||
                              getResult().getType().getPanels() != 1)) // (C3)
    return emitOpError("expected groups of a static size that divides ")
           << rows << " rows or is a multiple, and boxes of one panel, got " << view;
  if (view.getStridesAndOffset().first.back() != 1 ||
      view.getElementType() != getResult().getType().getElementType()) // (C2)
    return emitOpError("expected a view of ")
           << getResult().getType().getElementType() << " with innermost stride 1, got " << view;
  auto cast = getView().getDefiningOp<memref::ReinterpretCastOp>();
  bool isOfArgument = cast && isa<BlockArgument>(cast.getSource());
  if (!isOfArgument) // (C1)
    return emitOpError("expected a memref.reinterpret_cast of a kernel argument");
  for (const auto &numbers : {cast.getMixedOffsets(), cast.getMixedSizes(), cast.getMixedStrides()})
    if (!llvm::all_of(numbers, isHostValue)) // (C1)
      return emitOpError("expected offset, sizes and strides that are constants, arguments or an "
                         "argument times a constant");
  int64_t columns = getResult().getType().getColumns();
  if (getResult().getType().getPanels() > 1 &&
      (view.isDynamicDim(view.getRank() - 1) || view.getShape().back() < columns)) // (C4)
    return emitOpError("expected a view of at least ")
           << columns << " columns for boxes of as many, got " << view;
  return success();
}

/// That there is one coordinate per dimension of the map's view, where it is
/// known, and that boxes of several panels start at one.
static LogicalResult verifyCoordinates(Operation *op, TypedValue<TensorMapType> map,
                                       ValueRange coordinates) {
  auto definition = map.getDefiningOp<TensorMapOp>();
  if (definition && static_cast<int64_t>(coordinates.size()) != getRank(definition.getView()))
    return op->emitOpError("expected ")
           << getRank(definition.getView()) << " coordinates, got " << coordinates.size();
  if (map.getType().getPanels() == 1)
    return success();
  std::optional<int64_t> column = getConstantIntValue(coordinates.back());
  if (column && *column % map.getType().getPanelColumns() == 0)
    return success();
  return op->emitOpError("expected the column of a box of ")
         << map.getType().getColumns() << " columns to be a constant multiple of "
         << map.getType().getPanelColumns();
}

/// That the columns of a shared tile are whole boxes of the map. A box of one panel may reach
/// beyond them.
static LogicalResult verifyWholeBoxes(Operation *op, TensorMapType map, SmemType tile) {
  int64_t columns = map.getColumns();
  if (columns < map.getPanelColumns()) {
    if (tile.getColumns() == columns)
      return success();
    return op->emitOpError("expected a tile of ")
           << columns << " columns, as boxes of a part of a panel have, got " << tile;
  }
  if (map.getPanels() == 1 || (map.getRows() == tile.getRows() && tile.getColumns() % columns == 0))
    return success();
  return op->emitOpError("expected a tile of whole boxes of ")
         << map.getRows() << " rows and " << columns << " columns, got " << tile;
}

LogicalResult TmaLoadOp::verify() {
  SmemType target = getTarget().getType();
  TensorMapType map = getMap().getType();
  if (target.getLayout() != SmemLayout::Swizzle128 ||
      target.getElementType() != map.getElementType()) // (C1)
    return emitOpError("expected a swizzle128 target of ")
           << map.getElementType() << ", got " << target;
  int64_t row = getRow();
  if (row < 0 || row % kSwizzleRows != 0 || row + map.getRows() > target.getRows()) // (C2)
    return emitOpError("expected ")
           << map.getRows() << " rows from a multiple of " << kSwizzleRows
           << " within the target's " << target.getRows() << ", got row " << row;
  if (failed(verifyWholeBoxes(*this, map, target)) || // (C6)
      failed(verifyCoordinates(*this, getMap(), getCoordinates())))
    return failure();
  if (std::optional<uint32_t> mask = getMulticast())
    if (*mask == 0 || *mask >> getCluster(*this) != 0) // (C5)
      return emitOpError("expected a multicast mask of the cluster's ")
             << getCluster(*this) << " ranks, got " << *mask;
  if (failed(verifyElected(*this))) // (C4)
    return failure();
  return verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart())); // (C3)
}

LogicalResult TmaStoreOp::verify() {
  SmemType source = getSource().getType();
  TensorMapType map = getMap().getType();
  if (source.getLayout() != SmemLayout::Swizzle128 || source.getRows() != map.getRows() ||
      source.getElementType() != map.getElementType()) // (C1)
    return emitOpError("expected a swizzle128 source of ")
           << map.getRows() << " rows of " << map.getElementType() << ", got " << source;
  if (failed(verifyWholeBoxes(*this, map, source)) || // (C1)
      failed(verifyCoordinates(*this, getMap(), getCoordinates())))
    return failure();
  return verifyElected(*this); // (C2)
}

LogicalResult BulkLoadOp::verify() {
  SmemType target = getTarget().getType();
  auto view = cast<MemRefType>(getView().getType());
  if (view.getRank() != 1 || view.getStridesAndOffset().first.back() != 1) // (C1)
    return emitOpError("expected a view of rank 1 with stride 1, got ") << view;
  Type element = view.getElementType();
  if (target.getLayout() != SmemLayout::Linear || target.getElementType() != element ||
      target.getByteSize() % kTmaAlignment != 0) // (C1)
    return emitOpError("expected a linear target of ")
           << element << " of a multiple of " << kTmaAlignment << " bytes, got " << target;
  if (failed(verifyElected(*this))) // (C3)
    return failure();
  return verifyPart(*this, getRing().getType(), static_cast<int32_t>(getPart())); // (C2)
}

LogicalResult PrefetchOp::verify() {
  if (getBytes() % kTmaAlignment != 0) // (C1)
    return emitOpError("expected a multiple of ") << kTmaAlignment << " bytes, got " << getBytes();
  if (static_cast<int64_t>(getOffsets().size()) != ::getRank(getView())) // (C2)
    return emitOpError("expected ")
           << ::getRank(getView()) << " offsets, got " << getOffsets().size();
  return verifyElected(*this); // (C3)
}

LogicalResult LoadSharedOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  SmemType source = getSource().getType();
  if (isRows(result) || isColumns(result)) { // (C2)
    if (isColumns(result) && getColumn())
      return emitOpError("expected no column, as the result is a vector of columns: ") << result;
    int64_t rows = result.getDimSize(0), columns = source.getColumns();
    SmallVector<int64_t> shape{1, rows};
    if (getColumn()) {
      if (*getColumn() < 0 || *getColumn() >= columns)
        return emitOpError("expected a column of the source's ")
               << columns << ", got " << *getColumn();
      shape = {rows, columns};
    }
    auto expected =
        SmemType::get(getContext(), shape, result.getElementType(), SmemLayout::Linear);
    if (source == expected)
      return success();
    return emitOpError("expected a source of type ") << expected << ", got " << source;
  }
  SmallVector<int64_t> shape(result.getShape());
  if (getColumn()) { // (C3)
    if (!endsWithin(*getColumn(), shape[1], source))
      return emitOpError("expected columns from a multiple of ")
             << kWgmmaDepth << " within the source's " << source.getColumns() << ", got "
             << *getColumn() << " of " << result;
    shape[1] = source.getColumns();
  }
  if (source.getLayout() != SmemLayout::Swizzle128 || source.getShape() != ArrayRef(shape) ||
      source.getElementType() != result.getElementType() || getColumnSplit(result) != 1 ||
      result.getDimSize(1) % kWgmmaDepth != 0) // (C1)
    return emitOpError("expected a swizzle128 source of the shape and element type of a fragment "
                       "that is not split, columns a multiple of ")
           << kWgmmaDepth << ", got " << source << " and " << result;
  return success();
}

LogicalResult ZeroRowsOp::verify() {
  if (getTarget().getType().getLayout() == SmemLayout::Swizzle128) // (C1)
    return success();
  return emitOpError("expected a swizzle128 target, got ") << getTarget().getType();
}

LogicalResult StoreStagedOp::verify() {
  auto value = cast<RankedTensorType>(getValue().getType());
  int64_t elementBytes = value.getElementTypeBitWidth() / 8;
  if (getColumnSplit(value) != 1 || (elementBytes != 2 && elementBytes != 4)) // (C1)
    return emitOpError("expected a fragment with column_split 1 of 2- or 4-byte elements, got ")
           << value;
  SmemType scratch = getScratch().getType();
  int64_t rowBytes = scratch.getPanels() * kPanelRowBytes;
  if (scratch.getLayout() != SmemLayout::Swizzle128 || scratch.getRows() != kTileRows ||
      value.getDimSize(1) * elementBytes % rowBytes != 0) // (C2)
    return emitOpError("expected swizzle128 scratch of ")
           << kTileRows << " rows whose bytes divide those of a row of " << value << ", got "
           << scratch;
  auto view = cast<MemRefType>(getView().getType());
  int64_t rank = view.getRank();
  bool hasRows = rank == 2 || (rank == 3 && !view.isDynamicDim(1));
  if (!hasRows || getOffsets().size() != 2 || view.getElementType() != value.getElementType() ||
      view.getStridesAndOffset().first.back() != 1 || view.isDynamicDim(rank - 1)) // (C3)
    return emitOpError("expected a view [rows, constant columns] of ")
           << value.getElementType() << " with innermost stride 1 and two offsets, got " << view;
  std::optional<int64_t> column = getConstantIntValue(getOffsets()[1]);
  int64_t columns = view.getDimSize(rank - 1);
  if (column && *column >= 0 && *column + value.getDimSize(1) <= columns) // (C3)
    return success();
  return emitOpError("expected a constant column from which ")
         << value.getDimSize(1) << " are inside the view's " << columns;
}

LogicalResult ClusterBarrierOp::verify() {
  if (getCluster(*this) > 1) // (C1)
    return success();
  return emitOpError("expected a kernel with a cluster of more than 1 CTA");
}
