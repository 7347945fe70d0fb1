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
#include "Products/ProductViews.h"

#include "mla/Analysis/ProductCost.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// Products of 64 rows each in a tile: one for each consumer warpgroup.
static constexpr int64_t kRowsOfProduct = 64;
static constexpr int64_t kProducts = kProductTileRows / kRowsOfProduct;

namespace {
class PersistentKernel {
public:
  /// Each tile of `numbered` columns is several of `columns`, one behind the other, and
  /// computed in `depthParts`, which are stored side by side.
  PersistentKernel(const StepLowering &step, const Product &product, int64_t numbered,
                   int64_t columns, int64_t depthParts = 1, int64_t products = kProducts)
      : p(product), views(product), stripTiles(step.machine.tuning.stripTiles), numbered(numbered),
        columns(columns), depthParts(depthParts), products(products),
        depth(product.lhs.scales ? kCodedDepth : kProductDepth) {}

  bool fits() const { return isAligned() && views.fit(numbered, depth); }
  int64_t countParts() const { return numbered / columns; }
  int64_t countColumnTiles() const { return llvm::divideCeil(p.columns, numbered); }
  /// Of a row tile.
  int64_t countTiles() const { return countColumnTiles() * p.batch * depthParts; }
  /// The tiles from `first` to `end`, numbered with all before them. `early`: the next kernel
  /// begins while this one runs.
  void launch(StepLowering &step, Value first, Value end, bool early = false);

private:
  /// Which tile the program computes.
  struct Tile {
    Value row, column, batch, depthPart;
  };
  bool isAligned() const;
  Tile find(KernelBuilder &b, Value number, Value rows);
  void write(KernelBuilder &b, ValueRange args);
  void writeTile(KernelBuilder &b, ValueRange args, const Tile &tile);
  SmallVector<Value> accumulate(KernelBuilder &b, ValueRange args,
                                const ProductViews::Place &tokens, const Tile &tile);
  Value loadWeights(KernelBuilder &b, const ProductViews::Place &weights, Value column, Value k);
  /// Behind the others: bias, the weights of other columns, scales.
  ValueRange otherWeights(ValueRange args) const {
    return args.slice(p.bias ? 8 : 7, p.others.size());
  }
  int64_t tileRows() const { return products * kRowsOfProduct; }
  /// Whether the last row tile ends with the rows, and has some of the tile before, too. Copies of
  /// rows that do not exist take longer than those of rows that do (64 columns, 160 rows of 8192:
  /// 52 us for 32 on one H100), 1.35 ns for 64 of the depth; to write a row twice takes 11 ns for
  /// 128 columns. (Scales of codes' rows are copied in blocks of 64: there are up to 63 more.)
  bool endsWithRows() const { return p.depth / depthParts >= 4 * columns; }

  const Product &p;
  ProductViews views;
  int64_t stripTiles, numbered, columns, depthParts, products, depth;
  bool isInvariant = false;
};
} // namespace

/// Whether TMA can copy the operands: accumulators of this size need the product schedule.
bool PersistentKernel::isAligned() const {
  const int64_t elements = p.lhs.scales ? 16 : 8; // of 16 bytes
  return llvm::all_of(ArrayRef<Matrices>{p.lhs, p.rhs}, [&](const Matrices &m) {
    return m.offset % elements == 0 && m.rowStride % elements == 0 && m.batchStride % elements == 0;
  });
}

