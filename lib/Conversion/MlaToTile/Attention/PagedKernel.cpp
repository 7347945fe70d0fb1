//===- PagedKernel.cpp - attention of ragged queries over pages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/PagedKernel.h"

#include "Attention/HeadsOutermost.h"
#include "Attention/OnlineSoftmax.h"
#include "Plan/Lowerings.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include <tuple>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

//===----------------------------------------------------------------------===//
// Both forms
//===----------------------------------------------------------------------===//

PagedKernel::PagedKernel(StepLowering &step, Problem problem, Rows layout, int64_t tileRows)
    : step(step), problem(std::move(problem)), layout(layout), tileRows(tileRows),
      tileKeys(step.shapes.keys), hasOneQuery(this->problem.batch.getType().getQueryLen() == 1),
      isOwn(mla::SharePrefixOp::ofOwn(this->problem.batch) != nullptr) {}

LogicalResult PagedKernel::launch() {
  bool isGrid = problem.numSplits || problem.op->hasAttr(mla::kUnsplitAttr);
  if (step.shapes.partitionsAttention && !isGrid)
    return launchItems();
  launchGrid();
  return success();
}

int64_t PagedKernel::getSideRows() const {
  int64_t rows = tileRows / sides, most = problem.mostSideRows;
  if (hasFewRows() && !hasOneQuery)
    rows = std::min(rows, most);
  if (layout.areInGroups())
    return rows / layout.run * layout.run;
  // Programs of a grid have no sides.
  bool isDivided = sides > 1 || hasFewRows();
  if (!hasOneQuery || !isDivided || layout.run <= std::min(rows, most))
    return rows;
  // As many programs as before where that pads no less: fewer cut more requests. 64 requests of
  // 3000 tokens, 128 heads of 128 columns: a layer of 144 us in place of 139 (one H200).
  int64_t tiles = llvm::divideCeil(layout.run, sides * most);
  int64_t equal = llvm::alignTo(llvm::divideCeil(layout.run, sides * tiles), TileShapes::kRowGroup);
  bool padsLess = sides * tiles * equal < static_cast<int64_t>(llvm::alignTo(layout.run, tileRows));
  return padsLess || hasFewRows() ? equal : rows;
}

unsigned PagedKernel::addArg(Value value) {
  planArgs.push_back(value);
  return planArgs.size() - 1;
}

unsigned PagedKernel::addTable(Value cache) {
  unsigned pages = addArg(step.poolMetadata(cache, problem.batch, "block_table"));
  tables.push_back({pages, addArg(step.poolDim(cache, "max_blocks_per_request"))});
  return tables.size() - 1;
}

void PagedKernel::findTables(KernelBuilder &b, ValueRange args, Value request, Work &work) {
  for (Table table : tables)
    work.tables.push_back(blockTableRow(b, args[table.pages], request, args[table.maxBlocks]));
}

/// Of the requests that are in pieces.
Value PagedKernel::longestQuery() {
  return problem.longestQuery ? problem.longestQuery : step.dim(problem.batch, "max_query_len");
}

/// Tiles of each run of heads.
Value PagedKernel::rowTiles() {
  Value queries = hasOneQuery ? step.constant(1) : longestQuery();
  Value tiles = step.ceilDiv(step.multiply(queries, layout.run), getUsedRows());
  return step.multiply(tiles, layout.countRuns());
}

/// The runs of a tile of queries follow each other: they read the same pages.
void PagedKernel::placeTile(KernelBuilder &b, Work &work) {
  Value tile = b.programId(0);
  if (int64_t runs = layout.countRuns(); runs != 1) {
    work.run = arith::RemUIOp::create(b, tile, b.index(runs));
    tile = arith::DivUIOp::create(b, tile, b.index(runs));
  }
  int64_t queries = getSideRows() / layout.run;
  auto place = [&](Value first, int64_t perTile, int64_t perSide) {
    Value all = b.mul(first, perTile);
    return std::pair(all, work.side ? b.add(all, b.mul(work.side, perSide)) : all);
  };
  if (!layout.areInGroups()) {
    std::tie(work.row, work.ownRow) = place(tile, getUsedRows(), getSideRows());
    return;
  }
  auto [first, own] = place(tile, sides * queries, queries);
  work.query = own;
  work.row = b.mul(first, layout.run);
  work.ownRow = b.mul(own, layout.run);
}

