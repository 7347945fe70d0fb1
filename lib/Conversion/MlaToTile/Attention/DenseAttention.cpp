//===- DenseAttention.cpp - attention per head over expanded keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One program computes a tile of queries of one head of one request:
//
//     grid  x: tiles of max_query_len   y: head   z: request, of each split
//
// The keys are the request's own new tokens, causal, or its rows of one chunk of
// context, all seen (mla.md section 9). A causal tile stops at its last row's
// diagonal. Scores are two products, nope and rope, so that no concatenation of
// keys exists anywhere.
//
// Where attention goes on from a partial, so does the softmax: its state starts from
// the partial's rows instead of from nothing (OnlineSoftmax.h). The result may lie in
// the partial's memory, as a program reads its rows before it writes them; then a
// request without rows in a chunk is left alone.
//
// Keys of a chunk may be split. The same kernel then writes partials, where the first split goes on
// from the partial, or without splits the results.
//
//===----------------------------------------------------------------------===//

#include "Attention/JoinPartials.h"
#include "Attention/Merge.h"
#include "Attention/OnlineSoftmax.h"
#include "Plan/Limits.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

/// Where results go: output [T, N, V] and lse, if there, or those of so many splits. T is
/// num_tokens of the whole step, whose requests may be a part.
struct Results {
  TensorRef output;
  std::optional<TensorRef> lse;
  bool isLseTokenMajor;
  Value splits;
};

class ExpandedKernel {
public:
  ExpandedKernel(StepLowering &step, mla::ExpandedAttentionOp op, const Results &results);
  void launch();

private:
  /// A tensor of the kernel and which argument holds its buffer.
  struct Operand {
    TensorRef ref;
    unsigned arg;
    bool isTokenMajor; // of an LSE
    int64_t width() const { return ref.size(ref.rank() - 1); }
    int64_t tileWidth = 0;
  };
  Operand addOperand(Value tensor);
  Operand addOperand(const TensorRef &ref, bool isTokenMajor = false);

  void countRows(ValueRange args);
  void write(KernelBuilder &b, ValueRange args);
  Value request(KernelBuilder &b, ValueRange args);
  Value split(KernelBuilder &b, ValueRange args);
  /// Rows of keys, of which the first is so many behind the request's first of the chunk.
  struct KeyRange : RowRange {
    Value place;
  };
  KeyRange keyRange(KernelBuilder &b, ValueRange args, RowRange queries);
  KeyRange ofSplit(KernelBuilder &b, ValueRange args, RowRange keys);
  void writeTile(KernelBuilder &b, ValueRange args, RowRange queries, KeyRange keys, Value row);
  Value view(KernelBuilder &b, ValueRange args, const Operand &operand, RowRange rows);
  Value lseView(KernelBuilder &b, ValueRange args, const Operand &operand, RowRange queries);
  Value marksView(KernelBuilder &b, ValueRange args, RowRange queries, Value row, Value firstKey);
  SmallVector<Value> loadStart(KernelBuilder &b, ValueRange args, RowRange queries, Value row);
  bool isInPlace();

  StepLowering &step;
  mla::ExpandedAttentionOp op;
  Value splits; // of the plan
  SmallVector<Value> planArgs;
  Operand qNope, kNope, value, output;
  std::optional<Operand> qPe, kPe, lse, partial, partialLse;
  std::optional<unsigned> marksArg; // marks, then the words of a row
  int64_t tileRows, tileKeys;
};

// Positions of the arguments that come before the tensors.
enum Arg : unsigned {
  kQueryStarts,
  kKeyStarts,
  kRequests,
  kTokens,
  kKeyTokens,
  kChunk,
  kSplits,
};

} // namespace

