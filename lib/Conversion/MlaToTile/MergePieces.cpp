//===- MergePieces.cpp - joining the pieces of requests ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JoinPartials.h"
#include "Lowerings.h"

#include "mla/Analysis/FormCost.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

/// Kernels over merge_items (tile.work), z: request. Up to four pieces are loaded
/// together by programs of 64 rows; more are read together, too, by programs of one
/// row, so that their latency is paid once:
///
///     few      x: tiles of query_len · N rows   y: blocks of columns
///              rows of a tile: the request's; more than four pieces take turns
///     columns  x: rows of the request           y: blocks of columns
///              rows of a tile: 64 columns of the block, columns: 16, 32 or 64 pieces
///     rows     as `columns`, but
///              rows of a tile: 64 pieces, columns: the block's
///
/// With pieces as rows every column's sum crosses threads and warps, and a program
/// has 32 columns: little code and many programs, for few heads. With pieces as
/// columns a thread has a quarter of a sum's pieces, without shared memory, and a
/// program has up to 256 columns for the same weights: a third of the instructions.
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
    auto share = static_cast<uint64_t>(heads * width / countProgramsOfMany());
    columnsOfMany = blockWidth(
        width, std::clamp<int64_t>(llvm::bit_floor(share), kWidthMultiple, kMostColumnsOfMany));
    tilesOfMany = std::min<int64_t>(llvm::bit_floor(share / step.shapes.rows), kMostTilesOfMany);
    args = {step.metadata("merge_items", 32), merge.partialOutput.buffer, merge.partialLse.buffer,
            merge.output.buffer};
    if (merge.lse)
      args.push_back(merge.lse->buffer);
  }
  void launchFew();
  void launchMany();
  void launchAsColumns(int64_t atOnce);
  /// Requests with few pieces that are rather merged as columns.
  int64_t countMostMerges() const;

  int64_t fewPieces; // the most that are few

private:
  // A turn takes a latency of memory, and so does a wave of programs of rows.
  static constexpr int64_t kFewTurns = 4;

  // Programs of rows at most, where there are few pieces: eight on each multiprocessor. On
  // the H200 16 pieces of 4 requests and 128 heads take 21.4 us of a step instead of 24.2,
  // 8 pieces of 8 requests 29.5 instead of 28.7.
  static int64_t countMostProgramsOfSome() { return countPrograms(8); }

  // Programs of a request that has many pieces, at least: two on each multiprocessor, all
  // of one wave.
  static int64_t countProgramsOfMany() { return countPrograms(2); }

  /// `each` programs on each multiprocessor, or fewer: a power of two, as widths are.
  static int64_t countPrograms(int64_t each) {
    const mlac::TargetDescription &machine = mlac::getScheduledMachine();
    return llvm::bit_floor(static_cast<uint64_t>(each * machine.numSms));
  }

  // Columns of a program that merges them as rows, at most: 128 bytes of a partial's row.
  // With 16 columns 64 pieces of 8 heads take 6.0 us of a step instead of 6.5, of 16
  // heads 7.9 instead of 7.3.
  static constexpr int64_t kMostColumnsOfMany = 32;

  // Tiles of a program that merges them as columns, at most. For 128 heads and 64 pieces
  // 4 tiles take 27.7 us of a step, 2 and 1 tiles 30.4 and 31.5. For 16 heads 64 pieces as
  // rows take 7.3 us, as columns 8.5.
  static constexpr int64_t kMostTilesOfMany = 4;

  struct Request {
    Value rows;                 // query_len · N
    Value firstRow;             // in the output
    Value firstPartial, pieces; // row of the partials
  };
  StepLowering::Overlap overlap() const;
  Request loadRequest(KernelBuilder &b, ValueRange args);
  void writeFew(KernelBuilder &b, ValueRange args, const Request &request);
  void writeManyAsRows(KernelBuilder &b, ValueRange args, const Request &request);
  void writeAsColumns(KernelBuilder &b, ValueRange args, const Request &request, int64_t atOnce);
  using Write = llvm::function_ref<void(KernelBuilder &b, ValueRange args, const Request &request)>;
  void launchRows(int64_t columns, Write write);
  int64_t columnsOfProgram() const { return std::max<int64_t>(tilesOfMany, 1) * step.shapes.rows; }
  OpFoldResult countColumns(KernelBuilder &b, Value column, int64_t block);
  Value blockView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value firstRow, Value rows,
                  Value column);
  Value lseView(KernelBuilder &b, Value buffer, int64_t offset, Value firstRow, Value rows);
  void storeLse(KernelBuilder &b, ValueRange args, const Joined &joined, Value firstRow, Value rows,
                Value row);

  StepLowering &step;
  const PieceMerge &merge;
  Takes takes;
  int64_t heads, width, columnsOfMany;
  int64_t tilesOfMany; // 0: pieces as rows
  SmallVector<Value> args;
};

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

