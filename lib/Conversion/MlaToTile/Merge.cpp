//===- Merge.cpp - joining partials by their LSE ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of a tile are (token, head) pairs whose LSEs lie at one stride:
//
//     layout        rows of a program   programs (y)   LSE of row i
//     token_major   token · N + head    1              i
//     head_major    token               head n         n · T + i
//
// Rules of mla.md section 8: infinite LSEs are empty partials, whose output may
// be uninitialised and is therefore only ever used behind a select on the
// weight being 0; NaN propagates. Merging in place is fine: a program reads a
// block of its rows before it writes it, and LSEs last.
//
//===----------------------------------------------------------------------===//

#include "Lowerings.h"

#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Rows of (token, head)
//===----------------------------------------------------------------------===//

namespace {

/// How the (token, head) pairs of an LSE layout become rows of programs.
struct RowSpace {
  bool isTokenMajor;
  int64_t heads;
  Value tokens; // in the plan; in a kernel, see `inKernel`

  static RowSpace of(StepLowering &step, Value lse);
  RowSpace inKernel(Value tokensArgument) const { return {isTokenMajor, heads, tokensArgument}; }

  // In the plan.
  Value rows(StepLowering &step) const {
    return isTokenMajor ? step.multiply(tokens, heads) : tokens;
  }
  Value programs(StepLowering &step) const { return step.constant(isTokenMajor ? 1 : heads); }

  // In a kernel; the head of a head-major program is its program_id 1.
  Value rows(KernelBuilder &b) const { return isTokenMajor ? b.mul(tokens, heads) : tokens; }
  // Views of the first `count` rows, by default of all.
  Value lseView(KernelBuilder &b, Value buffer, int64_t offset, Value base, Value count = {}) const;
  Value outputView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                   Value count = {}) const;
};

} // namespace

static mla::LseAttr lseEncoding(Value lse) {
  return cast<mla::LseAttr>(cast<RankedTensorType>(lse.getType()).getEncoding());
}

RowSpace RowSpace::of(StepLowering &step, Value lse) {
  TensorRef ref = step.lookup(lse);
  bool isTokenMajor = lseEncoding(lse).getLayout() == mla::LseLayout::TokenMajor;
  int64_t last = ref.rank() - 1; // splits, where there are any, come first
  return {isTokenMajor, ref.size(isTokenMajor ? last : last - 1),
          step.value(ref.sizes[isTokenMajor ? last - 1 : last])};
}

Value RowSpace::lseView(KernelBuilder &b, Value buffer, int64_t offset, Value base,
                        Value count) const {
  if (!isTokenMajor)
    base = b.add(base, b.mul(b.programId(1), tokens));
  return b.view(buffer, b.extent(base, offset), {OpFoldResult(count ? count : rows(b))},
                {b.fixed(1)});
}

Value RowSpace::outputView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value base,
                           Value count) const {
  int64_t rank = ref.rank(), width = ref.size(rank - 1);
  if (!isTokenMajor)
    base = b.add(base, b.mul(b.programId(1), ref.strides[rank - 2]));
  return b.view(buffer, b.extent(base, ref.offset), {count ? count : rows(b), b.fixed(width)},
                {b.fixed(ref.strides[isTokenMajor ? rank - 2 : rank - 3]), b.fixed(1)});
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Any infinite LSE counts as -inf: an empty partial.
static Value unifyEmpty(KernelBuilder &b, Value lse) {
  return b.select(b.equals(b.absf(lse), kInfinity), b.like(lse, -kInfinity), lse);
}

static Value readLse(KernelBuilder &b, Value view, Value row, int64_t rows) {
  return unifyEmpty(b, b.load(view, row, rows));
}

/// -inf in place of LSEs whose `position` (i32) is not below `count`.
static Value maskLse(KernelBuilder &b, Value lse, Value position, Value count) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(lse.getType()).getShape();
  Value isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position, b.splat(b.toI32(count), shape));
  return b.select(isThere, lse, b.like(lse, -kInfinity));
}

/// The value that is subtracted from LSEs: their maximum, or 0 if all are empty,
/// so that no (-inf) - (-inf) occurs.
static Value referenceOf(KernelBuilder &b, Value maximum) {
  return b.select(b.equals(maximum, -kInfinity), b.like(maximum, 0), maximum);
}

