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
#include "Rows/CopyKeys.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Whether blocks of keys are boxes of the pool's pages, whole panels wide, as schedules over
/// programs copy them.
static bool hasBoxes(StepLowering &step, TypedValue<mla::CacheType> cache, int64_t columns) {
  // No schedule over programs turns codes, and each tile of queries would turn them again.
  if (cache.getType().isQuantized())
    return false;
  constexpr int64_t kLeastRows = 16; // a thread copies each box
  int64_t page = cache.getType().getPageSize(), keys = step.shapes.keys;
  bool isCut = page % keys == 0 || (keys % page == 0 && page >= kLeastRows);
  return isCut && columns % kValueColumns == 0;
}

/// Whether keys and values have to be copied to rows of the model's type side by side first.
static bool copiesKeys(StepLowering &step, mla::GroupedAttentionOp op) {
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  return !hasBoxes(step, op.getKeyCache(), query.getDimSize(2)) ||
         !hasBoxes(step, op.getValueCache(), output.getDimSize(2));
}

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
  /// Keys or values: rows of the pool's pages, or copies of them.
  struct Source : HeadRows {
    Part part;
    unsigned table = 0; // the block table's argument, before that of its columns
    std::optional<Operand> copies;
  };
  /// What a program does: rows of a head of a request.
  struct Work {
    RowRange queries, keys; // keys: all of the request's, where copies of them begin
    Value request, row, head, context;
  };
  Operand addOperand(TensorRef ref);
  Operand addOperand(Value tensor) { return addOperand(step.lookup(tensor)); }
  Source addPages(TypedValue<mla::CacheType> cache, Part part);
  Source addCopies(TypedValue<mla::CacheType> cache, Part part);
  void copyKeys();

  void write(KernelBuilder &b, ValueRange args);
  void writeTile(KernelBuilder &b, ValueRange args, const Work &work);
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Work &work);
  Value viewRows(KernelBuilder &b, ValueRange args, const Operand &operand, RowRange rows,
                 Value head);
  Value viewKeys(KernelBuilder &b, ValueRange args, const Source &source, const Work &work);
  Value findTable(KernelBuilder &b, ValueRange args, const Source &source, const Work &work);
  void countRows(ValueRange args);
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
enum Arg : unsigned { kRequests, kQueryStarts, kSeqLens, kTokens, kKeyStarts, kKeyTokens };
} // namespace

PromptKernel::PromptKernel(StepLowering &step, mla::GroupedAttentionOp op)
    : step(step), op(op), tileRows(step.shapes.queryRows), tileKeys(step.shapes.keys) {
  planArgs = {step.metadata("prompt_requests"), step.metadata("query_start_loc"),
              step.metadata("seq_lens"), step.dim("num_tokens")};
  if (copiesKeys(step, op)) {
    planArgs.append({step.metadata("prompt_key_loc"), step.dim("num_prompt_keys")});
    keys = addCopies(op.getKeyCache(), Part::Key);
    values = addCopies(op.getValueCache(), Part::Value);
  } else {
    keys = addPages(op.getKeyCache(), Part::Key);
    bool isOnePool = step.cache(op.getKeyCache()) == step.cache(op.getValueCache());
    values = isOnePool ? keys : addPages(op.getValueCache(), Part::Value);
    values.part = Part::Value;
  }
  query = addOperand(op.getQuery());
  output = addOperand(op.getOutput());
  values.columns = output.ref.size(2);
  if (op.getLse())
    lse = addOperand(op.getLse());
  if (op.getSink())
    sink = addOperand(op.getSink());
}

PromptKernel::Operand PromptKernel::addOperand(TensorRef ref) {
  Operand operand{std::move(ref), static_cast<unsigned>(planArgs.size())};
  planArgs.push_back(operand.ref.buffer);
  return operand;
}