/// Columns of the block of `block` ones at `column`.
OpFoldResult MergePiecesKernel::countColumns(KernelBuilder &b, Value column, int64_t block) {
  if (width % block == 0)
    return b.fixed(block);
  return b.extent(b.minimum(b.index(block), b.sub(b.index(width), column)));
}

/// Rows from `firstRow` on, of the block of columns at `column`. The view begins
/// there, so that a load knows that all columns of a whole block are inside.
Value MergePiecesKernel::blockView(KernelBuilder &b, Value buffer, const TensorRef &ref,
                                   Value firstRow, Value rows, Value column) {
  int64_t stride = ref.strides[ref.rank() - 2];
  OpFoldResult columns = countColumns(b, column, blockWidth(width, step.shapes.turnColumns));
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
  JoinState state = joinInTurns(b, joinNone(b, tileRows, block), zero, step.shapes.turnPieces,
                                {request.pieces, request.rows, pieceLse, pieceOutput});
  Joined joined = finishJoin(b, state);
  b.storeNarrow(joined.output,
                blockView(b, args[3], merge.output, request.firstRow, request.rows, column),
                {row, zero});
  storeLse(b, args, joined, request.firstRow, request.rows, row);
}

/// The next step's attention may begin early. What follows in a layer may not: the
/// attention of one request leaves half of the machine free, where the output
/// projection would gather while all wait (121 against 135 us of a DeepSeek-V3 layer).
StepLowering::Overlap MergePiecesKernel::overlap() const {
  return merge.isLast ? StepLowering::Overlap::Both : StepLowering::Overlap::Dependent;
}

void MergePiecesKernel::launchFew() {
  int64_t block = blockWidth(width, step.shapes.turnColumns);
  Value rows = step.multiply(step.dim(merge.batch, "max_query_len"), heads);
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
  step.launch("merge_partials", grid, args, write, overlap());
}

/// The largest, or the sum, of all rows, in each row.
static Value reduceRows(KernelBuilder &b, Value vector, bool isSum) {
  constexpr int64_t fewest = 8; // columns that a tile has at least
  int64_t rows = cast<RankedTensorType>(vector.getType()).getDimSize(0);
  Value alike = b.broadcast(vector, fewest);
  Value ofColumns = isSum ? b.reduceSum(alike, /*dim=*/0) : b.reduceMax(alike, /*dim=*/0);
  return b.reduceMax(b.broadcastRows(ofColumns, rows));
}

/// Joins the rows of a tile. The output is a vector of columns; reference and sum are
/// alike in all rows. Vectors of rows are reduced by themselves and rows are divided
/// before they are added: what is done per column costs most.
static Joined joinRows(KernelBuilder &b, const JoinState &state) {
  Value reference = referenceOf(b, reduceRows(b, state.maximum, /*isSum=*/false));
  Value weight = b.exp(b.subf(state.maximum, reference));
  Value sum = reduceRows(b, b.mulf(state.sum, weight), /*isSum=*/true);
  int64_t columns = cast<RankedTensorType>(state.output.getType()).getDimSize(1);
  Value factors = b.broadcast(normalise(b, weight, sum), columns);
  return {b.reduceSum(b.mulf(state.output, factors), /*dim=*/0), reference, sum};
}

