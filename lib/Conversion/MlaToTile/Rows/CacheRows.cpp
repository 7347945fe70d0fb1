//===- CacheRows.cpp - rows of a pool in their format ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/CacheRows.h"

#include "Rows/Codes.h"
#include "Rows/Fours.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

std::pair<Value, Value> RowGrid::place(KernelBuilder &b) const {
  if (blocks == 1)
    return {b.mul(b.programId(0), tileRows), b.index(0)};
  Value tile = b.createOrFold<arith::DivUIOp>(b.programId(0), b.index(blocks));
  return {b.mul(tile, tileRows), b.sub(b.programId(0), b.mul(tile, blocks))};
}

CacheRows::CacheRows(KernelBuilder &b, const Pool &pool) : b(b), pool(pool) {
  for (const mla::CacheField &field : pool.type.getFields())
    views.push_back(
        {field.part, pool.view(b, field.part, b.fixed(0), pool.storedWidth(field.part))});
}

Value CacheRows::view(Part part) const {
  return llvm::find_if(views, [&](const PartView &view) { return view.part == part; })->view;
}

/// Groups of columns that share a scale are of the row's first field.
static int64_t getGroup(const Pool &pool, Part part) {
  const cache::Format &format = pool.type.getLayout();
  return part == format.fields[0].part ? format.scaleGroup : 0;
}

Type CacheRows::storage(Part part) const {
  const cache::Format &format = pool.type.getLayout();
  return pool.type.getStorageType(format.fields[cache::findField(format, part)].storage);
}

bool CacheRows::hasGroups(Part part) const { return getGroup(pool, part) > 0; }

int64_t CacheRows::blockWidth(const Pool &pool, Part part, int64_t limit) {
  int64_t group = getGroup(pool, part);
  return group ? group : mla_to_tile::blockWidth(pool.width(part), limit);
}

static ArrayRef<int64_t> shapeOf(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape();
}

/// Bytes, of which the first column is stored.
Value CacheRows::zeros(int64_t rows) {
  auto type = RankedTensorType::get({rows, kWidthMultiple}, b.getI8Type());
  return arith::ConstantOp::create(b, DenseElementsAttr::get(type, int8_t(0)));
}

/// The layer's scale of a part in every element of a tile.
Value CacheRows::layerScale(Part part, ArrayRef<int64_t> shape) {
  return b.splat(pool.loadLayerScale(b, part), shape);
}

void CacheRows::store(Part part, Value tile, Value column, Value slots, Value first) {
  auto scatter = [&](Value value, Value to, Value at) {
    tile::StoreSlotsOp::create(b, value, to, slots, first, at);
  };
  Type element = storage(part);
  Value to = view(part);
  const cache::Format &format = pool.type.getLayout();
  // Once for a row: its last field is as it is.
  if (cache::findField(format, Part::Padding) < format.numFields && !hasGroups(part))
    scatter(zeros(shapeOf(tile)[0]), pool.view(b, Part::Padding, b.fixed(0), 1), b.index(0));
  if (element == cast<RankedTensorType>(tile.getType()).getElementType())
    return scatter(tile, to, column);
  Value wide = b.widen(tile);
  if (!hasGroups(part))
    return scatter(divideToCodes(b, wide, layerScale(part, shapeOf(wide)[0])), to, column);
  Value scale = chooseScales(b, scaleRule(), wide);
  scatter(divideToCodes(b, wide, scale), to, column);
  storeScale(scale, column, slots, first);
}

cache::ScaleRule CacheRows::scaleRule() const {
  cache::ScaleRule rule = pool.type.getLayout().rule;
  rule.isPowerOfTwo = pool.type.getScaleRule() == mla::ScaleRule::PowerOfTwo;
  return rule;
}

/// Of the group that begins at `column`.
void CacheRows::storeScale(Value scale, Value column, Value slots, Value first) {
  const cache::Format &format = pool.type.getLayout();
  Value index = b.createOrFold<arith::DivUIOp>(column, b.index(format.scaleGroup));
  // One element wide: of the tile's equal columns the first is stored.
  Value stored = b.broadcast(scale, kWidthMultiple);
  if (cache::hasExponents(format))
    stored = b.exponentBytes(stored);
  Value to = pool.view(b, Part::Scale, OpFoldResult(index), 1);
  tile::StoreSlotsOp::create(b, stored, to, slots, first, b.index(0));
}

void CacheRows::storePacked(Part part, const TilePair &tiles, Value column, Value slots,
                            Value first) {
  TilePair wide = {b.widen(tiles.first), b.widen(tiles.second)};
  Value scale = chooseScales(b, scaleRule(), {wide.first, wide.second});
  Value bytes =
      packFours(b, {divideToFours(b, wide.first, scale), divideToFours(b, wide.second, scale)});
  Value byte = b.createOrFold<arith::DivUIOp>(column, b.index(2));
  tile::StoreSlotsOp::create(b, bytes, view(part), slots, first, byte);
  storeScale(scale, column, slots, first);
}

Value CacheRows::load(Part part, int64_t rows, int64_t width, Value column, Value table,
                      Value token, Value limit) {
  auto gather = [&](Type element, int64_t columns, Value from, Value at) -> Value {
    return tile::LoadPagedOp::create(b, RankedTensorType::get({rows, columns}, element), from,
                                     table, token, at, limit);
  };
  Type element = storage(part), model = pool.type.getElement();
  Value scale;
  if (hasGroups(part)) {
    assert(width == pool.type.getLayout().scaleGroup && "a block is a group");
    Value index = b.createOrFold<arith::DivUIOp>(column, b.index(width));
    Value scales = pool.view(b, Part::Scale, OpFoldResult(index), width, /*stride=*/0);
    scale = gather(storage(Part::Scale), width, scales, b.index(0));
    if (cache::hasExponents(pool.type.getLayout()))
      scale = b.powersOf2(scale);
  } else if (isa<Float8E4M3FNType>(element)) {
    scale = layerScale(part, {rows, width});
  }
  Value codes = gather(element, width, view(part), column);
  if (element == model)
    return codes;
  Value wide = b.widen(codes);
  return b.narrow(scale ? b.mulf(wide, scale) : wide, model);
}
