//===- Product.cpp - batched matrix products as kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns first, programs are (column tiles, parts of the depth, batch); rows first,
// (row tiles, column tiles, batch).
//
//===----------------------------------------------------------------------===//

#include "Products/CodedWeights.h"
#include "Products/PersistentProduct.h"
#include "Products/ProductViews.h"
#include "Products/TurnedProduct.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Rows first
//===----------------------------------------------------------------------===//

namespace {
/// Writes the kernel of one product with one tile shape.
class ProductKernel {
public:
  ProductKernel(const Product &product, MatmulTile limits)
      : p(product), tile{limits.rows, blockWidth(p.columns, limits.columns),
                         p.rhs.scales ? kCodedDepth : blockWidth(p.depth, limits.depth)} {}

  bool hasSameTile(const ProductKernel &other) const { return tile == other.tile; }
  void launch(StepLowering &step);

private:
  void write(KernelBuilder &b, ValueRange args);
  Value view(KernelBuilder &b, Value buffer, const Matrices &m, OpFoldResult rows,
             OpFoldResult columns);
  Value accumulate(KernelBuilder &b, Value lhs, Value rhs, Value row, Value column,
                   const std::optional<ScaleTiles> &scales);

  const Product &p;
  MatmulTile tile;
};
} // namespace

Value ProductKernel::view(KernelBuilder &b, Value buffer, const Matrices &m, OpFoldResult rows,
                          OpFoldResult columns) {
  OpFoldResult offset = b.fixed(m.offset);
  if (p.batch != 1)
    offset = b.extent(b.mul(b.programId(2), m.batchStride), m.offset);
  return b.view(buffer, offset, {rows, columns}, {b.fixed(m.rowStride), b.fixed(m.columnStride)});
}

Value ProductKernel::accumulate(KernelBuilder &b, Value lhs, Value rhs, Value row, Value column,
                                const std::optional<ScaleTiles> &scales) {
  Value zero = b.constant({tile.rows, tile.columns}, 0);
  return b.forBlocks(p.depth, tile.depth, zero, [&](Value k, ValueRange acc) {
    Value a = b.load(lhs, {row, k}, {tile.rows, tile.depth});
    Value w = p.transposeRhs ? b.load(rhs, {column, k}, {tile.columns, tile.depth})
                             : b.load(rhs, {k, column}, {tile.depth, tile.columns});
    if (scales)
      return SmallVector<Value>{scales->accumulate(b, {row, column, k}, acc[0], [&](Value sum) {
        return b.dot(a, w, sum, p.transposeRhs);
      })};
    return SmallVector<Value>{b.dot(a, w, acc[0], p.transposeRhs)};
  })[0];
}

void ProductKernel::write(KernelBuilder &b, ValueRange args) {
  OpFoldResult rows = args[3], columns = b.fixed(p.columns), depth = b.fixed(p.depth);
  Value row = b.mul(b.programId(0), tile.rows), column = b.mul(b.programId(1), tile.columns);
  Value lhs = view(b, args[0], p.lhs, rows, depth);
  Value rhs =
      view(b, args[1], p.rhs, p.transposeRhs ? columns : depth, p.transposeRhs ? depth : columns);
  std::optional<ScaleTiles> scales;
  if (p.rhs.scales)
    scales.emplace(b, p, args.take_back(getScaleBuffers(p).size()), rows, b.programId(2),
                   /*weightsAreRows=*/false);
  Value acc = accumulate(b, lhs, rhs, row, column, scales);
  if (scales)
    acc = scales->finish(b, column, acc);
  if (p.bias)
    acc = addBias(b, p, args.drop_front(4), acc, {.column = column});
  b.storeNarrow(acc, view(b, args[2], p.out, rows, columns), {row, column});
}

