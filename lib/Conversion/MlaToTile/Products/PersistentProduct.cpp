//===- PersistentProduct.cpp - products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/PersistentProduct.h"

#include "Products/CodedRows.h"
#include "Products/CodedWeights.h"
#include "Products/RangeVersions.h"
#include "Products/TiledProduct.h"

#include "mla/Analysis/ProductCost.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// Two products of a tile: one for each consumer warpgroup.
static constexpr int64_t kProducts = kProductTileRows / kRowsOfProduct;

namespace {
/// Rows first: each product has 64 rows, all share the weights' tile.
class PersistentKernel : public TiledProduct {
public:
  PersistentKernel(const StepLowering &step, const Product &product, int64_t numbered,
                   int64_t columns, int64_t depthParts = 1, int64_t products = kProducts,
                   int64_t cluster = 1)
      : TiledProduct(step, product,
                     {products * kRowsOfProduct, numbered, columns, depthParts,
                      product.lhs.scales ? kCodedDepth : kProductDepth, cluster}),
        products(products) {}

private:
  void writeTile(KernelBuilder &b, ValueRange args, const Tile &tile) override;
  SmallVector<Value> accumulate(KernelBuilder &b, ValueRange args,
                                const ProductViews::Place &tokens, const Tile &tile);
  Value loadWeights(KernelBuilder &b, const ProductViews::Place &weights, Value column, Value k);

  int64_t products;
};
} // namespace

Value PersistentKernel::loadWeights(KernelBuilder &b, const ProductViews::Place &weights,
                                    Value column, Value k) {
  return p.transposeRhs
             ? b.load(weights.view, {b.add(weights.row, column), k}, {shape.columns, shape.depth})
             : b.load(weights.view, {b.add(weights.row, k), column}, {shape.depth, shape.columns});
}

SmallVector<Value> PersistentKernel::accumulate(KernelBuilder &b, ValueRange args,
                                                const ProductViews::Place &tokens,
                                                const Tile &tile) {
  WeightTiles weights(b, p, args[1], otherWeights(args), tile.batch);
  std::optional<ScaleTiles> scales;
  if (p.lhs.scales)
    scales.emplace(b, p, args.take_back(getScaleBuffers(p).size()), args[3], tile.batch,
                   /*weightsAreRows=*/false);
  SmallVector<Value> zeros(products, b.constant({kRowsOfProduct, shape.columns}, 0));
  SmallVector<Value> totals =
      forDepth(b, tile, zeros, [&](Value k, ValueRange sums) {
        Value at = b.add(tokens.column, k);
        SmallVector<Value> rows, x, next;
        for (int64_t index = 0; index < products; ++index) {
          rows.push_back(b.add(tile.row, index * kRowsOfProduct));
          x.push_back(b.load(tokens.view, {rows.back(), at}, {kRowsOfProduct, shape.depth}));
        }
        Value w = weights.load(b, tile.column, [&](const ProductViews::Place &place, Value column) {
          return loadWeights(b, place, column, k);
        });
        for (auto [row, tokenTile, sum] : llvm::zip_equal(rows, x, sums)) {
          auto multiply = [&, tokenTile = tokenTile](Value acc) {
            return b.dot(tokenTile, w, acc, p.transposeRhs);
          };
          next.push_back(scales ? scales->accumulate(b, {row, tile.column, k}, sum, multiply)
                                : multiply(sum));
        }
        return next;
      });
  if (scales)
    for (Value &total : totals)
      total = scales->finish(b, tile.column, total);
  return totals;
}

void PersistentKernel::writeTile(KernelBuilder &b, ValueRange args, const Tile &tile) {
  OpFoldResult rows = args[3];
  ProductViews::Place tokens =
      views.placeTokens(b, args[0], p.lhs, getReadRows(args), p.depth, tile.batch);
  ProductViews::Place out = placeOut(b, args, tile);
  SmallVector<Value> sums = accumulate(b, args, tokens, tile);
  for (auto [index, sum] : llvm::enumerate(sums)) {
    Value row = b.add(tile.row, static_cast<int64_t>(index) * kRowsOfProduct);
    if (p.bias)
      sum = addBias(b, p, getBiases(args), sum, {.column = tile.column});
    b.storeNarrow(sum, out.view, {row, b.add(out.column, tile.column)});
  }
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

/// Tiles of the last turn, if `parts` of each fit in one turn; else 0.
static Value countTail(StepLowering &step, Value tiles, Value programs, int64_t parts) {
  OpBuilder &b = step.plan();
  Location loc = tiles.getLoc();
  Value rest = arith::RemSIOp::create(b, loc, tiles, programs);
  Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, step.multiply(rest, parts),
                                     programs);
  return arith::SelectOp::create(b, loc, fits, rest, step.constant(0));
}

/// Of a tile whose sum has a bias as f32 beside it, as one step of the depth has: both are 192
/// registers of a consumer's 232.
static constexpr int64_t kMostColumnsOfOneStep = 192;

