//===- Angles.cpp - rotations of pairs of channels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rows/Angles.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Views of the cosines and of the sines of a table's rows from `base` on.
static TilePair viewTable(KernelBuilder &b, const AngleTable &table, Value base, OpFoldResult rows,
                          int64_t rowStride) {
  auto viewAt = [&](int64_t column) {
    return b.view(table.buffer, b.extent(base, column), {rows, b.fixed(table.half)},
                  {b.fixed(rowStride), b.fixed(table.pairStride())});
  };
  Value cos = viewAt(0);
  return {cos, viewAt(table.sineOffset())};
}

TilePair mlac::mla_to_tile::loadTokenAngles(KernelBuilder &b, const AngleTable &table,
                                            Value positions, Value tokens, Value row,
                                            int64_t rows) {
  OpFoldResult length = positions ? table.length : tokens;
  TilePair views = viewTable(b, table, b.index(0), length, 2 * table.half);
  if (!positions) {
    int64_t shape[] = {rows, paddedWidth(table.half)};
    Value cos = b.loadWide(views.first, {row, b.index(0)}, shape);
    return {cos, b.loadWide(views.second, {row, b.index(0)}, shape)};
  }
  Value numbers = b.view(positions, b.fixed(0), {OpFoldResult(tokens)}, {b.fixed(1)});
  auto type = RankedTensorType::get({rows, paddedWidth(table.half)},
                                    getElementTypeOrSelf(table.buffer.getType()));
  auto gather = [&](Value view) -> Value {
    return b.widen(tile::LoadRowsOp::create(b, type, view, numbers, row, b.index(0)));
  };
  Value cos = gather(views.first);
  return {cos, gather(views.second)};
}

TilePair mlac::mla_to_tile::loadPositionAngles(KernelBuilder &b, const AngleTable &table,
                                               Value position, Value column, OpFoldResult rows,
                                               ArrayRef<int64_t> shape, int64_t groups) {
  Value base = b.mul(position, 2 * table.half), zero = b.index(0);
  if (groups == 1) {
    TilePair views = viewTable(b, table, base, rows, 0);
    Value cos = b.loadWide(views.first, {zero, column}, shape);
    return {cos, b.loadWide(views.second, {zero, column}, shape)};
  }
  int64_t stride = table.pairStride(), columns = shape.back();
  base = b.add(base, b.mul(column, stride));
  auto load = [&](int64_t behind) {
    Value view =
        b.view(table.buffer, b.extent(base, behind), {rows, b.fixed(groups), b.fixed(columns)},
               {b.fixed(0), b.fixed(columns * stride), b.fixed(stride)});
    return b.loadWide(view, {zero, zero}, shape);
  };
  Value cos = load(0);
  return {cos, load(table.sineOffset())};
}

TilePair mlac::mla_to_tile::rotate(KernelBuilder &b, const TilePair &pairs, const TilePair &cosSin,
                                   bool isInverse) {
  auto [x, y] = pairs;
  auto [cos, sin] = cosSin;
  Value xCos = b.mulf(x, cos), ySin = b.mulf(y, sin);
  Value xSin = b.mulf(x, sin), yCos = b.mulf(y, cos);
  Value first = isInverse ? b.addf(xCos, ySin) : b.subf(xCos, ySin);
  Value second = isInverse ? b.subf(yCos, xSin) : b.addf(yCos, xSin);
  return {first, second};
}
