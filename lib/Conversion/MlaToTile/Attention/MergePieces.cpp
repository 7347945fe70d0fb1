//===- MergePieces.cpp - joining the pieces of requests ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/JoinPartials.h"
#include "Plan/Lowerings.h"

#include "mla/Analysis/FormCost.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {

/// One kernel over merge_starts and merge_items (tile.work). A program goes over a run of
/// units that the runtime gave it; a unit is some rows and columns of one request, in the
/// form that the request's number of pieces wants:
///
///     few      64 rows of the request, a block of columns; four pieces loaded together,
///              more take turns
///     columns  a row of the request, a block of columns
///              rows of a tile: 64 columns of the block, columns: 16 or 32 pieces
///     rows     as `columns`, but
///              rows of a tile: 64 pieces, columns: the block's
///
/// Many pieces are read together, too, so that their latency is paid once. With pieces as
/// rows every column's sum crosses threads and warps, and a unit has 32 columns: little
/// code and many units, for few heads. With pieces as columns a thread has a quarter of a
/// sum's pieces, without shared memory, and a unit has up to 256 columns for the same
/// weights: a third of the instructions. The forms sum in different orders: with fixed
/// blocks a request's own number of pieces decides, so that no row depends on other
/// requests; else the runtime weighs them.
class MergePiecesKernel {
public:
  MergePiecesKernel(StepLowering &step, const PieceMerge &merge);
  SmallVector<int64_t> describeForms() const;
  int64_t countPrograms() const;
  void launch();

private:
  // Programs of a request that has many pieces, at least: two on each multiprocessor, all
  // of one wave.
  static int64_t countProgramsOfMany() {
    const mlac::TargetDescription &machine = mlac::getScheduledMachine();
    return llvm::bit_floor(static_cast<uint64_t>(2 * machine.numSms));
  }

  // Columns of a unit that merges them as rows, at most: 128 bytes of a partial's row.
  // With 16 columns 64 pieces of 8 heads take 6.0 us of a step instead of 6.5, of 16
  // heads 7.9 instead of 7.3.
  static constexpr int64_t kMostColumnsOfMany = 32;

  // Tiles of a unit that merges them as columns, at most. For 128 heads and 64 pieces
  // 4 tiles take 14.1 us of a step, 2 tiles 16.2. For 16 heads 64 pieces as rows take
  // 7.3 us, as columns 8.5.
  static constexpr int64_t kMostTilesOfMany = 4;

  // Up to so many times as many as few pieces are the columns of one small tile.
  static constexpr int64_t kSomeOfFew = 4;

  struct Request {
    explicit Request(ValueRange fields)
        : rows(fields[0]), firstRow(fields[1]), firstPartial(fields[2]), pieces(fields[3]),
          form(fields[4]), stride(fields[5]) {}
    SmallVector<Value> fields() const {
      return {rows, firstRow, firstPartial, pieces, form, stride};
    }
    Value rows;                 // query_len · N
    Value firstRow;             // in the output
    Value firstPartial, pieces; // row of the partials
    Value form;                 // index
    Value stride;               // rows from a piece to the next
  };
  /// Of one request's rows and columns: where a unit begins.
  struct Unit {
    Request request;
    Value row, column;
  };
  /// What a unit is where a request has at most so many pieces.
  struct Form {
    int64_t mostPieces, rows, columns; // the last two of a unit
    std::function<void(KernelBuilder &b, ValueRange args, const Unit &unit)> write;
  };
  StepLowering::Overlap overlap() const;
  int64_t countBlocks(const Form &form) const { return llvm::divideCeil(width, form.columns); }
  Request loadRequest(KernelBuilder &b, ValueRange args, Value item) const;
  void writeRun(KernelBuilder &b, ValueRange args) const;
  void writeUnits(KernelBuilder &b, ValueRange args, const Request &request, const Form &form,
                  Value first, Value end) const;
  void writeFew(KernelBuilder &b, ValueRange args, const Unit &unit) const;
  void writeAsRows(KernelBuilder &b, ValueRange args, const Unit &unit, int64_t columns) const;
  void writeAsColumns(KernelBuilder &b, ValueRange args, const Unit &unit, int64_t ofUnit,
                      int64_t atOnce) const;
  OpFoldResult countColumns(KernelBuilder &b, Value column, int64_t block) const;
  Value blockView(KernelBuilder &b, Value buffer, const TensorRef &ref, Value firstRow, Value rows,
                  Value column) const;
  Value lseView(KernelBuilder &b, Value buffer, int64_t offset, Value firstRow, Value rows) const;
  void storeLse(KernelBuilder &b, ValueRange args, const Joined &joined, Value firstRow, Value rows,
                Value row, Value column) const;