/// What costs depend on. A tile of codes has one scale of the weight for 128 of the depth.
static ProductShape getShape(const Product &product, bool isTall = false) {
  ProductShape shape{product.columns, product.depth, product.batch};
  for (const Product::Others &others : product.others)
    shape.weightColumns = std::gcd(shape.weightColumns, others.from);
  if (product.bias && product.depth <= kProductDepth)
    shape.mostColumns = kMostColumnsOfOneStep;
  if (!product.lhs.scales)
    return shape;
  shape.operands = ProductOperands::Codes;
  // Scales of each row and block of the weight are a third tile beside both accumulators.
  bool isOfRows = product.rhs.scales->rows == 1 && product.rhs.scales->columns != 0;
  bool hasWideBlocks = !isOfRows && canMultiplyCodes(product, kMostCodedColumns);
  shape.mostColumns = hasWideBlocks ? kMostCodedColumns : SwappedTile::kColumns;
  if (hasWideBlocks && isTall)
    shape.mostRows = kMostCodedRows;
  return shape;
}

/// Tiles and, in the last turn, narrower ones; or these alone, by the same kernel.
static void launchTurns(StepLowering &step, const Product &product, const ProductTiles &shape,
                        bool onlyTail = false) {
  int64_t products = shape.rows / kRowsOfProduct;
  PersistentKernel wide(step, product, shape.columns, shape.columns, /*depthParts=*/1, products);
  Value none = step.constant(0);
  Value tiles = step.multiply(step.ceilDiv(product.rows, shape.rows),
                              wide.countColumnTiles() * product.batch);
  if (shape.tailColumns == 0)
    return wide.launch(step, none, tiles);
  PersistentKernel narrow(step, product, shape.columns, shape.tailColumns, /*depthParts=*/1,
                          products);
  if (onlyTail)
    return narrow.launch(step, none, step.multiply(tiles, narrow.countParts()));
  Value tail = countTail(step, tiles, step.dim("num_sms"), narrow.countParts());
  auto launchBoth = [&] {
    Value end = arith::SubIOp::create(step.plan(), tiles.getLoc(), tiles, tail);
    step.ifAbove(end, 0, [&] { wide.launch(step, none, end); });
    narrow.launch(step, step.multiply(end, narrow.countParts()),
                  step.multiply(tiles, narrow.countParts()));
  };
  step.versionByRows(
      tail, 0, [&] { wide.launch(step, none, tiles); }, launchBoth);
}

static bool takesTiles(StepLowering &step, const Product &product, int64_t columns) {
  return step.shapes.isProductPersistent &&
         PersistentKernel(step, product, columns, columns).fits();
}

/// Whether codes get tiles of as many rows as there are: 56 and 128 steps of the depth gain 4 and
/// 12 % from 512 rows on, 12 and 16 lose up to 10, and so do 300 rows (one H100,
/// docs/lab/products.md).
static constexpr int64_t kLeastTallSteps = 32, kMostLowRows = 384;

static bool takesTallTiles(const Product &product) {
  return product.lhs.scales && product.lhs.scales->columns != 0 &&
         product.depth >= kLeastTallSteps * kCodedDepth;
}

