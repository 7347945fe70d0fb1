//===- RelayOutput.cpp - the roles that own halves of the output ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The role consumes its ring's entries in order and refills each slot it has
// freed with the entry that comes as many places later as the ring has slots. A
// cursor walks ahead over the part's items for that:
//
//     left    entries of an item: its queries, then its blocks of keys
//     right   its blocks of keys (and their RoPE part, in a ring of its own)
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"
#include "Common/SoftmaxRole.h"
#include "Relay/RelayOutputState.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

//===----------------------------------------------------------------------===//
// Refilling
//===----------------------------------------------------------------------===//

/// Maps `cloner` to the item at the cursor and, of its keys, the entry's block.
/// Behind the last item it stays at the last.
relay::Kernel::Entry relay::Kernel::locate(Cursor &cursor, LazyCloner &cloner) {
  Value end32 = to32(end), one = constant32(1), zero = constant32(0);
  Entry found{arith::CmpIOp::create(b, arith::CmpIPredicate::slt, cursor.item, end32), {}, {}};
  Value last = arith::SubIOp::create(b, end32, one), block = cursor.entry;
  cloner.map(loop.items.getInductionVar(), toIndex(arith::MinSIOp::create(b, cursor.item, last)));
  if (cursor.hasQueries) {
    found.isQuery = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, cursor.entry, zero);
    block = arith::MaxSIOp::create(b, arith::SubIOp::create(b, cursor.entry, one), zero);
    found.queryPlace = queryMaps[0].getCoordinates(b, cloner);
    found.queryPlace.back() = constantIndex(0);
  }
  cloner.map(loop.keys.getInductionVar(), positionOf(cloner, block));
  return found;
}

Value relay::Kernel::countEntries(Cursor &cursor, LazyCloner &cloner) {
  Value blocks = countBlocks(cloner);
  return cursor.hasQueries ? arith::AddIOp::create(b, blocks, constant32(1)) : blocks;
}

/// Moves the cursor to the entry behind, in an item of `entries`.
void relay::Kernel::advance(Cursor &cursor, Value entries) {
  Value one = constant32(1), following = arith::AddIOp::create(b, cursor.entry, one);
  Value isEnd = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, following, entries);
  cursor.entry = arith::SelectOp::create(b, isEnd, constant32(0), following);
  Value nextItem = arith::AddIOp::create(b, cursor.item, one);
  cursor.item = arith::SelectOp::create(b, isEnd, nextItem, cursor.item);
}

