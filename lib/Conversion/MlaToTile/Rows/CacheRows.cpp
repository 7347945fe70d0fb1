//===- CacheRows.cpp - rows of a pool in their format ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/CacheRows.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <algorithm>
#include <cfloat>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

/// The largest e4m3 number.
static constexpr double kMaxCode = 448;

std::pair<Value, Value> RowGrid::place(KernelBuilder &b) const {
  if (blocks == 1)
    return {b.mul(b.programId(0), tileRows), b.index(0)};
  Value tile = b.createOrFold<arith::DivUIOp>(b.programId(0), b.index(blocks));
  return {b.mul(tile, tileRows), b.sub(b.programId(0), b.mul(tile, blocks))};
}

CacheRows::CacheRows(KernelBuilder &b, const Pool &pool) : b(b), pool(pool) {
  for (const mla::CacheField &field : pool.type.getFields())
    views.push_back({field.part, pool.view(b, field.part, b.fixed(0), pool.width(field.part))});
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

/// The layer's scale in every element of a tile.
Value CacheRows::layerScale(ArrayRef<int64_t> shape) {
  Value scale = memref::LoadOp::create(b, pool.layerScale, b.index(0));
  return b.splat(scale, shape);
}

/// e4m3(x / s), where x / s is rounded to f32 first, without a division per element:
/// with y = RN(1 / s) and q = RN(x y), q + y (x - q s), two FMAs, is RN(x / s)
/// (Markstein, 1990) as long as nothing over- or underflows. Scales far from 1 are moved
/// there together with x by a power of two. Quotients above 512 saturate whatever their
/// last bits are, and there x - q s may be NaN; the sign of a zero is lost in it.
Value CacheRows::quantize(Value wide, Value scale) {
  constexpr double farLimit = 0x1p64, saturated = 512;
  auto isBeyond = [&](arith::CmpFPredicate predicate, Value tile, double limit) -> Value {
    return arith::CmpFOp::create(b, predicate, tile, b.like(tile, limit));
  };
  Value one = b.like(scale, 1);
  Value shift = b.select(isBeyond(arith::CmpFPredicate::OLT, scale, 1 / farLimit),
                         b.like(scale, farLimit), one);
  shift = b.select(isBeyond(arith::CmpFPredicate::OGT, scale, farLimit),
                   b.like(scale, 1 / farLimit), shift);
  Value divisor = b.mulf(scale, shift);
  int64_t columns = shapeOf(wide)[1];
  Value inverse = b.broadcast(b.divideExactly(one, divisor), columns);
  Value x = b.mulf(wide, b.broadcast(shift, columns));
  Value rough = b.mulf(x, inverse);
  Value minusDivisor = b.broadcast(b.subf(b.like(divisor, 0), divisor), columns);
  Value exact = b.fma(b.fma(rough, minusDivisor, x), inverse, rough);
  Value isLarge = isBeyond(arith::CmpFPredicate::OGE, b.absf(rough), saturated);
  Value quotient = b.select(isLarge, rough, math::CopySignOp::create(b, exact, rough));
  return b.narrow(quotient, Float8E4M3FNType::get(b.getContext()));
}

/// The scales of rows that are one group each (chooseScale of the runtime).
Value CacheRows::groupScale(Value wide) {
  const cache::ScaleRule &rule = pool.type.getLayout().rule;
  Value amax = b.reduceMax(b.zeroNan(b.absf(wide)));
  amax = b.minf(amax, b.like(amax, FLT_MAX));
  if (rule.amaxFloor > 0)
    amax = b.maxf(amax, b.like(amax, rule.amaxFloor));
  Value scale = b.divideExactly(amax, b.like(amax, kMaxCode));
  scale = b.maxf(scale, b.like(scale, std::max(rule.scaleFloor, FLT_MIN)));
  bool isPower = rule.isPowerOfTwo || pool.type.getScaleRule() == mla::ScaleRule::PowerOfTwo;
  return isPower ? b.roundUpToPowerOf2(scale) : scale;
}

void CacheRows::store(Part part, Value tile, Value column, Value slots, Value first) {
  auto scatter = [&](Value value, Value to, Value at) {
    tile::StoreSlotsOp::create(b, value, to, slots, first, at);
  };
  Type element = storage(part);
  Value to = view(part);
  if (element == cast<RankedTensorType>(tile.getType()).getElementType())
    return scatter(tile, to, column);
  Value wide = b.widen(tile);
  if (!hasGroups(part))
    return scatter(quantize(wide, layerScale(shapeOf(wide)[0])), to, column);
  int64_t group = shapeOf(wide)[1];
  Value scale = groupScale(wide);
  scatter(quantize(wide, scale), to, column);
  // One element wide: of the tile's equal columns the first is stored.
  Value index = b.createOrFold<arith::DivUIOp>(column, b.index(group));
  scatter(b.broadcast(scale, kWidthMultiple), pool.view(b, Part::Scale, OpFoldResult(index), 1),
          b.index(0));
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
    Value scales = pool.view(b, Part::Scale, OpFoldResult(index), width, /*repeated=*/true);
    scale = gather(storage(Part::Scale), width, scales, b.index(0));
  } else if (isa<Float8E4M3FNType>(element)) {
    scale = layerScale({rows, width});
  }
  Value codes = gather(element, width, view(part), column);
  if (element == model)
    return codes;
  Value wide = b.widen(codes);
  return b.narrow(scale ? b.mulf(wide, scale) : wide, model);
}
