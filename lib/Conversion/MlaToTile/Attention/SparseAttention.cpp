//===- SparseAttention.cpp - attention on the rows that a list names ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The selection is a token's, so a tile's rows are heads of one token:
//
//     grid    x: tiles of N heads, of each token   z: split, an equal share of the
//             list's blocks of keys
//
// Tokens are in x because there may be more than 65535, the most in y and z. A row of a list is
// the key source of a tile.attend; where rows lie, in a pool or in a workspace, is only
// a view.
//
//===----------------------------------------------------------------------===//

#include "Attention/OnlineSoftmax.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

namespace {
class SparseKernel {
public:
  SparseKernel(StepLowering &step, mla::SparseAttentionOp op);
  void launch();

private:
  /// A tensor of the step that the kernel reads or writes.
  struct Operand {
    TensorRef ref;
    unsigned arg;
  };
  /// Heads of a token, and its entries of a split.
  struct Work {
    Value token, head;
    Value first, last; // entries
  };
  /// Where rows lie, as views.
  struct Source {
    SmallVector<Value, 2> keys;
    Value scales; // null: they are no codes
  };

  unsigned addArg(Value value);
  Operand addInput(Value tensor);
  std::optional<Operand> addOptional(Value tensor);
  Operand addResult(Value tensor);

  Work loadWork(KernelBuilder &b, ValueRange args);
  Value loadQueries(KernelBuilder &b, ValueRange args, const Operand &query, const Work &work,
                    int64_t width);
  Source viewSource(KernelBuilder &b, ValueRange args);
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Work &work);
  Value resultRow(KernelBuilder &b, ValueRange args, const Work &work);
  void write(KernelBuilder &b, ValueRange args);

  StepLowering &step;
  mla::SparseAttentionOp op;
  int64_t heads, listWidth, tileRows, tileKeys, latentWidth, ropeWidth;
  std::optional<Pool> pool;
  SmallVector<Value> planArgs;
  Operand qLat, rows, output;
  std::optional<Operand> qPe, lengths, sink, latent, kPe, lse, maxLogits;
  unsigned countArg, tokensArg = 0, splitsArg = 0; // the latter two: with splits
};
} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

unsigned SparseKernel::addArg(Value value) {
  planArgs.push_back(value);
  return planArgs.size() - 1;
}

SparseKernel::Operand SparseKernel::addInput(Value tensor) {
  TensorRef ref = step.lookup(tensor);
  return {ref, addArg(ref.buffer)};
}

std::optional<SparseKernel::Operand> SparseKernel::addOptional(Value tensor) {
  return tensor ? std::optional(addInput(tensor)) : std::nullopt;
}

SparseKernel::Operand SparseKernel::addResult(Value tensor) {
  TensorRef ref = step.allocate(tensor);
  return {ref, addArg(ref.buffer)};
}

