//===- PagedAttention.cpp - attention on the cached latents ---*- C++ -*-===//
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
// One description, `attend`, goes over a run of key blocks of one request. Who
// says which run:
//
//     grid    x: tiles of query_len · N rows   y: request   z: split
//             A split is an equal share of the request's blocks; without splits
//             the only share is everything.
//     items   x: tiles of rows   y: part of the step's work
//             The program goes over the pieces that the runtime gave its part
//             (tile.work). A whole request gets its final result; pieces leave
//             partials, which a second kernel merges where there are any.
//
//===----------------------------------------------------------------------===//

#include "Attention/OnlineSoftmax.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

namespace {

class AbsorbedKernel {
public:
  AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op);
  void launchGrid();
  LogicalResult launchItems();

private:
  /// Rows of one request and a run of its key blocks.
  struct Work {
    Value firstToken, queryLen, seqLen;
    Value rows; // query_len · N
    Value row;  // first of the tile
    Value firstBlock, lastBlock;
    Value table;
  };
  struct Result {
    Value output, lse; // f32; no LSE unless asked for
  };
  /// A place of the kernel for results: rows of `ref`, and their LSEs.
  struct Target {
    Value outputBuffer, lseBuffer; // the latter may be null
    TensorRef output;
    int64_t lseOffset;
    Value firstRow; // of the request's, in the buffers
  };

  // What both forms share.
  unsigned addArg(Value value);
  Result attend(KernelBuilder &b, ValueRange args, const Work &work, bool wantsLse);
  Value loadQueries(KernelBuilder &b, ValueRange args, Value buffer, const TensorRef &ref,
                    const Work &work, int64_t width);
  Value rowLimits(KernelBuilder &b, const Work &work);
  void store(KernelBuilder &b, const Work &work, const Target &target, const Result &result);
  Value rowTiles();

  // A program for each request and split.
  Work loadGridWork(KernelBuilder &b, ValueRange args);
  void splitBlocks(KernelBuilder &b, ValueRange args, Work &work);
  void writeGrid(KernelBuilder &b, ValueRange args, const Work &work);

  // A program for each part.
  enum ItemField { kRequest, kFirstBlock, kBlocks, kSeqLen, kFirstToken, kQueryLen, kPartial };
  Value loadField(KernelBuilder &b, ValueRange args, Value item, ItemField field);
  Value seenBlocks(KernelBuilder &b, const Work &work, Value blocks);
  Work loadItem(KernelBuilder &b, ValueRange args, Value item);
  void writeItem(KernelBuilder &b, ValueRange args, Value item);
  void storeItem(KernelBuilder &b, ValueRange args, Value item, const Result &result, bool isWhole);

  StepLowering &step;
  mla::AbsorbedAttentionOp op;
  Pool pool;
  TensorRef qLat, output;
  std::optional<TensorRef> qPe, lse;
  TensorRef partialOutput, partialLse; // of items
  SmallVector<Value> planArgs;
  /// Positions in `planArgs`, which start with the three of the pool.
  struct {
    unsigned blockTable, maxBlocks, tokens, qLat, output, qPe, lse;
    unsigned seqLens;                                          // both
    unsigned queryStarts, splits, firstBlock;                  // grid
    unsigned workStarts, workItems, partialOutput, partialLse; // items
  } arg{};
  int64_t heads, latentWidth, ropeWidth, tileRows, tileKeys;
  bool hasOneQuery, isOwn;
};

} // namespace

//===----------------------------------------------------------------------===//
// Both forms
//===----------------------------------------------------------------------===//

unsigned AbsorbedKernel::addArg(Value value) {
  planArgs.push_back(value);
  return planArgs.size() - 1;
}

AbsorbedKernel::AbsorbedKernel(StepLowering &step, mla::AbsorbedAttentionOp op)
    : step(step), op(op), pool(Pool::ofPlan(step, op.getCache())), qLat(step.lookup(op.getQLat())),
      output(step.allocate(op.getOutput())), heads(qLat.size(1)),
      latentWidth(step.shapes.accumulatorWidth(pool.type.getKvLoraRank())),
      ropeWidth(paddedWidth(pool.type.getQkRopeHeadDim())), tileKeys(step.shapes.keys),
      hasOneQuery(op.getBatch().getType().getQueryLen() == 1),
      isOwn(mla::SharePrefixOp::ofOwn(op.getBatch()) != nullptr) {
  tileRows = step.shapes.rowsFor(hasOneQuery ? heads : step.shapes.queryRows);
  planArgs = pool.args();
  arg.blockTable = addArg(step.poolMetadata(op.getCache(), op.getBatch(), "block_table"));
  arg.maxBlocks = addArg(step.poolDim(op.getCache(), "max_blocks_per_request"));
  arg.tokens = addArg(step.dim(op.getBatch(), "num_tokens"));
  arg.qLat = addArg(qLat.buffer);
  arg.output = addArg(output.buffer);
  if (op.getQPe()) {
    qPe = step.lookup(op.getQPe());
    arg.qPe = addArg(qPe->buffer);
  }
  if (op.getLse()) {
    lse = step.allocate(op.getLse());
    arg.lse = addArg(lse->buffer);
  }
}

