//===- PingPongConsumer.cpp - the role of one program of an item ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An item of n blocks, the last first:
//
//     S(n-1), softmax | step: S(n-2), P(n-1)·V(n-1), softmax | ... | P(0)·V(0) | stores
//
// Where attention goes on from a partial, its rows are loaded into the registers of
// output, maximum and sum before S(n-1), so that memory answers under it.
//
//===----------------------------------------------------------------------===//

#include "Common/SoftmaxRole.h"
#include "PingPong/PingPongKernel.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::pingpong;

/// Named barriers: a consumer's turn, and where both meet behind zeroed rows.
static constexpr int32_t kFirstTurn = 8, kMeeting = kFirstTurn + kConsumers;

/// What changes from block to block.
struct pingpong::Kernel::State {
  int32_t consumer;
  LazyCloner cloner;
  Value scores, weights, output, correction;
  SmallVector<Value> carried;         // of the key loop, null for the output
  Value queries, keys, values, items; // stages
  Value item, request;                // the next item's number in its request, i32
  Value first;                        // position of the item's first block

  SmallVector<Value> pack() const {
    SmallVector<Value> all{weights, output, keys, values};
    llvm::append_range(all, llvm::make_filter_range(carried, [](Value v) { return bool(v); }));
    return all;
  }
  void unpack(ValueRange all) {
    weights = all[0], output = all[1], keys = all[2], values = all[3];
    unsigned index = 4;
    for (Value &value : carried)
      if (value)
        value = all[index++];
  }
};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Q · Kᵀ of the block at `state.keys`, in flight.
Value pingpong::Kernel::startScores(State &state) {
  Value ring = queries[state.consumer];
  RankedTensorType type = getFragmentType(options.keyBlock, b.getF32Type());
  Value scores = arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getF32FloatAttr(0)));
  sm90::WgmmaFenceOp::create(b);
  for (unsigned term = 0; term < loop.terms.size(); ++term)
    scores = sm90::WgmmaOp::create(b, type, tileOf(ring, state.queries, term),
                                   tileOf(keys, state.keys, term), scores,
                                   /*transpose_lhs=*/false, /*transpose_rhs=*/true);
  sm90::WgmmaCommitOp::create(b);
  return scores;
}

void pingpong::Kernel::finishScores(State &state, Value scores, uint32_t pending) {
  state.scores = sm90::WgmmaWaitOp::create(b, scores.getType(), pending, scores).getResult(0);
  sm90::ReleaseOp::create(b, keys, state.keys, /*remote=*/false);
  state.keys = next(state.keys, keys);
}

