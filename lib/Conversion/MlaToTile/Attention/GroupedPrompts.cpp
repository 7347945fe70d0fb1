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
#include "mla/Machine/TargetDescription.h"

#include <numeric>

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

/// Rows of two tiles that programs side by side compute.
static int64_t getTileRows(StepLowering &step) { return 2 * step.shapes.queryRows; }

/// Keys are cut at multiples of so many, which are whole blocks of any schedule that takes the
/// kernel at its best, and boxes of large pages.
static int64_t getCutKeys(StepLowering &step) { return 2 * step.shapes.keys; }

/// Heads of a group that a tile has of each query. With all of them a tile has fewer queries, so
/// that a request of few fills it, and the keys of a causal tile end nearer to its first query.
/// Of a group that does not divide the tile, which would leave rows of it empty, it has a part.
static int64_t getRun(StepLowering &step, mla::GroupedAttentionOp op) {
  return std::gcd(static_cast<int64_t>(op.getGroup()), step.shapes.queryRows);
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
  PromptKernel(StepLowering &step, mla::GroupedAttentionOp op,
               const PagedKernel::Partials &partials);
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
  /// What a program does: queries of a part of a prompt (tile.prompts), of each the heads of a run.
  struct Work {
    Value part;
    RowRange queries, keys; // keys: up to the part's end, where copies of the request's begin
    Value request;
    Value row, query;         // the tile's first
    Value run;                // of heads
    Value position, firstKey; // of the part's first query, and of the part
  };
  enum PartField {
    kRequest,
    kFirstToken,
    kTokens,
    kFirstPosition,
    kFirstKey,
    kEndKey,
    kFirstCopy,
    kPartial
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
  Value viewHeads(KernelBuilder &b, ValueRange args, const Operand &operand, Value begin,
                  OpFoldResult tokens, Value run);
  Value loadQueries(KernelBuilder &b, ValueRange args, const Work &work);
  Value ownKeys(KernelBuilder &b, Value first);
  Value viewKeys(KernelBuilder &b, ValueRange args, const Source &source, const Work &work);
  Value findTable(KernelBuilder &b, ValueRange args, const Source &source, const Work &work);
  void countRows(ValueRange args);
  Value loadField(KernelBuilder &b, ValueRange args, Value part, PartField field);
  Work loadPart(KernelBuilder &b, ValueRange args);
  Value firstKey(KernelBuilder &b, const Work &work);
  void store(KernelBuilder &b, ValueRange args, tile::AttendOp attend, const Work &work,
             Value firstToken, const Operand &to, const std::optional<Operand> &toLse);
  SmallVector<Value> startWithSink(KernelBuilder &b, ValueRange args, const Work &work);

  StepLowering &step;
  mla::GroupedAttentionOp op;
  SmallVector<Value> planArgs;
  Source keys, values;
  Operand query, output, partialOutput;
  std::optional<Operand> lse, sink, partialLse;
  int64_t run; // heads
  int64_t tileRows, tileKeys;
};

/// Positions of the arguments that come before the pools.
enum Arg : unsigned { kPartsArg, kTokensArg, kKeyTokensArg };
} // namespace