/// reference + ln(sum), -inf where nothing was summed.
static Value joinedLse(KernelBuilder &b, Value reference, Value sum) {
  Value lse = b.addf(reference, b.log(sum));
  return b.select(b.equals(sum, 0), b.like(lse, -kInfinity), lse);
}

/// output · factor per row, 0 where the partial's `weight` is 0 whatever the
/// output holds.
static Value weigh(KernelBuilder &b, Value output, Value weight, Value factor) {
  int64_t columns = cast<RankedTensorType>(output.getType()).getDimSize(1);
  Value isEmpty = b.equals(b.broadcast(weight, columns), 0);
  return b.select(isEmpty, b.like(output, 0), b.mulf(output, b.broadcast(factor, columns)));
}

//===----------------------------------------------------------------------===//
// Merge of two
//===----------------------------------------------------------------------===//

namespace {

class MergeKernel {
public:
  MergeKernel(StepLowering &step, mla::MergeOp op)
      : step(step), space(RowSpace::of(step, op.getALse())), a(step.lookup(op.getA())),
        aLse(step.lookup(op.getALse())), other(step.lookup(op.getB())),
        otherLse(step.lookup(op.getBLse())), output(step.allocate(op.getOutput())) {
    if (op.getLse())
      lse = step.allocate(op.getLse());
    tileRows = step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows;
  }
  void launch();

private:
  void write(KernelBuilder &b, ValueRange args);
  void mergeOutputs(KernelBuilder &b, ValueRange args, const RowSpace &inner, Value row,
                    ArrayRef<Value> weights, ArrayRef<Value> factors);

  StepLowering &step;
  RowSpace space;
  TensorRef a, aLse, other, otherLse, output;
  std::optional<TensorRef> lse;
  int64_t tileRows;
};

} // namespace

void MergeKernel::mergeOutputs(KernelBuilder &b, ValueRange args, const RowSpace &inner, Value row,
                               ArrayRef<Value> weights, ArrayRef<Value> factors) {
  Value zero = b.index(0);
  Value from[] = {inner.outputView(b, args[1], a, zero), inner.outputView(b, args[3], other, zero)};
  Value to = inner.outputView(b, args[5], output, zero);
  int64_t width = output.size(output.rank() - 1);
  int64_t block = blockWidth(width, step.shapes.joinedColumns);
  b.forBlocks(width, block, {}, [&](Value column, ValueRange) {
    auto part = [&](unsigned i) {
      Value tile = b.loadWide(from[i], {row, column}, {tileRows, block});
      return weigh(b, tile, weights[i], factors[i]);
    };
    b.storeNarrow(b.addf(part(0), part(1)), to, {row, column});
    return SmallVector<Value>();
  });
}

void MergeKernel::write(KernelBuilder &b, ValueRange args) {
  RowSpace inner = space.inKernel(args[0]);
  Value zero = b.index(0), row = b.mul(b.programId(0), tileRows);
  Value lses[] = {readLse(b, inner.lseView(b, args[2], aLse.offset, zero), row, tileRows),
                  readLse(b, inner.lseView(b, args[4], otherLse.offset, zero), row, tileRows)};
  Value reference = referenceOf(b, b.maxf(lses[0], lses[1]));
  SmallVector<Value, 2> weights, factors;
  for (Value partial : lses)
    weights.push_back(b.exp(b.subf(partial, reference)));
  Value sum = b.addf(weights[0], weights[1]);
  for (Value weight : weights)
    factors.push_back(b.divf(weight, sum));
  mergeOutputs(b, args, inner, row, weights, factors);
  if (lse)
    b.store(joinedLse(b, reference, sum), inner.lseView(b, args[6], lse->offset, zero), row);
}

