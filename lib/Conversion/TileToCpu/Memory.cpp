//===- Memory.cpp - loads and stores of tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A load costs nothing when its rows can be read where they are: a dense tile
// inside its view is (pointer, row stride); a gathered one is a table of row
// pointers, in which missing rows point to zeros. Only tiles that stick out of
// their view, have a column stride, or outlive a store are copied to scratch.
// The choice is made at run time, tile by tile, and consumers do not see it:
//
//     inside?  pointer, stride = view           (no copy)
//     else     pointer, stride = scratch, pitch (rows copied, zero-filled)
//
// Stores mirror this: consumers' results go straight to the view when the tile is
// inside, else through scratch.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlac::tile_to_cpu;

using Predicate = arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

View KernelLowering::viewOf(Value memref) { return views.find(memref)->second; }

LogicalResult KernelLowering::lowerView(memref::ReinterpretCastOp op) {
  auto base = views.find(op.getSource());
  if (base == views.end())
    return op.emitOpError("expected a view of a kernel argument");
  auto toValue = [&](OpFoldResult size) {
    if (auto value = dyn_cast<Value>(size))
      return scalar(value);
    return e.i64(cast<IntegerAttr>(cast<Attribute>(size)).getInt());
  };
  View view{base->second.base, toValue(op.getMixedOffsets().front()), {}, {}, base->second.element};
  for (OpFoldResult size : op.getMixedSizes())
    view.sizes.push_back(toValue(size));
  for (OpFoldResult stride : op.getMixedStrides())
    view.strides.push_back(toValue(stride));
  views[op.getResult()] = view;
  return success();
}

/// One of two kernel arguments, which a view is made of.
LogicalResult KernelLowering::lowerChoice(arith::SelectOp op) {
  auto yes = views.find(op.getTrueValue()), no = views.find(op.getFalseValue());
  if (yes == views.end() || no == views.end())
    return op.emitOpError("expected a choice of kernel arguments");
  View view = yes->second;
  view.base =
      arith::SelectOp::create(e, e.loc, map.lookup(op.getCondition()), view.base, no->second.base);
  views[op.getResult()] = view;
  return success();
}

Value KernelLowering::elementAddress(const View &view, ValueRange indices) {
  Value elements = view.offset;
  for (auto [index, stride] : llvm::zip_equal(indices, view.strides))
    elements = e.add(elements, e.mul(index, stride));
  return e.advance(view.base, e.mul(elements, elementBytes(view.element)));
}

Value KernelLowering::loadIndex(const View &list, Value position) {
  Value value = e.loadScalar(list.element, elementAddress(list, position));
  if (value.getType() == e.getI64Type())
    return value;
  return arith::ExtSIOp::create(e, e.loc, e.getI64Type(), value);
}

bool KernelLowering::hasUnitColumns(const View &view) {
  auto constant = view.strides.back().getDefiningOp<arith::ConstantOp>();
  return constant && cast<IntegerAttr>(constant.getValue()).getInt() == 1;
}

void KernelLowering::lowerScalarAccess(Operation *op) {
  auto address = [&](Value memref, ValueRange indices) {
    SmallVector<Value> at = llvm::map_to_vector(indices, [&](Value i) { return scalar(i); });
    return elementAddress(viewOf(memref), at);
  };
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    Value pointer = address(load.getMemRef(), load.getIndices());
    map.map(load.getResult(), e.loadScalar(load.getType(), pointer));
    return;
  }
  auto storeOp = cast<memref::StoreOp>(op);
  e.storeScalar(map.lookup(storeOp.getValue()), address(storeOp.getMemRef(), storeOp.getIndices()));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void KernelLowering::fillRow(const View &view, const TileShape &shape, Value to, Value from,
                             Value valid) {
  int64_t bytes = shape.bytesPerElement();
  if (hasUnitColumns(view)) {
    e.copyBytes(to, from, e.mul(valid, bytes));
  } else {
    Value step = e.mul(view.strides.back(), bytes);
    e.loop(valid, [&](Value j) {
      Value value = e.loadScalar(shape.element, e.advance(from, e.mul(j, step)));
      e.storeScalar(value, e.advance(to, e.mul(j, bytes)));
    });
  }
  Value end = e.advance(to, e.mul(valid, bytes));
  e.zeroBytes(end, e.sub(e.i64(shape.pitch()), e.mul(valid, bytes)));
}

