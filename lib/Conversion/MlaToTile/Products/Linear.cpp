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

#include "Plan/Limits.h"
#include "Plan/Lowerings.h"
#include "Products/CodedRows.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Projections of token rows
//===----------------------------------------------------------------------===//

/// Rows of an activation [T, I] or [T, N, K] as a [T, I] matrix. The trailing
/// dimensions lie together: activations of that shape are never slices.
static Matrices tokenRows(const TensorRef &x) {
  return {x.buffer, x.offset, 0, x.strides[0], x.strides.back(), x.scales};
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

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ProjectOp op) {
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

//===----------------------------------------------------------------------===//
// Latents
//===----------------------------------------------------------------------===//

namespace {
/// A projection: its product, where that goes, and what its rows become. Without a norm they
/// stay what they are.
struct Latent {
  Product product;
  TensorRef raw;
  std::optional<RmsNorm> norm;
  LatentTarget target;

  LatentRows rowsOf(const RowSource &source) const { return {source, norm, target}; }
  bool canHoldRows(const TileShapes &shapes) const;
  std::string describeRow() const;
  void emitWhole(StepLowering &step, int64_t moreThan) const;
  /// What becomes of the product's rows.
  void emitRows(StepLowering &step) const;
};
} // namespace

bool Latent::canHoldRows(const TileShapes &shapes) const {
  if (!norm)
    return shapes.canHoldRow(product.columns);
  int64_t width = norm->gamma.size(0), tailWidth = product.columns - width;
  if (const auto &scales = norm->output.scales; scales && scales->countAcross() > shapes.rows)
    return false;
  return shapes.canHoldRow(width) && (tailWidth == 0 || shapes.canHoldRow(tailWidth));
}

std::string Latent::describeRow() const {
  if (!norm)
    return llvm::formatv("{0} columns", product.columns).str();
  int64_t width = norm->gamma.size(0);
  std::string row =
      llvm::formatv("{0} columns of the latent and {1} behind it", width, product.columns - width)
          .str();
  if (const auto &scales = norm->output.scales)
    row += llvm::formatv(" in {0} groups of codes", scales->countAcross()).str();
  return row;
}

void Latent::emitWhole(StepLowering &step, int64_t moreThan) const {
  emitProduct(step, product, moreThan);
  emitRows(step);
}

void Latent::emitRows(StepLowering &step) const {
  if (!norm)
    return;
  TensorRef head = raw;
  head.sizes[1] = norm->gamma.sizes[0];
  if (!target.append) // the tail stays where it is
    return emitRmsNorm(step, head, *norm);
  emitLatentRows(step, product.rows, rowsOf({raw}));
}

/// The product of `op` and memory for what it makes; its rows are normalised to `output`, if that
/// has memory.
template <typename Op>
static Latent prepareRows(StepLowering &step, Op op, const TensorRef &output,
                          const LatentTarget &target) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            gamma = step.lookup(op.getGamma());
  RmsNorm norm{gamma, output, op.getEps().convertToDouble(), op.getMultiplier().convertToDouble()};
  std::optional<TensorRef> bias;
  if (op.getBias())
    bias = step.lookup(op.getBias());
  TensorRef raw = step.workspace({x.sizes[0], w.sizes[0]}, gamma.element());
  return {makeProduct(step, x, w, bias, raw), raw, norm, target};
}

/// The latent's own memory, or codes of its rows.
static TensorRef allocateLatent(StepLowering &step, mla::LatentProjectOp op) {
  if (!op.getCodesGroup())
    return step.allocate(op.getLatent());
  TensorRef gamma = step.lookup(op.getGamma()), input = step.lookup(op.getInput());
  TensorRef codes = makeCodedRows(step, {input.sizes[0], gamma.sizes[0]},
                                  static_cast<int64_t>(*op.getCodesGroup()));
  step.setView(op.getLatent(), codes);
  return codes;
}

static Latent prepareLatent(StepLowering &step, mla::LatentProjectOp op) {
  Latent latent = prepareRows(step, op, allocateLatent(step, op), {});
  if (!op.getTail())
    return latent;
  TensorRef tail = latent.raw;
  tail.offset = latent.norm->gamma.size(0);
  tail.sizes[1] = step.plan().getIndexAttr(latent.product.columns - tail.offset);
  step.setView(op.getTail(), tail);
  latent.target.tail = tail;
  return latent;
}

static Latent prepareLatent(StepLowering &step, mla::LatentAppendOp op) {
  step.forwardCache(op.getResult(), op.getCache());
  LatentTarget target{.append = op};
  if (op.getKept()) {
    target.latent = step.allocate(op.getRows()[0]);
    target.ropeKey = step.allocate(op.getRows()[1]);
  }
  return prepareRows(step, op, {}, target);
}

static Latent prepareLatent(StepLowering &step, mla::ProjectOp op) {
  TensorRef x = step.lookup(op.getInput()), w = step.lookup(op.getWeight()),
            output = step.allocate(op.getResult());
  return {makeProduct(step, x, w, std::nullopt, output), output, std::nullopt, {.tail = output}};
}

