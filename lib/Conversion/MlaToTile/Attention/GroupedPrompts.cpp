//===- GroupedPrompts.cpp - prompts of grouped heads over pages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/GroupedPrompts.h"

#include "Attention/HeadRows.h"
#include "Attention/OnlineSoftmax.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
class PromptKernel {
public:
  PromptKernel(StepLowering &step, mla::GroupedAttentionOp op);
  void launch();

private:
  /// A tensor of the step, and which argument holds its buffer.
  struct Operand {
    TensorRef ref;
    unsigned arg;
  };
  struct Source : HeadRows {
    unsigned table; // the block table's argument, before that of its columns
  };
  /// What a program does: rows of a head of a request.
  struct Work {
    RowRange queries;
    Value row, head, seqLen, context;
  };
  Operand addOperand(Value tensor);
  Source addSource(TypedValue<mla::CacheType> cache, Part part);

  void write(KernelBuilder &b, ValueRange args);
  void writeTile(KernelBuilder &b, ValueRange args, const Work &work);
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Work &work);
  Value viewRows(KernelBuilder &b, ValueRange args, const Operand &operand, const Work &work);
  Value firstKey(KernelBuilder &b, const Work &work);
  SmallVector<Value> startWithSink(KernelBuilder &b, ValueRange args, const Work &work);

  StepLowering &step;
  mla::GroupedAttentionOp op;
  SmallVector<Value> planArgs;
  Source keys, values;
  Operand query, output;
  std::optional<Operand> lse, sink;
  int64_t tileRows, tileKeys;
};

/// Positions of the arguments that come before the pools.
enum Arg : unsigned { kQueryStarts, kSeqLens, kTokens };
} // namespace

PromptKernel::PromptKernel(StepLowering &step, mla::GroupedAttentionOp op)
    : step(step), op(op), tileRows(step.shapes.queryRows), tileKeys(step.shapes.keys) {
  planArgs = {step.metadata("query_start_loc"), step.metadata("seq_lens"), step.dim("num_tokens")};
  keys = addSource(op.getKeyCache(), Part::Key);
  bool isOnePool = step.cache(op.getKeyCache()) == step.cache(op.getValueCache());
  values = isOnePool ? keys : addSource(op.getValueCache(), Part::Value);
  query = addOperand(op.getQuery());
  output = addOperand(op.getOutput());
  values.columns = output.ref.size(2);
  if (op.getLse())
    lse = addOperand(op.getLse());
  if (op.getSink())
    sink = addOperand(op.getSink());
}

PromptKernel::Operand PromptKernel::addOperand(Value tensor) {
  Operand operand{step.lookup(tensor), static_cast<unsigned>(planArgs.size())};
  planArgs.push_back(operand.ref.buffer);
  return operand;
}

PromptKernel::Source PromptKernel::addSource(TypedValue<mla::CacheType> cache, Part part) {
  HeadRows rows = HeadRows::add(step, op, cache, part, planArgs);
  auto table = static_cast<unsigned>(planArgs.size());
  planArgs.push_back(step.poolMetadata(cache, op.getBatch(), "block_table"));
  planArgs.push_back(step.poolDim(cache, "max_blocks_per_request"));
  return {rows, table};
}

/// The head's rows of a request's queries, or of its output.
Value PromptKernel::viewRows(KernelBuilder &b, ValueRange args, const Operand &operand,
                             const Work &work) {
  const TensorRef &ref = operand.ref;
  Value offset = b.add(b.mul(work.queries.begin, ref.strides[0]), b.mul(work.head, ref.strides[1]));
  return b.view(args[operand.arg], b.extent(offset, ref.offset),
                {work.queries.count, b.fixed(ref.size(2))},
                {b.fixed(ref.strides[0]), b.fixed(ref.strides[2])});
}

/// The first key that the tile's first row sees, or a few before it: blocks start where boxes
/// of pages do.
Value PromptKernel::firstKey(KernelBuilder &b, const Work &work) {
  auto window = static_cast<int64_t>(op.getWindow());
  if (window == 0)
    return b.index(0);
  Value limit = b.add(b.add(work.context, work.row), 1);
  Value first = b.maximum(b.sub(limit, b.index(window)), b.index(0));
  return b.mul(arith::DivUIOp::create(b, first, b.index(tileKeys)), tileKeys);
}

SmallVector<Value> PromptKernel::startWithSink(KernelBuilder &b, ValueRange args,
                                               const Work &work) {
  if (!sink)
    return {};
  const TensorRef &ref = sink->ref;
  Value view = b.view(args[sink->arg], b.extent(b.mul(work.head, ref.strides[0]), ref.offset),
                      {b.fixed(tileRows)}, {b.fixed(0)});
  return startFromSink(b, b.load(view, b.index(0), tileRows), /*isFirst=*/Value(),
                       step.shapes.accumulatorWidth(values.columns));
}

