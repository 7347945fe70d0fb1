//===- Linear.cpp - products with weights ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every linear operation is one batched matrix product over strided operands
//
//     out[b, m, n] = Σ_k lhs[b, m, k] · rhs[b, n, k]  (or rhs[b, k, n])  + bias[n]
//
// and differs from the others only in strides (T tokens, N heads):
//
//     operation                    batch  m  n  k    lhs          rhs
//     project, w [O, I]              1    T  O  I    x            w
//     project, w of several          1    T  O  I    x            w, others behind its columns
//     project, w [N, J, I] strided   N    T  J  I    x            w[b]
//     head_project, w [N, J, K]      N    T  J  K    x[:, b]      w[b]
//     head_project, contract_rows    N    T  J  K    x[:, b]      w[b], [k, n]
//     fold_query                     N    L  Q  P    w_uk[b]ᵀ     w_uq[b], [k, n]
//     fold_output                    N    H  L  V    w_o[:, b]    w_uv[b], [k, n]
//
// Product.h says how such a product becomes kernels.
//
//===----------------------------------------------------------------------===//

#include "Products/CodedRows.h"
#include "Products/Latents.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Projections of token rows
//===----------------------------------------------------------------------===//

Matrices mlac::mla_to_tile::tokenRows(const TensorRef &x) {
  return {x.buffer, x.offset, 0, x.strides[0], x.strides.back(), x.scales};
}

Product mlac::mla_to_tile::makeProduct(StepLowering &step, const TensorRef &x, const TensorRef &w,
                                       std::optional<TensorRef> bias, const TensorRef &y) {
  Product product{.lhs = tokenRows(x), .bias = bias, .rows = step.value(x.sizes[0])};
  product.depth = w.size(w.rank() - 1);
  int64_t inner = w.rank() - 2; // the last output dimension
  bool isOneMatrix = w.rank() == 2 || w.strides[0] == w.size(1) * w.strides[1];
  product.columns = w.size(inner) * (w.rank() == 3 && isOneMatrix ? w.size(0) : 1);
  product.batch = isOneMatrix ? 1 : w.size(0);
  product.rhs = {w.buffer, w.offset, w.strides[0], w.strides[inner], w.strides.back(), w.scales};
  product.out = {y.buffer, y.offset, y.strides[y.rank() - 2], y.strides[0], 1};
  return product;
}

/// Rows in another type, rounded already.
static void widenRows(StepLowering &step, const TensorRef &from, const TensorRef &to) {
  int64_t width = from.size(1), tileRows = step.shapes.rows,
          block = blockWidth(width, step.shapes.columns);
  Value rows = step.value(from.sizes[0]);
  auto write = [&](KernelBuilder &b, ValueRange args) {
    b.markRowKernel();
    SmallVector<Value, 2> at = {b.mul(b.programId(0), tileRows), b.mul(b.programId(1), block)};
    auto view = [&](unsigned arg, const TensorRef &ref) {
      return b.view(args[arg], b.fixed(ref.offset), {args[2], b.fixed(width)},
                    {b.fixed(ref.strides[0]), b.fixed(ref.strides[1])});
    };
    b.store(b.loadWide(view(0, from), at, {tileRows, block}), view(1, to), at);
  };
  step.launch(llvm::formatv("widen_{0}", width).str(),
              {step.ceilDiv(rows, tileRows), step.constant(llvm::divideCeil(width, block)),
               step.constant(1)},
              {from.buffer, to.buffer, rows}, write, step.chained());
}

