//===- Sm90Ops.cpp - verifiers and syntax of sm90 operations ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) … are those of the op descriptions in Sm90Ops.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "mla/Dialect/KernelOp.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Shared checks
//===----------------------------------------------------------------------===//

/// Element type of a memref, a tensor or a shared tile.
static Type getElement(Type type) {
  if (auto smem = dyn_cast<SmemType>(type))
    return smem.getElementType();
  return cast<ShapedType>(type).getElementType();
}

static LogicalResult verifySameElement(Operation *op, Type memory, Type tile) {
  if (getElement(memory) == getElement(tile))
    return success();
  return op->emitOpError("expected the tile's element type to be the view's, ")
         << getElement(memory) << ", got " << getElement(tile);
}

static LogicalResult verifyRank(Operation *op, StringRef what, Type type, int64_t rank) {
  int64_t got = cast<ShapedType>(type).getRank();
  if (got == rank)
    return success();
  return op->emitOpError("expected ") << what << " of rank " << rank << ", got rank " << got;
}

LogicalResult sm90::verifyPool(Operation *op, Type pool, Type tile) {
  if (failed(verifyRank(op, "a pool", pool, 3)))
    return failure();
  if (cast<ShapedType>(pool).isDynamicDim(1))
    return op->emitOpError("expected a static page size (pool dimension 1), got ") << pool;
  return verifySameElement(op, pool, tile);
}

/// The static stride of the last dimension, or `kDynamic`.
static int64_t getColumnStride(Type view) {
  return cast<MemRefType>(view).getStridesAndOffset().first.back();
}

static LogicalResult verifyUnitColumnStride(Operation *op, StringRef why, Type view) {
  if (getColumnStride(view) == 1)
    return success();
  return op->emitOpError() << why << " expects column stride 1, got " << view;
}

/// (C2) and (C3) of the copies.
static LogicalResult verifyVector(Operation *op, int64_t vectorBytes, Type view) {
  int64_t elementBytes = getElement(view).getIntOrFloatBitWidth() / 8;
  if (vectorBytes == elementBytes)
    return success();
  if (vectorBytes != 4 && vectorBytes != 8 && vectorBytes != 16)
    return op->emitOpError("expected vector_bytes 4, 8, 16 or the element's ")
           << elementBytes << ", got " << vectorBytes;
  return verifyUnitColumnStride(op, "a vector of more than one element", view);
}

static LogicalResult verifyPaired(Operation *op, bool paired, Type view) {
  return paired ? verifyUnitColumnStride(op, "'paired'", view) : success();
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     TypeRange argumentTypes, int32_t warpgroups) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name),
                     TypeAttr::get(builder.getFunctionType(argumentTypes, {})));
  state.addAttribute(getWarpgroupsAttrName(state.name), builder.getI32IntegerAttr(warpgroups));
  Block &body = state.addRegion()->emplaceBlock();
  for (Type type : argumentTypes)
    body.addArgument(type, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return mlac::parseKernel<KernelOp>(parser, result);
}

void KernelOp::print(OpAsmPrinter &printer) { mlac::printKernel(*this, printer); }

/// Registers of a thread at launch: as many as let all threads start, in the
/// granule of the hardware.
static int64_t getLaunchRegisters(KernelOp kernel) {
  return llvm::alignDown(kRegisterFile / kernel.getThreads(), kRegisterGranule);
}

/// (C6) and (C7) of a kernel.
static LogicalResult verifyRoles(KernelOp kernel) {
  int64_t registers = 0;
  SmallVector<RoleOp> seen;
  for (RoleOp role : kernel.getBody().front().getOps<RoleOp>()) {
    if (role.getEnd() > kernel.getWarpgroups())
      return role.emitOpError("expected warpgroups within the kernel's ")
             << kernel.getWarpgroups() << ", got " << role.getFirst() << " to " << role.getEnd();
    for (RoleOp other : seen)
      if (role.getFirst() < other.getEnd() && other.getFirst() < role.getEnd())
        return role.emitOpError("expected warpgroups of its own, but '")
               << other.getName() << "' has " << other.getFirst() << " to " << other.getEnd();
    seen.push_back(role);
    registers += kWarpgroupThreads * role.getWarpgroups() *
                 role.getRegisters().value_or(getLaunchRegisters(kernel));
  }
  // What the launch allocates, not the register file: a role that takes more waits for ever.
  int64_t pool = getLaunchRegisters(kernel) * kernel.getThreads();
  if (registers <= pool)
    return success();
  return kernel.emitOpError("expected roles that share ")
         << pool << " registers, got " << registers;
}