tile::AttendOp PromptKernel::emitAttend(KernelBuilder &b, ValueRange args, const Work &work) {
  Value queries = b.load(viewRows(b, args, query, work), {work.row, b.index(0)},
                         {tileRows, paddedWidth(keys.columns)});
  Value head = arith::DivUIOp::create(b, work.head, b.index(op.getGroup())); // of keys
  auto findTable = [&](const Source &source) {
    return blockTableRow(b, args[source.table], b.programId(2), args[source.table + 1]);
  };
  // Row i sees keys up to its own, and from a window's first on.
  Value own = b.add(work.context, work.row), starts;
  if (auto window = static_cast<int64_t>(op.getWindow())) {
    Value first = b.splat(b.toI32(b.sub(b.add(own, 1), b.index(window))), tileRows);
    starts = arith::AddIOp::create(b, b.iota(0, tileRows), first);
  }
  Value end = b.minimum(work.seqLen, b.add(own, tileRows));
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, step.shapes.accumulatorWidth(values.columns)},
                                      b.getF32Type());
  Value keyView = keys.view(b, args, Part::Key, head);
  Value valueView = values.view(b, args, Part::Value, head);
  return tile::AttendOp::create(b, row, row, result, queries, keyView, findTable(keys),
                                /*list=*/Value(), valueView, findTable(values),
                                /*scales=*/Value(), firstKey(b, work), end, work.seqLen,
                                /*seen=*/Value(), starts, own, startWithSink(b, args, work),
                                tileKeys, /*unit=*/1, op.getScale(), /*lag=*/APFloat(0.0),
                                /*exact=*/false, op.getSoftcap());
}

void PromptKernel::writeTile(KernelBuilder &b, ValueRange args, const Work &work) {
  tile::AttendOp attend = emitAttend(b, args, work);
  b.storeNarrow(normaliseOutput(b, attend), viewRows(b, args, output, work),
                {work.row, b.index(0)});
  if (!lse)
    return;
  Value offset = b.add(b.mul(work.queries.begin, op.getHeads()), work.head); // token-major
  Value view = b.view(args[lse->arg], b.extent(offset, lse->ref.offset), {work.queries.count},
                      {b.fixed(op.getHeads())});
  b.store(attendedLse(b, attend), view, work.row);
}

void PromptKernel::write(KernelBuilder &b, ValueRange args) {
  // Queries are copied from the whole tensor.
  auto kernel = cast<tile::KernelOp>(b.getInsertionBlock()->getParentOp());
  kernel.setArgAttr(query.arg, tile::kRowCountAttr, b.getI64IntegerAttr(kTokens));
  Work work{loadRange(b, args[kQueryStarts], b.programId(2)),
            b.mul(b.programId(0), tileRows),
            b.programId(1),
            {},
            {}};
  b.ifThen(b.isBelow(work.row, work.queries.count), [&] {
    work.seqLen = b.loadScalar(args[kSeqLens], b.programId(2));
    work.context = b.sub(work.seqLen, work.queries.count);
    writeTile(b, args, work);
  });
}

void PromptKernel::launch() {
  std::array<Value, 3> grid = {step.ceilDiv(step.dim("max_query_len"), tileRows),
                               step.constant(op.getHeads()), step.dim("num_requests")};
  step.launch("grouped_prompts", grid, planArgs,
              [&](KernelBuilder &b, ValueRange args) { write(b, args); });
}

//===----------------------------------------------------------------------===//
// Where it is
//===----------------------------------------------------------------------===//

/// Whether blocks of keys are boxes of the pool's pages, whole panels wide, as schedules over
/// programs copy them.
static bool hasBoxes(StepLowering &step, TypedValue<mla::CacheType> cache, int64_t columns) {
  if (cache.getType().isQuantized()) // no schedule over programs turns codes
    return false;
  constexpr int64_t kLeastRows = 16; // a thread copies each box
  int64_t page = cache.getType().getPageSize(), keys = step.shapes.keys;
  bool isCut = page % keys == 0 || (keys % page == 0 && page >= kLeastRows);
  return isCut && columns % kValueColumns == 0 && columns <= 4 * kValueColumns;
}

static bool canHavePrompts(StepLowering &step, mla::GroupedAttentionOp op) {
  // A batch-invariant step has one kernel whatever its sizes are.
  bool isPiecewise = step.shapes.partitionsAttention && step.costs.fixedBlocks == 0 &&
                     !op.getNumSplits() && !op->hasAttr(mla::kUnsplitAttr);
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  return isPiecewise && !op.getBatch().getType().hasStaticQueryLen() &&
         query.getElementType().getIntOrFloatBitWidth() == 16 &&
         output.getElementType() == query.getElementType() &&
         hasBoxes(step, op.getKeyCache(), query.getDimSize(2)) &&
         hasBoxes(step, op.getValueCache(), output.getDimSize(2));
}

LogicalResult
mlac::mla_to_tile::launchBesidePrompts(StepLowering &step, mla::GroupedAttentionOp op,
                                       llvm::function_ref<LogicalResult()> launchPieces) {
  if (!canHavePrompts(step, op))
    return launchPieces();
  // Rows of two tiles that programs side by side compute. A request's last are half empty.
  int64_t rows = 2 * step.shapes.queryRows;
  Value tokens = step.dim("num_tokens");
  Value lost = step.multiply(step.dim("num_requests"), rows / 2);
  OpBuilder &b = step.plan();
  Value filled = arith::SubIOp::create(b, op.getLoc(), tokens,
                                       arith::MinSIOp::create(b, op.getLoc(), tokens, lost));
  // A full machine takes a third of the time that pieces take (docs/lab/grouped.md), so a third
  // of it takes as long.
  constexpr int64_t kGain = 3;
  Value perSm = arith::CeilDivSIOp::create(
      b, op.getLoc(), step.multiply(filled, kGain * op.getHeads()), step.dim("num_sms"));
  LogicalResult result = success();
  step.versionByRows(
      perSm, rows, [&] { result = launchPieces(); }, [&] { PromptKernel(step, op).launch(); });
  return result;
}
