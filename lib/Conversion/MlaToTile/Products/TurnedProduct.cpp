//===- TurnedProduct.cpp - weights of codes for many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/TurnedProduct.h"

#include "Products/CodedWeights.h"
#include "Products/RangeVersions.h"
#include "Products/TiledProduct.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

namespace {
class TurnedKernel : public TiledProduct {
public:
  TurnedKernel(const StepLowering &step, const Product &product, int64_t tokens, int64_t parts = 1)
      : TiledProduct(step, product, {tokens, kTurnedColumns, kTurnedColumns, parts, kCodedDepth}) {}

private:
  static constexpr int64_t kProducts = kTurnedColumns / kRowsOfProduct;

  void writeTile(KernelBuilder &b, ValueRange args, const Tile &tile) override;
  /// Columns of a product's scales: none has columns behind the last.
  Value placeScales(KernelBuilder &b, Value column) const {
    return p.columns % kTurnedColumns == 0 ? column
                                           : b.minimum(column, b.index(p.columns - kRowsOfProduct));
  }
};
} // namespace

void TurnedKernel::writeTile(KernelBuilder &b, ValueRange args, const Tile &tile) {
  OpFoldResult rows = args[3];
  ProductViews::Place tokens =
      views.placeTokens(b, args[0], p.lhs, getReadRows(args), p.depth, tile.batch);
  ProductViews::Place out = placeOut(b, args, tile);
  WeightTiles weights(b, p, args[1], otherWeights(args), tile.batch);
  ScaleTiles scales(b, p, args.take_back(getScaleBuffers(p).size()), rows, tile.batch,
                    /*weightsAreRows=*/true);
  Type element = cast<MemRefType>(tokens.view.getType()).getElementType();
  SmallVector<Value> columns;
  for (int64_t number = 0; number < kProducts; ++number)
    columns.push_back(b.add(tile.column, number * kRowsOfProduct));
  SmallVector<Value> zeros(kProducts, b.constant({kRowsOfProduct, shape.rows}, 0));
  SmallVector<Value> sums = forDepth(b, tile, zeros, [&](Value k, ValueRange sums) {
    Value x = b.load(tokens.view, {tile.row, b.add(tokens.column, k)}, {shape.rows, shape.depth});
    SmallVector<Value> next;
    for (auto [column, sum] : llvm::zip_equal(columns, sums)) {
      auto load = [&](const ProductViews::Place &place, Value from) {
        return b.load(place.view, {b.add(place.row, from), k}, {kRowsOfProduct, shape.depth});
      };
      Value codes = weights.load(b, column, load);
      next.push_back(b.dot(scales.turn(b, placeScales(b, column), k, codes, element), x, sum,
                           /*transposeRhs=*/true));
    }
    return next;
  });
  for (auto [column, total] : llvm::zip_equal(columns, sums)) {
    Value sum = scales.finish(b, placeScales(b, column), total);
    if (p.bias)
      sum = addBias(b, p, getBiases(args), sum, {.column = column, .columns = BiasPlace::ManyRows});
    Type result = cast<MemRefType>(out.view.getType()).getElementType();
    tile::StoreOp::create(b, b.narrow(sum, result), out.view,
                          ValueRange{tile.row, b.add(out.column, column)}, /*transposed=*/true);
  }
}

/// `read`: launches what reads the product's rows, if another kernel does.
static void emitTurned(StepLowering &step, const Product &product, int64_t moreThan,
                       llvm::function_ref<void(const PartialSums *)> read,
                       llvm::function_ref<void(int64_t)> otherwise) {
  if (!step.shapes.isProductPersistent || !canTurnCodes(product) ||
      !TurnedKernel(step, product, kLeastTurnedRows).fits())
    return otherwise(moreThan);
  ProductShape shape{product.columns, product.depth, product.batch, ProductOperands::CodedWeights};
  shape.isRead = static_cast<bool>(read);
  ProductRanges ranges = chooseTurnedRanges(shape, step.machine);
  auto launch = [&](const Product &of, const RangeTiles &tiles) {
    TurnedKernel kernel(step, of, tiles.rows, tiles.parts);
    kernel.launch(step, step.constant(0),
                  step.multiply(step.ceilDiv(of.rows, tiles.rows), kernel.countTiles()));
  };
  auto emitAll = [&] { emitRangesInParts(step, product, ranges, moreThan, launch, read); };
  int64_t most = findMostTurnedRows(shape, ranges, step.machine);
  if (most == std::numeric_limits<int64_t>::max())
    return emitAll();
  if (most <= moreThan)
    return otherwise(moreThan);
  step.versionByRows(product.rows, most, emitAll, [&] { otherwise(most); });
}

void mlac::mla_to_tile::emitTurnedProduct(StepLowering &step, const Product &product,
                                          int64_t moreThan,
                                          llvm::function_ref<void(int64_t)> otherwise) {
  emitTurned(step, product, moreThan, /*read=*/nullptr, otherwise);
}

void mlac::mla_to_tile::emitReadTurned(StepLowering &step, const Product &product, int64_t moreThan,
                                       llvm::function_ref<void(const PartialSums *)> read,
                                       llvm::function_ref<void(int64_t)> otherwise) {
  emitTurned(step, product, moreThan, read, otherwise);
}