void ProductKernel::launch(StepLowering &step) {
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows};
  args.append(getBiasBuffers(p));
  args.append(getScaleBuffers(p));
  std::string name = llvm::formatv("linear_{0}{1}x{2}_tile_{3}x{4}", getCodesPrefix(p), p.columns,
                                   p.depth, tile.rows, tile.columns)
                         .str();
  std::array<Value, 3> grid = {step.ceilDiv(p.rows, tile.rows),
                               step.constant(llvm::divideCeil(p.columns, tile.columns)),
                               step.constant(p.batch)};
  step.launch(
      name, grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); },
      step.chained());
}

//===----------------------------------------------------------------------===//
// Columns first
//===----------------------------------------------------------------------===//

namespace {
class SwappedKernel {
public:
  SwappedKernel(const StepLowering &step, const Product &product, SwappedTile limits,
                int64_t parts = 1)
      : p(product), tuning(step.machine.tuning), parts(parts), rows(limits.rows),
        depth(p.rhs.scales ? kCodedDepth : limits.blockDepth(p.depth)),
        cluster(chooseCluster(step)) {}

  bool fits() const {
    return ProductViews(p).fit(tileColumns(), depth) &&
           (!p.rhs.scales || p.depth % kCodedDepth == 0);
  }
  void launch(StepLowering &step);
  /// Whether parts of the depth are whole blocks.
  bool canCut() const { return p.depth % (parts * depth) == 0; }
  /// CTAs that divide a program's depth.
  int64_t getCluster() const { return cluster; }

private:
  int64_t tileColumns() const { return SwappedTile::kColumns; }
  int64_t countTilesOfProgram() const;
  int64_t countSums() const;
  int64_t chooseCluster(const StepLowering &step) const;

  using Place = ProductViews::Place;
  /// The buffers of weights among a kernel's arguments.
  SmallVector<unsigned> weightArguments() const;
  /// The weights' tile for `column` and, from `k` on, `depth`.
  using LoadWeights = llvm::function_ref<Value(Value column, Value k)>;
  void write(KernelBuilder &b, ValueRange args);
  Value loadWeights(KernelBuilder &b, const Place &weights, Value column, Value k);
  Value accumulate(KernelBuilder &b, const Place &tokens, Value column, LoadWeights load);
  Value accumulateCodes(KernelBuilder &b, const Place &tokens, Value column, LoadWeights load,
                        const ScaleTiles &scales);

  const Product &p;
  const Tuning &tuning;
  int64_t parts, rows, depth, cluster;
  bool isInvariant = false, hasRowsBehind = false;
};
} // namespace

/// As many as leave enough programs, so that few of them pay for a start.
int64_t SwappedKernel::countTilesOfProgram() const {
  int64_t tiles = llvm::divideCeil(p.columns, tileColumns());
  for (int64_t count = tiles; count > 1; --count)
    if (tiles % count == 0 && tiles / count * p.batch * parts >= tuning.busyPrograms)
      return count;
  return 1;
}

/// Two accumulators where the depth of codes has more than two blocks for each: they get them by
/// turns, so that two warpgroups turn codes into operands.
int64_t SwappedKernel::countSums() const {
  int64_t width = p.depth / parts, pair = 2 * depth;
  return p.rhs.scales && width % pair == 0 && width > pair ? 2 : 1;
}

/// Parts that a kernel reads are added there.
int64_t SwappedKernel::chooseCluster(const StepLowering &step) const {
  if (!step.shapes.isProductPersistent || parts != 1)
    return 1;
  ProductShape shape{p.columns, p.depth, p.batch};
  if (p.rhs.scales)
    shape.operands = p.lhs.scales ? ProductOperands::Codes : ProductOperands::CodedWeights;
  return chooseDepthCluster(shape, rows, countSums() * depth, step.machine);
}

Value SwappedKernel::loadWeights(KernelBuilder &b, const Place &weights, Value column, Value k) {
  return p.transposeRhs
             ? b.load(weights.view, {b.add(weights.row, column), k}, {tileColumns(), depth})
             : b.load(weights.view, {b.add(weights.row, k), column}, {depth, tileColumns()});
}