SparseKernel::SparseKernel(StepLowering &step, mla::SparseAttentionOp op)
    : step(step), op(op), heads(op.getHeads()), listWidth(op.getWidth()),
      tileRows(step.shapes.rowsFor(heads)), tileKeys(step.shapes.keys),
      latentWidth(step.shapes.accumulatorWidth(op.getLatentWidth())),
      ropeWidth(paddedWidth(op.getRopeWidth())) {
  Value count;
  if (op.getCache()) {
    pool = Pool::ofPlan(step, op.getCache());
    planArgs = pool->args(); // come first
    count = pool->countNumbers(step, op.getCache());
  } else {
    latent = addInput(op.getLatent());
    kPe = addOptional(op.getKPe());
    count = step.value(latent->ref.sizes[0]);
  }
  countArg = addArg(count);
  qLat = addInput(op.getQLat());
  qPe = addOptional(op.getQPe());
  rows = addInput(op.getRows());
  lengths = addOptional(op.getLengths());
  sink = addOptional(op.getSink());
  if (op.getNumSplits()) {
    tokensArg = addArg(step.value(qLat.ref.sizes[0]));
    splitsArg = addArg(step.scalar(op.getNumSplits()));
  }
  output = addResult(op.getOutput());
  if (op.getLse())
    lse = addResult(op.getLse());
  if (op.getMaxLogits())
    maxLogits = addResult(op.getMaxLogits());
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

SparseKernel::Work SparseKernel::loadWork(KernelBuilder &b, ValueRange args) {
  Value tile = b.programId(0), tiles = b.index(llvm::divideCeil(heads, tileRows));
  Work work;
  work.token = arith::DivUIOp::create(b, tile, tiles);
  work.head = b.mul(arith::RemUIOp::create(b, tile, tiles), tileRows);
  Value length = b.index(listWidth);
  if (lengths) {
    Value place = b.mul(work.token, lengths->ref.strides[0]);
    Value given = b.loadScalar(args[lengths->arg], b.add(place, lengths->ref.offset));
    length = b.minimum(b.maximum(given, b.index(0)), length);
  }
  work.first = b.index(0);
  work.last = length;
  if (!op.getNumSplits())
    return work;
  Value blocks = b.ceilDiv(length, b.index(tileKeys));
  Value perSplit = b.mul(b.ceilDivNarrow(blocks, args[splitsArg]), tileKeys);
  work.first = b.mul(b.programId(2), perSplit);
  work.last = b.minimum(length, b.add(work.first, perSplit));
  return work;
}

/// Rows behind the token's last head are zeros.
Value SparseKernel::loadQueries(KernelBuilder &b, ValueRange args, const Operand &query,
                                const Work &work, int64_t width) {
  const TensorRef &ref = query.ref;
  Value view =
      b.view(args[query.arg], b.extent(b.mul(work.token, ref.strides[0]), ref.offset),
             {b.fixed(heads), b.fixed(ref.size(2))}, {b.fixed(ref.strides[1]), b.fixed(1)});
  return b.load(view, {work.head, b.index(0)}, {tileRows, width});
}

SparseKernel::Source SparseKernel::viewSource(KernelBuilder &b, ValueRange args) {
  Source source;
  Value count = args[countArg];
  if (pool) {
    Pool inner = pool->inKernel(args);
    source.keys.push_back(inner.viewNumbered(b, Part::Latent, count));
    if (qPe)
      source.keys.push_back(inner.viewNumbered(b, Part::Rope, count));
    source.scales = inner.viewNumberedScales(b, count);
    return source;
  }
  for (const std::optional<Operand> &keys : {latent, kPe})
    if (keys)
      source.keys.push_back(b.view(args[keys->arg], b.fixed(keys->ref.offset),
                                   {count, b.fixed(keys->ref.size(1))},
                                   {b.fixed(keys->ref.strides[0]), b.fixed(1)}));
  return source;
}

tile::AttendOp SparseKernel::emitAttend(KernelBuilder &b, ValueRange args, const Work &work) {
  SmallVector<Value> queries = {loadQueries(b, args, qLat, work, latentWidth)};
  if (qPe)
    queries.push_back(loadQueries(b, args, *qPe, work, ropeWidth));
  Source source = viewSource(b, args);
  Value list =
      b.view(args[rows.arg], b.extent(b.mul(work.token, rows.ref.strides[0]), rows.ref.offset),
             {OpFoldResult(work.last)}, {b.fixed(1)});
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, latentWidth}, b.getF32Type());
  return tile::AttendOp::create(
      b, row, row, result, queries, source.keys, /*table=*/Value(), list, /*values=*/Value(),
      /*value_table=*/Value(), source.scales, work.first, work.last, work.last, /*seen=*/Value(),
      /*behind=*/Value(), /*diagonal=*/Value(), /*start=*/ValueRange(), tileKeys, /*unit=*/1,
      op.getScale(), /*lag=*/APFloat(0.0), /*exact=*/maxLogits.has_value());
}

/// The first row of the token's results, of those of all splits.
Value SparseKernel::resultRow(KernelBuilder &b, ValueRange args, const Work &work) {
  Value ofToken = b.mul(work.token, heads);
  if (!op.getNumSplits())
    return ofToken;
  return b.add(b.mul(b.programId(2), b.mul(args[tokensArg], heads)), ofToken);
}

void SparseKernel::write(KernelBuilder &b, ValueRange args) {
  Work work = loadWork(b, args);
  tile::AttendOp attend = emitAttend(b, args, work);
  Value result = normaliseOutput(b, attend);
  Value lseTile = lse || sink ? attendedLse(b, attend) : Value();
  if (sink) {
    Value view = b.view(args[sink->arg], b.fixed(sink->ref.offset), {b.fixed(heads)},
                        {b.fixed(sink->ref.strides[0])});
    Value factor = sinkFactor(b, b.load(view, work.head, tileRows), lseTile);
    result = b.mulf(result, b.broadcast(factor, latentWidth));
  }
  Value firstRow = resultRow(b, args, work);
  int64_t width = op.getLatentWidth();
  Value view = b.view(args[output.arg], b.extent(b.mul(firstRow, width), output.ref.offset),
                      {b.fixed(heads), b.fixed(width)}, {b.fixed(width), b.fixed(1)});
  b.storeNarrow(result, view, {work.head, b.index(0)});
  auto storeRows = [&](const std::optional<Operand> &to, Value value) {
    Value rowView =
        b.view(args[to->arg], b.extent(firstRow, to->ref.offset), {b.fixed(heads)}, {b.fixed(1)});
    b.store(value, rowView, work.head);
  };
  if (lse)
    storeRows(lse, lseTile);
  if (maxLogits)
    storeRows(maxLogits, attendedMaximum(b, attend));
}

void SparseKernel::launch() {
  Value tokens = step.value(qLat.ref.sizes[0]), one = step.constant(1);
  Value tiles = step.multiply(tokens, llvm::divideCeil(heads, tileRows));
  bool isSplit = static_cast<bool>(op.getNumSplits());
  step.launch(isSplit ? "sparse_attention_split" : "sparse_attention",
              {tiles, one, isSplit ? planArgs[splitsArg] : one}, planArgs,
              [&](KernelBuilder &b, ValueRange args) { write(b, args); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::SparseAttentionOp op) {
  if (int64_t width = op.getLatentWidth(); width > step.shapes.maxAccumulatorColumns)
    return op.emitOpError("expected a kv_lora_rank of at most ")
           << step.shapes.maxAccumulatorColumns << " on this target, got " << width;
  SparseKernel(step, op).launch();
  return success();
}
