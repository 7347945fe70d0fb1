//===- PagedTiles.cpp - blocks of a paged cache in shared memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/PagedTiles.h"

#include "Common/Divisibility.h"
#include "Common/RoleKernel.h"
#include "Common/ScheduleBuilder.h"

#include "mla/Dialect/Sm90/IR/HostValue.h"
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

/// Whether what is known of where its rows begin is what TMA may read; the runtime checks the rest.
static bool areKnownAligned(ArrayRef<OpFoldResult> extents, Type element) {
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  return llvm::all_of(extents, [&](OpFoldResult extent) {
    return getConstantIntValue(extent).value_or(0) * bytes % sm90::kTmaAlignment == 0;
  });
}

bool mlac::canMapView(Value view) {
  auto cast = view.getDefiningOp<memref::ReinterpretCastOp>();
  if (!cast || !sm90::isKernelArgument(cast.getSource()) ||
      cast.getType().getStridesAndOffset().first.back() != 1)
    return false;
  Type element = cast.getType().getElementType();
  if (!areKnownAligned(cast.getMixedOffsets(), element) ||
      !areKnownAligned(ArrayRef(cast.getMixedStrides()).drop_back(), element))
    return false;
  return llvm::all_of(cast.getMixedOffsets(), sm90::isHostValue) &&
         llvm::all_of(cast.getMixedSizes(), sm90::isHostValue) &&
         llvm::all_of(cast.getMixedStrides(), sm90::isHostValue);
}

/// Of a view of the new kernel.
static Value createMapOf(OpBuilder &builder, Value view, int64_t rows, int64_t columns) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  auto type = sm90::TensorMapType::get(builder.getContext(), rows, columns, element);
  return sm90::TensorMapOp::create(builder, view.getLoc(), type, view);
}

