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

#include "Products/PersistentProduct.h"
#include "Products/ProductViews.h"

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
                         blockWidth(p.depth, limits.depth)} {}

  bool hasSameTile(const ProductKernel &other) const { return tile == other.tile; }
  void launch(StepLowering &step);

private:
  void write(KernelBuilder &b, ValueRange args);
  Value view(KernelBuilder &b, Value buffer, const Matrices &m, OpFoldResult rows,
             OpFoldResult columns);
  Value accumulate(KernelBuilder &b, Value lhs, Value rhs, Value row, Value column);

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

Value ProductKernel::accumulate(KernelBuilder &b, Value lhs, Value rhs, Value row, Value column) {
  Value zero = b.constant({tile.rows, tile.columns}, 0);
  return b.forBlocks(p.depth, tile.depth, zero, [&](Value k, ValueRange acc) {
    Value a = b.load(lhs, {row, k}, {tile.rows, tile.depth});
    Value w = p.transposeRhs ? b.load(rhs, {column, k}, {tile.columns, tile.depth})
                             : b.load(rhs, {k, column}, {tile.depth, tile.columns});
    return SmallVector<Value>{b.dot(a, w, acc[0], p.transposeRhs)};
  })[0];
}

void ProductKernel::write(KernelBuilder &b, ValueRange args) {
  OpFoldResult rows = args[3], columns = b.fixed(p.columns), depth = b.fixed(p.depth);
  Value row = b.mul(b.programId(0), tile.rows), column = b.mul(b.programId(1), tile.columns);
  Value lhs = view(b, args[0], p.lhs, rows, depth);
  Value rhs =
      view(b, args[1], p.rhs, p.transposeRhs ? columns : depth, p.transposeRhs ? depth : columns);
  Value acc = accumulate(b, lhs, rhs, row, column);
  if (p.bias) {
    Value bias = b.view(args[4], b.fixed(p.bias->offset), {rows, columns},
                        {b.fixed(0), b.fixed(p.bias->strides[0])});
    acc = b.addf(acc, b.loadWide(bias, {row, column}, {tile.rows, tile.columns}));
  }
  b.storeNarrow(acc, view(b, args[2], p.out, rows, columns), {row, column});
}

void ProductKernel::launch(StepLowering &step) {
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows};
  if (p.bias)
    args.push_back(p.bias->buffer);
  std::string name =
      llvm::formatv("linear_{0}x{1}_tile_{2}x{3}", p.columns, p.depth, tile.rows, tile.columns)
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
        depth(limits.blockDepth(p.depth)) {}

  bool fits() const { return ProductViews(p).fit(tileColumns(), depth); }
  void launch(StepLowering &step);
  /// Whether parts of the depth are whole blocks.
  bool canCut() const { return p.depth % (parts * depth) == 0; }

private:
  int64_t tileColumns() const { return SwappedTile::kColumns; }
  int64_t countTilesOfProgram() const;

  using Place = ProductViews::Place;
  /// The buffers of weights among a kernel's arguments.
  SmallVector<unsigned> weightArguments() const;
  /// The weights' tile for `column` and, from `k` on, `depth`.
  using LoadWeights = llvm::function_ref<Value(Value column, Value k)>;
  void write(KernelBuilder &b, ValueRange args);
  Value loadWeights(KernelBuilder &b, const Place &weights, Value column, Value k);
  Value accumulate(KernelBuilder &b, const Place &tokens, Value column, LoadWeights load);

  const Product &p;
  const Tuning &tuning;
  int64_t parts, rows, depth;
  bool isInvariant = false;
};
} // namespace

/// The columns with each of the weights.
static SmallVector<Product, 0> splitProduct(const Product &product) {
  SmallVector<Product, 0> products = {product};
  for (const Product::Others &others : product.others) {
    products.push_back(product);
    products.back().rhs = others.rhs;
  }
  for (auto [number, part] : llvm::enumerate(products)) {
    bool isLast = number == product.others.size();
    int64_t first = number == 0 ? 0 : product.others[number - 1].from;
    part.columns = (isLast ? product.columns : product.others[number].from) - first;
    part.others.clear();
  }
  return products;
}

