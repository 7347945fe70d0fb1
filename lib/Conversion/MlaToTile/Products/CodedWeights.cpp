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

/// Rows of the weight that a program dequantises.
static constexpr int64_t kTileColumns = SwappedTile::kColumns;

//===----------------------------------------------------------------------===//
// The view
//===----------------------------------------------------------------------===//

/// With the weight's columns as its depth, which codes are multiplied along.
static bool isProduct(Operation *op) {
  auto heads = dyn_cast<mla::HeadProjectOp>(op);
  return isa<mla::ProjectOp, mla::LatentProjectOp, mla::LatentAppendOp>(op) ||
         (heads && !heads.getContractRows());
}

/// What reads `weight`, or views of it, as anything but a product's weight; null: nothing.
static Operation *findOtherUser(Value weight) {
  for (OpOperand &use : weight.getUses()) {
    Operation *user = use.getOwner();
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp,
            tensor::ConcatOp>(user)) {
      if (Operation *other = findOtherUser(user->getResult(0)))
        return other;
    } else if (!isProduct(user)) {
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

static bool isInWholeTiles(const Matrices &weights, int64_t batch, int64_t tileColumns) {
  const CodeScales &scales = *weights.scales;
  if (weights.columnStride != 1 || weights.rowStride != scales.matrixColumns ||
      weights.offset % scales.matrixColumns != 0 ||
      (batch != 1 && weights.batchStride % scales.matrixColumns != 0))
    return false;
  if (scales.columns == 0)
    return true;
  int64_t first = weights.offset / scales.matrixColumns,
          apart = batch == 1 ? 0 : weights.batchStride / scales.matrixColumns;
  bool hasTiles =
      scales.rows % tileColumns == 0 && first % tileColumns == 0 && apart % tileColumns == 0;
  return scales.columns == kCodedDepth && (scales.rows == 1 || hasTiles);
}

bool mlac::mla_to_tile::canMultiplyCodes(const Product &product, int64_t tileColumns) {
  return product.transposeRhs && product.depth % kCodedDepth == 0 &&
         product.columns % SwappedTile::kColumns == 0 &&
         (product.batch == 1 || product.columns % tileColumns == 0) &&
         isInWholeTiles(product.rhs, product.batch, tileColumns) &&
         llvm::all_of(product.others, [&](const Product::Others &others) {
           return others.from % tileColumns == 0 &&
                  isInWholeTiles(others.rhs, product.batch, tileColumns);
         });
}

bool mlac::mla_to_tile::canTurnCodes(const Product &product) {
  auto isOfTiles = [](const Matrices &weights) {
    return weights.scales->rows != 1 || weights.scales->columns == 0;
  };
  return canMultiplyCodes(product) && isOfTiles(product.rhs) &&
         llvm::all_of(product.others,
                      [&](const Product::Others &others) { return isOfTiles(others.rhs); });
}

SmallVector<Value> mlac::mla_to_tile::getScaleBuffers(const Product &product) {
  SmallVector<Value> buffers;
  if (product.lhs.scales)
    buffers.push_back(product.lhs.scales->buffer);
  if (!product.rhs.scales)
    return buffers;
  buffers.push_back(product.rhs.scales->buffer);
  for (const Product::Others &others : product.others)
    buffers.push_back(others.rhs.scales->buffer);
  return buffers;
}

ScaleTiles::ScaleTiles(KernelBuilder &b, const Product &product, ValueRange buffers,
                       OpFoldResult tokens, Value batch, bool weightsAreRows)
    : rowScales(product.lhs.scales), tokens(tokens), weightsAreRows(weightsAreRows) {
  if (rowScales) {
    rowBuffer = buffers.front();
    buffers = buffers.drop_front();
  }
  addSource(/*from=*/0, product.rhs, buffers.front());
  for (auto [others, buffer] : llvm::zip_equal(product.others, buffers.drop_front()))
    addSource(others.from, others.rhs, buffer);
  int64_t apart = product.rhs.batchStride / product.rhs.scales->matrixColumns;
  batchRow = product.batch == 1 ? b.index(0) : b.mul(batch, apart);
  if (rowScales && product.batch != 1) // parts of the rows, side by side
    batchGroup = b.mul(batch, product.lhs.batchStride / rowScales->columns);
}

void ScaleTiles::addSource(int64_t from, const Matrices &weights, Value buffer) {
  const CodeScales &scales = *weights.scales;
  sources.push_back({from, scales, buffer, weights.offset / scales.matrixColumns});
}

/// The scale of the tile's rows of the matrix at the product's `column`: a scalar.
Value ScaleTiles::load(KernelBuilder &b, const Source &source, Value column, Value k) const {
  Value row = b.add(b.add(batchRow, source.row), b.sub(column, b.index(source.from)));
  if (sources.size() > 1) // also loaded where another's columns are
    row = b.minimum(b.maximum(row, b.index(0)), b.index(source.scales.matrixRows - 1));
  Value at = source.scales.rows == 0 ? b.index(0) : b.divNarrow(row, b.index(source.scales.rows));
  at = b.mul(at, source.scales.countAcross());
  if (source.scales.columns != 0)
    at = b.add(at, b.divNarrow(k, b.index(source.scales.columns)));
  return memref::LoadOp::create(b, source.buffer, at);
}

/// What `load` gives for the source that `column` is of.
template <typename Load> Value ScaleTiles::choose(KernelBuilder &b, Value column, Load load) const {
  Value result;
  for (const Source &source : sources) {
    Value next = load(source);
    if (result)
      next = arith::SelectOp::create(b, b.isBelow(column, b.index(source.from)), result, next);
    result = next;
  }
  return result;
}

/// Scales of the shape of `sum`.
Value ScaleTiles::tile(KernelBuilder &b, Value column, Value k, Value sum) const {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
  Value result = choose(b, column, [&](const Source &source) -> Value {
    if (source.scales.rows != 1)
      return load(b, source, column, k);
    // Behind the rows of one source its loads give zeros; before them they are another's.
    Value row = b.add(b.add(batchRow, source.row), b.sub(column, b.index(source.from)));
    row = sources.size() > 1 ? b.maximum(row, b.index(0)) : row;
    OpFoldResult rows = b.fixed(source.scales.matrixRows),
                 down = b.fixed(source.scales.countAcross()), first = b.fixed(0);
    if (source.scales.columns != 0)
      first = b.extent(b.divNarrow(k, b.index(source.scales.columns)));
    if (weightsAreRows)
      return b.load(b.view(source.buffer, first, {rows}, {down}), row, {shape[0]});
    Value view = b.view(source.buffer, first, {b.fixed(shape[0]), rows}, {b.fixed(0), down});
    return b.load(view, {b.index(0), row}, shape);
  });
  if (auto vector = dyn_cast<RankedTensorType>(result.getType()); vector && vector.getRank() == 1)
    return b.broadcast(result, shape[1]);
  return isa<RankedTensorType>(result.getType()) ? result : b.splat(result, shape);
}

/// The scales of `count` tokens from `row` on.
Value ScaleTiles::loadTokens(KernelBuilder &b, Value row, Value group, int64_t count) const {
  int64_t blockRows = rowScales->blockRows;
  if (blockRows == 0) {
    Value view = b.view(rowBuffer, b.extent(group), {tokens}, {b.fixed(rowScales->countAcross())});
    return b.load(view, row, {count});
  }
  // There are scales for all of a tile's rows (makeCodedRows), whatever they are behind the tokens:
  // no result there is stored.
  assert(blockRows % count == 0 && "expected tiles that lie in one block");
  Value base = b.add(rowScales->place(b, row), b.mul(group, blockRows));
  return b.load(b.view(rowBuffer, b.extent(base), {b.fixed(count)}, {b.fixed(1)}), b.index(0),
                {count});
}

/// What the sum of a block of the depth is multiplied by: its tokens' scales, where activations
/// have them, times that of the weight's block; one of a whole row of the weight comes behind the
/// sum.
Value ScaleTiles::factor(KernelBuilder &b, const Place &at, Value sum) const {
  if (!rowScales)
    return tile(b, at.column, at.k, sum);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(sum.getType()).getShape();
  int64_t count = weightsAreRows ? shape[1] : shape[0];
  auto repeat = [&](Value ofTokens) {
    return weightsAreRows ? b.broadcastRows(ofTokens, shape[0]) : b.broadcast(ofTokens, shape[1]);
  };
  Value group = b.divNarrow(at.k, b.index(rowScales->columns));
  if (batchGroup)
    group = b.add(group, batchGroup);
  Value ofTokens = loadTokens(b, at.row, group, count);
  if (hasScalesOfRows() && isOfBlocks())
    return b.mulf(repeat(ofTokens), tile(b, at.column, at.k, sum));
  if (!hasScalesOfRows()) {
    Value ofBlock = choose(b, at.column,
                           [&](const Source &source) { return load(b, source, at.column, at.k); });
    ofTokens = b.mulf(ofTokens, b.splat(ofBlock, {count}));
  }
  return repeat(ofTokens);
}

Value ScaleTiles::accumulate(KernelBuilder &b, const Place &at, Value sum,
                             llvm::function_ref<Value(Value)> multiply) const {
  if (!isOfBlocks() && !rowScales)
    return multiply(sum);
  Value product = multiply(b.like(sum, 0));
  return b.fma(product, factor(b, at, sum), sum);
}

Value ScaleTiles::turn(KernelBuilder &b, Value column, Value k, Value codes, Type element) const {
  if (!isOfBlocks())
    return codes;
  Value scale = choose(b, column, [&](const Source &source) { return load(b, source, column, k); });
  ArrayRef<int64_t> shape = cast<RankedTensorType>(codes.getType()).getShape();
  return b.narrow(b.mulf(b.widen(codes), b.splat(scale, shape)), element);
}

Value ScaleTiles::finish(KernelBuilder &b, Value column, Value sum) const {
  bool isScaled = isOfBlocks() || (rowScales && !hasScalesOfRows());
  return isScaled ? sum : b.mulf(sum, tile(b, column, b.index(0), sum));
}

//===----------------------------------------------------------------------===//
// Values for many rows
//===----------------------------------------------------------------------===//

/// A program writes a tile of the matrix: 64 rows, which have one scale or one each, by 128.
static void writeValues(KernelBuilder &b, ValueRange args, const CodeScales &scales) {
  b.markRowKernel();
  constexpr int64_t shape[] = {kTileColumns, kCodedDepth};
  SmallVector<OpFoldResult, 2> sizes = {b.fixed(scales.matrixRows), b.fixed(scales.matrixColumns)},
                               strides = {b.fixed(scales.matrixColumns), b.fixed(1)};
  SmallVector<Value, 2> at = {b.mul(b.programId(0), shape[0]), b.mul(b.programId(1), shape[1])};
  Value codes = b.loadWide(b.view(args[0], b.fixed(0), sizes, strides), at, shape);
  Product whole{.lhs = {}, .rhs = {args[0], 0, 0, scales.matrixColumns, 1, scales}, .rows = {}};
  ScaleTiles tiles(b, whole, args[1], /*tokens=*/{}, b.index(0), /*weightsAreRows=*/true);
  b.storeNarrow(b.mulf(codes, tiles.tile(b, at[0], at[1], codes)),
                b.view(args[2], b.fixed(0), sizes, strides), at);
}

/// The weights with values in a workspace for codes.
static Matrices dequantise(StepLowering &step, const Matrices &weights, Type element) {
  const CodeScales &scales = *weights.scales;
  auto size = [&](int64_t value) -> OpFoldResult { return step.plan().getIndexAttr(value); };
  TensorRef values = step.workspace({size(scales.matrixRows), size(scales.matrixColumns)}, element);
  std::string name =
      llvm::formatv("dequantise_{0}x{1}", scales.matrixRows, scales.matrixColumns).str();
  step.launch(
      name,
      {step.constant(llvm::divideCeil(scales.matrixRows, kTileColumns)),
       step.constant(llvm::divideCeil(scales.matrixColumns, kCodedDepth)), step.constant(1)},
      {weights.buffer, scales.buffer, values.buffer},
      [&](KernelBuilder &b, ValueRange args) { writeValues(b, args, scales); }, step.chained());
  Matrices plain = weights;
  plain.buffer = values.buffer;
  plain.scales.reset();
  return plain;
}

Product mlac::mla_to_tile::dequantiseWeights(StepLowering &step, const Product &product) {
  Type element = cast<MemRefType>(product.lhs.buffer.getType()).getElementType();
  Product plain = product;
  plain.rhs = dequantise(step, product.rhs, element);
  for (Product::Others &others : plain.others)
    others.rhs = dequantise(step, others.rhs, element);
  return plain;
}