/// O + P · V of the block at `state.values`, in flight.
Value pingpong::Kernel::startProduct(State &state) {
  sm90::WgmmaFenceOp::create(b);
  Value output = sm90::WgmmaOp::create(b, state.output.getType(), state.weights,
                                       tileOf(values, state.values, 0), state.output,
                                       /*transpose_lhs=*/false, /*transpose_rhs=*/false);
  sm90::WgmmaCommitOp::create(b);
  return output;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Of a block's keys those that each row's marks name, as words: nothing without marks. Loaded
/// ahead of the scores, so that memory answers under them.
SmallVector<Value> pingpong::Kernel::loadMarks(State &state, Value position) {
  SmallVector<Value> words;
  if (!loop.marks)
    return words;
  auto load = loop.marks.getWords().front().getDefiningOp<tile::LoadOp>();
  for (int64_t first = 0; first < options.keyBlock; first += tile::AttendOp::kWordKeys) {
    LazyCloner::Scope scope(state.cloner);
    Value key = arith::AddIOp::create(b, position, constantIndex(first));
    state.cloner.map(loop.keys.getInductionVar(), key);
    words.push_back(sm90::LoadOp::create(b, convertRoleType(load.getType()),
                                         state.cloner.get(load.getView()),
                                         state.cloner.get(load.getOffsets()), /*paired=*/false));
  }
  return words;
}

/// The softmax of `state.scores` up to the numerators, which stay in the scores'
/// registers: `state.scores` are the numerators then. `position`, where given, is the
/// loop's position at the block, whose mask matters then; marks always do.
void pingpong::Kernel::emitSoftmax(State &state, Value position, ValueRange marks) {
  LazyCloner cloner(state.cloner, [this](Operation *, Type type) { return convertLoopType(type); });
  for (auto [argument, value] : llvm::zip_equal(loop.keys.getRegionIterArgs(), state.carried))
    if (value)
      cloner.map(argument, value);
  cloner.map(loop.getScores(), state.scores);
  if (loop.marks)
    cloner.map(
        loop.marks.getResult(),
        sm90::TestBitsOp::create(b, convertLoopType(loop.marks.getType()), marks).getResult());
  if (position)
    cloner.map(loop.keys.getInductionVar(), position);
  else
    cloner.map(loop.mask.getResult(), cloner.get(loop.mask.getTrueValue()));
  state.correction = cloner.get(loop.correction);
  // Under the product in flight, not behind the wait for it.
  Value numerators = sm90::PinOp::create(b, cloner.get(loop.numerators));
  cloner.map(loop.numerators, numerators);
  SmallVector<Value> carried(state.carried.size());
  for (auto [index, yielded] : llvm::enumerate(loop.keys.getYieldedValues()))
    if (index != loop.outputIndex && index != loop.sum.index)
      carried[index] = cloner.get(yielded);
  // The lanes' shares of the sum; they meet behind the loop (finishItem).
  Value old = state.carried[loop.sum.index];
  Value share = sm90::ReduceOp::create(b, old.getType(), sm90::ReduceKind::Sum,
                                       cloner.get(loop.sum.reduce.getSource()), Value());
  Value factor = sm90::BroadcastOp::create(b, old.getType(), cloner.get(loop.sum.factor));
  carried[loop.sum.index] = arith::AddFOp::create(b, arith::MulFOp::create(b, old, factor), share);
  state.carried = carried;
  state.scores = numerators;
}

/// Gives the queries back if `isNow`: all scores with them are done.
void pingpong::Kernel::releaseQueries(State &state, Value isNow) {
  auto branch = scf::IfOp::create(b, isNow, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sm90::ReleaseOp::create(b, queries[state.consumer], state.queries, /*remote=*/false);
}

/// Scores and softmax of the next block, around the product of this one.
void pingpong::Kernel::emitStep(State &state, Value position, bool isMasked) {
  SmallVector<Value> marks = loadMarks(state, position);
  constexpr int32_t warps = kConsumers * sm90::kWarpgroupWarps;
  sm90::AwaitOp::create(b, keys, state.keys, 0);
  sm90::NamedBarrierOp::create(b, kFirstTurn + state.consumer, warps, /*arrive=*/false);
  Value scores = startScores(state);
  sm90::AwaitOp::create(b, values, state.values, 0);
  Value output = startProduct(state);
  sm90::NamedBarrierOp::create(b, kFirstTurn + 1 - state.consumer, warps, /*arrive=*/true);
  finishScores(state, scores, /*pending=*/1);
  emitSoftmax(state, isMasked ? position : Value(), marks);
  output = sm90::WgmmaWaitOp::create(b, output.getType(), /*pending=*/0, output).getResult(0);
  sm90::ReleaseOp::create(b, values, state.values, /*remote=*/false);
  state.values = next(state.values, values);
  state.output = rescaleIfNeeded(b, output, state.correction);
  state.weights = arith::TruncFOp::create(
      b, getFragmentType(options.keyBlock, loop.getElementType()), state.scores);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

/// Zeros in the values' rows behind the request's end, in the block that comes first.
void pingpong::Kernel::clearTail(State &state, Value blocks) {
  Value position = positionOf(state.first, arith::SubIOp::create(b, blocks, constant32(1)));
  Value count = state.cloner.get(valueBlocks.front().getRowCount());
  Value rows = arith::SubIOp::create(b, count, position);
  Value isShort =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, constantIndex(options.keyBlock));
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sm90::AwaitOp::create(b, values, state.values, 0);
  if (state.consumer == 0)
    sm90::ZeroRowsOp::create(b, tileOf(values, state.values, 0), rows);
  sm90::NamedBarrierOp::create(b, kMeeting, kConsumers * sm90::kWarpgroupWarps, /*arrive=*/false);
}

/// The next item, or no request's number behind the last one.
void pingpong::Kernel::receiveItem(State &state) {
  sm90::AwaitOp::create(b, items, state.items, 0);
  auto [itemSlot, requestSlot] = slotsOf(state.cloner);
  state.item = memref::LoadOp::create(b, entry.get(loop.counters), itemSlot);
  state.request = memref::LoadOp::create(b, entry.get(loop.counters), requestSlot);
  sm90::ReleaseOp::create(b, items, state.items, /*remote=*/false);
  state.items = RoleKernel::next(state.items, items);
}

/// The next item's number arrives under the last product.
void pingpong::Kernel::finishItem(State &state) {
  LazyCloner &cloner = state.cloner;
  sm90::AwaitOp::create(b, values, state.values, 0);
  Value output = startProduct(state);
  receiveItem(state);
  output = sm90::WgmmaWaitOp::create(b, output.getType(), /*pending=*/0, output).getResult(0);
  sm90::ReleaseOp::create(b, values, state.values, /*remote=*/false);
  state.values = next(state.values, values);
  for (auto [index, value] : llvm::enumerate(state.carried)) {
    if (value && index == loop.sum.index)
      value = sm90::ReduceOp::create(b, convertRoleType(loop.keys.getResult(index).getType()),
                                     sm90::ReduceKind::Sum, value, Value());
    cloner.map(loop.keys.getResult(index), value ? value : output);
  }
  emitEpilogue(b, cloner, loop, loop.programs, /*rank=*/0, [&](tile::StoreOp store) {
    emitStore(b, cloner, store, /*firstColumn=*/0, scratch[state.consumer]);
  });
}

/// What the loop's state is computed from: under way under the first scores.
void pingpong::Kernel::loadStarts(State &state) {
  for (tile::LoadOp load : loop.starts) {
    Value view = state.cloner.get(load.getView());
    SmallVector<Value> offsets = state.cloner.get(load.getOffsets());
    bool paired = offsets.size() == 2 && arePaired(load.getView(), load.getOffsets().back());
    state.cloner.map(load.getResult(), sm90::LoadOp::create(b, convertRoleType(load.getType()),
                                                            view, offsets, paired));
  }
}

/// What the loop over keys starts with; the sum as the lanes' shares.
void pingpong::Kernel::startState(State &state) {
  state.carried.clear();
  auto shares = RankedTensorType::get({sm90::kTileRows, sm90::kQuadLanes}, b.getF32Type(),
                                      sm90::PartialAttr::get(b.getContext()));
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(shares, b.getF32FloatAttr(value)));
  };
  for (auto [index, init] : llvm::enumerate(loop.keys.getInitArgs())) {
    if (index == loop.outputIndex)
      state.carried.push_back(Value());
    else if (index != loop.sum.index)
      state.carried.push_back(state.cloner.get(init));
    else if (matchPattern(init, m_AnyZeroFloat()))
      state.carried.push_back(constant(0));
    else
      state.carried.push_back(
          arith::MulFOp::create(b, sm90::BroadcastOp::create(b, shares, state.cloner.get(init)),
                                constant(1.0f / sm90::kQuadLanes)));
  }
}

