//===- RelayScores.cpp - the role that owns scores and softmax ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An item of n blocks, S(i) the scores of block i, W(i) its weights:
//
//     S(0) | step: softmax(0), S(1) | step: softmax(1), S(2) | ... | softmax(n-1)
//
// A step issues the left part of the next scores between the exponentials and
// the narrowing of its own, when the old scores' registers are free. Two steps
// make one turn of the loop, so that the two accumulators in flight need no
// copies (ptxas would serialise). Only the last two blocks can hold keys that a
// row does not see, but for lists, any entry of which may name no row.
//
//===----------------------------------------------------------------------===//

#include "Relay/RelayKernel.h"
#include "Relay/RelayModel.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

/// What changes from block to block.
struct relay::Kernel::ScoreState {
  LazyCloner cloner;
  Value scores;
  SmallVector<Value> carried;       // of the key loop, null for the output
  SmallVector<Value, 2> queryTiles; // of the item, what products read
  Value left, right, ropes, queries, weights, scale;
  Value gap; // whether the present block of a list needs its mask; null without

  SmallVector<Value> pack() const {
    SmallVector<Value> values{scores};
    if (gap)
      values.push_back(gap);
    llvm::append_range(values, llvm::make_filter_range(carried, [](Value v) { return bool(v); }));
    values.append({left, right, ropes, weights});
    return values;
  }
  void unpack(ValueRange values) {
    scores = values[0];
    unsigned index = 1;
    if (gap)
      gap = values[index++];
    for (Value &value : carried)
      if (value)
        value = values[index++];
    for (Value *stage : {&left, &right, &ropes, &weights})
      *stage = values[index++];
  }
};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// What `item`'s queries have in their ring, by one thread: the right half and the RoPE part, and
/// the left half where no registers keep it.
void relay::Kernel::loadQueries(Value item, Value stage) {
  LazyCloner cloner(entry, [](Operation *, Type type) { return convertRoleType(type); });
  auto elect = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elect.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elect.getBody().front());
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, item, end);
  auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  cloner.map(loop.items.getInductionVar(), item);
  sm90::AcquireOp::create(b, queries, stage);
  int64_t bytes = cast<sm90::RingType>(queries.getType()).getStageBytes();
  sm90::ExpectOp::create(b, queries, stage, 0, bytes);
  SmallVector<Value> place = queryMaps[0].getCoordinates(b, cloner);
  Value tile = tileOf(queries, stage, 0);
  for (int64_t panel = keepsQueries() ? shape.leftPanels : 0, first = panel;
       panel < shape.leftPanels + shape.rightPanels; panel += shape.leftPanels) {
    place.back() = constantIndex(panel * sm90::kPanelColumns);
    sm90::TmaLoadOp::create(b, queryMaps[0].getMap(), place,
                            panels(tile, panel - first, shape.leftPanels), queries, stage, 0, 0,
                            IntegerAttr());
  }
  if (!shape.hasRope())
    return;
  SmallVector<Value> ropePlace = queryMaps[1].getCoordinates(b, cloner);
  ropePlace.back() = constantIndex(0);
  sm90::TmaLoadOp::create(b, queryMaps[1].getMap(), ropePlace, tileOf(queries, stage, 1), queries,
                          stage, 0, 0, IntegerAttr());
}

/// A: the left half, from queries in `registers`.
Value relay::Kernel::multiplyLeft(ScoreState &state, Value registers) {
  RankedTensorType type = getFragmentType(loop.getBlockKeys(), b.getF32Type());
  Value zero = arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getF32FloatAttr(0)));
  sm90::AwaitOp::create(b, left, state.left, 0);
  sm90::WgmmaFenceOp::create(b);
  Value scores = sm90::WgmmaOp::create(b, type, registers, tileOf(left, state.left, 0), zero,
                                       /*transpose_lhs=*/false, /*transpose_rhs=*/true);
  sm90::WgmmaCommitOp::create(b);
  state.left = next(state.left, left);
  return scores;
}