  enum Arg { kItems, kPartialOutput, kPartialLse, kOutput, kStarts, kLse };
  StepLowering &step;
  const PieceMerge &merge;
  int64_t heads, width;
  int64_t tilesOfMany; // 0: pieces as rows
  SmallVector<Form, 3> forms;
  SmallVector<Value> args;
};

} // namespace

MergePiecesKernel::MergePiecesKernel(StepLowering &step, const PieceMerge &merge)
    : step(step), merge(merge), heads(merge.partialLse.size(1)),
      width(merge.output.size(merge.output.rank() - 1)) {
  auto share = static_cast<uint64_t>(heads * width / countProgramsOfMany());
  tilesOfMany = std::min<int64_t>(llvm::bit_floor(share / step.shapes.rows), kMostTilesOfMany);
  // A last unit of fewer columns masks its loads: 640 columns in units of 256 spill 12 bytes. What
  // up to 512 columns have spills nothing, and smaller units were not timed for them.
  if (width > step.shapes.maxAccumulatorColumns)
    while (tilesOfMany > 1 && width % (tilesOfMany * step.shapes.rows) != 0)
      tilesOfMany /= 2;
  int64_t some = kSomeOfFew * step.shapes.fewPieces, many = 2 * some;
  int64_t few = blockWidth(width, step.shapes.turnColumns);
  int64_t asColumns = std::max<int64_t>(tilesOfMany, 1) * step.shapes.rows;
  int64_t asRows = blockWidth(
      width, std::clamp<int64_t>(llvm::bit_floor(share), kWidthMultiple, kMostColumnsOfMany));
  auto writeFew = [this](KernelBuilder &b, ValueRange args, const Unit &unit) {
    this->writeFew(b, args, unit);
  };
  auto writeAsColumns = [=, this](int64_t atOnce) {
    return [=, this](KernelBuilder &b, ValueRange args, const Unit &unit) {
      this->writeAsColumns(b, args, unit, asColumns, atOnce);
    };
  };
  auto writeAsRows = [=, this](KernelBuilder &b, ValueRange args, const Unit &unit) {
    this->writeAsRows(b, args, unit, asRows);
  };
  constexpr int64_t any = std::numeric_limits<int32_t>::max();
  forms.push_back({step.shapes.fewPieces, step.shapes.rows, few, writeFew});
  forms.push_back({some, 1, asColumns, writeAsColumns(some)});
  if (tilesOfMany > 0)
    forms.push_back({any, 1, asColumns, writeAsColumns(many)});
  else
    forms.push_back({any, 1, asRows, writeAsRows});
  args = {step.metadata("merge_items"), merge.partialOutput.buffer, merge.partialLse.buffer,
          merge.output.buffer, step.metadata("merge_starts")};
  if (merge.lse)
    args.push_back(merge.lse->buffer);
}

/// As tile.work has them.
SmallVector<int64_t> MergePiecesKernel::describeForms() const {
  SmallVector<int64_t> numbers;
  for (const Form &form : forms)
    numbers.append({form.mostPieces, form.rows, countBlocks(form)});
  return numbers;
}

/// On each multiprocessor. With 3 and 32 pieces at once (212 registers) 128 heads and 64
/// pieces take 14.1 us of a step, with 2 and 64 pieces (255 registers) 14.8; 64 heads with
/// requests of 4 x 32768 and 60 x 1024 tokens 87.3 and 94.6. Pieces as rows take fewer.
int64_t MergePiecesKernel::countPrograms() const {
  bool hasHalfUnits = width % kWidthMultiple != 0;
  return tilesOfMany > 0 || hasHalfUnits ? 3 : 4;
}