PersistentKernel::Tile PersistentKernel::find(KernelBuilder &b, Value number, Value rows) {
  Value rowTiles = b.ceilDivNarrow(rows, b.index(tileRows()));
  Tile tile;
  Value part;
  if (countParts() != 1) {
    Value whole = b.divNarrow(number, b.index(countParts()));
    part = b.sub(number, b.mul(whole, countParts()));
    number = whole;
  }
  tile.batch = tile.depthPart = b.index(0);
  if (p.batch != 1 || depthParts != 1) { // one of them is 1
    Value ofPart = b.mul(rowTiles, countColumnTiles());
    Value outer = b.divNarrow(number, ofPart);
    (depthParts == 1 ? tile.batch : tile.depthPart) = outer;
    number = b.sub(number, b.mul(outer, ofPart));
  }
  int64_t ofStrip = stripTiles * countColumnTiles();
  Value strip = b.divNarrow(number, b.index(ofStrip));
  Value first = b.mul(strip, stripTiles);
  Value height = b.minimum(b.sub(rowTiles, first), b.index(stripTiles));
  Value rest = b.sub(number, b.mul(strip, ofStrip));
  Value column = b.divNarrow(rest, height);
  Value row = b.add(first, b.sub(rest, b.mul(column, height)));
  tile.row = b.mul(row, tileRows());
  if (endsWithRows()) {
    Value end =
        p.lhs.scales ? b.mul(b.ceilDivNarrow(rows, b.index(kRowsOfProduct)), kRowsOfProduct) : rows;
    tile.row = b.maximum(b.minimum(tile.row, b.sub(end, b.index(tileRows()))), b.index(0));
  }
  tile.column = b.mul(column, numbered);
  if (part)
    tile.column = b.add(tile.column, b.mul(part, columns));
  return tile;
}

Value PersistentKernel::loadWeights(KernelBuilder &b, const ProductViews::Place &weights,
                                    Value column, Value k) {
  return p.transposeRhs ? b.load(weights.view, {b.add(weights.row, column), k}, {columns, depth})
                        : b.load(weights.view, {b.add(weights.row, k), column}, {depth, columns});
}

