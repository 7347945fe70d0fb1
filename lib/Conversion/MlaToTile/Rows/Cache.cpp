//===- Cache.cpp - writing to and reading from the paged cache ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cache row is [latent | k_pe] in the pool's format (CacheRows). `append` scatters
// token rows by slot, `gather` collects the rows of one chunk of every request:
//
//     request r, chunk i       tokens [i·capacity, i·capacity + len) of r
//     chunk_cu_seq_lens[i]     0 | len_0 | len_0 + len_1 | …     result rows
//
// Of chunks of whole requests, each begins at token 0, and its length is all of it or nothing.
//
// Programs are tiles of rows times blocks of columns, so that few rows keep many
// processors busy.
//
//===----------------------------------------------------------------------===//

#include "Rows/CopyKeys.h"

#include "Rows/CacheRows.h"
#include "Rows/RowKernel.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

//===----------------------------------------------------------------------===//
// Blocks of columns
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a row and how their columns are cut: blocks of the latent, then of
/// the rope key.
struct RowBlocks {
  struct PartBlocks {
    Part part;
    TensorRef rows; // outside of the pool
    int64_t width, block, count;
  };
  SmallVector<PartBlocks, 2> parts;

  void add(const Pool &pool, Part part, TensorRef rows, int64_t limit) {
    int64_t width = pool.width(part), block = CacheRows::blockWidth(pool, part, limit);
    parts.push_back({part, std::move(rows), width, block, (width + block - 1) / block});
  }
  int64_t count() const {
    int64_t sum = 0;
    for (const PartBlocks &blocks : parts)
      sum += blocks.count;
    return sum;
  }
  /// body(part's index, column) for block `index` of all.
  void dispatch(KernelBuilder &b, Value index, llvm::function_ref<void(size_t, Value)> body) const {
    Value column = b.mul(index, parts[0].block);
    if (parts.size() == 1)
      return body(0, column);
    Value ropeColumn = b.mul(b.sub(index, b.index(parts[0].count)), parts[1].block);
    b.ifThenElse(
        b.isBelow(index, b.index(parts[0].count)), [&] { body(0, column); },
        [&] { body(1, ropeColumn); });
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Append
//===----------------------------------------------------------------------===//

/// Rows [T, heads, columns] as rows of all heads.
static FailureOr<TensorRef> joinHeads(StepLowering &step, mla::AppendOp op, Value rows) {
  TensorRef ref = step.lookup(rows);
  if (ref.sizes.size() == 2)
    return ref;
  int64_t columns = ref.size(2);
  if (ref.strides[1] != columns * ref.strides[2])
    return op.emitOpError("expected the heads of a row one behind the other, got ")
           << columns << " columns with a head's stride of " << ref.strides[1];
  ref.sizes = {ref.sizes[0], Builder(op.getContext()).getIndexAttr(ref.size(1) * columns)};
  ref.strides = {ref.strides[0], ref.strides[2]};
  return ref;
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::AppendOp op) {
  Pool pool = Pool::ofPlan(step, op.getCache());
  step.forwardCache(op.getResult(), op.getCache());
  RowBlocks blocks;
  for (auto [field, row] : llvm::zip_equal(pool.type.getFields(), op.getRows())) {
    FailureOr<TensorRef> rows = joinHeads(step, op, row);
    if (failed(rows))
      return failure();
    blocks.add(pool, field.part, *rows, step.shapes.columns);
  }
  Value tokens = step.value(blocks.parts[0].rows.sizes[0]);
  SmallVector<Value> args = pool.args();
  size_t first = args.size();
  args.append({step.poolMetadata(op.getCache(), op.getBatch(), "slot_mapping"), tokens});
  for (const RowBlocks::PartBlocks &part : blocks.parts)
    args.push_back(part.rows.buffer);
  int64_t tileRows = step.shapes.rows;
  RowGrid grid{tileRows, blocks.count()};
  auto write = [&](KernelBuilder &b, ValueRange args) {
    b.markRowKernel();
    Pool inner = pool.inKernel(args);
    CacheRows rows(b, inner);
    ValueRange own = args.drop_front(first);
    auto [row, block] = grid.place(b);
    Value slots = b.view(own[0], b.fixed(0), {OpFoldResult(own[1])}, {b.fixed(1)});
    blocks.dispatch(b, block, [&, row = row](size_t index, Value column) {
      const RowBlocks::PartBlocks &part = blocks.parts[index];
      auto load = [&](int64_t place, int64_t every) {
        const TensorRef &ref = part.rows;
        Value from = b.view(own[2 + index], b.fixed(ref.offset + place * ref.strides[1]),
                            {own[1], b.fixed(part.width / every)},
                            {b.fixed(ref.strides[0]), b.fixed(every * ref.strides[1])});
        Value at = b.createOrFold<arith::DivUIOp>(column, b.index(every));
        return b.load(from, {row, at}, {tileRows, part.block / every});
      };
      if (cache::isPacked(pool.type.getLayout()))
        rows.storePacked(part.part, {load(0, 2), load(1, 2)}, column, slots, row);
      else
        rows.store(part.part, load(0, 1), column, slots, row);
    });
  };
  step.launch("append", grid.size(step, tokens), args, write, step.chained());
  return success();
}

//===----------------------------------------------------------------------===//
// Rows of tokens
//===----------------------------------------------------------------------===//

/// One program for each row and block of columns: captured steps pay for it.
static void keepByRows(StepLowering &step, const TensorRef &from, const TensorRef &to,
                       int64_t block) {
  auto write = [&](KernelBuilder &b, ValueRange args) {
    RowKernel row(step, b, block);
    Value token = b.programId(0), first = b.mul(b.programId(1), block);
    Value target = b.loadScalar(args[2], token);
    Value tile = row.load(args[0], b.add(b.mul(token, from.strides[0]), first), from.offset);
    Value isKept = b.isBelow(b.index(-1), target);
    Value to0 = b.mul(b.maximum(target, b.index(0)), to.strides[0]);
    row.storeIf(isKept, tile, args[1], b.add(to0, first), to.offset);
  };
  step.launch("keep_rows",
              {step.value(from.sizes[0]), step.constant(from.size(1) / block), step.constant(1)},
              {from.buffer, to.buffer, step.metadata("output_rows")}, write, step.chained());
}

/// Like append: `output_rows` says where each row goes, nowhere if it is negative.
LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::KeepRowsOp op) {
  TensorRef from = step.lookup(op.getInput()), to = step.allocate(op.getResult());
  if (int64_t block = findRowBlock(step, from.size(1)))
    return keepByRows(step, from, to, block), success();
  int64_t width = from.size(1), block = blockWidth(width, step.shapes.columns);
  int64_t tileRows = step.shapes.rows;
  Value rows = step.value(from.sizes[0]);
  std::array<Value, 3> grid = {step.ceilDiv(rows, tileRows),
                               step.constant(llvm::divideCeil(width, block)), step.constant(1)};
  SmallVector<Value> args = {from.buffer, to.buffer, step.metadata("output_rows"), rows};
  step.launch("keep_rows", grid, args, [&](KernelBuilder &b, ValueRange args) {
    auto view = [&](Value buffer, const TensorRef &ref) {
      return b.view(buffer, b.fixed(ref.offset), {args[3], b.fixed(width)},
                    {b.fixed(ref.strides[0]), b.fixed(ref.strides[1])});
    };
    // A pool with one row in each page: its slots are rows.
    Value pages = b.view(args[1], b.fixed(to.offset), {args[3], b.fixed(1), b.fixed(width)},
                         {b.fixed(to.strides[0]), b.fixed(to.strides[0]), b.fixed(1)});
    Value slots = b.view(args[2], b.fixed(0), {OpFoldResult(args[3])}, {b.fixed(1)});
    Value row = b.mul(b.programId(0), tileRows), column = b.mul(b.programId(1), block);
    Value tile = b.load(view(args[0], from), {row, column}, {tileRows, block});
    tile::StoreSlotsOp::create(b, tile, pages, slots, row, column);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

namespace {

class GatherKernel {
public:
  /// Which rows: of chunk `chunk`, whose requests' rows begin at starts[chunk, request] of the
  /// result, tokens from chunk * `stride` on, of one request at most `longest`.
  struct Range {
    Value starts, chunk, stride, longest;
    Value requests = {}, count = {}; // which requests, and how many; null: all of the batch
  };
  GatherKernel(StepLowering &step, Value batch, Value cache, const Range &range)
      : step(step), batch(batch), cache(cache), range(range), pool(Pool::ofPlan(step, cache)),
        tileRows(step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows) {}

  void add(Part part, TensorRef rows) {
    blocks.add(pool, part, std::move(rows), step.shapes.columns);
  }
  void launch();

private:
  enum Argument { kBlockTable, kMaxBlocks, kStarts, kRequests, kChunk, kStride, kTensors };
  void write(KernelBuilder &b, ValueRange args);
  void copyBlock(KernelBuilder &b, ValueRange own, const Pool &inner, RowRange rows, size_t index,
                 Value column);
  unsigned getListArg() const { return kTensors + blocks.parts.size(); }

  StepLowering &step;
  Value batch, cache;
  Range range;
  Pool pool;
  RowBlocks blocks;
  int64_t tileRows;
};

} // namespace

/// Rows of this program: tokens from the chunk's start + its tile of the request.
void GatherKernel::copyBlock(KernelBuilder &b, ValueRange own, const Pool &inner, RowRange rows,
                             size_t index, Value column) {
  const RowBlocks::PartBlocks &part = blocks.parts[index];
  Value request = b.programId(1);
  if (range.requests)
    request = b.loadScalar(own[getListArg()], request);
  Value table = blockTableRow(b, own[kBlockTable], request, own[kMaxBlocks]);
  Value start = b.mul(own[kChunk], own[kStride]);
  Value first = b.mul(b.programId(0), tileRows);
  Value target =
      b.view(own[kTensors + index], b.extent(b.mul(rows.begin, part.width), part.rows.offset),
             {rows.count, b.fixed(part.width)}, {b.fixed(part.width), b.fixed(1)});
  Value tile = CacheRows(b, inner).load(part.part, tileRows, part.block, column, table,
                                        b.add(start, first), b.add(start, rows.count));
  b.store(tile, target, {first, column});
}

void GatherKernel::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Pool inner = pool.inKernel(args);
  ValueRange own = args.drop_front(pool.args().size());
  Value request = b.programId(1);
  Value position = b.add(b.mul(own[kChunk], b.add(own[kRequests], 1)), request);
  RowRange rows = loadRange(b, own[kStarts], position);
  Value first = b.mul(b.programId(0), tileRows);
  b.ifThen(b.isBelow(first, rows.count), [&] {
    blocks.dispatch(b, b.programId(2), [&](size_t index, Value column) {
      copyBlock(b, own, inner, rows, index, column);
    });
  });
}

void GatherKernel::launch() {
  Value requests = range.requests ? range.count : step.dim(batch, "num_requests");
  SmallVector<Value> args = pool.args();
  args.append({step.poolMetadata(cache, batch, "block_table"),
               step.poolDim(cache, "max_blocks_per_request"), range.starts, requests, range.chunk,
               range.stride});
  for (const RowBlocks::PartBlocks &part : blocks.parts)
    args.push_back(part.rows.buffer);
  if (range.requests)
    args.push_back(range.requests);
  std::array<Value, 3> grid = {step.ceilDiv(range.longest, tileRows), requests,
                               step.constant(blocks.count())};
  step.launch("gather", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

/// The longest request may have no part in it (a decode, one without new tokens): all rows are a
/// bound, too.
static Value longestOf(StepLowering &step, Value batch, StringRef allRows) {
  return arith::MinSIOp::create(step.plan(), batch.getLoc(), step.dim(batch, "max_seq_len"),
                                step.dim(allRows));
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::GatherOp op) {
  Value batch = op.getBatch();
  for (Value row : op.getRows())
    step.allocate(row);
  GatherKernel::Range range;
  if (op.getWhole()) {
    range = {step.metadata(batch, "gather_cu_seq_lens"), step.scalar(op.getChunk()),
             step.constant(0), longestOf(step, batch, "gather_rows")};
  } else {
    Value capacity = step.dim(batch, "chunk_capacity");
    range = {step.metadata(batch, "chunk_cu_seq_lens"), step.scalar(op.getChunk()), capacity,
             capacity};
  }
  GatherKernel kernel(step, batch, op.getCache(), range);
  for (auto [field, row] : llvm::zip_equal(op.getCache().getType().getFields(), op.getRows()))
    kernel.add(field.part, step.lookup(row));
  kernel.launch();
  return success();
}

void mlac::mla_to_tile::copyPromptKeys(StepLowering &step, Value batch, Value cache,
                                       ArrayRef<KeyCopy> copies) {
  GatherKernel kernel(step, batch, cache,
                      {.starts = step.metadata("prompt_key_loc"),
                       .chunk = step.constant(0),
                       .stride = step.constant(0),
                       .longest = longestOf(step, batch, "num_prompt_keys"),
                       .requests = step.metadata("prompt_requests"),
                       .count = step.dim("num_prompts")});
  for (const KeyCopy &copy : copies)
    kernel.add(copy.part, copy.rows);
  kernel.launch();
}
