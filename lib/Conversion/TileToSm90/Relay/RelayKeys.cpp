//===- RelayKeys.cpp - scores of keys that go from codes to registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scores' role where keys are codes. Keys are on M: a thread's codes, four of a word, become
// the left operand of S^T = K Q^T without shared memory between, and the same registers are stored
// for the products with values. Per block:
//
//     RoPE | 64 columns of codes -> registers -> slot, product | the next 64, one product in flight
//     wait | does a maximum move? | exponentials, sum | P^T, transposed to P | publish slots and P
//
// Columns are in the runs of four in which a thread gets codes, so queries are put into the same
// order, once, and outputs are stored by it (Sm90CodeOps.td).
//
// A row of the softmax is a column here, spread over all warps. Its maximum is folded only if a
// score is beyond the carried reference by more than the lag: one vote of the role (sm90.role_any)
// says so, and in most blocks of most requests nothing is. Sums are kept by thread and folded
// behind the loop.
//
// Scales of rows come with their codes, through a ring: loaded by this role they cost 9 to 18 % of the
// kernel's time, for the addresses' sake (docs/lab/codes.md).
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"
#include "Relay/RelayOutputState.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

/// What changes from block to block.
struct relay::Kernel::KeyState {
  explicit KeyState(LazyCloner cloner) : cloner(std::move(cloner)) {}

  LazyCloner cloner;                // of tiles that are transposed
  SmallVector<Value> carried;       // of the key loop, null for the output
  SmallVector<Value, 2> queryTiles; // of the item
  SmallVector<Value> scales;        // of the block's rows, for each panel of the latent
  // Stages; the gate's is the block's before.
  Value leftCodes, left, rightCodes, right, ropes, queries, weights, scale, scaleStage, gate;

  SmallVector<Value *> getStages() {
    return {&leftCodes, &left,    &rightCodes, &right,      &ropes,
            &queries,   &weights, &scale,      &scaleStage, &gate};
  }
  SmallVector<Value> packStages() {
    return llvm::map_to_vector(getStages(), [](Value *stage) { return *stage; });
  }
  void unpackStages(ValueRange values) {
    for (auto [stage, value] : llvm::zip_equal(getStages(), values))
      *stage = value;
  }
  SmallVector<Value> pack() {
    SmallVector<Value> values =
        llvm::to_vector(llvm::make_filter_range(carried, [](Value v) { return bool(v); }));
    llvm::append_range(values, packStages());
    return values;
  }
  void unpack(ValueRange values) {
    for (Value &value : carried) {
      if (!value)
        continue;
      value = values.front();
      values = values.drop_front();
    }
    unpackStages(values);
  }
};

/// Of a block's scores, while they are multiplied.
struct relay::Kernel::Products {
  Value scores;
  int64_t count = 0; // products so far
};

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Those of the block's rows, for each panel of the latent.
void relay::Kernel::takeScales(KeyState &state) {
  state.scales.clear();
  if (!scales)
    return;
  sm90::AwaitOp::create(b, scales, state.scaleStage, 0);
  Value tile = tileOf(scales, state.scaleStage, 0);
  Type rows = convertRoleType(RankedTensorType::get({sm90::kTileRows}, b.getF32Type()));
  for (int64_t group = 0; group < cast<sm90::SmemType>(tile.getType()).getColumns(); ++group)
    state.scales.push_back(
        sm90::LoadSharedOp::create(b, rows, tile, b.getI64IntegerAttr(group)));
  sm90::ReleaseOp::create(b, scales, state.scaleStage, /*remote=*/false);
  state.scaleStage = next(state.scaleStage, scales);
}

