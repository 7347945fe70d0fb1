//===- LatentRow.cpp - norm, rotation and append in one pass over a row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows a latent projection, for one token:
//
//     [x | tail] = sum of the parts of its row
//     latent = multiplier · gamma · RMSNorm(x)          to its tensor, or to the cache
//     k_pe   = tail, rotated by the token's angles      as it is to its tensor, or rotated
//                                                       to the cache
//
// Into the cache it goes at the token's slot; a slot outside of the pool drops the
// row (paged-cache.md section 5).
//
//===----------------------------------------------------------------------===//

#include "Requests.h"
#include "RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

bool mlac::mla_to_tile::canHoldRow(StepLowering &step, int64_t width) {
  return step.shapes.isRowCountFixed && foldedColumns(width, step.shapes.rows) != 0;
}

namespace {
/// Writes the kernel's body; arguments are the source, gamma, then those of the pool
/// with slots, positions and angles, or latent and tail.
class LatentRow {
public:
  LatentRow(StepLowering &step, const LatentRows &rows)
      : step(step), source(rows.source), norm(rows.norm), target(rows.target),
        width(norm.gamma.size(0)) {}

  SmallVector<Value> args();
  std::string name();
  void write(KernelBuilder &b, ValueRange args);

private:
  Value load(KernelBuilder &b, RowKernel &row, Value buffer, int64_t column);
  Value normalise(KernelBuilder &b, RowKernel &row, Value x, Value gamma);
  void store(KernelBuilder &b, Value buffer, ValueRange outputs, RowKernel &head, Value latent);
  void append(KernelBuilder &b, ValueRange args, RowKernel &head, Value gamma);

  StepLowering &step;
  const RowSource &source;
  const RmsNorm &norm;
  LatentTarget target; // accessors of ops are not const
  int64_t width;
};
} // namespace

SmallVector<Value> LatentRow::args() {
  SmallVector<Value> args = {source.rows.buffer, norm.gamma.buffer};
  if (!target.append) {
    args.push_back(norm.output.buffer);
    if (target.tail)
      args.push_back(target.tail->buffer);
    return args;
  }
  llvm::append_range(args, Pool::ofPlan(step, target.append.getCache()).args());
  args.append({step.metadata("slot_mapping", 64), step.metadata("positions", 64),
               step.lookup(target.rope.getTable()).buffer});
  return args;
}

/// Columns of the row from `column` on, as `row` lays them out.
Value LatentRow::load(KernelBuilder &b, RowKernel &row, Value buffer, int64_t column) {
  Value base = b.mul(b.programId(0), source.rows.strides[0]), total;
  for (int64_t part = 0; part < source.parts; ++part) {
    Value next = row.load(buffer, base, source.rows.offset + part * source.partStride + column);
    total = total ? b.addf(total, next) : next;
  }
  return total;
}

Value LatentRow::normalise(KernelBuilder &b, RowKernel &row, Value x, Value gamma) {
  Value squares = row.sum(b.mulf(x, x));
  return b.mulf(b.mulf(x, row.broadcast(rmsScale(b, squares, width, norm))), gamma);
}

/// To the row's place in the cache.
void LatentRow::append(KernelBuilder &b, ValueRange args, RowKernel &head, Value gamma) {
  auto rope = target.rope.getRope();
  int64_t half = rope.getDim() / 2;
  bool isInterleaved = rope.getOrder() == mla::RopeOrder::Interleaved;
  Pool pool = Pool::ofPlan(step, target.append.getCache()).inKernel(args.drop_front(2));
  const Pool::Memory &memory = pool.memories[0]; // the only one of rows as they are
  Value slots = args[5], positions = args[6], table = args[7], token = b.programId(0);
  Value slot = b.loadScalar(slots, token), position = b.loadScalar(positions, token);
  Value pageSize = b.index(pool.type.getPageSize()), zero = b.index(0);
  Value isInside =
      arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, slot, zero),
                            b.isBelow(slot, b.mul(pool.pages, pageSize)));
  Value safe = b.choose(isInside, slot, zero);
  Value inPage = b.createOrFold<arith::RemUIOp>(safe, pageSize);
  Value page = b.createOrFold<arith::DivUIOp>(safe, pageSize);
  Value latentBase = pool.row(b, mlac::cache::Part::Latent, page, inPage);
  Value ropeBase = pool.row(b, mlac::cache::Part::Rope, page, inPage);

  Value latent = load(b, head, args[0], 0);
  RowKernel pairs(step, b, half, isInterleaved ? 2 : 1), angles(step, b, half);
  int64_t second = isInterleaved ? 1 : half;
  Value x = load(b, pairs, args[0], width), y = load(b, pairs, args[0], width + second);
  Value angle = b.mul(position, 2 * half);
  Value cos = angles.load(table, angle, 0), sin = angles.load(table, angle, half);
  pairs.storeIf(isInside, b.subf(b.mulf(x, cos), b.mulf(y, sin)), memory.buffer, ropeBase, 0);
  pairs.storeIf(isInside, b.addf(b.mulf(y, cos), b.mulf(x, sin)), memory.buffer, ropeBase, second);
  head.storeIf(isInside, normalise(b, head, latent, gamma), memory.buffer, latentBase, 0);
}