/// What codes that a projection reads or makes must fulfil.
static LogicalResult checkCodes(Operation *op, const Latent &latent) {
  if (auto project = dyn_cast<mla::LatentProjectOp>(op))
    if (project.getCodesGroup() && !isa<mla::SumPartsOp>(op->getParentOp()) &&
        failed(checkReadByProducts(op, project.getLatent())))
      return failure();
  return checkCodedProduct(op, latent.product);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::LatentProjectOp op) {
  Latent latent = prepareLatent(step, op);
  if (failed(checkCodes(op, latent)))
    return failure();
  latent.emitWhole(step, /*moreThan=*/0);
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::LatentAppendOp op) {
  const TileShapes &shapes = step.shapes;
  int64_t width = cast<RankedTensorType>(op.getGamma().getType()).getDimSize(0);
  int64_t pairs = op.getRope().getDim() / 2;
  if (!shapes.canHoldRow(width) || !shapes.canHoldRow(pairs))
    return refuseRow(
        step, op,
        llvm::formatv("{0} columns of the latent and {1} pairs of the rope key", width, pairs)
            .str());
  Latent latent = prepareLatent(step, op);
  if (failed(checkCodes(op, latent)))
    return failure();
  latent.emitWhole(step, /*moreThan=*/0);
  return success();
}

/// What the projections of the body are as one product, the columns of each behind those of the
/// one before.
static std::optional<Product> joinAll(ArrayRef<Latent> latents) {
  std::optional<Product> joint = latents.front().product;
  for (const Latent &latent : latents.drop_front())
    if (joint)
      joint = joinProducts(*joint, latent.product);
  return joint;
}

/// All projections' rows by one kernel.
static void emitJointRows(StepLowering &step, ArrayRef<Latent> latents, const Product &joint,
                          RowSource source) {
  SmallVector<LatentRows, 0> rows;
  for (const Latent &latent : latents) {
    rows.push_back(latent.rowsOf(source));
    source.rows.offset += latent.product.columns;
  }
  emitLatentRows(step, joint.rows, rows);
}

/// More than `moreThan` rows, as one product.
static void emitMany(StepLowering &step, ArrayRef<Latent> latents, const Product &joint,
                     int64_t moreThan) {
  bool isAlone = latents.size() == 1;
  TensorRef raw = latents.front().raw;
  if (!isAlone)
    raw = step.workspace({raw.sizes[0], step.plan().getIndexAttr(joint.columns)}, raw.element());
  Product product = joint;
  product.out = tokenRows(raw);
  auto read = [&](const PartialSums *sums) {
    if (sums)
      return emitJointRows(step, latents, joint, {sums->sums, sums->count, joint.columns});
    if (isAlone) // what is behind the norm stays where it is
      return latents.front().emitRows(step);
    emitJointRows(step, latents, joint, {raw});
  };
  emitReadProduct(step, product, moreThan, read, [&](int64_t few) {
    for (const Latent &latent : latents) // as if the projections stood alone
      latent.emitWhole(step, few);
  });
}

/// One product, in parts of its depth where its rows are few, which the kernel that normalises them
/// adds up.
static void emitSummed(StepLowering &step, ArrayRef<Latent> latents, const Product &joint,
                       int64_t parts) {
  auto shapes = step.shapes.getSwapped();
  int64_t limit = shapes.back().rows, few = shapes.drop_back().back().rows;
  using Emit = void (*)(StepLowering &, const Product &, const PartialSums &);
  auto emitParts = [&](Emit emit, int64_t count, int64_t mostRows) {
    PartialSums sums = makePartialSums(step, joint, count, step.plan().getIndexAttr(mostRows));
    emit(step, joint, sums);
    emitJointRows(step, latents, joint, {sums.sums, count, joint.columns});
  };
  auto emitWhole = [&] { emitMany(step, latents, joint, limit); };
  int64_t ofMany = findPartsOfMany(step, joint);
  if (ofMany == 0)
    return step.versionByRows(
        joint.rows, limit, [&] { emitParts(emitPartialSums, parts, limit); }, emitWhole);
  auto emitMore = [&] {
    step.versionByRows(
        joint.rows, limit, [&] { emitParts(emitPartialSumsOfMany, ofMany, limit); }, emitWhole);
  };
  step.versionByRows(
      joint.rows, few, [&] { emitParts(emitPartialSumsOfFew, parts, few); }, emitMore);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::SumPartsOp op) {
  SmallVector<Latent, 2> latents;
  for (Operation &inner : op.getProjections()) {
    latents.push_back(llvm::TypeSwitch<Operation *, Latent>(&inner)
                          .Case<mla::ProjectOp, mla::LatentProjectOp, mla::LatentAppendOp>(
                              [&](auto projection) { return prepareLatent(step, projection); }));
    if (!latents.back().canHoldRows(step.shapes))
      return refuseRow(step, &inner, latents.back().describeRow());
    if (failed(checkCodes(&inner, latents.back())))
      return failure();
  }
  auto parts = static_cast<int64_t>(op.getParts());
  std::optional<Product> joint = joinAll(latents);
  if (!joint || !canSumDepth(step, *joint, parts))
    return op.emitOpError("expected products that ")
           << step.machine.chip << " computes in " << parts << " parts of their depth, got "
           << latents.size() << " of depth " << latents.front().product.depth;
  for (OpResult result : op->getResults()) {
    Value yielded = op.getYielded(result);
    if (isa<mla::CacheType>(result.getType()))
      step.forwardCache(result, yielded);
    else
      step.setView(result, step.lookup(yielded));
    auto latent = yielded.getDefiningOp<mla::LatentProjectOp>();
    if (latent && latent.getCodesGroup() && yielded == latent.getLatent() &&
        failed(checkReadByProducts(latent, result)))
      return failure();
  }
  emitSummed(step, latents, *joint, parts);
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
