//===- PingPongProducer.cpp - copies queries, keys and values ahead of the products ---*- C++
//-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread, in the order in which the math roles need what it copies:
//
//     K(n-1)  Q  | K(n-2) V(n-1) | K(n-3) V(n-2) | ... | V(0)   then the next item
//
// It takes the next item's number with the last copies of one, which is two blocks ahead
// of the products: who took it earlier would not be who is free first. It alone goes
// through the requests to the one that has the item, and tells the other roles.
//
//===----------------------------------------------------------------------===//

#include "PingPong/PingPongKernel.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::pingpong;

/// The stages it fills next.
struct pingpong::Kernel::Cursor {
  LazyCloner cloner;
  Value queries, keys, values, items; // both rings of queries are at the same stage
  Value first;                        // position of the item's first block

  SmallVector<Value> pack() const { return {queries, keys, values, items}; }
  void unpack(ValueRange stages) {
    queries = stages[0], keys = stages[1], values = stages[2], items = stages[3];
  }
};

/// Items of all requests are numbered through. The first of a program is that of its
/// own number; where the loop of the tile program goes on by steps, `body` says which
/// item is next. Returns what is carried behind the last.
SmallVector<Value> pingpong::Kernel::emitItems(LazyCloner &cloner, ValueRange carried,
                                               ItemBody body) {
  Value first = cloner.get(loop.requests.getInitArgs().front());
  if (loop.isUniform)
    return emitUniformItems(cloner, first, carried, body);
  SmallVector<Value> inits{first, constant32(0)};
  llvm::append_range(inits, carried);
  auto requests = scf::ForOp::create(b, cloner.get(loop.requests.getLowerBound()),
                                     cloner.get(loop.requests.getUpperBound()),
                                     cloner.get(loop.requests.getStep()), inits);
  OpBuilder::InsertionGuard guard(b);
  LazyCloner::Scope scope(cloner);
  b.setInsertionPointToEnd(requests.getBody());
  cloner.map(loop.requests.getInductionVar(), requests.getInductionVar());
  Value begin = requests.getRegionIterArg(1);
  Value end = arith::AddIOp::create(b, begin, cloner.get(loop.items.getUpperBound()));
  SmallVector<Value> atRequest{requests.getRegionIterArg(0)};
  llvm::append_range(atRequest, requests.getRegionIterArgs().drop_front(2));
  SmallVector<Value> filled = emitRequest(cloner, begin, end, atRequest, body);
  filled.insert(filled.begin() + 1, end);
  scf::YieldOp::create(b, filled);
  return SmallVector<Value>(requests.getResults().drop_front(2));
}

/// The same where an item's number says whose it is, so that nobody has to go through the requests.
SmallVector<Value> pingpong::Kernel::emitUniformItems(LazyCloner &cloner, Value first,
                                                      ValueRange carried, ItemBody body) {
  Value ofEach = cloner.get(loop.items.getUpperBound());
  Value requests = to32(cloner.get(loop.requests.getUpperBound()));
  Value end = arith::MulIOp::create(b, requests, ofEach);
  SmallVector<Value> inits{first};
  llvm::append_range(inits, carried);
  auto items = scf::WhileOp::create(
      b, TypeRange(ValueRange(inits)), inits,
      [&](OpBuilder &, Location, ValueRange all) {
        Value isOurs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, all[0], end);
        scf::ConditionOp::create(b, isOurs, all);
      },
      [&](OpBuilder &, Location, ValueRange all) {
        LazyCloner::Scope scope(cloner);
        Value request = arith::DivUIOp::create(b, all[0], ofEach);
        Value before = arith::MulIOp::create(b, request, ofEach);
        cloner.map(loop.requests.getInductionVar(), toIndex(request));
        cloner.map(loop.items.getInductionVar(), arith::SubIOp::create(b, all[0], before));
        scf::YieldOp::create(b, body(all.drop_front()));
      });
  return SmallVector<Value>(items.getResults().drop_front());
}

/// The items from `begin` to `end` that come to this program; `carried` begins with
/// the next one's number.
SmallVector<Value> pingpong::Kernel::emitRequest(LazyCloner &cloner, Value begin, Value end,
                                                 ValueRange carried, ItemBody body) {
  auto items = scf::WhileOp::create(
      b, carried.getTypes(), carried,
      [&](OpBuilder &, Location, ValueRange all) {
        Value isOurs = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, all[0], end);
        scf::ConditionOp::create(b, isOurs, all);
      },
      [&](OpBuilder &, Location, ValueRange all) {
        LazyCloner::Scope scope(cloner);
        cloner.map(loop.items.getInductionVar(), arith::SubIOp::create(b, all[0], begin));
        scf::YieldOp::create(b, body(all.drop_front()));
      });
  return SmallVector<Value>(items.getResults());
}

/// Copies what `cloner` is at to each tile of a stage once it is free. Returns the next stage.
Value pingpong::Kernel::fillStage(Value ring, Value stage, ArrayRef<KeyBlocks> blocks,
                                  LazyCloner &cloner, bool isInside) {
  // Block tables are read while the stage is not free yet.
  auto places = llvm::map_to_vector(
      blocks, [&](const KeyBlocks &rows) { return rows.find(b, cloner, isInside); });
  sm90::AcquireOp::create(b, ring, stage);
  int64_t bytes = cast<sm90::RingType>(ring.getType()).getStageBytes();
  sm90::ExpectOp::create(b, ring, stage, 0, bytes);
  for (auto [index, rows] : llvm::enumerate(blocks))
    rows.copy(b, places[index], tileOf(ring, stage, index), ring, stage);
  return next(stage, ring);
}