Value mlac::createTensorMap(OpBuilder &builder, LazyCloner &cloner, Value view, int64_t rows,
                            int64_t columns) {
  return createMapOf(builder, cloner.get(view), rows, columns);
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

namespace {
/// A view of one head's columns of rows of several, of which the program says which. Where boxes
/// are of the head's columns alone, a map has the rows whole and copies say the column; else heads
/// are a dimension, behind whose columns a box has zeros.
struct HeadColumns {
  Value head;
  int64_t stride;   // columns from one head to the next
  int64_t start;    // of the first head's, from the pool's
  int64_t rowWidth; // of all heads
  int64_t width;    // of one
  bool isDimension;
};
} // namespace

/// Whether a head's columns are whole panels, or of codes half of one, whose box is as wide.
static bool hasWholeBoxes(int64_t width, Type element) {
  return width % sm90::getPanelColumns(element) == 0 || width == sm90::kPanelColumns;
}

/// Whether heads can be a dimension of a map: they begin where TMA may, and are no codes, whose
/// consumers turn whole panels.
static bool canBeDimension(int64_t stride, Type element) {
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  return bytes > 1 && stride * bytes % sm90::kTmaAlignment == 0;
}

/// `head · stride + start`.
static std::optional<HeadColumns> matchHead(Value view) {
  auto cast = view.getDefiningOp<memref::ReinterpretCastOp>();
  if (!cast || cast.getType().getRank() != 3)
    return std::nullopt;
  auto offset = dyn_cast<Value>(cast.getMixedOffsets().front());
  HeadColumns found{{}, 0, 0, 0, 0, false};
  if (auto sum = offset ? offset.getDefiningOp<arith::AddIOp>() : arith::AddIOp()) {
    std::optional<int64_t> start = getConstantIntValue(sum.getRhs());
    if (!start)
      return std::nullopt;
    found.start = *start;
    offset = sum.getLhs();
  }
  auto product = offset ? offset.getDefiningOp<arith::MulIOp>() : arith::MulIOp();
  std::optional<int64_t> stride = product ? getConstantIntValue(product.getRhs()) : std::nullopt;
  std::optional<int64_t> rowWidth = getConstantIntValue(cast.getMixedStrides()[1]);
  std::optional<int64_t> width = getConstantIntValue(cast.getMixedSizes()[2]);
  if (!stride || !rowWidth || !width || *stride <= 0 || *rowWidth % *stride != 0 ||
      *width > *stride)
    return std::nullopt;
  Type element = cast.getType().getElementType();
  found.isDimension = !hasWholeBoxes(*width, element);
  if (found.isDimension && !canBeDimension(*stride, element))
    return std::nullopt;
  found.head = product.getLhs();
  found.stride = *stride;
  found.rowWidth = *rowWidth;
  found.width = *width;
  return found;
}

/// The view with all heads.
static Value viewHeads(OpBuilder &builder, LazyCloner &cloner, Value view,
                       const HeadColumns &heads) {
  auto cast = view.getDefiningOp<memref::ReinterpretCastOp>();
  SmallVector<OpFoldResult> sizes = cast.getMixedSizes(), strides = cast.getMixedStrides();
  if (heads.isDimension) {
    sizes.insert(sizes.begin(), builder.getIndexAttr(heads.rowWidth / heads.stride));
    strides.insert(strides.begin(), builder.getIndexAttr(heads.stride));
  } else {
    sizes.back() = builder.getIndexAttr(heads.rowWidth);
  }
  for (SmallVector<OpFoldResult> *extents : {&sizes, &strides})
    for (OpFoldResult &extent : *extents)
      if (auto value = dyn_cast<Value>(extent))
        extent = cloner.get(value);
  return memref::ReinterpretCastOp::create(builder, view.getLoc(), cloner.get(cast.getSource()),
                                           builder.getIndexAttr(heads.start), sizes, strides);
}

static bool canMapPages(Value pool) {
  if (canMapView(pool))
    return true;
  auto cast = pool.getDefiningOp<memref::ReinterpretCastOp>();
  return matchHead(pool) && sm90::isKernelArgument(cast.getSource()) &&
         cast.getType().getStridesAndOffset().first.back() == 1 &&
         llvm::all_of(cast.getMixedSizes(), sm90::isHostValue) &&
         llvm::all_of(cast.getMixedStrides(), sm90::isHostValue);
}

//===----------------------------------------------------------------------===//
// Paged tiles
//===----------------------------------------------------------------------===//

static int64_t getPageSize(Value pool) { return cast<MemRefType>(pool.getType()).getDimSize(1); }
static int64_t getPageSize(tile::LoadPagedOp load) { return getPageSize(load.getPool()); }

int64_t PagedTiles::getBoxRows(Value pool, int64_t block) {
  int64_t page = getPageSize(pool), rows = std::min(page, block);
  bool fits = page % rows == 0 && block % rows == 0 && rows % sm90::kSwizzleRows == 0;
  return fits && canMapPages(pool) ? rows : 0;
}

int64_t PagedTiles::getBoxRows(Operation *op) {
  auto load = dyn_cast<tile::LoadPagedOp>(op);
  if (!load)
    return 0;
  bool isWhole = matchPattern(load.getColumn(), m_Zero());
  return isWhole ? getBoxRows(load.getPool(), load.getType().getDimSize(0)) : 0;
}

static int64_t getPanelColumns(tile::LoadPagedOp load) {
  return sm90::getPanelColumns(load.getType().getElementType());
}

static int64_t getElementBytes(tile::LoadPagedOp load) {
  return load.getType().getElementTypeBitWidth() / 8;
}

PagedTiles::PagedTiles(OpBuilder &builder, LazyCloner &cloner, tile::LoadPagedOp load,
                       int64_t columns, int64_t block)
    : load(load), block(block ? block : load.getType().getDimSize(0)),
      boxRows(getBoxRows(load.getPool(), this->block)) {
  std::optional<HeadColumns> heads = matchHead(load.getPool());
  Value view =
      heads ? viewHeads(builder, cloner, load.getPool(), *heads) : cloner.get(load.getPool());
  int64_t panel = getPanelColumns(load);
  if (heads && !heads->isDimension)
    panel = std::min(panel, heads->width);
  map = createMapOf(builder, view, boxRows, columns && countBoxes() == 1 ? columns : panel);
  if (int64_t rest = heads && heads->isDimension ? heads->width % panel : 0;
      rest * getElementBytes(load) % sm90::kTmaAlignment == 0 && rest != 0)
    restMap = createMapOf(builder, view, boxRows, rest);
}

int64_t PagedTiles::countBoxes() const { return block / boxRows; }

int64_t PagedTiles::countBytes(Value target) const {
  auto type = cast<sm90::TensorMapType>(map.getType());
  return countBoxes() * type.countBytes(cast<sm90::SmemType>(target.getType()));
}

void PagedTiles::hoist(LazyCloner &cloner) const {
  (void)cloner.get(load.getTable());
  (void)cloner.get(load.getLimit());
  if (std::optional<HeadColumns> heads = matchHead(load.getPool()))
    (void)cloner.get(heads->head);
}

PagedTiles::Block PagedTiles::find(OpBuilder &builder, LazyCloner &cloner, bool isInside) const {
  Location loc = load.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  int64_t page = getPageSize(load);
  Value table = cloner.get(load.getTable());
  Value limit = isInside ? Value() : cloner.get(load.getLimit()), key = cloner.get(load.getToken());
  auto add = [&](Value value, int64_t more) {
    return more == 0 ? value : Value(arith::AddIOp::create(builder, loc, value, constant(more)));
  };
  // Tokens are not negative, and unsigned division by powers of two is a shift.
  auto toEntry = [&](Value token) -> Value {
    return arith::DivUIOp::create(builder, loc, token, constant(page));
  };
  Value last = isInside
                   ? Value()
                   : arith::MaxSIOp::create(builder, loc,
                                            arith::SubIOp::create(builder, loc, limit, constant(1)),
                                            constant(0));
  Value firstEntry = isInside ? toEntry(key) : Value();
  Block found;
  if (std::optional<HeadColumns> heads = matchHead(load.getPool())) {
    Value head = cloner.get(heads->head);
    if (heads->isDimension)
      found.head = head;
    else
      found.column = arith::MulIOp::create(builder, loc, head, constant(heads->stride));
  }
  for (int64_t first = 0; first < block; first += boxRows) {
    // Several boxes are whole pages.
    Value entry = isInside ? add(firstEntry, first / page)
                           : toEntry(arith::MinSIOp::create(builder, loc, add(key, first), last));
    Value number = memref::LoadOp::create(builder, loc, table, entry);
    found.pages.push_back(arith::IndexCastOp::create(builder, loc, builder.getIndexType(), number));
  }
  found.row = page == boxRows ? constant(0)
                              : Value(arith::RemUIOp::create(builder, loc, key, constant(page)));
  return found;
}

void PagedTiles::copyBoxes(OpBuilder &builder, Location loc, Value boxes, const Block &block,
                           int64_t column, Value target, Value ring, Value stage,
                           int32_t part) const {
  Value first = arith::ConstantIndexOp::create(builder, loc, column);
  if (block.column)
    first = builder.createOrFold<arith::AddIOp>(loc, block.column, first);
  for (auto [index, page] : llvm::enumerate(block.pages)) {
    SmallVector<Value, 4> coordinates = {page, block.row, first};
    if (block.head)
      coordinates.insert(coordinates.begin(), block.head);
    sm90::TmaLoadOp::create(builder, loc, boxes, coordinates, target, ring, stage, part,
                            static_cast<int64_t>(index) * boxRows, IntegerAttr());
  }
}

void PagedTiles::copy(OpBuilder &builder, Location loc, const Block &block, int64_t column,
                      Value target, Value ring, Value stage, int32_t part) const {
  copyBoxes(builder, loc, map, block, column, target, ring, stage, part);
}

/// The target's columns are the head's, from a panel on, up to the head's last panel or to a panel.
PagedTiles::Ends PagedTiles::split(Value target) const {
  auto type = cast<sm90::SmemType>(target.getType());
  int64_t panel = type.getPanelColumns(), whole = (type.getPanels() - 1) * panel;
  auto of = [&](int64_t columns) {
    return getSharedType({type.getRows(), columns}, type.getElementType());
  };
  return {whole == 0 ? sm90::SmemType() : of(whole),
          of(cast<sm90::TensorMapType>(restMap.getType()).getColumns())};
}

int64_t PagedTiles::countBytesAgain(Value target) const {
  Ends ends = split(target);
  auto bytesOf = [&](Value boxes, sm90::SmemType type) {
    return type ? countBoxes() * cast<sm90::TensorMapType>(boxes.getType()).countBytes(type) : 0;
  };
  return bytesOf(map, ends.whole) + bytesOf(restMap, ends.rest);
}

void PagedTiles::copyAgain(OpBuilder &builder, Location loc, const Block &block, int64_t column,
                           Value target, Value ring, Value stage, int32_t part) const {
  Ends ends = split(target);
  int64_t whole = ends.whole ? ends.whole.getColumns() : 0;
  auto slice = [&](sm90::SmemType type, int64_t first) {
    return sm90::SliceOp::create(builder, loc, type, target, first);
  };
  if (ends.whole)
    copyBoxes(builder, loc, map, block, column, slice(ends.whole, 0), ring, stage, part);
  copyBoxes(builder, loc, restMap, block, column + whole, slice(ends.rest, whole), ring, stage,
            part);
}

/// Of a load's view from its own column on, and of the tile's column: as wide as both allow.
static int32_t chooseRowVector(OpBuilder &builder, Value view, Value first, int64_t column) {
  return static_cast<int32_t>(std::min(chooseVectorBytes(view, first),
                                       chooseVectorBytes(view, builder.getIndexAttr(column))));
}

void mlac::copyKeyRows(OpBuilder &builder, LazyCloner &cloner, Operation *op, int64_t column,
                       Value target) {
  Location loc = op->getLoc();
  auto moveColumn = [&](Value first) {
    if (column == 0)
      return first;
    return builder.createOrFold<arith::AddIOp>(
        loc, first, arith::ConstantIndexOp::create(builder, loc, column));
  };
  if (auto load = dyn_cast<tile::LoadRowsOp>(op)) {
    Value first = moveColumn(cloner.get(load.getColumn()));
    sm90::CopyRowsOp::create(builder, loc, cloner.get(load.getView()),
                             cloner.get(load.getIndices()), cloner.get(load.getFirst()), first,
                             target,
                             chooseRowVector(builder, load.getView(), load.getColumn(), column));
    return;
  }
  auto load = cast<tile::LoadPagedOp>(op);
  Value first = moveColumn(cloner.get(load.getColumn()));
  int32_t vectorBytes = chooseRowVector(builder, load.getPool(), load.getColumn(), column);
  sm90::CopyPagedOp::create(builder, loc, cloner.get(load.getPool()), cloner.get(load.getTable()),
                            cloner.get(load.getToken()), first, cloner.get(load.getLimit()), target,
                            vectorBytes);
}

//===----------------------------------------------------------------------===//
// Scales of codes
//===----------------------------------------------------------------------===//

/// Of the rows that a list names.
static Value loadListedScales(ImplicitLocOpBuilder &b, LazyCloner &cloner, tile::LoadRowsOp load) {
  auto getRows = [](Type element) {
    return cast<ShapedType>(convertRoleType(RankedTensorType::get({sm90::kTileRows}, element)));
  };
  ShapedType type = getRows(b.getI32Type());
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getI32IntegerAttr(value)));
  };
  Value list = cloner.get(load.getIndices()), first = cloner.get(load.getFirst());
  Value entries = sm90::LoadOp::create(b, type, list, first, /*paired=*/false);
  // Behind the list's end a load gives 0, which would be a row.
  Value end = memref::DimOp::create(b, list, 0);
  Value room = arith::IndexCastOp::create(b, b.getI32Type(), arith::SubIOp::create(b, end, first));
  Value isInside =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, sm90::IotaOp::create(b, type, 0),
                            sm90::SplatOp::create(b, type, room));
  Value row = arith::SelectOp::create(b, isInside, entries, constant(-1));
  return sm90::LoadElementsOp::create(b, getRows(b.getF32Type()), cloner.get(load.getView()),
                                      ValueRange{row, constant(0)});
}