void LatentRow::write(KernelBuilder &b, ValueRange args) {
  RowKernel head(step, b, width);
  Value gamma = head.load(args[1], b.index(0), norm.gamma.offset);
  if (target.append)
    return append(b, args, head, gamma);
  Value x = load(b, head, args[0], 0), token = b.programId(0);
  if (const std::optional<TensorRef> &tail = target.tail) {
    RowKernel rest(step, b, tail->size(1));
    rest.store(load(b, rest, args[0], width), args[3], b.mul(token, tail->strides[0]),
               tail->offset);
  }
  head.store(normalise(b, head, x, gamma), args[2], b.mul(token, norm.output.strides[0]),
             norm.output.offset);
}

std::string LatentRow::name() {
  StringRef what = target.append ? "append" : source.parts > 1 ? "sum_rms_norm" : "rms_norm_row";
  return llvm::formatv("{0}_{1}", what, width).str();
}

void mlac::mla_to_tile::emitLatentRows(StepLowering &step, Value rows, const LatentRows &latent,
                                       const LatentRows *other) {
  LatentRow kernel(step, latent);
  SmallVector<Value> args = kernel.args();
  auto grid = [&](int64_t kinds) -> std::array<Value, 3> {
    return {rows, step.constant(kinds), step.constant(1)};
  };
  if (!other)
    return step.launch(
        kernel.name(), grid(1), args,
        [&](KernelBuilder &b, ValueRange inner) { kernel.write(b, inner); }, step.chained());
  LatentRow second(step, *other);
  size_t count = args.size();
  args.append(second.args());
  auto write = [&](KernelBuilder &b, ValueRange inner) { // a program does one of them
    b.ifThenElse(
        b.isBelow(b.programId(1), b.index(1)), [&] { kernel.write(b, inner.take_front(count)); },
        [&] { second.write(b, inner.drop_front(count)); });
  };
  step.launch(kernel.name() + "_" + second.name(), grid(2), args, write, step.chained());
}

/// The rotation of the tail and the append of both, if nothing else uses them.
LatentTarget mlac::mla_to_tile::findAppend(StepLowering &step, mla::LatentProjectOp op,
                                           Operation *from) {
  Value tail = op.getTail();
  if (!tail || !tail.hasOneUse() || !op.getLatent().hasOneUse())
    return {};
  auto rope = dyn_cast<mla::RopeOp>(*tail.user_begin());
  if (!rope || rope.getInverse() || !rope.getResult().hasOneUse() ||
      rope.getRope().getDim() != cast<RankedTensorType>(tail.getType()).getDimSize(1))
    return {};
  auto append = dyn_cast<mla::AppendOp>(*rope.getResult().user_begin());
  bool isBoth = append && append.getKPe() == rope.getResult() &&
                append.getLatent() == op.getLatent() && append->getBlock() == op->getBlock();
  auto isKnown = [&](Value value) {
    Operation *source = value.getDefiningOp();
    return !source || source->getBlock() != op->getBlock() || source->isBeforeInBlock(from);
  };
  if (!isBoth || append.getCache().getType().isQuantized() || !isKnown(rope.getTable()) ||
      !isKnown(append.getCache()) || !canHoldRow(step, rope.getRope().getDim() / 2))
    return {};
  return {.tail = std::nullopt, .rope = rope, .append = append};
}
