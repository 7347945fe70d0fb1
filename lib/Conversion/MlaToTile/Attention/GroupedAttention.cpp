//===- GroupedAttention.cpp - groups of heads over cached keys and values ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys and values of a KV head are columns of rows of all heads: a view with the row's stride
// and the head's offset. Nothing behind this conversion knows of groups.
//
// A tile's rows are the g heads of a query where requests have one, or of several queries, so that
// keys are read once for all of them. A group of more heads than a tile has rows is cut into runs.
//
//===----------------------------------------------------------------------===//

#include "Attention/GroupedPrompts.h"
#include "Attention/HeadRows.h"
#include "Attention/PagedKernel.h"
#include "Plan/Limits.h"
#include "Plan/Lowerings.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

static int64_t countPanelColumns(int64_t columns) { return llvm::alignTo(columns, kValueColumns); }

namespace {
class GroupedKernel : public PagedKernel {
public:
  /// `hasPrompts`: requests of many queries are not its.
  GroupedKernel(StepLowering &step, mla::GroupedAttentionOp op, bool hasPrompts);

private:
  struct Source : HeadRows {
    unsigned table;
  };
  int64_t getOutputWidth() const {
    return problem.canHaveSides || isTurned ? countPanelColumns(values.columns)
                                            : step.shapes.accumulatorWidth(values.columns);
  }
  static Rows chooseRows(StepLowering &step, mla::GroupedAttentionOp op, int64_t tileRows);
  Source addSource(TypedValue<mla::CacheType> cache, Part part);
  SmallVector<Value> startWithSink(KernelBuilder &b, ValueRange args, const Work &work);
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Work &work) override;

  mla::GroupedAttentionOp op;
  TensorRef query;
  Source keys, values;
  unsigned queryArg = 0, sinkArg = 0;
  bool isTurned; // codes of whole panels become operands
};
} // namespace

/// Values of whole panels, which the swapped side of products takes, as they are stored. Columns
/// that fill no panel are zeros behind a head's.
static bool canHaveSides(StepLowering &step, mla::GroupedAttentionOp op) {
  auto output = cast<RankedTensorType>(op.getOutput().getType());
  int64_t columns = output.getShape().back();
  return step.shapes.partitionsAttention && !op.getValueCache().getType().isQuantized() &&
         output.getElementType().getIntOrFloatBitWidth() == 16 &&
         (columns % kValueColumns == 0 || columns <= step.shapes.narrowColumns);
}

/// Whether consumers turn codes of whole panels into operands in registers. A head's last panel may
/// be part of one, which ends where copies do.
static bool turnsCodes(StepLowering &step, mla::GroupedAttentionOp op) {
  auto hasPanels = [](Value rows) {
    int64_t columns = cast<RankedTensorType>(rows.getType()).getDimSize(2);
    return columns % kValueColumns == 0 ||
           (columns > kValueColumns && columns % kRowAlignment == 0);
  };
  return step.shapes.partitionsAttention && step.machine.tuning.streamTurnRegisters != 0 &&
         op.getValueCache().getType().isQuantized() && hasPanels(op.getQuery()) &&
         hasPanels(op.getOutput());
}

/// Of an output of consumers that turn codes.
static int64_t countTurnedColumns(mla::GroupedAttentionOp op) {
  return countPanelColumns(cast<RankedTensorType>(op.getOutput().getType()).getShape().back());
}

/// Of a side, of a tile's as many as registers hold. Of a program that turns codes, where those are
/// fewer than a tile's, as many as one consumer holds, or two if how many there are is not known.
/// Else 0.
static int64_t countMostSideRows(StepLowering &step, mla::GroupedAttentionOp op) {
  int64_t columns = cast<RankedTensorType>(op.getOutput().getType()).getShape().back();
  if (canHaveSides(step, op)) {
    int64_t rows = step.machine.countSideRows(countPanelColumns(columns));
    return std::min(rows, step.shapes.queryRows);
  }
  if (!turnsCodes(step, op))
    return 0;
  bool carriesMore = op.getSink() || !op.getSoftcap().isZero();
  columns = countTurnedColumns(op);
  int64_t rows = step.machine.countCodedRows(columns, carriesMore);
  if (rows >= step.shapes.queryRows)
    return 0;
  bool isKnown = op.getBatch().getType().hasStaticQueryLen();
  return isKnown ? rows : step.machine.countTurnRows(columns);
}

/// Up to which two consumers take turns, and of those few that are of two queries at least. 64
/// requests of 4096 tokens over codes, 64/8 heads of 128 columns: 4 queries take 337 us with one
/// consumer of 64 rows, 210 with two of 48 (one H200).
static SmallVector<int64_t, 3> countFewRows(StepLowering &step, mla::GroupedAttentionOp op) {
  if (!turnsCodes(step, op))
    return {};
  int64_t most = step.machine.countTurnRows(countTurnedColumns(op));
  SmallVector<int64_t, 3> rows;
  for (int64_t few = 2 * TileShapes::kRowGroup; few < most; few *= 2)
    if (few >= 2 * static_cast<int64_t>(op.getGroup()))
      rows.push_back(few);
  rows.push_back(most);
  return rows;
}

PagedKernel::Rows GroupedKernel::chooseRows(StepLowering &step, mla::GroupedAttentionOp op,
                                            int64_t tileRows) {
  int64_t heads = op.getHeads(), group = op.getGroup();
  bool hasOneQuery = op.getBatch().getType().getQueryLen() == 1;
  // Sinks are those of heads, so that a tile of several queries has to know where queries begin.
  if (hasOneQuery || (group == heads && !op.getSink()))
    return {.heads = heads, .run = group, .stride = 1};
  int64_t most = canHaveSides(step, op) ? tileRows / kSides : countMostSideRows(step, op);
  int64_t run = std::min(group, most ? most : tileRows);
  while (group % run != 0)
    --run;
  return {.heads = heads, .run = run, .stride = run == 1 ? heads : 0};
}