/// Element (i, j) of tile t is column `column + j` of the row, of piece t · rows + i:
/// a tile's rows join their pieces one after the other, and then each other. Mostly
/// there is one tile, whose loads are all under way at once.
void MergePiecesKernel::writeManyAsRows(KernelBuilder &b, ValueRange args, const Request &request) {
  int64_t atOnce = step.shapes.rows, columns = columnsOfMany;
  Value zero = b.index(0), one = b.index(1);
  Value row = b.programId(0), column = b.mul(b.programId(1), columns);
  Value first = b.add(request.firstPartial, row), stride = request.rows;
  Value lses = b.view(args[2], b.extent(first, merge.partialLse.offset),
                      {OpFoldResult(request.pieces)}, {b.extent(stride)});
  OpFoldResult inside = countColumns(b, column, columns);
  Value corner = b.add(b.mul(first, width), column);
  Value outputs =
      b.view(args[1], b.extent(corner, merge.partialOutput.offset),
             {OpFoldResult(request.pieces), inside}, {b.extent(b.mul(stride, width)), b.fixed(1)});
  auto lseAt = [&](Value tile, Value) {
    Value piece = b.mul(tile, atOnce);
    Value left = b.sub(request.pieces, piece);
    return maskLse(b, b.load(lses, piece, atOnce), b.iota(0, atOnce), left);
  };
  auto outputAt = [&](Value tile, Value) {
    return b.load(outputs, {b.mul(tile, atOnce), zero}, {atOnce, columns});
  };
  Value tiles = b.ceilDiv(request.pieces, b.index(atOnce));
  Value lse = lseAt(zero, {}), output = outputAt(zero, {});
  JoinState ofRows = joinInTurns(b, joinOne(b, unifyEmpty(b, lse), output), one, /*pieces=*/1,
                                 {tiles, request.pieces, lseAt, outputAt});
  Joined joined = joinRows(b, ofRows);
  Value outputRow = b.add(request.firstRow, row);
  int64_t outputStride = merge.output.strides[merge.output.rank() - 2];
  Value target = b.add(b.mul(outputRow, outputStride), column);
  b.storeNarrow(joined.output,
                b.view(args[3], b.extent(target, merge.output.offset), {inside}, {b.fixed(1)}),
                zero);
  storeLse(b, args, joined, outputRow, one, zero);
}

/// Element (i, j) of tile t is column `column + i` of the row, of piece t · pieces + j:
/// a thread has a share of a column's pieces, so that little crosses threads. Tiles of
/// neighbouring columns share the weights, and the loads of all are under way at once.
/// `state` and the result: maximum and sum, alike in all rows, then the outputs.
static SmallVector<Value> joinColumns(KernelBuilder &b, ValueRange state, Value lse,
                                      ArrayRef<Value> outputs) {
  int64_t pieces = cast<RankedTensorType>(lse.getType()).getDimSize(1);
  Value maximum = b.maxf(state[0], b.reduceMax(lse)), reference = referenceOf(b, maximum);
  Value factor = b.exp(b.subf(state[0], reference));
  Value weights = b.exp(b.subf(lse, b.broadcast(reference, pieces)));
  SmallVector<Value> joined = {maximum, b.addf(b.mulf(state[1], factor), b.reduceSum(weights))};
  Value isEmpty = b.equals(weights, 0);
  for (auto [before, output] : llvm::zip_equal(state.drop_front(2), outputs)) {
    Value weighed = b.select(isEmpty, b.like(output, 0), b.mulf(output, weights));
    joined.push_back(b.addf(b.mulf(before, factor), b.reduceSum(weighed)));
  }
  return joined;
}