Value AbsorbedKernel::rowTiles() {
  Value queries = hasOneQuery ? step.constant(1) : step.dim(op.getBatch(), "max_query_len");
  return step.ceilDiv(step.multiply(queries, heads), tileRows);
}

/// A tile of the rows of all tokens. It may hold rows of the next request, which
/// are computed like others and dropped by the stores.
Value AbsorbedKernel::loadQueries(KernelBuilder &b, ValueRange args, Value buffer,
                                  const TensorRef &ref, const Work &work, int64_t width) {
  int64_t columns = ref.size(ref.rank() - 1), stride = ref.strides[ref.rank() - 2];
  Value view = b.view(buffer, b.fixed(ref.offset),
                      {OpFoldResult(b.mul(args[arg.tokens], heads)), b.fixed(columns)},
                      {b.fixed(stride), b.fixed(1)});
  Value row = b.add(b.mul(work.firstToken, heads), work.row);
  return b.load(view, {row, b.index(0)}, {tileRows, width});
}

/// Per row, the number of keys it sees. Steps with one query per request take
/// the general form too, so that they share the kernel with the others.
Value AbsorbedKernel::rowLimits(KernelBuilder &b, const Work &work) {
  Value row = arith::AddIOp::create(b, b.iota(0, tileRows), b.splat(b.toI32(work.row), tileRows));
  Value query = arith::DivSIOp::create(b, row, b.constantI32(tileRows, heads));
  Value ofFirst = b.add(b.sub(work.seqLen, work.queryLen), 1);
  return arith::AddIOp::create(b, query, b.splat(b.toI32(ofFirst), tileRows));
}

AbsorbedKernel::Result AbsorbedKernel::attend(KernelBuilder &b, ValueRange args, const Work &work,
                                              bool wantsLse) {
  Pool inner = pool.inKernel(args);
  SmallVector<Value> queries = {loadQueries(b, args, args[arg.qLat], qLat, work, latentWidth)};
  if (qPe)
    queries.push_back(loadQueries(b, args, args[arg.qPe], *qPe, work, ropeWidth));
  SmallVector<Value> keys;
  for (cache::Part part : {cache::Part::Latent, cache::Part::Rope})
    if (keys.size() < queries.size())
      keys.push_back(inner.view(b, part, b.fixed(0), inner.width(part)));
  Value limits = rowLimits(b, work), scales = inner.viewScales(b);
  Type row = RankedTensorType::get({tileRows}, b.getF32Type());
  auto output = RankedTensorType::get({tileRows, latentWidth}, b.getF32Type());
  auto result = tile::AttendOp::create(
      b, row, row, output, queries, keys, work.table, /*values=*/Value(), scales, work.firstBlock,
      work.lastBlock, work.seqLen, limits, /*diagonal=*/Value(), /*start=*/ValueRange(), tileKeys,
      /*unit=*/tileKeys, op.getScale(), /*lag=*/APFloat(0.0));
  return {normaliseOutput(b, result), wantsLse ? attendedLse(b, result) : Value()};
}

/// Rows beyond the request's are dropped.
void AbsorbedKernel::store(KernelBuilder &b, const Work &work, const Target &target,
                           const Result &result) {
  const TensorRef &ref = target.output;
  int64_t width = ref.size(ref.rank() - 1), stride = ref.strides[ref.rank() - 2];
  Value view = b.view(target.outputBuffer, b.extent(b.mul(target.firstRow, stride), ref.offset),
                      {OpFoldResult(work.rows), b.fixed(width)}, {b.fixed(stride), b.fixed(1)});
  b.storeNarrow(result.output, view, {work.row, b.index(0)});
  if (!target.lseBuffer)
    return;
  Value lseView = b.view(target.lseBuffer, b.extent(target.firstRow, target.lseOffset),
                         {OpFoldResult(work.rows)}, {b.fixed(1)});
  b.store(result.lse, lseView, work.row);
}

//===----------------------------------------------------------------------===//
// A program for each request and split
//===----------------------------------------------------------------------===//