void MergeKernel::launch() {
  SmallVector<Value> args = {space.tokens, a.buffer,        aLse.buffer,
                             other.buffer, otherLse.buffer, output.buffer};
  if (lse)
    args.push_back(lse->buffer);
  std::array<Value, 3> grid = {step.ceilDiv(space.rows(step), tileRows), space.programs(step),
                               step.constant(1)};
  step.launch("merge", grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::MergeOp op) {
  MergeKernel(step, op).launch();
  return success();
}

//===----------------------------------------------------------------------===//
// Merge of many, in turns
//===----------------------------------------------------------------------===//

namespace {

/// What is known of a row when all of its partials are joined.
struct Joined {
  Value output;         // [rows, columns]
  Value reference, sum; // [rows], of the LSE
};

/// The partials of some rows: tiles of the `i`-th one, from views of its first
/// `rows` rows.
struct Partials {
  Value count, rows;
  llvm::function_ref<Value(Value i, Value rows)> lse;    // [rows]
  llvm::function_ref<Value(Value i, Value rows)> output; // [rows, columns], f32
};

/// Some partials, loaded together.
struct Turn {
  SmallVector<Value> lses, outputs;
};

} // namespace

/// Divides by the weights' sum, which is 0 where there was nothing: 0 / 1. A NaN
/// sum is not equal to 0 and propagates.
static Value normalise(KernelBuilder &b, Value output, Value sum) {
  Value divisor = b.select(b.equals(sum, 0), b.like(sum, 1), sum);
  auto type = cast<RankedTensorType>(output.getType());
  return b.divf(output, type.getRank() == 2 ? b.broadcast(divisor, type.getDimSize(1)) : divisor);
}

/// Partials `first` to `first + pieces`. Those behind the last are read from views
/// without rows, as 0, and are empty. No load waits for another one's result.
static Turn loadTurn(KernelBuilder &b, Value first, int64_t pieces, const Partials &partials) {
  SmallVector<Value> indices = {first}, rows = {partials.rows};
  for (int64_t k = 1; k < pieces; ++k) {
    indices.push_back(b.add(first, k));
    rows.push_back(b.choose(b.isBelow(indices.back(), partials.count), partials.rows, b.index(0)));
  }
  Turn turn;
  for (auto [index, count] : llvm::zip_equal(indices, rows))
    turn.lses.push_back(partials.lse(index, count));
  for (auto [index, count] : llvm::zip_equal(indices, rows))
    turn.outputs.push_back(partials.output(index, count));
  for (auto [k, lse] : llvm::enumerate(turn.lses)) {
    lse = unifyEmpty(b, lse);
    ArrayRef<int64_t> shape = cast<RankedTensorType>(lse.getType()).getShape();
    if (k > 0) // a turn has a first partial
      lse = maskLse(b, lse, b.constantI32(shape, static_cast<int32_t>(k)),
                    b.sub(partials.count, first));
  }
  return turn;
}

/// In ascending order, in one pass, `pieces` at a time, so that the loads of their
/// LSEs and outputs are under way together; what is there is rescaled when a larger
/// LSE comes.
static Joined joinInTurns(KernelBuilder &b, int64_t rows, int64_t columns, int64_t pieces,
                          const Partials &partials) {
  SmallVector<Value> start = {b.constant({rows}, -kInfinity), b.constant({rows}, 0),
                              b.constant({rows, columns}, 0)};
  auto join = [&](Value first, ValueRange state) -> SmallVector<Value> {
    Turn turn = loadTurn(b, first, pieces, partials);
    Value largest = turn.lses.front();
    for (Value lse : llvm::drop_begin(turn.lses))
      largest = b.maxf(largest, lse);
    Value maximum = b.maxf(state[0], largest);
    Value reference = referenceOf(b, maximum);
    Value before = b.exp(b.subf(state[0], reference));
    Value sum = b.mulf(state[1], before), output = weigh(b, state[2], before, before);
    for (auto [lse, tile] : llvm::zip_equal(turn.lses, turn.outputs)) {
      Value weight = b.exp(b.subf(lse, reference));
      sum = b.addf(sum, weight);
      output = b.addf(output, weigh(b, tile, weight, weight));
    }
    return {maximum, sum, output};
  };
  SmallVector<Value> total = b.loop(b.index(0), partials.count, b.index(pieces), start, join);
  return {normalise(b, total[2], total[1]), referenceOf(b, total[0]), total[1]};
}

//===----------------------------------------------------------------------===//
// Merge of all splits
//===----------------------------------------------------------------------===//

namespace {

/// grid  x: tiles of T · N rows   y: blocks of columns (block 0 writes the LSE)
class MergeSplitsKernel {
public:
  MergeSplitsKernel(StepLowering &step, mla::MergeSplitsOp op)
      : step(step), space(RowSpace::of(step, op.getPartialLse())),
        partial(step.lookup(op.getPartialOutput())), partialLse(step.lookup(op.getPartialLse())),
        output(step.allocate(op.getOutput())) {
    if (op.getLse())
      lse = step.allocate(op.getLse());
    tileRows = step.shapes.isRowCountFixed ? step.shapes.rows : step.shapes.queryRows;
    width = output.size(output.rank() - 1);
    block = blockWidth(width, step.shapes.turnColumns);
  }
  void launch();

private:
  void write(KernelBuilder &b, ValueRange args);

  StepLowering &step;
  RowSpace space;
  TensorRef partial, partialLse, output;
  std::optional<TensorRef> lse;
  int64_t tileRows, width, block;
};

} // namespace

void MergeSplitsKernel::write(KernelBuilder &b, ValueRange args) {
  RowSpace inner = space.inKernel(args[0]);
  Value zero = b.index(0);
  Value row = b.mul(b.programId(0), tileRows), column = b.mul(b.programId(1), block);
  auto splitLse = [&](Value split, Value rows) {
    Value base = b.mul(split, inner.rows(b));
    return b.load(inner.lseView(b, args[3], partialLse.offset, base, rows), row, tileRows);
  };
  auto splitOutput = [&](Value split, Value rows) {
    Value base = b.mul(split, b.mul(inner.rows(b), width));
    return b.loadWide(inner.outputView(b, args[2], partial, base, rows), {row, column},
                      {tileRows, block});
  };
  Joined joined = joinInTurns(b, tileRows, block, step.shapes.turnPieces,
                              {args[1], inner.rows(b), splitLse, splitOutput});
  b.storeNarrow(joined.output, inner.outputView(b, args[4], output, zero), {row, column});
  if (!lse)
    return;
  b.ifThen(b.isBelow(b.programId(1), b.index(1)), [&] {
    b.store(joinedLse(b, joined.reference, joined.sum),
            inner.lseView(b, args[5], lse->offset, zero), row);
  });
}

void MergeSplitsKernel::launch() {
  SmallVector<Value> args = {space.tokens, step.value(partial.sizes[0]), partial.buffer,
                             partialLse.buffer, output.buffer};
  if (lse)
    args.push_back(lse->buffer);
  std::array<Value, 3> grid = {step.ceilDiv(space.rows(step), tileRows),
                               step.constant(llvm::divideCeil(width, block)), step.constant(1)};
  step.launch("merge_splits", grid, args,
              [&](KernelBuilder &b, ValueRange inner) { write(b, inner); });
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::MergeSplitsOp op) {
  MergeSplitsKernel(step, op).launch();
  return success();
}

//===----------------------------------------------------------------------===//
// Merge of the pieces of requests
//===----------------------------------------------------------------------===//

namespace {

/// Two kernels over merge_items (tile.work), z: request. Few pieces are read some
/// at a time; many are read together, as the rows of a tile, so that their
/// latency is paid once:
///
///     few    x: tiles of query_len · N rows   y: blocks of columns
///            rows of a tile: the request's
///     many   x: rows of the request           y: blocks of columns
///            rows of a tile: pieces
class MergePiecesKernel {
public:
  /// Which requests a kernel joins: all, or those with as many pieces as its form
  /// is for.
  enum class Takes { All, Own };

  MergePiecesKernel(StepLowering &step, const PieceMerge &merge, Takes takes)
      : step(step), merge(merge), takes(takes) {
    heads = merge.partialLse.size(1);
    width = merge.output.size(merge.output.rank() - 1);
    fewPieces = kFewTurns * step.shapes.turnPieces;
    args = {step.metadata("merge_items", 32), merge.partialOutput.buffer, merge.partialLse.buffer,
            merge.output.buffer};
    if (merge.lse)
      args.push_back(merge.lse->buffer);
  }
  void launchFew();
  void launchMany();

  int64_t fewPieces; // the most that are few

private:
  // A turn of either form takes a latency of memory. Many pieces are one turn, but
  // have a program for each row and 32 columns: for 4 requests of 128 rows 10 waves
  // on the H200. An estimate: the forms are equal at 4 to 8 turns.
  static constexpr int64_t kFewTurns = 4;

  struct Request {
    Value rows;                 // query_len · N
    Value firstRow;             // in the output
    Value firstPartial, pieces; // row of the partials
  };
  Request loadRequest(KernelBuilder &b, ValueRange args);
  void writeFew(KernelBuilder &b, ValueRange args, const Request &request);
  void writeMany(KernelBuilder &b, ValueRange args, const Request &request);
  Value blockView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value firstRow, Value rows,
                  Value column);
  Value lseView(KernelBuilder &b, Value buffer, int64_t offset, Value firstRow, Value rows);
  void storeLse(KernelBuilder &b, ValueRange args, const Joined &joined, Value firstRow, Value rows,
                Value row);

  StepLowering &step;
  const PieceMerge &merge;
  Takes takes;
  int64_t heads, width;
  SmallVector<Value> args;
};

/// Columns of a program that merges many pieces: 128 bytes of a partial's row; a
/// step of one DeepSeek-V3 request has 2048 such programs, as many as the chip holds.
constexpr int64_t kColumnsOfMany = 32;

} // namespace