Value PagedKernel::viewGroups(KernelBuilder &b, Value buffer, OpFoldResult offset,
                              OpFoldResult queries, int64_t stride, std::optional<int64_t> width) {
  SmallVector<OpFoldResult> sizes = {queries, b.fixed(layout.run)},
                            strides = {b.fixed(layout.heads * stride), b.fixed(stride)};
  if (width) {
    sizes.push_back(b.fixed(*width));
    strides.push_back(b.fixed(1));
  }
  return b.view(buffer, offset, sizes, strides);
}

/// Heads of a token are as far from each other as all tokens' rows are long. A tile of one token's
/// heads is rows of a view of that token, others are rows in groups.
Value PagedKernel::loadOutermostHeads(KernelBuilder &b, ValueRange args, Value buffer,
                                      const TensorRef &ref, const Work &work, int64_t width) {
  int64_t columns = ref.size(2), heads = layout.heads;
  Value tokens = args[arg.tokens];
  if (!hasOneQuery && heads % tileRows != 0) {
    Value view = b.view(buffer, b.fixed(ref.offset),
                        {OpFoldResult(tokens), b.fixed(heads), b.fixed(columns)},
                        {b.fixed(columns), getHeadStride(b, ref, tokens), b.fixed(1)});
    Value row = b.add(b.mul(work.firstToken, heads), work.ownRow);
    return b.load(view, {row, b.index(0)}, {tileRows, width});
  }
  Value token = work.firstToken, head = work.ownRow;
  if (!hasOneQuery) { // tiles beyond the request's rows stay within the tensor
    token = b.add(token, arith::DivUIOp::create(b, head, b.index(heads)));
    token = b.minimum(token, b.sub(tokens, b.index(1)));
    head = arith::RemUIOp::create(b, head, b.index(heads));
  }
  return b.load(viewHeadsOfToken(b, buffer, ref, tokens, token), {head, b.index(0)},
                {tileRows, width});
}

/// A tile of the rows of all tokens. It may hold rows of the next request or run, which
/// are computed like others and dropped by the stores.
Value PagedKernel::loadQueries(KernelBuilder &b, ValueRange args, Value buffer,
                               const TensorRef &ref, const Work &work, int64_t width) {
  if (hasHeadsOutermost(ref))
    return loadOutermostHeads(b, args, buffer, ref, work, width);
  int64_t columns = ref.size(ref.rank() - 1), stride = ref.strides[ref.rank() - 2];
  if (layout.areInGroups()) {
    Value start = work.run ? b.mul(work.run, layout.run * stride) : b.index(0);
    Value view =
        viewGroups(b, buffer, b.extent(start, ref.offset), args[arg.tokens], stride, columns);
    Value row = b.add(b.mul(work.firstToken, layout.run), work.ownRow);
    return b.load(view, {row, b.index(0)}, {tileRows, width});
  }
  // TMA's maps are of whole rows: the head is a column where its tile has no columns behind it.
  if (layout.stride == layout.heads && stride == columns && width == columns) {
    Value view = b.view(buffer, b.fixed(ref.offset),
                        {OpFoldResult(args[arg.tokens]), b.fixed(layout.heads * columns)},
                        {b.fixed(layout.heads * stride), b.fixed(1)});
    Value column = work.run ? b.mul(work.run, columns) : b.index(0);
    return b.load(view, {b.add(work.firstToken, work.ownRow), column}, {tileRows, width});
  }
  // Else it is the only one of a group, whose boxes end with its columns.
  if (layout.stride != 1) {
    Value view =
        b.view(buffer, b.extent(b.mul(work.run, stride), ref.offset),
               {OpFoldResult(args[arg.tokens]), b.fixed(1), b.fixed(columns)},
               {b.fixed(layout.stride * stride), b.fixed(layout.stride * stride), b.fixed(1)});
    return b.load(view, {b.add(work.firstToken, work.ownRow), b.index(0)}, {tileRows, width});
  }
  Value view = b.view(buffer, b.fixed(ref.offset),
                      {OpFoldResult(b.mul(args[arg.tokens], layout.heads)), b.fixed(columns)},
                      {b.fixed(stride), b.fixed(1)});
  Value row = b.mul(work.firstToken, layout.heads);
  if (work.run)
    row = b.add(row, firstHead(b, work));
  return b.load(view, {b.add(row, work.ownRow), b.index(0)}, {tileRows, width});
}