/// The split's blocks: `num_splits` equal ranges of the request's, or of those behind a
/// shared prefix.
void AbsorbedKernel::splitBlocks(KernelBuilder &b, ValueRange args, Work &work) {
  Value blocks = b.ceilDiv(work.seqLen, b.index(tileKeys));
  work.firstBlock = isOwn ? args[arg.firstBlock] : b.index(0);
  work.lastBlock = blocks;
  if (!op.getNumSplits())
    return;
  Value own = isOwn ? b.sub(blocks, work.firstBlock) : blocks;
  Value perSplit = b.ceilDivNarrow(own, args[arg.splits]);
  Value before = b.mul(b.programId(2), perSplit);
  work.firstBlock = isOwn ? b.add(work.firstBlock, before) : before;
  work.lastBlock = b.minimum(blocks, b.add(work.firstBlock, perSplit));
}

AbsorbedKernel::Work AbsorbedKernel::loadGridWork(KernelBuilder &b, ValueRange args) {
  Value request = b.programId(1);
  RowRange tokens = loadRange(b, args[arg.queryStarts], request);
  Work work;
  work.firstToken = tokens.begin;
  work.queryLen = tokens.count;
  work.rows = b.mul(tokens.count, heads);
  work.row = b.mul(b.programId(0), tileRows);
  work.seqLen = b.loadScalar(args[arg.seqLens], request);
  work.table = blockTableRow(b, args[arg.blockTable], request, args[arg.maxBlocks]);
  splitBlocks(b, args, work);
  return work;
}

void AbsorbedKernel::writeGrid(KernelBuilder &b, ValueRange args, const Work &work) {
  Result result = attend(b, args, work, lse.has_value());
  Value split = op.getNumSplits() ? b.programId(2) : b.index(0);
  Value rowsBefore = b.mul(split, b.mul(args[arg.tokens], heads)); // of earlier splits
  Value firstRow = b.add(rowsBefore, b.mul(work.firstToken, heads));
  store(b, work,
        {args[arg.output], lse ? args[arg.lse] : Value(), output, lse ? lse->offset : 0, firstRow},
        result);
}

void AbsorbedKernel::launchGrid() {
  arg.queryStarts = addArg(step.metadata(op.getBatch(), "query_start_loc"));
  arg.seqLens = addArg(step.metadata("seq_lens"));
  arg.splits = addArg(op.getNumSplits() ? step.scalar(op.getNumSplits()) : step.constant(1));
  if (isOwn)
    arg.firstBlock = addArg(step.firstKeyBlock(op.getBatch()));
  std::array<Value, 3> grid = {rowTiles(), step.dim(op.getBatch(), "num_requests"),
                               planArgs[arg.splits]};
  std::string name = isOwn ? "absorbed_attention_own" : "absorbed_attention";
  if (op.getNumSplits())
    name += "_split";
  step.launch(name, grid, planArgs, [&](KernelBuilder &b, ValueRange args) {
    Work work = loadGridWork(b, args);
    b.ifThen(b.isBelow(work.row, work.rows), [&] { writeGrid(b, args, work); });
  });
}

//===----------------------------------------------------------------------===//
// A program for each part
//===----------------------------------------------------------------------===//

/// Of a row of work_items (tile.work).
Value AbsorbedKernel::loadField(KernelBuilder &b, ValueRange args, Value item, ItemField field) {
  constexpr int64_t fields = 8;
  return b.loadScalar(args[arg.workItems], b.add(b.mul(item, fields), field));
}

/// Blocks of a piece up to the last that the tile's rows see, at least one: pieces may be
/// planned for a longer request than there is. The 64 rows of a tile are of at most as many
/// tokens, whose limits lie in two neighbouring blocks: only the last two need masks, and
/// nothing is multiplied in vain.
Value AbsorbedKernel::seenBlocks(KernelBuilder &b, const Work &work, Value blocks) {
  mla::BatchType batch = op.getBatch().getType();
  Value end = work.seqLen;
  // Few queries all end in the last two blocks of their request.
  if (!batch.hasStaticQueryLen() || batch.getQueryLen() > tileKeys) {
    Value endRow = b.minimum(b.add(work.row, tileRows), work.rows);
    end = b.sub(end, b.sub(work.queryLen, b.ceilDiv(endRow, b.index(heads))));
  }
  Value endBlock = b.ceilDiv(end, b.index(tileKeys));
  Value seen = b.minimum(blocks, b.sub(endBlock, work.firstBlock));
  return b.maximum(seen, b.index(1));
}