MergePiecesKernel::Request MergePiecesKernel::loadRequest(KernelBuilder &b, ValueRange args) {
  constexpr int64_t fields = 4;
  Value base = b.mul(b.programId(2), fields);
  auto field = [&](int64_t index) { return b.loadScalar(args[0], b.add(base, index)); };
  Request request;
  request.firstRow = b.mul(field(0), heads);
  request.rows = b.mul(field(1), heads);
  request.firstPartial = b.mul(field(2), heads);
  request.pieces = field(3);
  return request;
}

/// Rows from `firstRow` on, of the block of columns at `column`. The view begins
/// there, so that a load knows that all columns of a whole block are inside.
Value MergePiecesKernel::blockView(KernelBuilder &b, Value buffer, const TensorRef &ref,
                                   Value firstRow, Value rows, Value column) {
  int64_t stride = ref.strides[ref.rank() - 2];
  int64_t block = blockWidth(width, step.shapes.turnColumns);
  OpFoldResult columns = b.fixed(block);
  if (width % block != 0)
    columns = b.extent(b.minimum(b.index(block), b.sub(b.index(width), column)));
  return b.view(buffer, b.extent(b.add(b.mul(firstRow, stride), column), ref.offset),
                {OpFoldResult(rows), columns}, {b.fixed(stride), b.fixed(1)});
}