/// Steps with one query per request take the general form too, so that they share the kernel
/// with the others.
Value PagedKernel::rowLimits(KernelBuilder &b, const Work &work) {
  Value row =
      arith::AddIOp::create(b, b.iota(0, tileRows), b.splat(b.toI32(work.ownRow), tileRows));
  Value query = arith::DivSIOp::create(b, row, b.constantI32(tileRows, layout.run));
  Value ofFirst = b.add(b.sub(work.seqLen, work.queryLen), 1);
  return arith::AddIOp::create(b, query, b.splat(b.toI32(ofFirst), tileRows));
}

Value PagedKernel::rowStarts(KernelBuilder &b, Value limits) {
  if (problem.window == 0)
    return {};
  return arith::SubIOp::create(b, limits, b.constantI32(tileRows, problem.window));
}

Value PagedKernel::limitsInPiece(KernelBuilder &b, Value limits, const Work &work) {
  if (!work.end)
    return limits;
  return arith::MinSIOp::create(b, limits, b.splat(b.toI32(work.end), tileRows));
}

Value PagedKernel::isFirstRange(KernelBuilder &b, ValueRange args, const Work &work) {
  Value place = work.piece ? work.piece : problem.numSplits ? b.programId(2) : b.index(0);
  return b.isBelow(place, b.index(1));
}

/// The first key that a row sees; those of the rows behind it come later.
Value PagedKernel::firstKey(KernelBuilder &b, const Work &work, Value row) {
  if (problem.window == 0)
    return b.index(0);
  Value query = b.createOrFold<arith::DivUIOp>(row, b.index(layout.run));
  Value limit = b.add(b.add(b.sub(work.seqLen, work.queryLen), 1), query);
  return b.maximum(b.sub(limit, b.index(problem.window)), b.index(0));
}

/// Behind the last key that the tile's last row sees.
Value PagedKernel::endKey(KernelBuilder &b, const Work &work) {
  Value endRow = b.minimum(b.add(work.row, getUsedRows()), work.rows);
  Value unseen = b.sub(work.queryLen, b.ceilDiv(endRow, b.index(layout.run)));
  return b.sub(work.seqLen, unseen);
}

PagedKernel::Result PagedKernel::attend(KernelBuilder &b, ValueRange args, const Work &work,
                                        bool wantsLse) {
  tile::AttendOp result = emitAttend(b, args, work);
  return {normaliseOutput(b, result), wantsLse ? attendedLse(b, result) : Value()};
}

/// Rows beyond the request's are dropped.
void PagedKernel::store(KernelBuilder &b, const Work &work, const Target &target,
                        const Result &result) {
  const TensorRef &ref = target.output;
  int64_t width = ref.size(ref.rank() - 1), stride = ref.strides[ref.rank() - 2];
  OpFoldResult offset = b.extent(b.mul(target.firstRow, stride), ref.offset),
               lseOffset = b.extent(target.firstRow, target.lseOffset);
  Value view, lseView;
  if (layout.areInGroups()) {
    // Rows behind the tile's last whole query are the next tile's.
    Value queries = b.minimum(work.queryLen, b.add(work.query, getSideRows() / layout.run));
    view = viewGroups(b, target.outputBuffer, offset, queries, stride, width);
    if (target.lseBuffer)
      lseView = viewGroups(b, target.lseBuffer, lseOffset, queries, /*stride=*/1);
  } else {
    Value rows = work.rows;
    if (sides > 1 || hasFewRows())
      rows = b.minimum(rows, b.add(work.ownRow, getSideRows()));
    view = b.view(target.outputBuffer, offset, {OpFoldResult(rows), b.fixed(width)},
                  {b.fixed(layout.stride * stride), b.fixed(1)});
    if (target.lseBuffer)
      lseView = b.view(target.lseBuffer, lseOffset, {OpFoldResult(rows)}, {b.fixed(layout.stride)});
  }
  b.storeNarrow(result.output, view, {work.ownRow, b.index(0)});
  if (lseView)
    b.store(result.lse, lseView, work.ownRow);
}