PromptKernel::Source PromptKernel::addPages(TypedValue<mla::CacheType> cache, Part part) {
  HeadRows rows = HeadRows::add(step, op, cache, part, planArgs);
  auto table = static_cast<unsigned>(planArgs.size());
  planArgs.push_back(step.poolMetadata(cache, op.getBatch(), "block_table"));
  planArgs.push_back(step.poolDim(cache, "max_blocks_per_request"));
  return {rows, part, table};
}

PromptKernel::Source PromptKernel::addCopies(TypedValue<mla::CacheType> cache, Part part) {
  Source source{{Pool::ofPlan(step, cache)}, part};
  int64_t heads = op.getHeads() / op.getGroup();
  source.columns = source.pool.width(part) / heads;
  Builder builder(op.getContext());
  source.copies =
      addOperand(step.workspace({step.dim("num_prompt_keys"), builder.getIndexAttr(heads),
                                 builder.getIndexAttr(source.columns)},
                                cache.getType().getElement()));
  return source;
}

/// Fields of one pool together.
void PromptKernel::copyKeys() {
  KeyCopy ofKeys{keys.part, keys.copies->ref}, ofValues{values.part, values.copies->ref};
  if (step.cache(op.getKeyCache()) == step.cache(op.getValueCache()))
    return copyPromptKeys(step, op.getBatch(), op.getKeyCache(), {ofKeys, ofValues});
  copyPromptKeys(step, op.getBatch(), op.getKeyCache(), ofKeys);
  copyPromptKeys(step, op.getBatch(), op.getValueCache(), ofValues);
}

/// A head's rows of a request.
Value PromptKernel::viewRows(KernelBuilder &b, ValueRange args, const Operand &operand,
                             RowRange rows, Value head) {
  const TensorRef &ref = operand.ref;
  Value offset = b.add(b.mul(rows.begin, ref.strides[0]), b.mul(head, ref.strides[1]));
  return b.view(args[operand.arg], b.extent(offset, ref.offset), {rows.count, b.fixed(ref.size(2))},
                {b.fixed(ref.strides[0]), b.fixed(ref.strides[2])});
}

Value PromptKernel::viewKeys(KernelBuilder &b, ValueRange args, const Source &source,
                             const Work &work) {
  Value head = arith::DivUIOp::create(b, work.head, b.index(op.getGroup())); // of keys
  if (source.copies)
    return viewRows(b, args, *source.copies, work.keys, head);
  return source.view(b, args, source.part, head);
}

/// Null of copies, which lie side by side.
Value PromptKernel::findTable(KernelBuilder &b, ValueRange args, const Source &source,
                              const Work &work) {
  if (source.copies)
    return {};
  return blockTableRow(b, args[source.table], work.request, args[source.table + 1]);
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
  Value queries = b.load(viewRows(b, args, query, work.queries, work.head), {work.row, b.index(0)},
                         {tileRows, paddedWidth(keys.columns)});
  // Row i sees keys up to its own, and from a window's first on.
  Value own = b.add(work.context, work.row), starts;
  if (auto window = static_cast<int64_t>(op.getWindow())) {
    Value first = b.splat(b.toI32(b.sub(b.add(own, 1), b.index(window))), tileRows);
    starts = arith::AddIOp::create(b, b.iota(0, tileRows), first);
  }
  Value end = b.minimum(work.keys.count, b.add(own, tileRows));
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, step.shapes.accumulatorWidth(values.columns)},
                                      b.getF32Type());
  Value keyView = viewKeys(b, args, keys, work), valueView = viewKeys(b, args, values, work);
  return tile::AttendOp::create(b, row, row, result, queries, keyView,
                                findTable(b, args, keys, work),
                                /*list=*/Value(), valueView, findTable(b, args, values, work),
                                /*scales=*/Value(), firstKey(b, work), end, work.keys.count,
                                /*seen=*/Value(), starts, own, startWithSink(b, args, work),
                                tileKeys, /*unit=*/1, op.getScale(), /*lag=*/APFloat(0.0),
                                /*exact=*/false, op.getSoftcap());
}