Value mlac::loadRowScales(ImplicitLocOpBuilder &b, LazyCloner &cloner, Operation *op) {
  if (auto listed = dyn_cast<tile::LoadRowsOp>(op))
    return loadListedScales(b, cloner, listed);
  auto load = cast<tile::LoadPagedOp>(op);
  Type type =
      convertRoleType(RankedTensorType::get({sm90::kTileRows}, load.getType().getElementType()));
  return sm90::LoadCodeScalesOp::create(b, type, cloner.get(load.getPool()),
                                        cloner.get(load.getTable()), cloner.get(load.getToken()),
                                        cloner.get(load.getColumn()), cloner.get(load.getLimit()));
}

static memref::ReinterpretCastOp findView(Value view) {
  while (auto cast = view.getDefiningOp<memref::CastOp>())
    view = cast.getSource();
  return view.getDefiningOp<memref::ReinterpretCastOp>();
}

/// Bytes of a row of `groups` scales that one copy may move: the kernel's arguments, which its rows
/// begin at, are aligned.
static int32_t chooseScaleVector(memref::ReinterpretCastOp view, int64_t groups) {
  int64_t divisor = std::min(getKnownDivisor(groups), getKnownDivisor(view.getMixedOffsets()[0]));
  for (OpFoldResult stride : ArrayRef(view.getMixedStrides()).drop_back())
    divisor = std::min(divisor, getKnownDivisor(stride));
  int64_t bytes = view.getType().getElementTypeBitWidth() / 8;
  return static_cast<int32_t>(std::min(divisor * bytes, sm90::kChunkBytes));
}