//===----------------------------------------------------------------------===//
// A program for each request and split
//===----------------------------------------------------------------------===//

/// The split's blocks: `num_splits` equal ranges of the request's, or of those behind a
/// shared prefix.
void PagedKernel::splitBlocks(KernelBuilder &b, ValueRange args, Work &work) {
  Value blocks = b.ceilDiv(work.seqLen, b.index(tileKeys));
  work.first = isOwn ? args[arg.firstBlock] : b.index(0);
  work.last = blocks;
  if (!problem.numSplits)
    return;
  Value own = isOwn ? b.sub(blocks, work.first) : blocks;
  Value perSplit = b.ceilDivNarrow(own, args[arg.splits]);
  Value before = b.mul(b.programId(2), perSplit);
  work.first = isOwn ? b.add(work.first, before) : before;
  work.last = b.minimum(blocks, b.add(work.first, perSplit));
}

/// The split's keys: an equal range, in whole blocks, of what the tile sees.
void PagedKernel::splitKeys(KernelBuilder &b, ValueRange args, Work &work) {
  work.first = firstKey(b, work, work.row);
  work.last = endKey(b, work);
  if (!problem.numSplits)
    return;
  Value blocks = b.ceilDiv(b.sub(work.last, work.first), b.index(tileKeys));
  Value perSplit = b.mul(b.ceilDivNarrow(blocks, args[arg.splits]), tileKeys);
  work.first = b.add(work.first, b.mul(b.programId(2), perSplit));
  work.last = b.minimum(work.last, b.add(work.first, perSplit));
}

PagedKernel::Work PagedKernel::loadGridWork(KernelBuilder &b, ValueRange args) {
  Work work;
  Value request = b.programId(1);
  RowRange tokens = loadRange(b, args[arg.queryStarts], request);
  work.firstToken = tokens.begin;
  work.queryLen = tokens.count;
  work.rows = b.mul(tokens.count, layout.run);
  placeTile(b, work);
  work.seqLen = b.loadScalar(args[arg.seqLens], request);
  findTables(b, args, request, work);
  isInKeys ? splitKeys(b, args, work) : splitBlocks(b, args, work);
  return work;
}

void PagedKernel::writeGrid(KernelBuilder &b, ValueRange args, const Work &work) {
  Result result = attend(b, args, work, lse.has_value());
  Value split = problem.numSplits ? b.programId(2) : b.index(0);
  Value rowsBefore = b.mul(split, b.mul(args[arg.tokens], layout.heads)); // of earlier splits
  Value firstRow = b.add(rowsBefore, b.mul(work.firstToken, layout.heads));
  if (work.run)
    firstRow = b.add(firstRow, firstHead(b, work));
  store(b, work,
        {args[arg.output], lse ? args[arg.lse] : Value(), output, lse ? lse->offset : 0, firstRow},
        result);
}

void PagedKernel::launchGrid() {
  isInKeys = problem.countsKeys;
  arg.queryStarts = addArg(step.metadata(problem.batch, "query_start_loc"));
  arg.seqLens = addArg(step.metadata("seq_lens"));
  arg.splits = addArg(problem.numSplits ? step.scalar(problem.numSplits) : step.constant(1));
  if (isOwn)
    arg.firstBlock = addArg(step.firstKeyBlock(problem.batch));
  std::array<Value, 3> grid = {rowTiles(), step.dim(problem.batch, "num_requests"),
                               planArgs[arg.splits]};
  std::string name = problem.name + (isOwn ? "_own" : "");
  if (problem.numSplits)
    name += "_split";
  step.launch(name, grid, planArgs, [&](KernelBuilder &b, ValueRange args) {
    if (hasFewRows())
      setMostRows(b, getMostRows());
    Work work = loadGridWork(b, args);
    b.ifThen(b.isBelow(work.row, work.rows), [&] { writeGrid(b, args, work); });
  });
}

//===----------------------------------------------------------------------===//
// A program for each part
//===----------------------------------------------------------------------===//

/// Of a row of work_items (tile.work).
Value PagedKernel::loadField(KernelBuilder &b, ValueRange args, Value item, ItemField field) {
  constexpr int64_t fields = 8;
  return b.loadScalar(args[arg.workItems], b.add(b.mul(item, fields), field));
}

