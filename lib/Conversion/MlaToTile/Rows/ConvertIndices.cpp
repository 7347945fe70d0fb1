//===- ConvertIndices.cpp - token positions to cache indices ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a token and a block of its list, which is the whole tile (RowKernel.h): few tokens
// keep the machine busy. Where a list cannot be laid out so it has a tile of tokens and positions.
// What depends on the token alone is a row vector; what is wrong with it becomes a number that no
// position is valid with:
//
//   vector  prefill out of range    the workspace starts at -2^31
//   tile    row of the cache (PositionRows.h); place = start + position, not negative
//
// Where attention reads the rows, programs also leave where lists end: of tokens that see fewer
// keys than a list has entries most of it is -1.
//
// (runtime/lib/cache/IndexMap is the same on the host, and refuses what is -1 here.)
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Plan/PositionRows.h"
#include "Rows/RowKernel.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

using Predicate = arith::CmpIPredicate;

namespace {
/// How a kernel knows behind which entry of a list all others are invalid.
enum class ListEnd {
  Unasked,     ///< nobody reads it
  OfSelection, ///< mla.top_k's: a token's list has as many as it sees keys, the first ones
  OfEntries,   ///< behind the last valid one of each program's part
  OfList       ///< it does not
};

class IndexKernel {
public:
  IndexKernel(StepLowering &step, mla::ConvertIndicesOp op);
  void launch();

private:
  enum Argument {
    kPositions,
    kResult,
    kTokens,
    kRequests,
    kRows,
    kPrefills = kRows + 5,
    kStarts,
    kNumStarts
  };
  void launch(StringRef name, ListEnd end);
  void write(KernelBuilder &b, ValueRange args, ListEnd end);
  Value ofTokens(KernelBuilder &b, Value list, Value count, Value first) const;
  Value rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position, Value prefills);
  void askForEnds(OpFoldResult tokens);
  void storeEnd(KernelBuilder &b, ValueRange args, ListEnd end, Value result, Value token,
                Value column) const;
  void storeOwnEnd(KernelBuilder &b, ValueRange args, Value end, Value token) const;
  Value findEnds(KernelBuilder &b, Value result, Value column) const;
  /// Of a list, each a program's.
  int64_t countParts() const { return llvm::divideCeil(width, block); }

  StepLowering &step;
  mla::ConvertIndicesOp op;
  PositionRows rows;
  int64_t width, block, columns, tileRows; // of a list, of a program's part of it, of its tile
  bool isFolded;
  SmallVector<Value> args;
  ListEnd end = ListEnd::Unasked;
  unsigned endsArg = 0;
};
} // namespace

/// Parts of a list at most whose ends attention loads, one by one, for each token.
static constexpr int64_t kMostEnds = 4;

/// Whether attention reads the rows without being told how many of them there are.
static bool needsEnds(Value rows) {
  return llvm::any_of(rows.getUses(), [&](OpOperand &use) {
    // Of a branch that makes rows where they are needed.
    if (isa<scf::YieldOp>(use.getOwner()))
      if (auto branch = dyn_cast<scf::IfOp>(use.getOwner()->getParentOp()))
        return needsEnds(branch.getResult(use.getOperandNumber()));
    auto attention = dyn_cast<mla::SparseAttentionOp>(use.getOwner());
    return attention && attention.getRows() == rows && !attention.getLengths();
  });
}

/// Whether lists are what mla.top_k selects among all keys that tokens see, where they are
/// anything.
static bool isSelected(Value lists) {
  if (auto loop = lists.getDefiningOp<scf::ForOp>()) // of slices of the tokens
    return isSelected(
        loop.getTiedLoopYieldedValue(loop.getTiedLoopRegionIterArg(cast<OpResult>(lists)))->get());
  if (auto branch = lists.getDefiningOp<scf::IfOp>()) {
    unsigned index = cast<OpResult>(lists).getResultNumber();
    return branch.thenYield().getOperand(index).getDefiningOp<tensor::EmptyOp>() &&
           isSelected(branch.elseYield().getOperand(index));
  }
  auto select = lists.getDefiningOp<mla::TopKOp>();
  return select && !select.getLengths();
}

IndexKernel::IndexKernel(StepLowering &step, mla::ConvertIndicesOp op)
    : step(step), op(op), rows(PositionRows::ofPlan(step, op.getCache(), op.getBatch())),
      tileRows(step.shapes.rows) {
  TensorRef positions = step.lookup(op.getPositions());
  width = positions.size(1);
  block = findRowBlock(step, width);
  isFolded = block != 0;
  if (!isFolded)
    block = blockWidth(width, step.shapes.columns);
  columns = isFolded ? step.shapes.foldedColumns(block) : block;
  args = {positions.buffer, step.allocate(op.getResult()).buffer, step.value(positions.sizes[0]),
          step.metadata("req_id_per_token")};
  llvm::append_range(args, rows.args());
  if (op.getPrefillRequests())
    args.append({step.lookup(op.getPrefillRequests()).buffer,
                 step.lookup(op.getWorkspaceStarts()).buffer,
                 step.dim(op.getBatch(), "num_requests")});
  if (op.getWorkspace())
    args.append({step.metadata("gather_req_id_per_token"), step.metadata("gather_starts"),
                 step.dim(op.getBatch(), "num_requests")});
  if (needsEnds(op.getResult()))
    askForEnds(positions.sizes[0]);
}