/// The output before the first block's product, relative to the maximum behind it.
void pingpong::Kernel::startOutput(State &state) {
  state.output = state.cloner.get(loop.keys.getInitArgs()[loop.outputIndex]);
  if (!loop.starts.empty())
    state.output = rescaleIfNeeded(b, state.output, state.correction);
}

/// The blocks `last - step`, for steps from `from` to `to`.
void pingpong::Kernel::emitSteps(State &state, Value last, Value from, Value to, bool isMasked) {
  auto steps = createLoop(from, to, state.pack(), [&](Value step, ValueRange all) {
    state.unpack(all);
    Value position;
    if (isMasked || loop.marks)
      position = positionOf(state.first, arith::SubIOp::create(b, last, step));
    emitStep(state, position, isMasked);
    return state.pack();
  });
  state.unpack(steps.getResults());
}

/// The rows of an item, whose diagonal crosses the last blocks.
static constexpr int64_t kItemRows = kConsumers * sm90::kTileRows;

/// Null where the diagonal of dense keys crosses the first block only. Behind cached keys it
/// begins anywhere, so the blocks before it are counted.
Value pingpong::Kernel::countMaskedSteps(State &state, Value blocks) {
  if (loop.diagonal) {
    Value seen = arith::AddIOp::create(b, state.cloner.get(loop.diagonal), constantIndex(1));
    seen = to32(arith::SubIOp::create(b, seen, state.first));
    Value before = arith::DivUIOp::create(b, seen, constant32(options.keyBlock));
    Value rest = arith::SubIOp::create(b, blocks, before);
    return arith::MinSIOp::create(b, blocks, arith::MaxSIOp::create(b, rest, constant32(1)));
  }
  int64_t masked = llvm::divideCeil(kItemRows, options.keyBlock);
  if (kItemRows % options.keyBlock == 0 && masked == 1)
    return {};
  masked += kItemRows % options.keyBlock ? 1 : 0;
  return arith::MinSIOp::create(b, blocks, constant32(masked));
}