ExpandedKernel::ExpandedKernel(StepLowering &step, mla::ExpandedAttentionOp op,
                               const Results &results)
    : step(step), op(op), splits(results.splits), tileRows(step.shapes.queryRows),
      tileKeys(step.shapes.keys) {
  Value queryStarts = step.metadata(op.getBatch(), "query_start_loc");
  planArgs = {queryStarts,
              op.isCausal() ? queryStarts : step.metadata(op.getBatch(), "chunk_cu_seq_lens"),
              step.dim(op.getBatch(), "num_requests"),
              step.dim("num_tokens"),
              op.isCausal() ? step.dim("num_tokens") : step.dim(op.getBatch(), "chunk_tokens"),
              op.isCausal() ? step.constant(0) : step.scalar(op.getChunk())};
  if (op.getNumSplits())
    planArgs.push_back(splits);
  qNope = addOperand(op.getQNope());
  kNope = addOperand(op.getKNope());
  value = addOperand(op.getV());
  value.tileWidth = step.shapes.accumulatorWidth(value.width());
  output = addOperand(results.output);
  if (op.getQPe()) {
    qPe = addOperand(op.getQPe());
    kPe = addOperand(op.getKPe());
  }
  if (results.lse)
    lse = addOperand(*results.lse, results.isLseTokenMajor);
  if (op.getMarks()) {
    TensorRef marks = step.lookup(op.getMarks());
    marksArg = planArgs.size();
    planArgs.append({marks.buffer, step.value(marks.sizes[1])});
  }
  if (op.getPartial()) {
    partial = addOperand(op.getPartial());
    partial->tileWidth = value.tileWidth;
    partialLse = addOperand(op.getPartialLse());
  }
}

static bool isTokenMajor(Value lse) {
  auto type = cast<RankedTensorType>(lse.getType());
  auto encoding = dyn_cast_if_present<mla::LseAttr>(type.getEncoding());
  return encoding && encoding.getLayout() == mla::LseLayout::TokenMajor;
}

ExpandedKernel::Operand ExpandedKernel::addOperand(Value tensor) {
  return addOperand(step.lookup(tensor), isTokenMajor(tensor));
}

ExpandedKernel::Operand ExpandedKernel::addOperand(const TensorRef &ref, bool isTokenMajor) {
  Operand operand{ref, static_cast<unsigned>(planArgs.size()), isTokenMajor};
  planArgs.push_back(operand.ref.buffer);
  operand.tileWidth = paddedWidth(operand.width());
  return operand;
}

/// One head's rows of a request: [rows.count, width]. A tensor without heads
/// (the rope key) is shared by them.
Value ExpandedKernel::view(KernelBuilder &b, ValueRange args, const Operand &operand,
                           RowRange rows) {
  const TensorRef &ref = operand.ref;
  Value offset = b.mul(rows.begin, ref.strides[0]);
  if (ref.rank() == 3)
    offset = b.add(offset, b.mul(b.programId(1), ref.strides[1]));
  return b.view(args[operand.arg], b.extent(offset, ref.offset),
                {rows.count, b.fixed(operand.width())},
                {b.fixed(ref.strides[0]), b.fixed(ref.strides.back())});
}

Value ExpandedKernel::request(KernelBuilder &b, ValueRange args) {
  if (!op.getNumSplits())
    return b.programId(2);
  return arith::RemUIOp::create(b, b.programId(2), args[kRequests]);
}

Value ExpandedKernel::split(KernelBuilder &b, ValueRange args) {
  return arith::DivUIOp::create(b, b.programId(2), args[kRequests]);
}

/// Of equal runs of whole blocks the split's.
ExpandedKernel::KeyRange ExpandedKernel::ofSplit(KernelBuilder &b, ValueRange args, RowRange keys) {
  Value count = keys.count, granule = b.index(step.shapes.keys);
  Value blocks = arith::CeilDivUIOp::create(b, count, granule);
  Value ofEach = b.mul(arith::CeilDivUIOp::create(b, blocks, args[kSplits]), granule);
  Value first = b.minimum(b.mul(split(b, args), ofEach), count);
  return {{b.add(keys.begin, first), b.minimum(b.sub(count, first), ofEach)}, first};
}

ExpandedKernel::KeyRange ExpandedKernel::keyRange(KernelBuilder &b, ValueRange args,
                                                  RowRange queries) {
  if (op.isCausal())
    return {queries, b.index(0)};
  Value row = b.mul(args[kChunk], b.add(args[kRequests], 1)); // [num_chunks, B + 1]
  RowRange keys = loadRange(b, args[kKeyStarts], b.add(row, request(b, args)));
  return op.getNumSplits() ? ofSplit(b, args, keys) : KeyRange{keys, b.index(0)};
}

/// Whether results are written over the partial, where there are no splits.
bool ExpandedKernel::isInPlace() {
  return partial && op.getLse() && partial->ref.isSameMemory(step.lookup(op.getOutput())) &&
         partialLse->ref.isSameMemory(step.lookup(op.getLse()));
}

