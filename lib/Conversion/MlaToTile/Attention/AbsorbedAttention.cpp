//===- AbsorbedAttention.cpp - attention on the cached latents ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is one KV head, and a tile of the latent is key and value at once:
//
//     scores     q_lat · latentᵀ + q_pe · ropeᵀ
//     output     softmax(scores) · latent
//
//===----------------------------------------------------------------------===//

#include "Attention/HeadsOutermost.h"
#include "Attention/PagedKernel.h"
#include "Plan/Limits.h"
#include "Plan/Lowerings.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

namespace {
class AbsorbedKernel : public PagedKernel {
public:
  AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op);

private:
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Work &work) override;

  mla::AbsorbedAttentionOp op;
  Pool pool;
  TensorRef qLat;
  std::optional<TensorRef> qPe;
  unsigned qLatArg = 0, qPeArg = 0;
  int64_t countColumns();
  int64_t ropeWidth;
};
} // namespace

static int64_t countHeads(mla::AbsorbedAttentionOp op) {
  return cast<RankedTensorType>(op.getQLat().getType()).getDimSize(1);
}

static int64_t rankOf(mla::AbsorbedAttentionOp op) {
  return op.getCache().getType().getKvLoraRank();
}

/// Latents that accumulators of a whole tile's rows do not hold.
static bool isWide(StepLowering &step, mla::AbsorbedAttentionOp op) {
  return rankOf(op) > step.shapes.maxAccumulatorColumns;
}

/// One query's heads may be fewer rows than those of a whole tile.
static int64_t chooseTileRows(StepLowering &step, mla::AbsorbedAttentionOp op) {
  bool hasOneQuery = op.getBatch().getType().getQueryLen() == 1;
  return step.shapes.rowsFor(hasOneQuery ? countHeads(op) : step.shapes.queryRows);
}

/// Of two and four queries over codes, as far as consumers that take blocks in turns have so many
/// (docs/lab/codes.md): speculative decodes of a rank's heads.
static SmallVector<int64_t, 3> countFewRows(StepLowering &step, mla::AbsorbedAttentionOp op) {
  constexpr int64_t kMostTurnRows = 32;
  SmallVector<int64_t, 3> rows;
  if (!step.shapes.partitionsAttention || !op.getCache().getType().isQuantized())
    return rows;
  for (int64_t queries : {2, 4}) {
    int64_t few = llvm::alignTo(queries * countHeads(op), TileShapes::kRowGroup);
    if (few <= kMostTurnRows && (rows.empty() || rows.back() < few))
      rows.push_back(few);
  }
  return rows;
}

AbsorbedKernel::AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op)
    : PagedKernel(step,
                  {.op = op,
                   .batch = op.getBatch(),
                   .numSplits = op.getNumSplits(),
                   .name = "absorbed_attention",
                   .mostSideRows = isWide(step, op) ? step.machine.countSwappedRows(rankOf(op)) : 0,
                   .fewRows = countFewRows(step, op)},
                  {.heads = countHeads(op), .run = countHeads(op), .stride = 1},
                  chooseTileRows(step, op)),
      op(op), pool(Pool::ofPlan(step, op.getCache())), qLat(step.lookup(op.getQLat())),
      ropeWidth(paddedWidth(pool.type.getQkRopeHeadDim())) {
  output = step.allocate(op.getOutput());
  planArgs = pool.args();
  addTable(op.getCache());
  arg.tokens = addArg(step.dim(op.getBatch(), "num_tokens"));
  qLatArg = addArg(qLat.buffer);
  arg.output = addArg(output.buffer);
  if (op.getQPe()) {
    qPe = step.lookup(op.getQPe());
    qPeArg = addArg(qPe->buffer);
  }
  if (op.getLse()) {
    lse = step.allocate(op.getLse());
    arg.lse = addArg(lse->buffer);
  }
}

/// Of a latent's tile, in the kernel under construction.
int64_t AbsorbedKernel::countColumns() {
  if (isWide(step, op))
    return llvm::alignTo(rankOf(op), kValueColumns);
  return step.shapes.latentWidth(rankOf(op), knownRows.value_or(0), pool.type.isQuantized());
}

tile::AttendOp AbsorbedKernel::emitAttend(KernelBuilder &b, ValueRange args, const Work &work) {
  Pool inner = pool.inKernel(args);
  int64_t latentWidth = countColumns();
  SmallVector<Value> queries = {loadQueries(b, args, args[qLatArg], qLat, work, latentWidth)};
  if (qPe)
    queries.push_back(loadQueries(b, args, args[qPeArg], *qPe, work, ropeWidth));
  SmallVector<Value> keys;
  for (cache::Part part : {cache::Part::Latent, cache::Part::Rope})
    if (keys.size() < queries.size())
      keys.push_back(inner.view(b, part, b.fixed(0), inner.width(part)));
  Value limits = rowLimits(b, work), scales = inner.viewScales(b);
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, latentWidth}, b.getF32Type());
  return tile::AttendOp::create(b, row, row, result, queries, keys, work.tables.front(),
                                /*list=*/Value(),
                                /*values=*/Value(),
                                /*value_table=*/Value(), scales, work.first, work.last, work.seqLen,
                                limits, /*behind=*/Value(), /*diagonal=*/Value(), /*marks=*/Value(),
                                /*start=*/ValueRange(), tileKeys, getUnit(), op.getScale(),
                                /*lag=*/APFloat(0.0), /*exact=*/false, /*softcap=*/APFloat(0.0));
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AbsorbedAttentionOp op) {
  if (failed(checkLatents(step, op)))
    return failure();
  TensorRef queries = step.lookup(op.getQLat());
  if (!hasHeadsOutermost(queries) && queries.strides[0] != queries.size(1) * queries.strides[1])
    return op.emitOpError("expected queries whose heads lie together in memory, got ")
           << queries.size(1) << " heads " << queries.strides[1] << " apart of tokens "
           << queries.strides[0] << " apart";
  return AbsorbedKernel(step, op).launch();
}