static int64_t chooseTileRows(StepLowering &step, mla::GroupedAttentionOp op) {
  bool hasOneQuery = op.getBatch().getType().getQueryLen() == 1;
  return step.shapes.rowsFor(hasOneQuery ? op.getGroup() : step.shapes.queryRows);
}

GroupedKernel::GroupedKernel(StepLowering &step, mla::GroupedAttentionOp op, bool hasPrompts)
    : PagedKernel(step,
                  {.op = op,
                   .batch = op.getBatch(),
                   .numSplits = op.getNumSplits(),
                   .name = "grouped_attention",
                   .window = static_cast<int64_t>(op.getWindow()),
                   .longestQuery = hasPrompts ? step.dim("max_piece_query_len") : Value(),
                   .countsKeys = true,
                   .hasOwnValues = true,
                   .canHaveSides = canHaveSides(step, op),
                   .mostSideRows = countMostSideRows(step, op),
                   .fewRows = countFewRows(step, op)},
                  chooseRows(step, op, chooseTileRows(step, op)), chooseTileRows(step, op)),
      op(op), query(step.lookup(op.getQuery())), keys(addSource(op.getKeyCache(), Part::Key)),
      isTurned(turnsCodes(step, op)) {
  bool isOnePool = step.cache(op.getKeyCache()) == step.cache(op.getValueCache());
  values = isOnePool ? keys : addSource(op.getValueCache(), Part::Value);
  output = step.allocate(op.getOutput());
  values.columns = output.size(output.rank() - 1);
  arg.tokens = addArg(step.dim(op.getBatch(), "num_tokens"));
  queryArg = addArg(query.buffer);
  if (op.getSink())
    sinkArg = addArg(step.lookup(op.getSink()).buffer);
  arg.output = addArg(output.buffer);
  if (op.getLse()) {
    lse = step.allocate(op.getLse());
    arg.lse = addArg(lse->buffer);
  }
}

GroupedKernel::Source GroupedKernel::addSource(TypedValue<mla::CacheType> cache, Part part) {
  HeadRows rows = HeadRows::add(step, op, cache, part, planArgs);
  return {rows, addTable(cache)};
}

/// The request's first range has seen it already.
SmallVector<Value> GroupedKernel::startWithSink(KernelBuilder &b, ValueRange args,
                                                const Work &work) {
  if (!op.getSink())
    return {};
  TensorRef ref = step.lookup(op.getSink());
  Value first = work.run ? firstHead(b, work) : b.index(0);
  // Of the heads for each query: a tile of several begins with the first head of one.
  SmallVector<OpFoldResult> sizes = {b.fixed(layout.run)}, strides = {b.fixed(ref.strides[0])};
  if (!hasOneQuery) {
    sizes.insert(sizes.begin(), b.fixed(llvm::divideCeil(tileRows, layout.run)));
    strides.insert(strides.begin(), b.fixed(0));
  }
  Value view =
      b.view(args[sinkArg], b.extent(b.mul(first, ref.strides[0]), ref.offset), sizes, strides);
  Value sink = b.load(view, hasOneQuery ? work.ownRow : b.index(0), tileRows);
  Type f32 = b.getF32Type();
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getFloatAttr(f32, value));
  };
  Value isFirst = b.choose(isFirstRange(b, args, work), constant(1), constant(0));
  return startFromSink(b, sink, b.equals(b.splat(isFirst, tileRows), 1), getOutputWidth());
}

tile::AttendOp GroupedKernel::emitAttend(KernelBuilder &b, ValueRange args, const Work &work) {
  int64_t width = isTurned ? countPanelColumns(keys.columns) : paddedWidth(keys.columns);
  Value queries = loadQueries(b, args, args[queryArg], query, work, width);
  Value head = work.run; // of keys
  if (int64_t runs = op.getGroup() / layout.run; runs != 1)
    head = arith::DivUIOp::create(b, head, b.index(runs));
  Value keyView = keys.view(b, args, Part::Key, head);
  Value valueView = values.view(b, args, Part::Value, head);
  Value limits = rowLimits(b, work), starts = rowStarts(b, limits);
  limits = limitsInPiece(b, limits, work);
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, getOutputWidth()}, b.getF32Type());
  return tile::AttendOp::create(
      b, row, row, result, queries, keyView, work.tables[keys.table],
      /*list=*/Value(), valueView, work.tables[values.table], keys.getScales(args), work.first,
      work.last, work.seqLen, limits, starts, /*diagonal=*/Value(), /*marks=*/Value(),
      startWithSink(b, args, work), tileKeys, getUnit(), op.getScale(), /*lag=*/APFloat(0.0),
      /*exact=*/false, op.getSoftcap());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::GroupedAttentionOp op) {
  if (failed(checkValues(step, op, op.getOutput())))
    return failure();
  TensorRef queries = step.lookup(op.getQuery());
  if (queries.strides[0] != queries.size(1) * queries.strides[1])
    return op.emitOpError("expected queries whose heads lie together in memory, got ")
           << queries.size(1) << " heads " << queries.strides[1] << " apart of tokens "
           << queries.strides[0] << " apart";
  std::optional<PromptRule> prompts = findPromptRule(step, op);
  GroupedKernel pieces(step, op, prompts.has_value());
  if (prompts)
    launchPrompts(step, op, *prompts, pieces.getPartials());
  return pieces.launch();
}