void IndexKernel::askForEnds(OpFoldResult tokens) {
  bool isSelection = isFolded && isSelected(op.getPositions());
  int64_t parts = isSelection ? 1 : countParts();
  if (parts > kMostEnds)
    return;
  end = isSelection ? ListEnd::OfSelection : ListEnd::OfEntries;
  OpBuilder &builder = step.plan();
  OpBuilder::InsertionGuard guard(builder);
  // Ahead of all branches: who reads the lists may be in another one of the same condition.
  Operation *ahead = builder.getInsertionBlock()->getParentOp();
  if (!isa<tile::PlanOp>(ahead)) {
    while (!isa<tile::PlanOp>(ahead->getParentOp()))
      ahead = ahead->getParentOp();
    builder.setInsertionPoint(ahead);
  }
  TensorRef ends =
      step.workspace({tokens, OpFoldResult(builder.getIndexAttr(parts))}, builder.getI32Type());
  endsArg = args.size();
  args.push_back(ends.buffer);
  if (isSelection)
    llvm::append_range(args, TokenArrays::ofPlan(step).args());
  step.setListEnds(op.getResult(), ends);
}

/// The lists of few tokens are cut into pieces for all multiprocessors, so that blocks without a key
/// cost little, and attention waits for this kernel: with a maximum over its list a layer of one
/// request of 8192 tokens took 4 us more.
void IndexKernel::launch() {
  if (end != ListEnd::OfEntries || !isFolded)
    return launch("convert_indices", end);
  constexpr int64_t kFewPieces = 4;
  step.versionByRows(
      args[kTokens], step.machine.numSms / kFewPieces,
      [&] { launch("convert_indices", ListEnd::OfList); },
      [&] { launch("convert_indices_many", end); });
}

void IndexKernel::launch(StringRef name, ListEnd end) {
  std::array<Value, 3> grid = {isFolded ? args[kTokens] : step.ceilDiv(args[kTokens], tileRows),
                               step.constant(countParts()), step.constant(1)};
  step.launch(
      name, grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner, end); },
      op.getPrefillRequests() ? step.chainedReading(args[kPrefills]) : step.chained());
}

static Value compare(KernelBuilder &b, Predicate predicate, Value left, Value right) {
  return arith::CmpIOp::create(b, predicate, left, right);
}

static ArrayRef<int64_t> shapeOf(Value tile) {
  return cast<RankedTensorType>(tile.getType()).getShape();
}

static Value splatIndex(KernelBuilder &b, Value index, Value like) {
  return b.splat(b.toI32(index), shapeOf(like));
}

static Value loadElements(KernelBuilder &b, Value view, ValueRange indices) {
  return tile::LoadElementsOp::create(b, indices.front().getType(), view, indices);
}

/// What a list of `count` has for the tokens of the program's rows.
Value IndexKernel::ofTokens(KernelBuilder &b, Value list, Value count, Value first) const {
  if (isFolded)
    return b.splat(b.toI32(b.loadScalar(list, first)), {tileRows});
  Value view = b.view(list, b.fixed(0), {OpFoldResult(count)}, {b.fixed(1)});
  return b.load(view, {first}, {tileRows});
}

/// Sums that overflow are negative, too.
Value IndexKernel::rowOfWorkspace(KernelBuilder &b, ValueRange args, Value position,
                                  Value prefills) {
  Value starts = b.view(args[kStarts], b.fixed(0), {OpFoldResult(args[kNumStarts])}, {b.fixed(1)});
  Value isPrefill = compare(b, Predicate::ult, prefills, splatIndex(b, args[kNumStarts], prefills));
  Value start = b.select(isPrefill, loadElements(b, starts, prefills),
                         b.constantI32(shapeOf(prefills), std::numeric_limits<int32_t>::min()));
  Value place = b.add(b.broadcast(start, columns), position);
  Value none = b.constantI32(shapeOf(place), -1);
  return arith::MaxSIOp::create(b, place, none);
}