bool mlac::mla_to_tile::emitPersistentProduct(StepLowering &step, const Product &product) {
  ProductTiles shape = chooseProductTiles(getShape(product), step.machine);
  if (!takesTiles(step, product, shape.columns))
    return false;
  auto launch = [&] { launchTurns(step, product, shape); };
  if (!takesTallTiles(product)) {
    launch();
    return true;
  }
  step.versionByRows(product.rows, kMostLowRows, launch, [&] {
    launchTurns(step, product,
                chooseProductTiles(getShape(product, /*isTall=*/true), step.machine));
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Ranges of rows
//===----------------------------------------------------------------------===//

/// None where the target or the operands do not suit the tiles.
static std::optional<ProductRanges> findRanges(StepLowering &step, const Product &product,
                                               const ProductShape &shape, bool mayCut) {
  if (!step.shapes.isProductPersistent)
    return std::nullopt;
  ProductRanges ranges = chooseProductRanges(shape, mayCut, step.machine);
  for (const RangeTiles &tiles : ranges.tiles)
    if (!takesTiles(step, product, tiles.columns))
      return std::nullopt;
  return ranges;
}

std::optional<ProductRanges> mlac::mla_to_tile::findProductRanges(StepLowering &step,
                                                                  const Product &product) {
  bool mayCut = product.batch == 1 && !product.bias && !product.lhs.scales &&
                canSumParts(step, product.columns);
  return findRanges(step, product, getShape(product, takesTallTiles(product)), mayCut);
}

bool mlac::mla_to_tile::hasFasterRange(StepLowering &step, const Product &product,
                                       const ProductRanges &ranges, int64_t cluster) {
  constexpr int64_t typicalRows = 112;
  ProductShape shape = getShape(product);
  return predictRangeMicroseconds(shape, typicalRows, ranges.find(typicalRows), step.machine) <
         predictTokensAsColumns(shape, typicalRows, cluster, step.machine);
}

static ProductShape getReadShape(const Product &product) {
  ProductShape shape = getShape(product, takesTallTiles(product));
  shape.isRead = true;
  return shape;
}

std::optional<ProductRanges> mlac::mla_to_tile::findReadRanges(StepLowering &step,
                                                               const Product &product) {
  return findRanges(step, product, getReadShape(product), /*mayCut=*/true);
}

double mlac::mla_to_tile::predictProductRanges(StepLowering &step, const Product &product,
                                               const ProductRanges &ranges, int64_t rows) {
  ProductShape shape = getShape(product, takesTallTiles(product));
  return predictRangeMicroseconds(shape, rows, ranges.find(rows), step.machine);
}

double mlac::mla_to_tile::predictReadRanges(StepLowering &step, const Product &product,
                                            const ProductRanges &ranges, int64_t rows) {
  return predictRangeMicroseconds(getReadShape(product), rows, ranges.find(rows), step.machine);
}

/// One kernel; of parts, the sums of which `product` has as its result.
static void launchTiles(StepLowering &step, const Product &product, const RangeTiles &tiles) {
  PersistentKernel kernel(step, product, tiles.columns, tiles.columns, tiles.parts,
                          tiles.rows / kRowsOfProduct, tiles.cluster);
  kernel.launch(step, step.constant(0),
                step.multiply(step.ceilDiv(product.rows, tiles.rows), kernel.countTiles()));
}

static void launchParts(StepLowering &step, const Product &product, const RangeTiles &tiles,
                        const PartialSums &to) {
  Product partial = product;
  partial.out = to.matrices(product.columns);
  launchTiles(step, partial, tiles);
}

/// The fastest tiles of 65 to 128 rows in parts, whose sums the kernel behind reads; in so many
/// parts, if they are given. No parts: there are none.
static RangeTiles choosePartTiles(StepLowering &step, const Product &product, int64_t given = 0) {
  constexpr int64_t typicalRows = 112;
  RangeTiles best{0, 0, 0, 0};
  double least = std::numeric_limits<double>::infinity();
  auto offer = [&](const RangeTiles &tiles) {
    double time = predictRangeMicroseconds(getShape(product), typicalRows, tiles, step.machine);
    if (time < least) {
      least = time;
      best = tiles;
    }
  };
  for (int64_t parts = given ? given : 2; parts <= (given ? given : step.machine.tuning.depthParts);
       ++parts)
    for (int64_t columns : {64, 128, 192, 256})
      if (product.depth % (parts * kProductDepth) == 0 && getShape(product).takesTiles(columns) &&
          takesTiles(step, product, columns))
        for (int64_t rows : {kRowsOfProduct, kProductTileRows})
          offer({rows, columns, /*tailColumns=*/0, parts});
  return best;
}

int64_t mlac::mla_to_tile::findPartsOfMany(StepLowering &step, const Product &product) {
  return product.rhs.scales ? 0 : choosePartTiles(step, product).parts;
}

void mlac::mla_to_tile::emitPartialSumsOfMany(StepLowering &step, const Product &product,
                                              const PartialSums &to) {
  launchParts(step, product, choosePartTiles(step, product, to.count), to);
}

/// At most 128 rows may be in parts, which another kernel adds up.
static void launchRange(StepLowering &step, const Product &product, const RangeTiles &tiles) {
  if (tiles.parts == 1)
    return launchTiles(step, product, tiles);
  PartialSums sums =
      makePartialSums(step, product, tiles.parts, step.plan().getIndexAttr(kProductTileRows));
  launchParts(step, product, tiles, sums);
  emitSumParts(step, product, sums);
}

/// Tiles for many rows, or those of their tail, whose kernel can take all tiles of other ranges if
/// none of them has no columns; false if `tiles` are neither.
static bool launchMany(StepLowering &step, const Product &product, const ProductRanges &ranges,
                       const RangeTiles &tiles) {
  const RangeTiles &many = ranges.tiles.front();
  bool isTail = many.tailColumns != 0 && product.columns % many.columns == 0 &&
                tiles == RangeTiles{many.rows, many.tailColumns};
  if (tiles != many && !isTail)
    return false;
  launchTurns(step, product, {many.columns, many.tailColumns, many.rows},
              /*onlyTail=*/tiles != many);
  return true;
}

void mlac::mla_to_tile::emitProductRanges(StepLowering &step, const Product &product,
                                          const ProductRanges &ranges, int64_t moreThan) {
  emitRanges(step, product.rows, ranges, moreThan, [&](const RangeTiles &tiles) {
    if (!launchMany(step, product, ranges, tiles))
      launchRange(step, product, tiles);
  });
}

void mlac::mla_to_tile::emitReadRanges(StepLowering &step, const Product &product,
                                       const ProductRanges &ranges, int64_t moreThan,
                                       llvm::function_ref<void(const PartialSums *)> read) {
  auto launch = [&](const Product &of, const RangeTiles &tiles) {
    if (tiles.parts != 1 || !launchMany(step, of, ranges, tiles))
      launchTiles(step, of, tiles);
  };
  emitRangesInParts(step, product, ranges, moreThan, launch, read);
}