void KernelLowering::drainRow(const View &view, const TileShape &shape, Value from, Value to,
                              Value valid) {
  int64_t bytes = shape.bytesPerElement();
  if (hasUnitColumns(view)) {
    e.copyBytes(to, from, e.mul(valid, bytes));
    return;
  }
  Value step = e.mul(view.strides.back(), bytes);
  e.loop(valid, [&](Value j) {
    Value value = e.loadScalar(shape.element, e.advance(from, e.mul(j, bytes)));
    e.storeScalar(value, e.advance(to, e.mul(j, step)));
  });
}

namespace {
/// Where a dense tile lies in its view.
struct DenseTile {
  Value pointer;               // its first element in memory
  Value rowBytes;              // between rows in memory
  Value rowsLeft, columnsLeft; // from its first element to the view's end
};
} // namespace

static DenseTile locate(Emitter &e, const View &view, ValueRange offsets, Value pointer) {
  bool isMatrix = offsets.size() == 2;
  DenseTile tile;
  tile.pointer = pointer;
  tile.columnsLeft = e.sub(view.sizes.back(), offsets.back());
  tile.rowsLeft = isMatrix ? e.sub(view.sizes.front(), offsets.front()) : e.i64(1);
  Value stride = isMatrix ? view.strides.front() : e.i64(0);
  tile.rowBytes = e.mul(stride, elementBytes(view.element));
  return tile;
}

static Value isInside(Emitter &e, const DenseTile &tile, const TileShape &shape) {
  return e.both(e.compare(Predicate::sge, tile.rowsLeft, e.i64(shape.rows)),
                e.compare(Predicate::sge, tile.columnsLeft, e.i64(shape.columns)));
}

/// Columns of row `row` that exist in the view.
static Value validColumns(Emitter &e, const DenseTile &tile, const TileShape &shape, Value row) {
  Value columns = e.clamp(tile.columnsLeft, 0, shape.columns);
  return e.select(e.compare(Predicate::slt, row, tile.rowsLeft), columns, e.i64(0));
}

//===----------------------------------------------------------------------===//
// Loads
//===----------------------------------------------------------------------===//

/// Row `number` of a view whose rows are in groups (tile.load), at `column`; null: of a vector.
KernelLowering::RowSource KernelLowering::rowInGroups(const View &view, Value number,
                                                      Value column) {
  Value size = view.sizes[1];
  SmallVector<Value> indices = {arith::DivUIOp::create(e, e.loc, number, size),
                                arith::RemUIOp::create(e, e.loc, number, size)};
  Value exists = e.compare(Predicate::slt, indices[0], view.sizes[0]);
  if (column)
    indices.push_back(column);
  return {elementAddress(view, indices), exists};
}

void KernelLowering::loadInGroups(tile::LoadOp op, const View &view, ValueRange offsets) {
  if (offsets.size() == 2)
    return gatherRows(op, view, offsets[1], [&](Value row) {
      return rowInGroups(view, e.add(offsets[0], row), offsets[1]);
    });
  TileShape shape(op.getType());
  TileRef target = allocateTile(op.getType());
  e.loop(shape.columns, 1, [&](Value row) {
    RowSource from = rowInGroups(view, e.add(offsets[0], row), Value());
    Value zeros = zeroRow(shape.bytesPerElement());
    Value element = e.loadScalar(shape.element, e.select(from.exists, from.pointer, zeros));
    e.storeScalar(element, e.advance(target.pointer, e.mul(row, shape.bytesPerElement())));
  });
  memory[op.getResult()] = target;
}

