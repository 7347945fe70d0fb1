//===- CodedWeights.cpp - products with weights that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/CodedWeights.h"

#include "Plan/Lowerings.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Columns of a product's tile, rows of the weight, that have one scale.
static constexpr int64_t kTileColumns = SwappedTile::kColumns;

/// Scales beside each other, across the matrix.
static int64_t countAcross(const CodeScales &scales) {
  return scales.columns == 0 ? 1 : llvm::divideCeil(scales.matrixColumns, scales.columns);
}

//===----------------------------------------------------------------------===//
// The view
//===----------------------------------------------------------------------===//

/// What reads `weight`, or views of it, as anything but a product's weight; null: nothing.
static Operation *findOtherUser(Value weight) {
  for (OpOperand &use : weight.getUses()) {
    Operation *user = use.getOwner();
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(user)) {
      if (Operation *other = findOtherUser(user->getResult(0)))
        return other;
    } else if (!isa<mla::ProjectOp, mla::LatentProjectOp, mla::LatentAppendOp>(user)) {
      return user;
    }
  }
  return nullptr;
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ScaledWeightOp op) {
  if (Operation *other = findOtherUser(op.getResult())) {
    auto diag = op.emitOpError("expected a weight of projections only");
    diag.attachNote(other->getLoc()) << "also read here";
    return diag;
  }
  TensorRef codes = step.lookup(op.getCodes());
  codes.scales = CodeScales{step.lookup(op.getScales()).buffer, op.getBlock()[0], op.getBlock()[1],
                            codes.size(0), codes.size(1)};
  step.setView(op.getResult(), std::move(codes));
  return success();
}

//===----------------------------------------------------------------------===//
// Scales in kernels
//===----------------------------------------------------------------------===//

static bool isInWholeTiles(const Matrices &weights, int64_t batch) {
  const CodeScales &scales = *weights.scales;
  if (weights.columnStride != 1 || weights.rowStride != scales.matrixColumns ||
      weights.offset % scales.matrixColumns != 0 ||
      (batch != 1 && weights.batchStride % scales.matrixColumns != 0))
    return false;
  if (scales.columns == 0)
    return true;
  int64_t first = weights.offset / scales.matrixColumns,
          apart = batch == 1 ? 0 : weights.batchStride / scales.matrixColumns;
  return scales.columns == kCodedDepth && scales.rows % kTileColumns == 0 &&
         first % kTileColumns == 0 && apart % kTileColumns == 0;
}

bool mlac::mla_to_tile::canMultiplyCodes(const Product &product) {
  return product.transposeRhs && product.depth % kCodedDepth == 0 &&
         product.columns % kTileColumns == 0 && isInWholeTiles(product.rhs, product.batch) &&
         llvm::all_of(product.others, [&](const Product::Others &others) {
           return others.from % kTileColumns == 0 && isInWholeTiles(others.rhs, product.batch);
         });
}

ScaleTiles::ScaleTiles(KernelBuilder &b, const Product &product, const Matrices &weights,
                       Value buffer, Value batch, bool weightsAreRows)
    : weightsAreRows(weightsAreRows) {
  addOthers(/*from=*/0, weights, buffer);
  int64_t apart = weights.batchStride / weights.scales->matrixColumns;
  batchRow = product.batch == 1 ? b.index(0) : b.mul(batch, apart);
}

void ScaleTiles::addOthers(int64_t from, const Matrices &weights, Value buffer) {
  const CodeScales &scales = *weights.scales;
  sources.push_back({from, scales, buffer, weights.offset / scales.matrixColumns});
}

/// The scale of the 64 rows of the matrix at the product's `column`: a scalar.
Value ScaleTiles::load(KernelBuilder &b, const Source &source, Value column, Value k) const {
  Value row = b.add(b.add(batchRow, source.row), b.sub(column, b.index(source.from)));
  if (sources.size() > 1) // also loaded where another's columns are
    row = b.minimum(b.maximum(row, b.index(0)), b.index(source.scales.matrixRows - 1));
  Value at = source.scales.rows == 0 ? b.index(0) : b.divNarrow(row, b.index(source.scales.rows));
  at = b.mul(at, countAcross(source.scales));
  if (source.scales.columns != 0)
    at = b.add(at, b.divNarrow(k, b.index(source.scales.columns)));
  return memref::LoadOp::create(b, source.buffer, at);
}