/// Of a half's column, what a thread multiplies its rows by: their scales times what operands are
/// more than their codes stand for, or nothing.
Value relay::Kernel::getScale(KeyState &state, bool isLeft, int64_t column) {
  if (state.scales.empty())
    return constantFloat(1, b.getF32Type());
  int64_t first = isLeft ? 0 : shape.getLeftColumns();
  Value rows = state.scales[(first + column) / sm90::kCodePanelColumns];
  return arith::MulFOp::create(b, rows, constantFloat(kCodeFactor, rows.getType()));
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// One product is in flight while the next operands are made: it has the registers of two. Each is
/// a group of its own: ptxas puts a fence of its own into one that goes on behind a wait, a loop
/// (C7519).
void relay::Kernel::multiplyPanel(Products &products, Value keys, Value queryTile) {
  sm90::WgmmaFenceOp::create(b);
  products.scores =
      sm90::WgmmaOp::create(b, products.scores.getType(), keys, queryTile, products.scores,
                            /*transpose_lhs=*/false, /*transpose_rhs=*/true);
  sm90::WgmmaCommitOp::create(b);
  ++products.count;
}

/// 64 columns of codes from a panel's column on.
Value relay::Kernel::loadWords(Value ring, Value stage, int64_t column) {
  constexpr int64_t wordColumns = 4;
  Type type = getFragmentType(sm90::kPanelColumns / wordColumns, b.getI32Type());
  return sm90::LoadCodeWordsOp::create(b, type, tileOf(ring, stage, 0), column,
                                       sm90::kPanelColumns);
}

/// An operand in registers, once they are free.
Value relay::Kernel::turnWords(Products &products, Value words, Value scale) {
  constexpr int64_t buffers = 2;
  if (products.count >= buffers)
    sm90::WgmmaWaitOp::create(b, TypeRange(), /*pending=*/buffers - 1, ValueRange());
  return sm90::ScaleCodesOp::create(b, getFragmentType(sm90::kPanelColumns, shape.operand), words,
                                    scale);
}

/// RoPE keys come first: they are small.
void relay::Kernel::multiplyRopeKeys(KeyState &state, Products &products) {
  if (!shape.hasRope())
    return;
  if (!shape.hasRopeCodes) {
    sm90::AwaitOp::create(b, ropes, state.ropes, 0);
    for (int64_t panel = 0; panel < shape.ropePanels; ++panel)
      multiplyPanel(products, panels(tileOf(ropes, state.ropes, 0), panel, 1),
                    panels(state.queryTiles[1], panel, 1));
    return;
  }
  constexpr int64_t perStage = sm90::kCodePanelColumns / sm90::kPanelColumns;
  for (int64_t panel = 0; panel < shape.ropePanels; ++panel) {
    int64_t inStage = panel % perStage;
    if (inStage == 0)
      sm90::AwaitOp::create(b, rightCodes, state.rightCodes, 0);
    Value words = loadWords(rightCodes, state.rightCodes, inStage * sm90::kPanelColumns);
    Value keys = turnWords(products, words, constantFloat(1, b.getF32Type()));
    if (inStage + 1 == perStage || panel + 1 == shape.ropePanels) {
      sm90::ReleaseOp::create(b, rightCodes, state.rightCodes, /*remote=*/false);
      state.rightCodes = next(state.rightCodes, rightCodes);
    }
    multiplyPanel(products, keys, panels(state.queryTiles[1], panel, 1));
  }
}

/// Codes are loaded a step ahead of stores that may, for all that LLVM knows, be to the same place.
/// What threads refill is free as soon as it is in registers; what TMA does needs a fence behind
/// reads: one for all of the half.
void relay::Kernel::multiplyHalf(KeyState &state, Products &products, bool isLeft) {
  Value codes = isLeft ? leftCodes : rightCodes, ring = isLeft ? left : right;
  Value &codesStage = isLeft ? state.leftCodes : state.rightCodes;
  Value slot = isLeft ? state.left : state.right;
  int64_t columns = isLeft ? shape.getLeftColumns() : shape.getRightColumns();
  int64_t firstQuery = isLeft ? 0 : shape.leftPanels;
  SmallVector<Value> read;
  auto free = [&](Value stage) { sm90::ReleaseOp::create(b, codes, stage, /*remote=*/false); };
  auto take = [&](int64_t column) {
    int64_t inPanel = column % sm90::kCodePanelColumns;
    if (inPanel == 0)
      sm90::AwaitOp::create(b, codes, codesStage, 0);
    Value words = loadWords(codes, codesStage, inPanel);
    if (inPanel + sm90::kPanelColumns == sm90::kCodePanelColumns) {
      shape.usesTma ? read.push_back(codesStage) : free(codesStage);
      codesStage = next(codesStage, codes);
    }
    return words;
  };
  Value words = take(0);
  for (int64_t column = 0; column < columns; column += sm90::kPanelColumns) {
    Value keys = turnWords(products, words, getScale(state, isLeft, column));
    if (int64_t behind = column + sm90::kPanelColumns; behind < columns)
      words = take(behind);
    if (column == 0)
      sm90::AcquireOp::create(b, ring, slot);
    sm90::StoreSharedOp::create(b, keys, tileOf(ring, slot, 0), /*transposed=*/false,
                                b.getI64IntegerAttr(column));
    multiplyPanel(products, keys,
                  panels(state.queryTiles[0], firstQuery + column / sm90::kPanelColumns, 1));
  }
  for (Value stage : read)
    free(stage);
}

/// S^T of the block at `position`, [64 keys, 64 rows], and under it, of a list, whether there is a
/// gap.
Value relay::Kernel::multiplyKeys(KeyState &state, Value position, Value &gap) {
  RankedTensorType type = getFragmentType(sm90::kTileRows, b.getF32Type());
  Products products{constantFloat(0, type)};
  takeScales(state);
  multiplyRopeKeys(state, products);
  multiplyHalf(state, products, /*isLeft=*/true);
  multiplyHalf(state, products, /*isLeft=*/false);
  gap = findGap(state.cloner, position);
  auto wait =
      sm90::WgmmaWaitOp::create(b, products.scores.getType(), /*pending=*/0, products.scores);
  if (ropes) {
    sm90::ReleaseOp::create(b, ropes, state.ropes, /*remote=*/false);
    state.ropes = next(state.ropes, ropes);
  }
  return wait.getResult(0);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Maps the reference that the block's exponents are relative to, and the correction: the carried
/// one and 1, unless a score is beyond it by more than the lag. Then maxima are folded.
void relay::Kernel::moveReference(KeyState &state) {
  LazyCloner &cloner = state.cloner;
  // The loop carries the reference, the sum and the output.
  unsigned index = 0;
  while (index == loop.sum.index || index == loop.outputIndex)
    ++index;
  Value carried = state.carried[index], moved = loop.keys.getYieldedValues()[index];
  Value exponents = cloner.get(loop.scoresLog2);
  Value most = arith::AddFOp::create(b, carried, constantFloat(loop.lag, carried.getType()));
  Value limits = sm90::BroadcastOp::create(b, exponents.getType(), most);
  // Unordered: NaN moves it, as it moves a maximum.
  Value isBeyond = arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, exponents, limits);
  Value any = sm90::RoleAnyOp::create(b, isBeyond);
  auto branch = scf::IfOp::create(b, TypeRange{carried.getType(), carried.getType()}, any,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    LazyCloner::Scope scope(cloner);
    b.setInsertionPointToStart(branch.thenBlock());
    Value scores = cloner.get(loop.blockMax.getDefiningOp<tile::ReduceOp>().getSource());
    cloner.map(loop.blockMax, sm90::ReduceOp::create(b, carried.getType(), sm90::ReduceKind::Max,
                                                     scores, scratch, /*dim=*/0));
    Value reference = cloner.get(moved);
    scf::YieldOp::create(b, ValueRange{reference, cloner.get(loop.correction)});
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, ValueRange{carried, constantFloat(1, carried.getType())});
  }
  cloner.map(moved, branch.getResult(0));
  cloner.map(loop.correction, branch.getResult(1));
}