/// One head's LSEs of a request.
Value ExpandedKernel::lseView(KernelBuilder &b, ValueRange args, const Operand &operand,
                              RowRange queries) {
  const TensorRef &ref = operand.ref;
  Value tokenStride = b.index(operand.isTokenMajor ? ref.size(1) : 1);
  Value headStride = operand.isTokenMajor ? b.index(1) : args[kTokens];
  Value offset = b.add(b.mul(queries.begin, tokenStride), b.mul(b.programId(1), headStride));
  return b.view(args[operand.arg], b.extent(offset, ref.offset), {queries.count},
                {b.extent(tokenStride)});
}

/// Those of a tile's rows, from the word of a key that begins one; null without any.
Value ExpandedKernel::marksView(KernelBuilder &b, ValueRange args, RowRange queries, Value row,
                                Value firstKey) {
  if (!marksArg)
    return {};
  Value words = args[*marksArg + 1];
  Value first = b.createOrFold<arith::DivUIOp>(firstKey, b.index(tile::AttendOp::kWordKeys));
  Value offset = b.add(b.mul(b.add(queries.begin, row), words), first);
  return b.view(args[*marksArg], b.extent(offset),
                {b.extent(b.sub(queries.count, row)), b.extent(b.sub(words, first))},
                {b.extent(words), b.fixed(1)});
}

SmallVector<Value> ExpandedKernel::loadStart(KernelBuilder &b, ValueRange args, RowRange queries,
                                             Value row) {
  if (!partial)
    return {};
  Value isFirst;
  if (op.getNumSplits()) { // others find no rows there
    isFirst = b.isBelow(split(b, args), b.index(1));
    queries.count = b.choose(isFirst, queries.count, b.index(0));
  }
  Value output =
      b.load(view(b, args, *partial, queries), {row, b.index(0)}, {tileRows, partial->tileWidth});
  Value lse = b.load(lseView(b, args, *partialLse, queries), row, tileRows);
  if (isFirst) {
    Value place = b.constantI32({tileRows}, 0);
    lse = maskLse(b, lse, place, b.choose(isFirst, b.index(1), b.index(0)));
  }
  return startFromPartial(b, output, lse);
}

/// A key is there, and not after row i's token.
void ExpandedKernel::writeTile(KernelBuilder &b, ValueRange args, RowRange queries, KeyRange keys,
                               Value row) {
  Value zero = b.index(0);
  auto loadQuery = [&](const Operand &operand) {
    return b.load(view(b, args, operand, queries), {row, zero}, {tileRows, operand.tileWidth});
  };
  SmallVector<Value> queryTiles = {loadQuery(qNope)};
  if (qPe)
    queryTiles.push_back(loadQuery(*qPe));
  SmallVector<Value> keyViews = {view(b, args, kNope, keys)};
  Value values = view(b, args, value, keys);
  if (kPe)
    keyViews.push_back(view(b, args, *kPe, keys));
  Value end = op.isCausal() ? b.minimum(keys.count, b.add(row, tileRows)) : keys.count;
  SmallVector<Value> start = loadStart(b, args, queries, row);
  Type rowType = RankedTensorType::get({tileRows}, b.getF32Type());
  auto output = RankedTensorType::get({tileRows, value.tileWidth}, b.getF32Type());
  auto attend = tile::AttendOp::create(
      b, rowType, rowType, output, queryTiles, keyViews, /*table=*/Value(), /*list=*/Value(),
      values, /*value_table=*/Value(), /*scales=*/Value(), zero, end, keys.count, /*seen=*/Value(),
      /*behind=*/Value(), op.isCausal() ? row : Value(),
      marksView(b, args, queries, row, keys.place), start, tileKeys, /*unit=*/1, op.getScale(),
      /*lag=*/APFloat(0.0), /*exact=*/false, /*softcap=*/APFloat(0.0));
  RowRange results = queries;
  if (op.getNumSplits()) // rows of splits follow each other
    results.begin = b.add(queries.begin, b.mul(split(b, args), args[kTokens]));
  b.storeNarrow(normaliseOutput(b, attend), view(b, args, this->output, results), {row, zero});
  if (lse)
    b.store(attendedLse(b, attend), lseView(b, args, *lse, results), row);
}