/// Emits `body` where the entry is keys, else the copy of the item's queries.
void relay::Kernel::emitKeysOrQueries(OutputState &state, LazyCloner &cloner, const Entry &entry,
                                      Value tile, llvm::function_ref<void()> body) {
  if (!entry.isQuery)
    return body();
  tile::LoadOp query = loop.terms[0].query;
  auto branch = scf::IfOp::create(b, entry.isQuery, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  {
    LazyCloner::Scope scope(cloner);
    b.setInsertionPointToStart(branch.thenBlock());
    if (shape.usesTma)
      sm90::TmaLoadOp::create(b, queryMaps[0].getMap(), entry.queryPlace, tile, left, state.filled,
                              0, 0, IntegerAttr());
    else
      sm90::CopyOp::create(
          b, cloner.get(query.getView()), cloner.get(query.getOffsets()), tile,
          static_cast<int32_t>(chooseVectorBytes(query.getView(), query.getOffsets().back())));
  }
  LazyCloner::Scope scope(cloner);
  b.setInsertionPointToStart(branch.elseBlock());
  body();
}

/// One thread fills the slot at the cursor.
void relay::Kernel::emitCopies(OutputState &state, LazyCloner &cloner, const Entry &entry,
                               const PagedTiles::Block &block) {
  Value ring = state.isLeft ? left : right;
  const PagedTiles &keys = state.isLeft ? leftKeys : rightKeys;
  sm90::AcquireOp::create(b, ring, state.filled);
  Value tile = tileOf(ring, state.filled, 0);
  int64_t perPart = state.isLeft ? shape.leftPanels : options.rightPanelsPerPart;
  int64_t count = state.isLeft ? shape.leftPanels : shape.rightPanels;
  int64_t first = state.isLeft ? 0 : shape.leftPanels;
  for (int64_t panel = 0; panel < count; panel += perPart) {
    Value target = panels(tile, panel, perPart);
    int64_t bytes = cast<sm90::SmemType>(target.getType()).getByteSize();
    sm90::ExpectOp::create(b, ring, state.filled, panel / perPart, bytes);
    emitKeysOrQueries(state, cloner, entry, tile, [&] {
      keys.copy(b, b.getLoc(), block, (first + panel) * sm90::kPanelColumns, target, ring,
                state.filled, panel / perPart);
    });
  }
  if (state.isLeft || !shape.hasRope())
    return;
  sm90::AcquireOp::create(b, ropes, state.filledRope);
  Value ropeTile = tileOf(ropes, state.filledRope, 0);
  sm90::ExpectOp::create(b, ropes, state.filledRope, 0,
                         cast<sm90::SmemType>(ropeTile.getType()).getByteSize());
  rope.copy(b, b.getLoc(), block, 0, ropeTile, ropes, state.filledRope, 0);
}

/// The scalars of row copies, so that what they are loaded from is read here.
void relay::Kernel::fetchScalars(LazyCloner &cloner) {
  for (AttentionLoop::Term &term : loop.terms) {
    auto load = dyn_cast<tile::LoadPagedOp>(term.keys);
    if (!load) {
      cloner.get(term.keys->getOperands());
      continue;
    }
    for (Value value : {Value(load.getPool()), Value(load.getTable()), Value(load.getToken()),
                        Value(load.getLimit())})
      cloner.get(value);
  }
}

/// All threads fill the slot at the cursor.
void relay::Kernel::emitRowCopies(OutputState &state, LazyCloner &cloner, const Entry &entry) {
  Value ring = state.isLeft ? left : right;
  sm90::AcquireOp::create(b, ring, state.filled);
  Value tile = tileOf(ring, state.filled, 0);
  emitKeysOrQueries(state, cloner, entry, tile, [&] {
    copyKeyRows(b, cloner, loop.terms[0].keys, state.isLeft ? 0 : shape.getLeftColumns(), tile);
  });
  sm90::CopyPublishOp::create(b, ring, state.filled, 0);
  if (state.isLeft || !shape.hasRope())
    return;
  sm90::AcquireOp::create(b, ropes, state.filledRope);
  copyKeyRows(b, cloner, loop.terms[1].keys, 0, tileOf(ropes, state.filledRope, 0));
  sm90::CopyPublishOp::create(b, ropes, state.filledRope, 0);
}

/// Finds the entry at the cursor (before `untilFree`, so that the loads of the
/// block table overlap with what it emits), fills its slot after, and moves on.
void relay::Kernel::refill(OutputState &state, llvm::function_ref<void()> untilFree) {
  if (shape.hasCodes)
    return refillCodes(state, untilFree);
  auto convert = [this](Operation *, Type type) { return convertOutputType(type); };
  LazyCloner cloner(entry, convert);
  Entry found = locate(state.cursor, cloner);
  Value entries = countEntries(state.cursor, cloner);
  // The thread that copies finds many pages by itself: held by all threads across
  // the product they would not fit into registers.
  PagedTiles::Block block;
  if (findsPagesEarly())
    block = leftKeys.find(b, cloner);
  else if (!shape.usesTma)
    fetchScalars(cloner);

  if (untilFree)
    untilFree();

  {
    OpBuilder::InsertionGuard guard(b);
    if (shape.usesTma) {
      auto elect = sm90::ElectOp::create(b);
      b.createBlock(&elect.getBody());
      sm90::EndOp::create(b);
      b.setInsertionPointToStart(&elect.getBody().front());
    }
    auto branch = scf::IfOp::create(b, found.exists, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
    LazyCloner::Scope scope(cloner);
    if (!shape.usesTma)
      emitRowCopies(state, cloner, found);
    else
      emitCopies(state, cloner, found, findsPagesEarly() ? block : leftKeys.find(b, cloner));
  }
  state.filled = next(state.filled, state.isLeft ? left : right);
  if (!state.isLeft && shape.hasRope())
    // Rings of equal length are at the same stage: one register for both.
    state.filledRope =
        options.ropeStages == options.rightStages ? state.filled : next(state.filledRope, ropes);
  advance(state.cursor, entries);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Keys of the item's last block that the request has; at least a block's where
/// nothing has to be cleared.
void relay::Kernel::findTail(OutputState &state, Value blocks) {
  LazyCloner &cloner = state.cloner;
  LazyCloner::Scope scope(cloner);
  Value last = arith::SubIOp::create(b, blocks, constant32(1));
  cloner.map(loop.keys.getInductionVar(), positionOf(cloner, last));
  auto keys = cast<tile::LoadPagedOp>(loop.terms[0].keys);
  Value limit = cloner.get(keys.getLimit());
  state.lastKeys = to32(arith::SubIOp::create(b, limit, cloner.get(keys.getToken())));
}

/// Keys behind the request's end may hold anything, and a weight of 0 does not
/// remove a NaN: zeros take their place in the values of the last block.
void relay::Kernel::clearTail(OutputState &state, Value values) {
  Value isShort = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, state.lastKeys,
                                        constant32(loop.getBlockKeys()));
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sm90::ZeroRowsOp::create(b, values, toIndex(state.lastKeys));
  sm90::BarrierOp::create(b);
}

Value relay::Kernel::startProduct(OutputState &state, bool isLast) {
  Value ring = state.isLeft ? left : right;
  sm90::AwaitOp::create(b, weights, state.weights, 0);
  Value factor = sm90::LoadSharedOp::create(b, convertRoleType(loop.correction.getType()),
                                            factorsOf(state.weights));
  Value output = rescaleIfNeeded(b, state.output, factor);
  Value values = tileOf(ring, state.consumed, 0);
  if (isLast && shape.usesTma) // copied rows end with zeros
    clearTail(state, values);
  if (state.isLeft && gate)
    sm90::AwaitOp::create(b, gate, state.weights, 0);
  sm90::WgmmaFenceOp::create(b);
  output = sm90::WgmmaOp::create(b, output.getType(), tileOf(weights, state.weights, 0), values,
                                 output, /*transpose_lhs=*/false, /*transpose_rhs=*/false);
  sm90::WgmmaCommitOp::create(b);
  return output;
}

void relay::Kernel::finishProduct(OutputState &state, Value output) {
  state.output = sm90::WgmmaWaitOp::create(b, output.getType(), /*pending=*/0, output).getResult(0);
  sm90::ReleaseOp::create(b, weights, state.weights, /*remote=*/false);
  state.weights = next(state.weights, weights);
}

void relay::Kernel::freeSlot(OutputState &state) {
  Value ring = state.isLeft ? left : right;
  sm90::ReleaseOp::create(b, ring, state.consumed, /*remote=*/false);
  state.consumed = next(state.consumed, ring);
}

void relay::Kernel::emitBlock(OutputState &state) {
  Value output;
  auto start = [&] { output = startProduct(state, /*isLast=*/false); };
  auto finish = [&] {
    finishProduct(state, output);
    freeSlot(state);
  };
  // The block table, and scales, are read while the weights are awaited, which hides a miss of the
  // caches; what keeps more than a page in registers reads it under the product.
  if (refillsFirst(state.isLeft)) {
    refill(state, {});
    start();
    return finish();
  }
  if (findsPagesEarly() || shape.hasCodes)
    return refill(state, [&] { start(), finish(); });
  start();
  refill(state, finish);
}

/// The item's output goes through the slot of its last block, which is free then;
/// the registers that the page of a refill takes are not.
void relay::Kernel::emitLastBlock(OutputState &state) {
  if (refillsFirst(state.isLeft))
    refill(state, {});
  finishProduct(state, startProduct(state, /*isLast=*/true));
  if (shape.hasCodes) { // whose outputs are stored from registers
    freeSlot(state);
    finishItem(state);
  } else {
    finishItem(state);
    freeSlot(state);
  }
  if (!refillsFirst(state.isLeft))
    refill(state, {});
}

//===----------------------------------------------------------------------===//
// Items
//===----------------------------------------------------------------------===//

/// As what codes stand for.
Value relay::Kernel::finishOutput(LazyCloner &cloner, Value output) {
  if (!shape.hasCodes)
    return output;
  return arith::MulFOp::create(b, output, getCodeRest(cloner, output.getType()));
}

void relay::Kernel::finishItem(OutputState &state) {
  LazyCloner &cloner = state.cloner;
  LazyCloner::Scope scope(cloner);
  cloner.map(loop.keys.getResult(loop.outputIndex), finishOutput(cloner, state.output));
  if (scale) {
    sm90::AwaitOp::create(b, scale, state.scale, 0);
    for (auto [index, rows] : llvm::enumerate(crossingRows))
      cloner.map(rows, sm90::LoadSharedOp::create(b, convertRoleType(rows.getType()),
                                                  tileOf(scale, state.scale, index)));
    sm90::ReleaseOp::create(b, scale, state.scale, /*remote=*/false);
    state.scale = next(state.scale, scale);
  }
  Value scratch;
  if (!shape.hasCodes) { // whose stores put columns in order
    // Every warp's product read all of the slot.
    sm90::BarrierOp::create(b);
    scratch = tileOf(state.isLeft ? left : right, state.consumed, 0);
  }
  emitEpilogue(cloner, /*rank=*/2, state.isLeft ? 0 : shape.getLeftColumns(), scratch);
}

void relay::Kernel::emitOutputItem(OutputState &state) {
  LazyCloner &cloner = state.cloner;
  Value blocks = countBlocks(cloner);
  if (shape.usesTma && !shape.hasCodes)
    findTail(state, blocks);
  if (hasQueryEntry(state.isLeft)) { // the scores role takes the queries and frees their slot
    refill(state, {});
    state.consumed = next(state.consumed, left);
  }
  auto pack = [&] {
    SmallVector<Value> values{state.output, state.consumed, state.weights};
    llvm::append_range(values, state.packCursor());
    return values;
  };
  auto unpack = [&](ValueRange values) {
    state.output = values[0], state.consumed = values[1], state.weights = values[2];
    state.unpackCursor(values.drop_front(3));
  };
  Type type = convertOutputType(loop.product.getType());
  state.output = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(type), b.getF32FloatAttr(0)));
  Value last = arith::SubIOp::create(b, blocks, constant32(1));
  auto done =
      createLoop(constant32(0), last, pack(), /*atLeastOnce=*/false, [&](Value, ValueRange values) {
        LazyCloner::Scope scope(cloner);
        unpack(values);
        emitBlock(state);
        return pack();
      });
  unpack(done.getResults());
  if (shape.usesTma && shape.hasCodes) // they leave it no register before
    findTail(state, blocks);
  emitLastBlock(state);
}