MergePiecesKernel::Request MergePiecesKernel::loadRequest(KernelBuilder &b, ValueRange args,
                                                          Value item) const {
  constexpr int64_t fields = 6;
  Value base = b.mul(item, fields);
  auto field = [&](int64_t index) { return b.loadScalar(args[kItems], b.add(base, index)); };
  auto rows = [&](int64_t index) { return b.mul(field(index), heads); };
  return Request({rows(1), rows(0), rows(2), field(3), field(4), rows(5)});
}

/// Columns of the block of `block` ones at `column`.
OpFoldResult MergePiecesKernel::countColumns(KernelBuilder &b, Value column, int64_t block) const {
  if (width % block == 0)
    return b.fixed(block);
  return b.extent(b.minimum(b.index(block), b.sub(b.index(width), column)));
}

/// Rows from `firstRow` on, of the block of columns at `column`. The view begins
/// there, so that a load knows that all columns of a whole block are inside.
Value MergePiecesKernel::blockView(KernelBuilder &b, Value buffer, const TensorRef &ref,
                                   Value firstRow, Value rows, Value column) const {
  int64_t stride = ref.strides[ref.rank() - 2];
  OpFoldResult columns = countColumns(b, column, blockWidth(width, step.shapes.turnColumns));
  return b.view(buffer, b.extent(b.add(b.mul(firstRow, stride), column), ref.offset),
                {OpFoldResult(rows), columns}, {b.fixed(stride), b.fixed(1)});
}

Value MergePiecesKernel::lseView(KernelBuilder &b, Value buffer, int64_t offset, Value firstRow,
                                 Value rows) const {
  return b.view(buffer, b.extent(firstRow, offset), {OpFoldResult(rows)}, {b.fixed(1)});
}

/// By the unit of the first columns.
void MergePiecesKernel::storeLse(KernelBuilder &b, ValueRange args, const Joined &joined,
                                 Value firstRow, Value rows, Value row, Value column) const {
  if (!merge.lse)
    return;
  b.ifThen(b.isBelow(column, b.index(1)), [&] {
    b.store(joinedLse(b, joined.reference, joined.sum),
            lseView(b, args[kLse], merge.lse->offset, firstRow, rows), row);
  });
}