/// B: the right half and RoPE; opens the gate on the way if there is a stage for
/// it. Returns finished scores. Of a list, the entries at `position` are read under them.
Value relay::Kernel::multiplyRight(ScoreState &state, Value scores, Value gateStage,
                                   Value position) {
  bool hasGate = gateStage && gate && options.gateEarlyPanels > 0;
  int64_t behindGate = shape.rightPanels + shape.ropePanels - options.gateEarlyPanels;
  auto multiply = [&](Value query, Value keys, int64_t panel) {
    scores = sm90::WgmmaOp::create(b, scores.getType(), panels(query, panel, 1),
                                   panels(keys, panel, 1), scores, /*transpose_lhs=*/false,
                                   /*transpose_rhs=*/true);
    if (hasGate && --behindGate == 0)
      sm90::WgmmaCommitOp::create(b);
  };
  auto multiplyRope = [&] {
    sm90::AwaitOp::create(b, ropes, state.ropes, 0);
    sm90::WgmmaFenceOp::create(b);
    for (int64_t panel = 0; panel < shape.ropePanels; ++panel)
      multiply(state.queryTiles[1], tileOf(ropes, state.ropes, 0), panel);
  };
  // Rows that threads copied need a proxy fence behind the wait: one for both. Else
  // RoPE is what a slot's refill copies last, so it is multiplied last.
  bool isRopeFirst = shape.hasRope() && !shape.usesTma;
  if (isRopeFirst) {
    sm90::AwaitOp::create(b, right, state.right, 0);
    multiplyRope();
  }
  Value keys = tileOf(right, state.right, 0);
  for (int64_t panel = 0; panel < shape.rightPanels; ++panel) {
    if (panel % options.rightPanelsPerPart == 0 && !isRopeFirst) {
      sm90::AwaitOp::create(b, right, state.right, panel / options.rightPanelsPerPart);
      sm90::WgmmaFenceOp::create(b);
    }
    multiply(state.queryTiles[0], keys, panel);
  }
  if (shape.hasRope() && !isRopeFirst)
    multiplyRope();
  sm90::WgmmaCommitOp::create(b);
  state.gap = findGap(state.cloner, position);
  if (hasGate) {
    sm90::WgmmaWaitOp::create(b, TypeRange(), /*pending=*/1, ValueRange());
    sm90::PublishOp::create(b, gate, gateStage, 0);
  }
  auto wait = sm90::WgmmaWaitOp::create(b, scores.getType(), /*pending=*/0, scores);
  if (gateStage && gate && !hasGate)
    sm90::PublishOp::create(b, gate, gateStage, 0);
  if (shape.hasRope()) {
    sm90::ReleaseOp::create(b, ropes, state.ropes, /*remote=*/false);
    state.ropes = next(state.ropes, ropes);
  }
  state.right = next(state.right, right);
  return wait.getResult(0);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// The softmax of `state.scores`: publishes weights and factors, and replaces
/// the carried state. `position`, where given, is the
/// loop's position at the block, whose mask matters then.
void relay::Kernel::emitSoftmax(ScoreState &state, Value position,
                                llvm::function_ref<void()> issueNext) {
  LazyCloner &cloner = state.cloner;
  LazyCloner::Scope scope(cloner);
  for (auto [argument, value] : llvm::zip_equal(loop.keys.getRegionIterArgs(), state.carried))
    if (value)
      cloner.map(argument, value);
  cloner.map(loop.getScores(), state.scores);
  if (position)
    cloner.map(loop.keys.getInductionVar(), position);
  else if (loop.mask)
    cloner.map(loop.mask.getResult(), state.scores);
  if (state.gap)
    maskWhere(cloner, state.gap);

  Value correction = cloner.get(loop.correction);
  // Done before the next scores start: these take the old ones' registers.
  Value numerators = sm90::PinOp::create(b, cloner.get(loop.numerators));
  cloner.map(loop.numerators, numerators);
  SmallVector<Value> carried(state.carried.size());
  for (auto [index, yielded] : llvm::enumerate(loop.keys.getYieldedValues())) {
    if (index == loop.outputIndex || index == loop.sum.index)
      continue;
    carried[index] = cloner.get(yielded);
  }
  // The lanes' shares of the sum; they meet after the loop (finishRows).
  Value old = state.carried[loop.sum.index];
  Value share = sm90::ReduceOp::create(b, old.getType(), sm90::ReduceKind::Sum,
                                       cloner.get(loop.sum.reduce.getSource()), Value());
  Value factor = sm90::BroadcastOp::create(b, old.getType(), cloner.get(loop.sum.factor));
  carried[loop.sum.index] = arith::AddFOp::create(b, arith::MulFOp::create(b, old, factor), share);
  state.carried = carried;
  if (issueNext)
    issueNext();

  Value narrow = cloner.get(loop.weights);
  sm90::AcquireOp::create(b, weights, state.weights);
  sm90::StoreSharedOp::create(b, correction, factorsOf(state.weights),
                              /*transposed=*/false, /*column=*/IntegerAttr());
  sm90::StoreSharedOp::create(b, narrow, tileOf(weights, state.weights, 0), /*transposed=*/false,
                              /*column=*/IntegerAttr());
  sm90::PublishOp::create(b, weights, state.weights, 0);
}

/// Where the block behind `position` is.
Value relay::Kernel::findNext(Value position) {
  return position ? arith::AddIOp::create(b, position, constantIndex(loop.getStep())).getResult()
                  : Value();
}

/// The softmax of the present block and the scores of the next one.
void relay::Kernel::emitStep(ScoreState &state, Value registers, Value position, bool isLast) {
  Value gateStage = state.weights;
  Value scores;
  emitSoftmax(state, position, [&] {
    if (!isLast)
      scores = multiplyLeft(state, registers);
  });
  state.weights = next(state.weights, weights);
  if (!isLast)
    state.scores = multiplyRight(state, scores, gateStage, findNext(position));
  else if (gate)
    sm90::PublishOp::create(b, gate, gateStage, 0);
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

/// Steps over all blocks but the last two, without masks but for lists: where turns have two
/// steps, first one if their number is odd.
void relay::Kernel::emitUnmasked(ScoreState &state, Value registers, Value blocks) {
  Value zero = constant32(0), steps = arith::SubIOp::create(b, blocks, constant32(2));
  auto repeat = [&](Value from, Value to, int64_t stepsPerTurn) {
    auto turns = createLoop(
        from, to, state.pack(), /*atLeastOnce=*/false, [&](Value turn, ValueRange values) {
          LazyCloner::Scope scope(state.cloner);
          state.unpack(values);
          Value position = shape.isListed ? positionOf(state.cloner, turn) : Value();
          for (int64_t step = 0; step < stepsPerTurn; ++step)
            emitStep(state, registers, position, /*isLast=*/false);
          return state.pack();
        });
    state.unpack(turns.getResults());
  };
  if (options.stepsPerTurn == 1)
    return repeat(zero, steps, 1);
  Value known = arith::MaxSIOp::create(b, steps, zero), two = constant32(2);
  repeat(zero, arith::RemUIOp::create(b, known, two), 1);
  repeat(zero, arith::DivUIOp::create(b, known, two), 2);
}

/// What the output roles need of the row vectors behind the loop.
void relay::Kernel::publishCrossingRows(LazyCloner &cloner, Value &stage) {
  if (!scale)
    return;
  sm90::AcquireOp::create(b, scale, stage);
  for (auto [index, rows] : llvm::enumerate(crossingRows))
    sm90::StoreSharedOp::create(b, cloner.get(rows), tileOf(scale, stage, index),
                                /*transposed=*/false, /*column=*/IntegerAttr());
  sm90::PublishOp::create(b, scale, stage, 0);
  stage = next(stage, scale);
}

/// The row vectors behind the loop: what the output roles need goes to them,
/// what is stored is stored.
void relay::Kernel::finishRows(ScoreState &state) {
  LazyCloner &cloner = state.cloner;
  for (auto [index, value] : llvm::enumerate(state.carried)) {
    if (!value)
      continue;
    if (index == loop.sum.index)
      value = sm90::ReduceOp::create(b, convertRoleType(loop.keys.getResult(index).getType()),
                                     sm90::ReduceKind::Sum, value, Value());
    cloner.map(loop.keys.getResult(index), value);
  }
  publishCrossingRows(cloner, state.scale);
  emitEpilogue(cloner, /*rank=*/1, /*firstColumn=*/0, /*scratch=*/Value());
}

/// Rows of the request in the program's tile, where it may lack some: i32, beyond 64 for all.
Value relay::Kernel::countPresentRows() {
  auto most = loop.kernel->getAttrOfType<IntegerAttr>(tile::kMaxRowsAttr);
  if (!most || most.getInt() % sm90::kTileRows == 0)
    return {};
  Value before =
      arith::MulIOp::create(b, to32(sm90::ProgramIdOp::create(b, 0)), constant32(sm90::kTileRows));
  return arith::SubIOp::create(b, constant32(most.getInt()), before);
}

/// Zeros in the queries' rows that the request does not have: copies bring another request's,
/// whose products take more power.
void relay::Kernel::clearAbsentRows(ValueRange tiles) {
  Value rows = countPresentRows();
  if (!rows)
    return;
  Value isShort =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, constant32(sm90::kTileRows));
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (Value tile : tiles)
    sm90::ZeroRowsOp::create(b, tile, toIndex(rows));
  sm90::BarrierOp::create(b);
}

/// Above every score where there is no row: its weights are zeros.
Value relay::Kernel::startReference(Value start) {
  Value present = countPresentRows();
  if (!present)
    return start;
  auto type = cast<RankedTensorType>(start.getType());
  Type numbers = type.clone(b.getI32Type());
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                        sm90::IotaOp::create(b, numbers, /*dim=*/0),
                                        sm90::SplatOp::create(b, numbers, present));
  Value above = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getF32FloatAttr(-tile::AttendOp::kStartReference)));
  return arith::SelectOp::create(b, isThere, start, above);
}