/// The first row's first key lies up to one of the tile program's blocks behind the first
/// position (tile.attend), the last row's as many keys later as there are rows.
int64_t pingpong::Kernel::countWindowSteps() const {
  if (!loop.hasWindow)
    return 0;
  return llvm::divideCeil(loop.getBlockKeys() + kItemRows, options.keyBlock);
}

void pingpong::Kernel::emitConsumerItem(State &state) {
  LazyCloner &cloner = state.cloner;
  LazyCloner::Scope scope(cloner);
  cloner.map(loop.requests.getInductionVar(), toIndex(state.request));
  cloner.map(loop.items.getInductionVar(), state.item);
  (void)cloner.get(loop.items.getUpperBound()); // what it loads of the request, once
  Value blocks = countBlocks(cloner);
  state.first = firstOf(cloner);
  cloner.map(loop.programs.getInductionVar(), constantIndex(state.consumer));
  loadStarts(state);
  Value last = arith::SubIOp::create(b, blocks, constant32(1));
  SmallVector<Value> marks = loadMarks(state, positionOf(state.first, last));
  sm90::AwaitOp::create(b, queries[state.consumer], state.queries, 0);
  sm90::AwaitOp::create(b, keys, state.keys, 0);
  finishScores(state, startScores(state), /*pending=*/0);
  startState(state);
  // Of a single block, the next queries have to arrive under its softmax. In the loop over
  // steps a branch behind the last scores would cost more than it gains: it splits what the
  // assembler sees as one block.
  auto isSingle = [&](arith::CmpIPredicate predicate) {
    return arith::CmpIOp::create(b, predicate, last, constant32(0));
  };
  releaseQueries(state, isSingle(arith::CmpIPredicate::eq));
  emitSoftmax(state, positionOf(state.first, last), marks);
  startOutput(state);
  state.weights = arith::TruncFOp::create(
      b, getFragmentType(options.keyBlock, loop.getElementType()), state.scores);
  clearTail(state, blocks);

  Value from = constant32(1), to = blocks;
  if (Value end = countMaskedSteps(state, blocks)) {
    emitSteps(state, last, from, end, /*isMasked=*/true);
    from = end;
  }
  if (int64_t masked = countWindowSteps())
    to = arith::MaxSIOp::create(b, from, arith::SubIOp::create(b, blocks, constant32(masked)));
  emitSteps(state, last, from, to, /*isMasked=*/false);
  if (loop.hasWindow)
    emitSteps(state, last, to, blocks, /*isMasked=*/true);
  releaseQueries(state, isSingle(arith::CmpIPredicate::ne));
  state.queries = next(state.queries, queries[state.consumer]);
  finishItem(state);
}

void pingpong::Kernel::emitConsumer(int32_t consumer) {
  auto convert = [](Operation *, Type type) { return convertRoleType(type); };
  Value start = sm90::StageStartOp::create(b);
  State state{
      consumer, LazyCloner(entry, convert), {}, {}, {}, {}, {}, start, start, start, start, {}, {},
      {}};
  // The first turn is the first consumer's, and it takes the one that is left over.
  auto meetAtFirstTurn = [&](bool arrives) {
    sm90::NamedBarrierOp::create(b, kFirstTurn, kConsumers * sm90::kWarpgroupWarps, arrives);
  };
  if (consumer != 0)
    meetAtFirstTurn(/*arrives=*/true);
  (void)slotsOf(state.cloner); // outside of the loop
  receiveItem(state);
  auto pack = [&]() {
    return SmallVector<Value>{state.item, state.request, state.queries,
                              state.keys, state.values,  state.items};
  };
  SmallVector<Value> first = pack();
  scf::WhileOp::create(
      b, TypeRange(ValueRange(first)), first,
      [&](OpBuilder &, Location, ValueRange all) {
        Value requests = to32(state.cloner.get(loop.requests.getUpperBound()));
        Value isOne = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, all[1], requests);
        scf::ConditionOp::create(b, isOne, all);
      },
      [&](OpBuilder &, Location, ValueRange all) {
        state.item = all[0], state.request = all[1], state.queries = all[2];
        state.keys = all[3], state.values = all[4], state.items = all[5];
        emitConsumerItem(state);
        scf::YieldOp::create(b, pack());
      });
  if (consumer == 0)
    meetAtFirstTurn(/*arrives=*/false);
}