void KernelLowering::lowerLoad(tile::LoadOp op) {
  View view = viewOf(op.getView());
  TileShape shape(op.getType());
  SmallVector<Value> offsets =
      llvm::map_to_vector(op.getOffsets(), [&](Value offset) { return scalar(offset); });
  if (view.sizes.size() > offsets.size())
    return loadInGroups(op, view, offsets);
  DenseTile tile = locate(e, view, offsets, elementAddress(view, offsets));
  TileRef scratch = allocateTile(op.getType());
  auto copyRows = [&] {
    e.loop(shape.rows, 1, [&](Value row) {
      Value from = e.advance(tile.pointer, e.mul(row, tile.rowBytes));
      fillRow(view, shape, rowPointer(scratch, row), from, validColumns(e, tile, shape, row));
    });
  };
  if (!hasUnitColumns(view) || !uses.canReadInPlace(op)) {
    copyRows();
    memory[op.getResult()] = scratch;
    return;
  }
  Value inside = isInside(e, tile, shape);
  e.ifThenElse(
      inside, [] {}, copyRows);
  TileRef ref;
  ref.pointer = e.select(inside, tile.pointer, scratch.pointer);
  ref.rowBytes = e.select(inside, tile.rowBytes, scratch.rowBytes);
  memory[op.getResult()] = ref;
}

void KernelLowering::gatherRows(Operation *op, const View &view, Value column, RowSourceFn source) {
  Value result = op->getResult(0);
  TileShape shape(result.getType());
  Value columnsLeft = e.sub(view.sizes.back(), column);
  bool inPlace = hasUnitColumns(view) && uses.canReadInPlace(op);
  TileRef scratch = allocateTile(result.getType()), table;
  if (inPlace)
    table.pointer = allocate(shape.rows * elementBytes(e.getI64Type()));
  Value allColumns = e.compare(Predicate::sge, columnsLeft, e.i64(shape.columns));

  e.loop(shape.rows, 1, [&](Value row) {
    RowSource from = source(row);
    auto slot = [&] { return e.advance(table.pointer, e.mul(row, elementBytes(e.getI64Type()))); };
    auto copyRow = [&] {
      Value to = rowPointer(scratch, row);
      Value valid = e.select(from.exists, e.clamp(columnsLeft, 0, shape.columns), e.i64(0));
      fillRow(view, shape, to, from.pointer, valid);
      if (inPlace)
        e.storeScalar(to, slot());
    };
    if (!inPlace)
      return copyRow();
    Value zeros = zeroRow(shape.pitch());
    e.ifThenElse(
        allColumns, [&] { e.storeScalar(e.select(from.exists, from.pointer, zeros), slot()); },
        copyRow);
  });
  memory[result] = inPlace ? table : scratch;
}