/// What bounds the rows of all requests together: TMA copies from whole tensors.
void ExpandedKernel::countRows(ValueRange args) {
  auto count = [&](const Operand &operand, Arg rows) {
    auto argument = cast<BlockArgument>(args[operand.arg]);
    auto kernel = cast<tile::KernelOp>(argument.getOwner()->getParentOp());
    kernel.setArgAttr(operand.arg, tile::kRowCountAttr,
                      IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), rows));
  };
  count(qNope, kTokens);
  count(kNope, kKeyTokens);
  count(value, kKeyTokens);
  if (!qPe)
    return;
  count(*qPe, kTokens);
  count(*kPe, kKeyTokens);
}

void ExpandedKernel::write(KernelBuilder &b, ValueRange args) {
  countRows(args);
  RowRange queries = loadRange(b, args[kQueryStarts], request(b, args));
  Value row = b.mul(b.programId(0), tileRows), rows = queries.count;
  if (isInPlace()) {
    Value isWritten = b.isBelow(b.index(0), keyRange(b, args, queries).count);
    if (op.getNumSplits())
      isWritten = arith::OrIOp::create(b, isWritten, b.isBelow(b.index(1), args[kSplits]));
    rows = b.choose(isWritten, rows, b.index(0));
  }
  b.ifThen(b.isBelow(row, rows),
           [&] { writeTile(b, args, queries, keyRange(b, args, queries), row); });
}

void ExpandedKernel::launch() {
  Value requests = step.dim(op.getBatch(), "num_requests");
  if (op.getNumSplits())
    requests = arith::MulIOp::create(step.plan(), op.getLoc(), requests, splits);
  std::array<Value, 3> grid = {step.ceilDiv(step.dim(op.getBatch(), "max_query_len"), tileRows),
                               step.constant(qNope.ref.size(1)), requests};
  std::string name = op.isCausal() ? "expanded_attention_causal" : "expanded_attention_chunk";
  if (marksArg)
    name = op.isCausal() ? "expanded_attention_marked" : "expanded_attention_chunk_marked";
  if (partial)
    name += "_onto";
  step.launch(name, grid, planArgs, [&](KernelBuilder &b, ValueRange args) { write(b, args); });
}

/// [S, T, …] as tokens, whose first dimension is written split by split.
static TensorRef ofAllSplits(TensorRef ref) {
  ref.sizes.erase(ref.sizes.begin());
  ref.strides.erase(ref.strides.begin());
  return ref;
}

/// Partials of the splits, which are merged to `results`.
static void launchSplits(StepLowering &step, mla::ExpandedAttentionOp op, const Results &results) {
  // No workspace without splits.
  OpBuilder &b = step.plan();
  Value splits = step.scalar(op.getNumSplits()), zero = step.constant(0);
  Value many =
      arith::CmpIOp::create(b, op.getLoc(), arith::CmpIPredicate::sgt, splits, step.constant(1));
  OpFoldResult count = arith::SelectOp::create(b, op.getLoc(), many, splits, zero).getResult();
  SmallVector<OpFoldResult> rows = {count};
  llvm::append_range(rows, ArrayRef(results.output.sizes).take_front(2));
  SmallVector<OpFoldResult> sizes = rows;
  sizes.push_back(results.output.sizes.back());
  TensorRef output = step.workspace(sizes, b.getF32Type());
  TensorRef lse = step.workspace(rows, b.getF32Type());
  Results partials = {ofAllSplits(output), ofAllSplits(lse), /*isLseTokenMajor=*/true, splits};
  ExpandedKernel(step, op, partials).launch();
  mergeSplits(step, output, lse, results.output, results.lse);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ExpandedAttentionOp op) {
  if (failed(checkValues(step, op, op.getV())))
    return failure();
  Results results = {step.allocate(op.getOutput()), std::nullopt, false, step.constant(1)};
  if (Value lse = op.getLse()) {
    results.lse = step.allocate(lse);
    results.isLseTokenMajor = isTokenMajor(lse);
  }
  if (!op.getNumSplits()) {
    ExpandedKernel(step, op, results).launch();
    return success();
  }
  Value splits = step.scalar(op.getNumSplits());
  step.versionByRows(
      splits, 1, [&] { ExpandedKernel(step, op, results).launch(); },
      [&] { launchSplits(step, op, results); });
  return success();
}