/// Blocks of a piece up to the last that the tile's rows see, at least one: pieces may be
/// planned for a longer request than there is. The 64 rows of a tile are of at most as many
/// tokens, whose limits lie in two neighbouring blocks: only the last two need masks, and
/// nothing is multiplied in vain.
Value PagedKernel::seenBlocks(KernelBuilder &b, const Work &work, Value blocks) {
  mla::BatchType batch = problem.batch.getType();
  Value end = work.seqLen;
  // Few queries all end in the last two blocks of their request.
  if (!batch.hasStaticQueryLen() || batch.getQueryLen() > tileKeys) {
    Value endRow = b.minimum(b.add(work.row, getUsedRows()), work.rows);
    end = b.sub(end, b.sub(work.queryLen, b.ceilDiv(endRow, b.index(layout.run))));
  }
  Value endBlock = b.ceilDiv(end, b.index(tileKeys));
  Value seen = b.minimum(blocks, b.sub(endBlock, work.first));
  return b.maximum(seen, b.index(1));
}

/// A tile beyond the request's rows goes over one block only; its results are
/// dropped.
PagedKernel::Work PagedKernel::loadItem(KernelBuilder &b, ValueRange args, Value item, Value side) {
  Work work;
  work.side = side;
  Value request = loadField(b, args, item, kRequest);
  work.first = work.piece = loadField(b, args, item, kFirstBlock);
  Value blocks = loadField(b, args, item, kBlocks);
  work.seqLen = b.loadScalar(args[arg.seqLens], request);
  work.firstToken = loadField(b, args, item, kFirstToken);
  work.queryLen = loadField(b, args, item, kQueryLen);
  work.rows = b.mul(work.queryLen, layout.run);
  placeTile(b, work);
  if (isInKeys) {
    rangeInWindow(b, blocks, work);
  } else {
    Value covered =
        b.choose(b.isBelow(work.row, work.rows), seenBlocks(b, work, blocks), b.index(1));
    work.last = b.add(work.first, covered);
  }
  findTables(b, args, request, work);
  return work;
}

/// The piece's blocks are counted from the first key of the request's first row; of them the
/// tile sees what its own rows do, which may be nothing.
void PagedKernel::rangeInWindow(KernelBuilder &b, Value blocks, Work &work) {
  Value begin = b.add(firstKey(b, work, b.index(0)), b.mul(work.first, tileKeys));
  work.first = b.maximum(begin, firstKey(b, work, work.row));
  work.last = work.end = b.minimum(b.add(begin, b.mul(blocks, tileKeys)), endKey(b, work));
}

/// Reads the item again, so that nothing of it needs registers during the loop
/// over keys, which uses them all.
void PagedKernel::storeItem(KernelBuilder &b, ValueRange args, Value item, Value side,
                            const Result &result, bool isWhole) {
  Work work;
  work.side = side;
  work.queryLen = loadField(b, args, item, kQueryLen);
  work.rows = b.mul(work.queryLen, layout.run);
  placeTile(b, work);
  Value firstRow = b.mul(loadField(b, args, item, isWhole ? kFirstToken : kPartial), layout.heads);
  if (work.run)
    firstRow = b.add(firstRow, firstHead(b, work));
  Target whole{args[arg.output], lse ? args[arg.lse] : Value(), output, lse ? lse->offset : 0,
               firstRow};
  Target piece{args[arg.partialOutput], args[arg.partialLse], partials->output,
               partials->lse.offset, firstRow};
  store(b, work, isWhole ? whole : piece, result);
}

void PagedKernel::writeItem(KernelBuilder &b, ValueRange args, Value item, Value side) {
  Work work = loadItem(b, args, item, side);
  Result result = attend(b, args, work, /*wantsLse=*/true);
  Value isWhole = b.isBelow(loadField(b, args, item, kPartial), b.index(0));
  b.ifThenElse(
      isWhole, [&] { storeItem(b, args, item, side, result, true); },
      [&] { storeItem(b, args, item, side, result, false); });
}