void PromptKernel::writeTile(KernelBuilder &b, ValueRange args, const Work &work) {
  tile::AttendOp attend = emitAttend(b, args, work);
  b.storeNarrow(normaliseOutput(b, attend), viewRows(b, args, output, work.queries, work.head),
                {work.row, b.index(0)});
  if (!lse)
    return;
  Value offset = b.add(b.mul(work.queries.begin, op.getHeads()), work.head); // token-major
  Value view = b.view(args[lse->arg], b.extent(offset, lse->ref.offset), {work.queries.count},
                      {b.fixed(op.getHeads())});
  b.store(attendedLse(b, attend), view, work.row);
}

/// What bounds the rows of whole tensors, which TMA copies from.
void PromptKernel::countRows(ValueRange args) {
  auto kernel = cast<tile::KernelOp>(cast<BlockArgument>(args[0]).getOwner()->getParentOp());
  auto count = [&](const Operand &operand, Arg rows) {
    auto type = IntegerType::get(kernel.getContext(), 64);
    kernel.setArgAttr(operand.arg, tile::kRowCountAttr, IntegerAttr::get(type, rows));
  };
  count(query, kTokens);
  for (const Source *source : {&keys, &values})
    if (source->copies)
      count(*source->copies, kKeyTokens);
}

void PromptKernel::write(KernelBuilder &b, ValueRange args) {
  countRows(args);
  Value prompt = b.programId(2), request = b.loadScalar(args[kRequests], prompt);
  Work work{.queries = loadRange(b, args[kQueryStarts], request),
            .keys = {},
            .request = request,
            .row = b.mul(b.programId(0), tileRows),
            .head = b.programId(1),
            .context = {}};
  b.ifThen(b.isBelow(work.row, work.queries.count), [&] {
    if (keys.copies)
      work.keys = loadRange(b, args[kKeyStarts], prompt);
    else
      work.keys.count = b.loadScalar(args[kSeqLens], request);
    work.context = b.sub(work.keys.count, work.queries.count);
    writeTile(b, args, work);
  });
}

void PromptKernel::launch() {
  if (keys.copies)
    copyKeys();
  std::array<Value, 3> grid = {step.ceilDiv(step.dim("max_query_len"), tileRows),
                               step.constant(op.getHeads()), step.dim("num_prompts")};
  step.launch("grouped_prompts", grid, planArgs,
              [&](KernelBuilder &b, ValueRange args) { write(b, args); });
}

//===----------------------------------------------------------------------===//
// Where it is
//===----------------------------------------------------------------------===//

/// Whether the op may have prompts, whatever the others of its step are.
static bool canHavePrompts(StepLowering &step, mla::GroupedAttentionOp op) {
  // A batch-invariant step has one kernel whatever its sizes are.
  bool isPiecewise = step.shapes.partitionsAttention && step.costs.fixedBlocks == 0 &&
                     !op.getNumSplits() && !op->hasAttr(mla::kUnsplitAttr);
  // Parts of a batch are prompts and others already.
  bool isWhole = isa<BlockArgument>(op.getBatch());
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  auto fits = [](RankedTensorType rows) { // whole units of TMA, and the widest product
    constexpr int64_t kMultiple = 8, kMost = 4 * kValueColumns;
    return rows.getDimSize(2) % kMultiple == 0 && rows.getDimSize(2) <= kMost;
  };
  return isPiecewise && isWhole && !op.getBatch().getType().hasStaticQueryLen() &&
         query.getElementType().getIntOrFloatBitWidth() == 16 &&
         output.getElementType() == query.getElementType() && fits(query) && fits(output);
}

/// Rows of two tiles that programs side by side compute.
static int64_t getTileRows(StepLowering &step) { return 2 * step.shapes.queryRows; }