/// Of the view that repeats the first group's scale, the one with a column for each group.
static Value viewScales(ImplicitLocOpBuilder &b, LazyCloner &cloner,
                        memref::ReinterpretCastOp view, int64_t groups) {
  auto convert = [&](OpFoldResult extent) {
    auto value = dyn_cast<Value>(extent);
    return value ? OpFoldResult(cloner.get(value)) : extent;
  };
  SmallVector<OpFoldResult> sizes = llvm::map_to_vector(view.getMixedSizes(), convert);
  SmallVector<OpFoldResult> strides = llvm::map_to_vector(view.getMixedStrides(), convert);
  sizes.back() = b.getIndexAttr(groups);
  strides.back() = b.getIndexAttr(1);
  return memref::ReinterpretCastOp::create(b, cloner.get(view.getSource()),
                                           convert(view.getMixedOffsets().front()), sizes, strides);
}

void mlac::copyRowScales(ImplicitLocOpBuilder &b, LazyCloner &cloner, Operation *op,
                         Value target) {
  int64_t groups = cast<sm90::SmemType>(target.getType()).getColumns();
  Value first = arith::ConstantIndexOp::create(b, 0);
  auto listed = dyn_cast<tile::LoadRowsOp>(op);
  memref::ReinterpretCastOp view =
      findView(listed ? listed.getView() : cast<tile::LoadPagedOp>(op).getPool());
  int32_t vectorBytes = chooseScaleVector(view, groups);
  Value scales = viewScales(b, cloner, view, groups);
  if (listed) {
    sm90::CopyRowsOp::create(b, scales, cloner.get(listed.getIndices()),
                             cloner.get(listed.getFirst()), first, target, vectorBytes);
    return;
  }
  auto load = cast<tile::LoadPagedOp>(op);
  sm90::CopyPagedOp::create(b, scales, cloner.get(load.getTable()), cloner.get(load.getToken()),
                            first, cloner.get(load.getLimit()), target, vectorBytes);
}