PromptKernel::PromptKernel(StepLowering &step, mla::GroupedAttentionOp op,
                           const PagedKernel::Partials &partials)
    : step(step), op(op), run(getRun(step, op)), tileRows(step.shapes.queryRows),
      tileKeys(step.shapes.keys) {
  planArgs = {step.metadata("prompt_parts"), step.dim("num_tokens")};
  if (copiesKeys(step, op)) {
    planArgs.push_back(step.dim("num_prompt_keys"));
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
  partialOutput = addOperand(partials.output);
  partialLse = addOperand(partials.lse);
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
  return {{rows}, part, table, /*copies=*/{}};
}

PromptKernel::Source PromptKernel::addCopies(TypedValue<mla::CacheType> cache, Part part) {
  Source source{{Pool::ofPlan(step, cache)}, part, /*table=*/0, /*copies=*/{}};
  int64_t heads = op.getHeads() / op.getGroup();
  source.columns = source.pool.width(part) / heads;
  Builder builder(op.getContext());
  source.copies =
      addOperand(step.alignedRows({step.dim("num_prompt_keys"), builder.getIndexAttr(heads),
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

/// The heads of a run as rows in groups, of tokens from `begin` on.
Value PromptKernel::viewHeads(KernelBuilder &b, ValueRange args, const Operand &operand,
                              Value begin, OpFoldResult tokens, Value headRun) {
  const TensorRef &ref = operand.ref;
  Value offset = b.mul(headRun, run * ref.strides[1]);
  if (begin)
    offset = b.add(b.mul(begin, ref.strides[0]), offset);
  SmallVector<OpFoldResult> sizes = {tokens, b.fixed(run)},
                            strides = {b.fixed(ref.strides[0]), b.fixed(ref.strides[1])};
  if (ref.rank() == 3) { // not an LSE
    sizes.push_back(b.fixed(ref.size(2)));
    strides.push_back(b.fixed(ref.strides[2]));
  }
  return b.view(args[operand.arg], b.extent(offset, ref.offset), sizes, strides);
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
  Value head = work.run; // of keys
  if (int64_t runs = op.getGroup() / run; runs != 1)
    head = arith::DivUIOp::create(b, head, b.index(runs));
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
    return work.firstKey;
  Value limit = b.add(b.add(work.position, work.query), 1);
  Value first = b.maximum(b.sub(limit, b.index(window)), b.index(0));
  Value block = b.mul(arith::DivUIOp::create(b, first, b.index(tileKeys)), tileKeys);
  return b.maximum(block, work.firstKey);
}

/// Each row's own key, counted from `first`, that of the tile's first row.
Value PromptKernel::ownKeys(KernelBuilder &b, Value first) {
  Value row = b.iota(0, tileRows);
  if (run != 1)
    row = arith::DivUIOp::create(b, row, b.constantI32(tileRows, run));
  return arith::AddIOp::create(b, row, b.splat(b.toI32(first), tileRows));
}

SmallVector<Value> PromptKernel::startWithSink(KernelBuilder &b, ValueRange args,
                                               const Work &work) {
  if (!sink)
    return {};
  const TensorRef &ref = sink->ref;
  Value first = b.mul(work.run, run * ref.strides[0]);
  Value view =
      b.view(args[sink->arg], b.extent(first, ref.offset), {b.fixed(tileRows / run), b.fixed(run)},
             {b.fixed(0), b.fixed(ref.strides[0])});
  // Of a row's parts, that of its own key.
  Value isIn = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                     ownKeys(b, b.add(work.position, work.query)),
                                     b.splat(b.toI32(work.keys.count), tileRows));
  return startFromSink(b, b.load(view, b.index(0), tileRows), isIn,
                       step.shapes.accumulatorWidth(values.columns));
}

/// Rows of all tokens from the tile's first on: those behind the part's are dropped by the stores.
Value PromptKernel::loadQueries(KernelBuilder &b, ValueRange args, const Work &work) {
  int64_t width = paddedWidth(keys.columns);
  if (run == 1)
    return b.load(viewRows(b, args, query, work.queries, work.run), {work.row, b.index(0)},
                  {tileRows, width});
  Value view = viewHeads(b, args, query, /*begin=*/Value(), args[kTokensArg], work.run);
  Value row = b.mul(b.add(work.queries.begin, work.query), run);
  return b.load(view, {row, b.index(0)}, {tileRows, width});
}

tile::AttendOp PromptKernel::emitAttend(KernelBuilder &b, ValueRange args, const Work &work) {
  Value queries = loadQueries(b, args, work);
  // A row sees keys up to its own, and from a window's first on.
  Value own = b.add(work.position, work.query), starts;
  if (auto window = static_cast<int64_t>(op.getWindow()))
    starts = ownKeys(b, b.sub(b.add(own, 1), b.index(window)));
  Value end = b.minimum(work.keys.count, b.add(own, tileRows / run));
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, step.shapes.accumulatorWidth(values.columns)},
                                      b.getF32Type());
  Value keyView = viewKeys(b, args, keys, work), valueView = viewKeys(b, args, values, work);
  return tile::AttendOp::create(
      b, row, row, result, queries, keyView, findTable(b, args, keys, work),
      /*list=*/Value(), valueView, findTable(b, args, values, work),
      /*scales=*/Value(), firstKey(b, work), end, work.keys.count,
      /*seen=*/Value(), starts, own, /*marks=*/Value(), startWithSink(b, args, work), tileKeys,
      /*unit=*/1, op.getScale(), /*lag=*/APFloat(0.0),
      /*exact=*/false, op.getSoftcap(), run);
}

/// The rows to those of tokens from `firstToken` on.
void PromptKernel::store(KernelBuilder &b, ValueRange args, tile::AttendOp attend, const Work &work,
                         Value firstToken, const Operand &to, const std::optional<Operand> &toLse) {
  auto view = [&](const Operand &operand) {
    return viewHeads(b, args, operand, firstToken, work.queries.count, work.run);
  };
  b.storeNarrow(normaliseOutput(b, attend), view(to), {work.row, b.index(0)});
  if (toLse)
    b.store(attendedLse(b, attend), view(*toLse), work.row);
}

/// Asks behind the loop over keys where the rows go, so that it needs no register for that.
void PromptKernel::writeTile(KernelBuilder &b, ValueRange args, const Work &work) {
  tile::AttendOp attend = emitAttend(b, args, work);
  Value partial = loadField(b, args, work.part, kPartial);
  b.ifThenElse(
      b.isBelow(partial, b.index(0)),
      [&] { store(b, args, attend, work, work.queries.begin, output, lse); },
      [&] { store(b, args, attend, work, partial, partialOutput, partialLse); });
}

/// What bounds the rows of whole tensors, which TMA copies from.
void PromptKernel::countRows(ValueRange args) {
  auto kernel = cast<tile::KernelOp>(cast<BlockArgument>(args[0]).getOwner()->getParentOp());
  auto count = [&](const Operand &operand, Arg rows) {
    auto type = IntegerType::get(kernel.getContext(), 64);
    kernel.setArgAttr(operand.arg, tile::kRowCountAttr, IntegerAttr::get(type, rows));
  };
  count(query, kTokensArg);
  for (const Source *source : {&keys, &values})
    if (source->copies)
      count(*source->copies, kKeyTokensArg);
}

Value PromptKernel::loadField(KernelBuilder &b, ValueRange args, Value part, PartField field) {
  constexpr int64_t fields = 8;
  return b.loadScalar(args[kPartsArg], b.add(b.mul(part, fields), field));
}

PromptKernel::Work PromptKernel::loadPart(KernelBuilder &b, ValueRange args) {
  Value part = b.programId(2);
  auto field = [&](PartField which) { return loadField(b, args, part, which); };
  // What it is a multiple of has to be seen.
  int64_t multiple = getCutKeys(step);
  Value block = arith::DivUIOp::create(b, field(kFirstKey), b.index(multiple));
  return {.part = part,
          .queries = {field(kFirstToken), field(kTokens)},
          .keys = {keys.copies ? field(kFirstCopy) : Value(), field(kEndKey)},
          .request = field(kRequest),
          .row = b.mul(b.programId(0), tileRows),
          .query = b.mul(b.programId(0), tileRows / run),
          .run = b.programId(1),
          .position = field(kFirstPosition),
          .firstKey = b.mul(block, multiple)};
}

void PromptKernel::write(KernelBuilder &b, ValueRange args) {
  countRows(args);
  b.getInsertionBlock()->getParentOp()->setAttr(tile::kMaxRowsAttr,
                                                b.getI64IntegerAttr(getTileRows(step)));
  Work work = loadPart(b, args);
  Value rows = b.mul(work.queries.count, run);
  b.ifThen(b.isBelow(work.row, rows), [&] { writeTile(b, args, work); });
}

void PromptKernel::launch() {
  if (keys.copies)
    copyKeys();
  std::array<Value, 3> grid = {step.constant(getTileRows(step) / tileRows),
                               step.constant(op.getHeads() / run), step.dim("num_prompt_parts")};
  step.launch("grouped_prompts", grid, planArgs,
              [&](KernelBuilder &b, ValueRange args) { write(b, args); });
}

//===----------------------------------------------------------------------===//
// Where it is
//===----------------------------------------------------------------------===//

/// Prompts take a third of the time that pieces take (docs/lab/grouped.md), of values and of codes
/// alike.
static constexpr int64_t kGain = 3;

/// A copied code is read, written as two bytes, and these are read: in the time of five bytes (an
/// H100's 3 TB/s) prompts multiply as many queries with a key, 4 FLOP for each of its two columns
/// (600 TFLOP/s).
static constexpr int64_t kQueriesOfCopy = 500;

/// The longest query that is better off in pieces, where each row takes kGain times as long: of
/// prompts, a request takes a tile at least, and its keys may have to be copied.
static int64_t findLongestPiece(StepLowering &step, mla::GroupedAttentionOp op) {
  auto group = static_cast<int64_t>(op.getGroup());
  int64_t run = getRun(step, op);
  int64_t copy = copiesKeys(step, op) ? kQueriesOfCopy * run / group : 0; // rows
  int64_t rows = llvm::divideCeil(getTileRows(step) + copy, kGain);
  // A tile of pieces has as many rows as one of prompts: a request that fills one stays with it.
  return std::max<int64_t>({rows / run, step.shapes.queryRows / group, 1});
}

/// Whether the op may have prompts, whatever the others of its step are.
static bool canHavePrompts(StepLowering &step, mla::GroupedAttentionOp op) {
  // A batch-invariant step has one kernel whatever its sizes are.
  bool isPiecewise = step.shapes.partitionsAttention && step.costs.fixedBlocks == 0 &&
                     !op.getNumSplits() && !op->hasAttr(mla::kUnsplitAttr);
  // Parts of a batch are prompts and others already.
  bool isWhole = isa<BlockArgument>(op.getBatch());
  // Few queries fill no tile.
  mla::BatchType batch = op.getBatch().getType();
  bool canBeLong = !batch.hasStaticQueryLen() || batch.getQueryLen() > findLongestPiece(step, op);
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  auto fits = [](RankedTensorType rows) { // the widest product
    return rows.getDimSize(2) <= 4 * kValueColumns;
  };
  bool isAligned = query.getDimSize(2) % (kRowAlignment / 2) == 0 || haveAlignedRows(op.getQuery());
  return isPiecewise && isWhole && canBeLong && isAligned &&
         query.getElementType().getIntOrFloatBitWidth() == 16 &&
         output.getElementType() == query.getElementType() && fits(query) && fits(output);
}

/// Whether a request of one query takes no longer as a prompt, as memory is the bound of both: each
/// key is read once. It needs no launch of its own then, and fills what prompts leave.
static bool canTakeAll(StepLowering &step, mla::GroupedAttentionOp op) {
  return !copiesKeys(step, op) && getRun(step, op) == static_cast<int64_t>(op.getGroup());
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
    rule.takesAll &= canTakeAll(step, grouped);
    return WalkResult::advance();
  });
  return walk.wasInterrupted() ? std::nullopt : std::optional(rule);
}

