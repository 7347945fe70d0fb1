//===- AbsorbedAttention.cpp - attention on the cached latents ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is one KV head, so rows of a tile are (query, head) pairs of a request,
// query-major; a tile of the latent is key and value at once:
//
//     row i      query i / N, head i mod N, sees keys s < seq_len − (query_len − 1 − i / N)
//     scores     q_lat · latentᵀ + q_pe · ropeᵀ
//     output     softmax(scores) · latent
//
//     grid  x: tiles of query_len · N rows   y: request   z: split
//
// A split covers an equal range of the request's key blocks; without splits the
// only range is everything, and the output has the activation's type.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"
#include "OnlineSoftmax.h"
#include "Requests.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

class AbsorbedKernel {
public:
  AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op);
  void launch();

private:
  /// What one program works on.
  struct Work {
    RowRange tokens; // the request's queries
    Value rows;      // query_len · N
    Value row;       // first of the tile
    Value seqLen;
    Value firstKey, lastKey; // of the split
    Value table;
  };
  Work loadWork(KernelBuilder &b, ValueRange args);
  void splitKeys(KernelBuilder &b, ValueRange args, Work &work);
  void write(KernelBuilder &b, ValueRange args, const Work &work);
  Value rowLimits(KernelBuilder &b, const Work &work);
  Value isSeen(KernelBuilder &b, Value limits, Value key);
  Value rowsView(KernelBuilder &b, Value buffer, const TensorRef &ref, const Work &work,
                 Value base);
  Value loadKeys(KernelBuilder &b, Value pool, const Work &work, Value key, int64_t width);
  void storeResults(KernelBuilder &b, ValueRange args, const Work &work, Value outputTile,
                    Value lseTile);

  StepLowering &step;
  mla::AbsorbedAttentionOp op;
  Pool pool;
  TensorRef qLat, output;
  std::optional<TensorRef> qPe, lse;
  SmallVector<Value> planArgs;
  int64_t heads, latentWidth, ropeWidth, tileRows, tileKeys;
  bool hasOneQuery;
};

// Positions of the kernel's arguments behind the three of the pool.
enum Arg : unsigned {
  kBlockTable = 3,
  kMaxBlocks,
  kQueryStarts,
  kSeqLens,
  kTokens,
  kSplits,
  kQLat,
  kOutput,
  kOptional // q_pe, then lse, where they exist
};

} // namespace

AbsorbedKernel::AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op)
    : step(step), op(op), pool(Pool::ofPlan(step, op.getCache())), qLat(step.lookup(op.getQLat())),
      output(step.allocate(op.getOutput())), heads(qLat.size(1)),
      latentWidth(step.shapes.accumulatorWidth(pool.type.getKvLoraRank())),
      ropeWidth(paddedWidth(pool.type.getQkRopeHeadDim())), tileKeys(step.shapes.keys),
      hasOneQuery(op.getBatch().getType().getQueryLen() == 1) {
  tileRows = step.shapes.rowsFor(hasOneQuery ? heads : step.shapes.queryRows);
  planArgs = pool.args();
  planArgs.append({step.metadata("block_table", 32), step.dim("max_blocks_per_request"),
                   step.metadata("query_start_loc", 32), step.metadata("seq_lens", 32),
                   step.dim("num_tokens"),
                   op.getNumSplits() ? step.scalar(op.getNumSplits()) : step.constant(1),
                   qLat.buffer, output.buffer});
  if (op.getQPe()) {
    qPe = step.lookup(op.getQPe());
    planArgs.push_back(qPe->buffer);
  }
  if (op.getLse()) {
    lse = step.allocate(op.getLse());
    planArgs.push_back(lse->buffer);
  }
}

/// Rows (token, head) of a request from element `base` on: [rows, width].
Value AbsorbedKernel::rowsView(KernelBuilder &b, Value buffer, const TensorRef &ref,
                               const Work &work, Value base) {
  int64_t width = ref.size(ref.rank() - 1), stride = ref.strides[ref.rank() - 2];
  Value offset = b.add(base, b.mul(work.tokens.begin, heads * stride));
  return b.view(buffer, b.extent(offset, ref.offset), {work.rows, b.fixed(width)},
                {b.fixed(stride), b.fixed(1)});
}

/// The split's keys: `num_splits` equal ranges of the request's blocks of keys.
void AbsorbedKernel::splitKeys(KernelBuilder &b, ValueRange args, Work &work) {
  work.firstKey = b.index(0);
  work.lastKey = work.seqLen;
  if (!op.getNumSplits())
    return;
  Value blocks = b.ceilDiv(work.seqLen, b.index(tileKeys));
  Value keysPerSplit = b.mul(b.ceilDivNarrow(blocks, args[kSplits]), tileKeys);
  work.firstKey = b.mul(b.programId(2), keysPerSplit);
  work.lastKey = b.minimum(work.seqLen, b.add(work.firstKey, keysPerSplit));
}

AbsorbedKernel::Work AbsorbedKernel::loadWork(KernelBuilder &b, ValueRange args) {
  Value request = b.programId(1);
  Work work;
  work.tokens = loadRange(b, args[kQueryStarts], request);
  work.rows = b.mul(work.tokens.count, heads);
  work.row = b.mul(b.programId(0), tileRows);
  work.seqLen = b.loadScalar(args[kSeqLens], request);
  work.table = blockTableRow(b, args[kBlockTable], request, args[kMaxBlocks]);
  splitKeys(b, args, work);
  return work;
}