Value MergePiecesKernel::lseView(KernelBuilder &b, Value buffer, int64_t offset, Value firstRow,
                                 Value rows) {
  return b.view(buffer, b.extent(firstRow, offset), {OpFoldResult(rows)}, {b.fixed(1)});
}

void MergePiecesKernel::storeLse(KernelBuilder &b, ValueRange args, const Joined &joined,
                                 Value firstRow, Value rows, Value row) {
  if (!merge.lse)
    return;
  b.ifThen(b.isBelow(b.programId(1), b.index(1)), [&] {
    b.store(joinedLse(b, joined.reference, joined.sum),
            lseView(b, args[4], merge.lse->offset, firstRow, rows), row);
  });
}

void MergePiecesKernel::writeFew(KernelBuilder &b, ValueRange args, const Request &request) {
  int64_t tileRows = step.shapes.rows, block = blockWidth(width, step.shapes.turnColumns);
  Value zero = b.index(0);
  Value row = b.mul(b.programId(0), tileRows), column = b.mul(b.programId(1), block);
  auto firstOf = [&](Value piece) {
    return b.add(request.firstPartial, b.mul(piece, request.rows));
  };
  auto pieceLse = [&](Value piece, Value rows) {
    Value view = lseView(b, args[2], merge.partialLse.offset, firstOf(piece), rows);
    return b.load(view, row, tileRows);
  };
  auto pieceOutput = [&](Value piece, Value rows) {
    Value view = blockView(b, args[1], merge.partialOutput, firstOf(piece), rows, column);
    return b.loadWide(view, {row, zero}, {tileRows, block});
  };
  Joined joined = joinInTurns(b, tileRows, block, step.shapes.turnPieces,
                              {request.pieces, request.rows, pieceLse, pieceOutput});
  b.storeNarrow(joined.output,
                blockView(b, args[3], merge.output, request.firstRow, request.rows, column),
                {row, zero});
  storeLse(b, args, joined, request.firstRow, request.rows, row);
}