Value SwappedKernel::accumulate(KernelBuilder &b, const Place &tokens, Value column,
                                LoadWeights load) {
  int64_t width = p.depth / parts; // a whole number of blocks if there are parts
  Value first = b.mul(b.programId(1), parts == 1 ? 0 : width);
  Value zero = b.constant({tileColumns(), rows}, 0);
  return b.forBlocks(width, depth, zero, [&](Value block, ValueRange acc) {
    Value k = parts == 1 ? block : b.add(first, block);
    Value x = b.load(tokens.view, {tokens.row, b.add(tokens.column, k)}, {rows, depth});
    return SmallVector<Value>{tile::DotOp::create(b, acc[0].getType(), load(column, k), x, acc[0],
                                                  /*transpose_rhs=*/true,
                                                  /*transpose_lhs=*/!p.transposeRhs)};
  })[0];
}

Value SwappedKernel::accumulateCodes(KernelBuilder &b, const Place &tokens, Value column,
                                     LoadWeights load, const ScaleTiles &scales) {
  int64_t width = p.depth / parts, sums = countSums();
  Value first = b.mul(b.programId(1), parts == 1 ? 0 : width), none = b.index(0);
  SmallVector<Value> zeros(sums, b.constant({tileColumns(), rows}, 0));
  SmallVector<Value> totals =
      b.forBlocks(width, sums * depth, zeros, [&](Value block, ValueRange acc) {
        SmallVector<Value> next;
        for (int64_t number = 0; number < sums; ++number) {
          Value k = b.add(parts == 1 ? block : b.add(first, block), number * depth);
          Value x = b.load(tokens.view, {tokens.row, b.add(tokens.column, k)}, {rows, depth});
          next.push_back(scales.accumulate(b, {none, column, k}, acc[number], [&](Value sum) {
            return b.dot(load(column, k), x, sum, /*transposeRhs=*/true);
          }));
        }
        return next;
      });
  Value total = totals.front();
  for (Value other : ArrayRef(totals).drop_front())
    total = b.addf(total, other);
  return scales.finish(b, column, total);
}

SmallVector<unsigned> SwappedKernel::weightArguments() const {
  SmallVector<unsigned> arguments = {1};
  for (unsigned number = 0; number < p.others.size(); ++number)
    arguments.push_back(4 + number);
  return arguments;
}

void SwappedKernel::write(KernelBuilder &b, ValueRange args) {
  if (cluster != 1)
    b.setDepthCluster(cluster);
  OpFoldResult tokenRows = args[3];
  SmallVector<unsigned> weightArgs = weightArguments();
  if (isInvariant)
    llvm::for_each(weightArgs, [&](unsigned weight) { markInvariant(args[weight]); });
  ProductViews views(p);
  Value part = b.programId(2);
  OpFoldResult readRows = hasRowsBehind ? b.fixed(rows) : tokenRows;
  Place tokens = views.placeTokens(b, args[0], p.lhs, readRows, p.depth, part);
  WeightTiles weights(b, p, args[1], args.slice(4, p.others.size()), part);
  auto load = [&](Value column, Value k) {
    return weights.load(
        b, column, [&](const Place &place, Value from) { return loadWeights(b, place, from, k); });
  };
  Place out = views.placeTokens(b, args[2], p.out, tokenRows, p.columns, part);
  if (parts != 1) // side by side
    out.view = b.view(args[2], b.extent(b.mul(b.programId(1), p.out.batchStride), p.out.offset),
                      {tokenRows, b.fixed(p.columns)}, {b.fixed(p.out.rowStride), b.fixed(1)});
  int64_t count = countTilesOfProgram();
  Value first = b.mul(b.programId(0), count * tileColumns());
  std::optional<ScaleTiles> scales;
  if (p.rhs.scales)
    scales.emplace(b, p, args.take_back(getScaleBuffers(p).size()), tokenRows, part,
                   /*weightsAreRows=*/true);
  b.forBlocks(count * tileColumns(), tileColumns(), {}, [&](Value next, ValueRange) {
    Value column = count == 1 ? first : b.add(first, next);
    Value acc = scales ? accumulateCodes(b, tokens, column, load, *scales)
                       : accumulate(b, tokens, column, load);
    if (p.bias)
      acc = addBias(b, p, args.drop_front(4 + p.others.size()), acc,
                    {.column = column, .columns = BiasPlace::Rows});
    Type element = cast<MemRefType>(out.view.getType()).getElementType();
    tile::StoreOp::create(b, b.narrow(acc, element), out.view,
                          ValueRange{out.row, b.add(out.column, column)}, /*transposed=*/true);
    return SmallVector<Value>();
  });
}