void pingpong::Kernel::copyQueries(Cursor &cursor, int32_t consumer) {
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.programs.getInductionVar(), constantIndex(consumer));
  (void)fillStage(queries[consumer], cursor.queries, queryBlocks, cursor.cloner,
                  /*isInside=*/false);
}

void pingpong::Kernel::copyKeys(Cursor &cursor, Value block, bool isInside) {
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.keys.getInductionVar(), positionOf(cursor.first, block));
  cursor.keys = fillStage(keys, cursor.keys, keyBlocks, cursor.cloner, isInside);
}

void pingpong::Kernel::copyValues(Cursor &cursor, Value block, bool isInside) {
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.keys.getInductionVar(), positionOf(cursor.first, block));
  cursor.values = fillStage(values, cursor.values, valueBlocks, cursor.cloner, isInside);
}

Value pingpong::Kernel::addToCounter(int64_t index, Value number) {
  return memref::AtomicRMWOp::create(b, arith::AtomicRMWKind::addi, number,
                                     entry.get(loop.counters), constantIndex(index));
}

/// The next item's number. The first items are those of the programs' own numbers.
Value pingpong::Kernel::takeItem(Cursor &cursor) {
  Value taken = addToCounter(kItemsTaken, constant32(1));
  return arith::AddIOp::create(b, taken, cursor.cloner.get(loop.items.getStep()));
}

/// Tells the other roles an item of a request.
void pingpong::Kernel::sendItem(Cursor &cursor, Value item, Value request) {
  sm90::AcquireOp::create(b, items, cursor.items);
  auto [itemSlot, requestSlot] = slotsOf(cursor.cloner);
  memref::StoreOp::create(b, item, entry.get(loop.counters), itemSlot);
  memref::StoreOp::create(b, to32(request), entry.get(loop.counters), requestSlot);
  sm90::PublishOp::create(b, items, cursor.items, 0);
  cursor.items = next(cursor.items, items);
}

/// Whoever is the last to find no item left makes the counters what they were.
void pingpong::Kernel::returnCounters(Cursor &cursor) {
  Value before = addToCounter(kProgramsDone, constant32(1));
  Value last = arith::SubIOp::create(b, cursor.cloner.get(loop.items.getStep()), constant32(1));
  Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, before, last);
  auto branch = scf::IfOp::create(b, isLast, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  for (int64_t index : {kItemsTaken, kProgramsDone})
    memref::StoreOp::create(b, constant32(0), entry.get(loop.counters), constantIndex(index));
}

/// The last block's rows need not all be there; those of all others are.
void pingpong::Kernel::copySecondBlock(Cursor &cursor, Value last) {
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, last, constant32(0));
  SmallVector<Value> before = cursor.pack();
  auto branch = scf::IfOp::create(b, ValueRange(before).getTypes(), isThere,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    copyKeys(cursor, arith::SubIOp::create(b, last, constant32(1)), /*isInside=*/true);
    copyValues(cursor, last, /*isInside=*/false);
    scf::YieldOp::create(b, cursor.pack());
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, before);
  }
  cursor.unpack(branch.getResults());
}

/// Returns the next item's number.
Value pingpong::Kernel::emitProducerItem(Cursor &cursor) {
  // What does not differ between the programs is computed once.
  Value blocks = countBlocks(cursor.cloner);
  cursor.first = firstOf(cursor.cloner);
  for (const KeyBlocks &rows : llvm::concat<const KeyBlocks>(keyBlocks, valueBlocks))
    rows.hoist(cursor.cloner);
  Value last = arith::SubIOp::create(b, blocks, constant32(1));
  copyKeys(cursor, last, /*isInside=*/false);
  sendItem(cursor, cursor.cloner.get(loop.items.getInductionVar()),
           cursor.cloner.get(loop.requests.getInductionVar()));
  for (int32_t consumer = 0; consumer < kConsumers; ++consumer)
    copyQueries(cursor, consumer);
  cursor.queries = next(cursor.queries, queries[0]);
  if (loop.isPaged)
    copySecondBlock(cursor, last);
  Value from = constant32(loop.isPaged ? 2 : 1);
  auto rest = createLoop(from, blocks, cursor.pack(), [&](Value step, ValueRange stages) {
    cursor.unpack(stages);
    Value block = arith::SubIOp::create(b, last, step);
    copyKeys(cursor, block, /*isInside=*/true);
    copyValues(cursor, arith::AddIOp::create(b, block, constant32(1)), /*isInside=*/true);
    return cursor.pack();
  });
  cursor.unpack(rest.getResults());
  Value item = takeItem(cursor);
  copyValues(cursor, constant32(0), /*isInside=*/false);
  return item;
}

void pingpong::Kernel::emitProducer() {
  auto elect = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elect.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elect.getBody().front());
  Value start = sm90::StageStartOp::create(b);
  auto convert = [](Operation *, Type type) { return convertRoleType(type); };
  Cursor cursor{LazyCloner(entry, convert), start, start, start, start, Value()};
  (void)cursor.cloner.get(loop.items.getStep()); // outside of the loops
  (void)slotsOf(cursor.cloner);
  SmallVector<Value> stages = emitItems(cursor.cloner, cursor.pack(), [&](ValueRange stages) {
    cursor.unpack(stages);
    Value item = emitProducerItem(cursor);
    SmallVector<Value> all = cursor.pack();
    all.insert(all.begin(), item);
    return all;
  });
  cursor.unpack(stages);
  sendItem(cursor, constant32(0), cursor.cloner.get(loop.requests.getUpperBound()));
  returnCounters(cursor);
}