/// Scales of the shape of `sum`.
Value ScaleTiles::tile(KernelBuilder &b, Value column, Value k, Value sum) const {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
  Value result;
  for (const Source &source : sources) {
    bool isOfRows = source.scales.rows == 1;
    Value next;
    if (isOfRows) {
      // Behind the rows of one source its loads give zeros; before them they are another's.
      Value row = b.add(b.add(batchRow, source.row), b.sub(column, b.index(source.from)));
      row = sources.size() > 1 ? b.maximum(row, b.index(0)) : row;
      OpFoldResult rows = b.fixed(source.scales.matrixRows), one = b.fixed(1), none = b.fixed(0);
      Value view = weightsAreRows
                       ? b.view(source.buffer, none, {rows, b.fixed(shape[1])}, {one, none})
                       : b.view(source.buffer, none, {b.fixed(shape[0]), rows}, {none, one});
      SmallVector<Value, 2> at = {row, b.index(0)};
      if (!weightsAreRows)
        std::swap(at[0], at[1]);
      next = b.load(view, at, shape);
    } else {
      next = load(b, source, column, k);
    }
    if (result)
      next = arith::SelectOp::create(b, b.isBelow(column, b.index(source.from)), result, next);
    result = next;
  }
  return isa<RankedTensorType>(result.getType()) ? result : b.splat(result, shape);
}

Value ScaleTiles::accumulate(KernelBuilder &b, Value column, Value k, Value sum,
                             llvm::function_ref<Value(Value)> multiply) const {
  if (!isOfBlocks())
    return multiply(sum);
  return b.addf(sum, b.mulf(multiply(b.like(sum, 0)), tile(b, column, k, sum)));
}

Value ScaleTiles::finish(KernelBuilder &b, Value column, Value sum) const {
  return isOfBlocks() ? sum : b.mulf(sum, tile(b, column, b.index(0), sum));
}

//===----------------------------------------------------------------------===//
// Values for many rows
//===----------------------------------------------------------------------===//

/// A program writes a tile of the matrix: 64 rows, which have one scale or one each, by 128.
static void writeValues(KernelBuilder &b, ValueRange args, const CodeScales &scales) {
  constexpr int64_t shape[] = {kTileColumns, kCodedDepth};
  SmallVector<OpFoldResult, 2> sizes = {b.fixed(scales.matrixRows), b.fixed(scales.matrixColumns)},
                               strides = {b.fixed(scales.matrixColumns), b.fixed(1)};
  SmallVector<Value, 2> at = {b.mul(b.programId(0), shape[0]), b.mul(b.programId(1), shape[1])};
  Value codes = b.loadWide(b.view(args[0], b.fixed(0), sizes, strides), at, shape);
  Product whole{.rhs = {.buffer = args[0], .rowStride = scales.matrixColumns, .scales = scales}};
  ScaleTiles tiles(b, whole, whole.rhs, args[1], b.index(0), /*weightsAreRows=*/true);
  b.storeNarrow(b.mulf(codes, tiles.tile(b, at[0], at[1], codes)),
                b.view(args[2], b.fixed(0), sizes, strides), at);
}

Product mlac::mla_to_tile::dequantiseWeights(StepLowering &step, const Product &product) {
  const CodeScales &scales = *product.rhs.scales;
  auto size = [&](int64_t value) -> OpFoldResult { return step.plan().getIndexAttr(value); };
  Type element = cast<MemRefType>(product.lhs.buffer.getType()).getElementType();
  TensorRef values = step.workspace({size(scales.matrixRows), size(scales.matrixColumns)}, element);
  std::string name =
      llvm::formatv("dequantise_{0}x{1}", scales.matrixRows, scales.matrixColumns).str();
  step.launch(
      name,
      {step.constant(llvm::divideCeil(scales.matrixRows, kTileColumns)),
       step.constant(llvm::divideCeil(scales.matrixColumns, kCodedDepth)), step.constant(1)},
      {product.rhs.buffer, scales.buffer, values.buffer},
      [&](KernelBuilder &b, ValueRange args) { writeValues(b, args, scales); }, step.chained());
  Product plain = product;
  plain.rhs.buffer = values.buffer;
  plain.rhs.scales.reset();
  return plain;
}
