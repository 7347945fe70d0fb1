//===- SparseAttention.cpp - attention on the rows that a list names ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The selection is a token's, so a tile's rows are heads of one token; a split is an equal share
// of its list's blocks of keys:
//
//     grid    x: tiles of N heads, of each token   z: split
//     items   x: tiles of N heads   y: part of the (token, split) pairs
//             The program goes over its part of them, one after the other.
// A second scope is a second tile.attend, which goes on from the first one's results; a split then
// is an equal share of the blocks of both lists, one behind the other.
//
// Of a chunk of requests, tokens are counted from the chunk's first one, and there are as many
// as the step's metadata says. Tokens are not in y or z, which have no more than 65535 places. A
// row of a list is the key source of a tile.attend; where rows lie, in a pool or in a workspace, is
// only a view.
//
//===----------------------------------------------------------------------===//

#include "Attention/HeadsOutermost.h"
#include "Attention/OnlineSoftmax.h"
#include "Plan/Limits.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

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
  /// Heads of a token, and which split of its entries.
  struct Work {
    Value token, head, split; // the latter null: the only one
  };
  /// Entries of a list.
  struct Entries {
    Value first, last;
  };
  /// A list of rows, and the pool that they are of.
  struct Scope {
    std::optional<Pool> pool; // none: rows of `keys`
    unsigned poolArg = 0, countArg = 0, widthArg = 0;
    Operand rows;
    std::optional<Operand> lengths;
    std::optional<Operand> ends; // of parts of a list (StepLowering::listEnds)
  };
  /// Where rows lie, as views.
  struct Source {
    SmallVector<Value, 2> keys;
    Value scales; // null: they are no codes
  };

  unsigned addArg(Value value);
  void addPool(Scope &scope, Value cache);
  void addBeside();
  Operand addInput(Value tensor);
  std::optional<Operand> addOptional(Value tensor);
  Operand addResult(Value tensor);

  /// Whether a program takes several tokens, whose queries then are rows of one view, or of views
  /// of tokens that TMA maps together.
  bool isInItems() const {
    auto isMapped = [&](const TensorRef &ref) {
      return hasHeadsOutermost(ref) || ref.strides[0] == heads * ref.strides[1];
    };
    return step.shapes.partitionsAttention && isMapped(qLat.ref) && (!qPe || isMapped(qPe->ref));
  }
  int64_t countTiles() const { return llvm::divideCeil(heads, tileRows); }
  Work placeProgram(KernelBuilder &b);
  void writeProgram(KernelBuilder &b, ValueRange args);
  /// The tokens of the chunk, of those of all requests.
  RowRange loadTokens(KernelBuilder &b, ValueRange args) {
    return loadRange(b, args[chunkStartsArg], args[chunkArg]);
  }
  Work placeItem(KernelBuilder &b, ValueRange args, Value item);
  Value countEntries(KernelBuilder &b, ValueRange args, const Scope &scope, const Work &work);
  SmallVector<Entries, 2> findEntries(KernelBuilder &b, ValueRange args, const Work &work);
  Value loadQueries(KernelBuilder &b, ValueRange args, const Operand &query, const Work &work,
                    int64_t width);
  Source viewSource(KernelBuilder &b, ValueRange args, const Scope &scope);
  tile::AttendOp emitAttend(KernelBuilder &b, ValueRange args, const Scope &scope,
                            const Entries &entries, ValueRange queries, const Work &work,
                            tile::AttendOp before);
  tile::AttendOp emitScopes(KernelBuilder &b, ValueRange args, const Work &work);
  Value resultRow(KernelBuilder &b, ValueRange args, const Work &work);
  void write(KernelBuilder &b, ValueRange args, const Work &work);
  void writeItems(KernelBuilder &b, ValueRange args);
  void launchItems(StringRef name, Value tokens);

  StepLowering &step;
  mla::SparseAttentionOp op;
  int64_t heads, tileRows, tileKeys, latentWidth, ropeWidth;
  SmallVector<Value> planArgs;
  SmallVector<Scope, 2> scopes;
  Operand qLat, output;
  std::optional<Operand> qPe, sink, latent, kPe, lse, maxLogits;
  unsigned tokensArg, splitsArg = 0;         // the latter with splits
  unsigned itemsArg = 0, partsArg = 0;       // of items
  unsigned chunkArg = 0, chunkStartsArg = 0; // of a chunk
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

