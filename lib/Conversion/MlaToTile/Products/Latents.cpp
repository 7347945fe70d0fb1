//===- Latents.cpp - projections to latents, and beside them ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/Latents.h"

#include "Plan/Limits.h"
#include "Products/CodedRows.h"
#include "Products/PersistentProduct.h"
#include "Rows/GroupColumns.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

bool Latent::canHoldRows(const TileShapes &shapes) const {
  if (!norm)
    return shapes.canHoldRow(product.columns);
  int64_t width = norm->gamma.size(0), tailWidth = product.columns - width;
  if (const auto &scales = norm->output.scales;
      scales && !GroupColumns::canHold(shapes, width, scales->columns))
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
    if (op.getRopeColumns() != 0)
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
  int64_t width = op.getLatentColumns(), rope = op.getRopeColumns();
  int64_t inTile = op.getRope() ? rope / 2 : rope;
  if (!shapes.canHoldRow(width) || (rope != 0 && !shapes.canHoldRow(inTile)))
    return refuseRow(step, op,
                     llvm::formatv("{0} columns of the latent and {1} {2} of the rope key", width,
                                   inTile, op.getRope() ? "pairs" : "columns")
                         .str());
  Latent latent = prepareLatent(step, op);
  if (failed(checkCodes(op, latent)))
    return failure();
  latent.emitWhole(step, /*moreThan=*/0);
  return success();
}

//===----------------------------------------------------------------------===//
// Several of the same rows
//===----------------------------------------------------------------------===//

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
  auto emitWhole = [&] { emitMany(step, latents, limit); };
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