/// As the products with values take them.
Value relay::Kernel::narrowWeights(LazyCloner &cloner) {
  auto narrow = loop.weights.getDefiningOp<arith::TruncFOp>();
  Value wide = cloner.get(narrow ? narrow.getIn() : loop.weights);
  return arith::TruncFOp::create(b, cast<RankedTensorType>(wide.getType()).clone(shape.operand),
                                 wide);
}

/// The softmax of `scores`: publishes weights and factors, with the values that they meet, and
/// replaces the carried state. `position`, where given, is the loop's position at the block,
/// whose mask matters then; of a list where there is a `gap`.
void relay::Kernel::emitKeySoftmax(KeyState &state, Value scores, Value position, Value gap) {
  LazyCloner &cloner = state.cloner;
  LazyCloner::Scope scope(cloner);
  for (auto [argument, value] : llvm::zip_equal(loop.keys.getRegionIterArgs(), state.carried))
    if (value)
      cloner.map(argument, value);
  cloner.map(loop.getScores(), scores);
  if (position)
    cloner.map(loop.keys.getInductionVar(), position);
  else
    cloner.map(loop.mask.getResult(), scores);
  if (gap)
    maskWhere(cloner, gap);

  moveReference(state);
  Value numerators = cloner.get(loop.numerators);
  Value correction = cloner.get(loop.correction);
  Value &sum = state.carried[loop.sum.index];
  Value factor = sm90::BroadcastOp::create(b, sum.getType(), correction);
  sum = arith::AddFOp::create(b, arith::MulFOp::create(b, sum, factor), numerators);
  for (auto [index, value] : llvm::enumerate(state.carried))
    if (value && index != loop.sum.index)
      value = cloner.get(loop.keys.getYieldedValues()[index]);

  Value narrow = narrowWeights(cloner);
  sm90::AcquireOp::create(b, weights, state.weights);
  sm90::StoreSharedOp::create(b, correction, factorsOf(state.weights),
                              /*transposed=*/false, /*column=*/IntegerAttr());
  sm90::StoreSharedOp::create(b, narrow, tileOf(weights, state.weights, 0), /*transposed=*/true,
                              /*column=*/IntegerAttr());
  // One fence serves all three.
  sm90::PublishOp::create(b, left, state.left, 0);
  sm90::PublishOp::create(b, right, state.right, 0);
  sm90::PublishOp::create(b, weights, state.weights, 0);
  state.left = next(state.left, left);
  state.right = next(state.right, right);
}