void KernelLowering::lowerLoadRows(tile::LoadRowsOp op) {
  View view = viewOf(op.getView()), list = viewOf(op.getIndices());
  Value first = scalar(op.getFirst()), column = scalar(op.getColumn());
  gatherRows(op, view, column, [&](Value row) -> RowSource {
    Value position = e.add(first, row);
    Value listed = e.compare(Predicate::slt, position, list.sizes.front());
    // A list may be empty, so even its first entry is read only when listed.
    auto read = scf::IfOp::create(e, e.loc, TypeRange{e.getI64Type()}, listed,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
    {
      OpBuilder::InsertionGuard guard(e);
      e.setInsertionPointToStart(read.thenBlock());
      scf::YieldOp::create(e, e.loc, loadIndex(list, position));
      e.setInsertionPointToStart(read.elseBlock());
      scf::YieldOp::create(e, e.loc, e.i64(-1));
    }
    Value index = read.getResult(0);
    bool isOfPages = view.sizes.size() == 3;
    Value rows = isOfPages ? e.mul(view.sizes[0], view.sizes[1]) : view.sizes[0];
    Value exists =
        e.both(e.compare(Predicate::sge, index, e.i64(0)), e.compare(Predicate::slt, index, rows));
    if (!isOfPages)
      return {elementAddress(view, {index, column}), exists};
    Value page = arith::DivUIOp::create(e, e.loc, index, view.sizes[1]);
    Value inPage = arith::RemUIOp::create(e, e.loc, index, view.sizes[1]);
    return {elementAddress(view, {page, inPage, column}), exists};
  });
}

void KernelLowering::lowerLoadPaged(tile::LoadPagedOp op) {
  View pool = viewOf(op.getPool()), table = viewOf(op.getTable());
  Value token = scalar(op.getToken()), column = scalar(op.getColumn()),
        limit = scalar(op.getLimit());
  Value pageSize = pool.sizes[1];
  gatherRows(op, pool, column, [&](Value row) -> RowSource {
    Value position = e.add(token, row);
    Value exists = e.compare(Predicate::slt, position, limit);
    Value entry = arith::DivUIOp::create(e, e.loc, position, pageSize);
    Value inPage = arith::RemUIOp::create(e, e.loc, position, pageSize);
    // Entries at or above the limit hold anything and may lie outside the table.
    auto read = scf::IfOp::create(e, e.loc, TypeRange{e.getI64Type()}, exists,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(e);
    e.setInsertionPointToStart(read.thenBlock());
    scf::YieldOp::create(e, e.loc, loadIndex(table, entry));
    e.setInsertionPointToStart(read.elseBlock());
    scf::YieldOp::create(e, e.loc, e.i64(0));
    e.setInsertionPointAfter(read);
    return {elementAddress(pool, {read.getResult(0), inPage, column}), exists};
  });
}

/// One element after the other: each comes from an address of its own.
void KernelLowering::lowerLoadElements(tile::LoadElementsOp op) {
  View view = viewOf(op.getView());
  TileShape shape(op.getType());
  Type indexType = e.getI32Type();
  SmallVector<TileRef> tiles =
      llvm::map_to_vector(op.getIndices(), [&](Value tile) { return memoryOf(tile); });
  TileRef target = allocateTile(op.getType());
  auto place = [&](const TileRef &tile, Type element, Value row, Value column) {
    return e.advance(rowPointer(tile, row), e.mul(column, elementBytes(element)));
  };
  auto loadElement = [&](Value row, Value column) {
    SmallVector<Value> indices;
    Value inside;
    for (auto [tile, size] : llvm::zip_equal(tiles, view.sizes)) {
      Value index = e.loadScalar(indexType, place(tile, indexType, row, column));
      indices.push_back(arith::ExtSIOp::create(e, e.loc, e.getI64Type(), index));
      // Unsigned, so that negative indices are outside too.
      Value isBelow = e.compare(Predicate::ult, indices.back(), size);
      inside = inside ? e.both(inside, isBelow) : isBelow;
    }
    Value zeros = zeroRow(shape.bytesPerElement());
    Value from = e.select(inside, elementAddress(view, indices), zeros);
    e.storeScalar(e.loadScalar(shape.element, from), place(target, shape.element, row, column));
  };
  e.loop(shape.rows, 1, [&](Value row) {
    e.loop(shape.columns, 1, [&](Value column) { loadElement(row, column); });
  });
  memory[op.getResult()] = target;
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// Rows of the view are rows of the tile, or columns of a vector and of a transposed tile.
void KernelLowering::storeInGroups(tile::StoreOp op, const View &view, ValueRange offsets) {
  TileShape shape(op.getValue().getType());
  TileRef from = memoryOf(op.getValue());
  bool isMatrix = offsets.size() == 2;
  if (isMatrix && !op.getTransposed()) {
    Value valid = e.clamp(e.sub(view.sizes.back(), offsets[1]), 0, shape.columns);
    e.loop(shape.rows, 1, [&](Value row) {
      RowSource to = rowInGroups(view, e.add(offsets[0], row), offsets[1]);
      e.ifThen(to.exists, [&] { drainRow(view, shape, rowPointer(from, row), to.pointer, valid); });
    });
    return;
  }
  e.loop(shape.rows, 1, [&](Value row) {
    Value column = isMatrix ? e.add(offsets[1], row) : Value();
    e.loop(shape.columns, 1, [&](Value number) {
      RowSource to = rowInGroups(view, e.add(offsets[0], number), column);
      Value exists = to.exists;
      if (isMatrix)
        exists = e.both(exists, e.compare(Predicate::slt, column, view.sizes.back()));
      e.ifThen(exists, [&] {
        Value at = e.advance(rowPointer(from, row), e.mul(number, shape.bytesPerElement()));
        e.storeScalar(e.loadScalar(shape.element, at), to.pointer);
      });
    });
  });
}

void KernelLowering::lowerStore(tile::StoreOp op) {
  View view = viewOf(op.getView());
  TileShape shape(op.getValue().getType());
  SmallVector<Value> offsets =
      llvm::map_to_vector(op.getOffsets(), [&](Value offset) { return scalar(offset); });
  if (view.sizes.size() > offsets.size())
    return storeInGroups(op, view, offsets);
  if (op.getTransposed())
    for (SmallVectorImpl<Value> *pair :
         std::initializer_list<SmallVectorImpl<Value> *>{&offsets, &view.sizes, &view.strides})
      std::swap(pair->front(), pair->back());
  DenseTile tile = locate(e, view, offsets, elementAddress(view, offsets));
  auto it = memory.find(op.getValue());
  bool isDirect = hasUnitColumns(view) && it == memory.end();
  TileRef from = it != memory.end() ? it->second : allocateTile(op.getValue().getType());
  Value inside;
  if (isDirect) {
    inside = isInside(e, tile, shape);
    TileRef target;
    target.pointer = e.select(inside, tile.pointer, from.pointer);
    target.rowBytes = e.select(inside, tile.rowBytes, from.rowBytes);
    store(op.getValue(), target);
  } else if (it == memory.end()) {
    store(op.getValue(), from);
  }
  auto copyRows = [&] {
    e.loop(shape.rows, 1, [&](Value row) {
      Value to = e.advance(tile.pointer, e.mul(row, tile.rowBytes));
      drainRow(view, shape, rowPointer(from, row), to, validColumns(e, tile, shape, row));
    });
  };
  if (isDirect)
    e.ifThenElse(
        inside, [] {}, copyRows);
  else
    copyRows();
}

void KernelLowering::lowerStoreSlots(tile::StoreSlotsOp op) {
  View pool = viewOf(op.getPool()), slots = viewOf(op.getSlots());
  Value first = scalar(op.getFirst()), column = scalar(op.getColumn());
  TileShape shape(op.getValue().getType());
  TileRef from = memoryOf(op.getValue());
  Value pageSize = pool.sizes[1];
  Value slotCount = e.mul(pool.sizes[0], pageSize);
  Value valid = e.clamp(e.sub(pool.sizes.back(), column), 0, shape.columns);
  e.loop(shape.rows, 1, [&](Value row) {
    Value position = e.add(first, row);
    e.ifThen(e.compare(Predicate::slt, position, slots.sizes.front()), [&] {
      Value slot = loadIndex(slots, position);
      Value exists = e.both(e.compare(Predicate::sge, slot, e.i64(0)),
                            e.compare(Predicate::slt, slot, slotCount));
      e.ifThen(exists, [&] {
        Value page = arith::DivUIOp::create(e, e.loc, slot, pageSize);
        Value inPage = arith::RemUIOp::create(e, e.loc, slot, pageSize);
        Value to = elementAddress(pool, {page, inPage, column});
        drainRow(pool, shape, rowPointer(from, row), to, valid);
      });
    });
  });
}
