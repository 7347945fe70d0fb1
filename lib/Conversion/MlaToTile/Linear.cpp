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
//     project, w [N, J, I] strided   N    T  J  I    x            w[b]
//     head_project, w [N, J, K]      N    T  J  K    x[:, b]      w[b]
//     head_project, contract_rows    N    T  J  K    x[:, b]      w[b], [k, n]
//     fold_query                     N    L  Q  P    w_uk[b]ᵀ     w_uq[b], [k, n]
//     fold_output                    N    H  L  V    w_o[:, b]    w_uv[b], [k, n]
//
// A program computes one tile of `out`, looping over k.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

/// A batch of matrices in a buffer of the plan. Strides in elements.
struct Matrices {
  Value buffer;
  int64_t offset, batchStride, rowStride, columnStride;
};

struct Product {
  Matrices lhs, rhs = {}, out = {};
  std::optional<TensorRef> bias = std::nullopt;
  bool transposeRhs = true;
  int64_t batch = 1;
  Value rows;                     // m, in the plan
  int64_t columns = 0, depth = 0; // n, k
};

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
  step.launch(name, grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

static void emit(StepLowering &step, const Product &product) {
  ProductKernel few(product, step.shapes.few), many(product, step.shapes.many);
  if (few.hasSameTile(many))
    return many.launch(step);
  step.versionByRows(
      product.rows, step.shapes.fewRowsLimit, [&] { few.launch(step); },
      [&] { many.launch(step); });
}

//===----------------------------------------------------------------------===//
// Projections of token rows
//===----------------------------------------------------------------------===//

/// Rows of an activation [T, I] or [T, N, K] as a [T, I] matrix. The trailing
/// dimensions lie together: activations of that shape are never slices.
static Matrices tokenRows(const TensorRef &x) {
  return {x.buffer, x.offset, 0, x.strides[0], x.strides.back()};
}

/// y = x · wᵀ (+ bias) into `y`, for every shape of mla.project.
static void emitProject(StepLowering &step, const TensorRef &x, const TensorRef &w,
                        std::optional<TensorRef> bias, const TensorRef &y) {
  Product product{.lhs = tokenRows(x), .bias = bias, .rows = step.value(x.sizes[0])};
  product.depth = w.size(w.rank() - 1);
  int64_t inner = w.rank() - 2; // the last output dimension
  bool isOneMatrix = w.rank() == 2 || w.strides[0] == w.size(1) * w.strides[1];
  product.columns = w.size(inner) * (w.rank() == 3 && isOneMatrix ? w.size(0) : 1);
  product.batch = isOneMatrix ? 1 : w.size(0);
  product.rhs = {w.buffer, w.offset, w.strides[0], w.strides[inner], w.strides.back()};
  product.out = {y.buffer, y.offset, y.strides[y.rank() - 2], y.strides[0], 1};
  emit(step, product);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight());
  for (int64_t i = 2; i < x.rank(); ++i)
    if (x.strides[i - 1] != x.size(i) * x.strides[i])
      return op.emitOpError("expected rows that lie together in memory, got a slice of heads");
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  emitProject(step, x, w, bias, step.allocate(op.getResult()));
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::LatentProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            gamma = step.lookup(op.getGamma()), latent = step.allocate(op.getLatent());
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  TensorRef raw = step.workspace({x.sizes[0], w.sizes[0]}, x.element());
  emitProject(step, x, w, bias, raw);
  if (op.getTail()) { // what the norm leaves alone stays where it is
    TensorRef tail = raw;
    tail.offset = gamma.size(0);
    tail.sizes[1] = step.plan().getIndexAttr(w.size(0) - gamma.size(0));
    step.setView(op.getTail(), tail);
  }
  raw.sizes[1] = gamma.sizes[0];
  emitRmsNorm(step, raw, gamma, latent, op.getEps().convertToDouble(),
              op.getMultiplier().convertToDouble());
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::HeadProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            y = step.allocate(op.getResult());
  Product product{.lhs = {x.buffer, x.offset, x.strides[1], x.strides[0], x.strides[2]},
                  .rhs = {w.buffer, w.offset, w.strides[0], w.strides[1], w.strides[2]},
                  .out = {y.buffer, y.offset, y.strides[1], y.strides[0], y.strides[2]},
                  .transposeRhs = !op.getContractRows(),
                  .batch = w.size(0),
                  .rows = step.value(x.sizes[0]),
                  .columns = y.size(2),
                  .depth = x.size(2)};
  emit(step, product);
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
  emit(step, product);
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
  emit(step, product);
  return success();
}