/// Tiles of pieces, one after the other; mostly there is one.
void MergePiecesKernel::writeAsColumns(KernelBuilder &b, ValueRange args, const Request &request,
                                       int64_t atOnce) {
  int64_t columns = step.shapes.rows, ofProgram = columnsOfProgram();
  // With one query the places of pieces are constants. That pays where a thread has most
  // loads: 128 heads and 32 pieces take 14.1 instead of 16.4 us of a step. 64 heads, or
  // 16 pieces, take 0.3 to 1.1 us more with constants.
  bool hasOneQuery = cast<mla::BatchType>(merge.batch.getType()).getQueryLen() == 1;
  bool isFixed = hasOneQuery && tilesOfMany == kMostTilesOfMany && atOnce > fewPieces;
  Value zero = b.index(0), one = b.index(1), row = b.programId(0);
  Value first = b.add(request.firstPartial, row), stride = isFixed ? b.index(heads) : request.rows;
  Value lses =
      b.view(args[2], b.extent(first, merge.partialLse.offset),
             {b.fixed(columns), OpFoldResult(request.pieces)}, {b.fixed(0), b.extent(stride)});
  Value outputRow = b.add(request.firstRow, row);
  Value column = b.mul(b.programId(1), ofProgram);
  Value corner = b.add(b.mul(first, width), column);
  Value outputs = b.view(args[1], b.extent(corner, merge.partialOutput.offset),
                         {countColumns(b, column, ofProgram), OpFoldResult(request.pieces)},
                         {b.fixed(1), b.extent(b.mul(stride, width))});
  SmallVector<Value> state = {b.constant({columns}, -std::numeric_limits<double>::infinity())};
  state.append(1 + ofProgram / columns, b.constant({columns}, 0));
  Value tiles = b.ceilDiv(request.pieces, b.index(atOnce));
  state = b.loop(zero, tiles, one, state, [&](Value tile, ValueRange before) {
    Value piece = b.mul(tile, atOnce);
    Value lse = b.load(lses, {zero, piece}, {columns, atOnce});
    SmallVector<Value> tiles;
    for (int64_t column = 0; column < ofProgram; column += columns)
      tiles.push_back(b.load(outputs, {b.index(column), piece}, {columns, atOnce}));
    Value position = b.iota(1, {columns, atOnce});
    lse = maskLse(b, unifyEmpty(b, lse), position, b.sub(request.pieces, piece));
    return joinColumns(b, before, lse, tiles);
  });
  Value sum = state[1];
  Value scale = b.divf(b.like(sum, 1), b.select(b.equals(sum, 0), b.like(sum, 1), sum));
  int64_t outputStride = merge.output.strides[merge.output.rank() - 2];
  Value target =
      b.view(args[3], b.extent(b.add(b.mul(outputRow, outputStride), column), merge.output.offset),
             {countColumns(b, column, ofProgram)}, {b.fixed(1)});
  for (auto [tile, output] : llvm::enumerate(ArrayRef(state).drop_front(2)))
    b.storeNarrow(b.mulf(output, scale), target, b.index(tile * columns));
  storeLse(b, args, {Value(), referenceOf(b, state[0]), sum}, outputRow, one, zero);
}

/// A program for each row and `columns` columns.
void MergePiecesKernel::launchRows(int64_t columns, Write write) {
  Value rows = step.multiply(step.dim(merge.batch, "max_query_len"), heads);
  std::array<Value, 3> grid = {rows, step.constant(llvm::divideCeil(width, columns)),
                               step.dim("num_merges")};
  auto writeRow = [&](KernelBuilder &b, ValueRange inner) {
    Request request = loadRequest(b, inner);
    Value isIts = b.isBelow(b.programId(0), request.rows);
    if (takes == Takes::Own)
      isIts = arith::AndIOp::create(b, isIts, b.isBelow(b.index(fewPieces), request.pieces));
    b.ifThen(isIts, [&] { write(b, inner, request); });
  };
  step.launch("merge_many_partials", grid, args, writeRow, overlap());
}

void MergePiecesKernel::launchAsColumns(int64_t atOnce) {
  launchRows(columnsOfProgram(), [&](KernelBuilder &b, ValueRange inner, const Request &request) {
    writeAsColumns(b, inner, request, atOnce);
  });
}

void MergePiecesKernel::launchMany() {
  if (tilesOfMany > 0)
    return launchAsColumns(step.shapes.keys);
  launchRows(columnsOfMany, [&](KernelBuilder &b, ValueRange inner, const Request &request) {
    writeManyAsRows(b, inner, request);
  });
}

int64_t MergePiecesKernel::countMostMerges() const {
  auto batch = cast<mla::BatchType>(merge.batch.getType());
  int64_t rows = heads * (batch.hasStaticQueryLen() ? batch.getQueryLen() : 1);
  return countMostProgramsOfSome() / (rows * llvm::divideCeil(width, columnsOfProgram()));
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
    if (isInvariant) {
      few();
      return step.ifAbove(most, kernel.fewPieces, many);
    }
    // Programs of a row are many: for many requests turns are faster than waves.
    auto some = [&] {
      step.versionByRows(
          step.dim("num_merges"), kernel.countMostMerges(),
          [&] { kernel.launchAsColumns(kernel.fewPieces); }, few);
    };
    auto more = [&] {
      step.versionByRows(
          most, 2 * kernel.fewPieces, [&] { kernel.launchAsColumns(2 * kernel.fewPieces); }, many);
    };
    step.versionByRows(most, step.shapes.turnPieces, few,
                       [&] { step.versionByRows(most, kernel.fewPieces, some, more); });
  });
}