static bool hasCodes(mla::SparseAttentionOp op) {
  return op.getCache() && op.getCache().getType().isQuantized();
}

SparseKernel::SparseKernel(StepLowering &step, mla::SparseAttentionOp op)
    : step(step), op(op), heads(op.getHeads()), tileRows(step.shapes.rowsFor(heads)),
      tileKeys(step.shapes.keys),
      latentWidth(step.shapes.latentWidth(op.getLatentWidth(), heads, hasCodes(op))),
      ropeWidth(paddedWidth(op.getRopeWidth())) {
  Scope &scope = scopes.emplace_back();
  if (op.getCache()) {
    addPool(scope, op.getCache());
  } else {
    latent = addInput(op.getLatent());
    kPe = addOptional(op.getKPe());
    scope.countArg = addArg(step.value(latent->ref.sizes[0]));
  }
  // Not a constant of the kernel: a loop over one block would be unrolled around its products,
  // whose accumulators ptxas then orders by itself.
  scope.widthArg = addArg(step.constant(op.getWidth()));
  qLat = addInput(op.getQLat());
  qPe = addOptional(op.getQPe());
  scope.rows = addInput(op.getRows());
  scope.lengths = addOptional(op.getLengths());
  if (std::optional<TensorRef> ends = step.listEnds(op.getRows()); ends && !scope.lengths)
    scope.ends = Operand{*ends, addArg(ends->buffer)};
  sink = addOptional(op.getSink());
  tokensArg = addArg(step.value(qLat.ref.sizes[0]));
  if (op.getNumSplits())
    splitsArg = addArg(step.scalar(op.getNumSplits()));
  if (op.getChunk()) {
    chunkArg = addArg(step.scalar(op.getChunk()));
    chunkStartsArg = addArg(step.metadata(op.getPrefills(), "gather_query_loc"));
  }
  output = addResult(op.getOutput());
  if (op.getLse())
    lse = addResult(op.getLse());
  if (op.getMaxLogits())
    maxLogits = addResult(op.getMaxLogits());
  if (op.getBesideCache())
    addBeside();
}

void SparseKernel::addPool(Scope &scope, Value cache) {
  scope.pool = Pool::ofPlan(step, cache);
  scope.poolArg = planArgs.size();
  llvm::append_range(planArgs, scope.pool->args());
  scope.countArg = addArg(scope.pool->countNumbers(step, cache));
}