/// Some query is long. Of copies, where there are any: they fit, and of a window's keys few are
/// seen, but all of a prompt's are copied.
static Value emitPays(StepLowering &step, mla::GroupedAttentionOp op, const PromptRule &rule) {
  OpBuilder &b = step.plan();
  Location loc = op.getLoc();
  auto isAbove = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x, y);
  };
  if (!rule.copiesKeys)
    return isAbove(step.dim("max_query_len"), step.constant(rule.above));
  Value keys = step.dim("num_prompt_keys"), fit = isAbove(keys, step.constant(0));
  auto window = static_cast<int64_t>(op.getWindow());
  if (window == 0)
    return fit;
  Value saved = step.multiply(step.dim("num_prompt_tokens"), (kGain - 1) * window);
  Value copies = step.multiply(keys, llvm::divideCeil(kQueriesOfCopy, op.getGroup()));
  return arith::AndIOp::create(b, loc, fit, isAbove(saved, copies));
}

/// What tile.prompts cuts by, in the time of a block: products of two tiles' rows with so many
/// keys, at kReached of the tensor cores' rate (docs/lab/grouped.md).
static PromptCuts findCuts(StepLowering &step, mla::GroupedAttentionOp op) {
  constexpr double kReached = 0.75;
  const mlac::TargetDescription &machine = mlac::getScheduledMachine();
  auto query = cast<RankedTensorType>(op.getQuery().getType());
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  PromptCuts cuts;
  int64_t run = getRun(step, op);
  cuts.itemsPerToken = op.getHeads() / run;
  cuts.tokensPerItem = getTileRows(step) / run;
  cuts.keysPerBlock = getCutKeys(step);
  cuts.window = static_cast<int64_t>(op.getWindow());
  int64_t width = output.getDimSize(2), columns = query.getDimSize(2) + width;
  double flops = 2.0 * static_cast<double>(getTileRows(step) * cuts.keysPerBlock * columns);
  double cycles = flops / (kReached * machine.sm.tensorFlopsPerClock);
  double microseconds = cycles / (1000 * machine.sm.clockGhz);
  // Its queries, then its keys come from memory, and its rows leave.
  cuts.itemCost = 2 * machine.sm.loadLatencyCycles / cycles;
  cuts.mergeCost = 2 * machine.launchMicroseconds / microseconds;
  // Of 16 bits, written and read.
  double bytes = 2.0 * 2.0 * static_cast<double>(op.getHeads() * width);
  cuts.partialCost = bytes / (1000 * machine.readGbps) / microseconds;
  return cuts;
}

void mlac::mla_to_tile::launchPrompts(StepLowering &step, mla::GroupedAttentionOp op,
                                      const PromptRule &rule,
                                      const PagedKernel::Partials &partials) {
  step.requestPrompts(rule.takesAll ? 0 : rule.above, findCuts(step, op),
                      [&] { return emitPays(step, op, rule); });
  step.ifAbove(step.dim("num_prompts"), 0, [&] { PromptKernel(step, op, partials).launch(); });
}