/// A projection by weights one below the other, each of which makes its own columns.
static LogicalResult lowerStacked(StepLowering &step, mla::ProjectOp op, tensor::ConcatOp weights) {
  auto biases = op.getBias() ? op.getBias().getDefiningOp<tensor::ConcatOp>() : tensor::ConcatOp();
  auto rowsOf = [](Value piece) { return cast<RankedTensorType>(piece.getType()).getDimSize(0); };
  bool areAlike = op.getBias() ? biases && llvm::equal(llvm::map_range(weights.getInputs(), rowsOf),
                                                       llvm::map_range(biases.getInputs(), rowsOf))
                               : true;
  if (!areAlike || op.getRounded() || op.getType().getRank() != 2)
    return op.emitOpError("expected the bias to be of the same parts as the weight of several, and "
                          "a result [T, O] that is not rounded before");
  TensorRef x = step.lookup(op.getInput()), all = step.allocate(op.getResult());
  SmallVector<Product, 0> products;
  for (auto [number, piece] : llvm::enumerate(weights.getInputs())) {
    TensorRef w = step.lookup(piece), y = all;
    y.sizes[1] = w.sizes[0];
    std::optional<TensorRef> bias;
    if (biases)
      bias = step.lookup(biases.getInputs()[number]);
    products.push_back(makeProduct(step, x, w, bias, y));
    if (failed(checkCodedProduct(op, products.back())))
      return failure();
    all.offset += w.size(0);
  }
  emitStackedProducts(step, products);
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ProjectOp op) {
  if (auto weights = op.getWeight().getDefiningOp<tensor::ConcatOp>())
    return lowerStacked(step, op, weights);
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight());
  for (int64_t i = 2; i < x.rank(); ++i)
    if (x.strides[i - 1] != x.size(i) * x.strides[i])
      return op.emitOpError("expected rows that lie together in memory, got a slice of heads");
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  TensorRef result = step.allocate(op.getResult());
  TensorRef sums = op.getRounded() ? step.workspace(result.sizes, x.element()) : result;
  Product product = makeProduct(step, x, w, bias, sums);
  if (failed(checkCodedProduct(op, product)))
    return failure();
  emitProduct(step, product);
  if (op.getRounded())
    widenRows(step, sums, result);
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::HeadProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            y = step.allocate(op.getResult());
  Product product{.lhs = {x.buffer, x.offset, x.strides[1], x.strides[0], x.strides[2], x.scales},
                  .rhs = {w.buffer, w.offset, w.strides[0], w.strides[1], w.strides[2], w.scales},
                  .out = {y.buffer, y.offset, y.strides[1], y.strides[0], y.strides[2]},
                  .transposeRhs = !op.getContractRows(),
                  .batch = w.size(0),
                  .rows = step.value(x.sizes[0]),
                  .columns = y.size(2),
                  .depth = x.size(2)};
  if (failed(checkCodedProduct(op, product)))
    return failure();
  emitProduct(step, product);
  return success();
}

//===----------------------------------------------------------------------===//
// Products of weights
//===----------------------------------------------------------------------===//

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::FoldQueryOp op) {
  TensorRef uq = step.lookup(op.getWUq()), uk = step.lookup(op.getWUk()),
            folded = step.allocate(op.getResult());
  Product product{
      .lhs = {uk.buffer, uk.offset, uk.strides[0], uk.strides[2], uk.strides[1]}, // transposed
      .rhs = {uq.buffer, uq.offset, uq.strides[0], uq.strides[1], uq.strides[2]},
      .out = {folded.buffer, folded.offset, folded.strides[0], folded.strides[1],
              folded.strides[2]},
      .transposeRhs = false,
      .batch = uk.size(0),
      .rows = step.constant(uk.size(2)),
      .columns = uq.size(2),
      .depth = uk.size(1)};
  emitProduct(step, product);
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::FoldOutputOp op) {
  TensorRef uv = step.lookup(op.getWUv()), wo = step.lookup(op.getWO()),
            folded = step.allocate(op.getResult());
  int64_t valueDim = uv.size(1), latentDim = uv.size(2);
  Product product{
      .lhs = {wo.buffer, wo.offset, valueDim * wo.strides[1], wo.strides[0], wo.strides[1]},
      .rhs = {uv.buffer, uv.offset, uv.strides[0], uv.strides[1], uv.strides[2]},
      .out = {folded.buffer, folded.offset, latentDim, folded.strides[0], folded.strides[1]},
      .transposeRhs = false,
      .batch = uv.size(0),
      .rows = step.constant(wo.size(0)),
      .columns = latentDim,
      .depth = valueDim};
  emitProduct(step, product);
  return success();
}