void SparseKernel::addBeside() {
  Scope &scope = scopes.emplace_back();
  addPool(scope, op.getBesideCache());
  scope.rows = addInput(op.getBesideRows());
  scope.widthArg = addArg(step.constant(scope.rows.ref.size(1)));
  scope.lengths = addInput(op.getBesideLengths());
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

SparseKernel::Work SparseKernel::placeProgram(KernelBuilder &b) {
  Value tile = b.programId(0), tiles = b.index(countTiles());
  Work work;
  work.token = arith::DivUIOp::create(b, tile, tiles);
  work.head = b.mul(arith::RemUIOp::create(b, tile, tiles), tileRows);
  if (op.getNumSplits())
    work.split = b.programId(2);
  return work;
}

SparseKernel::Work SparseKernel::placeItem(KernelBuilder &b, ValueRange args, Value item) {
  Work work;
  work.token = item;
  work.head = b.mul(b.programId(0), tileRows);
  if (!op.getNumSplits())
    return work;
  work.token = b.divNarrow(item, args[splitsArg]);
  work.split = b.sub(item, b.mul(work.token, args[splitsArg]));
  return work;
}

/// Of the token's list, as far as it may have valid ones.
Value SparseKernel::countEntries(KernelBuilder &b, ValueRange args, const Scope &scope,
                                 const Work &work) {
  Value width = args[scope.widthArg];
  const std::optional<Operand> &lengths = scope.lengths, &ends = scope.ends;
  if (ends) {
    int64_t parts = ends->ref.size(1);
    Value first = b.mul(work.token, parts), end = b.loadScalar(args[ends->arg], first);
    for (int64_t part = 1; part < parts; ++part)
      end = b.maximum(end, b.loadScalar(args[ends->arg], b.add(first, part)));
    return end;
  }
  if (!lengths)
    return width;
  Value place = b.mul(work.token, lengths->ref.strides[0]);
  Value given = b.loadScalar(args[lengths->arg], b.add(place, lengths->ref.offset));
  return b.minimum(b.maximum(given, b.index(0)), width);
}

/// Of each scope what the split covers.
SmallVector<SparseKernel::Entries, 2> SparseKernel::findEntries(KernelBuilder &b, ValueRange args,
                                                                const Work &work) {
  SmallVector<Entries, 2> entries;
  for (const Scope &scope : scopes)
    entries.push_back({b.index(0), countEntries(b, args, scope, work)});
  if (!work.split)
    return entries;
  SmallVector<Value, 2> begins; // in blocks; what is behind the last is their number
  Value blocks;
  for (const Entries &ofScope : entries) {
    begins.push_back(blocks);
    Value own = b.ceilDiv(ofScope.last, b.index(tileKeys));
    blocks = blocks ? b.add(blocks, own) : own;
  }
  Value perSplit = b.mul(b.ceilDivNarrow(blocks, args[splitsArg]), tileKeys);
  Value share = b.mul(work.split, perSplit);
  for (auto [ofScope, begin] : llvm::zip_equal(entries, begins)) {
    Value first = begin ? b.sub(share, b.mul(begin, tileKeys)) : share;
    Value end = b.add(first, perSplit);
    ofScope.first = begin ? b.maximum(first, b.index(0)) : first;
    ofScope.last = b.minimum(ofScope.last, begin ? b.maximum(end, b.index(0)) : end);
  }
  return entries;
}

/// Rows behind the token's last head are zeros, or of the next token, which are computed like
/// others and dropped by the stores.
Value SparseKernel::loadQueries(KernelBuilder &b, ValueRange args, const Operand &query,
                                const Work &work, int64_t width) {
  const TensorRef &ref = query.ref;
  if (hasHeadsOutermost(ref))
    return b.load(viewHeadsOfToken(b, args[query.arg], ref, args[tokensArg], work.token),
                  {work.head, b.index(0)}, {tileRows, width});
  SmallVector<OpFoldResult> strides = {b.fixed(ref.strides[1]), b.fixed(1)};
  if (isInItems()) {
    Value view =
        b.view(args[query.arg], b.fixed(ref.offset),
               {OpFoldResult(b.mul(args[tokensArg], heads)), b.fixed(ref.size(2))}, strides);
    return b.load(view, {b.add(b.mul(work.token, heads), work.head), b.index(0)},
                  {tileRows, width});
  }
  Value view = b.view(args[query.arg], b.extent(b.mul(work.token, ref.strides[0]), ref.offset),
                      {b.fixed(heads), b.fixed(ref.size(2))}, strides);
  return b.load(view, {work.head, b.index(0)}, {tileRows, width});
}

SparseKernel::Source SparseKernel::viewSource(KernelBuilder &b, ValueRange args,
                                              const Scope &scope) {
  Source source;
  Value count = args[scope.countArg];
  if (scope.pool) {
    Pool inner = scope.pool->inKernel(args.drop_front(scope.poolArg));
    source.keys.push_back(inner.viewNumbered(b, Part::Latent, count));
    if (qPe || op.areValuesRows()) // of its own query, or the second part of whole rows
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

tile::AttendOp SparseKernel::emitAttend(KernelBuilder &b, ValueRange args, const Scope &scope,
                                        const Entries &entries, ValueRange queries,
                                        const Work &work, tile::AttendOp before) {
  Source source = viewSource(b, args, scope);
  const TensorRef &rows = scope.rows.ref;
  Value list =
      b.view(args[scope.rows.arg], b.extent(b.mul(work.token, rows.strides[0]), rows.offset),
             {OpFoldResult(entries.last)}, {b.fixed(1)});
  SmallVector<Value, 3> start;
  if (before)
    start = {before.getReference(), before.getSum(), before.getOutput()};
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto result = RankedTensorType::get({tileRows, latentWidth}, b.getF32Type());
  return tile::AttendOp::create(
      b, row, row, result, queries, source.keys, /*table=*/Value(), list, /*values=*/Value(),
      /*value_table=*/Value(), source.scales, entries.first, entries.last, entries.last,
      /*seen=*/Value(), /*behind=*/Value(), /*diagonal=*/Value(), /*marks=*/Value(), start,
      tileKeys, /*unit=*/1, op.getScale(), /*lag=*/APFloat(0.0), /*exact=*/maxLogits.has_value(),
      /*softcap=*/APFloat(0.0));
}

tile::AttendOp SparseKernel::emitScopes(KernelBuilder &b, ValueRange args, const Work &work) {
  SmallVector<Entries, 2> entries = findEntries(b, args, work);
  SmallVector<Value> queries = {loadQueries(b, args, qLat, work, latentWidth)};
  if (qPe)
    queries.push_back(loadQueries(b, args, *qPe, work, ropeWidth));
  tile::AttendOp attend;
  for (auto [scope, ofScope] : llvm::zip_equal(scopes, entries))
    attend = emitAttend(b, args, scope, ofScope, queries, work, attend);
  return attend;
}

/// The first row of the token's results, of those of all splits.
Value SparseKernel::resultRow(KernelBuilder &b, ValueRange args, const Work &work) {
  Value ofToken = b.mul(work.token, heads);
  if (!work.split)
    return ofToken;
  return b.add(b.mul(work.split, b.mul(args[tokensArg], heads)), ofToken);
}

void SparseKernel::write(KernelBuilder &b, ValueRange args, const Work &work) {
  tile::AttendOp attend = emitScopes(b, args, work);
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

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void SparseKernel::writeProgram(KernelBuilder &b, ValueRange args) {
  Work work = placeProgram(b);
  if (!op.getChunk())
    return write(b, args, work);
  RowRange tokens = loadTokens(b, args);
  b.ifThen(b.isBelow(work.token, tokens.count), [&] {
    work.token = b.add(tokens.begin, work.token);
    write(b, args, work);
  });
}

/// The program's share of the items: every so many-th, since neighbours' lists are as long as each
/// other, those of a prompt's first tokens short.
void SparseKernel::writeItems(KernelBuilder &b, ValueRange args) {
  // Few rows may go to the side of a product that is not padded to 64.
  b.getInsertionBlock()->getParentOp()->setAttr(tile::kMaxRowsAttr, b.getI64IntegerAttr(heads));
  Value part = b.programId(1), parts = args[partsArg];
  RowRange tokens;
  if (op.getChunk())
    tokens = loadTokens(b, args);
  Value items = op.getChunk() ? tokens.count : args[itemsArg];
  Value behind = b.add(b.sub(items, part), b.sub(parts, b.index(1)));
  Value turns = b.divNarrow(behind, parts);
  b.loop(b.index(0), turns, b.index(1), {}, [&](Value turn, ValueRange) {
    // Wide sums would cost relay registers that it does not have.
    Value item = b.addNarrow(part, b.mulNarrow(turn, parts));
    if (op.getChunk())
      item = b.addNarrow(tokens.begin, item);
    write(b, args, placeItem(b, args, item));
    return SmallVector<Value>();
  });
}

/// As many programs as there are multiprocessors, those of a token's tiles beside each other.
void SparseKernel::launchItems(StringRef name, Value tokens) {
  Value items = tokens, one = step.constant(1);
  if (op.getNumSplits())
    items = arith::MulIOp::create(step.plan(), op.getLoc(), tokens, planArgs[splitsArg]);
  Value parts = arith::DivSIOp::create(step.plan(), op.getLoc(), step.dim("num_sms"),
                                       step.constant(countTiles()));
  parts = arith::MaxSIOp::create(step.plan(), op.getLoc(), parts, one);
  if (!op.getChunk()) // whose kernel counts its tokens itself
    itemsArg = addArg(items);
  partsArg = addArg(parts);
  step.launch(name, {step.constant(countTiles()), parts, one}, planArgs,
              [&](KernelBuilder &b, ValueRange args) { writeItems(b, args); });
}

void SparseKernel::launch() {
  Value tokens = planArgs[tokensArg], one = step.constant(1);
  StringRef name = op.getNumSplits() ? "sparse_attention_split" : "sparse_attention";
  if (op.getChunk()) {
    name = "sparse_attention_chunk";
    tokens = step.dim(op.getPrefills(), "gather_tokens");
    if (TensorRef onto = step.lookup(op.getOnto()); !onto.isSameMemory(output.ref))
      step.copy(onto, output.ref);
  }
  if (isInItems())
    return launchItems(name, tokens);
  step.launch(
      name,
      {step.multiply(tokens, countTiles()), one, op.getNumSplits() ? planArgs[splitsArg] : one},
      planArgs, [&](KernelBuilder &b, ValueRange args) { writeProgram(b, args); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::SparseAttentionOp op) {
  if (failed(checkLatents(step, op)))
    return failure();
  SparseKernel(step, op).launch();
  return success();
}