/// A tile beyond the request's rows goes over one block only; its results are
/// dropped.
AbsorbedKernel::Work AbsorbedKernel::loadItem(KernelBuilder &b, ValueRange args, Value item) {
  Work work;
  Value request = loadField(b, args, item, kRequest);
  work.firstBlock = loadField(b, args, item, kFirstBlock);
  Value blocks = loadField(b, args, item, kBlocks);
  work.seqLen = b.loadScalar(args[arg.seqLens], request);
  work.firstToken = loadField(b, args, item, kFirstToken);
  work.queryLen = loadField(b, args, item, kQueryLen);
  work.rows = b.mul(work.queryLen, heads);
  work.row = b.mul(b.programId(0), tileRows);
  Value covered = b.choose(b.isBelow(work.row, work.rows), seenBlocks(b, work, blocks), b.index(1));
  work.lastBlock = b.add(work.firstBlock, covered);
  work.table = blockTableRow(b, args[arg.blockTable], request, args[arg.maxBlocks]);
  return work;
}

/// Reads the item again, so that nothing of it needs registers during the loop
/// over keys, which uses them all.
void AbsorbedKernel::storeItem(KernelBuilder &b, ValueRange args, Value item, const Result &result,
                               bool isWhole) {
  Work work;
  work.rows = b.mul(loadField(b, args, item, kQueryLen), heads);
  work.row = b.mul(b.programId(0), tileRows);
  Value firstRow = b.mul(loadField(b, args, item, isWhole ? kFirstToken : kPartial), heads);
  Target whole{args[arg.output], lse ? args[arg.lse] : Value(), output, lse ? lse->offset : 0,
               firstRow};
  Target piece{args[arg.partialOutput], args[arg.partialLse], partialOutput, partialLse.offset,
               firstRow};
  store(b, work, isWhole ? whole : piece, result);
}

void AbsorbedKernel::writeItem(KernelBuilder &b, ValueRange args, Value item) {
  Work work = loadItem(b, args, item);
  Result result = attend(b, args, work, /*wantsLse=*/true);
  Value isWhole = b.isBelow(loadField(b, args, item, kPartial), b.index(0));
  b.ifThenElse(
      isWhole, [&] { storeItem(b, args, item, result, true); },
      [&] { storeItem(b, args, item, result, false); });
}

LogicalResult AbsorbedKernel::launchItems() {
  if (failed(step.requestWork(op, heads, tileRows)))
    return failure();
  Type f32 = Float32Type::get(op.getContext());
  int64_t width = output.size(output.rank() - 1);
  Builder builder(op.getContext());
  Value tokens = step.dim("partial_tokens");
  partialOutput = step.workspace({tokens, builder.getIndexAttr(heads), builder.getIndexAttr(width)},
                                 output.element());
  partialLse = step.workspace({tokens, builder.getIndexAttr(heads)}, f32);
  arg.seqLens = addArg(step.metadata(op.getBatch(), "seq_lens"));
  arg.workStarts = addArg(step.metadata("work_starts"));
  arg.workItems = addArg(step.metadata("work_items"));
  arg.partialOutput = addArg(partialOutput.buffer);
  arg.partialLse = addArg(partialLse.buffer);
  std::array<Value, 3> grid = {rowTiles(), step.dim("num_parts"), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    // Known few rows may go to the side of a product that is not padded to 64.
    if (mla::BatchType batch = op.getBatch().getType(); batch.hasStaticQueryLen())
      b.getInsertionBlock()->getParentOp()->setAttr(
          tile::kMaxRowsAttr, b.getI64IntegerAttr(batch.getQueryLen() * heads));
    Value part = b.programId(1);
    Value first = b.loadScalar(args[arg.workStarts], part);
    Value end = b.loadScalar(args[arg.workStarts], b.add(part, 1));
    b.loop(first, end, b.index(1), {}, [&](Value item, ValueRange) {
      writeItem(b, args, item);
      return SmallVector<Value>();
    });
  };
  step.launch("absorbed_attention", grid, planArgs, write, StepLowering::Overlap::Both);
  bool isLast = llvm::all_of(op->getUsers(), llvm::IsaPred<func::ReturnOp>);
  return emitMergePartials(step, {op.getBatch(), partialOutput, partialLse, output, lse, isLast},
                           op);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AbsorbedAttentionOp op) {
  int64_t width = op.getCache().getType().getKvLoraRank();
  if (width > step.shapes.maxAccumulatorColumns)
    return op.emitOpError("expected a kv_lora_rank of at most ")
           << step.shapes.maxAccumulatorColumns << " on this target, got " << width;
  TensorRef queries = step.lookup(op.getQLat());
  if (queries.strides[0] != queries.size(1) * queries.strides[1])
    return op.emitOpError("expected queries whose heads lie together in memory");
  AbsorbedKernel kernel(step, op);
  bool isGrid = op.getNumSplits() || op->hasAttr(mla::kUnsplitAttr);
  if (step.shapes.partitionsAttention && !isGrid)
    return kernel.launchItems();
  kernel.launchGrid();
  return success();
}
