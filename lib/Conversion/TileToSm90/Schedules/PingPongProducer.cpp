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
//===----------------------------------------------------------------------===//

#include "PingPongKernel.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::pingpong;

/// The stages it fills next.
struct pingpong::Kernel::Cursor {
  LazyCloner cloner;
  Value queries, keys, values; // both rings of queries are at the same stage

  SmallVector<Value> pack() const { return {queries, keys, values}; }
  void unpack(ValueRange stages) { queries = stages[0], keys = stages[1], values = stages[2]; }
};

void pingpong::Kernel::copyQueries(Cursor &cursor, int32_t consumer) {
  Value ring = queries[consumer];
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.programs.getInductionVar(), constantIndex(consumer));
  sm90::AcquireOp::create(b, ring, cursor.queries);
  int64_t bytes = cast<sm90::RingType>(ring.getType()).getStageBytes();
  sm90::ExpectOp::create(b, ring, cursor.queries, 0, bytes);
  for (auto [index, map] : llvm::enumerate(queryMaps))
    sm90::TmaLoadOp::create(b, map, queryRows[index].getCoordinates(b, cursor.cloner),
                            tileOf(ring, cursor.queries, index), ring, cursor.queries, 0, 0,
                            IntegerAttr());
}

void pingpong::Kernel::copyKeys(Cursor &cursor, Value block) {
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.keys.getInductionVar(), positionOf(cursor.cloner, block));
  sm90::AcquireOp::create(b, keys, cursor.keys);
  int64_t bytes = cast<sm90::RingType>(keys.getType()).getStageBytes();
  sm90::ExpectOp::create(b, keys, cursor.keys, 0, bytes);
  for (auto [index, map] : llvm::enumerate(keyMaps))
    sm90::TmaLoadOp::create(b, map, keyRows[index].getCoordinates(b, cursor.cloner),
                            tileOf(keys, cursor.keys, index), keys, cursor.keys, 0, 0,
                            IntegerAttr());
  cursor.keys = next(cursor.keys, keys);
}

void pingpong::Kernel::copyValues(Cursor &cursor, Value block) {
  LazyCloner::Scope scope(cursor.cloner);
  cursor.cloner.map(loop.keys.getInductionVar(), positionOf(cursor.cloner, block));
  sm90::AcquireOp::create(b, values, cursor.values);
  int64_t bytes = cast<sm90::RingType>(values.getType()).getStageBytes();
  sm90::ExpectOp::create(b, values, cursor.values, 0, bytes);
  sm90::TmaLoadOp::create(b, valueMap, valueRows->getCoordinates(b, cursor.cloner),
                          tileOf(values, cursor.values, 0), values, cursor.values, 0, 0,
                          IntegerAttr());
  cursor.values = next(cursor.values, values);
}

void pingpong::Kernel::emitProducerItem(Cursor &cursor) {
  // What does not differ between the programs is computed once.
  Value blocks = countBlocks(cursor.cloner);
  Value last = arith::SubIOp::create(b, blocks, constant32(1));
  copyKeys(cursor, last);
  for (int32_t consumer = 0; consumer < kConsumers; ++consumer)
    copyQueries(cursor, consumer);
  cursor.queries = next(cursor.queries, queries[0]);
  auto rest = createLoop(constant32(1), blocks, cursor.pack(), [&](Value step, ValueRange stages) {
    cursor.unpack(stages);
    Value block = arith::SubIOp::create(b, last, step);
    copyKeys(cursor, block);
    copyValues(cursor, arith::AddIOp::create(b, block, constant32(1)));
    return cursor.pack();
  });
  cursor.unpack(rest.getResults());
  copyValues(cursor, constant32(0));
}

void pingpong::Kernel::emitProducer() {
  auto elect = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elect.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elect.getBody().front());
  Value start = sm90::StageStartOp::create(b);
  auto convert = [](Operation *, Type type) { return convertRoleType(type); };
  Cursor cursor{LazyCloner(entry, convert), start, start, start};
  emitItems(cursor.cloner, cursor.pack(), [&](ValueRange stages) {
    cursor.unpack(stages);
    emitProducerItem(cursor);
    return cursor.pack();
  });
}