void MergePiecesKernel::launchFew() {
  int64_t block = blockWidth(width, step.shapes.turnColumns);
  Value rows = step.multiply(step.dim("max_query_len"), heads);
  std::array<Value, 3> grid = {step.ceilDiv(rows, step.shapes.rows),
                               step.constant(llvm::divideCeil(width, block)),
                               step.dim("num_merges")};
  auto write = [&](KernelBuilder &b, ValueRange inner) {
    Request request = loadRequest(b, inner);
    if (takes == Takes::All)
      return writeFew(b, inner, request);
    b.ifThen(b.isBelow(request.pieces, b.index(fewPieces + 1)),
             [&] { writeFew(b, inner, request); });
  };
  step.launch("merge_partials", grid, args, write, StepLowering::Overlap::Dependent);
}

/// The largest of all rows, in each row.
static Value maxOfRows(KernelBuilder &b, Value vector) {
  constexpr int64_t fewest = 8; // columns that a tile has at least
  int64_t rows = cast<RankedTensorType>(vector.getType()).getDimSize(0);
  Value ofColumns = b.reduceMax(b.broadcast(vector, fewest), /*dim=*/0);
  return b.reduceMax(b.broadcastRows(ofColumns, rows));
}

/// Joins the rows of `joined`; the result has vectors of columns, and LSEs that are
/// alike in all of them.
static Joined joinRows(KernelBuilder &b, const Joined &joined, int64_t columns) {
  Value lse = joinedLse(b, joined.reference, joined.sum);
  Value reference = referenceOf(b, maxOfRows(b, lse));
  Value weights = b.exp(b.subf(lse, reference));
  Value sum = b.reduceSum(b.broadcast(weights, columns), /*dim=*/0);
  Value output = b.reduceSum(weigh(b, joined.output, weights, weights), /*dim=*/0);
  return {normalise(b, output, sum), b.reduceMax(b.broadcast(reference, columns), /*dim=*/0), sum};
}

/// Element (i, j) of tile t is column `column + j` of the row, of piece t · rows + i:
/// a tile's rows join their pieces one after the other, and then each other.
void MergePiecesKernel::writeMany(KernelBuilder &b, ValueRange args, const Request &request) {
  int64_t atOnce = step.shapes.rows, columns = kColumnsOfMany;
  Value row = b.programId(0), column = b.mul(b.programId(1), columns);
  Value first = b.add(request.firstPartial, row), stride = request.rows;
  Value lses = b.view(args[2], b.extent(first, merge.partialLse.offset),
                      {OpFoldResult(request.pieces)}, {OpFoldResult(stride)});
  Value outputs = b.view(args[1], b.extent(b.mul(first, width), merge.partialOutput.offset),
                         {OpFoldResult(request.pieces), b.fixed(width)},
                         {OpFoldResult(b.mul(stride, width)), b.fixed(1)});
  auto lseAt = [&](Value tile, Value) {
    Value piece = b.mul(tile, atOnce);
    Value left = b.sub(request.pieces, piece);
    return maskLse(b, b.load(lses, piece, atOnce), b.iota(0, atOnce), left);
  };
  auto outputAt = [&](Value tile, Value) {
    return b.load(outputs, {b.mul(tile, atOnce), column}, {atOnce, columns});
  };
  Value tiles = b.ceilDiv(request.pieces, b.index(atOnce));
  Joined ofRows =
      joinInTurns(b, atOnce, columns, /*pieces=*/1, {tiles, request.pieces, lseAt, outputAt});
  Joined joined = joinRows(b, ofRows, columns);
  Value outputRow = b.add(request.firstRow, row);
  int64_t outputStride = merge.output.strides[merge.output.rank() - 2];
  b.storeNarrow(joined.output,
                b.view(args[3], b.extent(b.mul(outputRow, outputStride), merge.output.offset),
                       {b.fixed(width)}, {b.fixed(1)}),
                column);
  storeLse(b, args, joined, outputRow, b.index(1), b.index(0));
}