LogicalResult KernelOp::verify() {
  if (failed(mlac::verifyKernelSignature(*this))) // (C1)
    return failure();
  int64_t warpgroups = static_cast<int32_t>(getWarpgroups());
  if (warpgroups < 1 || warpgroups > kMaxWarpgroups) // (C3)
    return emitOpError("expected 1 to ") << kMaxWarpgroups << " warpgroups, got " << warpgroups;
  int64_t cluster = static_cast<int32_t>(getClusterSize());
  if (cluster < 1 || cluster > kMaxCluster || !llvm::isPowerOf2_64(cluster)) // (C5)
    return emitOpError("expected a cluster of 1, 2, 4, 8 or ")
           << kMaxCluster << " CTAs, got " << cluster;
  if (std::optional<int64_t> bytes = getSharedBytes())
    if (*bytes < 0 || *bytes > kMaxSharedBytes) // (C8)
      return emitOpError("expected shared_bytes from 0 to ")
             << kMaxSharedBytes << ", got " << *bytes;
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  if (!mlac::endsIn<ReturnOp>(getBody())) // (C2)
    return emitOpError("expected a body that ends in sm90.return");
  WalkResult walk = getBody().walk([&](Operation *op) {
    auto role = op->getParentOfType<RoleOp>();
    int64_t warpgroups = role ? role.getWarpgroups() : static_cast<int32_t>(getWarpgroups());
    for (Type type : op->getResultTypes()) {
      if (!isFragment(type) || getColumnSplit(type) <= warpgroups)
        continue;
      op->emitOpError("expected a column_split of at most the ")
          << (role ? "role's " : "kernel's ") << warpgroups << " warpgroups, got "
          << getColumnSplit(type); // (C4)
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  return verifyRoles(*this);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

LogicalResult AllocOp::verify() {
  std::optional<int64_t> offset = getOffset();
  int64_t alignment = getResult().getType().getAlignment();
  if (!offset || (*offset >= 0 && *offset % alignment == 0)) // (C1)
    return success();
  return emitOpError("expected an offset that is a multiple of ")
         << alignment << ", got " << *offset;
}

LogicalResult SliceOp::verify() {
  SmemType source = getSource().getType();
  SmemType result = getResult().getType();
  if (source.getLayout() != SmemLayout::Swizzle128 || result.getLayout() != source.getLayout() ||
      result.getRows() != source.getRows() ||
      result.getPanelColumns() != source.getPanelColumns()) // (C1)
    return emitOpError("expected swizzle128 tiles of the same rows and width of elements, got ")
           << source << " and " << result;
  int64_t column = getColumn(), panel = source.getPanelColumns();
  if (column % panel != 0) // (C2)
    return emitOpError("expected a first column that is a multiple of ")
           << panel << ", got " << column;
  if (column + result.getColumns() > source.getColumns()) // (C2)
    return emitOpError("expected columns within the source's ")
           << source.getColumns() << ", got " << column << " to " << column + result.getColumns();
  return success();
}

/// Threads store operands of 16 bits only: codes are copied.
static LogicalResult verifyNoCodes(Operation *op, SmemType target) {
  if (target.getLayout() != SmemLayout::Swizzle128 || target.getPanelColumns() == kPanelColumns)
    return success();
  return op->emitOpError("expected elements of 16 bits in a swizzle128 target, got ") << target;
}

/// Of a view of as many dimensions as the tile has, `rank`, or one more for rows in groups.
static LogicalResult verifyGroups(Operation *op, MemRefType view, int64_t rank) {
  if (view.getRank() != rank + 1)
    return verifyRank(op, "a view", view, rank);
  if (view.isDynamicDim(1))
    return op->emitOpError("expected groups of a static size (view dimension 1), got ") << view;
  return success();
}

LogicalResult CopyOp::verify() {
  if (failed(verifyGroups(*this, getView().getType(), 2)))
    return failure(); // (C1)
  if (getOffsets().size() != 2)
    return emitOpError("expected 2 offsets, got ") << getOffsets().size();
  if (failed(verifySameElement(*this, getView().getType(), getTarget().getType())))
    return failure(); // (C1)
  return verifyVector(*this, getVectorBytes(), getView().getType());
}

/// (C1) of what loads or copies rows by a list: rows, or rows of pages.
static LogicalResult verifyListed(Operation *op, MemRefType view, Type tile) {
  if (view.getRank() == 3)
    return verifyPool(op, view, tile);
  if (failed(verifyRank(op, "a view", view, 2)))
    return failure();
  return verifySameElement(op, view, tile);
}

LogicalResult CopyRowsOp::verify() {
  if (failed(verifyListed(*this, getView().getType(), getTarget().getType())))
    return failure(); // (C1)
  return verifyVector(*this, getVectorBytes(), getView().getType());
}

LogicalResult HasGapOp::verify() {
  constexpr int64_t lanes = kWarpgroupThreads / kWarpgroupWarps;
  if (getBlock() > 0 && getBlock() % lanes == 0) // (C1)
    return success();
  return emitOpError("expected a block of a positive multiple of ")
         << lanes << " entries, got " << getBlock();
}

LogicalResult CopyPagedOp::verify() {
  if (failed(verifyPool(*this, getPool().getType(), getTarget().getType())))
    return failure(); // (C1)
  return verifyVector(*this, getVectorBytes(), getPool().getType());
}

bool sm90::endsWithin(int64_t column, int64_t columns, SmemType tile) {
  return column >= 0 && column % kWgmmaDepth == 0 && column + columns <= tile.getColumns();
}

/// Warpgroups that execute `op`: those of its role or of the kernel.
static int64_t getExecutingWarpgroups(Operation *op) {
  if (auto role = op->getParentOfType<RoleOp>())
    return role.getWarpgroups();
  auto kernel = op->getParentOfType<KernelOp>();
  return kernel ? kernel.getWarpgroups() : 1;
}

LogicalResult StoreSharedOp::verify() {
  auto value = cast<RankedTensorType>(getValue().getType());
  SmemType target = getTarget().getType();
  if (isRows(value) || isColumns(value)) {
    auto expected = SmemType::get(getContext(), {1, value.getDimSize(0)}, value.getElementType(),
                                  SmemLayout::Linear);
    if (getTransposed()) // (C2)
      return emitOpError("'transposed' expects a fragment, got ") << value;
    if (isColumns(value) && getExecutingWarpgroups(*this) != 1) // (C2)
      return emitOpError("expected one warpgroup to store columns, got ")
             << getExecutingWarpgroups(*this);
    if (target == expected) // (C2)
      return success();
    return emitOpError("expected a target of type ") << expected << ", got " << target;
  }
  if (failed(verifyNoCodes(*this, target))) // (C1)
    return failure();
  SmallVector<int64_t> shape(value.getShape());
  if (getTransposed())
    std::swap(shape[0], shape[1]);
  if (getColumn()) { // (C4)
    if (getTransposed() || !endsWithin(*getColumn(), shape[1], target))
      return emitOpError("expected columns from a multiple of ")
             << kWgmmaDepth << " within the target's " << target.getColumns()
             << " and no 'transposed', got " << *getColumn() << " of " << value;
    shape[1] = target.getColumns();
  }
  if (target.getLayout() != SmemLayout::Swizzle128 || ArrayRef(shape) != target.getShape() ||
      value.getElementType() != target.getElementType()) // (C1)
    return emitOpError("expected a swizzle128 target [")
           << shape << "] of " << value.getElementType() << ", got " << target;
  if (getTransposed() && getColumnSplit(value) != 1) // (C3)
    return emitOpError("'transposed' expects a column_split of 1, got ") << getColumnSplit(value);
  return success();
}

//===----------------------------------------------------------------------===//
// WgmmaOp
//===----------------------------------------------------------------------===//

/// Shape [rows, columns] of a shared tile or a tensor.
static std::pair<int64_t, int64_t> getShape2D(Type type) {
  if (auto smem = dyn_cast<SmemType>(type))
    return {smem.getRows(), smem.getColumns()};
  auto tensor = cast<RankedTensorType>(type);
  return {tensor.getDimSize(0), tensor.getDimSize(1)};
}

int64_t WgmmaOp::getDepth() {
  auto [rows, columns] = getShape2D(getLhs().getType());
  return getTransposeLhs() ? rows : columns;
}

/// (C1) and (C5): what the operands are made of.
static LogicalResult verifyWgmmaOperands(WgmmaOp op) {
  Type lhs = op.getLhs().getType();
  SmemType rhs = op.getRhs().getType();
  auto lhsTile = dyn_cast<SmemType>(lhs);
  if ((lhsTile && lhsTile.getLayout() != SmemLayout::Swizzle128) ||
      rhs.getLayout() != SmemLayout::Swizzle128 || getElement(lhs) != rhs.getElementType()) // (C1)
    return op.emitOpError("expected swizzle128 tiles of one element type, got ")
           << lhs << " and " << rhs;
  bool isOfCodes = isa<Float8E4M3FNType>(rhs.getElementType());
  if (isOfCodes && (!lhsTile || op.getTransposeLhs() || !op.getTransposeRhs())) // (C1)
    return op.emitOpError("expected codes in shared tiles, with 'transpose_rhs' and without "
                          "'transpose_lhs', got ")
           << lhs << " and " << rhs;
  if (lhsTile)
    return success();
  if (op.getTransposeLhs() || getColumnSplit(lhs) != 1) // (C5)
    return op.emitOpError(
               "expected a fragment lhs with column_split 1 and no 'transpose_lhs', got ")
           << lhs;
  return success();
}

LogicalResult WgmmaOp::verify() {
  if (failed(verifyWgmmaOperands(*this)))
    return failure();
  SmemType rhs = getRhs().getType();
  auto acc = cast<RankedTensorType>(getAcc().getType());
  auto [lhsRows, lhsColumns] = getShape2D(getLhs().getType());
  int64_t depth = getDepth(), rows = getTransposeLhs() ? lhsColumns : lhsRows;
  int64_t rhsDepth = getTransposeRhs() ? rhs.getColumns() : rhs.getRows();
  int64_t columns = getTransposeRhs() ? rhs.getRows() : rhs.getColumns();
  if (rows != kTileRows || !acc.getElementType().isF32() || acc.getDimSize(1) != columns) // (C2)
    return emitOpError("expected lhs ")
           << (getTransposeLhs() ? "[K, " : "[") << kTileRows << (getTransposeLhs() ? "]" : ", K]")
           << " and an f32 accumulator [" << kTileRows << ", " << columns << "], got "
           << getLhs().getType() << " and " << acc;
  if (depth != rhsDepth) // (C2)
    return emitOpError("expected equal contraction widths, got lhs ")
           << depth << " and rhs " << rhsDepth;
  if (int64_t step = getWgmmaDepth(rhs.getElementType()); depth % step != 0) // (C3)
    return emitOpError("expected a contraction width that is a multiple of ")
           << step << ", got " << depth;
  int64_t split = getColumnSplit(acc);
  int64_t part = columns / split;
  if (part > kMaxWgmmaColumns) // (C3)
    return emitOpError("expected at most ")
           << kMaxWgmmaColumns << " columns per warpgroup, got " << part;
  if (split > 1 && !getTransposeRhs() && part % kPanelColumns != 0) // (C4)
    return emitOpError("expected whole panels of ")
           << kPanelColumns << " columns per warpgroup of a split [K, N] rhs, got " << part;
  return success();
}

//===----------------------------------------------------------------------===//
// Fragments and global memory
//===----------------------------------------------------------------------===//

/// (C1) and (C2) of dense loads and stores.
static LogicalResult verifyDense(Operation *op, MemRefType view, Type tile, int64_t offsets,
                                 bool paired) {
  int64_t rank = cast<ShapedType>(tile).getRank();
  if (failed(verifyGroups(op, view, rank)))
    return failure();  // (C1)
  if (offsets != rank) // (C1)
    return op->emitOpError("expected ") << rank << " offsets, got " << offsets;
  if (paired && rank != 2) // (C2)
    return op->emitOpError("'paired' expects a tile of rank 2, got rank ") << rank;
  if (failed(verifySameElement(op, view, tile)))
    return failure(); // (C1)
  return verifyPaired(op, paired, view);
}

LogicalResult LoadOp::verify() {
  return verifyDense(*this, getView().getType(), getResult().getType(), getOffsets().size(),
                     getPaired());
}

LogicalResult StoreOp::verify() {
  if (isPartial(getValue().getType())) // (C4)
    return emitOpError("expected a reduced value, got ") << getValue().getType();
  if (getTransposed() && (getPaired() || getOffsets().size() != 2)) // (C2), (C3)
    return emitOpError("'transposed' expects a tile of rank 2 that is not 'paired'");
  return verifyDense(*this, getView().getType(), getValue().getType(), getOffsets().size(),
                     getPaired());
}

static LogicalResult verifyPairs(Operation *op, MemRefType view, Value first, Value second,
                                 size_t offsets) {
  auto type = cast<RankedTensorType>(first.getType());
  if (failed(verifyDense(op, view, type, offsets, /*paired=*/false)))
    return failure();
  int64_t stride = view.getStridesAndOffset().first.back();
  if (stride != 2) // (C1)
    return op->emitOpError("expected a view with column stride 2, got ") << view;
  if (!isFragment(type) || second.getType() != type) // (C2)
    return op->emitOpError("expected two fragments of one type, got ")
           << type << " and " << second.getType();
  return success();
}

LogicalResult LoadPairsOp::verify() {
  return verifyPairs(*this, getView().getType(), getFirst(), getSecond(), getOffsets().size());
}

LogicalResult StorePairsOp::verify() {
  return verifyPairs(*this, getView().getType(), getFirst(), getSecond(), getOffsets().size());
}

LogicalResult LoadRowsOp::verify() {
  if (failed(verifyListed(*this, getView().getType(), getResult().getType())))
    return failure(); // (C1)
  return verifyPaired(*this, getPaired(), getView().getType());
}

LogicalResult LoadPagedOp::verify() {
  if (failed(verifyPool(*this, getPool().getType(), getResult().getType())))
    return failure(); // (C1)
  return verifyPaired(*this, getPaired(), getPool().getType());
}

LogicalResult LoadElementsOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (failed(verifyRank(*this, "a view", getView().getType(), getIndices().size())))
    return failure(); // (C1)
  Type expected = result.clone(IntegerType::get(getContext(), 32));
  for (Value index : getIndices())
    if (index.getType() != expected) // (C1)
      return emitOpError("expected indices of type ") << expected << ", got " << index.getType();
  return verifySameElement(*this, getView().getType(), result); // (C2)
}

LogicalResult StoreSlotsOp::verify() {
  if (failed(verifyPool(*this, getPool().getType(), getValue().getType())))
    return failure(); // (C1)
  return verifyPaired(*this, getPaired(), getPool().getType());
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// What a reduction from `source` goes through, null if it needs no scratch.
static SmemType getReduceScratch(ReduceOp op) {
  auto source = cast<RankedTensorType>(op.getSource().getType());
  auto linear = [&](int64_t rows, int64_t columns) {
    return SmemType::get(op.getContext(), {rows, columns}, Float32Type::get(op.getContext()),
                         SmemLayout::Linear);
  };
  if (op.getDim() == 0)
    return linear(kWarpgroupWarps, source.getDimSize(1));
  int64_t split = isFragment(source) ? getColumnSplit(source) : 1;
  return split > 1 ? linear(split, kTileRows) : SmemType();
}

LogicalResult ReduceOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  bool isSupported =
      getDim() == 0
          ? isFragment(source) && isColumns(result) && result.getDimSize(0) == source.getDimSize(1)
          : !isColumns(result) && !(isPartial(source) && isPartial(result));
  if (!source.getElementType().isF32() || !result.getElementType().isF32() || !isSupported) // (C1)
    return emitOpError("expected an f32 source and result of dimension ")
           << getDim() << ", got " << source << " and " << result;
  bool needsWhole = isPartial(result) || getDim() == 0;
  if (needsWhole && getColumnSplit(source) != 1) // (C1), (C3)
    return emitOpError("expected a source with column_split 1, got ") << source;
  if (getDim() == 0 && getExecutingWarpgroups(*this) != 1) // (C4)
    return emitOpError("expected one warpgroup to reduce columns, got ")
           << getExecutingWarpgroups(*this);
  SmemType expected = getReduceScratch(*this);
  if (!expected) { // (C2)
    if (getScratch())
      return emitOpError("expected no scratch for a source that is not split");
    return success();
  }
  if (!getScratch()) // (C2)
    return emitOpError("expected a scratch of type ") << expected << ", got none";
  if (getScratch().getType() != expected) // (C2)
    return emitOpError("expected a scratch of type ")
           << expected << ", got " << getScratch().getType();
  return success();
}

void ReduceOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (!getScratch())
    return;
  effects.emplace_back(MemoryEffects::Write::get(), &getScratchMutable()[0]);
  effects.emplace_back(MemoryEffects::Read::get(), &getScratchMutable()[0]);
}

LogicalResult SumGroupsOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  if (!source.getElementType().isF32()) // (C1)
    return emitOpError("expected rows of f32, got ") << source;
  int64_t size = getSize();
  if (size < 2 || size > kWarpRows || !llvm::isPowerOf2_64(size)) // (C2)
    return emitOpError("expected groups of 2, 4, 8 or ") << kWarpRows << " rows, got " << size;
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (source.getElementType() != result.getElementType()) // (C1)
    return emitOpError("expected one element type, got ") << source << " and " << result;
  if (isColumns(source) && (!isFragment(result) || getColumnSplit(result) != 1 ||
                            result.getDimSize(1) != source.getDimSize(0))) // (C2)
    return emitOpError("expected a column vector to fill a fragment of as many columns, got ")
           << source << " and " << result;
  return success();
}

LogicalResult TestBitsOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  constexpr int64_t bits = 32;
  auto count = static_cast<int64_t>(getWords().size());
  if (!result.getElementType().isInteger(1) || getColumnSplit(result) != 1 ||
      result.getDimSize(1) != bits * count) // (C1)
    return emitOpError("expected a fragment of i1 with column_split 1 and ")
           << bits << " columns for each of " << count << " words, got " << result;
  for (Value word : getWords())
    if (!cast<RankedTensorType>(word.getType()).getElementType().isInteger(bits)) // (C1)
      return emitOpError("expected rows of i32, got ") << word.getType();
  return success();
}

LogicalResult TakeColumnsOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (source.getElementType() != result.getElementType()) // (C1)
    return emitOpError("expected one element type, got ") << source << " and " << result;
  if (getColumnSplit(source) != 1 || getColumnSplit(result) != 1) // (C2)
    return emitOpError("expected fragments with column_split 1, got ")
           << source << " and " << result;
  int64_t first = getFirst(), columns = source.getDimSize(1);
  if (first % kColumnGroup == 0 && first >= 0 && first + result.getDimSize(1) <= columns) // (C3)
    return success();
  return emitOpError("expected ") << result.getDimSize(1) << " of " << columns
                                  << " columns from a multiple of " << kColumnGroup << " on, got "
                                  << first;
}

LogicalResult IotaOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (result.getElementType().isInteger(32) && getDim() < result.getRank()) // (C1)
    return success();
  return emitOpError("expected an i32 tile with a dimension ") << getDim() << ", got " << result;
}

LogicalResult SplatOp::verify() {
  Type element = getElement(getResult().getType());
  if (getSource().getType() == element) // (C1)
    return success();
  return emitOpError("expected a scalar of type ") << element << ", got " << getSource().getType();
}

#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90Ops.cpp.inc"