/// The list's entries, one for each key, which all rows share.
void relay::Kernel::mapEntries(LazyCloner &cloner) {
  tile::LoadOp load = loop.entries;
  Value list = viewList(cloner);
  auto type = load.getType();
  Type rows = convertRoleType(RankedTensorType::get({sm90::kTileRows}, type.getElementType()));
  Value entries = sm90::LoadOp::create(b, rows, list, cloner.get(load.getOffsets()[1]),
                                       /*paired=*/false);
  cloner.map(load.getResult(), sm90::BroadcastOp::create(b, convertTransposedType(type), entries));
}

//===----------------------------------------------------------------------===//
// Blocks and items
//===----------------------------------------------------------------------===//

/// Emits `body` where `condition` holds.
static void emitWhere(ImplicitLocOpBuilder &b, Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// `block` of an item whose last one is `last`. A block that is not masked is neither the last nor
/// the one before.
void relay::Kernel::emitKeyBlock(KeyState &state, Value block, Value last, bool isMasked) {
  Value position = isMasked ? positionOf(state.cloner, block) : Value(), gap;
  Value scores = multiplyKeys(state, position, gap);
  auto open = [&](Value stage) { sm90::PublishOp::create(b, gate, stage, 0); };
  if (gate) {
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, block, constant32(0));
    emitWhere(b, isBehind, [&] { open(state.gate); });
  }
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, block, last);
  if (isMasked)
    emitWhere(b, isLast, [&] { // all products with these queries are done
      sm90::ReleaseOp::create(b, queries, state.queries, /*remote=*/false);
      Value item = state.cloner.get(loop.items.getInductionVar());
      loadQueries(arith::AddIOp::create(b, item, constantIndex(1)), next(state.queries, queries));
    });
  emitKeySoftmax(state, scores, position, gap);
  if (gate && isMasked)
    emitWhere(b, isLast, [&] { open(state.weights); });
  state.gate = state.weights;
  state.weights = next(state.weights, weights);
}