/// A full machine takes a third of the time that pieces take (docs/lab/grouped.md), of values and
/// of codes alike.
static constexpr int64_t kGain = 3;

/// A copied code is read, written as two bytes, and these are read: in the time of five bytes (an
/// H100's 3 TB/s) prompts multiply as many queries with a key, 4 FLOP for each of its two columns
/// (600 TFLOP/s).
static constexpr int64_t kQueriesOfCopy = 500;

/// The longest query that is better off in pieces, where each query takes kGain times as long: of
/// prompts, a request takes a tile at least, and its keys may have to be copied.
static int64_t findLongestPiece(StepLowering &step, mla::GroupedAttentionOp op) {
  int64_t copy = copiesKeys(step, op) ? llvm::divideCeil(kQueriesOfCopy, op.getGroup()) : 0;
  return llvm::divideCeil(getTileRows(step) + copy, kGain);
}

std::optional<PromptRule> mlac::mla_to_tile::findPromptRule(StepLowering &step,
                                                            mla::GroupedAttentionOp op) {
  auto function = op->getParentOfType<func::FuncOp>();
  if (function->hasAttr(mla::kDecodeThresholdAttr) || function->hasAttr(mla::kDecodesOfAttr))
    return std::nullopt;
  // All attentions of a step have the same work, and so leave the same requests.
  PromptRule rule;
  WalkResult walk = function.walk([&](Operation *other) {
    if (isa<mla::AbsorbedAttentionOp, mla::SparseAttentionOp>(other))
      return WalkResult::interrupt();
    auto grouped = dyn_cast<mla::GroupedAttentionOp>(other);
    if (!grouped)
      return WalkResult::advance();
    if (!canHavePrompts(step, grouped))
      return WalkResult::interrupt();
    rule.above = std::max(rule.above, findLongestPiece(step, grouped));
    rule.copiesKeys |= copiesKeys(step, grouped);
    return WalkResult::advance();
  });
  return walk.wasInterrupted() ? std::nullopt : std::optional(rule);
}

/// As prompts take a kGain-th of the time where they fill the machine, where they fill a kGain-th
/// of it they take as long. The last tile of each is half empty. Of a window's keys few are seen,
/// but all of a prompt's are copied.
static Value emitPays(StepLowering &step, mla::GroupedAttentionOp op, bool copiesKeys) {
  OpBuilder &b = step.plan();
  Location loc = op.getLoc();
  int64_t rows = getTileRows(step);
  Value tokens = step.dim("num_prompt_tokens"), prompts = step.dim("num_prompts");
  Value processors = step.dim("num_sms"), keys = copiesKeys ? step.dim("num_prompt_keys") : Value();
  auto isAbove = [&](Value x, int64_t limit) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x, step.constant(limit));
  };
  Value filled = arith::SubIOp::create(b, loc, tokens, step.multiply(prompts, rows / 2));
  Value perSm =
      arith::CeilDivSIOp::create(b, loc, step.multiply(filled, kGain * op.getHeads()), processors);
  Value pays = isAbove(perSm, rows);
  if (!keys)
    return pays;
  auto both = [&](Value x) { pays = arith::AndIOp::create(b, loc, pays, x); };
  both(isAbove(keys, 0));
  if (auto window = static_cast<int64_t>(op.getWindow())) {
    Value saved = step.multiply(tokens, (kGain - 1) * window);
    Value copies = step.multiply(keys, llvm::divideCeil(kQueriesOfCopy, op.getGroup()));
    both(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, saved, copies));
  }
  return pays;
}

void mlac::mla_to_tile::launchPrompts(StepLowering &step, mla::GroupedAttentionOp op,
                                      const PromptRule &rule) {
  step.requestPrompts(rule.above, [&] { return emitPays(step, op, rule.copiesKeys); });
  step.ifAbove(step.dim("num_prompts"), 0, [&] { PromptKernel(step, op).launch(); });
}