/// The left half of the item's queries, out of the left ring.
Value relay::Kernel::takeQueries(ScoreState &state) {
  sm90::AwaitOp::create(b, left, state.left, 0);
  Value tile = tileOf(left, state.left, 0);
  clearAbsentRows(tile);
  Value registers =
      sm90::LoadSharedOp::create(b, getFragmentType(shape.getLeftColumns(), shape.element), tile);
  sm90::ReleaseOp::create(b, left, state.left, /*remote=*/false);
  state.left = next(state.left, left);
  return registers;
}

/// What the queries' ring has, and, where it meets codes, in their order and times what these lack.
SmallVector<Value, 2> relay::Kernel::awaitQueries(LazyCloner &cloner, Value stage) {
  sm90::AwaitOp::create(b, queries, stage, 0);
  SmallVector<Value, 2> tiles = {tileOf(queries, stage, 0)};
  if (shape.hasRope())
    tiles.push_back(tileOf(queries, stage, 1));
  clearAbsentRows(tiles);
  if (!shape.hasCodes)
    return tiles;
  Value rest = getCodeRest(cloner, b.getF32Type());
  for (auto [index, tile] : llvm::enumerate(tiles)) {
    auto type = cast<sm90::SmemType>(tile.getType());
    if (index == 0 || shape.hasRopeCodes)
      tile =
          sm90::OrderRunsOp::create(b, sharedType(type.getRows(), type.getColumns()), tile, rest);
  }
  sm90::BarrierOp::create(b);
  return tiles;
}