void relay::Kernel::emitKeyBlocks(KeyState &state, Value from, Value last, bool isMasked) {
  Value end = isMasked ? arith::AddIOp::create(b, last, constant32(1)).getResult()
                       : arith::SubIOp::create(b, last, constant32(1)).getResult();
  auto blocks = createLoop(from, end, state.pack(), /*atLeastOnce=*/isMasked,
                           [&](Value block, ValueRange values) {
                             LazyCloner::Scope scope(state.cloner);
                             state.unpack(values);
                             emitKeyBlock(state, block, last, isMasked);
                             return state.pack();
                           });
  state.unpack(blocks.getResults());
}

/// What the key loop starts from; the sum's shares are a thread's.
void relay::Kernel::startKeyState(KeyState &state) {
  state.carried.clear();
  for (auto [index, init] : llvm::enumerate(loop.keys.getInitArgs())) {
    if (index == loop.outputIndex)
      state.carried.push_back(Value());
    else if (index == loop.sum.index)
      state.carried.push_back(constantFloat(0, getFragmentType(sm90::kTileRows, b.getF32Type())));
    else
      state.carried.push_back(startReference(state.cloner.get(init)));
  }
}

/// As finishRows, of vectors that all warps hold.
void relay::Kernel::finishKeyRows(KeyState &state) {
  LazyCloner &cloner = state.cloner;
  Value &sum = state.carried[loop.sum.index];
  sm90::BarrierOp::create(b); // the scratch may be in use
  sum = sm90::ReduceOp::create(b,
                               convertTransposedType(loop.keys.getResult(loop.sum.index).getType()),
                               sm90::ReduceKind::Sum, sum, scratch, /*dim=*/0);
  for (auto [index, value] : llvm::enumerate(state.carried))
    if (value)
      cloner.map(loop.keys.getResult(index), value);
  publishCrossingRows(cloner, state.scale);
  emitEpilogue(cloner, /*rank=*/1, /*firstColumn=*/0, /*scratch=*/Value());
}

void relay::Kernel::emitKeyItem(KeyState &state) {
  Value last = arith::SubIOp::create(b, countBlocks(state.cloner), constant32(1));
  state.queryTiles = awaitQueries(state.cloner, state.queries);
  startKeyState(state);
  Value first = constant32(0);
  if (!shape.isListed) { // only the last two may hold keys that a row does not see
    emitKeyBlocks(state, first, last, /*isMasked=*/false);
    first = arith::MaxSIOp::create(b, arith::SubIOp::create(b, last, constant32(1)), first);
  }
  emitKeyBlocks(state, first, last, /*isMasked=*/true);
  state.queries = next(state.queries, queries);
  finishKeyRows(state);
}

void relay::Kernel::emitKeyScores() {
  Value start = sm90::StageStartOp::create(b);
  waitForDependency();
  loadQueries(begin, start);
  KeyState state(LazyCloner(
      entry, [](Operation *, Type type) { return convertTransposedType(type); },
      /*isTransposed=*/true));
  for (Value *stage : state.getStages())
    *stage = start;
  createLoop(to32(begin), to32(end), state.packStages(), /*atLeastOnce=*/true,
             [&](Value item, ValueRange values) {
               LazyCloner::Scope scope(state.cloner);
               state.unpackStages(values);
               state.cloner.map(loop.items.getInductionVar(), toIndex(item));
               emitKeyItem(state);
               return state.packStages();
             });
}