void SwappedKernel::launch(StepLowering &step) {
  isInvariant =
      step.isInvariant(p.rhs.buffer) && llvm::all_of(p.others, [&](const Product::Others &others) {
        return step.isInvariant(others.rhs.buffer);
      });
  hasRowsBehind = addRowsBehind(step, p, rows);
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows};
  for (const Product::Others &others : p.others)
    args.push_back(others.rhs.buffer);
  args.append(getBiasBuffers(p));
  args.append(getScaleBuffers(p));
  std::string name =
      llvm::formatv("linear_{0}{1}x{2}_rows_{3}", getCodesPrefix(p), p.columns, p.depth, rows)
          .str();
  int64_t tiles = llvm::divideCeil(p.columns, tileColumns());
  std::array<Value, 3> grid = {step.constant(tiles / countTilesOfProgram()), step.constant(parts),
                               step.constant(p.batch)};
  step.launch(
      name, grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); },
      step.chained(/*early=*/rows <= tuning.earlyRows));
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// Versions for the numbers of rows in `shapes`, then what `otherwise` launches.
static void emitSwapped(StepLowering &step, const Product &product,
                        llvm::ArrayRef<SwappedTile> shapes, int64_t parts,
                        llvm::function_ref<void()> otherwise) {
  if (shapes.empty())
    return otherwise();
  auto few = [&] { SwappedKernel(step, product, shapes.front(), parts).launch(step); };
  // The last shape takes all rows if nothing is left for more.
  if (shapes.size() == 1 && !otherwise)
    return few();
  step.versionByRows(product.rows, shapes.front().rows, few,
                     [&] { emitSwapped(step, product, shapes.drop_front(), parts, otherwise); });
}

/// Columns first for as many rows as one unit multiplies.
static llvm::ArrayRef<SwappedTile> takeOneUnit(llvm::ArrayRef<SwappedTile> shapes) {
  return shapes.take_while([](const SwappedTile &shape) { return shape.rows < kProductTileRows; });
}

bool mlac::mla_to_tile::canSwap(StepLowering &step, const Product &product) {
  llvm::ArrayRef<SwappedTile> shapes = step.shapes.getSwapped();
  return !shapes.empty() && llvm::all_of(shapes, [&](const SwappedTile &shape) {
    return SwappedKernel(step, product, shape).fits();
  });
}

/// Whether codes times codes of 65 to 128 rows get the tiles of more.
static bool takesRanges(StepLowering &step, const Product &product, const ProductRanges &ranges) {
  SwappedKernel most(step, product, step.shapes.getSwapped().back());
  return hasFasterRange(step, product, ranges, most.getCluster());
}

/// Whether few rows, or all of them where a target makes no difference, are multiplied with codes.
static bool takesCodes(StepLowering &step, const Product &product) {
  return canMultiplyCodes(product) && (step.shapes.getSwapped().empty() || canSwap(step, product));
}