void relay::Kernel::emitOutput(bool isLeft) {
  auto convert = [this](Operation *, Type type) { return convertOutputType(type); };
  Value start = sm90::StageStartOp::create(b);
  OutputState state{isLeft,  LazyCloner(entry, convert),
                    Value(), start,
                    start,   start,
                    Value(), start,
                    start,   Cursor{hasQueryEntry(isLeft), to32(begin), constant32(0)},
                    Value(), Value()};
  if (shape.hasCodes)
    state.codes = state.filledScales = start;
  refill(state, [&] { waitForDependency(); });
  // Codes: a block that is multiplied, and one behind it.
  Value slots = constant32(shape.hasCodes ? 2 : isLeft ? options.leftStages : options.rightStages);
  auto filled = createLoop(constant32(1), slots, state.packCursor(), /*atLeastOnce=*/false,
                           [&](Value, ValueRange values) {
                             state.unpackCursor(values);
                             refill(state, {});
                             return state.packCursor();
                           });
  state.unpackCursor(filled.getResults());
  SmallVector<Value> carried{start, start, start};
  llvm::append_range(carried, state.packCursor());
  auto emitItem = [&](Value item, ValueRange values) {
    LazyCloner::Scope scope(state.cloner);
    state.consumed = values[0], state.weights = values[1], state.scale = values[2];
    state.unpackCursor(values.drop_front(3));
    state.cloner.map(loop.items.getInductionVar(), toIndex(item));
    emitOutputItem(state);
    SmallVector<Value> next{state.consumed, state.weights, state.scale};
    llvm::append_range(next, state.packCursor());
    return next;
  };
  createLoop(to32(begin), to32(end), carried, /*atLeastOnce=*/true, emitItem);
}
