//===- Fragments.cpp - fragments and global memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every warpgroup computes whole tensors; of a fragment split over warpgroups
// only its own columns are right, and only those are written anywhere.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cmath>

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

std::pair<int64_t, int64_t> mlac::simulator::getOwnColumns(const Warpgroup &warpgroup, Type type) {
  int64_t columns = cast<RankedTensorType>(type).getDimSize(1), split = getColumnSplit(type);
  int64_t part = warpgroup.getLocal() % split;
  return {columns / split * part, columns / split * (part + 1)};
}

int64_t mlac::simulator::getColumns(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() == 2 ? tensor.getDimSize(1) : 1;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Tile *Machine::use(Warpgroup &warpgroup, Operation *op, mlir::Value value) {
  TileRef &reference = getAs<TileRef>(warpgroup, value);
  if (reference.wgmma > 0) {
    fail(Defect::MissingWait, op,
         "uses the result of a wgmma that did not come through a wgmma_wait", value.getDefiningOp(),
         "the value");
    return nullptr;
  }
  if (reference.tile->usedBy > warpgroup.products.waited) {
    fail(Defect::MissingWait, op, "uses the registers of an operand of a wgmma in flight",
         value.getDefiningOp(), "the value");
    return nullptr;
  }
  return reference.tile.get();
}

std::shared_ptr<Tile> Machine::makeTile(Warpgroup &warpgroup, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  auto tile = std::make_shared<Tile>();
  tile->writtenAt = warpgroup.position;
  if (isa<FloatType>(tensor.getElementType()))
    tile->reals.resize(tensor.getNumElements());
  else
    tile->integers.resize(tensor.getNumElements());
  return tile;
}

Step Machine::runBroadcast(Warpgroup &warpgroup, BroadcastOp op) {
  Tile *source = use(warpgroup, op, op.getSource());
  if (!source)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getResult().getType());
  int64_t columns = getColumns(op.getResult().getType());
  bool overRows = isColumns(op.getSource().getType());
  auto spread = [&](auto &from, auto &to) {
    for (size_t element = 0; element < to.size(); ++element)
      to[element] = from[overRows ? element % columns : element / columns];
  };
  spread(source->reals, result->reals);
  spread(source->integers, result->integers);
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runTestBits(Warpgroup &warpgroup, TestBitsOp op) {
  constexpr int64_t bits = 32;
  int64_t columns = getColumns(op.getResult().getType());
  auto result = makeTile(warpgroup, op.getResult().getType());
  for (auto [index, words] : llvm::enumerate(op.getWords())) {
    Tile *source = use(warpgroup, op, words);
    if (!source)
      return Step::Failed;
    for (auto [row, word] : llvm::enumerate(source->integers))
      for (int64_t bit = 0; bit < bits; ++bit)
        result->integers[row * columns + index * bits + bit] = word >> bit & 1;
  }
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runTakeColumns(Warpgroup &warpgroup, TakeColumnsOp op) {
  Tile *source = use(warpgroup, op, op.getSource());
  if (!source)
    return Step::Failed;
  auto result = makeTile(warpgroup, op.getResult().getType());
  int64_t columns = getColumns(op.getResult().getType()),
          all = getColumns(op.getSource().getType());
  auto take = [&](auto &from, auto &to) {
    for (int64_t element = 0; element < static_cast<int64_t>(to.size()); ++element)
      to[element] = from[element / columns * all + op.getFirst() + element % columns];
  };
  take(source->reals, result->reals);
  take(source->integers, result->integers);
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runIota(Warpgroup &warpgroup, IotaOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto result = makeTile(warpgroup, type);
  int64_t columns = getColumns(type);
  for (int64_t element = 0; element < type.getNumElements(); ++element)
    result->integers[element] = op.getDim() == 0 ? element / columns : element % columns;
  result->isConstant = true;
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runSplat(Warpgroup &warpgroup, SplatOp op) {
  auto result = makeTile(warpgroup, op.getResult().getType());
  const Value &source = get(warpgroup, op.getSource());
  if (auto *real = std::get_if<float>(&source))
    std::fill(result->reals.begin(), result->reals.end(), *real);
  else
    std::fill(result->integers.begin(), result->integers.end(), std::get<int64_t>(source));
  set(warpgroup, op.getResult(), TileRef{result});
  return Step::Advanced;
}

Step Machine::runWarpAny(Warpgroup &warpgroup, WarpAnyOp op) {
  Tile *condition = use(warpgroup, op, op.getCondition());
  if (!condition)
    return Step::Failed;
  unsigned bits = 0;
  for (int64_t row = 0; row < kTileRows; ++row)
    bits |= unsigned(condition->integers[row] != 0) << (row / (kTileRows / kWarps));
  set(warpgroup, op.getResult(), WarpMask{bits});
  return Step::Advanced;
}

/// One warpgroup is all of the role.
Step Machine::runRoleAny(Warpgroup &warpgroup, RoleAnyOp op) {
  Tile *condition = use(warpgroup, op, op.getCondition());
  if (!condition)
    return Step::Failed;
  set(warpgroup, op.getResult(),
      int64_t(llvm::any_of(condition->integers, [](int64_t bit) { return bit != 0; })));
  return meetRole(warpgroup, op);
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// CTAs of a launch are in no order, so what two of them write must be the same.
Step Machine::write(Operation *op, const View &view, char *target, const char *bytes) {
  int64_t elementBytes = getElementBytes(view.elementType);
  std::vector<uint32_t> &cells = writers[view.data];
  cells.resize(view.bytes);
  // Of each byte: views of one buffer may have elements of different types.
  llvm::MutableArrayRef<uint32_t> own(&cells[target - view.data], elementBytes);
  const auto &grid = options.grid;
  uint32_t self = 1 + position[0] + rank + grid[0] * (position[1] + grid[1] * position[2]);
  auto isOther = [&](uint32_t writer) { return writer != 0 && writer != self; };
  auto *other = llvm::find_if(own, isOther);
  if (other != own.end() && memcmp(target, bytes, elementBytes) != 0)
    return fail(Defect::Race, op,
                "writes element " + Twine((target - view.data) / elementBytes) +
                    " of a buffer, where CTA " + Twine(*other - 1) + " wrote another value");
  llvm::fill(own, self);
  memcpy(target, bytes, elementBytes);
  return Step::Advanced;
}

/// Whether `op` copies from an argument that no kernel of the step writes.
static bool readsInvariant(Operation *op) {
  auto load = dyn_cast<TmaLoadOp>(op);
  auto map = load ? load.getMap().getDefiningOp<TensorMapOp>() : TensorMapOp();
  if (!map)
    return false;
  mlir::Value view = map.getView();
  while (auto cast = view.getDefiningOp<memref::ReinterpretCastOp>())
    view = cast.getSource();
  auto argument = dyn_cast<BlockArgument>(view);
  auto kernel = op->getParentOfType<KernelOp>();
  return argument && kernel.getArgAttr(argument.getArgNumber(), tile::kInvariantAttr);
}

Step Machine::checkDependency(Warpgroup &warpgroup, Operation *op) {
  if (!isDependent || warpgroup.hasWaitedForKernels || readsInvariant(op))
    return Step::Advanced;
  return fail(Defect::MissingWait, op,
              "accesses global memory before the kernel's wait_dependency");
}

Step Machine::fillEach(Warpgroup &warpgroup, Operation *op, SetElement setElement,
                       unsigned number) {
  auto type = cast<RankedTensorType>(op->getResult(number).getType());
  if (checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  auto result = makeTile(warpgroup, type);
  int64_t columns = getColumns(type);
  for (int64_t element = 0; element < type.getNumElements(); ++element)
    if (!setElement(*result, element, element / columns, element % columns))
      return fail(Defect::OutOfBounds, op,
                  "reads outside of its buffer for row " + Twine(element / columns) + ", column " +
                      Twine(element % columns));
  set(warpgroup, op->getResult(number), TileRef{result});
  return Step::Advanced;
}

Step Machine::fill(Warpgroup &warpgroup, Operation *op, Fetch fetch) {
  Type type = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  bool isInteger = isa<IntegerType>(type);
  if (isInteger && type.getIntOrFloatBitWidth() > 16) // what is fetched is an f32
    return fail(Defect::Unsupported, op, "of such integers is not known to the simulator");
  return fillEach(warpgroup, op, [&](Tile &tile, int64_t element, int64_t row, int64_t column) {
    std::optional<float> value = fetch(row, column);
    if (isInteger)
      tile.integers[element] = static_cast<int64_t>(value.value_or(0));
    else
      tile.reals[element] = value.value_or(0);
    return value.has_value();
  });
}

Step Machine::fill(Warpgroup &warpgroup, Operation *op, ViewRef view, Place2D place,
                   unsigned result) {
  auto setElement = [&](Tile &tile, int64_t element, int64_t row, int64_t column) {
    std::vector<int64_t> indices = place(row, column);
    if (!view->contains(indices))
      return true; // tiles begin as zeros
    const char *source = view->locate(indices);
    if (source && isa<FloatType>(view->elementType))
      tile.reals[element] = readReal(source, view->elementType);
    else if (source)
      tile.integers[element] = readInteger(source, view->elementType);
    return source != nullptr;
  };
  return fillEach(warpgroup, op, setElement, result);
}

Step Machine::runLoad(Warpgroup &warpgroup, LoadOp op) {
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  return fill(warpgroup, op, view,
              [=](int64_t row, int64_t column) { return view->getIndices(offsets, row, column); });
}

/// The view whose elements are `elements` behind those of `view` in memory.
static View moveView(const ViewRef &view, int64_t elements) {
  View moved = *view;
  moved.offset += elements;
  return moved;
}

Step Machine::runLoadPairs(Warpgroup &warpgroup, LoadPairsOp op) {
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  for (unsigned result : {0U, 1U}) {
    auto own = std::make_shared<const View>(moveView(view, result));
    auto place = [=](int64_t row, int64_t column) { return own->getIndices(offsets, row, column); };
    if (fill(warpgroup, op, own, place, result) == Step::Failed)
      return Step::Failed;
  }
  return Step::Advanced;
}

Step Machine::runLoadElements(Warpgroup &warpgroup, LoadElementsOp op) {
  std::vector<const Tile *> tiles;
  for (mlir::Value index : op.getIndices()) {
    tiles.push_back(use(warpgroup, op, index));
    if (!tiles.back())
      return Step::Failed;
  }
  int64_t columns = getColumns(op.getType());
  return fill(warpgroup, op, getAs<ViewRef>(warpgroup, op.getView()),
              [&](int64_t row, int64_t column) {
                std::vector<int64_t> indices;
                for (const Tile *tile : tiles)
                  indices.push_back(tile->integers[row * columns + column]);
                return indices;
              });
}

Step Machine::runLoadRows(Warpgroup &warpgroup, LoadRowsOp op) {
  return fill(warpgroup, op,
              fetchRows(warpgroup, op, getAs<ViewRef>(warpgroup, op.getView()),
                        getAs<ViewRef>(warpgroup, op.getIndices()),
                        getInt(warpgroup, op.getFirst()), getInt(warpgroup, op.getColumn())));
}

Step Machine::runLoadPaged(Warpgroup &warpgroup, LoadPagedOp op) {
  return fill(warpgroup, op,
              fetchPaged(warpgroup, op, getAs<ViewRef>(warpgroup, op.getPool()),
                         getAs<ViewRef>(warpgroup, op.getTable()), getInt(warpgroup, op.getToken()),
                         getInt(warpgroup, op.getColumn()), getInt(warpgroup, op.getLimit())));
}

Step Machine::runLoadCodeScales(Warpgroup &warpgroup, LoadCodeScalesOp op) {
  return fill(warpgroup, op,
              fetchPaged(warpgroup, op, getAs<ViewRef>(warpgroup, op.getPool()),
                         getAs<ViewRef>(warpgroup, op.getTable()), getInt(warpgroup, op.getToken()),
                         getInt(warpgroup, op.getColumn()), getInt(warpgroup, op.getLimit())));
}

Step Machine::storeElement(Operation *op, mlir::Value value, const Tile &tile, int64_t element,
                           const View &view, ArrayRef<int64_t> indices) {
  if (!view.contains(indices))
    return Step::Advanced;
  char *target = view.locate(indices);
  if (!target)
    return fail(Defect::OutOfBounds, op, "writes a view that exceeds its buffer");
  Type type = cast<RankedTensorType>(value.getType()).getElementType();
  if (!isa<FloatType>(type))
    return write(op, view, target, reinterpret_cast<const char *>(&tile.integers[element]));
  if (isPoison(tile.reals[element]))
    return fail(Defect::Uninitialized, op,
                "stores an element that depends on shared memory which was never written, number " +
                    Twine(element) + " of its tile");
  char bytes[sizeof(float)];
  writeReal(bytes, type, tile.reals[element]);
  return write(op, view, target, bytes);
}

std::pair<int64_t, int64_t> mlac::simulator::getWrittenColumns(const Warpgroup &warpgroup,
                                                               Type type) {
  if (isFragment(type)) {
    if (warpgroup.getLocal() >= getColumnSplit(type))
      return {0, 0};
    return getOwnColumns(warpgroup, type);
  }
  return {0, warpgroup.getLocal() == 0 ? getColumns(type) : 0};
}

Step Machine::storeDense(Warpgroup &warpgroup, Operation *op, mlir::Value value, const View &view,
                         ValueRange at, bool transposed) {
  Tile *tile = use(warpgroup, op, value);
  if (!tile || checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  std::vector<int64_t> offsets = getInts(warpgroup, at);
  auto type = cast<RankedTensorType>(value.getType());
  auto [first, end] = getWrittenColumns(warpgroup, type);
  int64_t columns = getColumns(type);
  for (int64_t row = 0; row < type.getDimSize(0); ++row)
    for (int64_t column = first; column < end; ++column) {
      auto [i, j] = transposed ? std::pair(column, row) : std::pair(row, column);
      if (storeElement(op, value, *tile, row * columns + column, view,
                       view.getIndices(offsets, i, j)) == Step::Failed)
        return Step::Failed;
    }
  return Step::Advanced;
}

Step Machine::runStore(Warpgroup &warpgroup, StoreOp op) {
  return storeDense(warpgroup, op, op.getValue(), *getAs<ViewRef>(warpgroup, op.getView()),
                    op.getOffsets(), op.getTransposed());
}

Step Machine::runStorePairs(Warpgroup &warpgroup, StorePairsOp op) {
  ViewRef view = getAs<ViewRef>(warpgroup, op.getView());
  auto store = [&](mlir::Value value, int64_t behind) {
    return storeDense(warpgroup, op, value, moveView(view, behind), op.getOffsets(),
                      /*transposed=*/false);
  };
  if (store(op.getFirst(), 0) == Step::Failed)
    return Step::Failed;
  return store(op.getSecond(), 1);
  return Step::Advanced;
}

/// What the warps write to their rows of the scratch tile, they read themselves.
Step Machine::runStoreStaged(Warpgroup &warpgroup, StoreStagedOp op) {
  Tile *tile = use(warpgroup, op, op.getValue());
  if (!tile || checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  Place place = getAs<Place>(warpgroup, op.getScratch());
  constexpr int64_t warpRows = kTileRows / kWarps;
  for (int64_t warp = 0; warp < kWarps; ++warp) {
    SharedMemory::Range range{warp * warpRows, (warp + 1) * warpRows, 0,
                              SharedMemory::getChunks(place)};
    if (access(warpgroup, op, place, range, 1 << warp, /*isWrite=*/true) == Step::Failed)
      return Step::Failed;
  }
  memory->forget(place.base, place.type.getByteSize());
  const View &view = *getAs<ViewRef>(warpgroup, op.getView());
  std::vector<int64_t> offsets = getInts(warpgroup, op.getOffsets());
  int64_t columns = getColumns(op.getValue().getType());
  for (int64_t row = 0; row < kTileRows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (storeElement(op, op.getValue(), *tile, row * columns + column, view,
                       view.getIndices(offsets, row, column)) == Step::Failed)
        return Step::Failed;
  return Step::Advanced;
}

Step Machine::runStoreSlots(Warpgroup &warpgroup, StoreSlotsOp op) {
  Tile *tile = use(warpgroup, op, op.getValue());
  if (!tile || checkDependency(warpgroup, op) == Step::Failed)
    return Step::Failed;
  const View &pool = *getAs<ViewRef>(warpgroup, op.getPool());
  const View &slots = *getAs<ViewRef>(warpgroup, op.getSlots());
  int64_t firstSlot = getInt(warpgroup, op.getFirst()), at = getInt(warpgroup, op.getColumn());
  auto [first, end] = getWrittenColumns(warpgroup, op.getValue().getType());
  int64_t columns = getColumns(op.getValue().getType()), pageSize = pool.sizes[1];
  for (int64_t row = 0; row < kTileRows; ++row) {
    if (!slots.contains({firstSlot + row}))
      continue;
    char *element = slots.locate({firstSlot + row});
    if (!element)
      return fail(Defect::OutOfBounds, op, "reads slots outside of their buffer");
    int64_t slot = 0, bytes = getElementBytes(slots.elementType);
    memcpy(&slot, element, bytes);
    slot = llvm::SignExtend64(slot, 8 * bytes);
    if (slot < 0 || slot >= pool.sizes[0] * pageSize)
      continue;
    for (int64_t column = first; column < end; ++column)
      if (storeElement(op, op.getValue(), *tile, row * columns + column, pool,
                       {slot / pageSize, slot % pageSize, at + column}) == Step::Failed)
        return Step::Failed;
  }
  return Step::Advanced;
}
