//===- TiledProduct.cpp - tiles of a product, in order ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/TiledProduct.h"

#include "Products/CodedWeights.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Whether TMA can copy the operands: accumulators of this size need the product schedule.
bool TiledProduct::isAligned() const {
  return llvm::all_of(ArrayRef<Matrices>{p.lhs, p.rhs}, [&](const Matrices &m) {
    const int64_t elements = m.scales ? 16 : 8; // of 16 bytes
    return m.offset % elements == 0 && m.rowStride % elements == 0 && m.batchStride % elements == 0;
  });
}

TiledProduct::Tile TiledProduct::find(KernelBuilder &b, Value number, Value rows) {
  Value rowTiles = b.ceilDivNarrow(rows, b.index(shape.rows));
  Tile tile;
  Value part;
  if (countParts() != 1) {
    Value whole = b.divNarrow(number, b.index(countParts()));
    part = b.sub(number, b.mul(whole, countParts()));
    number = whole;
  }
  tile.batch = tile.depthPart = b.index(0);
  if (p.batch != 1 || shape.depthParts != 1) { // one of them is 1
    Value ofPart = b.mul(rowTiles, countColumnTiles());
    Value outer = b.divNarrow(number, ofPart);
    (shape.depthParts == 1 ? tile.batch : tile.depthPart) = outer;
    number = b.sub(number, b.mul(outer, ofPart));
  }
  int64_t ofStrip = stripTiles * countColumnTiles();
  Value strip = b.divNarrow(number, b.index(ofStrip));
  Value first = b.mul(strip, stripTiles);
  Value height = b.minimum(b.sub(rowTiles, first), b.index(stripTiles));
  Value rest = b.sub(number, b.mul(strip, ofStrip));
  Value column = b.divNarrow(rest, height);
  Value row = b.add(first, b.sub(rest, b.mul(column, height)));
  tile.row = b.mul(row, shape.rows);
  if (endsWithRows()) {
    Value end =
        p.lhs.scales ? b.mul(b.ceilDivNarrow(rows, b.index(kRowsOfProduct)), kRowsOfProduct) : rows;
    tile.row = b.maximum(b.minimum(tile.row, b.sub(end, b.index(shape.rows))), b.index(0));
  }
  tile.column = b.mul(column, shape.numbered);
  if (part)
    tile.column = b.add(tile.column, b.mul(part, shape.columns));
  return tile;
}

ProductViews::Place TiledProduct::placeOut(KernelBuilder &b, ValueRange args, const Tile &tile) {
  OpFoldResult rows = args[3];
  ProductViews::Place out = views.placeTokens(b, args[2], p.out, rows, p.columns, tile.batch);
  if (shape.depthParts != 1)
    out.view = b.view(args[2], b.extent(b.mul(tile.depthPart, p.out.batchStride), p.out.offset),
                      {rows, b.fixed(p.columns)}, {b.fixed(p.out.rowStride), b.fixed(1)});
  return out;
}

SmallVector<Value>
TiledProduct::forDepth(KernelBuilder &b, const Tile &tile, ValueRange init,
                       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  int64_t width = p.depth / shape.depthParts;
  Value from = b.mul(tile.depthPart, width);
  return b.forBlocks(width, shape.depth, init, [&](Value block, ValueRange carried) {
    return body(shape.depthParts == 1 ? block : b.add(from, block), carried);
  });
}

void TiledProduct::write(KernelBuilder &b, ValueRange args) {
  if (shape.cluster != 1)
    b.setDepthCluster(shape.cluster);
  if (isInvariant) {
    markInvariant(args[1]);
    llvm::for_each(otherWeights(args), markInvariant);
  }
  Value first = b.add(args[5], b.programId(0));
  b.loop(first, args[6], args[4], {}, [&](Value number, ValueRange) {
    writeTile(b, args, find(b, number, args[3]));
    return SmallVector<Value>();
  });
}

void TiledProduct::launch(StepLowering &step, Value first, Value end, bool early) {
  isInvariant =
      step.isInvariant(p.rhs.buffer) && llvm::all_of(p.others, [&](const Product::Others &others) {
        return step.isInvariant(others.rhs.buffer);
      });
  Value programs = step.dim("num_sms");
  programs = step.ceilDiv(programs, shape.cluster); // at least one
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows,
                             programs,     first,        end};
  hasRowsBehind = addRowsBehind(step, p, shape.rows);
  if (hasRowsBehind)
    args.push_back(step.multiply(step.ceilDiv(p.rows, shape.rows), shape.rows));
  for (const Product::Others &others : p.others)
    args.push_back(others.rhs.buffer);
  args.append(getBiasBuffers(p));
  args.append(getScaleBuffers(p));
  std::string name = llvm::formatv("linear_{0}{1}x{2}_tile_{3}x{4}", getCodesPrefix(p), p.columns,
                                   p.depth, shape.rows, shape.columns)
                         .str();
  if (shape.depthParts != 1)
    name += llvm::formatv("_parts_{0}", shape.depthParts).str();
  if (shape.cluster != 1)
    name += llvm::formatv("_cluster_{0}", shape.cluster).str();
  step.launch(
      name, {programs, step.constant(1), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained(early));
}