/// As many as leave enough programs, so that few of them pay for a start.
int64_t SwappedKernel::countTilesOfProgram() const {
  int64_t tiles = llvm::divideCeil(p.columns, tileColumns());
  for (int64_t count = tiles; count > 1; --count)
    if (tiles % count == 0 && tiles / count * p.batch * parts >= tuning.busyPrograms)
      return count;
  return 1;
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

SmallVector<unsigned> SwappedKernel::weightArguments() const {
  SmallVector<unsigned> arguments = {1};
  for (unsigned number = 0; number < p.others.size(); ++number)
    arguments.push_back(4 + number);
  return arguments;
}

void SwappedKernel::write(KernelBuilder &b, ValueRange args) {
  OpFoldResult tokenRows = args[3];
  SmallVector<unsigned> weightArgs = weightArguments();
  if (isInvariant)
    llvm::for_each(weightArgs, [&](unsigned weight) { markInvariant(args[weight]); });
  ProductViews views(p);
  Value part = b.programId(2);
  Place tokens = views.placeTokens(b, args[0], p.lhs, tokenRows, p.depth, part);
  SmallVector<Place> weights;
  for (auto [product, arg] : llvm::zip_equal(splitProduct(p), weightArgs))
    weights.push_back(ProductViews(product).placeWeights(b, args[arg], part));
  auto load = [&](Value column, Value k) {
    SmallVector<Value> tiles = {loadWeights(b, weights.front(), column, k)};
    SmallVector<Value> isBefore;
    for (auto [others, place] : llvm::zip_equal(p.others, ArrayRef(weights).drop_front())) {
      Value from = b.maximum(b.sub(column, b.index(others.from)), b.index(0));
      isBefore.push_back(b.isBelow(column, b.index(others.from)));
      tiles.push_back(loadWeights(b, place, from, k));
    }
    Value tile = tiles.pop_back_val();
    while (!tiles.empty())
      tile = arith::SelectOp::create(b, isBefore.pop_back_val(), tiles.pop_back_val(), tile);
    return tile;
  };
  Place out = views.placeTokens(b, args[2], p.out, tokenRows, p.columns, part);
  if (parts != 1) // side by side
    out.view = b.view(args[2], b.extent(b.mul(b.programId(1), p.out.batchStride), p.out.offset),
                      {tokenRows, b.fixed(p.columns)}, {b.fixed(p.out.rowStride), b.fixed(1)});
  int64_t count = countTilesOfProgram();
  Value first = b.mul(b.programId(0), count * tileColumns());
  b.forBlocks(count * tileColumns(), tileColumns(), {}, [&](Value next, ValueRange) {
    Value column = count == 1 ? first : b.add(first, next);
    Value acc = accumulate(b, tokens, column, load);
    if (p.bias) {
      Value bias = b.view(args[4], b.fixed(p.bias->offset), {b.fixed(p.columns), b.fixed(rows)},
                          {b.fixed(p.bias->strides[0]), b.fixed(0)});
      acc = b.addf(acc, b.loadWide(bias, {column, b.index(0)}, {tileColumns(), rows}));
    }
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
  SmallVector<Value> args = {p.lhs.buffer, p.rhs.buffer, p.out.buffer, p.rows};
  if (p.bias)
    args.push_back(p.bias->buffer);
  for (const Product::Others &others : p.others)
    args.push_back(others.rhs.buffer);
  std::string name = llvm::formatv("linear_{0}x{1}_rows_{2}", p.columns, p.depth, rows).str();
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

static bool canSwap(StepLowering &step, const Product &product) {
  llvm::ArrayRef<SwappedTile> shapes = step.shapes.getSwapped();
  return !shapes.empty() && llvm::all_of(shapes, [&](const SwappedTile &shape) {
    return SwappedKernel(step, product, shape).fits();
  });
}

void mlac::mla_to_tile::emitProduct(StepLowering &step, const Product &product, int64_t moreThan) {
  ProductKernel few(product, step.shapes.few), many(product, step.shapes.many);
  auto emitMany = [&] {
    if (!emitPersistentProduct(step, product))
      many.launch(step);
  };
  if (canSwap(step, product)) {
    llvm::ArrayRef<SwappedTile> shapes = step.shapes.getSwapped().drop_while(
        [&](const SwappedTile &shape) { return shape.rows <= moreThan; });
    std::optional<RowTile> tile = findRowTile(step, product);
    if (!tile || shapes.empty() || shapes.back().rows != kProductTileRows)
      return emitSwapped(step, product, shapes, /*parts=*/1, emitMany);
    return emitSwapped(step, product, shapes.drop_back(), /*parts=*/1, [&] {
      step.versionByRows(
          product.rows, kProductTileRows, [&] { emitRowTile(step, product, *tile); }, emitMany);
    });
  }
  if (few.hasSameTile(many))
    return many.launch(step);
  step.versionByRows(
      product.rows, step.shapes.fewRowsLimit, [&] { few.launch(step); },
      [&] { many.launch(step); });
}

std::optional<Product> mlac::mla_to_tile::joinProducts(const Product &first,
                                                       const Product &second) {
  bool suits = first.columns % SwappedTile::kColumns == 0 && first.depth == second.depth &&
               first.batch == 1 && second.batch == 1 && !first.bias && !second.bias &&
               first.transposeRhs && second.transposeRhs && second.rhs.columnStride == 1;
  if (!suits)
    return std::nullopt;
  Product joint = first;
  joint.others.push_back({first.columns, second.rhs});
  joint.columns += second.columns;
  return joint;
}

bool mlac::mla_to_tile::canSumDepth(StepLowering &step, const Product &product, int64_t parts) {
  return product.batch == 1 && !product.bias && canSwap(step, product) &&
         llvm::all_of(step.shapes.getSwapped(), [&](const SwappedTile &shape) {
           return SwappedKernel(step, product, shape, parts).canCut();
         });
}

PartialSums mlac::mla_to_tile::makePartialSums(StepLowering &step, const Product &product,
                                               int64_t parts, int64_t limit) {
  auto size = [&](int64_t value) -> OpFoldResult { return step.plan().getIndexAttr(value); };
  return {step.workspace({size(limit), size(parts * product.columns)}, step.plan().getF32Type()),
          parts};
}

void mlac::mla_to_tile::emitPartialSums(StepLowering &step, const Product &product,
                                        const PartialSums &to) {
  Product partial = product;
  partial.out = to.matrices(product.columns);
  emitSwapped(step, partial, step.shapes.getSwapped(), to.count, nullptr);
}