/// Per row, the number of keys it sees. Steps with one query per request take
/// the general form too, so that they share the kernel with the others.
Value AbsorbedKernel::rowLimits(KernelBuilder &b, const Work &work) {
  Value row = arith::AddIOp::create(b, b.iota(0, tileRows), b.splat(b.toI32(work.row), tileRows));
  Value query = arith::DivSIOp::create(b, row, b.constantI32(tileRows, heads));
  Value ofFirst = b.add(b.sub(work.seqLen, work.tokens.count), 1);
  return arith::AddIOp::create(b, query, b.splat(b.toI32(ofFirst), tileRows));
}

Value AbsorbedKernel::isSeen(KernelBuilder &b, Value limits, Value key) {
  Value position = arith::AddIOp::create(b, b.iota(1, {tileRows, tileKeys}),
                                         b.splat(b.toI32(key), {tileRows, tileKeys}));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position,
                               b.broadcast(limits, tileKeys));
}

Value AbsorbedKernel::loadKeys(KernelBuilder &b, Value pool, const Work &work, Value key,
                               int64_t width) {
  Type element = cast<MemRefType>(pool.getType()).getElementType();
  return tile::LoadPagedOp::create(b, RankedTensorType::get({tileKeys, width}, element), pool,
                                   work.table, key, b.index(0), work.lastKey);
}

void AbsorbedKernel::storeResults(KernelBuilder &b, ValueRange args, const Work &work,
                                  Value outputTile, Value lseTile) {
  Value split = op.getNumSplits() ? b.programId(2) : b.index(0);
  Value rowsBefore = b.mul(split, b.mul(args[kTokens], heads)); // of earlier splits
  int64_t width = output.size(output.rank() - 1);
  Value target = rowsView(b, args[kOutput], output, work, b.mul(rowsBefore, width));
  b.storeNarrow(outputTile, target, {work.row, b.index(0)});
  if (!lse)
    return;
  Value offset = b.add(rowsBefore, b.mul(work.tokens.begin, heads));
  Value lseView = b.view(args[kOptional + (qPe ? 1 : 0)], b.extent(offset, lse->offset),
                         {work.rows}, {b.fixed(1)});
  b.store(lseTile, lseView, work.row);
}

void AbsorbedKernel::write(KernelBuilder &b, ValueRange args, const Work &work) {
  Pool inner = pool.inKernel(args);
  Value zero = b.index(0);
  Value latentQuery =
      b.load(rowsView(b, args[kQLat], qLat, work, zero), {work.row, zero}, {tileRows, latentWidth});
  Value ropeQuery = qPe ? b.load(rowsView(b, args[kOptional], *qPe, work, zero), {work.row, zero},
                                 {tileRows, ropeWidth})
                        : Value();
  Value latentPool = inner.latentView(b), ropePool = qPe ? inner.ropeView(b) : Value();
  Value limits = rowLimits(b, work);
  OnlineSoftmax softmax(b, tileRows, tileKeys, latentWidth, op.getScale().convertToDouble());
  SmallVector<Value> state =
      b.loop(work.firstKey, work.lastKey, b.index(tileKeys), softmax.start(),
             [&](Value key, ValueRange carried) {
               Value latent = loadKeys(b, latentPool, work, key, latentWidth);
               Value scores = b.constant({tileRows, tileKeys}, 0);
               scores = b.dot(latentQuery, latent, scores, /*transposeRhs=*/true);
               if (qPe)
                 scores = b.dot(ropeQuery, loadKeys(b, ropePool, work, key, ropeWidth), scores,
                                /*transposeRhs=*/true);
               return softmax.advance(carried, scores, isSeen(b, limits, key), latent);
             });
  storeResults(b, args, work, softmax.output(state), lse ? softmax.lse(state) : Value());
}

void AbsorbedKernel::launch() {
  Value queries = hasOneQuery ? step.constant(1) : step.dim("max_query_len");
  std::array<Value, 3> grid = {step.ceilDiv(step.multiply(queries, heads), tileRows),
                               step.dim("num_requests"), planArgs[kSplits]};
  StringRef name = op.getNumSplits() ? "absorbed_attention_split" : "absorbed_attention";
  step.launch(name, grid, planArgs, [&](KernelBuilder &b, ValueRange args) {
    Work work = loadWork(b, args);
    b.ifThen(b.isBelow(work.row, work.rows), [&] { write(b, args, work); });
  });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AbsorbedAttentionOp op) {
  int64_t width = op.getCache().getType().getKvLoraRank();
  if (width > step.shapes.maxAccumulatorColumns)
    return op.emitOpError("expected a kv_lora_rank of at most ")
           << step.shapes.maxAccumulatorColumns << " on this target, got " << width;
  TensorRef queries = step.lookup(op.getQLat());
  if (queries.strides[0] != queries.size(1) * queries.strides[1])
    return op.emitOpError("expected queries whose heads lie together in memory");
  AbsorbedKernel(step, op).launch();
  return success();
}