void relay::Kernel::emitScoresItem(ScoreState &state) {
  LazyCloner &cloner = state.cloner;
  Value blocks = countBlocks(cloner);
  Value registers = takeQueries(state);
  state.queryTiles = awaitQueries(cloner, state.queries);
  state.scores = multiplyRight(state, multiplyLeft(state, registers), Value(),
                               positionOf(cloner, constant32(0)));
  for (auto [index, init] : llvm::enumerate(loop.keys.getInitArgs())) {
    if (index == loop.outputIndex)
      state.carried.push_back(Value());
    else if (index != loop.sum.index)
      state.carried.push_back(startReference(cloner.get(init)));
    else
      state.carried.push_back(arith::ConstantOp::create(
          b, DenseElementsAttr::get(RankedTensorType::get({sm90::kTileRows, sm90::kQuadLanes},
                                                          b.getF32Type(),
                                                          sm90::PartialAttr::get(b.getContext())),
                                    b.getF32FloatAttr(0))));
  }
  emitUnmasked(state, registers, blocks);

  Value hasTwo = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, blocks, constant32(1));
  SmallVector<Value> before = state.pack();
  auto last = scf::IfOp::create(b, TypeRange(ValueRange(before)), hasTwo, true);
  {
    OpBuilder::InsertionGuard guard(b);
    LazyCloner::Scope scope(cloner);
    b.setInsertionPointToStart(last.thenBlock());
    // Not of `blocks - 2`, which the loop before is bounded by: it would be kept.
    Value behind = positionOf(cloner, arith::SubIOp::create(b, blocks, constant32(1)));
    Value position = arith::SubIOp::create(b, behind, constantIndex(loop.getStep()));
    emitStep(state, registers, position, /*isLast=*/false);
    scf::YieldOp::create(b, state.pack());
    b.setInsertionPointToStart(last.elseBlock());
    scf::YieldOp::create(b, before);
  }
  state.unpack(last.getResults());
  // All products with these queries are done.
  sm90::ReleaseOp::create(b, queries, state.queries, /*remote=*/false);
  state.queries = next(state.queries, queries);
  Value item = cloner.get(loop.items.getInductionVar());
  loadQueries(arith::AddIOp::create(b, item, constantIndex(1)), state.queries);
  Value position = positionOf(cloner, arith::SubIOp::create(b, blocks, constant32(1)));
  emitStep(state, registers, position, /*isLast=*/true);
  finishRows(state);
}

void relay::Kernel::emitScores() {
  auto convert = [](Operation *, Type type) { return convertRoleType(type); };
  Value start = sm90::StageStartOp::create(b);
  waitForDependency();
  loadQueries(begin, start);
  createLoop(to32(begin), to32(end), SmallVector<Value>(6, start), /*atLeastOnce=*/true,
             [&](Value item, ValueRange stages) {
               ScoreState state{LazyCloner(entry, convert),
                                Value(),
                                {},
                                {},
                                stages[0],
                                stages[1],
                                stages[2],
                                stages[3],
                                stages[4],
                                stages[5]};
               state.cloner.map(loop.items.getInductionVar(), toIndex(item));
               emitScoresItem(state);
               return SmallVector<Value>{state.left,    state.right,   state.ropes,
                                         state.queries, state.weights, state.scale};
             });
}