/// Of each row of the tile the place behind its last valid entry, or 0; of a folded one, whose rows
/// are alike, of all of it. Places are exact in f32, which tiles are reduced in.
Value IndexKernel::findEnds(KernelBuilder &b, Value result, Value column) const {
  static_assert(mla::TopKOp::kMostSelected < 1 << 24);
  ArrayRef<int64_t> shape = shapeOf(result);
  Value place = b.add(b.iota(1, shape), splatIndex(b, column, result));
  if (isFolded)
    place = b.add(place, arith::MulIOp::create(b, b.iota(0, shape), b.constantI32(shape, columns)));
  Value behind = isFolded ? b.add(column, block) : b.index(width); // rows of the tile that are none
  Value none = b.constantI32(shape, 0);
  Value isEntry =
      arith::AndIOp::create(b, compare(b, Predicate::slt, place, splatIndex(b, behind, result)),
                            compare(b, Predicate::sge, result, none));
  Value ends = b.select(isEntry, b.add(place, b.constantI32(shape, 1)), none);
  ends = arith::SIToFPOp::create(b, RankedTensorType::get(shape, b.getF32Type()), ends);
  Value last =
      isFolded ? RowKernel(step, b, block, /*stride=*/1, columns).most(ends) : b.reduceMax(ends);
  auto type = RankedTensorType::get({tileRows, kWidthMultiple}, b.getI32Type());
  return arith::FPToSIOp::create(b, type, b.broadcast(last, kWidthMultiple));
}

/// Of the one token that a folded program has: `end` is a tile of equal rows.
void IndexKernel::storeOwnEnd(KernelBuilder &b, ValueRange args, Value end, Value token) const {
  int64_t parts = this->end == ListEnd::OfSelection ? 1 : countParts();
  Value part = b.programId(1), first = b.mul(token, parts);
  Value count = b.choose(b.isBelow(part, b.index(parts)), b.index(1), b.index(0));
  Value own = b.view(args[endsArg], b.extent(b.add(first, part)), {OpFoldResult(count), b.fixed(1)},
                     {b.fixed(1), b.fixed(1)});
  b.store(end, own, {b.index(0), b.index(0)});
}

void IndexKernel::storeEnd(KernelBuilder &b, ValueRange args, ListEnd end, Value result,
                           Value token, Value column) const {
  SmallVector<int64_t, 2> shape = {tileRows, kWidthMultiple};
  auto splat = [&](Value number) { return b.splat(b.toI32(number), shape); };
  if (end == ListEnd::OfList)
    return storeOwnEnd(b, args, splat(b.add(column, block)), token);
  if (end == ListEnd::OfSelection) {
    Value keys = TokenArrays::inKernel(args.drop_front(endsArg + 1)).countKeys(b, token);
    return storeOwnEnd(b, args, splat(b.minimum(keys, b.index(width))), token);
  }
  Value ends = findEnds(b, result, column);
  if (isFolded)
    return storeOwnEnd(b, args, ends, token);
  Value ofAll =
      b.view(args[endsArg], b.extent(b.programId(1)), {OpFoldResult(args[kTokens]), b.fixed(1)},
             {b.fixed(countParts()), b.fixed(1)});
  b.store(ends, ofAll, {token, b.index(0)});
}

void IndexKernel::write(KernelBuilder &b, ValueRange args, ListEnd end) {
  b.markRowKernel();
  Value token = b.programId(0), column = b.mul(b.programId(1), block);
  if (!isFolded)
    token = b.mul(token, tileRows);
  SmallVector<Value, 2> at = {token, column};
  if (isFolded)
    at = {b.index(0), b.index(0)};
  auto view = [&](Argument buffer) {
    if (isFolded)
      return b.view(args[buffer], b.extent(b.add(b.mul(token, width), column)),
                    {b.fixed(block / columns), b.fixed(columns)}, {b.fixed(columns), b.fixed(1)});
    return b.view(args[buffer], b.fixed(0), {args[kTokens], b.fixed(width)},
                  {b.fixed(width), b.fixed(1)});
  };
  Value position = b.load(view(kPositions), at, {tileRows, columns});
  Value requests = ofTokens(b, args[kRequests], args[kTokens], token);
  Value result =
      rows.inKernel(args.drop_front(kRows)).find(b, position, b.broadcast(requests, columns));
  if (op.getPrefillRequests() || op.getWorkspace()) {
    Value prefills = ofTokens(b, args[kPrefills], args[kTokens], token);
    Value isDecode = compare(b, Predicate::slt, b.broadcast(prefills, columns),
                             b.constantI32(shapeOf(position), 0));
    result = b.select(isDecode, result, rowOfWorkspace(b, args, position, prefills));
  }
  Value isPosition = compare(b, Predicate::sge, position, b.constantI32(shapeOf(position), 0));
  result = b.select(isPosition, result, b.constantI32(shapeOf(result), -1));
  b.store(result, view(kResult), at);
  if (end != ListEnd::Unasked)
    storeEnd(b, args, end, result, token, column);
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::ConvertIndicesOp op) {
  IndexKernel(step, op).launch();
  return success();
}