void mlac::mla_to_tile::emitProduct(StepLowering &step, const Product &product, int64_t moreThan) {
  bool isCoded = product.rhs.scales.has_value(), hasCodedRows = product.lhs.scales.has_value();
  if (isCoded && !hasCodedRows && !takesCodes(step, product))
    return emitProduct(step, dequantiseWeights(step, product), moreThan);
  ProductKernel few(product, step.shapes.few), many(product, step.shapes.many);
  auto emitMany = [&] {
    if (isCoded && !hasCodedRows)
      return emitTurnedProduct(step, product, step.shapes.getSwapped().back().rows,
                               [&](int64_t few) { // the product is what takes the time
                                 emitProduct(step, dequantiseWeights(step, product), few);
                               });
    if (!emitPersistentProduct(step, product))
      many.launch(step);
  };
  if (canSwap(step, product)) {
    llvm::ArrayRef<SwappedTile> shapes = step.shapes.getSwapped().drop_while(
        [&](const SwappedTile &shape) { return shape.rows <= moreThan; });
    std::optional<ProductRanges> ranges =
        isCoded && !hasCodedRows ? std::nullopt : findProductRanges(step, product);
    if (!ranges)
      return emitSwapped(step, product, shapes, /*parts=*/1, emitMany);
    if (!isCoded || takesRanges(step, product, *ranges))
      shapes = takeOneUnit(shapes);
    int64_t few = shapes.empty() ? moreThan : std::max(moreThan, shapes.back().rows);
    return emitSwapped(step, product, shapes, /*parts=*/1,
                       [&] { emitProductRanges(step, product, *ranges, few); });
  }
  if (few.hasSameTile(many))
    return many.launch(step);
  step.versionByRows(
      product.rows, step.shapes.fewRowsLimit, [&] { few.launch(step); },
      [&] { many.launch(step); });
}

/// `first` may be joined already.
static std::optional<Product> join(const Product &first, const Product &second) {
  bool suits = first.columns % SwappedTile::kColumns == 0 && first.depth == second.depth &&
               first.batch == 1 && second.batch == 1 &&
               first.bias.has_value() == second.bias.has_value() && first.transposeRhs &&
               second.transposeRhs && second.rhs.columnStride == 1 &&
               first.rhs.scales.has_value() == second.rhs.scales.has_value() &&
               first.lhs.scales.has_value() == second.lhs.scales.has_value();
  if (!suits)
    return std::nullopt;
  Product joint = first;
  joint.others.push_back({first.columns, second.rhs, second.bias});
  joint.columns += second.columns;
  return joint;
}

std::optional<Product> mlac::mla_to_tile::joinProducts(ArrayRef<Product> products) {
  std::optional<Product> joint = products.front();
  for (const Product &product : products.drop_front())
    if (joint)
      joint = join(*joint, product);
  return joint;
}

bool mlac::mla_to_tile::canSumDepth(StepLowering &step, const Product &product, int64_t parts) {
  return product.batch == 1 && !product.bias && canSwap(step, product) &&
         (!product.rhs.scales || canMultiplyCodes(product)) &&
         llvm::all_of(step.shapes.getSwapped(), [&](const SwappedTile &shape) {
           return SwappedKernel(step, product, shape, parts).canCut();
         });
}

PartialSums mlac::mla_to_tile::makePartialSums(StepLowering &step, const Product &product,
                                               int64_t parts, OpFoldResult limit) {
  OpFoldResult width = step.plan().getIndexAttr(parts * product.columns);
  return {step.workspace({limit, width}, step.plan().getF32Type()), parts};
}

void mlac::mla_to_tile::emitPartialSums(StepLowering &step, const Product &product,
                                        const PartialSums &to) {
  Product partial = product;
  partial.out = to.matrices(product.columns);
  emitSwapped(step, partial, step.shapes.getSwapped(), to.count, nullptr);
}

void mlac::mla_to_tile::emitPartialSumsOfFew(StepLowering &step, const Product &product,
                                             const PartialSums &to) {
  Product partial = product;
  partial.out = to.matrices(product.columns);
  emitSwapped(step, partial, takeOneUnit(step.shapes.getSwapped()), to.count, nullptr);
}