void MergePiecesKernel::writeFew(KernelBuilder &b, ValueRange args, const Unit &unit) const {
  const Request &request = unit.request;
  int64_t tileRows = step.shapes.rows, block = blockWidth(width, step.shapes.turnColumns);
  Value zero = b.index(0), row = unit.row, column = unit.column;
  auto firstOf = [&](Value piece) {
    return b.add(request.firstPartial, b.mul(piece, request.stride));
  };
  auto pieceLse = [&](Value piece, Value rows) {
    Value view = lseView(b, args[kPartialLse], merge.partialLse.offset, firstOf(piece), rows);
    return b.load(view, row, tileRows);
  };
  auto pieceOutput = [&](Value piece, Value rows) {
    Value view =
        blockView(b, args[kPartialOutput], merge.partialOutput, firstOf(piece), rows, column);
    return b.loadWide(view, {row, zero}, {tileRows, block});
  };
  JoinState state = joinInTurns(b, joinNone(b, tileRows, block), zero, step.shapes.turnPieces,
                                {request.pieces, request.rows, pieceLse, pieceOutput});
  Joined joined = finishJoin(b, state);
  b.storeNarrow(joined.output,
                blockView(b, args[kOutput], merge.output, request.firstRow, request.rows, column),
                {row, zero});
  storeLse(b, args, joined, request.firstRow, request.rows, row, column);
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
void MergePiecesKernel::writeAsRows(KernelBuilder &b, ValueRange args, const Unit &unit,
                                    int64_t columns) const {
  const Request &request = unit.request;
  int64_t atOnce = step.shapes.rows;
  Value zero = b.index(0), one = b.index(1), row = unit.row, column = unit.column;
  Value first = b.add(request.firstPartial, row), stride = request.stride;
  Value lses = b.view(args[kPartialLse], b.extent(first, merge.partialLse.offset),
                      {OpFoldResult(request.pieces)}, {b.extent(stride)});
  OpFoldResult inside = countColumns(b, column, columns);
  Value corner = b.add(b.mul(first, width), column);
  Value outputs =
      b.view(args[kPartialOutput], b.extent(corner, merge.partialOutput.offset),
             {OpFoldResult(request.pieces), inside}, {b.extent(b.mul(stride, width)), b.fixed(1)});
  auto lseAt = [&](Value tile, Value) {
    Value piece = b.mul(tile, atOnce);
    Value left = b.sub(request.pieces, piece);
    return maskLse(b, b.load(lses, piece, atOnce), b.iota(0, atOnce), left);
  };
  auto outputAt = [&](Value tile, Value) {
    return b.loadWide(outputs, {b.mul(tile, atOnce), zero}, {atOnce, columns});
  };
  Value tiles = b.ceilDiv(request.pieces, b.index(atOnce));
  Value lse = lseAt(zero, {}), output = outputAt(zero, {});
  JoinState ofRows = joinInTurns(b, joinOne(b, unifyEmpty(b, lse), output), one, /*pieces=*/1,
                                 {tiles, request.pieces, lseAt, outputAt});
  Joined joined = joinRows(b, ofRows);
  Value outputRow = b.add(request.firstRow, row);
  int64_t outputStride = merge.output.strides[merge.output.rank() - 2];
  Value target = b.add(b.mul(outputRow, outputStride), column);
  b.storeNarrow(
      joined.output,
      b.view(args[kOutput], b.extent(target, merge.output.offset), {inside}, {b.fixed(1)}), zero);
  storeLse(b, args, joined, outputRow, one, zero, column);
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
void MergePiecesKernel::writeAsColumns(KernelBuilder &b, ValueRange args, const Unit &unit,
                                       int64_t ofUnit, int64_t atOnce) const {
  const Request &request = unit.request;
  int64_t columns = step.shapes.rows;
  Value row = unit.row, column = unit.column;
  // With one query the places of pieces are constants. That pays where a thread has most
  // loads: 128 heads and 32 pieces take 14.1 instead of 16.4 us of a step. 64 heads, or
  // 16 pieces, take 0.3 to 1.1 us more with constants.
  bool hasOneQuery = cast<mla::BatchType>(merge.batch.getType()).getQueryLen() == 1;
  bool isFixed = hasOneQuery && tilesOfMany == kMostTilesOfMany &&
                 atOnce > kSomeOfFew * step.shapes.fewPieces;
  Value zero = b.index(0), one = b.index(1);
  Value first = b.add(request.firstPartial, row),
        stride = isFixed ? b.index(heads) : request.stride;
  Value lses =
      b.view(args[kPartialLse], b.extent(first, merge.partialLse.offset),
             {b.fixed(columns), OpFoldResult(request.pieces)}, {b.fixed(0), b.extent(stride)});
  Value outputRow = b.add(request.firstRow, row);
  Value corner = b.add(b.mul(first, width), column);
  Value outputs = b.view(args[kPartialOutput], b.extent(corner, merge.partialOutput.offset),
                         {countColumns(b, column, ofUnit), OpFoldResult(request.pieces)},
                         {b.fixed(1), b.extent(b.mul(stride, width))});
  SmallVector<Value> state = {b.constant({columns}, -std::numeric_limits<double>::infinity())};
  state.append(1 + ofUnit / columns, b.constant({columns}, 0));
  Value tiles = b.ceilDiv(request.pieces, b.index(atOnce));
  state = b.loop(zero, tiles, one, state, [&](Value tile, ValueRange before) {
    Value piece = b.mul(tile, atOnce);
    Value lse = b.load(lses, {zero, piece}, {columns, atOnce});
    SmallVector<Value> tiles;
    for (int64_t column = 0; column < ofUnit; column += columns)
      tiles.push_back(b.loadWide(outputs, {b.index(column), piece}, {columns, atOnce}));
    Value position = b.iota(1, {columns, atOnce});
    lse = maskLse(b, unifyEmpty(b, lse), position, b.sub(request.pieces, piece));
    return joinColumns(b, before, lse, tiles);
  });
  Value sum = state[1];
  Value scale = b.divf(b.like(sum, 1), b.select(b.equals(sum, 0), b.like(sum, 1), sum));
  int64_t outputStride = merge.output.strides[merge.output.rank() - 2];
  Value target = b.view(
      args[kOutput], b.extent(b.add(b.mul(outputRow, outputStride), column), merge.output.offset),
      {countColumns(b, column, ofUnit)}, {b.fixed(1)});
  for (auto [tile, output] : llvm::enumerate(ArrayRef(state).drop_front(2)))
    b.storeNarrow(b.mulf(output, scale), target, b.index(tile * columns));
  storeLse(b, args, {Value(), referenceOf(b, state[0]), sum}, outputRow, one, zero, column);
}

/// The next step's attention may begin early. What follows in a layer may not: the
/// attention of one request leaves half of the machine free, where the output
/// projection would gather while all wait (121 against 135 us of a DeepSeek-V3 layer).
StepLowering::Overlap MergePiecesKernel::overlap() const {
  return merge.isLast ? StepLowering::Overlap::Both : StepLowering::Overlap::Dependent;
}

/// Units `first` to `end` of a request; those of a row's columns are neighbours.
void MergePiecesKernel::writeUnits(KernelBuilder &b, ValueRange args, const Request &request,
                                   const Form &form, Value first, Value end) const {
  Value blocks = b.index(countBlocks(form));
  Value count = b.mul(b.ceilDiv(request.rows, b.index(form.rows)), blocks);
  b.loop(first, b.minimum(end, count), b.index(1), {}, [&](Value number, ValueRange) {
    Value tile = b.divNarrow(number, blocks);
    Value block = b.sub(number, b.mul(tile, blocks));
    form.write(b, args, {request, b.mul(tile, form.rows), b.mul(block, form.columns)});
    return SmallVector<Value>();
  });
}

/// The program's units, request by request. The first one's fields are loaded ahead of the
/// loop: metadata may be read before the kernel waits for the attention.
void MergePiecesKernel::writeRun(KernelBuilder &b, ValueRange args) const {
  constexpr int64_t fields = 4;
  Value base = b.mul(b.programId(0), fields);
  auto field = [&](int64_t index) { return b.loadScalar(args[kStarts], b.add(base, index)); };
  Value firstItem = field(0), firstUnit = field(1), lastItem = field(2), endUnit = field(3);
  Value all = b.index(std::numeric_limits<int32_t>::max());
  SmallVector<Value> ahead = loadRequest(b, args, firstItem).fields();
  b.loop(firstItem, b.add(lastItem, 1), b.index(1), ahead, [&](Value item, ValueRange carried) {
    Request request(carried);
    Value first = b.choose(b.isBelow(firstItem, item), b.index(0), firstUnit);
    Value end = b.choose(b.isBelow(item, lastItem), all, endUnit);
    auto writeIn = [&](size_t form) { writeUnits(b, args, request, forms[form], first, end); };
    auto isUpTo = [&](int64_t form) { return b.isBelow(request.form, b.index(form + 1)); };
    b.ifThenElse(
        isUpTo(0), [&] { writeIn(0); },
        [&] {
          b.ifThenElse(
              isUpTo(1), [&] { writeIn(1); }, [&] { writeIn(2); });
        });
    return loadRequest(b, args, b.minimum(b.add(item, 1), lastItem)).fields();
  });
}

void MergePiecesKernel::launch() {
  std::array<Value, 3> grid = {step.dim("num_merge_programs"), step.constant(1), step.constant(1)};
  auto write = [&](KernelBuilder &b, ValueRange inner) {
    b.setResidentPrograms(countPrograms());
    writeRun(b, inner);
  };
  step.launch("merge_partials", grid, args, write, overlap());
}

LogicalResult mlac::mla_to_tile::emitMergePartials(StepLowering &step, const PieceMerge &merge,
                                                   Operation *user) {
  MergePiecesKernel kernel(step, merge);
  if (failed(step.requestMerge(user, kernel.describeForms(), kernel.countPrograms())))
    return failure();
  step.ifAbove(step.dim("num_merges"), 0, [&] { kernel.launch(); });
  return success();
}