void MergePiecesKernel::launchMany() {
  Value rows = step.multiply(step.dim("max_query_len"), heads);
  std::array<Value, 3> grid = {rows, step.constant(llvm::divideCeil(width, kColumnsOfMany)),
                               step.dim("num_merges")};
  auto write = [&](KernelBuilder &b, ValueRange inner) {
    Request request = loadRequest(b, inner);
    Value isIts = b.isBelow(b.programId(0), request.rows);
    if (takes == Takes::Own)
      isIts = arith::AndIOp::create(b, isIts, b.isBelow(b.index(fewPieces), request.pieces));
    b.ifThen(isIts, [&] { writeMany(b, inner, request); });
  };
  step.launch("merge_many_partials", grid, args, write, StepLowering::Overlap::Dependent);
}

void mlac::mla_to_tile::emitMergePartials(StepLowering &step, const PieceMerge &merge) {
  using Takes = MergePiecesKernel::Takes;
  // The forms sum in different orders. With fixed blocks no row may depend on how
  // many pieces others have: each request's own number decides.
  bool isInvariant = step.costs.fixedBlocks > 0;
  MergePiecesKernel kernel(step, merge, isInvariant ? Takes::Own : Takes::All);
  auto few = [&] { kernel.launchFew(); };
  auto many = [&] { kernel.launchMany(); };
  step.ifAbove(step.dim("num_merges"), 0, [&] {
    Value most = step.dim("max_partials");
    if (!isInvariant)
      return step.versionByRows(most, kernel.fewPieces, few, many);
    few();
    step.ifAbove(most, kernel.fewPieces, many);
  });
}

//===----------------------------------------------------------------------===//
// LSE only
//===----------------------------------------------------------------------===//

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::EmptyPartialOp op) {
  step.allocate(op.getOutput()); // never read while its LSE says empty
  TensorRef lse = step.allocate(op.getLse());
  RowSpace space = RowSpace::of(step, op.getLse());
  Value count = step.multiply(space.tokens, space.heads);
  int64_t tile = step.shapes.vectorRows;
  std::array<Value, 3> grid = {step.ceilDiv(count, tile), step.constant(1), step.constant(1)};
  step.launch("fill_empty_lse", grid, {lse.buffer, count}, [&](KernelBuilder &b, ValueRange args) {
    Value view = b.view(args[0], b.fixed(lse.offset), {OpFoldResult(args[1])}, {b.fixed(1)});
    b.store(b.constant(tile, -kInfinity), view, b.mul(b.programId(0), tile));
  });
  return success();
}

/// The LSE's value in the convention `to`.
static Value convert(KernelBuilder &b, Value lse, mla::LseAttr from, mla::LseAttr to) {
  Value isEmpty = b.equals(b.absf(lse), kInfinity);
  if (from.getBase() != to.getBase()) {
    bool isToNatural = to.getBase() == mla::LseBase::E;
    lse = b.mulf(lse, b.like(lse, isToNatural ? llvm::numbers::ln2 : llvm::numbers::log2e));
  }
  bool isNegative = to.getEmpty() == mla::LseEmpty::NegInf;
  return b.select(isEmpty, b.like(lse, isNegative ? -kInfinity : kInfinity), lse);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ConvertLseOp op) {
  TensorRef from = step.lookup(op.getInput()), to = step.allocate(op.getResult());
  RowSpace space = RowSpace::of(step, op.getInput());
  bool isTargetTokenMajor = lseEncoding(op.getResult()).getLayout() == mla::LseLayout::TokenMajor;
  int64_t tile = step.shapes.vectorRows;
  std::array<Value, 3> grid = {step.ceilDiv(space.tokens, tile), step.constant(space.heads),
                               step.constant(1)};
  step.launch("convert_lse", grid, {space.tokens, from.buffer, to.buffer},
              [&](KernelBuilder &b, ValueRange args) {
                // One head's tokens: a row of a head-major LSE, a column otherwise.
                auto viewOf = [&](Value buffer, const TensorRef &ref, bool isTokenMajor) {
                  Value head = b.programId(1);
                  Value offset = isTokenMajor ? head : b.mul(head, args[0]);
                  return b.view(buffer, b.extent(offset, ref.offset), {OpFoldResult(args[0])},
                                {b.fixed(isTokenMajor ? space.heads : 1)});
                };
                Value row = b.mul(b.programId(0), tile);
                Value lse = b.load(viewOf(args[1], from, space.isTokenMajor), row, tile);
                b.store(convert(b, lse, lseEncoding(op.getInput()), lseEncoding(op.getResult())),
                        viewOf(args[2], to, isTargetTokenMajor), row);
              });
  return success();
}
