//===- PersistentProduct.cpp - products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/PersistentProduct.h"

#include "Products/CodedWeights.h"
#include "Products/ProductViews.h"

#include "mla/Analysis/ProductCost.h"

#include "llvm/Support/FormatVariadic.h"

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
  Tile find(KernelBuilder &b, Value number, Value rowTiles);
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

PersistentKernel::Tile PersistentKernel::find(KernelBuilder &b, Value number, Value rowTiles) {
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
  Value rowTiles = b.ceilDivNarrow(args[3], b.index(tileRows()));
  Value first = b.add(args[5], b.programId(0));
  b.loop(first, args[6], args[4], {}, [&](Value number, ValueRange) {
    writeTile(b, args, find(b, number, rowTiles));
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
  return shape;
}

bool mlac::mla_to_tile::emitPersistentProduct(StepLowering &step, const Product &product) {
  if (!step.shapes.isProductPersistent)
    return false;
  ProductTiles shape = chooseProductTiles(getShape(product), step.machine);
  PersistentKernel wide(step, product, shape.columns, shape.columns);
  if (!wide.fits())
    return false;
  Value none = step.constant(0);
  Value tiles = step.multiply(step.ceilDiv(product.rows, kProductTileRows),
                              wide.countColumnTiles() * product.batch);
  if (shape.tailColumns == 0) {
    wide.launch(step, none, tiles);
    return true;
  }
  PersistentKernel narrow(step, product, shape.columns, shape.tailColumns);
  Value tail = countTail(step, tiles, step.dim("num_sms"), narrow.countParts());
  auto launchBoth = [&] {
    Value end = arith::SubIOp::create(step.plan(), tiles.getLoc(), tiles, tail);
    step.ifAbove(end, 0, [&] { wide.launch(step, none, end); });
    narrow.launch(step, step.multiply(end, narrow.countParts()),
                  step.multiply(tiles, narrow.countParts()));
  };
  step.versionByRows(
      tail, 0, [&] { wide.launch(step, none, tiles); }, launchBoth);
  return true;
}

//===----------------------------------------------------------------------===//
// One row tile
//===----------------------------------------------------------------------===//

std::optional<RowTile> mlac::mla_to_tile::findRowTile(StepLowering &step, const Product &product) {
  if (!step.shapes.isProductPersistent)
    return std::nullopt;
  ProductShape shape = getShape(product);
  bool mayCut = product.batch == 1 && !product.bias && canSumParts(step, product.columns);
  RowTile tile = chooseRowTile(shape, mayCut, step.machine);
  bool isColumnsFirst = tile.columns == SwappedTile::kColumns && tile.parts == 1;
  if (isColumnsFirst || !PersistentKernel(step, product, tile.columns, tile.columns).fits())
    return std::nullopt;
  return tile;
}

void mlac::mla_to_tile::emitRowTile(StepLowering &step, const Product &product,
                                    const RowTile &tile) {
  auto launch = [&](const Product &result) {
    PersistentKernel kernel(step, result, tile.columns, tile.columns, tile.parts);
    kernel.launch(step, step.constant(0), step.constant(kernel.countTiles()));
  };
  if (tile.parts == 1)
    return launch(product);
  PartialSums sums = makePartialSums(step, product, tile.parts, kProductTileRows);
  Product partial = product;
  partial.out = sums.matrices(product.columns);
  launch(partial);
  emitSumParts(step, product, sums);
}

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Tiles of the narrowest columns for at most `limit` rows: one product of 64 rows, or two.
static void launchCodes(StepLowering &step, const Product &product, int64_t limit, int64_t parts) {
  int64_t products = limit <= kRowsOfProduct ? 1 : kProducts;
  PersistentKernel kernel(step, product, SwappedTile::kColumns, SwappedTile::kColumns, parts,
                          products);
  kernel.launch(step, step.constant(0), step.constant(kernel.countTiles()),
                /*early=*/limit <= step.machine.tuning.earlyRows);
}

/// Versions for the numbers of rows in `limits`, then what `otherwise` launches; the last one takes
/// all rows if nothing is left for more.
static void emitCodes(StepLowering &step, const Product &product, ArrayRef<int64_t> limits,
                      int64_t parts, llvm::function_ref<void()> otherwise) {
  if (limits.empty())
    return otherwise();
  auto few = [&] { launchCodes(step, product, limits.front(), parts); };
  if (limits.size() == 1 && !otherwise)
    return few();
  step.versionByRows(product.rows, limits.front(), few,
                     [&] { emitCodes(step, product, limits.drop_front(), parts, otherwise); });
}

static std::array<int64_t, 3> getCodesLimits(const StepLowering &step) {
  return {step.machine.tuning.earlyRows, kRowsOfProduct, kProductTileRows};
}

void mlac::mla_to_tile::emitCodedProduct(StepLowering &step, const Product &product,
                                         int64_t moreThan) {
  std::array<int64_t, 3> limits = getCodesLimits(step);
  auto rest = ArrayRef(limits).drop_while([&](int64_t limit) { return limit <= moreThan; });
  emitCodes(step, product, rest, /*parts=*/1, [&] {
    [[maybe_unused]] bool isEmitted = emitPersistentProduct(step, product);
    assert(isEmitted && "codes in whole tiles fit");
  });
}

void mlac::mla_to_tile::emitCodedParts(StepLowering &step, const Product &product, int64_t parts) {
  emitCodes(step, product, getCodesLimits(step), parts, nullptr);
}