/// Of a request. Runs that are cut into tiles anyway have no more than a tile's.
std::optional<int64_t> PagedKernel::getMostRows() const {
  mla::BatchType batch = problem.batch.getType();
  std::optional<int64_t> most;
  if (batch.hasStaticQueryLen())
    most = batch.getQueryLen() * layout.run;
  if (problem.hasOwnValues || hasFewRows()) {
    int64_t rows = hasFewRows() ? getUsedRows() : std::max(tileRows, getUsedRows());
    most = std::min(most.value_or(rows), rows);
  }
  return most;
}

void PagedKernel::setMostRows(KernelBuilder &b, std::optional<int64_t> rows) {
  knownRows = rows;
  if (rows)
    b.getInsertionBlock()->getParentOp()->setAttr(tile::kMaxRowsAttr, b.getI64IntegerAttr(*rows));
}

const PagedKernel::Partials &PagedKernel::getPartials() {
  if (partials)
    return *partials;
  Builder builder(problem.op->getContext());
  Value tokens = step.dim("partial_tokens");
  OpFoldResult heads = builder.getIndexAttr(layout.heads);
  OpFoldResult width = builder.getIndexAttr(output.size(output.rank() - 1));
  partials = {step.workspace({tokens, heads, width}, output.element()),
              step.workspace({tokens, heads}, builder.getF32Type())};
  return *partials;
}

LogicalResult PagedKernel::launchItems() {
  isInKeys = problem.window != 0;
  sides = problem.canHaveSides ? kSides : 1;
  if (failed(step.requestWork(problem.op, layout.heads, getUsedRows(), layout.countRuns(),
                              problem.window)))
    return failure();
  const auto &[partialOutput, partialLse] = getPartials();
  arg.seqLens = addArg(step.metadata(problem.batch, "seq_lens"));
  arg.workStarts = addArg(step.metadata("work_starts"));
  arg.workItems = addArg(step.metadata("work_items"));
  arg.partialOutput = addArg(partialOutput.buffer);
  arg.partialLse = addArg(partialLse.buffer);
  // A batch-invariant step has one kernel whatever its sizes are.
  bool isKnown = problem.batch.getType().hasStaticQueryLen() || step.costs.fixedBlocks != 0;
  if (isKnown) {
    std::optional<int64_t> most = getMostRows();
    launchParts(most, sides > 1 && most.value_or(tileRows) > tileRows / sides);
  } else {
    launchVersions(sides > 1 ? ArrayRef<int64_t>(tileRows / sides) : problem.fewRows);
  }
  bool isLast = llvm::all_of(problem.op->getUsers(), llvm::IsaPred<func::ReturnOp>);
  return emitMergePartials(step, {problem.batch, partialOutput, partialLse, output, lse, isLast},
                           problem.op);
}

/// By the rows of the request that has most.
void PagedKernel::launchVersions(ArrayRef<int64_t> fewRows) {
  if (fewRows.empty() || fewRows.front() >= getUsedRows())
    return launchParts(getMostRows(), sides > 1);
  int64_t few = fewRows.front();
  if (layout.run > few)
    return launchVersions(fewRows.drop_front());
  step.versionByRows(
      step.multiply(longestQuery(), layout.run), few, [&] { launchParts(few, /*hasSides=*/false); },
      [&] { launchVersions(fewRows.drop_front()); });
}

/// `mostRows`: of a request; known few rows may go to the side of a product that is not padded to
/// 64. Without sides there is the first only.
void PagedKernel::launchParts(std::optional<int64_t> mostRows, bool hasSides) {
  std::array<Value, 3> grid = {rowTiles(), step.dim("num_parts"), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    setMostRows(b, mostRows);
    Value part = b.programId(1);
    Value first = b.loadScalar(args[arg.workStarts], part);
    Value end = b.loadScalar(args[arg.workStarts], b.add(part, 1));
    b.loop(first, end, b.index(1), {}, [&](Value item, ValueRange) {
      if (!hasSides) {
        writeItem(b, args, item, Value());
        return SmallVector<Value>();
      }
      b.loop(b.index(0), b.index(sides), b.index(1), {}, [&](Value side, ValueRange) {
        writeItem(b, args, item, side);
        return SmallVector<Value>();
      });
      b.getInsertionBlock()->back().setAttr(tile::kSideBySideAttr, b.getUnitAttr());
      return SmallVector<Value>();
    });
  };
  step.launch(problem.name, grid, planArgs, write, StepLowering::Overlap::Both);
}
