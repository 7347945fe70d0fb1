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
// Product.h says how such a product becomes kernels.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Products/Product.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Projections of token rows
//===----------------------------------------------------------------------===//

/// Rows of an activation [T, I] or [T, N, K] as a [T, I] matrix. The trailing
/// dimensions lie together: activations of that shape are never slices.
static Matrices tokenRows(const TensorRef &x) {
  return {x.buffer, x.offset, 0, x.strides[0], x.strides.back()};
}

/// y = x · wᵀ (+ bias), for every shape of mla.project.
static Product makeProduct(StepLowering &step, const TensorRef &x, const TensorRef &w,
                           std::optional<TensorRef> bias, const TensorRef &y) {
  Product product{.lhs = tokenRows(x), .bias = bias, .rows = step.value(x.sizes[0])};
  product.depth = w.size(w.rank() - 1);
  int64_t inner = w.rank() - 2; // the last output dimension
  bool isOneMatrix = w.rank() == 2 || w.strides[0] == w.size(1) * w.strides[1];
  product.columns = w.size(inner) * (w.rank() == 3 && isOneMatrix ? w.size(0) : 1);
  product.batch = isOneMatrix ? 1 : w.size(0);
  product.rhs = {w.buffer, w.offset, w.strides[0], w.strides[inner], w.strides.back()};
  product.out = {y.buffer, y.offset, y.strides[y.rank() - 2], y.strides[0], 1};
  return product;
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight());
  for (int64_t i = 2; i < x.rank(); ++i)
    if (x.strides[i - 1] != x.size(i) * x.strides[i])
      return op.emitOpError("expected rows that lie together in memory, got a slice of heads");
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  emitProduct(step, makeProduct(step, x, w, bias, step.allocate(op.getResult())));
  return success();
}

namespace {
/// A latent projection: its product, where that goes, and what its rows become.
struct Latent {
  Product product;
  TensorRef raw;
  RmsNorm norm;
  LatentTarget target;

  LatentRows rowsOf(const RowSource &source) const { return {source, norm, target}; }
  bool canHoldRows(StepLowering &step) const;
  void emitWhole(StepLowering &step, int64_t moreThan) const;
};
} // namespace

bool Latent::canHoldRows(StepLowering &step) const {
  int64_t width = norm.gamma.size(0), tailWidth = product.columns - width;
  return canHoldRow(step, width) && (tailWidth == 0 || canHoldRow(step, tailWidth));
}

void Latent::emitWhole(StepLowering &step, int64_t moreThan) const {
  emitProduct(step, product, moreThan);
  TensorRef head = raw;
  head.sizes[1] = norm.gamma.sizes[0];
  if (!target.append) // the tail stays where it is
    return emitRmsNorm(step, head, norm);
  emitLatentRows(step, product.rows, rowsOf({raw}));
}

/// Few columns: parts of the depth, summed by the kernel that normalises. `joint`: of `latent`
/// and of `other`, whose columns come behind.
static void emitLatent(StepLowering &step, const Latent &latent, const Latent *other,
                       const Product &joint, int64_t parts) {
  if (parts == 1)
    return latent.emitWhole(step, 0);
  auto emitWhole = [&](int64_t moreThan) {
    latent.emitWhole(step, moreThan);
    if (other)
      other->emitWhole(step, moreThan);
  };
  int64_t limit = step.shapes.getSwapped().back().rows;
  PartialSums sums = makePartialSums(step, joint, parts, limit);
  auto emitParts = [&] {
    emitPartialSums(step, joint, sums);
    RowSource source{sums.sums, parts, joint.columns}, behind = source;
    behind.rows.offset += latent.product.columns;
    if (!other)
      return emitLatentRows(step, joint.rows, latent.rowsOf(source));
    LatentRows rest = other->rowsOf(behind);
    emitLatentRows(step, joint.rows, latent.rowsOf(source), &rest);
  };
  step.versionByRows(joint.rows, limit, emitParts, [&] { emitWhole(limit); });
}

/// Whether what defines `value` has been lowered when `op` is.
static bool isKnownAt(Value value, Operation *op) {
  Operation *source = value.getDefiningOp();
  return !source || source->getBlock() != op->getBlock() || source->isBeforeInBlock(op);
}

/// Another projection of the same input, behind `op`, that may take place at `op`: nothing
/// between them sees a cache.
static mla::LatentProjectOp findSibling(mla::LatentProjectOp op) {
  for (Operation *user : op.getInput().getUsers()) {
    auto other = dyn_cast<mla::LatentProjectOp>(user);
    if (!other || other->getBlock() != op->getBlock() || !op->isBeforeInBlock(other) ||
        other.getBias() || !isKnownAt(other.getWeight(), op) || !isKnownAt(other.getGamma(), op))
      continue;
    auto seesCache = [](Operation &between) {
      return llvm::any_of(between.getOperandTypes(), llvm::IsaPred<mla::CacheType>);
    };
    if (llvm::none_of(llvm::make_range(op->getIterator(), other->getIterator()), seesCache))
      return other;
  }
  return {};
}

/// The product of `op` and memory for its results; kernels stand where `from` does.
static Latent prepareLatent(StepLowering &step, mla::LatentProjectOp op, Operation *from) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            gamma = step.lookup(op.getGamma());
  LatentTarget target = findAppend(step, op, from);
  RmsNorm norm{gamma, {}, op.getEps().convertToDouble(), op.getMultiplier().convertToDouble()};
  if (!target.append)
    norm.output = step.allocate(op.getLatent());
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  TensorRef raw = step.workspace({x.sizes[0], w.sizes[0]}, x.element());
  if (target.append) {
    step.forwardCache(target.append.getResult(), target.append.getCache());
    step.markLowered(target.rope);
    step.markLowered(target.append);
  } else if (op.getTail()) {
    TensorRef tail = raw;
    tail.offset = gamma.size(0);
    tail.sizes[1] = step.plan().getIndexAttr(w.size(0) - gamma.size(0));
    step.setView(op.getTail(), tail);
    target.tail = tail;
  }
  return {makeProduct(step, x, w, bias, raw), raw, norm, target};
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::LatentProjectOp op) {
  auto emitAlone = [&](const Latent &latent) {
    int64_t parts = latent.canHoldRows(step) ? chooseDepthParts(step, latent.product) : 1;
    emitLatent(step, latent, nullptr, latent.product, parts);
  };
  Latent latent = prepareLatent(step, op, op);
  mla::LatentProjectOp sibling = findSibling(op);
  if (!sibling || step.shapes.getSwapped().empty()) {
    emitAlone(latent);
    return success();
  }
  Latent other = prepareLatent(step, sibling, op);
  step.markLowered(sibling);
  std::optional<Product> joint = joinProducts(latent.product, other.product);
  bool fits = joint && latent.canHoldRows(step) && other.canHoldRows(step);
  int64_t parts = fits ? chooseDepthParts(step, *joint) : 1;
  if (parts != 1) {
    emitLatent(step, latent, &other, *joint, parts);
    return success();
  }
  emitAlone(latent);
  emitAlone(other);
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
