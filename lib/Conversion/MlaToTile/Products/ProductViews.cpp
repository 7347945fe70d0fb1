//===- ProductViews.cpp - operands of a product as whole matrices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/ProductViews.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Fewer are better off with rows that are not there than with what device memory holds: decodes of
/// 12 and 20 requests of DeepSeek-V3, codes times codes, take 2 to 4 % longer with it.
static constexpr int64_t kLeastRowsBehind = 64;

bool mlac::mla_to_tile::addRowsBehind(StepLowering &step, const Product &product, int64_t rows) {
  int64_t stride = product.lhs.rowStride;
  return rows >= kLeastRowsBehind && !ShapedType::isDynamic(stride) &&
         step.extendBuffer(product.lhs.buffer, rows * stride);
}

void mlac::mla_to_tile::markInvariant(Value argument) {
  auto block = cast<BlockArgument>(argument);
  auto kernel = cast<tile::KernelOp>(block.getOwner()->getParentOp());
  kernel.setArgAttr(block.getArgNumber(), tile::kInvariantAttr, UnitAttr::get(kernel.getContext()));
}

bool ProductViews::fit(int64_t columns, int64_t depth) const {
  if (p.lhs.columnStride != 1 || p.rhs.columnStride != 1 || p.out.columnStride != 1 ||
      ShapedType::isDynamic(p.lhs.rowStride) || ShapedType::isDynamic(p.out.rowStride))
    return false;
  if (p.batch == 1)
    return true;
  // No tile may reach into the next part of the batch.
  return p.depth % depth == 0 && p.columns % columns == 0 &&
         p.rhs.batchStride % p.rhs.rowStride == 0 &&
         (p.batch - 1) * p.lhs.batchStride + p.depth <= p.lhs.rowStride &&
         (p.batch - 1) * p.out.batchStride + p.columns <= p.out.rowStride;
}

ProductViews::Place ProductViews::placeTokens(KernelBuilder &b, Value buffer, const Matrices &m,
                                              OpFoldResult rows, int64_t columns,
                                              Value batch) const {
  bool isBatch = p.batch != 1 && m.batchStride != 0;
  int64_t width = isBatch ? (p.batch - 1) * m.batchStride + columns : columns;
  Value view =
      b.view(buffer, b.fixed(m.offset), {rows, b.fixed(width)}, {b.fixed(m.rowStride), b.fixed(1)});
  return {view, b.index(0), isBatch ? b.mul(batch, m.batchStride) : b.index(0)};
}

ProductViews::Place ProductViews::placeWeights(KernelBuilder &b, Value buffer, Value batch) const {
  const Matrices &m = p.rhs;
  int64_t rows = p.transposeRhs ? p.columns : p.depth, columns = p.columns + p.depth - rows;
  int64_t rowsApart = p.batch == 1 ? 0 : m.batchStride / m.rowStride;
  Value view = b.view(buffer, b.fixed(m.offset),
                      {b.fixed((p.batch - 1) * rowsApart + rows), b.fixed(columns)},
                      {b.fixed(m.rowStride), b.fixed(1)});
  return {view, rowsApart ? b.mul(batch, rowsApart) : b.index(0), b.index(0)};
}

/// The columns with each of the weights.
static SmallVector<Product, 0> splitProduct(const Product &product) {
  SmallVector<Product, 0> products = {product};
  for (const Product::Others &others : product.others) {
    products.push_back(product);
    products.back().rhs = others.rhs;
    products.back().bias = others.bias;
  }
  for (auto [number, part] : llvm::enumerate(products)) {
    bool isLast = number == product.others.size();
    int64_t first = number == 0 ? 0 : product.others[number - 1].from;
    part.columns = (isLast ? product.columns : product.others[number].from) - first;
    part.others.clear();
  }
  return products;
}

WeightTiles::WeightTiles(KernelBuilder &b, const Product &product, Value first, ValueRange others,
                         Value batch)
    : begins({0}) {
  for (const Product::Others &other : product.others)
    begins.push_back(other.from);
  SmallVector<Value> buffers = {first};
  llvm::append_range(buffers, others);
  for (auto [part, buffer] : llvm::zip_equal(splitProduct(product), buffers))
    places.push_back(ProductViews(part).placeWeights(b, buffer, batch));
}

Value WeightTiles::load(KernelBuilder &b, Value column,
                        llvm::function_ref<Value(const ProductViews::Place &, Value)> load) const {
  SmallVector<Value> tiles = {load(places.front(), column)};
  SmallVector<Value> isBefore;
  for (auto [begin, place] :
       llvm::zip_equal(ArrayRef(begins).drop_front(), ArrayRef(places).drop_front())) {
    Value from = b.maximum(b.sub(column, b.index(begin)), b.index(0));
    isBefore.push_back(b.isBelow(column, b.index(begin)));
    tiles.push_back(load(place, from));
  }
  Value tile = tiles.pop_back_val();
  while (!tiles.empty())
    tile = arith::SelectOp::create(b, isBefore.pop_back_val(), tiles.pop_back_val(), tile);
  return tile;
}

SmallVector<Value> mlac::mla_to_tile::getBiasBuffers(const Product &product) {
  SmallVector<Value> buffers;
  if (product.bias)
    buffers.push_back(product.bias->buffer);
  for (const Product::Others &others : product.others)
    if (others.bias)
      buffers.push_back(others.bias->buffer);
  return buffers;
}

Value mlac::mla_to_tile::addBias(KernelBuilder &b, const Product &product, ValueRange buffers,
                                 Value sum, const BiasPlace &at) {
  auto shape = cast<RankedTensorType>(sum.getType()).getShape();
  int64_t rows = shape[0], columns = shape[1];
  const TensorRef &first = *product.bias;
  OpFoldResult offset = b.fixed(first.offset), stride = b.fixed(first.strides[0]);
  SmallVector<Product, 0> parts = splitProduct(product);
  OpFoldResult width = b.fixed(parts.front().columns);
  Value buffer = buffers.front(), column = at.column;
  for (auto [number, part] : llvm::enumerate(llvm::drop_begin(parts))) {
    int64_t begin = product.others[number].from;
    Value isBefore = b.isBelow(at.column, b.index(begin));
    auto choose = [&](OpFoldResult before, int64_t own) {
      return OpFoldResult(b.choose(isBefore, b.value(before), b.index(own)));
    };
    offset = choose(offset, part.bias->offset);
    stride = choose(stride, part.bias->strides[0]);
    width = choose(width, part.columns);
    buffer = b.choose(isBefore, buffer, buffers[number + 1]);
    column = b.choose(isBefore, column, b.sub(at.column, b.index(begin)));
  }
  Value zero = b.index(0);
  switch (at.columns) {
  case BiasPlace::Columns: {
    Value view = b.view(buffer, offset, {b.fixed(rows), width}, {b.fixed(0), stride});
    return b.addf(sum, b.loadWide(view, {zero, column}, {rows, columns}));
  }
  case BiasPlace::Rows: {
    Value view = b.view(buffer, offset, {width, b.fixed(columns)}, {stride, b.fixed(0)});
    return b.addf(sum, b.loadWide(view, {column, zero}, {rows, columns}));
  }
  case BiasPlace::ManyRows: {
    Value bias = b.loadWide(b.view(buffer, offset, {width}, {stride}), column, {rows});
    return b.addf(sum, b.broadcast(bias, columns));
  }
  }
  llvm_unreachable("a form of bias that is not handled");
}