SmallVector<Value> PersistentKernel::accumulate(KernelBuilder &b, ValueRange args,
                                                const ProductViews::Place &tokens,
                                                const Tile &tile) {
  WeightTiles weights(b, p, args[1], otherWeights(args), tile.batch);
  std::optional<ScaleTiles> scales;
  if (p.lhs.scales)
    scales.emplace(b, p, args.take_back(getScaleBuffers(p).size()), args[3], tile.batch,
                   /*weightsAreRows=*/false);
  SmallVector<Value> zeros(products, b.constant({kRowsOfProduct, columns}, 0));
  int64_t width = p.depth / depthParts;
  Value from = b.mul(tile.depthPart, width);
  SmallVector<Value> totals = b.forBlocks(width, depth, zeros, [&](Value block, ValueRange sums) {
    Value k = depthParts == 1 ? block : b.add(from, block);
    Value at = b.add(tokens.column, k);
    SmallVector<Value> rows, x, next;
    for (int64_t index = 0; index < products; ++index) {
      rows.push_back(b.add(tile.row, index * kRowsOfProduct));
      x.push_back(b.load(tokens.view, {rows.back(), at}, {kRowsOfProduct, depth}));
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
  ProductViews::Place tokens = views.placeTokens(b, args[0], p.lhs, rows, p.depth, tile.batch);
  ProductViews::Place out = views.placeTokens(b, args[2], p.out, rows, p.columns, tile.batch);
  if (depthParts != 1)
    out.view = b.view(args[2], b.extent(b.mul(tile.depthPart, p.out.batchStride), p.out.offset),
                      {rows, b.fixed(p.columns)}, {b.fixed(p.out.rowStride), b.fixed(1)});
  SmallVector<Value> sums = accumulate(b, args, tokens, tile);
  for (auto [index, sum] : llvm::enumerate(sums)) {
    Value row = b.add(tile.row, static_cast<int64_t>(index) * kRowsOfProduct);
    if (p.bias) {
      Value bias = b.view(args[7], b.fixed(p.bias->offset), {rows, b.fixed(p.columns)},
                          {b.fixed(0), b.fixed(p.bias->strides[0])});
      sum = b.addf(sum, b.loadWide(bias, {row, tile.column}, {kRowsOfProduct, columns}));
    }
    b.storeNarrow(sum, out.view, {row, b.add(out.column, tile.column)});
  }
}

void PersistentKernel::write(KernelBuilder &b, ValueRange args) {
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

void PersistentKernel::launch(StepLowering &step, Value first, Value end, bool early) {
  isInvariant =
      step.isInvariant(p.rhs.buffer) && llvm::all_of(p.others, [&](const Product::Others &others) {
        return step.isInvariant(others.rhs.buffer);
      });
  Value programs = step.dim("num_sms");
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows,
                             programs,     first,        end};
  if (p.bias)
    args.push_back(p.bias->buffer);
  for (const Product::Others &others : p.others)
    args.push_back(others.rhs.buffer);
  args.append(getScaleBuffers(p));
  std::string name = llvm::formatv("linear_{0}{1}x{2}_tile_{3}x{4}", getCodesPrefix(p), p.columns,
                                   p.depth, tileRows(), columns)
                         .str();
  if (depthParts != 1)
    name += llvm::formatv("_parts_{0}", depthParts).str();
  step.launch(
      name, {programs, step.constant(1), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained(early));
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
static ProductShape getShape(const Product &product) {
  ProductShape shape{product.columns, product.depth, product.batch};
  if (product.bias && product.depth <= kProductDepth)
    shape.mostColumns = kMostColumnsOfOneStep;
  if (!product.lhs.scales)
    return shape;
  shape.operands = ProductOperands::Codes;
  // Scales of each row and block of the weight are a third tile beside both accumulators.
  bool isOfRows = product.rhs.scales->rows == 1 && product.rhs.scales->columns != 0;
  bool hasWideBlocks = !isOfRows && canMultiplyCodes(product, kMostCodedColumns);
  shape.mostColumns = hasWideBlocks ? kMostCodedColumns : SwappedTile::kColumns;
  if (hasWideBlocks && product.lhs.scales->blockRows != 0)
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

/// Whether a copy of the rows' scales in blocks, a launch more, is worth it: 56 and 128 steps of
/// the depth gain 4 and 12 % from 512 rows on, 12 and 16 lose up to 10, and so do 300 rows (one
/// H100, docs/lab/products.md).
static constexpr int64_t kLeastBlockSteps = 32, kMostUnblockedRows = 384;

static bool takesScaleBlocks(const Product &product) {
  return product.lhs.scales && product.lhs.scales->columns != 0 &&
         product.depth >= kLeastBlockSteps * kCodedDepth;
}

bool mlac::mla_to_tile::emitPersistentProduct(StepLowering &step, const Product &product) {
  ProductTiles shape = chooseProductTiles(getShape(product), step.machine);
  if (!takesTiles(step, product, shape.columns))
    return false;
  auto emitRowByRow = [&] { launchTurns(step, product, shape); };
  if (!takesScaleBlocks(product)) {
    emitRowByRow();
    return true;
  }
  step.versionByRows(product.rows, kMostUnblockedRows, emitRowByRow, [&] {
    Product blocked = product;
    blocked.lhs.scales = emitScaleBlocks(step, product, kMostCodedRows);
    launchTurns(step, blocked, chooseProductTiles(getShape(blocked), step.machine));
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Ranges of rows
//===----------------------------------------------------------------------===//

std::optional<ProductRanges> mlac::mla_to_tile::findProductRanges(StepLowering &step,
                                                                  const Product &product) {
  bool mayCut = product.batch == 1 && !product.bias && canSumParts(step, product.columns);
  if (!step.shapes.isProductPersistent)
    return std::nullopt;
  ProductRanges ranges = chooseProductRanges(getShape(product), mayCut, step.machine);
  for (const RangeTiles &tiles : ranges.tiles)
    if (!takesTiles(step, product, tiles.columns))
      return std::nullopt;
  return ranges;
}

/// One kernel; of parts, the sums of which `product` has as its result.
static void launchTiles(StepLowering &step, const Product &product, const RangeTiles &tiles) {
  PersistentKernel kernel(step, product, tiles.columns, tiles.columns, tiles.parts,
                          tiles.rows / kRowsOfProduct);
  kernel.launch(step, step.constant(0),
                step.multiply(step.ceilDiv(product.rows, tiles.rows), kernel.countTiles()));
}

static void launchParts(StepLowering &step, const Product &product, const RangeTiles &tiles,
                        const PartialSums &to) {
  Product partial = product;
  partial.out = to.matrices(product.columns);
  launchTiles(step, partial, tiles);
}

/// No tile has columns of two weights.
static bool keepsWeightsApart(const Product &product, int64_t columns) {
  return llvm::all_of(product.others,
                      [&](const Product::Others &others) { return others.from % columns == 0; });
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
      if (product.depth % (parts * kProductDepth) == 0 && keepsWeightsApart(product, columns) &&
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
  PartialSums sums = makePartialSums(step, product, tiles.parts, kProductTileRows);
  launchParts(step, product, tiles, sums);
  emitSumParts(step, product, sums);
}

/// Which of the tiles the step's rows have.
static Value chooseTiles(StepLowering &step, Value rows, const ProductRanges &ranges) {
  std::optional<int64_t> known = getConstantIntValue(rows);
  Value choice = step.constant(0);
  for (const ProductRanges::Range &range : llvm::reverse(ranges.ranges)) {
    Value number = step.constant(static_cast<int64_t>(range.number));
    if (known) {
      choice = *known <= range.mostRows ? number : choice;
      continue;
    }
    Value isIn = arith::CmpIOp::create(step.plan(), rows.getLoc(), arith::CmpIPredicate::sle, rows,
                                       step.constant(range.mostRows));
    choice = arith::SelectOp::create(step.plan(), rows.getLoc(), isIn, number, choice);
  }
  return choice;
}

/// The ranges of more rows than `moreThan`, and what they use.
static ProductRanges dropRanges(const ProductRanges &all, int64_t moreThan) {
  ProductRanges kept;
  kept.tiles.push_back(all.tiles.front());
  for (ProductRanges::Range range : all.ranges) {
    if (range.mostRows <= moreThan)
      continue;
    const RangeTiles &tiles = all.tiles[range.number];
    auto found = llvm::find(kept.tiles, tiles);
    range.number = static_cast<size_t>(found - kept.tiles.begin());
    if (found == kept.tiles.end())
      kept.tiles.push_back(tiles);
    kept.ranges.push_back(range);
  }
  return kept;
}

namespace {
/// One kernel after the other asks whether the choice is its number.
struct RangeVersions {
  StepLowering &step;
  const Product &product;
  const ProductRanges &ranges;
  Value choice;

  /// The tail's kernel of many rows can take all tiles of other ranges.
  bool isTail(const RangeTiles &tiles) const {
    int64_t tail = ranges.tiles.front().tailColumns;
    return tail != 0 && tiles == RangeTiles{kProductTileRows, tail};
  }
  void launch(size_t number) const;
  void emitFrom(size_t number) const;
};
} // namespace

void RangeVersions::launch(size_t number) const {
  const RangeTiles &tiles = ranges.tiles[number];
  if (number != 0 && !isTail(tiles))
    return launchRange(step, product, tiles);
  const RangeTiles &many = ranges.tiles.front();
  launchTurns(step, product, {many.columns, many.tailColumns}, /*onlyTail=*/number != 0);
}

void RangeVersions::emitFrom(size_t number) const {
  if (number + 1 == ranges.tiles.size())
    return launch(number);
  step.versionByRows(
      choice, static_cast<int64_t>(number), [&] { launch(number); }, [&] { emitFrom(number + 1); });
}

void mlac::mla_to_tile::emitProductRanges(StepLowering &step, const Product &product,
                                          const ProductRanges &all, int64_t moreThan) {
  ProductRanges ranges = dropRanges(all, moreThan);
  RangeVersions{step, product, ranges, chooseTiles(step, product.rows, ranges)}.emitFrom(0);
}

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

void mlac::mla_to_tile::emitCodedTile(StepLowering &step, const Product &product, int64_t parts) {
  PersistentKernel kernel(step, product, SwappedTile::kColumns, SwappedTile::kColumns, parts);
  kernel.launch(step, step.constant(0), step.constant(kernel.countTiles()));
}
